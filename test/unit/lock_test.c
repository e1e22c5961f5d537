/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock: who may have it when. */
#include "unit.h"

#include "base/lock.h"

static void poll__gets_a_free_lock_once(void **state)
{
	struct lock lock = {0};

	(void)state;
	assert_true(lock_poll(&lock));
	assert_false(lock_try(&lock));
	for (int i = 0; i < 100; i++)
		assert_false(lock_poll(&lock));
	lock_leave(&lock);
	assert_true(lock_poll(&lock));
}

static void poll__leaves_a_free_lock_to_those_who_wait(void **state)
{
	struct lock lock = {.waiting = 1};

	(void)state;
	assert_false(lock_poll(&lock));
	assert_true(lock_try(&lock)); /* as who waits does */
	lock_leave(&lock);
	lock.waiting = 0;
	assert_true(lock_poll(&lock));
}

/* Who waits has lost its core, say, to a thread that is none of ours: it cannot come for a slice of the scheduler's. */
static void poll__does_not_wait_for_ever_for_those_who_do_not_come(void **state)
{
	struct lock lock = {.waiting = 1};
	int polls = 1;

	(void)state;
	while (!lock_poll(&lock) && polls < 100)
		polls++;
	assert_in_range(polls, 2, 50);
	assert_false(lock_try(&lock));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(poll__gets_a_free_lock_once),
		cmocka_unit_test(poll__leaves_a_free_lock_to_those_who_wait),
		cmocka_unit_test(poll__does_not_wait_for_ever_for_those_who_do_not_come),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
