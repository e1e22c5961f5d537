/* SPDX-License-Identifier: BSD-3-Clause */
#include "prov_ep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/caretaker.h"
#include "front/counted.h"
#include "front/yield.h"
#include "prov_atomic.h"
#include "prov_binding.h"
#include "prov_completion.h"
#include "prov_core.h"
#include "prov_endpoint.h"
#include "prov_error.h"
#include "prov_flags.h"
#include "prov_heap.h"
#include "prov_message.h"
#include "prov_name.h"
#include "prov_option.h"
#include "prov_region.h"
#include "prov_rma.h"
#include "prov_stub.h"
#include "prov_thread.h"
#include "prov_watch.h"

/* ---- Slots of the domain --------------------------------------------------------------------- */

static int prov_ep_slot_take(struct prov_endpoint *endpoint)
{
	struct prov_domain *domain = endpoint->domain;
	struct thole_endpoint **endpoints;
	size_t slot = 0;
	int error;

	while (slot < domain->charge.endpoint_count && domain->charge.endpoints[slot])
		slot++;
	if (slot == domain->charge.endpoint_count) {
		endpoints = realloc(domain->charge.endpoints, (slot + 1) * sizeof *endpoints);
		if (!endpoints)
			return -FI_ENOMEM;
		domain->charge.endpoints = endpoints;
		domain->charge.endpoint_count++;
		endpoints[slot] = NULL;
	}
	error = prov_region_expose_all(domain, endpoint->thole, slot);
	if (error) {
		prov_region_unexpose_all(domain, endpoint->thole, slot);
		return error;
	}
	domain->charge.endpoints[slot] = endpoint->thole;
	domain->users++;
	return 0;
}

static void prov_ep_slot_leave(struct prov_endpoint *endpoint)
{
	struct prov_domain *domain = endpoint->domain;

	for (size_t slot = 0; slot < domain->charge.endpoint_count; slot++) {
		if (domain->charge.endpoints[slot] != endpoint->thole)
			continue;
		prov_region_unexpose_all(domain, endpoint->thole, slot);
		domain->charge.endpoints[slot] = NULL;
		domain->users--;
		return;
	}
}

/* ---- Closing --------------------------------------------------------------------------------- */

static void prov_ep_free(struct prov_endpoint *endpoint)
{
	prov_atomic_drop(endpoint);
	free(endpoint->peers);
	free(endpoint->sources);
	free(endpoint->entries);
	free(endpoint->claims);
	free(endpoint);
}

static void prov_ep_counted(const char *line)
{
	PROV_INFO(FI_LOG_EP_CTRL, "%s", line);
}

/* What was sent has to arrive. Where it goes may be another endpoint of this domain, or one that waits for such a one:
 * so these have their turn, and so have other threads. With the lock. */
static void prov_ep_drain(struct prov_endpoint *endpoint)
{
	struct prov_domain *domain = endpoint->domain;

	while (!thole_drain(endpoint->thole)) {
		for (size_t slot = 0; slot < domain->charge.endpoint_count; slot++)
			if (domain->charge.endpoints[slot])
				thole_poll(domain->charge.endpoints[slot], NULL, 0);
		prov_domain_unlock(domain);
		prov_domain_lock(domain);
	}
}

/* With the lock. */
static void prov_ep_end(struct prov_endpoint *endpoint)
{
	prov_watch_forget(endpoint->domain, endpoint->thole);
	prov_ep_drain(endpoint);
	prov_ep_slot_leave(endpoint);
	counted_tell(endpoint->thole, prov_ep_counted);
	thole_endpoint_close(endpoint->thole);
}

/* A forked child has the watches' descriptors together with its parent, who goes on with them. */
static int prov_ep_close(struct fid *fid)
{
	struct prov_endpoint *endpoint = container_of(fid, struct prov_endpoint, fid.fid);
	struct prov_domain *domain = endpoint->domain;

	prov_domain_lock(domain);
	prov_binding_leave(endpoint);
	if (domain->charge.inherited)
		domain->users--;
	else
		prov_ep_end(endpoint);
	prov_domain_unlock(domain);
	prov_ep_free(endpoint);
	return 0;
}

