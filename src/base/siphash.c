/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
#include "base/siphash.h"

#include <stdbool.h>
#include <string.h>

#include "base/endian.h"
#include "base/vectors.h"

enum {
	ROUNDS_WORD = 2,
	ROUNDS_END = 4,
	QUAD = 4,
	LANES_MAX = 16, /* texts side by side */
};

/* "somepseudorandomlygeneratedbytes", as the definition has it. */
#define SIPHASH_START(key) \
	{(key)[0] ^ UINT64_C(0x736f6d6570736575), (key)[1] ^ UINT64_C(0x646f72616e646f6d), \
	 (key)[0] ^ UINT64_C(0x6c7967656e657261), (key)[1] ^ UINT64_C(0x7465646279746573)}

static uint64_t rotate(uint64_t value, unsigned bits)
{
	return value << bits | value >> (64 - bits);
}

/* The state stays in registers only where this is inlined, and the rounds are not a loop. */
#define SIPHASH_INLINE static inline __attribute__((always_inline))

SIPHASH_INLINE void siphash_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] = rotate(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] = rotate(v[2], 32);
}

SIPHASH_INLINE void siphash_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	siphash_round(v);
	siphash_round(v);
	v[0] ^= word;
}

/* What is left of a text behind its whole words, and its length. */
static inline uint64_t last_word(const uint8_t *text, size_t length)
{
	uint64_t last = (uint64_t)length << 56;

	for (size_t i = 0; i < length % 8; i++)
		last |= (uint64_t)text[length - length % 8 + i] << 8 * i;
	return last;
}

uint64_t siphash(const uint64_t key[2], const void *bytes, size_t length)
{
	uint64_t v[4] = SIPHASH_START(key);
	const uint8_t *at = bytes;

	for (size_t left = length / 8; left > 0; left--, at += 8)
		siphash_word(v, load_le64(at));
	siphash_word(v, last_word(bytes, length));
	v[2] ^= 0xff;
	siphash_round(v);
	siphash_round(v);
	siphash_round(v);
	siphash_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- Many of one length ------------------------------------------------------------------------------ */

/* A way to make so many side by side; 0: there is none. */
struct lanes_way {
	size_t lanes;
	void (*digest)(const uint64_t key[2], const uint8_t *const texts[], size_t length, uint64_t digests[]);
};

#if defined(__x86_64__) && !defined(__CHECKER__) /* sparse knows no vectors */

/* Words of four texts: what is loaded and turned at a time, however wide the vectors are that compute. */
typedef uint64_t quad __attribute__((vector_size(32)));

#define LANES_INLINE static inline __attribute__((always_inline)) /* into what says which instructions there are */
#define UNROLLED _Pragma("GCC unroll 4") /* else the sets are memory, and no registers */

/* Lanes of two quads, by number. */
#ifdef __clang__
#define QUAD_OF(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define QUAD_ORDER(type, a, ...) ((quad)__builtin_shufflevector((type)(a), (type)(a), __VA_ARGS__))
#else
#define QUAD_OF(a, b, ...) __builtin_shuffle(a, b, (quad){__VA_ARGS__})
#define QUAD_ORDER(type, a, ...) ((quad)__builtin_shuffle((type)(a), (type){__VA_ARGS__}))
#endif

/* Turning by whole parts of a word is to change their order: one instruction, where turning is three. */
typedef uint16_t quad_quarters __attribute__((vector_size(32)));
typedef uint32_t quad_halves __attribute__((vector_size(32)));
#define QUAD_TURN16(a) QUAD_ORDER(quad_quarters, a, 3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14)
#define QUAD_TURN32(a) QUAD_ORDER(quad_halves, a, 1, 0, 3, 2, 5, 4, 7, 6)
/* Processors that turn words need no help. */
#define WORDS_TURN16(a) ((a) << 16 | (a) >> 48)
#define WORDS_TURN32(a) ((a) << 32 | (a) >> 32)

LANES_INLINE void quad_word(const uint8_t *const texts[], size_t length, size_t at, quad *word)
{
	if (at + 8 <= length)
		*word = (quad){load_le64(texts[0] + at), load_le64(texts[1] + at), load_le64(texts[2] + at),
			       load_le64(texts[3] + at)};
	else
		*word = (quad){last_word(texts[0], length), last_word(texts[1], length), last_word(texts[2], length),
			       last_word(texts[3], length)};
}

/* The next four words of each text: as many loads as texts, and turned. */
LANES_INLINE void quad_four(const uint8_t *const texts[], size_t at, quad words[4])
{
	quad rows[QUAD], pairs[4];

	UNROLLED for (int i = 0; i < QUAD; i++)
		memcpy(&rows[i], texts[i] + at, sizeof(rows[i]));
	pairs[0] = QUAD_OF(rows[0], rows[1], 0, 4, 2, 6);
	pairs[1] = QUAD_OF(rows[0], rows[1], 1, 5, 3, 7);
	pairs[2] = QUAD_OF(rows[2], rows[3], 0, 4, 2, 6);
	pairs[3] = QUAD_OF(rows[2], rows[3], 1, 5, 3, 7);
	words[0] = QUAD_OF(pairs[0], pairs[2], 0, 1, 4, 5);
	words[1] = QUAD_OF(pairs[1], pairs[3], 0, 1, 4, 5);
	words[2] = QUAD_OF(pairs[0], pairs[2], 2, 3, 6, 7);
	words[3] = QUAD_OF(pairs[1], pairs[3], 2, 3, 6, 7);
}

/* Both as one vector, which old compilers cannot say. */
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define QUAD_JOIN(low, high) __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7)
#endif
#endif

