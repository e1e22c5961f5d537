/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * passage: by which lines the payloads of a stream pass from the sender's core to the reader's. Pure: times are given.
 *
 * Which way is fastest is a matter of the processor, of whether the two cores share a cache, and of how long payloads
 * are; no flag tells, and it changes with the cores that the two run on. The copy itself takes the sender nearly as
 * long by each, as stores wait behind it, and while the ring has room the sender does not notice what its reader waits
 * for. So what is timed is PASSAGE_STRETCH payloads, more than a ring has slots, by one way after the other, with all
 * that comes between. The fastest is kept until the next round, which is after twice as many payloads as long as
 * nothing changes.
 */
#ifndef THOLE_TRANSPORT_SHM_PASSAGE_H
#define THOLE_TRANSPORT_SHM_PASSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/record.h"

enum {
	PASSAGE_STRETCH = 256,        /* payloads that are timed together */
	PASSAGE_SAMPLES = 5,          /* stretches of a way, of which the second fastest counts */
	PASSAGE_SETTLE = 64,          /* payloads by another way until its times count */
	PASSAGE_FIRST = 512,          /* payloads before the first round, */
	PASSAGE_REST_MIN = 1 << 14,   /* and between two: at first, */
	PASSAGE_REST_MAX = 1 << 19,   /* and at last */
	PASSAGE_WALKS_TRIES = 4,      /* times that walking is sampled until it is better: it becomes so suddenly */
	PASSAGE_BETTER = 16,          /* a way is better by a part of so many */
	PASSAGE_PAST_PS = 4000,       /* what a line takes where the way past the caches is worth a try, */
	PASSAGE_PAST_MAX = 16 * 1024, /* for messages of at most so many bytes */
	PASSAGE_ONCE_MAX = 8 * 1024,  /* and for these reading once */
	PASSAGE_CLASSES = 5,          /* of messages: up to 2, 4, 8 and 16 KiB, and longer ones */
	PASSAGE_CLASS_MIN = 11,       /* length_class of the first */
};

/* In the order in which they are tried, what costs least first. */
enum passage_way {
	/* through lines that the reader had last: soonest on some processors, on others waited for */
	PASSAGE_STAYS,
	PASSAGE_PAST, /* past the caches, to memory, from where the reader fetches many at a time */
	/* on through a longer area, by lines that have been out of both cores' caches for a while */
	PASSAGE_WALKS,
	PASSAGE_WALKS_ONCE, /* and that the reader's cache does not keep; tried if walking is better */
	PASSAGE_WAYS,
};

/* Of a class of messages; all zero: before the first payload. */
struct passage {
	enum passage_way way;  /* of the next payload, */
	enum passage_way best; /* and of those after the last round */
	bool looks;            /* a round is under way, */
	bool timing;           /* and a stretch, since start_ns */
	uint32_t left;         /* payloads until the next note */
	uint64_t start_ns;
	uint64_t bytes;        /* of the stretch */
	uint32_t tries;        /* of this way, */
	uint32_t count;        /* and samples of this try */
	uint32_t samples[PASSAGE_SAMPLES];
	uint32_t line_ps[PASSAGE_WAYS]; /* as long as a line took this round; 0: not known */
	uint32_t rest;         /* payloads after the last round; 0: there was none */
};

static inline uint32_t passage_class(uint64_t length)
{
	uint32_t class = length_class(length);

	if (class <= PASSAGE_CLASS_MIN)
		return 0;
	return class < PASSAGE_CLASS_MIN + PASSAGE_CLASSES ? class - PASSAGE_CLASS_MIN : PASSAGE_CLASSES - 1;
}

/* Whether it goes through the longer area. */
static inline bool passage_walks(enum passage_way way)
{
	return way >= PASSAGE_WALKS;
}

/* A payload goes. Whether a note is due before it. */
static inline bool passage_is_due(struct passage *passage, uint32_t bytes)
{
	if (__builtin_expect(passage->left > 1, 1)) {
		passage->left--;
		passage->bytes += bytes;
		return false;
	}
	return true;
}

/* A payload of so many bytes goes by passage->way. Returns whether the next one goes by another, which is one of `ways`
 * (a bit each). */
bool passage_note(struct passage *passage, uint64_t now_ns, uint32_t bytes, uint32_t ways);

/* passage->way is tried, which needs so many payloads until lines are where they will be. */
void passage_settle(struct passage *passage, uint32_t payloads);

/* What passage->way needs is not to be had. */
void passage_refuse(struct passage *passage);

#endif
