/* SPDX-License-Identifier: BSD-3-Clause */
/* Where payloads of a stream go: what times are taken, and what follows from them. */
#include "unit.h"

#include "transport/shm/walk.h"

enum { FAST_PS = WALK_SLOW_PS - 1, SLOW_PS = 5000 };

/* Messages until one is to be timed, it included. */
static uint32_t messages_until_due(struct walk *walk)
{
	for (uint32_t i = 1; i <= 2 * WALK_REST_MAX; i++)
		if (walk_is_due(walk))
			return i;
	return 0;
}

/* As many copies as one answer takes, all of the same time. Returns whether a try is due. */
static bool copies_take(struct walk *walk, uint64_t line_ps)
{
	bool due = false;

	for (int i = 0; i < WALK_SAMPLES; i++) {
		assert_false(due);
		due = walk_note(walk, line_ps);
	}
	return due;
}

static void look__one_in_some_is_timed(void **state)
{
	struct walk walk = {0};

	(void)state;
	assert_int_equal(messages_until_due(&walk), 1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(messages_until_due(&walk), WALK_EVERY);
}

/* Where lines are fast nothing is tried, and looks become rare. */
static void look__fast_lines(void **state)
{
	struct walk walk = {0};
	uint32_t rest = WALK_REST_MIN;

	(void)state;
	for (int i = 0; i < 20; i++) {
		assert_false(copies_take(&walk, FAST_PS));
		assert_int_equal(walk.state, WALK_LOOKS);
		assert_int_equal(messages_until_due(&walk), rest);
		assert_int_equal(messages_until_due(&walk), WALK_EVERY);
		rest = rest < WALK_REST_MAX ? 2 * rest : WALK_REST_MAX;
	}
}

/* Slow ones are a reason; what is better by a fourth is kept for good, and no time is taken any more. */
static void try__better(void **state)
{
	struct walk walk = {0};

	(void)state;
	assert_true(copies_take(&walk, WALK_SLOW_PS));
	walk_try(&walk, 100);
	assert_int_equal(walk.state, WALK_TRIES);
	assert_int_equal(messages_until_due(&walk), 100);
	assert_int_equal(messages_until_due(&walk), WALK_EVERY);
	assert_false(copies_take(&walk, WALK_SLOW_PS * 3 / 4));
	assert_int_equal(walk.state, WALK_GOES);
	for (int i = 0; i < 1000; i++)
		assert_false(walk_is_due(&walk));
}

static void try__no_better(void **state)
{
	struct walk walk = {0};

	(void)state;
	assert_true(copies_take(&walk, SLOW_PS));
	walk_try(&walk, 1);
	assert_false(copies_take(&walk, SLOW_PS * 4 / 5));
	assert_int_equal(walk.state, WALK_LOOKS);
	assert_int_equal(messages_until_due(&walk), WALK_REST_MIN);
	assert_true(copies_take(&walk, SLOW_PS)); /* once more, later */
	walk_rest(&walk);                         /* not to be had */
	assert_int_equal(messages_until_due(&walk), 2 * WALK_REST_MIN);
}

/* Copies during which others had the core say nothing, in a look or in a try. */
static void note__disturbed(void **state)
{
	struct walk walk = {0};

	(void)state;
	for (int i = 0; i < WALK_SAMPLES; i++)
		assert_false(walk_note(&walk, i % 3 ? UINT64_C(1) << 40 : 1000));
	assert_int_equal(walk.state, WALK_LOOKS);
	assert_int_equal(walk.stays_ps, 1000);
	assert_true(copies_take(&walk, SLOW_PS));
	walk_try(&walk, 1);
	for (int i = 0; i < WALK_SAMPLES; i++)
		assert_false(walk_note(&walk, i % 3 ? 100 * SLOW_PS : SLOW_PS / 2));
	assert_int_equal(walk.state, WALK_GOES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(look__one_in_some_is_timed),
		cmocka_unit_test(look__fast_lines),
		cmocka_unit_test(try__better),
		cmocka_unit_test(try__no_better),
		cmocka_unit_test(note__disturbed),
	};

	return cmocka_run_group_tests_name("walk", tests, NULL, NULL);
}
