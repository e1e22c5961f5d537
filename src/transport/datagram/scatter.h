/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scatter: the receive scatter list: where the next frames of bulk belong. A receive puts them there. See scatter.c.
 *
 * Frames a bulk receive is expected to bring, and where they belong: filled by scatter_foresee, used as the iovec of
 * one recvmsg, given back to scatter_arrived with what came. Head, payload, head, payload ... and at the end the spill.
 * Or the list is `whole`: its parts lie behind each other in the spill, so that the receive needs only that, and
 * payload is copied once more. Which of the two takes less time depends on the processor, and is measured.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_SCATTER_H
#define THOLE_TRANSPORT_DATAGRAM_SCATTER_H

#include "transport/datagram/link.h"

enum scatter_limits {
	SCATTER_FRAMES = 64,
	SCATTER_HEAD = 56,     /* the longest head of DATA: with a long tag */
	SCATTER_SPILL = 65536,
	SCATTER_LONG = 32768,  /* bytes of a packet from which on it is a measure */
	SCATTER_TURNS = 64,    /* of so many such packets */
	SCATTER_TRIALS = 4,    /* these are measured, half of them each way; the others are read in the better one */
};

struct scatter {
	uint64_t version;                           /* the engine's: of what it foresees; 0: never filled */
	unsigned count;                             /* of iovecs */
	unsigned frames;                            /* that are foreseen; may be 0 */
	uint32_t frame;                             /* length of each but perhaps the last, head included */
	struct iovec iov[2 * SCATTER_FRAMES + 1];
	uint8_t heads[SCATTER_FRAMES][SCATTER_HEAD];
	void *where[SCATTER_FRAMES];                /* the engine's: the block, */
	uint8_t frame_index[SCATTER_FRAMES];        /* which frame of it, */
	void *place[SCATTER_FRAMES];                /* and where its payload belongs */
	bool whole;                                 /* all of the list is the spill, from where payload is copied, */
	bool spares;                                /* as the kernel may not write to a place; until none is foreseen */
	bool filled;                                /* it was when the list was filled */
	bool lengthy;                               /* the last packet was a long one, and so may be the next */
	uint8_t turn;                               /* of the long packets, which are a measure of both ways */
	uint32_t cost[2];                           /* of each way, not whole and whole, by scatter_took; 0: none */
	/* frames to foresee, 0: SCATTER_FRAMES; as many as come at a time, */
	uint8_t most;
	uint8_t few;                                /* and how often fewer came */
	/* scatter_arrived's: something was of an open connection, and from its path */
	bool known;
	_Alignas(64) uint8_t spill[SCATTER_SPILL];  /* takes what was not foreseen */
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

/* Whether scatter_took wants to know how long the next receive takes, and all that is done for it. */
static inline bool scatter_measures(const struct scatter *scatter)
{
	return scatter->lengthy && scatter->turn < SCATTER_TRIALS;
}

/* The kernel may not write to some place that is foreseen. Its owner may: memory under a handler of SIGSEGV's that
 * wants to know what is written, say. And what else is foreseen is not to be lost with that. So payload is copied from
 * the spill until nothing is foreseen any more. */
static inline void scatter_spare(struct scatter *scatter)
{
	scatter->whole = scatter->spares = true;
}

/* A packet of so many bytes has come, and this took so long; 0: it was not measured. */
void scatter_took(struct scatter *scatter, size_t bytes, uint64_t ns);

#endif
