/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_tick - a thread that looks after endpoints whose program is elsewhere, as MX has one.
 *
 * A program that computes, or waits at another endpoint, makes no calls at this one, and its peers wait: for a large
 * message that they are to have, for a frame that was lost. So every TICK_MS the thread progresses each endpoint once
 * that was not polled since the last time. No thread of the program waits for this one. It runs no handler of the
 * program's either: a message that no receive expects waits for the program's next call.
 *
 * The thread runs as long as there are endpoints. Lock order: `mutex`, that of the list of endpoints, an endpoint's
 * (which is only tried).
 */
#ifndef MX_TICK_H
#define MX_TICK_H

#include "myriexpress.h"

/* An endpoint is being opened; it is about to be closed. MX_NO_RESOURCES, with a sentence: no thread can be had, and
 * the endpoint would be one whose peers wait while its program computes, for its life. */
mx_return_t mxi_tick_join(void);
void mxi_tick_leave(void);

#endif /* MX_TICK_H */
