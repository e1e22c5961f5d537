/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * trip: how long something takes to the peer and back, smoothed, and how much that varies (RFC 6298).
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_TRIP_H
#define THOLE_TRANSPORT_DATAGRAM_TRIP_H

#include <stdint.h>

enum { RESEND_MAX_NS = 500000000 }; /* the doubling of time-outs stops */

struct trip {
	uint64_t smoothed_ns, deviation_ns; /* 0: not measured */
	/* the shortest that is surely one of what was asked for once; 0: not measured */
	uint64_t least_ns;
};

static inline void trip_measure(struct trip *trip, uint64_t sample_ns)
{
	uint64_t difference_ns;

	if (trip->smoothed_ns == 0) {
		trip->smoothed_ns = sample_ns ? sample_ns : 1;
		trip->deviation_ns = sample_ns / 2;
		return;
	}
	difference_ns = trip->smoothed_ns > sample_ns ? trip->smoothed_ns - sample_ns : sample_ns - trip->smoothed_ns;
	trip->deviation_ns += difference_ns / 4 - trip->deviation_ns / 4;
	trip->smoothed_ns += sample_ns / 8 - trip->smoothed_ns / 8;
}

/* Something was asked for once, and it took so long. */
static inline void trip_shorten(struct trip *trip, uint64_t sample_ns)
{
	if (trip->least_ns == 0 || sample_ns < trip->least_ns)
		trip->least_ns = sample_ns;
}

/* What is waited for longer is late. */
static inline uint64_t trip_limit(const struct trip *trip)
{
	return trip->smoothed_ns + 4 * trip->deviation_ns;
}

/* Up to half as long again, differently for each seed and each try, so that those who have lost together do not try
 * again together. */
static inline uint64_t trip_spread(uint64_t seed, uint64_t ns, unsigned tries)
{
	return ns + (ns >> 6) * (seed >> (tries & 31) & 31);
}

#endif
