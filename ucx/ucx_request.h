/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests: what an operation under way is, in front of the part that the program sees.
 *
 * A request is the worker's, from its pool, or lies in memory of the program's in front of the address that it gave.
 * Thole's context of an operation is its request, and what ends is written there with the worker's lock held, by
 * whoever makes progress: the caretaker, too. What the program is to be called for (its callback, its datatype) waits
 * in the worker's list until a call of the program's own has left the lock, since it may call us in turn. A request is
 * shown as ended after its callback, so it is not given back while that runs.
 */
#ifndef UCX_REQUEST_H
#define UCX_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "thole.h"
#include "ucx_datatype.h"

struct ucp_ep;
struct ucp_worker;

enum ucx_request_flags {
	UCX_STARTING = 1 << 0,  /* its call has not returned: what ends now is that call's to report */
	UCX_ENDED = 1 << 1,     /* status and info stand */
	UCX_FREED = 1 << 2,     /* the program wants it no more */
	UCX_OURS = 1 << 3,      /* of the pool */
	UCX_RECEIVE = 1 << 4,
	UCX_CALLBACK = 1 << 5,  /* there is one, */
	UCX_PLAIN = 1 << 6,     /* which takes no user_data */
	UCX_SEND = 1 << 7,      /* flushes wait for it */
};

struct ucx_request {
	uint32_t flags;
	ucs_status_t status;
	ucp_tag_recv_info_t info; /* of a receive */
	union {
		ucp_send_nbx_callback_t send;
		ucp_send_callback_t send_plain;
		ucp_tag_recv_nbx_callback_t receive;
		ucp_tag_recv_callback_t receive_plain;
	} callback;
	void *user_data;
	struct ucp_worker *worker;
	struct ucx_request *next; /* in the worker's list of ended ones, or of flushes */
	struct ucp_ep *endpoint;  /* of a send; of a flush, NULL: of all */
	uint64_t order;           /* of a send: flushes that began before it; of a flush, its number */
	uint64_t left;            /* of a flush: sends that it waits for */
	struct ucx_bounce bounce;
};

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
	return load_acquire(&request->flags) & UCX_ENDED; /* partner: ucx_request_end */
}

/* One of the pool, with the lock; NULL where there is no memory. */
struct ucx_request *ucx_request_get(struct ucp_worker *worker);
/* Give one of the pool back, with the lock. */
void ucx_request_put(struct ucx_request *request);

/* Thole's completion function of workers; arg is the worker. With the lock. */
void ucx_request_complete(void *arg, const struct thole_completion *completion);
/* Likewise, of a flush. */
void ucx_request_end(struct ucx_request *request);

/* Call the program for these, which were in the worker's list. Without the lock. */
void ucx_request_tell_all(struct ucx_request *first);
/* For one, whose call has not returned. */
void ucx_request_tell(struct ucx_request *request);

/* The worker goes: its requests' memory, and what they hold. */
void ucx_request_drop_all(struct ucp_worker *worker);

#endif /* UCX_REQUEST_H */
