/* SPDX-License-Identifier: BSD-3-Clause */
#include "prov_binding.h"

#include <string.h>

#include "prov_av.h"
#include "prov_counter.h"
#include "prov_cq.h"
#include "prov_eq.h"
#include "prov_flags.h"

static void prov_binding_sink_set_cq(struct prov_endpoint *endpoint, unsigned operation, struct prov_cq *cq)
{
	for (unsigned plain = 0; plain < 2; plain++) {
		prov_endpoint_sink(endpoint, operation, plain ? THOLE_PLAIN : 0)->cq = cq;
		cq->users++;
	}
}

static int prov_binding_bind_cq(struct prov_endpoint *endpoint, struct prov_cq *cq, uint64_t flags)
{
	static const unsigned tx[] = {THOLE_OP_SEND, THOLE_OP_PUT, THOLE_OP_GET, THOLE_OP_ATOMIC,
				      THOLE_OP_ATOMIC_FETCH};
	static const unsigned rx[] = {THOLE_OP_RECEIVE, THOLE_OP_REMOTE_PUT, THOLE_OP_REMOTE_GET,
				      THOLE_OP_REMOTE_ATOMIC, THOLE_OP_REMOTE_ATOMIC_FETCH};
	int error;

	if (!(flags & (FI_TRANSMIT | FI_RECV)))
		return -FI_EBADFLAGS;
	if (((flags & FI_TRANSMIT) && prov_endpoint_sink(endpoint, THOLE_OP_SEND, 0)->cq) ||
	    ((flags & FI_RECV) && prov_endpoint_sink(endpoint, THOLE_OP_RECEIVE, 0)->cq))
		return -FI_EINVAL;
	error = prov_watch_add(&cq->watch, endpoint->thole);
	if (error)
		return error;
	if (flags & FI_TRANSMIT) {
		endpoint->tx_selective = flags & FI_SELECTIVE_COMPLETION;
		for (size_t i = 0; i < sizeof tx / sizeof tx[0]; i++)
			prov_binding_sink_set_cq(endpoint, tx[i], cq);
	}
	if (flags & FI_RECV) {
		endpoint->rx_selective = flags & FI_SELECTIVE_COMPLETION;
		for (size_t i = 0; i < sizeof rx / sizeof rx[0]; i++)
			prov_binding_sink_set_cq(endpoint, rx[i], cq);
	}
	return 0;
}

/* Which operations' ends a counter counts, by the flags that it is bound with. */
static const struct {
	uint64_t flag;
	unsigned operation;
} counted[] = {
	{FI_SEND, THOLE_OP_SEND},
	{FI_RECV, THOLE_OP_RECEIVE},
	{FI_WRITE, THOLE_OP_PUT},
	{FI_WRITE, THOLE_OP_ATOMIC},
	{FI_READ, THOLE_OP_GET},
	{FI_READ, THOLE_OP_ATOMIC_FETCH},
	{FI_REMOTE_READ, THOLE_OP_REMOTE_GET},
	{FI_REMOTE_READ, THOLE_OP_REMOTE_ATOMIC_FETCH},
	{FI_REMOTE_WRITE, THOLE_OP_REMOTE_PUT},
	{FI_REMOTE_WRITE, THOLE_OP_REMOTE_ATOMIC},
};

enum { COUNTED = sizeof counted / sizeof counted[0] };

/* Whether another counter is bound to any of it. */
static bool prov_binding_counts(struct prov_endpoint *endpoint, uint64_t flags)
{
	for (size_t i = 0; i < COUNTED; i++)
		if (flags & counted[i].flag && prov_endpoint_sink(endpoint, counted[i].operation, 0)->counter)
			return true;
	return false;
}

static int prov_binding_bind_counter(struct prov_endpoint *endpoint, struct prov_counter *counter, uint64_t flags)
{
	int error;

	if (!(flags & (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)))
		return -FI_EBADFLAGS;
	if (prov_binding_counts(endpoint, flags))
		return -FI_EINVAL;
	error = prov_watch_add(&counter->watch, endpoint->thole);
	if (error)
		return error;
	for (size_t i = 0; i < COUNTED; i++) {
		for (unsigned plain = 0; plain < 2 && flags & counted[i].flag; plain++) {
			prov_endpoint_sink(endpoint, counted[i].operation, plain ? THOLE_PLAIN : 0)->counter = counter;
			counter->users++;
		}
	}
	if (endpoint->enabled)
		prov_flags_settle(endpoint);
	return 0;
}

static int prov_binding_bind_av(struct prov_endpoint *endpoint, struct prov_av *av)
{
	int error;

	if (endpoint->av)
		return -FI_EINVAL;
	error = prov_av_attach(av, endpoint);
	if (!error)
		endpoint->av = av;
	return error;
}

static int prov_binding_bind_eq(struct prov_endpoint *endpoint, struct prov_eq *eq)
{
	if (endpoint->eq)
		return -FI_EINVAL;
	endpoint->eq = eq;
	prov_users_add(&eq->users);
	return 0;
}

int prov_binding_add(struct prov_endpoint *endpoint, struct fid *other, uint64_t flags)
{
	switch (other->fclass) {
	case FI_CLASS_CQ:
		return prov_binding_bind_cq(endpoint, container_of(other, struct prov_cq, fid.fid), flags);
	case FI_CLASS_CNTR:
		return prov_binding_bind_counter(endpoint, container_of(other, struct prov_counter, fid.fid), flags);
	case FI_CLASS_AV:
		return prov_binding_bind_av(endpoint, container_of(other, struct prov_av, fid.fid));
	case FI_CLASS_EQ:
		return prov_binding_bind_eq(endpoint, container_of(other, struct prov_eq, fid.fid));
	case FI_CLASS_MR:
		return 0; /* a region is every endpoint's */
	default:
		return -FI_EINVAL;
	}
}

bool prov_binding_reports(const struct prov_endpoint *endpoint)
{
	for (size_t i = 0; i < PROV_SINKS; i++)
		if (endpoint->sinks[i].cq || endpoint->sinks[i].counter)
			return true;
	return false;
}

void prov_binding_leave(struct prov_endpoint *endpoint)
{
	if (endpoint->av)
		prov_av_detach(endpoint->av, endpoint);
	if (endpoint->eq)
		prov_users_drop(&endpoint->eq->users);
	for (size_t i = 0; i < PROV_SINKS; i++) {
		const struct prov_sink *sink = &endpoint->sinks[i];

		if (sink->cq)
			sink->cq->users--;
		if (sink->counter)
			sink->counter->users--;
	}
	memset(endpoint->sinks, 0, sizeof endpoint->sinks);
}
