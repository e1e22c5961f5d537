/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
#include "base/siphash.h"

#include <stdbool.h>
#include <string.h>

#include "base/endian.h"

enum {
	ROUNDS_WORD = 2,
	ROUNDS_END = 4,
	/* texts side by side, in sets of a register each: while one waits for a sum there are the others' to be
	 * computed. As many sets as the processor has registers for. */
	LANES = 4,
	SETS = 2,
	SETS_MAX = 4,
	LANES_MIN = 3, /* fewer take no longer one by one */
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

#if defined(__x86_64__) && !defined(__KERNEL__) /* which has no vectors of its own */

/* Four states: each operation is the definition's, on all of them. */
typedef uint64_t lanes __attribute__((vector_size(32)));

#define LANES_INLINE static inline __attribute__((always_inline)) /* into what says which instructions there are */
#define UNROLLED _Pragma("GCC unroll 4") /* else the sets are memory, and no registers */

LANES_INLINE void lanes_round(lanes v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = (v[1] << 13 | v[1] >> 51) ^ v[0];
	v[3] = (v[3] << 16 | v[3] >> 48) ^ v[2];
	v[0] = v[0] << 32 | v[0] >> 32;
	v[2] += v[1];
	v[0] += v[3];
	v[1] = (v[1] << 17 | v[1] >> 47) ^ v[2];
	v[3] = (v[3] << 21 | v[3] >> 43) ^ v[0];
	v[2] = v[2] << 32 | v[2] >> 32;
}

LANES_INLINE void lanes_rounds(lanes v[][4], int sets, int rounds)
{
	for (int i = 0; i < rounds; i++)
		UNROLLED for (int set = 0; set < sets; set++)
			lanes_round(v[set]);
}

LANES_INLINE void lanes_words(const uint8_t *const texts[], size_t length, size_t at, lanes *words)
{
	if (at + 8 <= length)
		*words = (lanes){load_le64(texts[0] + at), load_le64(texts[1] + at), load_le64(texts[2] + at),
				 load_le64(texts[3] + at)};
	else
		*words = (lanes){last_word(texts[0], length), last_word(texts[1], length), last_word(texts[2], length),
				 last_word(texts[3], length)};
}

/* Lanes of two sets, by number. */
#ifdef __clang__
#define LANES_OF(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define LANES_OF(a, b, ...) __builtin_shuffle(a, b, (lanes){__VA_ARGS__})
#endif

/* The next four words of each text: as many loads as texts, and turned. */
LANES_INLINE void lanes_four(const uint8_t *const texts[], size_t at, lanes words[4])
{
	lanes rows[LANES], pairs[4];

	UNROLLED for (int i = 0; i < LANES; i++)
		memcpy(&rows[i], texts[i] + at, sizeof(rows[i]));
	pairs[0] = LANES_OF(rows[0], rows[1], 0, 4, 2, 6);
	pairs[1] = LANES_OF(rows[0], rows[1], 1, 5, 3, 7);
	pairs[2] = LANES_OF(rows[2], rows[3], 0, 4, 2, 6);
	pairs[3] = LANES_OF(rows[2], rows[3], 1, 5, 3, 7);
	words[0] = LANES_OF(pairs[0], pairs[2], 0, 1, 4, 5);
	words[1] = LANES_OF(pairs[1], pairs[3], 0, 1, 4, 5);
	words[2] = LANES_OF(pairs[0], pairs[2], 2, 3, 6, 7);
	words[3] = LANES_OF(pairs[1], pairs[3], 2, 3, 6, 7);
}

LANES_INLINE void lanes_absorb(lanes v[][4], int sets, const lanes words[])
{
	UNROLLED for (int set = 0; set < sets; set++)
		v[set][3] ^= words[set];
	lanes_rounds(v, sets, ROUNDS_WORD);
	UNROLLED for (int set = 0; set < sets; set++)
		v[set][0] ^= words[set];
}

LANES_INLINE void lanes_digest(const uint64_t key[2], const uint8_t *const texts[], size_t length, int sets,
			       uint64_t digests[])
{
	const uint64_t start[4] = SIPHASH_START(key);
	lanes v[SETS_MAX][4], words[SETS_MAX] = {{0}}, four[SETS_MAX][4];
	size_t at = 0;

	UNROLLED for (int set = 0; set < sets; set++)
		UNROLLED for (int i = 0; i < 4; i++)
			v[set][i] = (lanes){start[i], start[i], start[i], start[i]};
	for (; at + 4 * sizeof(uint64_t) <= length; at += 4 * sizeof(uint64_t)) {
		UNROLLED for (int set = 0; set < sets; set++)
			lanes_four(texts + set * LANES, at, four[set]);
		UNROLLED for (int i = 0; i < 4; i++) {
			UNROLLED for (int set = 0; set < sets; set++)
				words[set] = four[set][i];
			lanes_absorb(v, sets, words);
		}
	}
	for (; at <= length; at += sizeof(uint64_t)) {
		UNROLLED for (int set = 0; set < sets; set++)
			lanes_words(texts + set * LANES, length, at, &words[set]);
		lanes_absorb(v, sets, words);
	}
	UNROLLED for (int set = 0; set < sets; set++)
		v[set][2] ^= 0xff;
	lanes_rounds(v, sets, ROUNDS_END);
	UNROLLED for (int set = 0; set < sets; set++) {
		words[set] = v[set][0] ^ v[set][1] ^ v[set][2] ^ v[set][3];
		memcpy(digests + set * LANES, &words[set], sizeof(words[set]));
	}
}

__attribute__((target("avx512vl"))) static void lanes_avx512(const uint64_t key[2], const uint8_t *const texts[],
							     size_t length, uint64_t digests[])
{
	lanes_digest(key, texts, length, SETS_MAX, digests);
}

__attribute__((target("avx2"))) static void lanes_avx2(const uint64_t key[2], const uint8_t *const texts[],
						       size_t length, uint64_t digests[])
{
	lanes_digest(key, texts, length, SETS, digests);
}

/* How many are fastest side by side here; 0: one by one is. */
static size_t lanes_wide(void)
{
	if (__builtin_cpu_supports("avx512vl"))
		return LANES * SETS_MAX;
	return __builtin_cpu_supports("avx2") ? LANES * SETS : 0;
}

static void lanes_try(size_t wide, const uint64_t key[2], const uint8_t *const texts[], size_t length,
		      uint64_t digests[])
{
	if (wide > LANES * SETS)
		lanes_avx512(key, texts, length, digests);
	else
		lanes_avx2(key, texts, length, digests);
}

#else

static size_t lanes_wide(void)
{
	return 0;
}

static void lanes_try(size_t wide, const uint64_t key[2], const uint8_t *const texts[], size_t length,
		      uint64_t digests[])
{
	(void)wide, (void)key, (void)texts, (void)length, (void)digests;
}

#endif

/* The first of them, if that is faster side by side. Returns how many; 0: it is not. */
static size_t lanes_some(const uint64_t key[2], const uint8_t *const texts[], size_t count, size_t length,
			 uint64_t *digests)
{
	size_t wide = count < LANES_MIN ? 0 : lanes_wide();
	const uint8_t *side[SETS_MAX * LANES];
	uint64_t found[SETS_MAX * LANES];

	if (wide == 0)
		return 0;
	if (count >= wide) {
		lanes_try(wide, key, texts, length, digests);
		return wide;
	}
	for (size_t i = 0; i < wide; i++)
		side[i] = texts[i < count ? i : 0];
	lanes_try(wide, key, side, length, found);
	memcpy(digests, found, count * sizeof(*digests));
	return count;
}

void siphash_many(const uint64_t key[2], const uint8_t *const texts[], size_t count, size_t length, uint64_t *digests)
{
	for (size_t at = 0; at < count;) {
		size_t some = lanes_some(key, texts + at, count - at, length, digests + at);

		if (some == 0) {
			digests[at] = siphash(key, texts[at], length);
			some = 1;
		}
		at += some;
	}
}
