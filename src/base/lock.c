/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/lock.h"

#include <sched.h>

enum { SPINS = 64 };

void lock_wait(struct lock *lock)
{
	for (;;) {
		for (int spins = 0; spins < SPINS; spins++) {
			if (!load_relaxed(&lock->held) && !swap_acquire_release(&lock->held, 1)) /* partner: lock_leave */
				return;
			cpu_pause();
		}
		sched_yield();
	}
}
