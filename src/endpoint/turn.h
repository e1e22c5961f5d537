/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * turn: one turn of progress: transports are polled, what waits is pushed; and now and then maintenance, of what no
 * poll sees. Nothing here waits, and nothing is done about finding nothing (wait.c).
 *
 * Transports are polled in order of preference, those that ask for it (transport_set_polled): shared memory always, the
 * network only while there are connections. Without, what comes there is seen by maintenance. Those that rest
 * (transport_rest) are polled now and then, by the clock (cadence_looks), and at each maintenance.
 */
#ifndef THOLE_ENDPOINT_TURN_H
#define THOLE_ENDPOINT_TURN_H

#include "endpoint/endpoint.h"
#include "message/message.h"

enum { CLOCK_CALLS = 64 }; /* busy calls between two that may read the clock */

/* Whether this thread makes progress in place of the program. */
extern __thread bool turn_stands_in;

/* Events of descriptors, unexpected messages that are to be fetched, transports' own. */
void endpoint_maintain(struct thole_endpoint *endpoint, uint64_t now_ns);

/* Before sleeping: the longest sleep of all transports. */
uint64_t endpoint_arm(struct thole_endpoint *endpoint);
/* After it. */
void endpoint_disarm(struct thole_endpoint *endpoint);

/* Among busy calls: rests end, and there is maintenance at times. */
void endpoint_now_and_then(struct thole_endpoint *endpoint);

/* Progress without waiting; nothing is done about finding nothing. Mostly the first transport alone is polled. */
static inline int endpoint_poll(struct thole_endpoint *endpoint)
{
	int n;

	if (__builtin_expect(endpoint->base.polled != 1u << 0, 0)) {
		n = message_poll(endpoint);
	} else {
		n = transports[0]->progress(&endpoint->base);
		if (!list_empty(&endpoint->backlogged))
			n += peer_backlog_push(endpoint);
	}
	if (n > 0) {
		endpoint_of(endpoint)->idle = 0;
		if (++endpoint_of(endpoint)->calls % CLOCK_CALLS == 0 && !endpoint->base.simulated)
			endpoint_now_and_then(endpoint);
	}
	return n;
}

#endif
