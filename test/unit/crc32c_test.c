/* SPDX-License-Identifier: BSD-3-Clause */
/* CRC32C against the values of RFC 3720 and the usual check value, and its two implementations against each other. */
#include "unit.h"

#include <string.h>

#include "transport/datagram/wire/crc32c.h"

static void known(const void *text, size_t length, uint32_t sum)
{
	assert_int_equal(crc32c(0, text, length), sum);
	assert_int_equal(crc32c_portable(0, text, length), sum);
}

static void sums__published(void **state)
{
	uint8_t text[32];

	(void)state;
	known("", 0, 0);
	known("123456789", 9, 0xe3069283);
	memset(text, 0, sizeof(text));
	known(text, sizeof(text), 0x8a9136aa);
	memset(text, 0xff, sizeof(text));
	known(text, sizeof(text), 0x62a8ab43);
	for (unsigned i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)i;
	known(text, sizeof(text), 0x46dd794e);
	for (unsigned i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)(31 - i);
	known(text, sizeof(text), 0x113fdb5c);
}

/* Any length, any alignment, in any parts. */
static void sums__agree(void **state)
{
	static uint8_t text[3000];
	uint64_t random = 1;

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)random_next(&random);
	for (int i = 0; i < 3000; i++) {
		uint32_t from = random_below(&random, 64), length = random_below(&random, (uint32_t)sizeof(text) - 64);
		uint32_t part = random_below(&random, length + 1), sum = crc32c_portable(0, text + from, length);

		assert_int_equal(crc32c(0, text + from, length), sum);
		assert_int_equal(crc32c(crc32c(0, text + from, part), text + from + part, length - part), sum);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums__published),
		cmocka_unit_test(sums__agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
