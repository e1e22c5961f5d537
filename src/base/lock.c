/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/lock.h"

#include <sched.h>
#include <time.h>

#include "base/thread.h"

enum {
	SPINS = 64,  /* between two yields, */
	YIELDS = 64, /* and yields until who waits sleeps instead: */
	REST_NS = 50000,
	/* Polls between two yields where nobody waits, since the holder may be running; and for which who waits comes
	 * first. */
	MISSES = 16,
};

/* errno stays, and nobody is cancelled here, which others may count on. */
static void lock_rest(void)
{
	static const struct timespec rest = {.tv_nsec = REST_NS};
	int before = thread_keep();

	clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, NULL);
	thread_release(before);
}

void lock_pause(unsigned times)
{
	if (times % SPINS != SPINS - 1)
		cpu_pause();
	else if (times / SPINS < YIELDS)
		sched_yield();
	else
		lock_rest();
}

void lock_wait(struct lock *lock)
{
	if (add_relaxed(&lock->waiting, 1) > 0)
		sched_yield();
	for (unsigned times = 0; load_relaxed(&lock->held) || !lock_try(lock); times++)
		lock_pause(times);
	add_relaxed(&lock->waiting, -1);
}

bool lock_miss(struct lock *lock)
{
	int missed = load_relaxed(&lock->missed) + 1;

	store_relaxed(&lock->missed, missed % MISSES);
	if (missed >= MISSES && lock_try(lock))
		return true;
	if (missed >= MISSES || load_relaxed(&lock->waiting) > 0)
		sched_yield();
	return false;
}
