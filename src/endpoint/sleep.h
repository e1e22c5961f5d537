/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sleep: how a thread, or somebody else's event loop, sleeps until something arrives: what transports are to say before
 * (arm), the descriptor, its timer; and how it is seen whether an event loop does.
 */
#ifndef THOLE_ENDPOINT_SLEEP_H
#define THOLE_ENDPOINT_SLEEP_H

#include "endpoint/endpoint.h"

enum { BESIDE_THREAD_NS = 50000 }; /* a sleep beside the progress thread, or of that beside a busy loop */

/* Another number after each progress; not 0, but for one of 2^32. */
static inline uint32_t endpoint_turns(const struct thole_endpoint *endpoint)
{
	return endpoint_of(endpoint)->calls + endpoint_of(endpoint)->idle_calls + 1;
}

/* Whether an event loop sleeps on thole_fd, or is about to: who makes progress in its place does not wake it. */
static inline bool endpoint_is_armed(const struct thole_endpoint *endpoint)
{
	return endpoint_of(endpoint)->armed_at == endpoint_turns(endpoint);
}

/* Another thread may have taken what somebody's event loop was to wake by, and what it sleeps for. */
void endpoint_left(struct thole_endpoint *endpoint);

/* endpoint_unlock, after progress. */
static inline void endpoint_leave(struct thole_endpoint *endpoint)
{
	if (endpoint->safe && __builtin_expect(endpoint_of(endpoint)->armed, 0))
		endpoint_left(endpoint);
	endpoint_unlock(endpoint);
}

/* Whether any operation was started since thole_arm: what these wait for is not what the descriptor was armed for. */
bool endpoint_has_started(const struct thole_endpoint *endpoint);

/* Sleep until the descriptor is readable, at most so long. */
void descriptor_sleep(int fd, uint64_t longest_ns);

/* Sleep until something arrives or the deadline; the lock is held on entry and exit. */
void endpoint_sleep(struct thole_endpoint *endpoint, uint64_t now_ns, uint64_t deadline_ns);

#endif
