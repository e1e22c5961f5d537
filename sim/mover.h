/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mover: a driver as the one in the kernel (mover.h of the engine): it has pins of its process's memory, answers PULLs
 * and fetches windows while the process computes, by the same books (block.c, answer.c, region.c, guard.c).
 *
 * To pin takes time, a chunk after the other. Pages vanish in mid-transfer, there is a limit to what is pinned, calls
 * are refused, and one day the driver is gone.
 */
#ifndef THOLE_SIM_MOVER_H
#define THOLE_SIM_MOVER_H

#include "network.h"

struct sim_mover;

/* What may happen to it. */
struct mover_conditions {
	uint64_t page_ns;        /* to pin a page */
	uint64_t frame_ns;       /* to send a frame */
	uint32_t chunk;          /* pages that are pinned at once */
	uint32_t pages_max;      /* that are pinned at a time */
	uint32_t vanish;         /* of a million frames, after which all pins of their region go */
	uint32_t refuse;         /* of a million calls */
	uint64_t gone_ns;        /* when it goes away; UINT64_MAX: never */
	bool told;               /* and then it says so at the next call */
};

struct mover_counts {
	uint64_t fetched;        /* bytes of fetches that it has ended well */
	uint64_t served;         /* and that it has sent */
	uint64_t overlap_miss;   /* frames for pages that were not pinned */
	uint64_t pins;           /* pages */
};

/* A link of a process gets one. */
struct sim_mover *sim_mover_open(struct wire *wire, uint64_t seed);
/* With its link. */
void sim_mover_close(struct sim_mover *mover);
/* A frame has arrived at its link. Returns whether it is the mover's, and nobody else's. */
bool sim_mover_frame(struct sim_mover *mover, const uint8_t *bytes, uint32_t length);
/* Windows that are handed over to it. */
uint32_t sim_mover_windows(const struct sim_mover *mover);
/* Of all movers there ever were. */
extern struct mover_counts sim_mover_counts;

#endif
