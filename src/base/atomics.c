/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of operations by types; see atomics.h for what they mean.
 *
 * Each entry is a function over an array, generated from one row of OPERATIONS_* for one row of
 * TYPES_*. All of them run under one lock. Those on integers of 4 and 8 bytes change the target
 * with compare-and-exchange besides, for the sake of the process's own C11 atomics, which take no
 * lock.
 */
#include "base/atomics.h"

#include <complex.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

/* Protects every target against other calls of atomics_apply. Order: taken last, and nothing is
 * called while it is held. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Whoever held it is in the parent. */
static void atomics_fork_child(void)
{
	static const pthread_mutex_t nobody_has = PTHREAD_MUTEX_INITIALIZER;

	lock = nobody_has;
}

__attribute__((constructor)) static void atomics_begin(void) /* see forked.h */
{
	pthread_atfork(NULL, NULL, atomics_fork_child);
}

typedef void apply_fn(void *target, const void *operand, const void *compare, void *result,
		      size_t count);

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;
typedef float _Complex float_complex;
typedef double _Complex double_complex;
typedef long double long_double;
typedef long double _Complex long_double_complex;

/* The macros are tables, and laid out as such. */
/* clang-format off */

/* row(name, C type, type to calculate in). Integers are calculated without sign and no narrower
 * than unsigned, where overflow is defined to wrap. */
#define TYPES_EXCHANGED(row)									\
	row(INT32, int32_t, uint32_t) row(UINT32, uint32_t, uint32_t)				\
	row(INT64, int64_t, uint64_t) row(UINT64, uint64_t, uint64_t)
#define TYPES_INTEGER(row)									\
	row(INT8, int8_t, uint32_t) row(UINT8, uint8_t, uint32_t)				\
	row(INT16, int16_t, uint32_t) row(UINT16, uint16_t, uint32_t)				\
	row(INT128, int128, uint128) row(UINT128, uint128, uint128)
#define TYPES_REAL(row)										\
	row(FLOAT, float, float) row(DOUBLE, double, double)					\
	row(LONG_DOUBLE, long_double, long_double)
#define TYPES_COMPLEX(row)									\
	row(FLOAT_COMPLEX, float_complex, float_complex)					\
	row(DOUBLE_COMPLEX, double_complex, double_complex)					\
	row(LONG_DOUBLE_COMPLEX, long_double_complex, long_double_complex)

/* entry(operation, type row, does it change the target, new value) with t, o and c the elements
 * of target, operand and compare, type their type and wide the one to calculate in. */
#define OPERATIONS_ALL(entry, ...)								\
	entry(SUM, __VA_ARGS__, true, (wide)t + (wide)o)					\
	entry(PROD, __VA_ARGS__, true, (wide)t * (wide)o)					\
	entry(DIFF, __VA_ARGS__, true, (wide)t - (wide)o)					\
	entry(LOR, __VA_ARGS__, true, t != 0 || o != 0)						\
	entry(LAND, __VA_ARGS__, true, t != 0 && o != 0)					\
	entry(LXOR, __VA_ARGS__, true, (t != 0) != (o != 0))					\
	entry(WRITE, __VA_ARGS__, true, o)							\
	entry(CSWAP, __VA_ARGS__, c == t, o)							\
	entry(CSWAP_NE, __VA_ARGS__, c != t, o)
#define OPERATIONS_ORDERED(entry, ...)								\
	entry(MIN, __VA_ARGS__, o < t, o)							\
	entry(MAX, __VA_ARGS__, o > t, o)							\
	entry(CSWAP_LE, __VA_ARGS__, c <= t, o)							\
	entry(CSWAP_LT, __VA_ARGS__, c < t, o)							\
	entry(CSWAP_GE, __VA_ARGS__, c >= t, o)							\
	entry(CSWAP_GT, __VA_ARGS__, c > t, o)
#define OPERATIONS_BITS(entry, ...)								\
	entry(BOR, __VA_ARGS__, true, (wide)t | (wide)o)					\
	entry(BAND, __VA_ARGS__, true, (wide)t & (wide)o)					\
	entry(BXOR, __VA_ARGS__, true, (wide)t ^ (wide)o)					\
	entry(MSWAP, __VA_ARGS__, true, ((wide)o & (wide)c) | ((wide)t & ~(wide)c))

