/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * endpoint.c - endpoints: opening, binding, options, cancelling and closing. One libfabric
 * endpoint is one Thole endpoint; what it shares with others (queues, vectors, regions) belongs to
 * the domain.
 *
 * The Thole endpoint is open from the start, so that its name can be asked for and regions exposed;
 * operations are possible once it is enabled, because only then it is known where completions go.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"

/* ---- Slots of the domain --------------------------------------------------------------------- */

static int slot_take(struct prov_endpoint *endpoint)
{
	struct prov_domain *domain = endpoint->domain;
	struct prov_endpoint **endpoints;
	size_t slot = 0;
	int error;

	while (slot < domain->endpoint_count && domain->endpoints[slot])
		slot++;
	if (slot == domain->endpoint_count) {
		endpoints = realloc(domain->endpoints, (slot + 1) * sizeof *endpoints);
		if (!endpoints)
			return -FI_ENOMEM;
		domain->endpoints = endpoints;
		domain->endpoint_count++;
		endpoints[slot] = NULL;
	}
	error = prov_region_expose_all(endpoint, slot);
	if (error)
		return error;
	domain->endpoints[slot] = endpoint;
	domain->users++;
	return 0;
}

static void slot_leave(struct prov_endpoint *endpoint)
{
	struct prov_domain *domain = endpoint->domain;

	for (size_t slot = 0; slot < domain->endpoint_count; slot++) {
		if (domain->endpoints[slot] != endpoint)
			continue;
		prov_region_unexpose_all(endpoint, slot);
		domain->endpoints[slot] = NULL;
		domain->users--;
		return;
	}
}

/* ---- Closing --------------------------------------------------------------------------------- */

static void sinks_leave(struct prov_endpoint *endpoint)
{
	for (size_t i = 0; i < PROV_SINKS; i++) {
		struct prov_sink *sink = &endpoint->sinks[i];

		if (sink->cq) {
			prov_watch_remove(&sink->cq->watch, endpoint);
			sink->cq->users--;
		}
		if (sink->counter) {
			prov_watch_remove(&sink->counter->watch, endpoint);
			sink->counter->users--;
		}
	}
}

static void endpoint_free(struct prov_endpoint *endpoint)
{
	free(endpoint->peers);
	free(endpoint->sources);
	free(endpoint->claims);
	free(endpoint);
}

/* What went through it, for who asks libfabric for its log. */
static void counters_log(struct prov_endpoint *endpoint)
{
	uint64_t values[PROV_COUNTERS_MAX];
	struct thole_counter_info info;
	int count = thole_counters(endpoint->thole, values, PROV_COUNTERS_MAX);

	for (int i = 0; i < count && i < PROV_COUNTERS_MAX; i++)
		if (values[i] && !thole_counter_info((unsigned)i, &info))
			PROV_INFO(FI_LOG_EP_CTRL, "counter %s %llu", info.name,
				  (unsigned long long)values[i]);
}

static int endpoint_close(struct fid *fid)
{
	struct prov_endpoint *endpoint = prov_of(fid, struct prov_endpoint, fid.fid);
	struct prov_domain *domain = endpoint->domain;

	prov_domain_lock(domain);
	prov_thread_remove(domain->thread, endpoint);
	slot_leave(endpoint);
	if (endpoint->av)
		prov_av_detach(endpoint->av, endpoint);
	sinks_leave(endpoint);
	memset(endpoint->sinks, 0,
	       sizeof endpoint->sinks); /* what ends while closing is nobody's any more */
	if (endpoint->eq)
		atomic_fetch_sub(&endpoint->eq->users, 1);
	counters_log(endpoint);
	thole_endpoint_close(endpoint->thole);
	prov_domain_unlock(domain);
	endpoint_free(endpoint);
	return 0;
}

/* ---- Binding --------------------------------------------------------------------------------- */

static void sink_set_cq(struct prov_endpoint *endpoint, unsigned operation, struct prov_cq *cq)
{
	for (unsigned plain = 0; plain < 2; plain++) {
		endpoint->sinks[operation * 2 + plain].cq = cq;
		cq->users++;
	}
}

