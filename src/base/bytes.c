/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bytes: how long copies between addresses that are not aligned alike go; see bytes.h. No list of processors says that:
 * those where `rep movsb` is slow then (AMD Zen 3), or where its destination is a little ahead of its source as seen
 * within a page (Zen 4), claim that it is fast, as do those where it is (Zen 5).
 */
#include "base/bytes.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "base/atomic.h"
#include "base/clock.h"

enum {
	LEARN_BYTES = 8192, /* of a copy, */
	LEARN_COPIES = 4,   /* of which so many are timed together, */
	LEARN_TRIES = 5,    /* and the best of so many times counts */
	LEARN_PAGE = 4096,
	TAKE_AHEAD = 512, /* bytes of what is asked for before it is read; less than BYTES_STEP */
};

bool bytes_slow_unlike, bytes_slow_ahead, bytes_in_vectors;
static bool bytes_in_one; /* the processor has `rep movsb` fast */

/* To whole vectors: a load that crosses lines costs less than such a store. take: see bytes_take. */
#ifdef __x86_64__
__attribute__((target("avx"))) static void bytes_copy_vectors(void *to, const void *from, size_t length, bool take)
{
	size_t head = -(uintptr_t)to & 31;
	const char *in = (const char *)from + head;
	char *out = (char *)to + head;

	for (size_t ahead = 0; take && ahead < TAKE_AHEAD; ahead += 64)
		prefetch_write((const char *)from + ahead);
	_mm256_storeu_si256(to, _mm256_loadu_si256(from));
	for (length -= head; length >= 128; length -= 128, in += 128, out += 128) {
		__m256i a, b, c, d;

		if (take && length >= TAKE_AHEAD + 128) {
			prefetch_write(in + TAKE_AHEAD);
			prefetch_write(in + TAKE_AHEAD + 64);
		}
		a = _mm256_loadu_si256((const void *)in);
		b = _mm256_loadu_si256((const void *)(in + 32));
		c = _mm256_loadu_si256((const void *)(in + 64));
		d = _mm256_loadu_si256((const void *)(in + 96));
		_mm256_store_si256((void *)out, a);
		_mm256_store_si256((void *)(out + 32), b);
		_mm256_store_si256((void *)(out + 64), c);
		_mm256_store_si256((void *)(out + 96), d);
	}
	memcpy(out, in, length);
}
#else
static void bytes_copy_vectors(void *to, const void *from, size_t length, bool take)
{
	(void)take;
	memcpy(to, from, length);
}
#endif

/* Without `rep movsb`. */
static void bytes_copy_steps(void *to, const void *from, size_t length)
{
	const char *in = from;
	char *out = to;

	if (bytes_in_vectors) {
		bytes_copy_vectors(to, from, length, false);
		return;
	}
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

/* Whether `rep movsb`, and with it the C library, is slow between these. */
static inline bool is_slow(const void *to, const void *from)
{
	uintptr_t ahead = ((uintptr_t)to - (uintptr_t)from) % LEARN_PAGE;

	return (bytes_slow_unlike && ahead % 64 != 0) || (bytes_slow_ahead && ahead > 0 && ahead < 64);
}

void bytes_copy_long(void *to, const void *from, size_t length)
{
	if (is_slow(to, from))
		bytes_copy_steps(to, from, length);
	else if (bytes_in_one && length >= BYTES_MOVE_MIN && length <= BYTES_MOVE_MAX)
		bytes_move(to, from, length);
	else
		memcpy(to, from, length);
}

void bytes_take(void *to, const void *from, size_t length)
{
	if (bytes_in_vectors)
		bytes_copy_vectors(to, from, length, true);
	else
		bytes_copy(to, from, length);
}

/* Of plain stores each waits for its line; the instruction asks for many at a time. */
void bytes_copy_over(void *to, const void *from, size_t length)
{
	if (bytes_in_one && length < BYTES_MOVE_MIN && !is_slow(to, from))
		bytes_move(to, from, length);
	else
		bytes_copy(to, from, length);
}

void bytes_copy_past(void *to, const void *from, size_t length)
{
	const char *in = from;
	char *out = to;

#ifdef __x86_64__
	for (; length >= 64; length -= 64, in += 64, out += 64) {
		__m128i a = _mm_loadu_si128((const void *)in);
		__m128i b = _mm_loadu_si128((const void *)(in + 16));
		__m128i c = _mm_loadu_si128((const void *)(in + 32));
		__m128i d = _mm_loadu_si128((const void *)(in + 48));

		_mm_stream_si128((void *)out, a);
		_mm_stream_si128((void *)(out + 16), b);
		_mm_stream_si128((void *)(out + 32), c);
		_mm_stream_si128((void *)(out + 48), d);
	}
	_mm_sfence(); /* such stores are in no order with others */
#endif
	memcpy(out, in, length);
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

static bool has_vectors(void)
{
#ifdef __x86_64__
	return __builtin_cpu_supports("avx");
#else
	return false;
#endif
}

/* Whether the C library's copy is slow where these are so many bytes behind the beginning of a page. */
static bool learn_is_slow(char *memory, uint8_t to, uint8_t from)
{
	char *out = memory + to;
	const char *in = memory + LEARN_BYTES + LEARN_PAGE + from;

	return 2 * learn_time(bytes_copy_whole, out, in) > 3 * learn_time(bytes_copy_steps, out, in);
}

static void learn(void)
{
	const size_t size = 2 * (LEARN_BYTES + LEARN_PAGE);
	char *memory = memalign(64, size); /* the caller's stack may be small */

	bytes_in_one = has_fast_move();
	bytes_in_vectors = has_vectors();
	if (!memory)
		return; /* the C library's copy does, if more slowly */
	memset(memory, 0, size);
	bytes_slow_unlike = learn_is_slow(memory, 0, 16) || learn_is_slow(memory, 80, 0);
	bytes_slow_ahead = learn_is_slow(memory, 16, 0) || learn_is_slow(memory, 8, 0) || learn_is_slow(memory, 1, 0);
	free(memory);
}

void bytes_learn(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, learn);
}
