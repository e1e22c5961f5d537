/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_sleep - threads that sleep until something happens at an endpoint, and how they are woken.
 *
 * One of those who sleep leads: it attends to two descriptors, Thole's, and wake.event, which says
 * what Thole's does not: an answer of the directory, mx_wakeup, and what another thread's progress
 * has found. The others follow: they sleep until `events` changes. A leader that leaves wakes one
 * of them to lead. All with the lock held.
 */
#ifndef MX_SLEEP_H
#define MX_SLEEP_H

#include <stdint.h>

#include "mx_endpoint.h"

/* Until something has happened, but not beyond the deadline, and not long. */
void mxi_sleep(struct mx_endpoint *endpoint, uint64_t now_ns, uint64_t deadline_ns);

/* The end of a wait: if nobody leads, one of those who follow is to. */
void mxi_sleep_leave(struct mx_endpoint *endpoint);

/* The out of line part of mxi_sleep_event: whoever sleeps looks again. */
void mxi_sleep_wake(struct mx_endpoint *endpoint);

/* Something has happened that others may wait for. */
static inline void mxi_sleep_event(struct mx_endpoint *endpoint)
{
	endpoint->events++;
	if (__builtin_expect(endpoint->leader_sleeps || endpoint->followers > 0, 0))
		mxi_sleep_wake(endpoint);
}

#endif /* MX_SLEEP_H */