#define LANES_NAME(what) what##_avx2
#define LANES_TARGET "avx2"
#define LANES_QUADS 1
#define LANES_SETS 2
#define LANES_TURN16 QUAD_TURN16
#define LANES_TURN32 QUAD_TURN32
#include "base/siphash_lanes.h"

#define LANES_NAME(what) what##_avx512vl /* rotates, and has twice the registers */
#define LANES_TARGET "avx512vl"
#define LANES_QUADS 1
#define LANES_SETS 4
#define LANES_TURN16 WORDS_TURN16
#define LANES_TURN32 WORDS_TURN32
#include "base/siphash_lanes.h"

#define LANES_NAME(what) what##_few /* as quick as one text by itself */
#define LANES_TARGET "avx512vl"
#define LANES_QUADS 1
#define LANES_SETS 1
#define LANES_TURN16 WORDS_TURN16
#define LANES_TURN32 WORDS_TURN32
#include "base/siphash_lanes.h"

#ifdef QUAD_JOIN
#define LANES_NAME(what) what##_avx512
#define LANES_TARGET "avx512vl"
#define LANES_QUADS 2
#define LANES_SETS 2
#define LANES_TURN16 WORDS_TURN16
#define LANES_TURN32 WORDS_TURN32
#include "base/siphash_lanes.h"
#endif

/* The fastest here for so many. Processors that were made before there was AVX512-VBMI2 slow down for the widest
 * vectors. */
static struct lanes_way lanes_best(size_t count)
{
	if (count <= QUAD && vectors_have("avx512vl"))
		return (struct lanes_way){QUAD, lanes_digest_few};
#ifdef QUAD_JOIN
	if (vectors_have("avx512vl") && vectors_have("avx512vbmi2"))
		return (struct lanes_way){16, lanes_digest_avx512};
#endif
	if (vectors_have("avx512vl"))
		return (struct lanes_way){16, lanes_digest_avx512vl};
	return vectors_have("avx2") ? (struct lanes_way){8, lanes_digest_avx2} : (struct lanes_way){0, NULL};
}

/* Fewer take no longer one by one. */
static size_t lanes_least(void)
{
	return vectors_have("avx512vl") ? 2 : 3;
}

#else

static size_t lanes_least(void)
{
	return SIZE_MAX;
}

static struct lanes_way lanes_best(size_t count)
{
	(void)count;
	return (struct lanes_way){0, NULL};
}

#endif

/* Fewer than there are lanes: those that are over have any text. Not inlined, since the kernel clears its arrays. */
static __attribute__((__noinline__)) void lanes_part(const struct lanes_way *way, const uint64_t key[2],
						 const uint8_t *const texts[], size_t count, size_t length,
						 uint64_t *digests)
{
	const uint8_t *side[LANES_MAX];
	uint64_t found[LANES_MAX];

	for (size_t i = 0; i < way->lanes; i++)
		side[i] = texts[i < count ? i : 0];
	way->digest(key, side, length, found);
	memcpy(digests, found, count * sizeof(*digests));
}

/* The first of them side by side. Returns how many. */
static size_t lanes_some(const struct lanes_way *way, const uint64_t key[2], const uint8_t *const texts[], size_t count,
			 size_t length, uint64_t *digests)
{
	if (count < way->lanes) {
		lanes_part(way, key, texts, count, length, digests);
		return count;
	}
	way->digest(key, texts, length, digests);
	return way->lanes;
}

/* As long as that is faster. Returns how many those were. */
static size_t lanes_many(const uint64_t key[2], const uint8_t *const texts[], size_t count, size_t length,
			 uint64_t *digests)
{
	size_t at = 0, least = lanes_least();

	if (count < least || !vectors_begin())
		return 0;
	while (count - at >= least) {
		struct lanes_way way = lanes_best(count - at);

		if (!way.lanes)
			break;
		at += lanes_some(&way, key, texts + at, count - at, length, digests + at);
	}
	vectors_end();
	return at;
}

void siphash_many(const uint64_t key[2], const uint8_t *const texts[], size_t count, size_t length, uint64_t *digests)
{
	for (size_t at = lanes_many(key, texts, count, length, digests); at < count; at++)
		digests[at] = siphash(key, texts[at], length);
}