/* ---- Binding, enabling, options ------------------------------------------------------------------------- */

/* Programs bind counters later too (Sandia OpenSHMEM does): they count what ends from then on. */
static int prov_ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct prov_endpoint *endpoint = container_of(fid, struct prov_endpoint, fid.fid);
	int error;

	if (endpoint->enabled && other->fclass != FI_CLASS_CNTR && other->fclass != FI_CLASS_MR)
		return -FI_EOPBADSTATE;
	prov_domain_lock(endpoint->domain);
	error = prov_binding_add(endpoint, other, flags);
	prov_domain_unlock(endpoint->domain);
	return error;
}

static int prov_ep_enable(struct prov_endpoint *endpoint)
{
	if (endpoint->enabled)
		return -FI_EOPBADSTATE;
	if (!endpoint->av)
		return -FI_ENOAV;
	if (!prov_binding_reports(endpoint))
		return -FI_ENOCQ;
	prov_domain_lock(endpoint->domain);
	prov_flags_settle(endpoint);
	endpoint->enabled = true;
	prov_domain_unlock(endpoint->domain);
	return 0;
}

/* Get or set the default flags of one direction, which the value says too. */
static int prov_ep_operation_flags(struct prov_endpoint *endpoint, uint64_t *flags, bool set)
{
	uint64_t direction = *flags & (FI_TRANSMIT | FI_RECV);
	uint64_t *own = direction == FI_TRANSMIT ? &endpoint->tx_flags : &endpoint->rx_flags;

	if (direction != FI_TRANSMIT && direction != FI_RECV)
		return -FI_EINVAL;
	if (!set) {
		*flags = *own;
		return 0;
	}
	prov_domain_lock(endpoint->domain);
	*own = *flags & ~direction;
	prov_flags_settle(endpoint);
	prov_domain_unlock(endpoint->domain);
	return 0;
}

static int prov_ep_control(struct fid *fid, int command, void *arg)
{
	struct prov_endpoint *endpoint = container_of(fid, struct prov_endpoint, fid.fid);

	switch (command) {
	case FI_ENABLE:
		return prov_ep_enable(endpoint);
	case FI_GETOPSFLAG:
		return prov_ep_operation_flags(endpoint, arg, false);
	case FI_SETOPSFLAG:
		return prov_ep_operation_flags(endpoint, arg, true);
	default:
		return -FI_ENOSYS;
	}
}

static int prov_ep_size_option(size_t value, void *to, size_t *length_p)
{
	if (*length_p < sizeof value)
		return -FI_ETOOSMALL;
	memcpy(to, &value, sizeof value);
	*length_p = sizeof value;
	return 0;
}

static int prov_ep_getopt(fid_t fid, int level, int name, void *value, size_t *length_p)
{
	struct prov_endpoint *endpoint = container_of(fid, struct prov_endpoint, fid.fid);

	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	if (name == FI_OPT_MIN_MULTI_RECV)
		return prov_ep_size_option(endpoint->multi_min, value, length_p);
	if (name >= PROV_OPT_MAX_MSG_SIZE && name < PROV_OPT_MAX_ATOMIC_SIZE)
		return prov_ep_size_option(THOLE_LENGTH_MAX, value, length_p);
	if (name == PROV_OPT_MAX_ATOMIC_SIZE)
		return prov_ep_size_option(THOLE_ATOMIC_BYTES_MAX, value, length_p);
	if (name >= PROV_OPT_INJECT_MSG_SIZE && name <= PROV_OPT_INJECT_ATOMIC_SIZE)
		return prov_ep_size_option(PROV_INJECT_MAX, value, length_p);
	return -FI_ENOPROTOOPT;
}

static int prov_ep_multi_min_set(struct prov_endpoint *endpoint, size_t size)
{
	char text[24];
	int error;

	snprintf(text, sizeof text, "%zu", size);
	prov_domain_lock(endpoint->domain);
	error = prov_error_result(thole_option_set(endpoint->thole, "multi_min", text));
	if (!error)
		endpoint->multi_min = size;
	prov_domain_unlock(endpoint->domain);
	return error;
}