static int bind_cq(struct prov_endpoint *endpoint, struct prov_cq *cq, uint64_t flags)
{
	static const unsigned tx[] = {THOLE_OP_SEND, THOLE_OP_PUT, THOLE_OP_GET, THOLE_OP_ATOMIC,
				      THOLE_OP_ATOMIC_FETCH};
	static const unsigned rx[] = {THOLE_OP_RECEIVE, THOLE_OP_REMOTE_PUT, THOLE_OP_REMOTE_GET,
				      THOLE_OP_REMOTE_ATOMIC};

	if (!(flags & (FI_TRANSMIT | FI_RECV)))
		return -FI_EBADFLAGS;
	if (((flags & FI_TRANSMIT) && endpoint->sinks[THOLE_OP_SEND * 2].cq) ||
	    ((flags & FI_RECV) && endpoint->sinks[THOLE_OP_RECEIVE * 2].cq))
		return -FI_EINVAL;
	if (flags & FI_TRANSMIT) {
		endpoint->tx_selective = flags & FI_SELECTIVE_COMPLETION;
		for (size_t i = 0; i < sizeof tx / sizeof tx[0]; i++)
			sink_set_cq(endpoint, tx[i], cq);
	}
	if (flags & FI_RECV) {
		endpoint->rx_selective = flags & FI_SELECTIVE_COMPLETION;
		for (size_t i = 0; i < sizeof rx / sizeof rx[0]; i++)
			sink_set_cq(endpoint, rx[i], cq);
	}
	return prov_watch_add(&cq->watch, endpoint);
}

static int bind_counter(struct prov_endpoint *endpoint, struct prov_counter *counter,
			uint64_t flags)
{
	static const struct {
		uint64_t flag;
		unsigned operation;
	} rows[] = {
		{FI_SEND, THOLE_OP_SEND},
		{FI_RECV, THOLE_OP_RECEIVE},
		{FI_WRITE, THOLE_OP_PUT},
		{FI_WRITE, THOLE_OP_ATOMIC},
		{FI_READ, THOLE_OP_GET},
		{FI_READ, THOLE_OP_ATOMIC_FETCH},
		{FI_REMOTE_READ, THOLE_OP_REMOTE_GET},
		{FI_REMOTE_WRITE, THOLE_OP_REMOTE_PUT},
		{FI_REMOTE_WRITE, THOLE_OP_REMOTE_ATOMIC},
	};

	if (!(flags & (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)))
		return -FI_EBADFLAGS;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		if (!(flags & rows[i].flag))
			continue;
		for (unsigned plain = 0; plain < 2; plain++) {
			struct prov_sink *sink = &endpoint->sinks[rows[i].operation * 2 + plain];

			if (sink->counter)
				return -FI_EINVAL;
			sink->counter = counter;
			counter->users++;
		}
	}
	if (endpoint->enabled)
		prov_flags_settle(endpoint);
	return prov_watch_add(&counter->watch, endpoint);
}

static int bind_av(struct prov_endpoint *endpoint, struct prov_av *av)
{
	int error;

	if (endpoint->av)
		return -FI_EINVAL;
	error = prov_av_attach(av, endpoint);
	if (!error)
		endpoint->av = av;
	return error;
}

static int bind_eq(struct prov_endpoint *endpoint, struct prov_eq *eq)
{
	if (endpoint->eq)
		return -FI_EINVAL;
	endpoint->eq = eq;
	atomic_fetch_add(&eq->users, 1);
	return 0;
}

static int bind_any(struct prov_endpoint *endpoint, struct fid *other, uint64_t flags)
{
	switch (other->fclass) {
	case FI_CLASS_CQ:
		return bind_cq(endpoint, prov_of(other, struct prov_cq, fid.fid), flags);
	case FI_CLASS_CNTR:
		return bind_counter(endpoint, prov_of(other, struct prov_counter, fid.fid), flags);
	case FI_CLASS_AV:
		return bind_av(endpoint, prov_of(other, struct prov_av, fid.fid));
	case FI_CLASS_EQ:
		return bind_eq(endpoint, prov_of(other, struct prov_eq, fid.fid));
	case FI_CLASS_MR:
		return 0; /* a region is every endpoint's */
	default:
		return -FI_EINVAL;
	}
}

/* Programs bind counters later too (Sandia OpenSHMEM does): they count what ends from then on. */
static int endpoint_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct prov_endpoint *endpoint = prov_of(fid, struct prov_endpoint, fid.fid);
	int error;

	if (endpoint->enabled && other->fclass != FI_CLASS_CNTR && other->fclass != FI_CLASS_MR)
		return -FI_EOPBADSTATE;
	prov_domain_lock(endpoint->domain);
	error = bind_any(endpoint, other, flags);
	prov_domain_unlock(endpoint->domain);
	return error;
}

/* ---- Enabling and options -------------------------------------------------------------------- */

static bool reports(const struct prov_endpoint *endpoint)
{
	for (size_t i = 0; i < PROV_SINKS; i++)
		if (endpoint->sinks[i].cq || endpoint->sinks[i].counter)
			return true;
	return false;
}

