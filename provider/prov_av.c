/* SPDX-License-Identifier: BSD-3-Clause */
#include "prov_av.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "prov_address.h"
#include "prov_core.h"
#include "prov_eq.h"
#include "prov_error.h"
#include "prov_stub.h"

static struct prov_av *prov_av_of(struct fid_av *fid)
{
	return container_of(fid, struct prov_av, fid);
}

/* How many entries a peer has. */
static uint32_t prov_av_entry_count(const struct prov_endpoint *endpoint, uint32_t peer)
{
	uint32_t count = prov_map_get(endpoint->entries, peer);

	return count == PROV_NONE ? 0 : count;
}

/* Let one endpoint know one entry. The room for their count comes first: what is mapped is counted. */
static int prov_av_entry_map(struct prov_av *av, struct prov_endpoint *endpoint, size_t index)
{
	uint32_t peer;
	int error = prov_error_result(thole_peer(endpoint->thole, &av->addresses[index], &peer));

	if (!error)
		error = prov_map_set(&endpoint->entries, peer, prov_av_entry_count(endpoint, peer));
	if (!error)
		error = prov_map_set(&endpoint->peers, index, peer);
	if (!error)
		endpoint->entries->values[peer]++;
	if (!error && prov_map_get(endpoint->sources, peer) == PROV_NONE)
		error = prov_map_set(&endpoint->sources, peer, (uint32_t)index);
	return error;
}

/* Another entry of the same peer, or PROV_NONE. It takes longer the more entries there are, and most peers have one. */
static uint32_t prov_av_entry_twin(const struct prov_endpoint *endpoint, uint32_t peer)
{
	for (size_t i = 0; i < endpoint->peers->count; i++)
		if (endpoint->peers->values[i] == peer)
			return (uint32_t)i;
	return PROV_NONE;
}

static void prov_av_entry_unmap(struct prov_endpoint *endpoint, size_t index)
{
	uint32_t peer = prov_map_get(endpoint->peers, index);

	if (peer == PROV_NONE)
		return;
	endpoint->peers->values[index] = PROV_NONE;
	endpoint->entries->values[peer]--;
	if (prov_map_get(endpoint->sources, peer) == index)
		endpoint->sources->values[peer] =
			endpoint->entries->values[peer] ? prov_av_entry_twin(endpoint, peer) : PROV_NONE;
}

static int prov_av_reserve(struct prov_av *av)
{
	struct thole_address *addresses =
		array_reserve(av->addresses, &av->capacity, (uint32_t)av->count + 1, sizeof *addresses);

	if (!addresses)
		return -FI_ENOMEM;
	av->addresses = addresses;
	return 0;
}

/* The lowest free one, or the next behind all. */
static size_t prov_av_free_find(struct prov_av *av)
{
	if (!av->free_count)
		return av->count;
	while (av->addresses[av->free_from].text[0])
		av->free_from++;
	return av->free_from;
}

static void prov_av_entry_free(struct prov_av *av, size_t index)
{
	for (size_t i = 0; i < av->endpoint_count; i++)
		prov_av_entry_unmap(av->endpoints[i], index);
	memset(&av->addresses[index], 0, sizeof av->addresses[index]);
	av->free_count++;
	if (index < av->free_from)
		av->free_from = index;
}

static int prov_av_entry_insert(struct prov_av *av, const struct prov_address *address, fi_addr_t *fi_addr_p)
{
	struct thole_address whole;
	size_t index;
	int error;

	prov_address_whole(address, &whole);
	if (!whole.text[0]) /* as of an entry that is free */
		return -FI_EINVAL;
	error = prov_av_reserve(av);
	if (error)
		return error;
	index = prov_av_free_find(av);
	if (index == av->count)
		av->count++;
	else
		av->free_count--;
	av->addresses[index] = whole;
	for (size_t i = 0; i < av->endpoint_count && !error; i++)
		error = prov_av_entry_map(av, av->endpoints[i], index);
	if (error) {
		prov_av_entry_free(av, index);
		return error == -FI_EHOSTUNREACH ? -FI_EINVAL : error;
	}
	*fi_addr_p = index;
	return 0;
}

