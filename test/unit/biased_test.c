/* SPDX-License-Identifier: BSD-3-Clause */
/* The lock of one owner and a visitor: who is inside keeps the other out. */
#include "unit.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/biased.h"

enum { LIMIT_S = 20 };

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left);

static int slept;

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
	(void)clock, (void)flags, (void)time, (void)left;
	add_relaxed(&slept, 1);
	return 0;
}

static struct biased biased;
static enum { FENCE, FENCE_SHOWS_OWNER, FENCE_REFUSED } fence;

/* What an owner has written before is seen after it. */
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	if (number != SYS_membarrier || a != MEMBARRIER_CMD_PRIVATE_EXPEDITED || fence == FENCE)
		return __real_syscall(number, a, b, c, d, e, f);
	assert_int_equal(biased.wanted, 1);
	if (fence == FENCE_REFUSED)
		return -1;
	biased.inside = 1;
	return 0;
}

static void visit__not_while_the_owner_is_inside(void **state)
{
	(void)state;
	assert_true(biased_visit(&biased));
	biased_part(&biased);
	biased_enter(&biased);
	assert_false(biased_visit(&biased));
	biased_leave(&biased);
	assert_true(biased_visit(&biased));
	biased_part(&biased);
	biased_enter(&biased); /* and nobody is kept out who need not be */
	biased_leave(&biased);
}

/* An owner that entered a moment ago is seen by all once the fence is over, and not before. */
static void visit__sees_who_has_just_come(void **state)
{
	(void)state;
	fence = FENCE_SHOWS_OWNER;
	assert_false(biased_visit(&biased));
	assert_int_equal(biased.wanted, 0);
	biased.inside = 0;
	fence = FENCE_REFUSED; /* so nothing is known of the owner */
	assert_false(biased_visit(&biased));
	assert_int_equal(biased.wanted, 0);
	fence = FENCE;
}

static int entered;

static void *owner_enters(void *arg)
{
	(void)arg;
	biased_enter(&biased);
	store_release(&entered, 1);
	biased_leave(&biased);
	return NULL;
}

static void enter__waits_for_the_visitor(void **state)
{
	pthread_t owner;

	(void)state;
	assert_true(biased_visit(&biased));
	assert_int_equal(pthread_create(&owner, NULL, owner_enters, NULL), 0);
	alarm(LIMIT_S);
	while (load_relaxed(&slept) < 2) { /* in the end it sleeps, as who waits for a lock, and looks again */
		assert_int_equal(load_acquire(&entered), 0);
		sched_yield();
	}
	alarm(0);
	biased_part(&biased);
	pthread_join(owner, NULL);
	assert_int_equal(entered, 1);
}

enum { VISITS = 10000 };

static uint64_t twice[2]; /* equal, but for who is inside */
static uint64_t turns, unequal;
static int visits;

static void turn(void)
{
	unequal += twice[0] != twice[1];
	twice[0]++;
	fence_compiler();
	twice[1]++;
}

static void *owner_works(void *arg)
{
	(void)arg;
	while (load_acquire(&visits) < VISITS) {
		biased_enter(&biased);
		turn();
		turns++;
		biased_leave(&biased);
		for (int i = 0; i < 20; i++)
			cpu_pause(); /* or no visitor would ever find it outside */
	}
	return NULL;
}

static void both__never_at_once(void **state)
{
	pthread_t owner;

	(void)state;
	assert_int_equal(pthread_create(&owner, NULL, owner_works, NULL), 0);
	while (load_acquire(&visits) < VISITS) {
		if (!biased_visit(&biased))
			continue;
		turn();
		biased_part(&biased);
		store_release(&visits, visits + 1);
	}
	pthread_join(owner, NULL);
	assert_int_equal(unequal, 0);
	assert_int_equal(twice[0], turns + VISITS);
	assert_int_equal(twice[1], turns + VISITS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(visit__not_while_the_owner_is_inside),
		cmocka_unit_test(visit__sees_who_has_just_come),
		cmocka_unit_test(enter__waits_for_the_visitor),
		cmocka_unit_test(both__never_at_once),
	};

	if (!biased_prepare())
		return 77; /* membarrier is refused here */
	return cmocka_run_group_tests_name("biased", tests, NULL, NULL);
}
