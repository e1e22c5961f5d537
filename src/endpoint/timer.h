/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timer: the timer in an endpoint's descriptor, made when it is needed first: for sleeps that have to end in time, and
 * for what another thread begins while one sleeps (transport_rouse). Where threads share the endpoint that may be any
 * time, so no event loop sleeps without it.
 *
 * Does not own when anybody sleeps. Always holds: `roused` is false where the descriptor is not readable, nor will be,
 * by endpoint_rouse.
 */
#ifndef THOLE_ENDPOINT_TIMER_H
#define THOLE_ENDPOINT_TIMER_H

#include "endpoint/endpoint.h"

/* Whether another thread's event loop sleeps on wait_fd: what makes that readable is left to it. */
static inline bool endpoint_wakes_another(const struct endpoint *whole)
{
	return whole->armed && !pthread_equal(whole->armed_by, pthread_self());
}

/* Whether it is readable for such a loop already, so that nobody else can sleep on it. One that does not come since its
 * thread has ended is forgotten. */
bool endpoint_is_rousing(struct thole_endpoint *endpoint, uint64_t now_ns);

/* Have the timer; it is the same one from then on. False: there is no descriptor left for it. */
bool endpoint_timer_make(struct thole_endpoint *endpoint);

/* Make wait_fd readable after so long; 0: not any more. False if that cannot be done. */
bool endpoint_timer(struct thole_endpoint *endpoint, uint64_t longest_ns);

/* Let no sleep last beyond when_ns; an earlier end that it has stays. Where there is no timer, nor a descriptor left
 * for one, the sleep goes on. */
void endpoint_rouse(struct transport_owner *owner, uint64_t when_ns);

/* What was roused is awake. */
void endpoint_roused(struct thole_endpoint *endpoint);

#endif
