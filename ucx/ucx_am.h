/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_am.h - active messages: a number says which of the receiver's handlers is called with the data, from inside the
 * receiver's own progress.
 *
 * They are plain messages of Thole's, so that no receive with a tag meets them. Short ones land in a receive that is
 * posted all the time. Of a long one its length and header go ahead, and then the data where there is room for it, by
 * a receive from that peer alone. What has gone ahead is always followed by the data, or by an empty message in its
 * place, since handlers wait for it. What is handed to a handler is all there, and in memory that it may keep.
 *
 * Handlers of a worker are called one at a time, in the order in which messages came, whoever makes progress.
 */
#ifndef UCX_AM_H
#define UCX_AM_H

#include "ucx_state.h"

enum {
	UCX_AM_HEADER_MAX = 8 << 10, /* bytes of a header */
};

/* alignment: of data that is handed to handlers; 0: any. False: it is none. */
bool ucx_am_init(struct ucp_worker *worker, size_t alignment);
/* After Thole's endpoint, which may still write into them. */
void ucx_am_drop_all(struct ucp_worker *worker);

/* A receive with UCX_AM has ended. Inside Thole's completion function, with the lock. */
void ucx_am_arrived(struct ucx_request *request, const struct thole_completion *completion);

/* After progress, with the lock: receive on. Whether handlers are to be called. */
bool ucx_am_turn(struct ucp_worker *worker);
/* Call them, without the lock. */
void ucx_am_tell_all(struct ucp_worker *worker);

#endif /* UCX_AM_H */
