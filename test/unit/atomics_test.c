/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each atomic operation on each type, against a reference that works on one wide representation.
 *
 * The reference has no code per type: integers become 128 bits wide and are cut again, reals and
 * complex numbers become pairs of long double. Samples of those are such that every result is
 * exact.
 */
#include "unit.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/atomics.h"

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;

enum { ELEMENT_MAX = 32, COUNT_MAX = 9, ROUNDS = 200, FORKS = 20 };

enum domain { SIGNED, UNSIGNED, REAL, COMPLEX };

static const struct {
	enum domain domain;
	size_t part; /* bytes of an integer, a real, or half a complex number */
} types[THOLE_TYPE_COUNT] = {
	[THOLE_INT8] = {SIGNED, 1},
	[THOLE_UINT8] = {UNSIGNED, 1},
	[THOLE_INT16] = {SIGNED, 2},
	[THOLE_UINT16] = {UNSIGNED, 2},
	[THOLE_INT32] = {SIGNED, 4},
	[THOLE_UINT32] = {UNSIGNED, 4},
	[THOLE_INT64] = {SIGNED, 8},
	[THOLE_UINT64] = {UNSIGNED, 8},
	[THOLE_INT128] = {SIGNED, 16},
	[THOLE_UINT128] = {UNSIGNED, 16},
	[THOLE_FLOAT] = {REAL, sizeof(float)},
	[THOLE_DOUBLE] = {REAL, sizeof(double)},
	[THOLE_LONG_DOUBLE] = {REAL, sizeof(long double)},
	[THOLE_FLOAT_COMPLEX] = {COMPLEX, sizeof(float)},
	[THOLE_DOUBLE_COMPLEX] = {COMPLEX, sizeof(double)},
	[THOLE_LONG_DOUBLE_COMPLEX] = {COMPLEX, sizeof(long double)},
};

static size_t size_of(unsigned type)
{
	return types[type].part * (types[type].domain == COMPLEX ? 2 : 1);
}

static size_t alignment_of(unsigned type)
{
	return types[type].part;
}

/* ---- The reference ------------------------------------------------------------------------- */

/* An element of any type: an integer, or a real with im 0, or a complex number. */
struct number {
	uint128 integer;
	long double re, im;
};

static long double real_load(const unsigned char *bytes, size_t part)
{
	long double wide;
	double twice;
	float single;

	if (part == sizeof(single)) {
		memcpy(&single, bytes, sizeof(single));
		return (long double)single;
	}
	if (part == sizeof(twice)) {
		memcpy(&twice, bytes, sizeof(twice));
		return (long double)twice;
	}
	memcpy(&wide, bytes, sizeof(wide));
	return wide;
}

static void real_store(unsigned char *bytes, size_t part, long double value)
{
	double twice = (double)value;
	float single = (float)value;

	if (part == sizeof(single))
		memcpy(bytes, &single, sizeof(single));
	else if (part == sizeof(twice))
		memcpy(bytes, &twice, sizeof(twice));
	else
		memcpy(bytes, &value,
		       LDBL_MANT_DIG == 64 ? 10 : sizeof(value)); /* the rest is padding */
}

static struct number number_load(unsigned type, const unsigned char *bytes)
{
	struct number number = {0};
	size_t part = types[type].part;

	switch (types[type].domain) {
	case SIGNED:
	case UNSIGNED:
		/* This test is for little-endian machines, as the library is. */
		memcpy(&number.integer, bytes, part);
		if (types[type].domain == SIGNED && part < 16 &&
		    (number.integer >> (8 * part - 1) & 1))
			number.integer |= ~(uint128)0 << (8 * part);
		break;
	case COMPLEX:
		number.im = real_load(bytes + part, part);
		/* fall through */
	case REAL:
		number.re = real_load(bytes, part);
	}
	return number;
}

static void number_store(unsigned type, unsigned char *bytes, struct number number)
{
	size_t part = types[type].part;

	switch (types[type].domain) {
	case SIGNED:
	case UNSIGNED:
		memcpy(bytes, &number.integer, part);
		break;
	case COMPLEX:
		real_store(bytes + part, part, number.im);
		/* fall through */
	case REAL:
		real_store(bytes, part, number.re);
	}
}

static bool number_true(struct number number)
{
	return number.integer != 0 || number.re != 0 || number.im != 0;
}

