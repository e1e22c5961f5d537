/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * biased: a lock that costs its owner a store and a load, and a visitor a system call. For what one thread at a time
 * uses very often, and another one wants to look after now and then, while the owner does something else.
 *
 * The owner says that it is inside, then looks whether a visitor wants in; a visitor says that it wants in, then
 * whether the owner is inside. Each has to see the other's word or be seen, for which both would need a fence between
 * store and load. The visitor makes all threads of the process have theirs (membarrier), so the owner needs none.
 *
 * A visitor never waits: where the owner is inside, it comes another time. The owner waits for as long as a visit
 * takes. One visitor at a time, and owners that keep out of each other's way by themselves. All zero is free.
 */
#ifndef BASE_BIASED_H
#define BASE_BIASED_H

#include <stdbool.h>

#include "base/atomic.h"

struct biased {
	int inside; /* the owner is */
	int wanted; /* a visitor comes, or is inside */
};

/* The out of line part of biased_enter: until the visitor has left. */
void biased_wait(struct biased *biased);

/* Whether the owner is inside now. If not, biased_enter has to follow. */
static inline bool biased_try(struct biased *biased)
{
	store_relaxed(&biased->inside, 1);
	fence_compiler();                                             /* partner: the membarrier of biased_visit */
	return __builtin_expect(!load_acquire(&biased->wanted), 1); /* partner: biased_part */
}

static inline void biased_enter(struct biased *biased)
{
	if (!biased_try(biased))
		biased_wait(biased);
}

static inline void biased_leave(struct biased *biased)
{
	store_release(&biased->inside, 0); /* partner: biased_visit */
}

/* Before the first visit in a process: whether there can be any. */
bool biased_prepare(void);
/* Whether the visitor is inside now, until biased_part. */
bool biased_visit(struct biased *biased);
void biased_part(struct biased *biased);

#endif /* BASE_BIASED_H */
