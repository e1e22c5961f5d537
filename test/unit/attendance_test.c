/* SPDX-License-Identifier: BSD-3-Clause */
/* When a thread that makes progress steps in for the program: the rule by itself, with given times and counts. */
#include "unit.h"

#include "base/attendance.h"

enum { GAP_NS = ATTENDANCE_GAP_NS, NAP_NS = ATTENDANCE_NAP_NS_MIN, LONGEST_NS = ATTENDANCE_NAP_NS_MAX };

static void thread__steps_in_for_who_never_polled(void **state)
{
	struct attendance attendance = {0};

	(void)state;
	for (uint64_t now_ns = 1000; now_ns < 100000; now_ns += 1000)
		assert_int_equal(attendance_nap(&attendance, 0, now_ns), 0);
}

static void thread__sleeps_longer_beside_who_keeps_polling(void **state)
{
	struct attendance attendance = {0};
	uint64_t now_ns = 1000000000, nap_ns, last_ns = 0;
	uint32_t polls = UINT32_MAX - 100;

	(void)state;
	attendance_nap(&attendance, polls, now_ns);
	for (int i = 0; i < 20; i++) {
		now_ns += last_ns + 1000;
		polls += 1 + (uint32_t)(last_ns / GAP_NS); /* the count goes round */
		nap_ns = attendance_nap(&attendance, polls, now_ns);
		assert_in_range(nap_ns, i == 0 ? NAP_NS : last_ns, LONGEST_NS);
		last_ns = nap_ns;
	}
	assert_in_range(last_ns, LONGEST_NS / 2 + 1, LONGEST_NS);
}

/* Who polls between two pieces of work is away in them. */
static void thread__steps_in_where_polls_are_rare(void **state)
{
	struct attendance attendance = {0};
	uint64_t now_ns = 1000000000;

	(void)state;
	attendance_nap(&attendance, 0, now_ns);
	assert_int_equal(attendance_nap(&attendance, 1, now_ns += GAP_NS), NAP_NS);
	assert_int_equal(attendance_nap(&attendance, 6, now_ns += NAP_NS), NAP_NS + NAP_NS);
	assert_int_equal(attendance_nap(&attendance, 9, now_ns += NAP_NS + NAP_NS), 0);
	assert_int_equal(attendance_nap(&attendance, 10, now_ns += GAP_NS), NAP_NS); /* and begins anew */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(thread__steps_in_for_who_never_polled),
		cmocka_unit_test(thread__sleeps_longer_beside_who_keeps_polling),
		cmocka_unit_test(thread__steps_in_where_polls_are_rare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
