/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach: regions of peers of this host that a program has mapped, for loads and stores: SCI's programmed I/O.
 *
 * Owns these mappings, and what a peer has to be told to make one (struct attach_ticket), which travels as the answer
 * to a GET (remote.c). Does not own regions (remote.c, memory.c), nor what is seen in a mapping: the driver takes away
 * what its owner has no more (docs/DRIVER.md).
 */
#include <stdlib.h>

#include "memory/driver.h"
#include "message/internal.h"

/* A mapping that thole_attach has made. */
struct attached {
	struct list_node node;
	struct driver_view view;
	char *memory; /* as the program knows it */
};

/* ---- The owner's side ------------------------------------------------------------------------------ */

int attach_lend(struct thole_region *region, uint64_t offset, bool write, struct attach_ticket *ticket_p)
{
	const struct driver *driver = region->endpoint->base.driver;

	if (!region->memory || !region->memory->id)
		return THOLE_ERR_UNSUPPORTED;
	if (!region->offer.number) {
		region->offer.id = region->memory->id;
		if (driver_call(driver, THOLE_DRIVER_OFFER, &region->offer) < 0)
			return THOLE_ERR_UNSUPPORTED;
	}
	*ticket_p = (struct attach_ticket){
		.number = region->offer.number,
		.flags = write ? THOLE_DRIVER_WRITE : 0,
		.key = {region->offer.key[0], region->offer.key[1]},
		.offset = offset,
	};
	return 0;
}

/* ---- Who attaches ---------------------------------------------------------------------------------- */

/* Whether peers can be attached at all, and this one. Under the lock. */
static int attach_check(struct thole_endpoint *endpoint, const struct thole_request *request)
{
	if (!endpoint->base.driver)
		return error_set(THOLE_ERR_UNSUPPORTED,
				 "to attach a peer's region needs the driver: `thole info` says how to get it");
	if (!attach_is_near(request->peer))
		return error_set(THOLE_ERR_UNSUPPORTED, "peer %u shares no memory with this process: its regions can "
				 "be read and written by thole_get and thole_put only",
				 request->peer->base.index);
	return 0;
}

int thole_attach(struct thole_endpoint *endpoint, uint32_t peer, uint64_t key, uint64_t offset, size_t length,
		 int write, void *context, struct thole_request **request_p)
{
	struct thole_request *request;
	int error;

	if (length == 0)
		return error_set(THOLE_ERR_ARGUMENT, "no bytes to attach");
	endpoint_lock(endpoint);
	error = message_request(endpoint, peer, THOLE_OP_ATTACH, NULL, 0, 0, context, &request);
	if (error)
		goto out;
	error = attach_check(endpoint, request);
	if (!error) {
		request->owned_data = spare_get(&endpoint->spares, sizeof(struct attach_ticket));
		if (request->owned_data)
			memset(request->owned_data, 0, sizeof(struct attach_ticket));
		else
			error = error_set(THOLE_ERR_MEMORY, "no memory to attach a region");
	}
	if (error) {
		request_free(request);
		goto out;
	}
	request->segment = (struct iovec){request->owned_data, sizeof(struct attach_ticket)};
	request->vector = (struct vector){&request->segment, 1, sizeof(struct attach_ticket)};
	request->record = (struct record){.kind = RECORD_GET, .length = RECORD_EXTERNAL, .tag = key,
					  .imm = write ? ATTACH_WRITE : ATTACH_READ};
	request->record.arg[0] = length;
	request->record.arg[2] = request_id(request);
	request->record.arg[3] = offset;
	error = message_start(request, request_p);
out:
	endpoint_unlock(endpoint);
	return error;
}

static int attach_map(const struct driver *driver, const struct attach_ticket *ticket, uint64_t length,
		      struct attached *attached)
{
	const struct thole_driver_attach offered = {
		.number = ticket->number, .flags = ticket->flags, .key = {ticket->key[0], ticket->key[1]}};
	int error = driver_view_make(driver, &offered, &attached->view);

	if (error)
		return error;
	if (ticket->offset > attached->view.length || length > attached->view.length - ticket->offset) {
		driver_view_end(&attached->view);
		return THOLE_ERR_MEMORY;
	}
	attached->memory = attached->view.memory + ticket->offset;
	return 0;
}

int attach_done(struct thole_request *request, int status)
{
	struct thole_endpoint *endpoint = request->endpoint;
	const struct attach_ticket *ticket = request->owned_data;
	uint64_t length = request->record.arg[0];
	struct attached *attached = status ? NULL : calloc(1, sizeof(*attached));

	if (!status)
		status = attached ? attach_map(endpoint->base.driver, ticket, length, attached) : THOLE_ERR_MEMORY;
	request_free_owned(request);
	request->vector.length = request->vector.count = 0;
	if (status) {
		free(attached);
		return status;
	}
	list_push_back(&endpoint->attached, &attached->node);
	request->segment = (struct iovec){attached->memory, length};
	request->vector = (struct vector){&request->segment, 1, length};
	return 0;
}

static struct attached *attached_find(struct thole_endpoint *endpoint, const void *memory)
{
	struct list_node *node;

	for (node = list_first(&endpoint->attached); node; node = list_next(&endpoint->attached, node))
		if (container_of(node, struct attached, node)->memory == memory)
			return container_of(node, struct attached, node);
	return NULL;
}

int thole_attached(struct thole_endpoint *endpoint, const void *memory)
{
	struct attached *attached;
	int whole;

	endpoint_lock(endpoint);
	attached = attached_find(endpoint, memory);
	whole = attached && driver_view_is_whole(&attached->view);
	endpoint_unlock(endpoint);
	return whole;
}

static void attached_end(struct attached *attached)
{
	driver_view_end(&attached->view);
	list_remove(&attached->node);
	free(attached);
}

void thole_detach(struct thole_endpoint *endpoint, void *memory)
{
	struct attached *attached;

	endpoint_lock(endpoint);
	attached = attached_find(endpoint, memory);
	if (attached)
		attached_end(attached);
	endpoint_unlock(endpoint);
}

void attach_fini(struct thole_endpoint *endpoint)
{
	struct list_node *node;

	while ((node = list_first(&endpoint->attached)))
		attached_end(container_of(node, struct attached, node));
}
