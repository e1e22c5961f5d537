/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan: the lengths of a superpipeline's chunks, which both ends have to know. (Denis: A High-Performance Superpipeline
 * Protocol for InfiniBand, section 4: C(i+1) = C(i) x q from C0 on; here with a cap.)
 *
 * Chunk ends are those of the series of real numbers, rounded down, so that rounding does not add up and their number
 * is that of equation 7. Blocks: where writes arrive in order, a chunk is blocks of PLAN_BLOCK bytes, the last 8 of
 * each a flag; the first block is the short one, so that flags are always at the same places.
 */
#ifndef THOLE_TRANSPORT_VERBS_PLAN_H
#define THOLE_TRANSPORT_VERBS_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum {
	PLAN_BLOCK = 4096,
	PLAN_FLAG = 8,
	PLAN_DATA = PLAN_BLOCK - PLAN_FLAG, /* bytes of the message in a block */
	PLAN_UNIT = 64,     /* bytes: what lengths in a plan are counted in */
	PLAN_ONE = 4096,    /* growth of 1 */
	PLAN_LENGTH_MAX = ((1 << 20) - 1) * PLAN_UNIT,
	PLAN_GROWTH_MAX = 65535,
};

struct plan {
	uint32_t first;     /* bytes of the first chunk, a multiple of PLAN_UNIT, at most PLAN_LENGTH_MAX */
	uint32_t cap;       /* and at most of the others */
	uint32_t growth;    /* in parts of PLAN_ONE, at least that */
	bool flags;         /* blocks have flags */
};

/* A plan in one word, which is no address of a program's: its upper bit is set. */
uint64_t plan_pack(const struct plan *plan);
/* False: it is none. */
bool plan_unpack(uint64_t word, struct plan *plan_p);

/* Where in a transfer one is. */
struct plan_walk {
	struct plan plan;
	uint64_t at;        /* where the next chunk begins, */
	uint32_t length;    /* its length, 0: there is none */
	uint64_t end;       /* of the transfer */
	uint64_t size;      /* of the next chunk and where it ends, in parts of 65536 of a byte */
	uint64_t edge;
};

/* From `at` on; the growth begins there. */
void plan_begin(struct plan_walk *walk, const struct plan *plan, uint64_t at, uint64_t end);
void plan_next(struct plan_walk *walk);
/* Bytes of the longest chunk that there may be. */
uint32_t plan_longest(const struct plan *plan);
/* Bytes that a chunk of so many takes in a bay, from the bay's start on. */
uint32_t plan_room(const struct plan *plan, uint32_t length);
/* Longest chunk for a bay. */
uint32_t plan_fits(bool flags, uint32_t bay);

#endif
