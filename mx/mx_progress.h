/* SPDX-License-Identifier: BSD-3-Clause */
/* mx_progress - progress of an endpoint: Thole's, the handler's, the directory's answers,
 * deadlines. */
#ifndef MX_PROGRESS_H
#define MX_PROGRESS_H

#include "mx_endpoint.h"

/* Once. Lock held; it may be let go meanwhile. */
void mxi_progress_run(struct mx_endpoint *endpoint);

/* A look in place of the program, by a thread that is there for another endpoint or for all, without running its
 * handler. Who sleeps, or is about to, looks again: what has come may be what he waits for, and his descriptor does not
 * show it any more. With the lock. */
void mxi_progress_beside(struct mx_endpoint *endpoint);

#endif /* MX_PROGRESS_H */
