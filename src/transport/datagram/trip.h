/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * trip: how long something takes to the peer and back, smoothed, and how much that varies (RFC 6298).
 *
 * A trip is seen to end when somebody looks. Whoever computed, was stopped, or had no processor looks late, and finds
 * answers that may have been there for all that time: so what is measured is not a time but between two, of which that
 * counts that is nearest to what is believed. What was sent again counts whole from then on, but at most as twice what
 * is late: so a time-out that is too short for the way grows, also of who sleeps in between, and no single pause makes
 * it far too long.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_TRIP_H
#define THOLE_TRANSPORT_DATAGRAM_TRIP_H

#include <stdbool.h>
#include <stdint.h>

enum trip_limits {
	RESEND_MAX_NS = 500000000, /* the doubling of time-outs stops */
	TRIP_FIRST_NS = 1000000,   /* is believed as long as nothing was measured */
	TRIP_AWAY_NS = 100000,     /* well above what is between two looks of who polls */
};

struct trip {
	uint64_t smoothed_ns, deviation_ns; /* 0: not measured */
	/* the shortest that is surely one of what was asked for once; 0: not measured */
	uint64_t least_ns;
};

/* When nobody looked at what has come. */
struct trip_away {
	uint64_t looked_ns;          /* the last look began */
	/* Nobody looked between these, and what is found may have come then, as no look since has found nothing. There
	 * may have been looks between, too. to_ns 0: there is no such time. */
	uint64_t from_ns, to_ns;
};

/* A look begins. */
static inline void trip_look(struct trip_away *away, uint64_t now_ns)
{
	if (now_ns - away->looked_ns > TRIP_AWAY_NS) {
		if (away->to_ns == 0)
			away->from_ns = away->looked_ns;
		away->to_ns = now_ns;
	}
	away->looked_ns = now_ns;
}

/* Whether nobody had looked for long before the look that goes on. */
static inline bool trip_is_first(const struct trip_away *away)
{
	return away->to_ns > 0 && away->to_ns == away->looked_ns;
}

/* It is over, and has found so much. */
static inline void trip_looked(struct trip_away *away, unsigned found)
{
	if (found == 0)
		away->to_ns = 0;
}

/* How much of the time since then what is found now may have waited. away: NULL: it is seen as it comes. */
static inline uint64_t trip_unseen(const struct trip_away *away, uint64_t since_ns)
{
	if (!away || away->to_ns <= since_ns)
		return 0;
	return away->to_ns - (away->from_ns > since_ns ? away->from_ns : since_ns);
}

static inline uint64_t trip_nearest(uint64_t ns, uint64_t least_ns, uint64_t most_ns)
{
	return ns < least_ns ? least_ns : ns > most_ns ? most_ns : ns;
}

static inline uint64_t trip_apart(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns > b_ns ? a_ns - b_ns : b_ns - a_ns;
}

/* It took so long at most, and up to unseen_ns less. */
static inline void trip_measure(struct trip *trip, uint64_t most_ns, uint64_t unseen_ns)
{
	uint64_t least_ns = most_ns - unseen_ns, sample_ns, below_ns, above_ns;

	if (trip->smoothed_ns == 0) {
		sample_ns = trip_nearest(TRIP_FIRST_NS, least_ns, most_ns);
		trip->smoothed_ns = sample_ns ? sample_ns : 1;
		trip->deviation_ns = sample_ns / 2;
		return;
	}
	sample_ns = trip_nearest(trip->smoothed_ns, least_ns, most_ns);
	below_ns = trip_apart(trip->smoothed_ns, least_ns);
	above_ns = trip_apart(trip->smoothed_ns, most_ns);
	trip->deviation_ns += trip_nearest(trip->deviation_ns, trip_apart(trip->smoothed_ns, sample_ns),
					   below_ns > above_ns ? below_ns : above_ns) / 4 - trip->deviation_ns / 4;
	trip->smoothed_ns += sample_ns / 8 - trip->smoothed_ns / 8;
}

/* What is waited for longer is late. */
static inline uint64_t trip_limit(const struct trip *trip)
{
	return trip->smoothed_ns + 4 * trip->deviation_ns;
}

/* Since it was sent again it took so long at most. Whether that is the answer to what was sent before is not known. */
static inline void trip_measure_again(struct trip *trip, uint64_t most_ns)
{
	uint64_t twice_ns = 2 * trip_limit(trip);

	if (trip->smoothed_ns == 0)
		trip_measure(trip, most_ns, most_ns);
	else
		trip_measure(trip, most_ns < twice_ns ? most_ns : twice_ns, 0);
}

/* Something was asked for once, and it took so long. */
static inline void trip_shorten(struct trip *trip, uint64_t sample_ns)
{
	if (trip->least_ns == 0 || sample_ns < trip->least_ns)
		trip->least_ns = sample_ns;
}

/* Up to half as long again, differently for each seed and each try, so that those who have lost together do not try
 * again together. */
static inline uint64_t trip_spread(uint64_t seed, uint64_t ns, unsigned tries)
{
	return ns + (ns >> 6) * (seed >> (tries & 31) & 31);
}

#endif
