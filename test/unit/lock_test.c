/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock: who may have it when. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "base/lock.h"

enum { LIMIT_S = 20 };

static int slept;

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left);

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
	(void)clock, (void)flags, (void)time, (void)left;
	add_relaxed(&slept, 1);
	return 0;
}

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

static void *takes(void *arg)
{
	lock_take(arg);
	lock_leave(arg);
	return NULL;
}

/* Who waits yields; and sleeps if that does not help, since the holder may be of a class that it never yields to. */
static void take__sleeps_in_the_end(void **state)
{
	struct lock lock = {0};
	pthread_t thread;

	(void)state;
	alarm(LIMIT_S);
	lock_take(&lock);
	assert_int_equal(slept, 0);
	assert_int_equal(pthread_create(&thread, NULL, takes, &lock), 0);
	while (!load_relaxed(&slept))
		sched_yield();
	lock_leave(&lock);
	pthread_join(thread, NULL);
	alarm(0);
	assert_true(lock_poll(&lock)); /* and waits no more */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(poll__gets_a_free_lock_once),
		cmocka_unit_test(poll__leaves_a_free_lock_to_those_who_wait),
		cmocka_unit_test(poll__does_not_wait_for_ever_for_those_who_do_not_come),
		cmocka_unit_test(take__sleeps_in_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
