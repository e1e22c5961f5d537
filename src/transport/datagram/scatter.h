/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scatter: the receive scatter list: where the next frames of bulk belong. A receive puts them there. See scatter.c.
 *
 * Frames a bulk receive is expected to bring, and where they belong: filled by scatter_foresee, used as the iovec of
 * one recvmsg, given back to scatter_arrived with what came. Head, payload, head, payload ... and at the end the spill.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_SCATTER_H
#define THOLE_TRANSPORT_DATAGRAM_SCATTER_H

#include "transport/datagram/link.h"

enum { SCATTER_FRAMES = 64, SCATTER_HEAD = 56, SCATTER_SPILL = 65536 }; /* the longest head of DATA: with a long tag */

struct scatter {
	uint64_t version;                           /* the engine's: of what it foresees; 0: never filled */
	unsigned count;                             /* of iovecs */
	unsigned frames;                            /* that are foreseen; may be 0 */
	uint32_t frame;                             /* length of each but perhaps the last, head included */
	struct iovec iov[2 * SCATTER_FRAMES + 1];
	uint8_t heads[SCATTER_FRAMES][SCATTER_HEAD];
	void *where[SCATTER_FRAMES];                /* the engine's: the block, */
	uint8_t frame_index[SCATTER_FRAMES];        /* and which frame of it */
	/* frames to foresee, 0: SCATTER_FRAMES; as many as come at a time, */
	uint8_t most;
	uint8_t few;                                /* and how often fewer came */
	/* scatter_arrived's: something was of an open connection, and from its path */
	bool known;
	uint8_t spill[SCATTER_SPILL];               /* takes what was not foreseen */
};

/* Errors: MEMORY. */
int scatter_init(struct engine *engine);
void scatter_fini(struct engine *engine);
/* Foresee the next DATA frames: fill the list's iovec. Its spill comes last always. */
void scatter_foresee(struct engine *engine, struct scatter *scatter);
/* What came into it: `bytes`, in frames of `segment` bytes each but the last (GRO), from one sender. Returns how
 * many frames. */
unsigned scatter_arrived(struct engine *engine, struct link *link, const struct path *from, struct scatter *scatter,
			 size_t bytes, size_t segment);

#endif