/* A smaller limit than ours is met already. */
static int prov_ep_limit_accept(int name, size_t size)
{
	size_t limit = 0;

	if (name >= PROV_OPT_MAX_MSG_SIZE && name < PROV_OPT_MAX_ATOMIC_SIZE)
		limit = THOLE_LENGTH_MAX;
	else if (name >= PROV_OPT_MAX_ATOMIC_SIZE && name <= PROV_OPT_INJECT_ATOMIC_SIZE)
		limit = PROV_INJECT_MAX;
	return size <= limit ? 0 : -FI_EINVAL;
}

static int prov_ep_setopt(fid_t fid, int level, int name, const void *value, size_t length)
{
	struct prov_endpoint *endpoint = container_of(fid, struct prov_endpoint, fid.fid);
	size_t size;

	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	if (name == PROV_OPT_CUDA_API_PERMITTED)
		return 0; /* it is never called */
	if (name == PROV_OPT_SHARED_MEMORY_PERMITTED)
		return length >= sizeof(bool) && *(const bool *)value ? 0 : -FI_EOPNOTSUPP;
	if (name != FI_OPT_MIN_MULTI_RECV && (name < PROV_OPT_MAX_MSG_SIZE || name > PROV_OPT_INJECT_ATOMIC_SIZE))
		return -FI_ENOPROTOOPT;
	if (length != sizeof size)
		return -FI_EINVAL;
	memcpy(&size, value, sizeof size);
	return name == FI_OPT_MIN_MULTI_RECV ? prov_ep_multi_min_set(endpoint, size) : prov_ep_limit_accept(name, size);
}

/* -FI_ENOENT: it has matched or ended, and completes as it would have anyhow. Not 0, as the manual has it: oneCCL waits
 * for a cancel's entry then. */
static ssize_t prov_ep_cancel(fid_t fid, void *context)
{
	struct prov_endpoint *endpoint = container_of(fid, struct prov_endpoint, fid.fid);
	int canceled;

	prov_domain_lock(endpoint->domain);
	canceled = thole_cancel_context(endpoint->thole, context);
	prov_domain_unlock(endpoint->domain);
	return canceled > 0 ? 0 : -FI_ENOENT;
}

static int prov_ep_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **ep, void *context)
{
	(void)sep, (void)index, (void)attr, (void)ep, (void)context;
	return -FI_ENOSYS;
}

static int prov_ep_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **ep, void *context)
{
	(void)sep, (void)index, (void)attr, (void)ep, (void)context;
	return -FI_ENOSYS;
}

static ssize_t prov_ep_size_left(struct fid_ep *ep)
{
	return prov_endpoint_of(ep)->enabled ? PROV_CONTEXTS : -FI_EOPBADSTATE;
}

static struct fi_ops_ep endpoint_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = prov_ep_cancel,
	.getopt = prov_ep_getopt,
	.setopt = prov_ep_setopt,
	.tx_ctx = prov_ep_tx_ctx,
	.rx_ctx = prov_ep_rx_ctx,
	.rx_size_left = prov_ep_size_left,
	.tx_size_left = prov_ep_size_left,
};

static struct fi_ops endpoint_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = prov_ep_close,
	.bind = prov_ep_bind,
	.control = prov_ep_control,
	.ops_open = prov_stub_ops_open,
	.tostr = prov_stub_tostr,
	.ops_set = prov_stub_ops_set,
};

/* ---- Opening --------------------------------------------------------------------------------- */

static int prov_ep_thole_open(struct prov_endpoint *endpoint)
{
	struct thole_endpoint_attr attr = {
		.threads = THOLE_THREAD_SINGLE, /* the domain's lock does it */
		.options = prov_option_strings(),
		.complete = prov_completion_take,
		.complete_arg = endpoint,
	};
	int error = thole_endpoint_open(&attr, &endpoint->thole);

	if (error)
		PROV_WARN(FI_LOG_EP_CTRL, "no endpoint: %s (%s)", thole_detail(), thole_strerror(error));
	return prov_error_result(error);
}

