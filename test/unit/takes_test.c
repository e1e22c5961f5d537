/* SPDX-License-Identifier: BSD-3-Clause */
/* takes: ballots between two ways to copy, by what passes between messages; and that bytes_take copies all. */
#include "unit.h"

#include "base/bytes.h"
#include "transport/shm/takes.h"

enum { BALLOT = 1 + TAKES_PARTS * TAKES_PART };

/* So many messages; what passes after one that is copied either way. Returns how many were timed. */
static uint32_t messages(struct takes *takes, uint32_t count, uint64_t without_ns, uint64_t with_ns)
{
	static uint64_t now_ns = 1000000;
	uint32_t timed = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (takes_times(takes)) {
			takes_time(takes, now_ns);
			timed++;
		}
		now_ns += takes->now ? with_ns : without_ns;
	}
	return timed;
}

static void ballots__make_the_faster_one_the_rule(void **state)
{
	struct takes takes = {0};

	(void)state;
	messages(&takes, BALLOT, 1000, 900);
	assert_false(takes.now); /* one vote is none */
	messages(&takes, TAKES_SOON, 1000, 900);
	assert_false(takes.now);
	messages(&takes, BALLOT, 1000, 900);
	assert_int_equal(takes.part, 0);
	assert_true(takes.now);
	messages(&takes, 10 * (BALLOT + TAKES_SOON), 1000, 900);
	takes.left = 0;
	messages(&takes, BALLOT, 1000, 900);
	assert_int_equal(takes.votes, TAKES_VOTES_MAX);
	assert_true(takes.now);
	/* and no longer, where it is not any more */
	for (unsigned i = 0; i < TAKES_VOTES_MAX; i++) {
		takes.left = 0;
		messages(&takes, BALLOT, 1000, 1100);
		assert_int_equal(takes.now, TAKES_VOTES_MAX - i - 1 >= TAKES_VOTES);
	}
	assert_int_equal(takes.votes, 0);
}

static void ballots__want_more_than_a_little(void **state)
{
	struct takes takes = {0};

	(void)state;
	for (unsigned i = 0; i < 2 * TAKES_BALLOTS; i++) {
		takes.left = 0;
		messages(&takes, BALLOT, 1000, i % 2 ? 1000 : 980);
		assert_false(takes.now);
		assert_int_equal(takes.votes, 0);
	}
}

static void ballots__are_a_small_part(void **state)
{
	struct takes takes = {0};

	(void)state;
	assert_int_equal(messages(&takes, BALLOT + TAKES_SOON, 1000, 1000), BALLOT);
	messages(&takes, TAKES_BALLOTS * (BALLOT + TAKES_SOON), 1000, 1000);
	assert_in_range(messages(&takes, 10 * (TAKES_REST + BALLOT), 1000, 1000), 1, 10 * BALLOT);
}

/* What is first after a change meets what the other way left, and says nothing. */
static void ballots__leave_out_the_first_ones(void **state)
{
	struct takes takes = {0};
	uint64_t now_ns = 5000;

	(void)state;
	for (unsigned b = 0; b < 4; b++) {
		takes.left = 0;
		for (unsigned i = 0; i < BALLOT; i++) {
			assert_true(takes_times(&takes));
			takes_time(&takes, now_ns);
			now_ns += takes.now && takes.left > TAKES_PART - TAKES_SKIP ? 1 : 1000;
		}
		assert_int_equal(takes.votes, 0);
	}
}

static void take__copies_all_and_no_more(void **state)
{
	static uint8_t from[BYTES_TAKE_MAX + 128], to[BYTES_TAKE_MAX + 128];
	static const size_t lengths[] = {BYTES_STEP + 1, 2175, 2176, 2177, 3000, 4096, 5001, 8191, BYTES_TAKE_MAX};

	(void)state;
	bytes_learn();
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 7 + i / 251);
	for (size_t l = 0; l < sizeof(lengths) / sizeof(*lengths); l++)
		for (size_t a = 0; a < 64; a += 21)
			for (size_t b = 0; b < 64; b += 13) {
				memset(to, 0xa5, sizeof(to));
				bytes_take(to + a, from + b, lengths[l]);
				assert_memory_equal(to + a, from + b, lengths[l]);
				for (size_t i = 0; i < a; i++)
					assert_int_equal(to[i], 0xa5);
				for (size_t i = a + lengths[l]; i < sizeof(to); i++)
					assert_int_equal(to[i], 0xa5);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ballots__make_the_faster_one_the_rule),
		cmocka_unit_test(ballots__want_more_than_a_little),
		cmocka_unit_test(ballots__are_a_small_part),
		cmocka_unit_test(ballots__leave_out_the_first_ones),
		cmocka_unit_test(take__copies_all_and_no_more),
	};

	return cmocka_run_group_tests_name("takes", tests, NULL, NULL);
}
