/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Workers, and the endpoints that a program has made of a worker: each worker is one endpoint of Thole's, each of its
 * own endpoints a peer of that.
 *
 * The charge's lock guards all of a worker. Requests' callbacks run without it.
 */
#ifndef UCX_WORKER_H
#define UCX_WORKER_H

#include "base/list.h"
#include "base/pool.h"
#include "front/charge.h"
#include "ucx_context.h"
#include "ucx_request.h"

struct ucp_worker {
	struct charge charge;
	struct thole_endpoint *thole;
	struct pool requests;
	struct ucx_request *ended;      /* that the program is to be called for, in the order in which they ended */
	struct ucx_request **ended_end; /* where the next one goes */
	struct ucx_request *flushes;    /* under way */
	uint64_t flush_count;           /* begun so far */
	uint64_t sends;                 /* under way */
	struct list_node endpoints;
	struct ucp_context *context;
};

struct ucp_ep {
	struct ucp_worker *worker;
	struct thole_endpoint *thole; /* the worker's */
	uint32_t peer;                /* Thole's handle */
	bool closed;                  /* by the program: it goes with its last send */
	uint64_t sends;               /* under way */
	struct list_node node;        /* of the worker's */
};

/* What has ended and waits for the program's call, taken out; with the lock. */
static inline struct ucx_request *ucx_worker_ended(struct ucp_worker *worker)
{
	struct ucx_request *first = worker->ended;

	worker->ended = NULL;
	worker->ended_end = &worker->ended;
	return first;
}

/* Free an endpoint that is closed and has no sends. With the lock. */
void ucx_worker_endpoint_free(struct ucp_ep *endpoint);

#endif /* UCX_WORKER_H */
