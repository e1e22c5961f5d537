/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_request - requests from their birth to their death.
 *
 * A request has two owners. The program has it from posting until it takes the result, forgets or
 * cancels it (`state`); Thole has it as the context of an operation until its completion, or the
 * directory until it has answered (`busy`). It is freed by the last of them, so a request that has
 * timed out, or whose peer was disconnected, is over for the program while Thole still works on it.
 * Under the endpoint's lock. What every message needs is inline.
 */
#ifndef MX_REQUEST_H
#define MX_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/pool.h"
#include "mx_endpoint.h"
#include "mx_query.h"
#include "mx_sleep.h"
#include "myriexpress.h"
#include "thole.h"

enum {
	MXI_REQUESTS_CHUNK = 64,    /* that memory is taken for at once */
	MXI_REQUESTS_MAX = 1 << 24, /* of an endpoint: as many as Thole has for one */
};

enum mxi_kind {
	MXI_SEND,
	MXI_RECEIVE,
	MXI_CONNECT,      /* of mx_iconnect; from here on all connects */
	MXI_CONNECT_CALL, /* of mx_connect, which alone knows of it: among the done ones no other call may find it */
};

enum mxi_state {
	MXI_PENDING, /* the program waits for it */
	MXI_DONE,    /* complete; among the done ones until the program takes it */
	MXI_LEFT,    /* the program has let go of it */
};

union mx_request {
	struct {
		struct list_node done;   /* DONE: among all done ones; at the directory: among those that it works on */
		struct list_node same;   /* DONE, with context ids: among those of its context */
		mx_status_t status;      /* its source is filled in when the program takes it */
		struct mxi_peer *peer;   /* send, connect: the other side; NULL: not known (yet) */
		struct mxi_query *query; /* connect: that the directory works on; else NULL */
		struct heap_node limit;  /* when it times out, among the endpoint's `timed` */
		uint32_t handle;         /* receive: Thole's of the source; THOLE_ANY: nothing has come */
		uint8_t kind;            /* enum mxi_kind */
		uint8_t state;           /* enum mxi_state */
		bool buffered;           /* send: its memory is the program's again */
		bool busy;               /* Thole, or the directory, will report its completion */
	};
};

/* The list of done requests of the context that a match info says. Only with context ids. */
static inline struct list_node *mxi_request_done_of(const struct mx_endpoint *endpoint, uint64_t match_info)
{
	return &endpoint->done_by_context[(match_info & endpoint->context_mask) >> endpoint->context_shift];
}

/* ---- Birth and death ------------------------------------------------------------------------- */

/* One that is pending, its status filled in but for code and source. peer may be NULL. NULL: no
 * memory. */
static inline union mx_request *mxi_request_new(struct mx_endpoint *endpoint, enum mxi_kind kind, uint64_t match_info,
						void *context, struct mxi_peer *peer, uint32_t length)
{
	union mx_request *request = pool_get(&endpoint->requests);

	if (__builtin_expect(!request, 0))
		return NULL;
	request->status.code = MX_STATUS_PENDING;
	request->status.match_info = match_info;
	request->status.msg_length = request->status.xfer_length = length;
	request->status.context = context;
	request->peer = peer;
	request->query = NULL;
	request->handle = THOLE_ANY;
	request->kind = (uint8_t)kind;
	request->state = MXI_PENDING;
	request->busy = false;
	return request;
}

static inline void mxi_request_free(struct mx_endpoint *endpoint, union mx_request *request)
{
	pool_put(&endpoint->requests, request);
}

static inline void mxi_request_enqueue(struct mx_endpoint *endpoint, union mx_request *request)
{
	if (__builtin_expect(request->kind == MXI_CONNECT_CALL, 0)) {
		list_init(&request->done);
		list_init(&request->same);
		return;
	}
	list_push_back(&endpoint->done, &request->done);
	if (__builtin_expect(endpoint->done_by_context != NULL, 0))
		list_push_back(mxi_request_done_of(endpoint, request->status.match_info), &request->same);
}

