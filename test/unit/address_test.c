/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses: there and back, and that nothing else is taken for one. */
#include "unit.h"

#include <string.h>

#include "transport/address.h"

static void random_parts(struct address_parts *parts, uint64_t *state)
{
	parts->host = random_next(state);
	parts->endpoint = random_next(state);
	for (size_t i = 0; i < sizeof(parts->network); i++)
		parts->network[i] = (uint8_t)random_next(state);
	if (parts->network[0] == ADDRESS_MXOE) /* written in another way */
		parts->network[0] = ADDRESS_IPV4;
}

static void format__printable_and_back(void **state)
{
	uint64_t random = 1;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		struct address_parts parts, again;
		struct thole_address address;

		random_parts(&parts, &random);
		memset(&address, 0xff, sizeof(address));
		address_format(&parts, &address);
		assert_int_equal(strlen(address.text), 51);
		for (const char *c = address.text; *c; c++)
			assert_true(*c > ' ' && *c < 127);
		for (size_t k = strlen(address.text); k < THOLE_ADDRESS_MAX; k++)
			assert_int_equal(address.text[k], 0); /* so that memcmp compares */
		assert_int_equal(address_parse(&address, &again), 0);
		assert_true(again.host == parts.host && again.endpoint == parts.endpoint);
		assert_memory_equal(again.network, parts.network, sizeof(parts.network));
	}
}

static void parse__refuses_what_format_does_not_write(void **state)
{
	uint64_t random = 2;
	struct address_parts parts;
	struct thole_address good, bad;

	(void)state;
	random_parts(&parts, &random);
	address_format(&parts, &good);
	memset(&bad, 0, sizeof(bad));
	assert_int_equal(address_parse(&bad, &parts), THOLE_ERR_ADDRESS);
	memset(&bad, 'A', sizeof(bad)); /* no end */
	assert_int_equal(address_parse(&bad, &parts), THOLE_ERR_ADDRESS);
	for (size_t i = 0; i < THOLE_ADDRESS_MAX; i++) {
		static const char wrong[] = {'\0', ' ', '+', '/', '=', '\x80', '\xff', '\n'};

		for (size_t k = 0; k < sizeof(wrong); k++) {
			bad = good;
			if (bad.text[i] == wrong[k])
				continue;
			bad.text[i] = wrong[k];
			assert_int_equal(address_parse(&bad, &parts), THOLE_ERR_ADDRESS);
		}
	}
	bad = good;
	bad.text[THOLE_ADDRESS_MAX - 1] = 'x'; /* the text is right: who copied it by strcpy is told what is missing */
	assert_int_equal(address_parse(&bad, &parts), THOLE_ERR_ADDRESS);
	assert_non_null(strstr(thole_detail(), "zeros"));
	bad = good;
	bad.text[1] = '2'; /* another version */
	assert_int_equal(address_parse(&bad, &parts), THOLE_ERR_ADDRESS);
	assert_non_null(strstr(thole_detail(), "not a Thole address"));
}

/* Each text that is accepted is the one that its parts are written as: no two texts name one endpoint. */
static void parse__one_text_for_each_endpoint(void **state)
{
	uint64_t random = 3;
	int accepted = 0;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct address_parts parts;
		struct thole_address address, again;

		random_parts(&parts, &random);
		address_format(&parts, &address);
		for (uint32_t k = 1 + random_below(&random, 3); k > 0; k--)
			address.text[random_below(&random, THOLE_ADDRESS_MAX)] = (char)(32 + random_below(&random, 95));
		if (address_parse(&address, &parts) != 0)
			continue;
		accepted++;
		address_format(&parts, &again);
		assert_memory_equal(&address, &again, sizeof(address));
	}
	assert_true(accepted > 0);
}

static int mxoe_text(const char *text, struct address_parts *parts)
{
	struct thole_address address = {{0}};

	memcpy(address.text, text, strlen(text));
	return address_parse(&address, parts);
}

