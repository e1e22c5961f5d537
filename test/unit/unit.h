/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What unit tests share: cmocka with the headers that it wants first, and random numbers from a
 * seed.
 */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The next random number (splitmix64); state is the seed at first. */
static inline uint64_t unit_random(uint64_t *state)
{
	uint64_t value = *state += UINT64_C(0x9e3779b97f4a7c15);

	value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
	return value ^ value >> 31;
}

/* A random number below bound. */
static inline uint32_t unit_below(uint64_t *state, uint32_t bound)
{
	return (uint32_t)((unit_random(state) >> 32) * bound >> 32);
}

#endif /* UNIT_H */
