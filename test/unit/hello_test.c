/* SPDX-License-Identifier: BSD-3-Clause */
/* What two ends of a pair tell each other comes out as it went in, and no other bytes do. */
#include "transport/verbs/hello.h"

#include <string.h>

#include "unit.h"

static const struct hello full = {
	.share = 16, .bays = 32, .round = 3, .mate = 2, .frame_max = 8192, .bay = 65536, .landing_key = 77,
	.landing = 0x7f0011223344, .expected = 1ull << 40, .name = {.length = 5, .bytes = "queue"},
};

static void test_round_trip(void **state)
{
	struct hello again;
	uint8_t bytes[HELLO_MAX];
	uint32_t length = hello_encode(&full, bytes);

	(void)state;
	assert_true(hello_decode(bytes, length, &again));
	assert_memory_equal(&again, &full, sizeof(full));
}

static void test_cut_and_foreign(void **state)
{
	struct hello again;
	uint8_t bytes[HELLO_MAX + 1] = {0};
	uint32_t length = hello_encode(&full, bytes);

	(void)state;
	for (uint32_t i = 0; i < length; i++)
		assert_false(hello_decode(bytes, i, &again));
	assert_false(hello_decode(bytes, HELLO_MAX + 1, &again));
	bytes[0]++;
	assert_false(hello_decode(bytes, length, &again));
	bytes[0]--;
	bytes[6] ^= 1; /* records of the other byte order */
	assert_false(hello_decode(bytes, length, &again));
	bytes[6] ^= 1;
	bytes[7] = NIC_NAME_MAX + 1;
	assert_false(hello_decode(bytes, HELLO_MAX, &again));
}

/* A queue has a name, and what is closed has none. */
static void test_closed(void **state)
{
	struct hello closed = {.flags = HELLO_CLOSED, .round = 1}, again;
	uint8_t bytes[HELLO_MAX];
	uint32_t length = hello_encode(&closed, bytes);

	(void)state;
	assert_true(hello_decode(bytes, length, &again));
	assert_int_equal(again.flags, HELLO_CLOSED);
	bytes[1] = HELLO_LOST;
	assert_true(hello_decode(bytes, length, &again));
	bytes[1] = 0;
	assert_false(hello_decode(bytes, length, &again));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_cut_and_foreign),
		cmocka_unit_test(test_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
