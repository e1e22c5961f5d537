/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dice: random numbers from a seed (splitmix64). Each concern of a simulation has dice of its own, so that a draw more
 * in one does not change what the others throw.
 */
#ifndef THOLE_SIM_DICE_H
#define THOLE_SIM_DICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"

struct dice {
	uint64_t state;
};

static inline struct dice dice_new(uint64_t seed, uint64_t concern)
{
	return (struct dice){random_mix(seed * 64 + concern)};
}

static inline uint64_t dice_next(struct dice *dice)
{
	return random_next(&dice->state);
}

/* From 0 to below - 1. */
static inline uint64_t dice_below(struct dice *dice, uint64_t below)
{
	return dice_next(dice) % below;
}

static inline uint64_t dice_between(struct dice *dice, uint64_t least, uint64_t most)
{
	return least + dice_below(dice, most - least + 1);
}

/* Between the two, each power of two as likely as the next. */
static inline uint64_t dice_scale(struct dice *dice, uint64_t least, uint64_t most)
{
	uint64_t limit = most;

	while (limit / 2 > least && dice_below(dice, 2))
		limit /= 2;
	return dice_between(dice, least, limit);
}

/* True in this many of a million cases. */
static inline bool dice_chance(struct dice *dice, uint32_t of_a_million)
{
	return of_a_million > 0 && dice_below(dice, 1000000) < of_a_million;
}

#endif
