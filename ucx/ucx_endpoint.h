/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_endpoint.h - endpoints: a peer of a worker, opened and closed. One that its program has closed stays until its
 * last send has ended.
 *
 * A program that asks for it (UCP_ERR_HANDLING_MODE_PEER) hears once that a peer has gone. For that the endpoint has a
 * receive that names the peer and that nothing matches, since UCX's messages are none of THOLE_PLAIN: Thole asks after
 * whom a receive names, and ends that when the peer goes.
 */
#ifndef UCX_ENDPOINT_H
#define UCX_ENDPOINT_H

#include "ucx_state.h"

/* One whose worker goes. With the lock. */
void ucx_endpoint_free(struct ucp_ep *endpoint);
/* Likewise, if it is closed and nothing needs it any more. */
void ucx_endpoint_leave(struct ucp_ep *endpoint);

/* The receive that watches an endpoint's peer has ended; calls nothing of Thole's. With the lock. */
void ucx_endpoint_watched(struct ucx_request *watch);
/* A send has failed in its call: if it is for the peer's sake, its program is to hear of it. With the lock. */
void ucx_endpoint_refused(struct ucp_ep *endpoint, ucs_status_t status);

#endif /* UCX_ENDPOINT_H */
