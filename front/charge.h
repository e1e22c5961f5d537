/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * charge.h - what a front end opens endpoints for (a domain, a worker) as the caretaker knows it: one lock around all
 * of it, and the endpoints.
 *
 * Where only one thread uses it, the lock is one that costs this thread next to nothing (base/biased.h), for the sake
 * of the caretaker (caretaker.h). So Thole's endpoints are opened for a single thread: one lock taken once an operation
 * is cheaper than Thole's and the front end's. Nobody sleeps with the lock held, but once when a peer has died (option
 * launcher_grace). What else it guards is the front end's matter; whose memory the array is, too.
 */
#ifndef FRONT_CHARGE_H
#define FRONT_CHARGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/biased.h"
#include "base/list.h"
#include "base/lock.h"
#include "thole.h"

/* All zero is free, and used by one thread. */
struct charge {
	struct lock lock;                  /* taken where `safe`, */
	struct biased biased;              /* and this elsewhere */
	bool safe;                         /* more than one thread may come: set before the second does */
	bool tended;                       /* the caretaker looks at it; the caretaker's, as the next two and `node` */
	bool waits;                        /* it is to be, but there was no thread for it */
	bool inherited;                    /* this is a forked child, and it is of before: it has no endpoints here */
	struct thole_endpoint **endpoints; /* the open ones; NULL: none here. Changed with the lock */
	size_t endpoint_count;             /* places, those without one too */
	struct list_node node;             /* among all that the caretaker knows */
};

static inline void charge_enter(struct charge *charge)
{
	if (__builtin_expect(charge->safe, 0))
		lock_take(&charge->lock);
	else
		biased_enter(&charge->biased);
}

/* Whether it is entered now, without a call. If not, charge_enter has to follow. */
static inline bool charge_try(struct charge *charge)
{
	return __builtin_expect(!charge->safe, 1) && biased_try(&charge->biased);
}

/* For who would only make progress, which the holder makes anyway: whether it is ours. */
static inline bool charge_poll(struct charge *charge)
{
	if (__builtin_expect(charge->safe, 0))
		return lock_poll(&charge->lock);
	biased_enter(&charge->biased);
	return true;
}

static inline void charge_leave(struct charge *charge)
{
	if (__builtin_expect(charge->safe, 0))
		lock_leave(&charge->lock);
	else
		biased_leave(&charge->biased);
}

/* With the lock, for a caller who may wait: thole_progress may look again, and sleep, with the lock held. So only where
 * nobody else wants it; else one look. Returns how many events were handled. */
static inline int charge_progress(const struct charge *charge, struct thole_endpoint *endpoint)
{
	if (__builtin_expect(charge->safe, 0))
		return thole_poll(endpoint, NULL, 0);
	return thole_progress(endpoint);
}

#endif /* FRONT_CHARGE_H */
