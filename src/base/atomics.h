/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The atomic operations of thole.h, applied to this process's memory.
 *
 * Owns the one lock that orders them. All operations of all endpoints of the process are atomic
 * towards each other, whatever their types and sizes, since each call holds the lock. Operations
 * on integers of 4 and 8 bytes moreover use the machine's atomic instructions, so they are atomic
 * towards the C11 atomics with which the process's own threads use the same memory.
 *
 * Not here: checks of access, and of bounds.
 */
#ifndef BASE_ATOMICS_H
#define BASE_ATOMICS_H

#include "thole.h"

/*
 * Apply op to count elements at target, in order. Former values go to result unless it is NULL.
 * operand, compare and result may be unaligned and must not overlap target; operand may be NULL
 * for THOLE_READ, compare where the operation has none. THOLE_READ writes nothing to target.
 * Meanings, with t, o, c for the elements of target, operand and compare:
 *
 *   MIN MAX        the smaller, the larger of t and o; t stays where either is not a number
 *   SUM PROD DIFF  t + o, t * o, t - o; integers wrap
 *   LOR LAND LXOR  1 or 0 of the type; what is not zero is true
 *   BOR BAND BXOR  integers only
 *   READ WRITE     t, o
 *   CSWAP          o if c == t;  _NE: c != t,  _LE: c <= t,  _LT: c < t,  _GE: c >= t,  _GT: c > t
 *   MSWAP          (o & c) | (t & ~c); integers only
 *
 * Complex numbers have no order: no MIN, MAX, CSWAP_LE to CSWAP_GT.
 *
 * Returns 0, THOLE_ERR_UNSUPPORTED, or THOLE_ERR_ARGUMENT (target not aligned for the type, a
 * NULL).
 */
int atomics_apply(enum thole_atomic_op op, enum thole_type type, void *target, const void *operand,
		  const void *compare, void *result, size_t count);

#endif /* BASE_ATOMICS_H */
