/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_flush.h - flushes: requests that end when the sends have ended that were under way when they began and need no
 * receive. What waits for its receive is not waited for, as with UCX: the peer may post that only once it has heard
 * that the flush is over.
 */
#ifndef UCX_FLUSH_H
#define UCX_FLUSH_H

#include "ucx_state.h"

/* A send goes on after its call; its flags stand. With the lock. */
void ucx_flush_sending(struct ucx_request *request, struct ucp_ep *endpoint);
/* It has ended. With the lock. */
void ucx_flush_sent(struct ucx_request *request);

/* Flush one endpoint's sends, or (NULL) all of the worker's; flags: UCX_PLAIN or 0. With the lock. NULL: there are none
 * under way. Errors: NO_MEMORY; what an endpoint's program has heard, or is to hear, of its peer. */
ucs_status_ptr_t ucx_flush_begin(struct ucp_worker *worker, struct ucp_ep *endpoint, const ucp_request_param_t *param,
				 uint32_t flags);

/* Make progress until it has ended, and give it back. Without the lock. */
ucs_status_t ucx_flush_wait(struct ucp_worker *worker, ucs_status_ptr_t pointer);

#endif /* UCX_FLUSH_H */
