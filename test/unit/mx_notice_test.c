/* SPDX-License-Identifier: BSD-3-Clause */
/* Notices: what is written is read, byte for byte as notice.h says, and nothing else is. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mx_notice.h"

enum { MUTATIONS = 100000 };

static struct mxi_notice samples[] = {
	{.type = MXI_NOTICE_FIND,
	 .from = {.nic_id = 0x028300000001},
	 .from_name = "host1:0",
	 .nic_id = 0x028300000002,
	 .attempt = 3},
	{.type = MXI_NOTICE_FIND, .name = "host2:1"},
	{.type = MXI_NOTICE_HERE, .from = {.nic_id = 0x028300000002}, .from_name = "host2:0"},
	{.type = MXI_NOTICE_CONNECT,
	 .token = 0x1122334455667788,
	 .from = {0x028300000001, 7, 0xabcdef01},
	 .address = {"t1-0123456789abcdef"},
	 .nic_id = 0x028300000002,
	 .endpoint_id = 255,
	 .key = 0x12345678},
	{.type = MXI_NOTICE_ANSWER,
	 .token = 5,
	 .status = MX_STATUS_SUCCESS,
	 .from = {.session = 9},
	 .address = {"t1-a"}},
	{.type = MXI_NOTICE_ANSWER, .token = 6, .status = MX_STATUS_BAD_KEY},
	{.type = MXI_NOTICE_STATUS, .token = 77},
	{.type = MXI_NOTICE_STATUS_ANSWER,
	 .token = 77,
	 .from = {1, 2, 3},
	 .pid = 4,
	 .command = "a program",
	 .dropped = 1,
	 .address = {"t1-b"},
	 .count = 3,
	 .counters = {1, UINT64_MAX, 0}},
};
enum { SAMPLES = sizeof(samples) / sizeof(samples[0]) };

static bool same(const struct mxi_notice *one, const struct mxi_notice *other)
{
	return memcmp(one, other, sizeof(*one)) == 0;
}

static void notice__is_read_as_it_was_written(void **state)
{
	uint8_t bytes[MXI_NOTICE_BYTES_MAX];
	struct mxi_notice read;

	(void)state;
	for (unsigned i = 0; i < SAMPLES; i++) {
		size_t length = mxi_notice_encode(&samples[i], bytes);

		assert_in_range(length, 8, sizeof(bytes));
		assert_true(mxi_notice_decode(bytes, length, &read));
		assert_true(same(&samples[i], &read));
	}
}

static void notice__has_the_layout_that_is_documented(void **state)
{
	static const uint8_t find[] = {'T', 'M', 'X', 'D', 1, 1, 0, 34, 0, 0,   0,   0,   0,   0,   0,   0,   0,
				       0,   0,   0,   0,   0, 0, 0, 0,  7, 'h', 'o', 's', 't', '2', ':', '1', 0};
	static const uint8_t answer[] = {'T', 'M', 'X', 'D', 1, 4, 0, 29, 0, 0, 0, 0, 0, 0, 0, 5,
					 0, 0, 0, 0, 0, 0, 0, 9, 4, 't', '1', '-', 'a'};
	uint8_t bytes[MXI_NOTICE_BYTES_MAX];

	(void)state;
	assert_int_equal(mxi_notice_encode(&samples[1], bytes), sizeof(find));
	assert_memory_equal(bytes, find, sizeof(find));
	assert_int_equal(mxi_notice_encode(&samples[4], bytes), sizeof(answer));
	assert_memory_equal(bytes, answer, sizeof(answer));
}

static void notice__longest_fits(void **state)
{
	static struct mxi_notice longest = {.type = MXI_NOTICE_STATUS_ANSWER, .count = MXI_NOTICE_COUNTERS_MAX};
	static struct mxi_notice read;
	uint8_t bytes[MXI_NOTICE_BYTES_MAX];
	size_t length;

	(void)state;
	memset(longest.command, 'c', sizeof(longest.command) - 1);
	memset(longest.address.text, 'a', sizeof(longest.address.text) - 1);
	length = mxi_notice_encode(&longest, bytes);
	assert_true(length > 0 && mxi_notice_decode(bytes, length, &read));
	assert_true(same(&longest, &read));
	longest.count++;
	assert_int_equal(mxi_notice_encode(&longest, bytes), 0);
}

static void notice__that_is_cut_or_longer_is_none(void **state)
{
	uint8_t bytes[MXI_NOTICE_BYTES_MAX + 1];
	struct mxi_notice read;

	(void)state;
	for (unsigned i = 0; i < SAMPLES; i++) {
		size_t length = mxi_notice_encode(&samples[i], bytes);

		bytes[length] = 0;
		for (size_t cut = 0; cut <= length + 1; cut++) {
			uint8_t *copy = malloc(cut + 1); /* so that a sanitizer sees a read beyond */

			memcpy(copy + 1, bytes, cut);
			assert_int_equal(mxi_notice_decode(copy + 1, cut, &read), cut == length);
			free(copy);
		}
	}
}