/* Operand, compare and result are bytes at any alignment; the one of them that an operation has
 * no use for is NULL and not touched. The former value is copied from the target and not from t,
 * since long double has bytes that belong to no value. */
#define FUNCTION_LOCKED(operation, name, ctype, widetype, condition, value)			\
	static void apply_##operation##_##name(void *target, const void *operand,		\
					       const void *compare, void *result, size_t count)	\
	{											\
		typedef ctype type;								\
		typedef widetype wide;								\
		type *const targets = target;							\
		for (size_t i = 0; i < count; i++) {						\
			type t = targets[i], o, c = t;						\
			memcpy(&o, (const char *)operand + i * sizeof(type), sizeof(type));	\
			if (compare)								\
				memcpy(&c, (const char *)compare + i * sizeof(type),		\
				       sizeof(type));						\
			if (result)								\
				memcpy((char *)result + i * sizeof(type), &targets[i],		\
				       sizeof(type));						\
			(void)c, (void)sizeof(wide);						\
			if (condition)								\
				targets[i] = (type)(value);					\
		}										\
	}

#define FUNCTION_EXCHANGED(operation, name, ctype, widetype, condition, value)			\
	static void apply_##operation##_##name(void *target, const void *operand,		\
					       const void *compare, void *result, size_t count)	\
	{											\
		typedef ctype type;								\
		typedef widetype wide;								\
		type *const targets = target;							\
		for (size_t i = 0; i < count; i++) {						\
			type t = __atomic_load_n(&targets[i], __ATOMIC_ACQUIRE), o, c = t;	\
			memcpy(&o, (const char *)operand + i * sizeof(type), sizeof(type));	\
			if (compare)								\
				memcpy(&c, (const char *)compare + i * sizeof(type),		\
				       sizeof(type));						\
			(void)c, (void)sizeof(wide);						\
			while ((condition) &&							\
			       !__atomic_compare_exchange_n(&targets[i], &t, (type)(value), true, \
							    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) \
				;								\
			if (result)								\
				memcpy((char *)result + i * sizeof(type), &t, sizeof(type));	\
		}										\
	}

/* Reading must not write, since the memory may be read-only. */
#define READ_LOCKED(name, ctype, widetype)							\
	static void apply_READ_##name(void *target, const void *operand, const void *compare,	\
				      void *result, size_t count)				\
	{											\
		(void)operand, (void)compare;							\
		if (result)									\
			memcpy(result, target, count * sizeof(ctype));				\
	}

#define READ_EXCHANGED(name, ctype, widetype)							\
	static void apply_READ_##name(void *target, const void *operand, const void *compare,	\
				      void *result, size_t count)				\
	{											\
		const ctype *const targets = target;						\
		(void)operand, (void)compare;							\
		for (size_t i = 0; result && i < count; i++) {					\
			ctype t = __atomic_load_n(&targets[i], __ATOMIC_ACQUIRE);		\
			memcpy((char *)result + i * sizeof(ctype), &t, sizeof(t));		\
		}										\
	}

#define FUNCTIONS_EXCHANGED(...)								\
	OPERATIONS_ALL(FUNCTION_EXCHANGED, __VA_ARGS__)						\
	OPERATIONS_ORDERED(FUNCTION_EXCHANGED, __VA_ARGS__)					\
	OPERATIONS_BITS(FUNCTION_EXCHANGED, __VA_ARGS__)					\
	READ_EXCHANGED(__VA_ARGS__)
#define FUNCTIONS_INTEGER(...)									\
	OPERATIONS_ALL(FUNCTION_LOCKED, __VA_ARGS__)						\
	OPERATIONS_ORDERED(FUNCTION_LOCKED, __VA_ARGS__)					\
	OPERATIONS_BITS(FUNCTION_LOCKED, __VA_ARGS__)						\
	READ_LOCKED(__VA_ARGS__)
