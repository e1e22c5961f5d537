/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bytes: how long copies between addresses that are not aligned alike go; see bytes.h. No list of processors says that:
 * those where `rep movsb` is slow then (AMD Zen 3) claim that it is fast, as do those where it is.
 */
#include "base/bytes.h"

#include <pthread.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "base/clock.h"

enum {
	LEARN_BYTES = 8192, /* of a copy, */
	LEARN_COPIES = 4,   /* of which so many are timed together, */
	LEARN_TRIES = 5,    /* and the best of so many times counts */
	LEARN_PAGE = 4096,
};

bool bytes_in_steps;
static bool bytes_in_one; /* the processor has `rep movsb` fast */

static void bytes_copy_steps(void *to, const void *from, size_t length)
{
	const char *in = from;
	char *out = to;

	for (; length > BYTES_STEP; length -= BYTES_STEP, out += BYTES_STEP, in += BYTES_STEP)
		memcpy(out, in, BYTES_STEP);
	memcpy(out, in, length);
}

static inline void bytes_move(void *to, const void *from, size_t length)
{
#ifdef __x86_64__
	__asm__ __volatile__("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
#else
	memcpy(to, from, length);
#endif
}

static inline bool are_aligned_alike(const void *to, const void *from)
{
	return (((uintptr_t)to ^ (uintptr_t)from) & 63) == 0;
}

void bytes_copy_long(void *to, const void *from, size_t length)
{
	bool alike = are_aligned_alike(to, from);

	if (bytes_in_one && alike && length >= BYTES_MOVE_MIN && length <= BYTES_MOVE_MAX)
		bytes_move(to, from, length);
	else if (bytes_in_steps && !alike)
		bytes_copy_steps(to, from, length);
	else
		memcpy(to, from, length);
}

/* Of plain stores each waits for its line; the instruction asks for many at a time. */
void bytes_copy_over(void *to, const void *from, size_t length)
{
	if (bytes_in_one && length < BYTES_MOVE_MIN && (!bytes_in_steps || are_aligned_alike(to, from)))
		bytes_move(to, from, length);
	else
		bytes_copy(to, from, length);
}

static void bytes_copy_whole(void *to, const void *from, size_t length)
{
	memcpy(to, from, length);
}

static uint64_t learn_time(void (*copy)(void *to, const void *from, size_t length), char *to, const char *from)
{
	uint64_t best_ns = UINT64_MAX;

	for (unsigned i = 0; i < LEARN_TRIES; i++) {
		uint64_t start_ns = clock_now_ns(), ns;

		for (unsigned j = 0; j < LEARN_COPIES; j++)
			copy(to, from, LEARN_BYTES);
		ns = clock_now_ns() - start_ns;
		best_ns = ns < best_ns ? ns : best_ns;
	}
	return best_ns;
}

/* The processor's own word (FSRM), good enough for addresses that are aligned alike. */
static bool has_fast_move(void)
{
#ifdef __x86_64__
	unsigned a, b, c, d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & 1u << 4);
#else
	return false;
#endif
}

/* Both a little ahead of the other, as seen within a page: `rep movsb` may take the one for an overlap. */
static void learn(void)
{
	static const struct {
		uint8_t to, from;
	} offsets[] = {{0, 16}, {16, 0}, {8, 0}, {1, 0}};
	char memory[2 * (LEARN_BYTES + LEARN_PAGE)] __attribute__((aligned(64)));

	bytes_in_one = has_fast_move();
	memset(memory, 0, sizeof(memory));
	for (unsigned i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		char *to = memory + offsets[i].to;
		const char *from = memory + LEARN_BYTES + LEARN_PAGE + offsets[i].from;

		bytes_in_steps |=
			2 * learn_time(bytes_copy_whole, to, from) > 3 * learn_time(bytes_copy_steps, to, from);
	}
}

void bytes_learn(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, learn);
}
