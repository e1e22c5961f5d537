/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arrays that grow: room for more elements, in memory that doubles.
 *
 * Owns nothing: the array, its count and its capacity are its user's. Elements may move when it grows, so nobody keeps
 * a pointer to one.
 */
#ifndef THOLE_BASE_ARRAY_H
#define THOLE_BASE_ARRAY_H

#include <stddef.h>
#include <stdint.h>

enum { ARRAY_FIRST = 8 }; /* elements of the first allocation */

/* Make room for `count` elements of `size` bytes, at least 1 and at most 2^31, in an array that has room for
 * *capacity_p. Returns the array, which may have moved; what is new in it is not initialised. NULL: there is no memory,
 * and the old array is as it was. */
void *array_reserve(void *elements, uint32_t *capacity_p, uint32_t count, size_t size);

#endif
