/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * siphash_lanes: SipHash of many texts side by side, in sets of a register each: while one waits for a sum there are
 * the others' to be computed. siphash.c includes this once for each width of vectors that processors have, and has
 * defined LANES_NAME(what), LANES_TARGET (the instructions), LANES_QUADS (fours of lanes in a register), LANES_SETS (as
 * many as the processor has registers for), and LANES_TURN16 and LANES_TURN32: words turned by so many bits.
 *
 * Each operation is the definition's, on all lanes. Owns nothing; what is defined here has LANES_NAME's names.
 */
#define lanes LANES_NAME(lanes)
#define lanes_round LANES_NAME(lanes_round)
#define lanes_rounds LANES_NAME(lanes_rounds)
#define lanes_word LANES_NAME(lanes_word)
#define lanes_four LANES_NAME(lanes_four)
#define lanes_absorb LANES_NAME(lanes_absorb)
#define LANES (LANES_QUADS * QUAD)

typedef uint64_t lanes __attribute__((vector_size(LANES * sizeof(uint64_t))));

LANES_INLINE void lanes_round(lanes v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = (v[1] << 13 | v[1] >> 51) ^ v[0];
	v[3] = LANES_TURN16(v[3]) ^ v[2];
	v[0] = LANES_TURN32(v[0]);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = (v[1] << 17 | v[1] >> 47) ^ v[2];
	v[3] = (v[3] << 21 | v[3] >> 43) ^ v[0];
	v[2] = LANES_TURN32(v[2]);
}

LANES_INLINE void lanes_rounds(lanes v[][4], int rounds)
{
	for (int i = 0; i < rounds; i++)
		UNROLLED for (int set = 0; set < LANES_SETS; set++)
			lanes_round(v[set]);
}

LANES_INLINE void lanes_word(const uint8_t *const texts[], size_t length, size_t at, lanes *word)
{
#if LANES_QUADS == 1
	quad_word(texts, length, at, word);
#else
	quad low, high;

	quad_word(texts, length, at, &low);
	quad_word(texts + QUAD, length, at, &high);
	*word = QUAD_JOIN(low, high);
#endif
}

LANES_INLINE void lanes_four(const uint8_t *const texts[], size_t at, lanes words[4])
{
#if LANES_QUADS == 1
	quad_four(texts, at, words);
#else
	quad low[4], high[4];

	quad_four(texts, at, low);
	quad_four(texts + QUAD, at, high);
	UNROLLED for (int i = 0; i < 4; i++)
		words[i] = QUAD_JOIN(low[i], high[i]);
#endif
}

LANES_INLINE void lanes_absorb(lanes v[][4], const lanes words[])
{
	UNROLLED for (int set = 0; set < LANES_SETS; set++)
		v[set][3] ^= words[set];
	lanes_rounds(v, ROUNDS_WORD);
	UNROLLED for (int set = 0; set < LANES_SETS; set++)
		v[set][0] ^= words[set];
}

/* Of LANES * LANES_SETS texts. */
__attribute__((target(LANES_TARGET))) static void LANES_NAME(lanes_digest)(const uint64_t key[2],
									   const uint8_t *const texts[], size_t length,
									   uint64_t digests[])
{
	const uint64_t start[4] = SIPHASH_START(key);
	lanes v[LANES_SETS][4], words[LANES_SETS] = {{0}}, four[LANES_SETS][4];
	size_t at = 0;

	UNROLLED for (int set = 0; set < LANES_SETS; set++)
		UNROLLED for (int i = 0; i < 4; i++)
			v[set][i] = (lanes){0} + start[i];
	for (; at + 4 * sizeof(uint64_t) <= length; at += 4 * sizeof(uint64_t)) {
		UNROLLED for (int set = 0; set < LANES_SETS; set++)
			lanes_four(texts + set * LANES, at, four[set]);
		UNROLLED for (int i = 0; i < 4; i++) {
			UNROLLED for (int set = 0; set < LANES_SETS; set++)
				words[set] = four[set][i];
			lanes_absorb(v, words);
		}
	}
	for (; at <= length; at += sizeof(uint64_t)) {
		UNROLLED for (int set = 0; set < LANES_SETS; set++)
			lanes_word(texts + set * LANES, length, at, &words[set]);
		lanes_absorb(v, words);
	}
	UNROLLED for (int set = 0; set < LANES_SETS; set++)
		v[set][2] ^= 0xff;
	lanes_rounds(v, ROUNDS_END);
	UNROLLED for (int set = 0; set < LANES_SETS; set++) {
		words[set] = v[set][0] ^ v[set][1] ^ v[set][2] ^ v[set][3];
		memcpy(digests + set * LANES, &words[set], sizeof(words[set]));
	}
}

#undef lanes
#undef lanes_round
#undef lanes_rounds
#undef lanes_word
#undef lanes_four
#undef lanes_absorb
#undef LANES
#undef LANES_NAME
#undef LANES_TARGET
#undef LANES_QUADS
#undef LANES_SETS
#undef LANES_TURN16
#undef LANES_TURN32
