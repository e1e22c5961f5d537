/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_request.h - requests: where they come from, how they end, and how the program hears of it.
 *
 * What ends is written into its request with the worker's lock held, by whoever makes progress: the caretaker, too. So
 * what the program is to be called for (its callback, its datatype) waits in the worker's list until a call of the
 * program's own has left the lock. A request is shown as ended when its callback is called, as with UCX: that may ask
 * how it ended, hand it to another thread, or use its memory for the next operation. One of the pool stays until its
 * callback has returned: who gives it back in that leaves it to who calls, and another thread waits, as it does for one
 * of ucp_request_alloc, which goes back at once in that.
 */
#ifndef UCX_REQUEST_H
#define UCX_REQUEST_H

#include "base/atomic.h"
#include "ucx_state.h"

static inline void *ucx_request_shown(struct ucx_request *request)
{
	return request + 1;
}

static inline struct ucx_request *ucx_request_of(void *shown)
{
	return (struct ucx_request *)shown - 1;
}

static inline bool ucx_request_has_ended(const struct ucx_request *request)
{
	return load_acquire(&request->flags) & UCX_ENDED; /* partners: ucx_request_end, ucx_request_show */
}

/* The out of line part of ucx_request_get: more requests. False: there is no memory. */
bool ucx_request_grow(struct ucp_worker *worker);

/* One of the pool, with the lock; NULL where there is no memory. */
static inline struct ucx_request *ucx_request_get(struct ucp_worker *worker)
{
	if (__builtin_expect(!worker->requests.free, 0) && !ucx_request_grow(worker))
		return NULL;
	return pool_get(&worker->requests);
}

/* Give one of the pool back, with the lock. */
static inline void ucx_request_put(struct ucx_request *request)
{
	pool_put(&request->worker->requests, request);
}

/* Status and info stand: show it, or let it wait for the program's call. With the lock. */
static inline void ucx_request_end(struct ucx_request *request)
{
	struct ucp_worker *worker = request->worker;

	if (request->flags & UCX_CALLBACK || request->bounce) {
		request->next = NULL;
		*worker->ended_end = request;
		worker->ended_end = &request->next;
	} else if (request->flags & UCX_FREED) {
		ucx_request_put(request);
	} else {
		store_release(&request->flags, request->flags | UCX_ENDED); /* partner: ucx_request_has_ended */
	}
}

/* The same of one with a callback, which is called before all that wait. With the lock. */
static inline void ucx_request_end_first(struct ucx_request *request)
{
	struct ucp_worker *worker = request->worker;

	request->next = worker->ended;
	worker->ended = request;
	if (!request->next)
		worker->ended_end = &request->next;
}

/* What has ended and waits for the program's call, taken out; with the lock. */
static inline struct ucx_request *ucx_request_ended(struct ucp_worker *worker)
{
	struct ucx_request *first = worker->ended;

	worker->ended = NULL;
	worker->ended_end = &worker->ended;
	return first;
}

/* Call the program for these. Without the lock. */
void ucx_request_tell_all(struct ucx_request *first);
/* Likewise, for one that was in no list. */
void ucx_request_tell(struct ucx_request *request);

/* Take back an operation of which no peer knows. What cannot be goes on. With the lock. */
void ucx_request_cancel(struct ucx_request *request);

/* The worker goes: its requests' memory, and what they hold. */
void ucx_request_drop_all(struct ucp_worker *worker);

#endif /* UCX_REQUEST_H */
