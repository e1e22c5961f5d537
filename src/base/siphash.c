/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
#include "base/siphash.h"

#include <stdbool.h>
#include <string.h>

#include "base/endian.h"

enum {
	ROUNDS_WORD = 2,
	ROUNDS_END = 4,
	/* texts side by side, in two halves: while one waits for a sum there is the other's to be computed */
	LANES = 8,
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

static void siphash_rounds(uint64_t v[4], int rounds)
{
	for (int i = 0; i < rounds; i++) {
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
}

static void siphash_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	siphash_rounds(v, ROUNDS_WORD);
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
	siphash_rounds(v, ROUNDS_END);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- Many of one length ------------------------------------------------------------------------------ */

#if defined(__x86_64__) && !defined(__KERNEL__) /* which has no vectors of its own */

/* Four states: each operation is the definition's, on all of them. */
typedef uint64_t lanes __attribute__((vector_size(32)));

#define LANES_INLINE static inline __attribute__((always_inline)) /* into what says which instructions there are */

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

LANES_INLINE void lanes_rounds(lanes v[4], lanes w[4], int rounds)
{
	for (int i = 0; i < rounds; i++) {
		lanes_round(v);
		lanes_round(w);
	}
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

LANES_INLINE void lanes_digest(const uint64_t key[2], const uint8_t *const texts[LANES], size_t length,
			       uint64_t digests[LANES])
{
	const uint64_t start[4] = SIPHASH_START(key);
	lanes v[4], w[4], words[2];

	for (int i = 0; i < 4; i++)
		v[i] = w[i] = (lanes){start[i], start[i], start[i], start[i]};
	for (size_t at = 0; at <= length; at += 8) {
		lanes_words(texts, length, at, &words[0]);
		lanes_words(texts + 4, length, at, &words[1]);
		v[3] ^= words[0];
		w[3] ^= words[1];
		lanes_rounds(v, w, ROUNDS_WORD);
		v[0] ^= words[0];
		w[0] ^= words[1];
	}
	v[2] ^= 0xff;
	w[2] ^= 0xff;
	lanes_rounds(v, w, ROUNDS_END);
	words[0] = v[0] ^ v[1] ^ v[2] ^ v[3];
	words[1] = w[0] ^ w[1] ^ w[2] ^ w[3];
	memcpy(digests, words, sizeof(words));
}

__attribute__((target("avx512vl"))) static void lanes_avx512(const uint64_t key[2], const uint8_t *const texts[LANES],
							     size_t length, uint64_t digests[LANES])
{
	lanes_digest(key, texts, length, digests);
}

__attribute__((target("avx2"))) static void lanes_avx2(const uint64_t key[2], const uint8_t *const texts[LANES],
						       size_t length, uint64_t digests[LANES])
{
	lanes_digest(key, texts, length, digests);
}

/* What is fastest here; false: one by one is. */
static bool lanes_try(const uint64_t key[2], const uint8_t *const texts[LANES], size_t length, uint64_t digests[LANES])
{
	if (__builtin_cpu_supports("avx512vl"))
		lanes_avx512(key, texts, length, digests);
	else if (__builtin_cpu_supports("avx2"))
		lanes_avx2(key, texts, length, digests);
	else
		return false;
	return true;
}

#else

static bool lanes_try(const uint64_t key[2], const uint8_t *const texts[LANES], size_t length, uint64_t digests[LANES])
{
	(void)key, (void)texts, (void)length, (void)digests;
	return false;
}

#endif

/* Up to as many as there are lanes, if that is faster. */
static bool lanes_some(const uint64_t key[2], const uint8_t *const texts[], size_t count, size_t length,
		       uint64_t *digests)
{
	const uint8_t *side[LANES];
	uint64_t found[LANES];

	if (count < LANES_MIN)
		return false;
	for (size_t i = 0; i < LANES; i++)
		side[i] = texts[i < count ? i : 0];
	if (!lanes_try(key, side, length, found))
		return false;
	memcpy(digests, found, count * sizeof(*digests));
	return true;
}

void siphash_many(const uint64_t key[2], const uint8_t *const texts[], size_t count, size_t length, uint64_t *digests)
{
	for (size_t at = 0; at < count; at += LANES) {
		size_t some = count - at < LANES ? count - at : LANES;

		if (lanes_some(key, texts + at, some, length, digests + at))
			continue;
		for (size_t i = at; i < at + some; i++)
			digests[i] = siphash(key, texts[i], length);
	}
}