/* What people write for a host with MX names the same as what a frame of it does. */
static void mxoe__text(void **state)
{
	static const char *const wrong[] = {
		"",
		"mxoe:",
		"mxoe:52:54:00:12:34:01",
		"mxoe:52:54:00:12:34:01/",
		"mxoe:52:54:00:12:34/1",
		"mxoe:52:54:00:12:34:01:1",
		"mxoe:52:54:00:12:34:0g/1",
		"mxoe:52:54:00:12:34:01/256",
		"mxoe:52:54:00:12:34:01/1 ",
		"mxoe:52:54:00:12:34:01/-1",
		"mxoe:5254:00:12:34:01/1",
		"MXOE:52:54:00:12:34:01/1",
		"mxoe:52:54:00:12:34:01/99999999",
		"mxoe:52:54:00:12:34:01/0001",
	};
	static const uint8_t mac[6] = {0x52, 0x54, 0, 0xab, 0x34, 1};
	struct thole_address address;
	struct address_parts parts, expected;

	(void)state;
	address_mxoe(mac, 254, &expected);
	assert_int_equal(mxoe_text("mxoe:52:54:00:aB:34:01/254", &parts), 0);
	assert_true(parts.host == expected.host && parts.endpoint == expected.endpoint);
	assert_memory_equal(parts.network, expected.network, sizeof(parts.network));
	assert_int_equal(parts.network[0], ADDRESS_MXOE);
	assert_int_equal(parts.network[4], 254);
	assert_memory_equal(parts.network + 8, mac, 6);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(mxoe_text(wrong[i], &parts), THOLE_ERR_ADDRESS);
	/* Another number is another endpoint of the same host. */
	address_mxoe(mac, 7, &parts);
	assert_true(parts.host == expected.host && parts.endpoint != expected.endpoint);
	memset(&address, 0xff, sizeof(address));
	address_format(&parts, &address);
	assert_string_equal(address.text, "mxoe:52:54:00:ab:34:01/7");
	for (size_t k = strlen(address.text); k < THOLE_ADDRESS_MAX; k++)
		assert_int_equal(address.text[k], 0);
}

static void mxoe__as_middleware_has_it(void **state)
{
	static const uint8_t mac[6] = {0x52, 0x54, 0, 0xab, 0x34, 1};
	struct thole_address address, plain;
	struct address_parts parts = {.host = 1, .endpoint = 2};
	uint8_t number = 0, back[6] = {0};

	(void)state;
	memset(&address, 0xff, sizeof(address));
	thole_mxoe_address(mac, 254, &address);
	assert_string_equal(address.text, "mxoe:52:54:00:ab:34:01/254");
	for (size_t k = strlen(address.text); k < THOLE_ADDRESS_MAX; k++)
		assert_int_equal(address.text[k], 0);
	assert_int_equal(thole_mxoe_parts(&address, back, &number), 0);
	assert_memory_equal(back, mac, 6);
	assert_int_equal(number, 254);
	address_format(&parts, &plain);
	assert_int_equal(thole_mxoe_parts(&plain, back, &number), THOLE_ERR_ADDRESS);
	assert_non_null(strstr(thole_detail(), plain.text));
}

/* Its parts have no other text: what is written as of all others is not taken. */
static void mxoe__no_other_text(void **state)
{
	struct address_parts parts = {.host = 1, .endpoint = 2, .network = {[0] = ADDRESS_IPV4}};
	struct thole_address address;

	(void)state;
	address_format(&parts, &address);
	/* The kind is byte 16 of 36, so in digit 22 of 48. */
	assert_int_equal(address.text[3 + 22], 'E');
	address.text[3 + 22] = 'M';
	assert_int_equal(address_parse(&address, &parts), THOLE_ERR_ADDRESS);
	address.text[3 + 22] = 'I';
	assert_int_equal(address_parse(&address, &parts), 0);
	assert_int_equal(parts.network[0], ADDRESS_IPV6);
}

static void check_place(const struct address_parts *parts, const char *expected, bool inside)
{
	char text[ADDRESS_PLACE_MAX];

	address_place(parts, text);
	assert_string_equal(text, expected);
	assert_int_equal(address_is_inside(parts), inside);
}

static void place__as_people_write_it(void **state)
{
	struct address_parts parts = {.network = {ADDRESS_IPV4, 0, 0x12, 0x34, 10, 0, 0, 255}};

	(void)state;
	check_place(&parts, "10.0.0.255:4660", false);
	parts.network[4] = 127;
	check_place(&parts, "127.0.0.255:4660", true);
	parts = (struct address_parts){.network = {ADDRESS_IPV6, 0, 0, 9, [19] = 1}};
	check_place(&parts, "[::1]:9", true);
	parts.network[4] = 0xfd;
	check_place(&parts, "[fd00::1]:9", false);
	parts.network[0] = ADDRESS_MXOE;
	check_place(&parts, "", false);
	parts = (struct address_parts){.host = 1};
	check_place(&parts, "", false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(format__printable_and_back),
		cmocka_unit_test(parse__refuses_what_format_does_not_write),
		cmocka_unit_test(parse__one_text_for_each_endpoint),
		cmocka_unit_test(mxoe__text),
		cmocka_unit_test(mxoe__as_middleware_has_it),
		cmocka_unit_test(mxoe__no_other_text),
		cmocka_unit_test(place__as_people_write_it),
	};

	return cmocka_run_group_tests_name("address", tests, NULL, NULL);
}
