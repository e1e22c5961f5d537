/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/siphash.h"

#include "base/endian.h"

enum { ROUNDS_WORD = 2, ROUNDS_END = 4 };

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

uint64_t siphash(const uint64_t key[2], const void *bytes, size_t length)
{
	/* "somepseudorandomlygeneratedbytes", as the definition has it. */
	uint64_t v[4] = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
			 key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
	const uint8_t *at = bytes;
	uint64_t last = (uint64_t)length << 56;

	for (size_t left = length / 8; left > 0; left--, at += 8)
		siphash_word(v, load_le64(at));
	for (size_t i = 0; i < length % 8; i++)
		last |= (uint64_t)at[i] << 8 * i;
	siphash_word(v, last);
	v[2] ^= 0xff;
	siphash_rounds(v, ROUNDS_END);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
