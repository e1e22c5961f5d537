/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flushes: requests that end when the sends that were under way when they began have ended.
 */
#ifndef UCX_FLUSH_H
#define UCX_FLUSH_H

#include "ucx_request.h"

/* A send goes on after its call. With the lock. */
void ucx_flush_sending(struct ucx_request *request, struct ucp_ep *endpoint);
/* It has ended. With the lock. */
void ucx_flush_sent(struct ucx_request *request);

#endif /* UCX_FLUSH_H */
