/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/lock.h"

#include <sched.h>

enum { SPINS = 64 };

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
