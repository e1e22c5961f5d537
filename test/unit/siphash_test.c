/* SPDX-License-Identifier: BSD-3-Clause */
/* SipHash-2-4 against the digests that its authors published: key 00 01 .. 0f, texts 00 01 02 .. of each length. */
#include "unit.h"

#include <string.h>

#include "base/siphash.h"
#include "base/vectors.h"

/* The same again as it is where processors have no wider vectors than AVX2, and in the kernel. */
#define siphash      narrow_siphash
#define siphash_many narrow_siphash_many
#ifdef vectors_have
#undef vectors_have
#define vectors_have(name) (strcmp(name, "avx2") == 0 && __builtin_cpu_supports("avx2"))
#endif
uint64_t siphash(const uint64_t key[2], const void *bytes, size_t length);
void siphash_many(const uint64_t key[2], const uint8_t *const texts[], size_t count, size_t length, uint64_t *digests);
#include "base/siphash.c"
#undef siphash
#undef siphash_many

static const uint64_t key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};

static void digests__published(void **state)
{
	static const struct {
		size_t length;
		uint64_t digest;
	} known[] = {
		{0, UINT64_C(0x726fdb47dd0e0e31)}, {1, UINT64_C(0x74f839c593dc67fd)},
		{2, UINT64_C(0x0d6c8009d9a94f5a)}, {3, UINT64_C(0x85676696d7fb7e2d)},
		{4, UINT64_C(0xcf2794e0277187b7)}, {5, UINT64_C(0x18765564cd99a68d)},
		{6, UINT64_C(0xcbc9466e58fee3ce)}, {7, UINT64_C(0xab0200f58b01d137)},
		{8, UINT64_C(0x93f5f5799a932462)}, {15, UINT64_C(0xa129ca6149be45e5)},
	};
	uint8_t text[16];

	(void)state;
	for (unsigned i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)i;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		assert_int_equal(siphash(key, text, known[i].length), known[i].digest);
}

/* Every bit of key and text matters, and so does the length. */
static void digests__differ(void **state)
{
	uint8_t text[100] = {0};
	uint64_t digest = siphash(key, text, sizeof(text));

	(void)state;
	for (unsigned bit = 0; bit < 8 * sizeof(text); bit++) {
		text[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_not_equal(siphash(key, text, sizeof(text)), digest);
		text[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	for (unsigned bit = 0; bit < 128; bit++) {
		uint64_t other[2] = {key[0], key[1]};

		other[bit / 64] ^= UINT64_C(1) << bit % 64;
		assert_int_not_equal(siphash(other, text, sizeof(text)), digest);
	}
	for (size_t length = 0; length < sizeof(text); length++)
		assert_int_not_equal(siphash(key, text, length), digest);
}

/* Many at once are as they are one by one, however many and however long. */
static void many__are_the_same(void **state)
{
	enum { MANY = 41, LONGEST = 50 };
	uint8_t bytes[MANY][LONGEST];
	const uint8_t *texts[MANY];
	uint64_t digests[MANY + 1];

	(void)state;
	for (unsigned i = 0; i < sizeof(bytes); i++)
		((uint8_t *)bytes)[i] = (uint8_t)(i * 37 + i / 256);
	for (unsigned i = 0; i < MANY; i++)
		texts[i] = bytes[i];
	for (size_t length = 0; length <= LONGEST; length++)
		for (size_t count = 0; count <= MANY; count++) {
			memset(digests, 0, sizeof(digests));
			siphash_many(key, texts, count, length, digests);
			for (size_t i = 0; i < count; i++)
				assert_int_equal(digests[i], siphash(key, texts[i], length));
			assert_int_equal(digests[count], 0);
			narrow_siphash_many(key, texts, count, length, digests);
			for (size_t i = 0; i < count; i++)
				assert_int_equal(digests[i], siphash(key, texts[i], length));
			assert_int_equal(digests[count], 0);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(digests__published),
		cmocka_unit_test(digests__differ),
		cmocka_unit_test(many__are_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
