/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_tick - a thread that looks after endpoints whose program is elsewhere, as MX has one.
 *
 * A program that computes, or waits at another endpoint, makes no calls at this one, and its peers
 * wait: for a large message that they are to have, for a frame that was lost. So every TICK_MS each
 * endpoint that nobody has looked at since the last time is progressed, once. Who uses an endpoint
 * never waits for this thread, nor does it run a program's handler: what nobody expects waits for a
 * call of the program's.
 *
 * There as long as there are endpoints. Lock order: `mutex`, that of the list of endpoints, an
 * endpoint's (which is only tried).
 */
#ifndef MX_TICK_H
#define MX_TICK_H

/* An endpoint more, or one less, for the thread. Without the thread all works inside of calls
 * alone. */
void mxi_tick_join(void);
void mxi_tick_leave(void);

#endif /* MX_TICK_H */