static bool number_equal(struct number one, struct number other)
{
	return one.integer == other.integer && one.re == other.re && one.im == other.im;
}

static bool number_less(unsigned type, struct number one, struct number other)
{
	if (types[type].domain == REAL)
		return one.re < other.re;
	if (types[type].domain == SIGNED)
		return (int128)one.integer < (int128)other.integer;
	return one.integer < other.integer;
}

static struct number number_of_bool(unsigned type, bool value)
{
	if (types[type].domain == SIGNED || types[type].domain == UNSIGNED)
		return (struct number){.integer = value};
	return (struct number){.re = value};
}

/* The target's new value. */
static struct number reference(unsigned op, unsigned type, struct number t, struct number o,
			       struct number c)
{
	struct number zero = {0};

	switch ((enum thole_atomic_op)op) {
	case THOLE_MIN:
		return number_less(type, o, t) ? o : t;
	case THOLE_MAX:
		return number_less(type, t, o) ? o : t;
	case THOLE_SUM:
		return (struct number){t.integer + o.integer, t.re + o.re, t.im + o.im};
	case THOLE_DIFF:
		return (struct number){t.integer - o.integer, t.re - o.re, t.im - o.im};
	case THOLE_PROD:
		return (struct number){t.integer * o.integer, t.re * o.re - t.im * o.im,
				       t.re * o.im + t.im * o.re};
	case THOLE_LOR:
		return number_of_bool(type, number_true(t) || number_true(o));
	case THOLE_LAND:
		return number_of_bool(type, number_true(t) && number_true(o));
	case THOLE_LXOR:
		return number_of_bool(type, number_true(t) != number_true(o));
	case THOLE_BOR:
		return (struct number){.integer = t.integer | o.integer};
	case THOLE_BAND:
		return (struct number){.integer = t.integer & o.integer};
	case THOLE_BXOR:
		return (struct number){.integer = t.integer ^ o.integer};
	case THOLE_READ:
		return t;
	case THOLE_WRITE:
		return o;
	case THOLE_CSWAP:
		return number_equal(c, t) ? o : t;
	case THOLE_CSWAP_NE:
		return number_equal(c, t) ? t : o;
	case THOLE_CSWAP_LE:
		return number_less(type, c, t) || number_equal(c, t) ? o : t;
	case THOLE_CSWAP_LT:
		return number_less(type, c, t) ? o : t;
	case THOLE_CSWAP_GE:
		return number_less(type, t, c) || number_equal(c, t) ? o : t;
	case THOLE_CSWAP_GT:
		return number_less(type, t, c) ? o : t;
	case THOLE_MSWAP:
		return (struct number){.integer =
					       (o.integer & c.integer) | (t.integer & ~c.integer)};
	case THOLE_ATOMIC_OP_COUNT:
		break;
	}
	fail_msg("no reference for operation %u", op);
	return zero;
}

static bool op_exists(unsigned op, unsigned type)
{
	switch ((enum thole_atomic_op)op) {
	case THOLE_BOR:
	case THOLE_BAND:
	case THOLE_BXOR:
	case THOLE_MSWAP:
		return types[type].domain <= UNSIGNED;
	case THOLE_MIN:
	case THOLE_MAX:
	case THOLE_CSWAP_LE:
	case THOLE_CSWAP_LT:
	case THOLE_CSWAP_GE:
	case THOLE_CSWAP_GT:
		return types[type].domain != COMPLEX;
	default:
		return true;
	}
}

/* ---- Each operation on each type ----------------------------------------------------------- */

/* Small enough that products are exact in float, and few, so that equal ones meet. */
static void sample(unsigned type, uint64_t *random, unsigned char *bytes)
{
	static const long double reals[] = {0, 1, -1, 0.5L, -2.25L, 3, 100, -77.125L};
	struct number number = {0};

	memset(bytes, 0, ELEMENT_MAX);
	if (types[type].domain <= UNSIGNED) {
		number.integer = (uint128)random_next(random) << 64 | random_next(random);
		switch (random_below(random, 4)) {
		case 0:
			number.integer = random_below(random, 3) - (uint128)1; /* -1, 0, 1 */
			break;
		case 1: /* the largest, the smallest, those beside them, of signed ones */
			number.integer = ((uint128)1 << (8 * types[type].part - 1)) +
					 random_below(random, 3) - 1;
			break;
		default:
			break;
		}
	} else {
		number.re = reals[random_below(random, 8)];
		if (types[type].domain == COMPLEX)
			number.im = reals[random_below(random, 8)];
	}
	number_store(type, bytes, number);
}

