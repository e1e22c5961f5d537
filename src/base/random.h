/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * random: numbers from a seed (splitmix64), the same ones each time. For the simulator and for tests; nothing that
 * anybody must not guess comes from here.
 */
#ifndef THOLE_BASE_RANDOM_H
#define THOLE_BASE_RANDOM_H

#include <stdint.h>

/* Another number for each number, which looks like nothing of it. */
static inline uint64_t random_mix(uint64_t value)
{
	value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
	return value ^ value >> 31;
}

/* The next one; state is the seed at first. */
static inline uint64_t random_next(uint64_t *state)
{
	return random_mix(*state += UINT64_C(0x9e3779b97f4a7c15));
}

/* From 0 to bound - 1, by the upper half of a number. */
static inline uint32_t random_below(uint64_t *state, uint64_t bound)
{
	return (uint32_t)((random_next(state) >> 32) * bound >> 32);
}

#endif
