/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lock: one that is held for some tens of instructions. Who finds it taken spins, then yields: the holder may want
 * this core. In the end it sleeps: a thread of a real-time class yields to no other.
 *
 * No owner, no recursion, no order among those who wait. But who comes while others wait lets them have a try first: a
 * thread that polls would get it back each time otherwise, since it is the one that is running. All zero is free.
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <stdbool.h>

#include "base/atomic.h"

struct lock {
	int held;
	int waiting; /* threads in lock_wait */
	int missed;  /* calls of lock_poll that got nothing, since one of these gave the core away last */
};

/* Of who waits for another thread and has done this so many times: spin, yield or sleep. */
void lock_pause(unsigned times);

/* The out of line part of lock_take: until it is ours. */
void lock_wait(struct lock *lock);

/* Whether it is ours now. */
static inline bool lock_try(struct lock *lock)
{
	return !swap_acquire_release(&lock->held, 1); /* partner: lock_leave */
}

static inline void lock_take(struct lock *lock)
{
	if (__builtin_expect(load_relaxed(&lock->waiting) > 0 || !lock_try(lock), 0))
		lock_wait(lock);
}

/* The out of line part of lock_poll: whether it is ours after all. */
bool lock_miss(struct lock *lock);

/* For who would only look whether there is something to do: whether it is ours. Who waits for it comes first, and so
 * does who holds it and has lost its core to one who polls in vain; but not for long, since who waits may have lost
 * its own to a third, for a slice of the scheduler's. */
static inline bool lock_poll(struct lock *lock)
{
	return __builtin_expect(load_relaxed(&lock->waiting) == 0 && lock_try(lock), 1) || lock_miss(lock);
}

static inline void lock_leave(struct lock *lock)
{
	store_release(&lock->held, 0); /* partners: lock_try, lock_wait */
}

#endif /* BASE_LOCK_H */