/* For a vector that reports to an event queue: one event for the call, and one for each address
 * that was refused. */
static int prov_av_insertion_report(struct prov_av *av, struct prov_event *event, size_t inserted, void *context)
{
	struct fi_eq_entry entry = {.fid = &av->fid.fid, .context = context, .data = inserted};

	prov_eq_enter(av->eq, event, FI_AV_COMPLETE, &entry);
	return 0;
}

static void prov_av_failure_report(struct prov_av *av, size_t index, int error, void *context)
{
	struct fi_eq_err_entry entry = {
		.fid = &av->fid.fid, .context = context, .data = index, .err = -error, .prov_errno = error};

	if (prov_eq_post_error(av->eq, &entry))
		PROV_WARN(FI_LOG_AV, "no memory to report the failed insertion of address %zu", index);
}

static int prov_av_insert(struct fid_av *fid, const void *bytes, size_t count, fi_addr_t *fi_addrs, uint64_t flags,
			  void *context)
{
	struct prov_av *av = prov_av_of(fid);
	const struct prov_address *addresses = bytes;
	int *errors = flags & FI_SYNC_ERR ? context : NULL;
	struct prov_event *event = NULL;
	size_t inserted = 0;

	if ((av->asynchronous && !av->eq) || (count && !addresses))
		return av->asynchronous ? -FI_ENOEQ : -FI_EINVAL;
	if (av->asynchronous) {
		event = prov_eq_event(sizeof(struct fi_eq_entry));
		if (!event)
			return -FI_ENOMEM;
	}
	prov_domain_lock(av->domain);
	for (size_t i = 0; i < count; i++) {
		fi_addr_t fi_addr = FI_ADDR_NOTAVAIL;
		int error = prov_av_entry_insert(av, &addresses[i], &fi_addr);

		inserted += !error;
		if (fi_addrs)
			fi_addrs[i] = fi_addr;
		if (errors)
			errors[i] = -error;
		if (error && av->asynchronous)
			prov_av_failure_report(av, i, error, context);
	}
	prov_domain_unlock(av->domain);
	return av->asynchronous ? prov_av_insertion_report(av, event, inserted, context) : (int)inserted;
}

/* Endpoints are found by their addresses only; there is no service to look one up with. */
static int prov_av_insertsvc(struct fid_av *fid, const char *node, const char *service, fi_addr_t *fi_addr,
			     uint64_t flags, void *context)
{
	struct prov_address address;

	(void)service;
	if (!node || !prov_address_read(node, &address))
		return -FI_EINVAL;
	return prov_av_insert(fid, &address, 1, fi_addr, flags, context);
}

static int prov_av_insertsym(struct fid_av *fid, const char *node, size_t nodes, const char *service, size_t services,
			     fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	if (nodes != 1 || services != 1)
		return -FI_ENOSYS;
	return prov_av_insertsvc(fid, node, service, fi_addr, flags, context);
}

static bool prov_av_entry_used(const struct prov_av *av, fi_addr_t index)
{
	return index < av->count && av->addresses[index].text[0];
}

static int prov_av_remove(struct fid_av *fid, fi_addr_t *fi_addrs, size_t count, uint64_t flags)
{
	struct prov_av *av = prov_av_of(fid);
	int error = 0;

	(void)flags;
	prov_domain_lock(av->domain);
	for (size_t i = 0; i < count; i++) {
		if (prov_av_entry_used(av, fi_addrs[i]))
			prov_av_entry_free(av, fi_addrs[i]);
		else
			error = -FI_EINVAL;
	}
	prov_domain_unlock(av->domain);
	return error;
}

static int prov_av_lookup(struct fid_av *fid, fi_addr_t fi_addr, void *bytes, size_t *length_p)
{
	struct prov_av *av = prov_av_of(fid);
	size_t length = *length_p < sizeof(struct prov_address) ? *length_p : sizeof(struct prov_address);
	struct prov_address address;
	bool used;

	prov_domain_lock(av->domain);
	used = prov_av_entry_used(av, fi_addr) && prov_address_of(&av->addresses[fi_addr], &address);
	prov_domain_unlock(av->domain);
	if (used)
		memcpy(bytes, &address, length);
	*length_p = sizeof address;
	return used ? 0 : -FI_EINVAL;
}

