/* SPDX-License-Identifier: BSD-3-Clause */
/* What the simulator's programs are told of a machine. */
#include "unit.h"

#include <string.h>

#include "costs.h"

static void parse__takes_what_is_named(void **state)
{
	struct costs costs;

	(void)state;
	assert_true(costs_parse("pin=400,pin_page=57000,copy=24576:145000,unaligned=7,copy=0:20500", &costs));
	assert_int_equal(costs.pin, 400);
	assert_int_equal(costs.pin_page, 57000);
	assert_int_equal(costs.unaligned, 7);
	assert_int_equal(costs.unpin, 0);
	assert_int_equal(costs.copy[0].bytes, 24576);
	assert_int_equal(costs.copy[0].rate, 145000);
	assert_true(costs.copy[1].bytes == UINT64_MAX); /* all that is longer */
	assert_int_equal(costs.copy[1].rate, 20500);
	assert_int_equal(costs.copy[2].rate, 0);
}

static void parse__refuses_what_it_does_not_know(void **state)
{
	static const char *const wrong[] = {
		"", "pin", "pin=", "pin=-1", "pin=1,", ",pin=1", "pin=1 ", "pins=1", "pi=1", "copy=1", "copy=1:",
		"copy=1:0", "copy=1:1,copy=2:1,copy=3:1,copy=4:1,copy=0:1",
	};
	struct costs costs;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_false(costs_parse(wrong[i], &costs));
}

static void argument__is_taken_away(void **state)
{
	char *words[] = {"program", "--costs", "call=5", "model", NULL}, **argv = words;
	int argc = 4;
	bool there;

	(void)state;
	assert_int_equal(costs_argument(&argc, &argv, &there).call, 5);
	assert_true(there);
	assert_int_equal(argc, 2);
	assert_string_equal(argv[1], "model");
	assert_int_equal(costs_argument(&argc, &argv, &there).call, 0);
	assert_false(there);
	assert_int_equal(argc, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse__takes_what_is_named),
		cmocka_unit_test(parse__refuses_what_it_does_not_know),
		cmocka_unit_test(argument__is_taken_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