static int endpoint_enable(struct prov_endpoint *endpoint)
{
	if (endpoint->enabled)
		return -FI_EOPBADSTATE;
	if (!endpoint->av)
		return -FI_ENOAV;
	if (!reports(endpoint))
		return -FI_ENOCQ;
	prov_domain_lock(endpoint->domain);
	prov_flags_settle(endpoint);
	endpoint->enabled = true;
	prov_domain_unlock(endpoint->domain);
	return 0;
}

/* Get or set the default flags of one direction, which the value says too. */
static int operation_flags(struct prov_endpoint *endpoint, uint64_t *flags, bool set)
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

static int endpoint_control(struct fid *fid, int command, void *arg)
{
	struct prov_endpoint *endpoint = prov_of(fid, struct prov_endpoint, fid.fid);

	switch (command) {
	case FI_ENABLE:
		return endpoint_enable(endpoint);
	case FI_GETOPSFLAG:
		return operation_flags(endpoint, arg, false);
	case FI_SETOPSFLAG:
		return operation_flags(endpoint, arg, true);
	default:
		return -FI_ENOSYS;
	}
}

static int size_option(size_t value, void *to, size_t *length_p)
{
	if (*length_p < sizeof value)
		return -FI_ETOOSMALL;
	memcpy(to, &value, sizeof value);
	*length_p = sizeof value;
	return 0;
}

static int endpoint_getopt(fid_t fid, int level, int name, void *value, size_t *length_p)
{
	struct prov_endpoint *endpoint = prov_of(fid, struct prov_endpoint, fid.fid);

	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	if (name == FI_OPT_MIN_MULTI_RECV)
		return size_option(endpoint->multi_min, value, length_p);
	if (name >= PROV_OPT_MAX_MSG_SIZE && name < PROV_OPT_MAX_ATOMIC_SIZE)
		return size_option(THOLE_LENGTH_MAX, value, length_p);
	if (name == PROV_OPT_MAX_ATOMIC_SIZE)
		return size_option(THOLE_ATOMIC_BYTES_MAX, value, length_p);
	if (name >= PROV_OPT_INJECT_MSG_SIZE && name <= PROV_OPT_INJECT_ATOMIC_SIZE)
		return size_option(PROV_INJECT_MAX, value, length_p);
	return -FI_ENOPROTOOPT;
}

static int multi_min_set(struct prov_endpoint *endpoint, size_t size)
{
	char text[24];
	int error;

	snprintf(text, sizeof text, "%zu", size);
	prov_domain_lock(endpoint->domain);
	error = prov_result(thole_option_set(endpoint->thole, "multi_min", text));
	if (!error)
		endpoint->multi_min = size;
	prov_domain_unlock(endpoint->domain);
	return error;
}

/* A smaller limit than ours is a wish that is already met. */
static int limit_accept(int name, size_t size)
{
	size_t limit = 0;

	if (name >= PROV_OPT_MAX_MSG_SIZE && name < PROV_OPT_MAX_ATOMIC_SIZE)
		limit = THOLE_LENGTH_MAX;
	else if (name >= PROV_OPT_MAX_ATOMIC_SIZE && name <= PROV_OPT_INJECT_ATOMIC_SIZE)
		limit = PROV_INJECT_MAX;
	return size <= limit ? 0 : -FI_EINVAL;
}

static int endpoint_setopt(fid_t fid, int level, int name, const void *value, size_t length)
{
	struct prov_endpoint *endpoint = prov_of(fid, struct prov_endpoint, fid.fid);
	size_t size;

	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	if (name == PROV_OPT_CUDA_API_PERMITTED)
		return 0; /* it is never called */
	if (name == PROV_OPT_SHARED_MEMORY_PERMITTED)
		return length >= sizeof(bool) && *(const bool *)value ? 0 : -FI_EOPNOTSUPP;
	if (name != FI_OPT_MIN_MULTI_RECV &&
	    (name < PROV_OPT_MAX_MSG_SIZE || name > PROV_OPT_INJECT_ATOMIC_SIZE))
		return -FI_ENOPROTOOPT;
	if (length != sizeof size)
		return -FI_EINVAL;
	memcpy(&size, value, sizeof size);
	return name == FI_OPT_MIN_MULTI_RECV ? multi_min_set(endpoint, size)
					     : limit_accept(name, size);
}

/* -FI_ENOENT: it has matched or ended, and completes as it would have anyhow. */
static ssize_t endpoint_cancel(fid_t fid, void *context)
{
	struct prov_endpoint *endpoint = prov_of(fid, struct prov_endpoint, fid.fid);
	int canceled;

	prov_domain_lock(endpoint->domain);
	canceled = thole_cancel_context(endpoint->thole, context);
	prov_domain_unlock(endpoint->domain);
	return canceled > 0 ? 0 : -FI_ENOENT;
}

