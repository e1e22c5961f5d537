/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * takes: whether payloads of some KiB that go to and fro are copied by bytes_take, which fetches the lines of what it
 * reads to write them. The answer is written into what the message lay in, so the second trip of each line is spared;
 * but some processors copy faster by other instructions, and no copy within one process tells which do.
 *
 * So there is a ballot now and then: some messages are copied either way, in parts by turns, and what passes from one
 * to the next decides, the least of each way, since all else that passes is the program's. A way that is not faster is
 * never the rule.
 *
 * Pure: times are given.
 */
#ifndef THOLE_TRANSPORT_SHM_TAKES_H
#define THOLE_TRANSPORT_SHM_TAKES_H

#include <stdbool.h>
#include <stdint.h>

enum {
	TAKES_SOON = 64,      /* messages between two ballots, of the first */
	TAKES_BALLOTS = 6,    /* so many, */
	TAKES_REST = 16384,   /* and from then on */
	TAKES_PARTS = 8,      /* of a ballot, by turns without and with it, */
	TAKES_PART = 16,      /* each of so many messages, */
	TAKES_SKIP = 2,       /* the first of which find lines as the other way left them */
	TAKES_GAIN = 32,      /* a vote for it: faster by more than one part in so many */
	TAKES_VOTES = 2,      /* from which on it is the rule, */
	TAKES_VOTES_MAX = 4,
};

struct takes {
	bool now;            /* the next ones are copied so, */
	uint8_t votes;       /* since so many of the last ballots were for it; in a ballot, by turns */
	uint8_t ballots;     /* up to TAKES_BALLOTS */
	uint8_t part;        /* of the ballot that is under way, from 1 on; 0: there is none */
	uint32_t left;       /* messages of the part, or before the next ballot */
	uint64_t last_ns;    /* when the last one of a ballot came */
	uint64_t least_ns[2]; /* between two, without it and with it */
};

/* A message has come that can be copied so. Whether takes_time follows, before it is copied. */
static inline bool takes_times(struct takes *takes)
{
	if (takes->part > 0 || takes->left == 0)
		return true;
	takes->left--;
	return false;
}

static inline void takes_end(struct takes *takes)
{
	bool faster = takes->least_ns[true] + takes->least_ns[false] / TAKES_GAIN < takes->least_ns[false];

	if (faster && takes->votes < TAKES_VOTES_MAX)
		takes->votes++;
	else if (!faster && takes->votes > 0)
		takes->votes--;
	if (takes->ballots < TAKES_BALLOTS)
		takes->ballots++;
	takes->now = takes->votes >= TAKES_VOTES;
	takes->part = 0;
	takes->left = takes->ballots < TAKES_BALLOTS ? TAKES_SOON : TAKES_REST;
}

static inline void takes_time(struct takes *takes, uint64_t now_ns)
{
	uint64_t took_ns = now_ns - takes->last_ns;

	takes->last_ns = now_ns;
	if (takes->part == 0) {
		takes->part = 1;
		takes->left = TAKES_PART;
		takes->now = false;
		takes->least_ns[false] = takes->least_ns[true] = UINT64_MAX / 2;
		return;
	}
	if (takes->left <= TAKES_PART - TAKES_SKIP && took_ns < takes->least_ns[takes->now])
		takes->least_ns[takes->now] = took_ns;
	if (--takes->left > 0)
		return;
	if (takes->part == TAKES_PARTS) {
		takes_end(takes);
		return;
	}
	takes->part++;
	takes->left = TAKES_PART;
	takes->now = !takes->now;
}

#endif
