/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_endpoint.h - endpoints: a peer of a worker, opened and closed. One that its program has closed stays until its
 * last send has ended.
 */
#ifndef UCX_ENDPOINT_H
#define UCX_ENDPOINT_H

#include "ucx_state.h"

/* One that is closed and has no sends, or whose worker goes. With the lock. */
void ucx_endpoint_free(struct ucp_ep *endpoint);

#endif /* UCX_ENDPOINT_H */