static void prov_ep_set_up(struct prov_endpoint *endpoint, const struct fi_info *info, void *context)
{
	endpoint->fid.fid.fclass = FI_CLASS_EP;
	endpoint->fid.fid.context = context;
	endpoint->fid.fid.ops = &endpoint_fid_ops;
	endpoint->fid.ops = &endpoint_ops;
	endpoint->fid.cm = &prov_name_ops;
	endpoint->fid.msg = &prov_message_ops;
	endpoint->fid.tagged = &prov_message_tagged_ops;
	endpoint->fid.rma = &prov_rma_ops;
	endpoint->fid.atomic = &prov_atomic_ops;
	list_init(&endpoint->scatters);
	endpoint->caps = info->caps;
	endpoint->tx_flags = info->tx_attr ? info->tx_attr->op_flags : 0;
	endpoint->rx_flags = info->rx_attr ? info->rx_attr->op_flags : 0;
}

/* A map that is there from the start saves every look-up a question. */
static int prov_ep_maps_open(struct prov_endpoint *endpoint)
{
	int error = prov_map_set(&endpoint->peers, 0, PROV_NONE);

	if (!error)
		error = prov_map_set(&endpoint->sources, 0, PROV_NONE);
	return error ? error : prov_map_set(&endpoint->entries, 0, PROV_NONE);
}

static void prov_ep_memory_read(const struct prov_endpoint *endpoint)
{
	char text[8];

	if (!thole_option_get(endpoint->thole, "mpi_memory", text, sizeof text) && !strcmp(text, "shared"))
		prov_heap_share();
}

static void prov_ep_multi_min_read(struct prov_endpoint *endpoint)
{
	uint64_t bytes;

	if (!thole_option_number(endpoint->thole, "multi_min", &bytes))
		endpoint->multi_min = bytes;
}

/* Who says that one thread at a time uses a domain, and opens several endpoints in it, may mean each of these: Chapel
 * has one a thread. Endpoints keep out of each other's way, but the lock for one thread does not let several be inside.
 * So the second one makes it a lock for several, while it is one thread's turn still. */
static void prov_ep_share(struct prov_domain *domain)
{
	bool any = false;

	if (domain->charge.safe)
		return;
	for (size_t slot = 0; slot < domain->charge.endpoint_count; slot++)
		any |= domain->charge.endpoints[slot] != NULL;
	if (any)
		caretaker_share(&domain->charge);
}

int prov_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep_p, void *context)
{
	struct prov_endpoint *endpoint;
	int error;

	if (info->ep_attr && info->ep_attr->type != FI_EP_RDM && info->ep_attr->type != FI_EP_UNSPEC)
		return -FI_EINVAL;
	endpoint = calloc(1, sizeof *endpoint);
	if (!endpoint)
		return -FI_ENOMEM;
	endpoint->domain = container_of(domain, struct prov_domain, fid);
	prov_ep_set_up(endpoint, info, context);
	error = prov_ep_maps_open(endpoint);
	if (!error)
		error = prov_ep_thole_open(endpoint);
	if (error)
		goto free;
	prov_ep_multi_min_read(endpoint);
	yield_spare_if_told(endpoint->thole);
	prov_ep_memory_read(endpoint);
	prov_ep_share(endpoint->domain);
	prov_domain_lock(endpoint->domain);
	error = prov_ep_slot_take(endpoint);
	if (!error)
		error = prov_thread_add(endpoint->domain->thread, endpoint->thole);
	prov_domain_unlock(endpoint->domain);
	if (error)
		goto close;
	caretaker_again(); /* where there was no thread when the domain was opened, as beside many that start */
	*ep_p = &endpoint->fid;
	return 0;
close:
	prov_domain_lock(endpoint->domain);
	prov_watch_forget(endpoint->domain, endpoint->thole);
	prov_ep_slot_leave(endpoint);
	prov_domain_unlock(endpoint->domain);
	thole_endpoint_close(endpoint->thole);
free:
	prov_ep_free(endpoint);
	return error;
}
