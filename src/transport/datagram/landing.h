/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * landing: where the next frames of bulk belong, so that a link's receive puts them there. See landing.c.
 *
 * Frames a bulk receive is expected to bring, and where they belong: filled by landing_foresee, used as the iovec of one
 * recvmsg, given back to landing_arrived with what came. Head, payload, head, payload ... and at the end the spill.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_LANDING_H
#define THOLE_TRANSPORT_DATAGRAM_LANDING_H

#include "transport/datagram/link.h"

enum { LANDING_FRAMES = 64, LANDING_HEAD = 56, LANDING_SPILL = 65536 }; /* the longest head of DATA: with a long tag */

struct landing {
	uint64_t version;                           /* the engine's: of what it foresees; 0: never filled */
	unsigned count;                             /* of iovecs */
	unsigned frames;                            /* that are foreseen; may be 0 */
	uint32_t frame;                             /* length of each but perhaps the last, head included */
	struct iovec iov[2 * LANDING_FRAMES + 1];
	uint8_t heads[LANDING_FRAMES][LANDING_HEAD];
	void *where[LANDING_FRAMES];                /* the engine's: the block, */
	uint8_t frame_index[LANDING_FRAMES];        /* and which frame of it */
	uint8_t most;                               /* frames to foresee, 0: LANDING_FRAMES; as many as come at a time, */
	uint8_t few;                                /* and how often fewer came */
	bool known;                                 /* landing_arrived's: something was of an open connection, and from its path */
	uint8_t spill[LANDING_SPILL];               /* takes what was not foreseen */
};

/* Errors: MEMORY. */
int landing_init(struct engine *engine);
void landing_fini(struct engine *engine);
/* Foresee the next DATA frames: fill a landing's iovec. Its spill comes last always. */
void landing_foresee(struct engine *engine, struct landing *landing);
/* What came into it: `bytes`, in frames of `segment` bytes each but the last (GRO), from one sender. Returns how many frames. */
unsigned landing_arrived(struct engine *engine, struct link *link, const struct path *from, struct landing *landing,
			 size_t bytes, size_t segment);

#endif
