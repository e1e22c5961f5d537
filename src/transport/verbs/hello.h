/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hello: what the two ends of a pair tell each other so that their queues can be connected, and what it looks like in
 * bytes. They go by somebody else's way (another transport's connection), which may lose, double and reorder them, but
 * says truly from which endpoint they are. A hello says all there is, so the newest one is all that counts; pair.c
 * has the rules.
 */
#ifndef THOLE_TRANSPORT_VERBS_HELLO_H
#define THOLE_TRANSPORT_VERBS_HELLO_H

#include "transport/verbs/nic.h"

enum { HELLO_VERSION = 6, HELLO_MAX = 128 /* bytes */ };

enum hello_flags {
	HELLO_CLOSED = 1 << 0, /* the sender has no queue now, and has stopped the one of `round` */
	HELLO_ENDED = 1 << 1,  /* nor will it have one any more: its endpoint closes */
	HELLO_ASKING = 1 << 2, /* the sender does not know yet that its queue is the mate of the receiver's */
	HELLO_LOST = 1 << 3,   /* nor will it have one to the receiver any more, which is gone for it */
};

struct hello {
	uint8_t flags;
	uint16_t share;        /* records that may be sent beyond `expected` */
	uint16_t bays;         /* of the landing */
	uint32_t round;        /* counts the sender's queues to this peer, from 1 on */
	uint32_t mate;         /* the round of the receiver's that it is connected to; 0: none yet */
	uint32_t frame_max;    /* longest record, head and all, that its receives take */
	uint32_t bay;          /* bytes of one */
	uint32_t landing_key;
	uint64_t landing;      /* where peers write chunks: address */
	uint64_t expected;     /* number of the next record that it takes */
	struct nic_name name;  /* of the queue; empty with HELLO_CLOSED */
};

/* Returns how many bytes it has. */
uint32_t hello_encode(const struct hello *hello, uint8_t bytes[HELLO_MAX]);
/* Any bytes. False: it is none, or of another version. */
bool hello_decode(const uint8_t *bytes, uint32_t length, struct hello *hello_p);

#endif
