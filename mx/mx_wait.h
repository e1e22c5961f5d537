/* SPDX-License-Identifier: BSD-3-Clause */
/* mx_wait - waiting for anything at an endpoint: a thread looks, spins, then sleeps
 * (mx_sleep.h). */
#ifndef MX_WAIT_H
#define MX_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "mx_endpoint.h"

/* Whether what is waited for is there. */
typedef bool mxi_wait_fn(struct mx_endpoint *endpoint, void *arg);
/* Progress until done(arg), mx_wakeup or the timeout (ms, MX_INFINITE). Lock held; whether it is
 * done. */
bool mxi_wait(struct mx_endpoint *endpoint, mxi_wait_fn *done, void *arg, uint32_t timeout_ms);

#endif /* MX_WAIT_H */
