/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * patience: whether a caller that polls in a loop of its own, and has found nothing, is to be told so, or whether to
 * poll again first. Pure: outcomes and times are given, the answer is a number of polls.
 *
 * Polling again pays only for a caller who waits and is away for long between two polls, as MPICH is, which yields:
 * what comes meanwhile lies there until it is back. One who is back at once sees it as soon by itself, and one who
 * computes wants its core. Who of these it is shows from how long it is away; whether it waits for what comes to us,
 * only from trying. So polls are paid for from an account. One with success pays in; when it is used up,
 * polls are answered at once, and now and then the time between two of them is taken: if it is of one who may wait,
 * that buys one more try. A poll that finds nothing reads no clock otherwise, and costs on average a small part of a
 * try.
 *
 * A time between two polls may be long by accident, and every success pays for the next try. So a caller with an
 * account is watched now and then: told that there is nothing, to see how long it is away. If it is back at once, the
 * account is closed.
 */
#ifndef THOLE_ENDPOINT_PATIENCE_H
#define THOLE_ENDPOINT_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

enum {
	PATIENCE_AWAY_CLOCKS = 3,   /* readings of the clock: one that is back sooner does nothing between two polls */
	PATIENCE_WAITING_NS = 5000, /* one that is back later computes */
	PATIENCE_GAIN = 64,         /* polls that a success pays in: about what one is worth, some hundred ns to 2 us */
	PATIENCE_MAX = 512,         /* polls in the account: those of some waits of 20 us */
	PATIENCE_REST_MIN = 32,     /* polls between two times that are taken: after a success, */
	PATIENCE_REST_MAX = 256,    /* and after many tries in vain: an average poll pays for the 256th part of one */
	PATIENCE_REST_BACK = 2048,  /* and after one was back at once */
	PATIENCE_TRUST_MIN = 2,     /* tries between two times that the caller is watched, at first, */
	PATIENCE_TRUST_MAX = 64,    /* and after it was away for long whenever it was watched */
};

struct patience {
	uint64_t clock_ns; /* what a reading of the clock takes; one is in each time between two polls */
	uint32_t account; /* polls that may be made */
	uint32_t rest;    /* polls that are still answered at once, where it is empty; then the time is taken, */
	uint32_t rests;   /* for so many after the next try in vain */
	uint32_t trust;   /* tries that are still made before the caller is watched, */
	uint32_t trusts;  /* and so many after it was found to be away */
	bool watched;     /* it was told only to see how long it is away */
	uint64_t told_ns; /* when the caller was last told that there is nothing; 0: that was not timed */
};

/* Whether this poll is answered at once, and the clock not read. Else: patience_polls. */
static inline bool patience_rests(struct patience *patience)
{
	if (__builtin_expect(patience->account > 0 || patience->rest == 0, 0))
		return false;
	patience->rest--;
	return true;
}

/* The next polls, at most so many, are answered at once, without asking: how many of them. Where the time is to be
 * taken but the caller did not wait for anything of ours, it may as well be taken after them. */
static inline uint32_t patience_rest(struct patience *patience, uint32_t polls)
{
	if (patience->account > 0)
		return 0;
	if (patience->rest == 0)
		return polls;
	if (polls > patience->rest)
		polls = patience->rest;
	patience->rest -= polls;
	return polls;
}

/* Whether one more of the tries that the account pays for may be made. If not, the caller is watched. */
static inline bool patience_trusts(struct patience *patience)
{
	if (patience->watched) { /* it was away, else there would be no account any more */
		patience->watched = false;
		patience->trusts = patience->trusts < PATIENCE_TRUST_MAX ? 2 * patience->trusts : PATIENCE_TRUST_MAX;
		patience->trust = patience->trusts;
	}
	patience->watched = patience->trust == 0;
	patience->trust -= patience->trust > 0;
	return !patience->watched;
}

/* How many polls to make now, at most `polls`; 0: tell the caller. Either way patience_told or patience_paid
 * follows. */
static inline uint32_t patience_polls(struct patience *patience, uint64_t now_ns, uint32_t polls)
{
	uint64_t away_ns = now_ns - patience->told_ns;
	bool back = away_ns < PATIENCE_AWAY_CLOCKS * patience->clock_ns;

	if (patience->told_ns == 0)
		return 0; /* this is the first of two polls that are timed */
	if (patience->account > 0 && !(back && patience->watched)) {
		if (away_ns >= PATIENCE_WAITING_NS || !patience_trusts(patience))
			return 0;
		return polls < patience->account ? polls : patience->account;
	}
	if (patience->account == 0 && !back && away_ns < PATIENCE_WAITING_NS)
		return polls;
	patience->account = 0;
	patience->watched = false;
	patience->rest = back ? PATIENCE_REST_BACK : PATIENCE_REST_MAX;
	patience->told_ns = 0;
	return 0;
}

/* So many polls were made, none or all in vain, and the caller is told now. */
static inline void patience_told(struct patience *patience, uint64_t now_ns, uint32_t polls)
{
	if (polls == 0) {
		patience->told_ns = patience->rest ? 0 : now_ns;
		return;
	}
	patience->account -= polls < patience->account ? polls : patience->account;
	patience->told_ns = patience->account ? now_ns : 0;
	if (patience->account)
		return;
	patience->rest = patience->rests ? patience->rests : PATIENCE_REST_MIN;
	patience->rests = patience->rest < PATIENCE_REST_MAX ? 2 * patience->rest : PATIENCE_REST_MAX;
}

/* Something came at one of them. */
static inline void patience_paid(struct patience *patience, uint64_t now_ns, uint32_t polls)
{
	uint32_t left = patience->account > polls ? patience->account - polls : 0;

	if (patience->account == 0) {
		patience->trusts = PATIENCE_TRUST_MIN;
		patience->trust = PATIENCE_TRUST_MIN;
	}
	patience->account = left + PATIENCE_GAIN < PATIENCE_MAX ? left + PATIENCE_GAIN : PATIENCE_MAX;
	patience->rest = 0;
	patience->rests = PATIENCE_REST_MIN;
	patience->told_ns = now_ns;
}

#endif
