/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cadence: how often polls that find nothing read the clock, and when there is maintenance, or a look at what rests.
 * Pure: times are given.
 *
 * What comes while the clock is read, or during maintenance, is seen that much later. A reading costs as much as five
 * polls, so it is rare where they are quick. Maintenance costs as much as some messages of a dialogue, and both sides
 * wait for either's: so who has messages coming has it once in a while only, and often only who has waited for longer
 * than an answer takes. That one may wait for what no poll sees: a connection, a peer that is gone, a core that is
 * shared.
 *
 * A look at a network that rests costs as much as ten messages of a dialogue.
 */
#ifndef THOLE_ENDPOINT_CADENCE_H
#define THOLE_ENDPOINT_CADENCE_H

#include <stdbool.h>
#include <stdint.h>

enum {
	CADENCE_POLLS_MIN = 16,  /* idle polls, in a row or not, between two readings of the clock, */
	CADENCE_POLLS_MAX = 128, /* at first and at most: */
	CADENCE_SOON_NS = 2000,  /* twice as many if the last ones took less, */
	CADENCE_LATE_NS = 8000,  /* and few again if they took more */
	CADENCE_MAINTAIN_NS = 1000000,   /* between two maintenances, */
	CADENCE_WAITING_NS = 20000,      /* or while nothing has come for so long, */
	CADENCE_LOOK_NS = 50000,         /* between two looks at transports that rest (transport_rest) */
	CADENCE_WAITING_SHARED_NS = 100000, /* and where others of this job wait for the core: it is theirs meanwhile */
};

struct cadence {
	uint32_t polls; /* from the last reading of the clock to the next, */
	uint32_t left;  /* and those that still come before it */
	uint64_t read_ns;       /* the last one */
	uint64_t waits_ns;      /* one since which nothing was found, */
	uint32_t found;         /* and polls that had found something then, modulo 2^32 */
	uint64_t maintained_ns; /* the last maintenance */
	uint64_t looked_ns;     /* the last look at transports that rest */
};

/* Whether this idle poll reads the clock: then cadence_read follows. */
static inline bool cadence_is_due(struct cadence *cadence)
{
	if (cadence->left == 0)
		return true;
	cadence->left--;
	return false;
}

/* So many of the next idle polls, at most those that are left, read no clock without asking. */
static inline void cadence_skip(struct cadence *cadence, uint32_t polls)
{
	cadence->left -= polls;
}

/* An idle poll has read the clock, be it since it was due or for another reason. `found`: how many polls have found
 * something. */
static inline void cadence_read(struct cadence *cadence, uint64_t now_ns, uint32_t found)
{
	uint64_t since_ns = now_ns - cadence->read_ns;

	if (since_ns > CADENCE_LATE_NS)
		cadence->polls = CADENCE_POLLS_MIN;
	else if (since_ns < CADENCE_SOON_NS && cadence->polls < CADENCE_POLLS_MAX)
		cadence->polls *= 2;
	cadence->left = cadence->polls - 1;
	cadence->read_ns = now_ns;
	if (cadence->found != found || cadence->waits_ns == 0) {
		cadence->found = found;
		cadence->waits_ns = now_ns;
	}
}

/* Since when nothing has come, at the last reading. */
static inline uint64_t cadence_waited(const struct cadence *cadence)
{
	return cadence->read_ns - cadence->waits_ns;
}

/* Whether an idle poll that has read the clock has maintenance to do. */
static inline bool cadence_maintains(const struct cadence *cadence, bool shared)
{
	const uint64_t waiting_ns = shared ? CADENCE_WAITING_SHARED_NS : CADENCE_WAITING_NS;
	uint64_t since_ns = cadence->read_ns - cadence->maintained_ns;

	return since_ns >= CADENCE_MAINTAIN_NS || (since_ns >= waiting_ns && cadence_waited(cadence) >= waiting_ns);
}

/* Whether transports that rest are looked at now. */
static inline bool cadence_looks(struct cadence *cadence, uint64_t now_ns)
{
	if (now_ns - cadence->looked_ns < CADENCE_LOOK_NS)
		return false;
	cadence->looked_ns = now_ns;
	return true;
}

#endif