static inline void mxi_request_dequeue(struct mx_endpoint *endpoint, union mx_request *request)
{
	list_unlink(&request->done);
	if (__builtin_expect(endpoint->done_by_context != NULL, 0))
		list_unlink(&request->same);
}

/* Complete: the program may take it. */
static inline void mxi_request_finish(struct mx_endpoint *endpoint, union mx_request *request, mx_status_code_t code)
{
	if (__builtin_expect(request->limit.place != 0, 0))
		heap_remove(&endpoint->timed, &request->limit);
	if (request->state == MXI_LEFT) {
		if (!request->busy)
			mxi_request_free(endpoint, request);
		return;
	}
	request->status.code = code;
	request->state = MXI_DONE;
	mxi_request_enqueue(endpoint, request);
	mxi_sleep_event(endpoint);
}

/* The program lets go of it: freed now, or by Thole's completion. */
static inline void mxi_request_leave(struct mx_endpoint *endpoint, union mx_request *request)
{
	if (request->state == MXI_DONE)
		mxi_request_dequeue(endpoint, request);
	else if (request->limit.place != 0)
		heap_remove(&endpoint->timed, &request->limit);
	request->state = MXI_LEFT;
	if (!request->busy)
		mxi_request_free(endpoint, request);
}

/* The result of one that is done, to the program, which thereby lets go. False: there is no memory for whom a message
 * is from, and all stays as it is; a result without that could not be answered. */
bool mxi_request_take(struct mx_endpoint *endpoint, union mx_request *request, mx_status_t *status_p);
/* Whether it would be taken. */
bool mxi_request_shows(struct mx_endpoint *endpoint, const union mx_request *request);
/* Time it out after so long, 0: never. Errors: MX_NO_RESOURCES. */
mx_return_t mxi_request_limit(struct mx_endpoint *endpoint, union mx_request *request, uint32_t timeout_ms);

/* One of a send or a connect, with the deadline that the program has set for these (mx_set_request_timeout) if it is
 * to keep it. NULL: no memory for both, and nothing has begun that would never time out. */
static inline union mx_request *mxi_request_new_limited(struct mx_endpoint *endpoint, enum mxi_kind kind,
							uint64_t match_info, void *context, struct mxi_peer *peer,
							uint32_t length, bool kept)
{
	union mx_request *request = mxi_request_new(endpoint, kind, match_info, context, peer, length);

	if (__builtin_expect(endpoint->timeout_ms != 0, 0) && request && kept &&
	    mxi_request_limit(endpoint, request, endpoint->timeout_ms) != MX_SUCCESS) {
		mxi_request_free(endpoint, request);
		return NULL;
	}
	return request;
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* The out of line part of mxi_request_status. */
mx_status_code_t mxi_request_failure(int error);
/* Thole's word for an end, as MX's. */
static inline mx_status_code_t mxi_request_status(int error)
{
	return __builtin_expect(error == THOLE_OK, 1) ? MX_STATUS_SUCCESS : mxi_request_failure(error);
}

/* The out of line parts of what calls ask first. */
mx_return_t mxi_request_refuse(const struct mx_endpoint *endpoint, const char *call);
mx_return_t mxi_request_refuse_match(const struct mx_endpoint *endpoint, const char *call, uint64_t match_info,
				     uint64_t match_mask);
/* What calls ask first: is there an endpoint, and a request; may one match so. */
static inline mx_return_t mxi_request_check(const struct mx_endpoint *endpoint, const char *call,
					    const mx_request_t *request)
{
	if (__builtin_expect(!endpoint || !request || !*request, 0))
		return mxi_request_refuse(endpoint, call);
	return MX_SUCCESS;
}

static inline mx_return_t mxi_request_check_match(const struct mx_endpoint *endpoint, const char *call,
						  uint64_t match_info, uint64_t match_mask)
{
	if (__builtin_expect(!endpoint || (match_info & ~match_mask) != 0, 0))
		return mxi_request_refuse_match(endpoint, call, match_info, match_mask);
	return MX_SUCCESS;
}

#endif /* MX_REQUEST_H */