#define FUNCTIONS_REAL(...)									\
	OPERATIONS_ALL(FUNCTION_LOCKED, __VA_ARGS__)						\
	OPERATIONS_ORDERED(FUNCTION_LOCKED, __VA_ARGS__)					\
	READ_LOCKED(__VA_ARGS__)
#define FUNCTIONS_COMPLEX(...)									\
	OPERATIONS_ALL(FUNCTION_LOCKED, __VA_ARGS__)						\
	READ_LOCKED(__VA_ARGS__)

TYPES_EXCHANGED(FUNCTIONS_EXCHANGED)
TYPES_INTEGER(FUNCTIONS_INTEGER)
TYPES_REAL(FUNCTIONS_REAL)
TYPES_COMPLEX(FUNCTIONS_COMPLEX)

#define ENTRY(operation, name, ...) [THOLE_##operation][THOLE_##name] = apply_##operation##_##name,
#define ENTRIES_INTEGER(...)									\
	OPERATIONS_ALL(ENTRY, __VA_ARGS__)							\
	OPERATIONS_ORDERED(ENTRY, __VA_ARGS__)							\
	OPERATIONS_BITS(ENTRY, __VA_ARGS__)							\
	ENTRY(READ, __VA_ARGS__)
#define ENTRIES_REAL(...)									\
	OPERATIONS_ALL(ENTRY, __VA_ARGS__)							\
	OPERATIONS_ORDERED(ENTRY, __VA_ARGS__)							\
	ENTRY(READ, __VA_ARGS__)
#define ENTRIES_COMPLEX(...)									\
	OPERATIONS_ALL(ENTRY, __VA_ARGS__)							\
	ENTRY(READ, __VA_ARGS__)

static apply_fn *const functions[THOLE_ATOMIC_OP_COUNT][THOLE_TYPE_COUNT] = {
	TYPES_EXCHANGED(ENTRIES_INTEGER)
	TYPES_INTEGER(ENTRIES_INTEGER)
	TYPES_REAL(ENTRIES_REAL)
	TYPES_COMPLEX(ENTRIES_COMPLEX)
};

/* clang-format on */

struct type_layout {
	size_t size;
	size_t alignment;
};

#define LAYOUT(name, ctype, wide) [THOLE_##name] = {sizeof(ctype), _Alignof(ctype)},
/* clang-format off */
static const struct type_layout layouts[THOLE_TYPE_COUNT] = {
	TYPES_EXCHANGED(LAYOUT)
	TYPES_INTEGER(LAYOUT)
	TYPES_REAL(LAYOUT)
	TYPES_COMPLEX(LAYOUT)
};
/* clang-format on */

static apply_fn *function_of(enum thole_atomic_op op, enum thole_type type)
{
	/* The enums come from callers, and from peers. */
	if ((unsigned)op >= THOLE_ATOMIC_OP_COUNT || (unsigned)type >= THOLE_TYPE_COUNT)
		return NULL;
	return functions[op][type];
}

static bool op_compares(enum thole_atomic_op op)
{
	return op >= THOLE_CSWAP && op <= THOLE_MSWAP;
}

size_t thole_atomic_size(enum thole_atomic_op op, enum thole_type type)
{
	return function_of(op, type) ? layouts[type].size : 0;
}

int atomics_apply(enum thole_atomic_op op, enum thole_type type, void *target, const void *operand,
		  const void *compare, void *result, size_t count)
{
	apply_fn *apply = function_of(op, type);

	if (!apply)
		return error_set(THOLE_ERR_UNSUPPORTED,
				 "atomic operation %d does not exist for type %d", (int)op,
				 (int)type);
	if ((uintptr_t)target % layouts[type].alignment != 0)
		return error_set(THOLE_ERR_ARGUMENT,
				 "atomic on memory at %p, which is not a multiple of %zu", target,
				 layouts[type].alignment);
	if (count == 0)
		return 0;
	if (!target || (!operand && op != THOLE_READ) || (!compare && op_compares(op)))
		return error_set(THOLE_ERR_ARGUMENT,
				 "atomic operation %d without target, operand or compare", (int)op);
	pthread_mutex_lock(&lock);
	apply(target, operand, op_compares(op) ? compare : NULL, result, count);
	pthread_mutex_unlock(&lock);
	return 0;
}
