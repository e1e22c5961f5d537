/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_endpoint.h - endpoints: a peer of a worker, opened and closed. One that its program has closed stays until its
 * last send has ended.
 *
 * A program that asks for it (UCP_ERR_HANDLING_MODE_PEER) hears once that a peer has gone: with the first send that
 * fails for that reason, or since a call that has nothing else to do has looked.
 */
#ifndef UCX_ENDPOINT_H
#define UCX_ENDPOINT_H

#include "ucx_state.h"

/* One whose worker goes. With the lock. */
void ucx_endpoint_free(struct ucp_ep *endpoint);
/* Likewise, if it is closed and nothing needs it any more. */
void ucx_endpoint_leave(struct ucp_ep *endpoint);

/* A send has failed; calls nothing of Thole's. With the lock. */
void ucx_endpoint_failed(struct ucp_ep *endpoint, ucs_status_t status);
/* A call that found nothing to do; at times, look whether a peer is gone. With the lock. */
void ucx_endpoint_look(struct ucp_worker *worker);

#endif /* UCX_ENDPOINT_H */
