/* SPDX-License-Identifier: BSD-3-Clause */
/* Vectors, against a copy of their bytes in one piece. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/vector.h"

enum { BYTES = 4000, SEGMENTS = 300 };

/* A vector whose segments lie in random order in memory, some of them empty. */
struct scattered {
	unsigned char memory[2 * BYTES];
	struct iovec segments[SEGMENTS];
	struct vector vector;
};

static void scatter(struct scattered *scattered, uint64_t *random, uint32_t count, uint64_t length)
{
	uint64_t left = length;
	unsigned char *front = scattered->memory, *back = scattered->memory + sizeof(scattered->memory);

	memset(scattered->memory, 0xee, sizeof(scattered->memory));
	for (uint32_t i = 0; i < count; i++) {
		uint64_t piece = i + 1 == count ? left : random_below(random, (uint32_t)(2 * left / (count - i) + 1));

		piece = piece > left ? left : piece;
		if (random_below(random, 2)) {
			scattered->segments[i] = (struct iovec){front, piece};
			front += piece + 1;
		} else {
			back -= piece + 1;
			scattered->segments[i] = (struct iovec){back, piece};
		}
		left -= piece;
	}
	scattered->vector = (struct vector){scattered->segments, count, length};
}

static unsigned char *place(const struct vector *vector, uint64_t offset)
{
	size_t i = 0;

	while (offset >= vector->segments[i].iov_len)
		offset -= vector->segments[i++].iov_len;
	return (unsigned char *)vector->segments[i].iov_base + offset;
}

static void read_write__any_range(void **state)
{
	static struct scattered scattered;
	static unsigned char bytes[BYTES], flat[BYTES];
	uint64_t random = 1;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		uint64_t length = random_below(&random, BYTES), offset, size;

		scatter(&scattered, &random, 1 + random_below(&random, SEGMENTS), length);
		for (uint64_t k = 0; k < length; k++)
			*place(&scattered.vector, k) = bytes[k] = (unsigned char)random_next(&random);
		offset = random_below(&random, (uint32_t)length + 1);
		size = random_below(&random, (uint32_t)(length - offset) + 1);
		memset(flat, 0, sizeof(flat));
		vector_read(&scattered.vector, offset, flat, size);
		assert_memory_equal(flat, bytes + offset, size);
		assert_int_equal(flat[size], 0);
		for (uint64_t k = 0; k < size; k++)
			flat[k] = bytes[offset + k] = (unsigned char)random_next(&random);
		vector_write(&scattered.vector, offset, flat, size);
		for (uint64_t k = 0; k < length; k++)
			assert_int_equal(*place(&scattered.vector, k), bytes[k]);
	}
}

/* Bytes outside of the segments stay. */
/* Between any two, of which each has as many bytes as are copied, or more. */
static void copy__between_vectors(void **state)
{
	static struct scattered from, to;
	static unsigned char wanted[BYTES], got[BYTES];
	uint64_t random = 2;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		uint64_t length = random_below(&random, BYTES - 1);
		uint64_t more = random_below(&random, (uint32_t)(BYTES - length));

		scatter(&from, &random, 1 + random_below(&random, SEGMENTS), length + more);
		scatter(&to, &random, 1 + random_below(&random, SEGMENTS), BYTES);
		for (uint64_t k = 0; k < length + more; k++)
			*place(&from.vector, k) = (unsigned char)random_below(&random, 256);
		vector_read(&from.vector, 0, wanted, length);
		vector_read(&to.vector, length, wanted + length, BYTES - length);
		vector_copy(&to.vector, &from.vector, length);
		vector_read(&to.vector, 0, got, BYTES);
		assert_memory_equal(got, wanted, BYTES);
	}
}

