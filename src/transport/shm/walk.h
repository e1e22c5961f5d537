/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * walk: whether the payloads of a stream stay in the lines that were read last, or walk on through a longer area.
 * Pure: times are given.
 *
 * A line that its reader still has in its own cache is written soonest on some processors, and on others it is what
 * keeps the writer waiting: there lines are better that have been out of both cores' caches for a while. No flag tells
 * them apart, and it changes with the cores that the two run on. So of a stream one copy in WALK_EVERY is timed, until
 * a line's time is known. Where that is long, the longer area is tried, and taken for good if it makes this shorter by
 * a fourth at least; else the next look is after some thousand messages, then twice as many.
 */
#ifndef THOLE_TRANSPORT_SHM_WALK_H
#define THOLE_TRANSPORT_SHM_WALK_H

#include <stdbool.h>
#include <stdint.h>

enum {
	WALK_EVERY = 16,         /* messages, one of which is timed */
	WALK_SAMPLES = 31,       /* of which the first quartile counts */
	WALK_SLOW_PS = 1500,     /* a line: worth a try; half of it is usual where nothing is waited for */
	WALK_REST_MIN = 1 << 12, /* messages between two tries: at first, */
	WALK_REST_MAX = 1 << 24, /* and at last */
};

enum walk_state {
	WALK_LOOKS, /* times copies to where they stay, */
	WALK_TRIES, /* and to where they walk on */
	WALK_GOES,  /* walks */
};

/* All zero: before the first message. */
struct walk {
	enum walk_state state;
	uint32_t messages; /* until one is timed; 0: WALK_EVERY */
	uint32_t count;    /* of samples */
	uint32_t stays_ps; /* a line, where payloads stay */
	uint32_t rest;     /* messages after the last try in vain */
	uint32_t samples[WALK_SAMPLES];
};

/* Whether this copy is to be timed, for walk_note. */
static inline bool walk_is_due(struct walk *walk)
{
	if (__builtin_expect(walk->state == WALK_GOES, 0) || __builtin_expect(walk->messages-- > 1, 1))
		return false;
	walk->messages = WALK_EVERY;
	return true;
}

/* One that took so long a line, in ps. Returns whether a try is due: walk_try or walk_rest follows. */
bool walk_note(struct walk *walk, uint64_t line_ps);
/* From now on in the longer area; so many messages until it is as it will be. */
void walk_try(struct walk *walk, uint32_t messages);
/* It is not better, or not to be had. */
void walk_rest(struct walk *walk);

#endif
