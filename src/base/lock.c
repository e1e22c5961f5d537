/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/lock.h"

#include <sched.h>

enum {
	SPINS = 64,
	/* Polls between two yields where nobody waits, since the holder may be running; and for which who waits comes
	 * first. */
	MISSES = 16,
};

void lock_wait(struct lock *lock)
{
	if (add_relaxed(&lock->waiting, 1) > 0)
		sched_yield();
	for (;;) {
		for (int spins = 0; spins < SPINS; spins++) {
			if (!load_relaxed(&lock->held) && lock_try(lock)) {
				add_relaxed(&lock->waiting, -1);
				return;
			}
			cpu_pause();
		}
		sched_yield();
	}
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