static void write__nothing_outside(void **state)
{
	static struct scattered scattered;
	static unsigned char zeros[BYTES];
	uint64_t random = 2, changed;

	(void)state;
	for (int i = 0; i < 200; i++) {
		uint64_t length = random_below(&random, BYTES);

		scatter(&scattered, &random, 1 + random_below(&random, SEGMENTS), length);
		vector_write(&scattered.vector, 0, zeros, length);
		changed = 0;
		for (size_t k = 0; k < sizeof(scattered.memory); k++)
			changed += scattered.memory[k] != 0xee;
		assert_int_equal(changed, length);
	}
}

/* However they are aligned, by the C library, by steps and by vectors, and nothing beside. */
static void copy__all_alignments(void **state)
{
	static unsigned char from[3 * BYTES_STEP + 256], to[sizeof(from)];
	static const size_t lengths[] = {1, BYTES_STEP - 1, BYTES_STEP, BYTES_STEP + 1, 2 * BYTES_STEP, 3 * BYTES_STEP};
	bool unlike, ahead, vectors;

	(void)state;
	bytes_learn();
	unlike = bytes_slow_unlike;
	ahead = bytes_slow_ahead;
	vectors = bytes_in_vectors;
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (unsigned char)(i % 251);
	for (unsigned turn = 0; turn < 16 * 16 * 6; turn++) {
		size_t length = lengths[turn / 16 % 6], out = 1 + turn / 96 * 4, in = 61;

		bytes_slow_unlike = turn & 1;
		bytes_slow_ahead = turn & 4;
		bytes_in_vectors = vectors && (turn & 8);
		memset(to, 0xee, sizeof(to));
		(turn & 2 ? bytes_copy_over : bytes_copy)(to + out, from + in, length);
		assert_memory_equal(to + out, from + in, length);
		assert_int_equal(to[out - 1], 0xee);
		assert_int_equal(to[out + length], 0xee);
	}
	bytes_slow_unlike = unlike;
	bytes_slow_ahead = ahead;
	bytes_in_vectors = vectors;
}

static void slice__covers_in_order_what_fits(void **state)
{
	static struct scattered scattered;
	struct iovec slice[SEGMENTS];
	uint64_t random = 4;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		uint64_t length = random_below(&random, BYTES), offset = random_below(&random, (uint32_t)length + 1);
		uint64_t size = random_below(&random, (uint32_t)(length - offset) + 1), covered, at = offset;
		size_t max = 1 + random_below(&random, 20), n;

		scatter(&scattered, &random, 1 + random_below(&random, SEGMENTS), length);
		n = vector_slice(&scattered.vector, offset, size, slice, max, &covered);
		assert_true(n <= max);
		assert_true(covered == size || (n == max && covered < size));
		for (size_t k = 0; k < n; k++) {
			assert_true(slice[k].iov_len > 0);
			assert_ptr_equal(slice[k].iov_base, place(&scattered.vector, at));
			at += slice[k].iov_len;
		}
		assert_int_equal(at, offset + covered);
	}
}

/* What a peer says of its memory may lie: beyond the end there is nothing, and nothing is touched. */
static void slice__beyond_the_end(void **state)
{
	struct iovec segments[3] = {{(void *)64, 10}, {NULL, 0}, {(void *)256, UINT64_MAX}}, slice[3];
	struct vector vector = {segments, 2, 100};
	uint64_t covered;

	(void)state;
	assert_int_equal(vector_slice(&vector, 10, 5, slice, 3, &covered), 0);
	assert_int_equal(covered, 0);
	assert_int_equal(vector_slice(&vector, 8, 5, slice, 3, &covered), 1);
	assert_int_equal(covered, 2);
	vector.count = 3;
	assert_int_equal(vector_slice(&vector, 8, 500, slice, 3, &covered), 2);
	assert_int_equal(covered, 500);
	assert_int_equal(slice[1].iov_len, 498);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_write__any_range),
		cmocka_unit_test(copy__between_vectors),
		cmocka_unit_test(write__nothing_outside),
		cmocka_unit_test(copy__all_alignments),
		cmocka_unit_test(slice__covers_in_order_what_fits),
		cmocka_unit_test(slice__beyond_the_end),
	};

	return cmocka_run_group_tests_name("vector", tests, NULL, NULL);
}
