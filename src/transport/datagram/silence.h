/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * silence: whether a peer is there that says nothing. See silence.c.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_SILENCE_H
#define THOLE_TRANSPORT_DATAGRAM_SILENCE_H

#include "transport/datagram/engine.h"

enum silence_limits {
	LIVENESS_NS = 50000000, /* between two checks whether a silent peer's process lives */
	REFUSED_POLLS = 64,     /* that may bring something of a peer whose host says that it is gone */
};

/* A peer whose host has its port while nobody answers there is stopped, or dead with a copy of the socket left: its
 * silence counts so many times less, so that it is waited for about twenty times peer_timeout. The same where nobody
 * could be asked. */
enum { SLOW_SILENCE = 40 };

struct silence {
	uint64_t heard_ns;          /* when a frame of it last came */
	uint64_t total_ns;          /* how long it was silent while something was pending and we polled */
	uint64_t checked_ns;        /* when that was last checked; 0: nothing is pending */
	uint64_t unfed_ns;          /* how long it answered, but no DATA came that it was asked for, */
	uint64_t untaken_ns;        /* or the oldest frame was not acknowledged */
	uint32_t stalled_at;        /* the oldest frame that was unacknowledged at checked_ns */
	bool asking : 1;            /* link->liveness is at work */
	bool answered : 1;          /* since checked_ns came a frame that only who reads frames sends */
	bool awaited : 1;           /* somebody waits for this peer, though nothing is under way */
	uint8_t starved;            /* time-outs without DATA, though the peer says other things */
	uint8_t refused_polls;      /* since its host said that it is gone, from 1 on; 0: it does not */
};

/* The peer is lost. */
void silence_end(struct connection *connection);
/* Its host says that nobody is there. */
void silence_refused(struct connection *connection);
/* Do what is due; when something is next, UINT64_MAX: never. The peer may be lost by it. */
uint64_t silence_check(struct connection *connection);
/* Find the peers that only receives wait for, so that their silence is noticed. The engine's owner calls it now
 * and then, several times in peer_timeout. */
void silence_receives(struct engine *engine);

#endif
