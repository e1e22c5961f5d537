/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The MPI library's calls of sched_yield: which are made, and whose are taken over: those of libraries that are called
 * as an MPI's, however they were linked, and nobody else's.
 *
 * sched_yield is counted where front/yield.c calls it, and what the kernel says of switches is made up.
 */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "front/import.h"
#include "front/yield.h"

int yields_lazy(void);
int yields_sealed(void);
int yields_other(void);

int __wrap_sched_yield(void);
int __real_sched_yield(void);
int __wrap_getrusage(int who, struct rusage *usage);

enum { SPARED = 64, STAYS = 256 };

static struct {
	int made;
	bool others;   /* run whenever this thread yields */
	long switches;
} kernel;

int __wrap_sched_yield(void)
{
	kernel.made++;
	kernel.switches += kernel.others;
	return __real_sched_yield();
}

int __wrap_getrusage(int who, struct rusage *usage)
{
	assert_int_equal(who, RUSAGE_THREAD);
	*usage = (struct rusage){.ru_nvcsw = 3, .ru_nivcsw = kernel.switches};
	return 0;
}

static int made_of(int (*yields)(void), int calls)
{
	int before = kernel.made;

	for (int i = 0; i < calls; i++)
		assert_int_equal(yields(), 0);
	return kernel.made - before;
}

static void yield__alone(void **state)
{
	(void)state;
	assert_int_equal(made_of(yield_sparing, 100 * SPARED), 100);
	kernel.switches++; /* the kernel's own choice: nobody came by a yield */
	assert_int_equal(made_of(yield_sparing, 100 * SPARED), 100);
}

static void yield__where_others_run(void **state)
{
	(void)state;
	kernel.others = true;
	made_of(yield_sparing, SPARED);
	assert_int_equal(made_of(yield_sparing, 10000), 10000);
	kernel.others = false;
	assert_in_range(made_of(yield_sparing, 10000), STAYS, STAYS + 16 + 10000 / SPARED);
	assert_int_equal(made_of(yield_sparing, 10 * SPARED), 10);
}

static bool sealed; /* for good */

int __real_mprotect(void *start, size_t length, int protection);
int __wrap_mprotect(void *start, size_t length, int protection);

int __wrap_mprotect(void *start, size_t length, int protection)
{
	return sealed ? -1 : __real_mprotect(start, length, protection);
}

/* Of two tables that have it one cannot be written. What is written is what was there. */
static void import__says_what_was_refused(void **state)
{
	(void)state;
	sealed = true;
	assert_int_equal(import_set("sched_yield", (void (*)(void))__real_sched_yield), -1);
	sealed = false;
	assert_true(import_set("sched_yield", (void (*)(void))__real_sched_yield) > 0);
	assert_int_equal(import_set("no_such_function", (void (*)(void))__real_sched_yield), 0);
}

/* By the name of the library, wherever it has the function's address, and however that is protected. */
static void spare__whose_calls(void **state)
{
	(void)state;
	assert_false(yield_spared);
	assert_int_equal(made_of(yields_lazy, 2 * SPARED), 0); /* bound by now */
	yield_spare(false);
	yield_spare(false);
	assert_true(yield_spared);
	assert_int_equal(made_of(yields_lazy, 10 * SPARED), 10);
	assert_int_equal(made_of(yields_sealed, 10 * SPARED), 10);
	assert_int_equal(made_of(yields_other, 10 * SPARED), 0);
}

/* Found what it waited for, it goes on to that, whoever wants the core; and yields again when it finds nothing. */
static void yield__having_found(void **state)
{
	(void)state;
	yield_look();
	for (int shared = 0; shared < 2; shared++) {
		kernel.others = true;
		yield_spare(shared);
		made_of(yield_sparing, SPARED);
		assert_int_equal(made_of(yield_sparing, 10), 10);
		yield_finds();
		yield_finds();
		assert_int_equal(made_of(yield_sparing, 1), 0);
		assert_int_equal(made_of(yield_sparing, 10), 10);
		kernel.others = false;
	}
}

/* However few of them others have used so far. */
static void yield__where_ranks_share_cores(void **state)
{
	(void)state;
	yield_spare(true);
	assert_int_equal(made_of(yield_sparing, 10000), 10000);
	yield_spare(false);
	assert_in_range(made_of(yield_sparing, 10000), 10000 / SPARED, STAYS + 16 + 10000 / SPARED);
}

static void *look(void *arg)
{
	yield_look();
	return arg;
}

static void yield__with_threads_that_look(void **state)
{
	pthread_t thread;

	(void)state;
	yield_look();
	assert_int_equal(made_of(yield_sparing, 10 * SPARED), 10);
	assert_int_equal(pthread_create(&thread, NULL, look, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(made_of(yield_sparing, 10 * SPARED), 10 * SPARED);
	yield_finds();
	assert_int_equal(made_of(yield_sparing, 10), 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(yield__alone),
		cmocka_unit_test(yield__where_others_run),
		cmocka_unit_test(import__says_what_was_refused),
		cmocka_unit_test(spare__whose_calls),
		cmocka_unit_test(yield__having_found),
		cmocka_unit_test(yield__where_ranks_share_cores),
		cmocka_unit_test(yield__with_threads_that_look), /* from then on every call is made */
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
