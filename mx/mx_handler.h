/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_handler - the program's word on messages that nobody expects.
 *
 * While there is a handler, thole_screen is on: after each progress the messages are taken one by
 * one, and dropped or kept as the handler says. It runs with the endpoint's lock let go and all
 * progress stopped; it may call anything but what closes the endpoint.
 */
#ifndef MX_HANDLER_H
#define MX_HANDLER_H

#include <stdbool.h>

#include "mx_endpoint.h"

/* Run it for all that waits. Lock held; whether there were any. */
bool mxi_handler_run(struct mx_endpoint *endpoint);

/* Whether this thread is inside the endpoint's handler, where nothing can be waited for. */
bool mxi_handler_inside(const struct mx_endpoint *endpoint);

#endif /* MX_HANDLER_H */
