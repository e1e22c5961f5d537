/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_send.h - sends that need a request, or may need one: of messages with tags, and of active messages.
 */
#ifndef UCX_SEND_H
#define UCX_SEND_H

#include "ucx_call.h"

/* Send a few bytes that nobody is told of. With the lock. Returns 0 or a THOLE_ERR_*; *request_p: NULL, or it is under
 * way, with UCX_AHEAD. */
int ucx_send_ahead(struct ucp_ep *endpoint, const void *buffer, size_t length, uint64_t tag,
		   struct ucx_request **request_p);

/* What the worker owes a peer in place of data that there was no memory to send, if there is now. With the lock. */
void ucx_send_owed(struct ucp_worker *worker);

/* Begin one with a request that ucx_call_begin gave, and leave the lock. flags: UCX_PLAIN or 0; thole_flags: enum
 * thole_flags. With UCX_FOLLOWS in the request's flags it is the data of an active message, of which ucx_send_ahead has
 * sent the beginning: its pair. Returns what the program's call does. */
ucs_status_ptr_t ucx_send_begun(struct ucp_ep *endpoint, struct ucx_request *request, const void *buffer, size_t count,
				uint64_t tag, const ucp_request_param_t *param, uint32_t flags, unsigned thole_flags);

#endif /* UCX_SEND_H */