static void refuse(unsigned sample, size_t at, uint8_t value)
{
	uint8_t bytes[MXI_NOTICE_BYTES_MAX];
	struct mxi_notice read;
	size_t length = mxi_notice_encode(&samples[sample], bytes);

	assert_true(at < length && bytes[at] != value);
	bytes[at] = value;
	assert_false(mxi_notice_decode(bytes, length, &read));
}

static void notice__of_others_is_none(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SAMPLES; i++) {
		refuse(i, 0, 'S');   /* magic */
		refuse(i, 4, 2);     /* version */
		refuse(i, 5, 0);     /* type */
		refuse(i, 5, 7);
		refuse(i, 7, 200);   /* length */
	}
	refuse(2, 16, 255);  /* a name's length */
	refuse(2, 17, ' ');  /* a name with a blank, with a NUL */
	refuse(2, 18, 0);
	refuse(4, 19, 11);   /* refused, and yet an address */
	refuse(5, 19, 0);    /* the opposite */
	refuse(5, 16, 1);    /* no status of MX */
	refuse(1, 23, 1);    /* asks by id and by name */
}

/* Whatever is read can be written, and is read as the same again. */
static void notice__survives_mutation(void **state)
{
	uint64_t seed = 4711;
	uint8_t bytes[MXI_NOTICE_BYTES_MAX], again[MXI_NOTICE_BYTES_MAX];
	struct mxi_notice read;
	unsigned understood = 0;

	(void)state;
	for (unsigned i = 0; i < MUTATIONS; i++) {
		size_t length = mxi_notice_encode(&samples[random_below(&seed, SAMPLES)], bytes);

		for (uint32_t times = random_below(&seed, 4); times > 0; times--)
			bytes[random_below(&seed, (uint32_t)length)] = (uint8_t)random_next(&seed);
		if (!mxi_notice_decode(bytes, length, &read))
			continue;
		understood++;
		assert_int_equal(mxi_notice_encode(&read, again), length);
		assert_memory_equal(bytes, again, length);
	}
	assert_in_range(understood, MUTATIONS / 100, MUTATIONS - MUTATIONS / 100);
}

/* A text that fills its place would have no NUL. */
static void text__leaves_room_for_its_end(void **state)
{
	struct mxi_notice notice = {.type = MXI_NOTICE_HERE, .from = {.nic_id = 1}}, read;
	uint8_t bytes[MXI_NOTICE_BYTES_MAX];
	size_t length;

	(void)state;
	memset(notice.from_name, 'a', sizeof(notice.from_name) - 1);
	length = mxi_notice_encode(&notice, bytes);
	assert_true(mxi_notice_decode(bytes, length, &read));
	assert_int_equal(bytes[16], sizeof(notice.from_name) - 1); /* the name's length, which is last */
	bytes[16]++;
	bytes[length++] = 'a';
	bytes[6] = (uint8_t)(length >> 8);
	bytes[7] = (uint8_t)length;
	assert_false(mxi_notice_decode(bytes, length, &read));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(notice__is_read_as_it_was_written),
		cmocka_unit_test(notice__has_the_layout_that_is_documented),
		cmocka_unit_test(notice__longest_fits),
		cmocka_unit_test(notice__that_is_cut_or_longer_is_none),
		cmocka_unit_test(notice__of_others_is_none),
		cmocka_unit_test(notice__survives_mutation),
		cmocka_unit_test(text__leaves_room_for_its_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
