/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of our own: what they have in a program whose libraries have much memory of each thread's own. */
#include "unit.h"

#include <string.h>

#include "base/thread.h"

enum { OWN = 200 << 10, USED = 128 << 10 };

static __thread volatile char own[OWN]; /* the C library takes it from the stack */

static void *use_stack(void *arg)
{
	volatile char used[USED];

	for (size_t i = 0; i < sizeof(used); i += 512)
		used[i] = own[i];
	*(bool *)arg = used[512] == 0;
	return NULL;
}

static void start__leaves_the_stack(void **state)
{
	bool fine = false;
	pthread_t thread;

	(void)state;
	assert_int_equal(thread_start(&thread, "test", use_stack, &fine), 0);
	pthread_join(thread, NULL);
	assert_true(fine);
}

/* Those that a thread raises by itself it cannot have wait: the kernel ends the process then. */
static void *blocked(void *arg)
{
	pthread_sigmask(SIG_SETMASK, NULL, arg);
	return NULL;
}

static void start__takes_its_own_signals_alone(void **state)
{
	static const int raised[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
	sigset_t waiting, before, after;
	pthread_t thread;

	(void)state;
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	assert_int_equal(thread_start(&thread, "test", blocked, &waiting), 0);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	pthread_join(thread, NULL);
	for (int signal = 1; signal < 32; signal++) {
		bool comes = signal == SIGKILL || signal == SIGSTOP;

		for (size_t i = 0; i < sizeof(raised) / sizeof(raised[0]); i++)
			comes |= signal == raised[i];
		assert_int_equal(sigismember(&waiting, signal), !comes);
		assert_int_equal(sigismember(&after, signal), sigismember(&before, signal));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(start__leaves_the_stack),
		cmocka_unit_test(start__takes_its_own_signals_alone),
	};

	return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