/* A call on random arrays: unaligned operand, compare and result, and a target with something
 * after it. */
static void round_check(unsigned op, unsigned type, uint64_t *random)
{
	_Alignas(16) unsigned char target[(COUNT_MAX + 1) * ELEMENT_MAX];
	unsigned char operand[COUNT_MAX * ELEMENT_MAX + 1], compare[COUNT_MAX * ELEMENT_MAX + 1];
	unsigned char result[(COUNT_MAX + 1) * ELEMENT_MAX + 1], expected[sizeof(target)],
		former[sizeof(target)];
	unsigned char bytes[ELEMENT_MAX];
	size_t size = size_of(type), count = random_below(random, COUNT_MAX + 1);
	bool compares = op >= THOLE_CSWAP && op <= THOLE_MSWAP;
	bool fetches = random_below(random, 4) != 0;

	memset(target, 0x5a, sizeof(target));
	memset(result, 0xa5, sizeof(result));
	for (size_t i = 0; i < count; i++) {
		sample(type, random, bytes);
		memcpy(target + i * size, bytes, size);
		sample(type, random, bytes);
		memcpy(operand + 1 + i * size, bytes, size);
		sample(type, random, bytes);
		if (random_below(random, 2)) /* else it would hardly ever be equal */
			memcpy(bytes, target + i * size, size);
		memcpy(compare + 1 + i * size, bytes, size);
	}
	memcpy(former, target, sizeof(former));
	memcpy(expected, target, sizeof(expected));
	for (size_t i = 0; i < count; i++) {
		struct number t = number_load(type, target + i * size);
		struct number o = number_load(type, operand + 1 + i * size);
		struct number c = number_load(type, compare + 1 + i * size);

		number_store(type, expected + i * size, reference(op, type, t, o, c));
	}
	assert_int_equal(atomics_apply(op, type, target, op == THOLE_READ ? NULL : operand + 1,
				       compares ? compare + 1 : NULL, fetches ? result + 1 : NULL,
				       count),
			 0);
	/* Beyond the last element nothing has changed; the elements are compared without their
	 * padding. */
	assert_memory_equal(target + count * size, expected + count * size, size);
	for (size_t i = 0; i < count; i++) {
		number_store(type, former + i * size, number_load(type, former + i * size));
		assert_true(number_equal(number_load(type, target + i * size),
					 number_load(type, expected + i * size)));
	}
	if (fetches)
		assert_memory_equal(result + 1, former, count * size);
	for (size_t i = fetches ? 1 + count * size : 0; i < sizeof(result); i++)
		assert_int_equal(result[i], 0xa5);
}

static void apply__each_operation_on_each_type(void **state)
{
	uint64_t random = 11;
	unsigned pairs = 0;

	(void)state;
	for (unsigned op = 0; op < THOLE_ATOMIC_OP_COUNT; op++) {
		for (unsigned type = 0; type < THOLE_TYPE_COUNT; type++) {
			if (!op_exists(op, type))
				continue;
			pairs++;
			for (unsigned round = 0; round < ROUNDS; round++)
				round_check(op, type, &random);
		}
	}
	assert_int_equal(pairs, 10 * 20 + 3 * 16 + 3 * 10);
}

static void size__of_each_operation_and_type(void **state)
{
	_Alignas(16) unsigned char target[ELEMENT_MAX] = {0}, other[ELEMENT_MAX] = {0};

	(void)state;
	for (unsigned op = 0; op < THOLE_ATOMIC_OP_COUNT; op++) {
		for (unsigned type = 0; type < THOLE_TYPE_COUNT; type++) {
			size_t size = op_exists(op, type) ? size_of(type) : 0;

			assert_int_equal(thole_atomic_size(op, type), size);
			if (size == 0)
				assert_int_equal(
					atomics_apply(op, type, target, other, other, NULL, 1),
					THOLE_ERR_UNSUPPORTED);
		}
	}
	assert_int_equal(thole_atomic_size(THOLE_ATOMIC_OP_COUNT, THOLE_INT32), 0);
	assert_int_equal(thole_atomic_size(THOLE_SUM, THOLE_TYPE_COUNT), 0);
	assert_int_equal(thole_atomic_size((enum thole_atomic_op) - 1, THOLE_INT32), 0);
	assert_int_equal(thole_atomic_size(THOLE_SUM, (enum thole_type) - 1), 0);
	assert_int_equal(atomics_apply(THOLE_SUM, THOLE_TYPE_COUNT, target, other, NULL, NULL, 1),
			 THOLE_ERR_UNSUPPORTED);
}

