/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts: what a program says once of all its requests.
 *
 * UCX's environment is not read: options are Thole's own. What is asked for beyond tags (remote memory, atomics,
 * streams, active messages, waking) is refused when a context is made, so that a program goes another way in time.
 */
#ifndef UCX_CONTEXT_H
#define UCX_CONTEXT_H

#include <ucp/api/ucp.h>

struct ucp_context {
	size_t request_size; /* bytes of the program's own behind each request */
	/* of that part, when a request is first made and when it goes for good; NULL: nothing is to be done */
	ucp_request_init_callback_t request_init;
	ucp_request_cleanup_callback_t request_cleanup;
};

#endif /* UCX_CONTEXT_H */