static const char *prov_av_straddr(struct fid_av *fid, const void *bytes, char *buffer, size_t *length_p)
{
	struct thole_address whole;
	int size;

	(void)fid;
	prov_address_whole(bytes, &whole);
	size = snprintf(buffer, *length_p, "%s", whole.text);
	*length_p = (size_t)size + 1;
	return buffer;
}

static int prov_av_set(struct fid_av *fid, struct fi_av_set_attr *attr, struct fid_av_set **set, void *context)
{
	(void)fid, (void)attr, (void)set, (void)context;
	return -FI_ENOSYS;
}

static struct fi_ops_av av_ops = {
	.size = sizeof(struct fi_ops_av),
	.insert = prov_av_insert,
	.insertsvc = prov_av_insertsvc,
	.insertsym = prov_av_insertsym,
	.remove = prov_av_remove,
	.lookup = prov_av_lookup,
	.straddr = prov_av_straddr,
	.av_set = prov_av_set,
};

int prov_av_attach(struct prov_av *av, struct prov_endpoint *endpoint)
{
	struct prov_endpoint **endpoints = realloc(av->endpoints, (av->endpoint_count + 1) * sizeof *endpoints);

	if (!endpoints)
		return -FI_ENOMEM;
	av->endpoints = endpoints;
	for (size_t i = 0; i < av->count; i++) {
		int error = av->addresses[i].text[0] ? prov_av_entry_map(av, endpoint, i) : 0;

		if (error == -FI_ENOMEM)
			return error; /* others: the first operation on that address says so */
	}
	endpoints[av->endpoint_count++] = endpoint;
	return 0;
}

void prov_av_detach(struct prov_av *av, struct prov_endpoint *endpoint)
{
	for (size_t i = 0; i < av->endpoint_count; i++) {
		if (av->endpoints[i] != endpoint)
			continue;
		av->endpoints[i] = av->endpoints[--av->endpoint_count];
		return;
	}
}

static int prov_av_close(struct fid *fid)
{
	struct prov_av *av = container_of(fid, struct prov_av, fid.fid);
	struct prov_domain *domain = av->domain;

	if (av->endpoint_count)
		return -FI_EBUSY;
	prov_domain_leave(domain);
	if (av->eq)
		prov_users_drop(&av->eq->users);
	free(av->endpoints);
	free(av->addresses);
	free(av);
	return 0;
}

static int prov_av_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct prov_av *av = container_of(fid, struct prov_av, fid.fid);

	(void)flags;
	if (other->fclass != FI_CLASS_EQ || av->eq)
		return -FI_EINVAL;
	av->eq = container_of(other, struct prov_eq, fid.fid);
	prov_users_add(&av->eq->users);
	return 0;
}

static struct fi_ops av_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = prov_av_close,
	.bind = prov_av_bind,
	.control = prov_stub_control,
	.ops_open = prov_stub_ops_open,
	.tostr = prov_stub_tostr,
	.ops_set = prov_stub_ops_set,
};

int prov_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av_p, void *context)
{
	struct prov_av *av;

	if (attr->name || attr->rx_ctx_bits || (attr->flags & ~FI_EVENT))
		return -FI_ENOSYS; /* shared and read-only vectors, scalable endpoints */
	av = calloc(1, sizeof *av);
	if (!av)
		return -FI_ENOMEM;
	av->fid.fid.fclass = FI_CLASS_AV;
	av->fid.fid.context = context;
	av->fid.fid.ops = &av_fid_ops;
	av->fid.ops = &av_ops;
	av->domain = container_of(domain, struct prov_domain, fid);
	av->asynchronous = attr->flags & FI_EVENT;
	if (attr->type == FI_AV_UNSPEC)
		attr->type = FI_AV_TABLE;
	prov_domain_enter(av->domain);
	*av_p = &av->fid;
	return 0;
}