static void apply__target_not_aligned(void **state)
{
	_Alignas(16) unsigned char target[2 * ELEMENT_MAX] = {0};
	unsigned char operand[ELEMENT_MAX];

	(void)state;
	memset(operand, 1, sizeof(operand));
	for (unsigned type = 0; type < THOLE_TYPE_COUNT; type++) {
		size_t alignment = alignment_of(type);

		if (alignment > 1)
			assert_int_equal(atomics_apply(THOLE_WRITE, type, target + alignment / 2,
						       operand, NULL, NULL, 1),
					 THOLE_ERR_ARGUMENT);
		assert_int_equal(target[alignment / 2], 0);
		assert_int_equal(atomics_apply(THOLE_WRITE, type, target + alignment, operand, NULL,
					       NULL, 1),
				 0);
		assert_memory_equal(target + alignment, operand,
				    types[type].part > 8 ? 10 : size_of(type));
		memset(target, 0, sizeof(target));
	}
}

static void apply__missing_arrays(void **state)
{
	int32_t target = 1, other = 2;

	(void)state;
	assert_int_equal(atomics_apply(THOLE_SUM, THOLE_INT32, &target, NULL, NULL, NULL, 1),
			 THOLE_ERR_ARGUMENT);
	assert_int_equal(atomics_apply(THOLE_SUM, THOLE_INT32, NULL, &other, NULL, NULL, 1),
			 THOLE_ERR_ARGUMENT);
	assert_int_equal(atomics_apply(THOLE_CSWAP, THOLE_INT32, &target, &other, NULL, NULL, 1),
			 THOLE_ERR_ARGUMENT);
	assert_int_equal(atomics_apply(THOLE_MSWAP, THOLE_INT32, &target, &other, NULL, NULL, 1),
			 THOLE_ERR_ARGUMENT);
	assert_int_equal(atomics_apply(THOLE_SUM, THOLE_INT32, NULL, NULL, NULL, NULL, 0), 0);
	assert_int_equal(target, 1);
}

static void read__memory_that_cannot_be_written(void **state)
{
	unsigned char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char result[4096];

	(void)state;
	assert_ptr_not_equal(page, MAP_FAILED);
	for (unsigned type = 0; type < THOLE_TYPE_COUNT; type++) {
		memset(result, 1, sizeof(result));
		assert_int_equal(atomics_apply(THOLE_READ, type, page, NULL, NULL, result,
					       4096 / size_of(type)),
				 0);
		for (size_t i = 0; i < sizeof(result); i++)
			assert_int_equal(result[i], 0);
		assert_int_equal(atomics_apply(THOLE_READ, type, page, NULL, NULL, NULL, 1), 0);
	}
	munmap(page, 4096);
}

static void apply__not_a_number(void **state)
{
	double not_number = NAN, one = 1, target = 1, former;

	(void)state;
	assert_int_equal(
		atomics_apply(THOLE_MIN, THOLE_DOUBLE, &target, &not_number, NULL, NULL, 1), 0);
	assert_int_equal(
		atomics_apply(THOLE_MAX, THOLE_DOUBLE, &target, &not_number, NULL, NULL, 1), 0);
	assert_true(target == 1);
	target = NAN;
	assert_int_equal(atomics_apply(THOLE_MAX, THOLE_DOUBLE, &target, &one, NULL, NULL, 1), 0);
	assert_true(isnan(target));
	assert_int_equal(
		atomics_apply(THOLE_CSWAP, THOLE_DOUBLE, &target, &one, &not_number, &former, 1),
		0);
	assert_true(isnan(target) && isnan(former));
	assert_int_equal(
		atomics_apply(THOLE_CSWAP_NE, THOLE_DOUBLE, &target, &one, &not_number, NULL, 1),
		0);
	assert_true(target == 1);
}

/* ---- Threads ------------------------------------------------------------------------------- */

enum { THREADS = 4, ADDITIONS = 20000 };

