/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/plan.h"

/* In a word: bit 63: it is a plan; 62: flags; then growth (16 bits), cap and first (20 bits each, in units). */
enum { PLAN_LENGTH_BITS = 20 };

uint64_t plan_pack(const struct plan *plan)
{
	return UINT64_C(1) << 63 | (uint64_t)plan->flags << 62 | (uint64_t)plan->growth << (2 * PLAN_LENGTH_BITS) |
	       (uint64_t)(plan->cap / PLAN_UNIT) << PLAN_LENGTH_BITS | plan->first / PLAN_UNIT;
}

bool plan_unpack(uint64_t word, struct plan *plan_p)
{
	uint32_t mask = (1u << PLAN_LENGTH_BITS) - 1;

	*plan_p = (struct plan){
		.first = (uint32_t)(word & mask) * PLAN_UNIT,
		.cap = (uint32_t)(word >> PLAN_LENGTH_BITS & mask) * PLAN_UNIT,
		.growth = (uint32_t)(word >> (2 * PLAN_LENGTH_BITS) & 0xffff),
		.flags = word >> 62 & 1,
	};
	return word >> 63 && plan_p->first > 0 && plan_p->cap > 0 && plan_p->growth >= PLAN_ONE;
}

/* The chunk at walk->at ends at the edge, or with the transfer. */
static void plan_cut(struct plan_walk *walk)
{
	uint64_t edge = walk->edge >> 16;

	walk->length = (uint32_t)((edge < walk->end ? edge : walk->end) - walk->at);
}

void plan_begin(struct plan_walk *walk, const struct plan *plan, uint64_t at, uint64_t end)
{
	*walk = (struct plan_walk){.plan = *plan, .at = at, .end = end, .size = (uint64_t)plan->first << 16};
	walk->edge = (at << 16) + walk->size;
	plan_cut(walk);
}

void plan_next(struct plan_walk *walk)
{
	uint64_t cap = (uint64_t)walk->plan.cap << 16;

	walk->at += walk->length;
	walk->size = walk->size / PLAN_ONE * walk->plan.growth + walk->size % PLAN_ONE * walk->plan.growth / PLAN_ONE;
	if (walk->size > cap)
		walk->size = cap;
	walk->edge += walk->size;
	plan_cut(walk);
}

uint32_t plan_longest(const struct plan *plan)
{
	return plan->first > plan->cap ? plan->first : plan->cap;
}

static uint32_t plan_blocks(uint32_t length)
{
	return (length + PLAN_DATA - 1) / PLAN_DATA;
}

uint32_t plan_room(const struct plan *plan, uint32_t length)
{
	return plan->flags ? plan_blocks(length) * PLAN_BLOCK : length;
}

uint32_t plan_fits(bool flags, uint32_t bay)
{
	uint32_t bytes = flags ? bay / PLAN_BLOCK * PLAN_DATA : bay;

	bytes -= bytes % PLAN_UNIT;
	return bytes < PLAN_LENGTH_MAX ? bytes : PLAN_LENGTH_MAX;
}
