/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attendance: whether a program polls so often that a thread which would make progress in its place had better stay
 * asleep. Pure: times and counts are given.
 *
 * A thread that is woken beside a program that polls has nothing to do that is not done anyway. It takes the program's
 * core and locks, and where all cores are taken it may lose the core in the middle of that, for a slice of the
 * scheduler's: then the program, which waits for the lock, waits for some milliseconds. So the thread looks now and
 * then, without a lock, whether the program still polls, and steps in when it does not.
 */
#ifndef THOLE_BASE_ATTENDANCE_H
#define THOLE_BASE_ATTENDANCE_H

#include <stdint.h>

enum {
	ATTENDANCE_GAP_NS = 20000,      /* a program that waits polls at least so often, on average; others compute */
	ATTENDANCE_NAP_NS_MIN = 100000, /* between two looks, */
	ATTENDANCE_NAP_NS_MAX = 1000000, /* and after some that found it polling: so late the thread may step in */
};

/* All zero: it has not polled. */
struct attendance {
	uint32_t polls; /* of the program, at the last look, */
	uint64_t looked_ns; /* and when that was */
	uint64_t nap_ns; /* that it advised; 0: none */
};

/* How long the thread is to sleep before it looks again; 0: the program is away, and the thread steps in. polls: how
 * often the program has polled, modulo 2^32. */
static inline uint64_t attendance_nap(struct attendance *attendance, uint32_t polls, uint64_t now_ns)
{
	uint64_t made = (uint32_t)(polls - attendance->polls), since_ns = now_ns - attendance->looked_ns;

	attendance->polls = polls;
	attendance->looked_ns = now_ns;
	if (made == 0 || made * ATTENDANCE_GAP_NS < since_ns)
		attendance->nap_ns = 0;
	else if (attendance->nap_ns == 0)
		attendance->nap_ns = ATTENDANCE_NAP_NS_MIN;
	else if (2 * attendance->nap_ns <= ATTENDANCE_NAP_NS_MAX)
		attendance->nap_ns *= 2;
	return attendance->nap_ns;
}

#endif