struct shared {
	pthread_barrier_t start; /* so that the threads meet */
	int64_t plain;
	_Atomic int32_t mixed; /* also added to by C11 atomics */
	int16_t small;
	uint128 wide; /* whose low half is also added to as a UINT64 */
	_Alignas(16) long double complex_sum[2];
	int64_t swapped; /* raised by compare-and-swap */
};

static void shared_swap(struct shared *shared)
{
	int64_t seen = 0, next, former;

	atomics_apply(THOLE_READ, THOLE_INT64, &shared->swapped, NULL, NULL, &seen, 1);
	for (;; seen = former) {
		next = seen + 1;
		atomics_apply(THOLE_CSWAP, THOLE_INT64, &shared->swapped, &next, &seen, &former, 1);
		if (former == seen)
			return;
	}
}

static void *shared_use(void *arg)
{
	struct shared *shared = arg;
	const int64_t one = 1;
	const int32_t three = 3;
	const int16_t minus_one = -1;
	const uint64_t low = 5;
	const uint128 high = (uint128)7 << 64;
	const long double complex_one[2] = {1, -2};

	pthread_barrier_wait(&shared->start);
	for (int i = 0; i < ADDITIONS; i++) {
		atomics_apply(THOLE_SUM, THOLE_INT64, &shared->plain, &one, NULL, NULL, 1);
		atomics_apply(THOLE_SUM, THOLE_INT32, &shared->mixed, &three, NULL, NULL, 1);
		atomic_fetch_add(&shared->mixed, 1);
		atomics_apply(THOLE_DIFF, THOLE_INT16, &shared->small, &minus_one, NULL, NULL, 1);
		atomics_apply(THOLE_SUM, THOLE_UINT64, &shared->wide, &low, NULL, NULL, 1);
		atomics_apply(THOLE_SUM, THOLE_UINT128, &shared->wide, &high, NULL, NULL, 1);
		atomics_apply(THOLE_SUM, THOLE_LONG_DOUBLE_COMPLEX, shared->complex_sum,
			      complex_one, NULL, NULL, 1);
		shared_swap(shared);
	}
	return NULL;
}

static void threads__no_update_is_lost(void **state)
{
	const int64_t total = (int64_t)THREADS * ADDITIONS;
	static struct shared shared;
	pthread_t threads[THREADS];

	(void)state;
	assert_int_equal(pthread_barrier_init(&shared.start, NULL, THREADS), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, shared_use, &shared), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(shared.plain, total);
	assert_int_equal(shared.mixed, 4 * total);
	assert_int_equal(shared.small, (int16_t)total);
	assert_true(shared.wide == ((uint128)(7 * total) << 64 | (uint128)(5 * total)));
	assert_true(shared.complex_sum[0] == (long double)total);
	assert_true(shared.complex_sum[1] == -2 * (long double)total);
	assert_int_equal(shared.swapped, total);
}

/* Long ones, so that most forks find it amid one. */
static void *apply_until_told(void *arg)
{
	static long double sums[4096], ones[4096];

	while (!atomic_load((atomic_bool *)arg))
		atomics_apply(THOLE_SUM, THOLE_LONG_DOUBLE, sums, ones, NULL, NULL, 4096);
	return NULL;
}

static void fork__child_waits_for_nobody(void **state)
{
	static atomic_bool stop;
	const int16_t one = 1;
	int16_t sum = 0;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, apply_until_told, &stop), 0);
	for (int i = 0; i < FORKS; i++) {
		pid_t child = fork();

		assert_true(child >= 0);
		if (child == 0) {
			alarm(60); /* where it waits for ever */
			_exit(atomics_apply(THOLE_SUM, THOLE_INT16, &sum, &one, NULL, NULL, 1));
		}
		assert_int_equal(child_status(child), 0);
	}
	atomic_store(&stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(size__of_each_operation_and_type),
		cmocka_unit_test(apply__each_operation_on_each_type),
		cmocka_unit_test(apply__target_not_aligned),
		cmocka_unit_test(apply__missing_arrays),
		cmocka_unit_test(read__memory_that_cannot_be_written),
		cmocka_unit_test(apply__not_a_number),
		cmocka_unit_test(threads__no_update_is_lost),
		cmocka_unit_test(fork__child_waits_for_nobody),
	};

	return cmocka_run_group_tests_name("atomics", tests, NULL, NULL);
}