static int endpoint_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr,
			   struct fid_ep **ep, void *context)
{
	(void)sep, (void)index, (void)attr, (void)ep, (void)context;
	return -FI_ENOSYS;
}

static int endpoint_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr,
			   struct fid_ep **ep, void *context)
{
	(void)sep, (void)index, (void)attr, (void)ep, (void)context;
	return -FI_ENOSYS;
}

static ssize_t endpoint_size_left(struct fid_ep *ep)
{
	return prov_endpoint_of(ep)->enabled ? PROV_CONTEXTS : -FI_EOPBADSTATE;
}

static struct fi_ops_ep endpoint_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = endpoint_cancel,
	.getopt = endpoint_getopt,
	.setopt = endpoint_setopt,
	.tx_ctx = endpoint_tx_ctx,
	.rx_ctx = endpoint_rx_ctx,
	.rx_size_left = endpoint_size_left,
	.tx_size_left = endpoint_size_left,
};

static struct fi_ops endpoint_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = endpoint_close,
	.bind = endpoint_bind,
	.control = endpoint_control,
	.ops_open = prov_stub_ops_open,
	.tostr = prov_stub_tostr,
	.ops_set = prov_stub_ops_set,
};

/* ---- Opening --------------------------------------------------------------------------------- */

static int thole_open(struct prov_endpoint *endpoint)
{
	struct thole_endpoint_attr attr = {
		.threads = THOLE_THREAD_SINGLE, /* the domain's lock does it */
		.options = prov_options(),
		.complete = prov_completion_take,
		.complete_arg = endpoint,
	};
	int error = thole_endpoint_open(&attr, &endpoint->thole);

	if (error)
		PROV_WARN(FI_LOG_EP_CTRL, "no endpoint: %s (%s)", thole_detail(),
			  thole_strerror(error));
	return prov_result(error);
}

static void endpoint_set_up(struct prov_endpoint *endpoint, const struct fi_info *info,
			    void *context)
{
	endpoint->fid.fid.fclass = FI_CLASS_EP;
	endpoint->fid.fid.context = context;
	endpoint->fid.fid.ops = &endpoint_fid_ops;
	endpoint->fid.ops = &endpoint_ops;
	endpoint->fid.cm = &prov_name_ops;
	endpoint->fid.msg = &prov_message_ops;
	endpoint->fid.tagged = &prov_tagged_ops;
	endpoint->fid.rma = &prov_rma_ops;
	endpoint->fid.atomic = &prov_atomic_ops;
	endpoint->caps = info->caps;
	endpoint->tx_flags = info->tx_attr ? info->tx_attr->op_flags : 0;
	endpoint->rx_flags = info->rx_attr ? info->rx_attr->op_flags : 0;
}

/* A map that is there from the start saves every look-up a question. */
static int maps_open(struct prov_endpoint *endpoint)
{
	int error = prov_map_set(&endpoint->peers, 0, PROV_NONE);

	return error ? error : prov_map_set(&endpoint->sources, 0, PROV_NONE);
}

static void multi_min_read(struct prov_endpoint *endpoint)
{
	char text[64];

	if (!thole_option_get(endpoint->thole, "multi_min", text, sizeof text))
		endpoint->multi_min = strtoull(text, NULL, 10);
}

int prov_endpoint_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep_p,
		       void *context)
{
	struct prov_endpoint *endpoint;
	int error;

	if (info->ep_attr && info->ep_attr->type != FI_EP_RDM &&
	    info->ep_attr->type != FI_EP_UNSPEC)
		return -FI_EINVAL;
	endpoint = calloc(1, sizeof *endpoint);
	if (!endpoint)
		return -FI_ENOMEM;
	endpoint->domain = prov_of(domain, struct prov_domain, fid);
	endpoint_set_up(endpoint, info, context);
	error = maps_open(endpoint);
	if (!error)
		error = thole_open(endpoint);
	if (error)
		goto free;
	multi_min_read(endpoint);
	prov_domain_lock(endpoint->domain);
	error = slot_take(endpoint);
	if (!error)
		error = prov_thread_add(endpoint->domain->thread, endpoint);
	prov_domain_unlock(endpoint->domain);
	if (error)
		goto close;
	*ep_p = &endpoint->fid;
	return 0;
close:
	prov_domain_lock(endpoint->domain);
	slot_leave(endpoint);
	prov_domain_unlock(endpoint->domain);
	thole_endpoint_close(endpoint->thole);
free:
	endpoint_free(endpoint);
	return error;
}
