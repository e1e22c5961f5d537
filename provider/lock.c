/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lock.c - the slow half of the domain's lock: waiting for it.
 */
#include <sched.h>

#include "provider.h"

enum {
	SPINS = 64
}; /* about what an operation holds the lock for; beyond, its holder may not be running */

void prov_lock_wait(struct prov_lock *lock)
{
	for (;;) {
		for (int i = 0; i < SPINS; i++) {
			if (!atomic_load_explicit(&lock->held, memory_order_relaxed) &&
			    prov_lock_try(lock))
				return;
			prov_pause();
		}
		sched_yield();
	}
}
