/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * contention: whether others want the core of a caller who waits by polling, so that it had better sleep. Pure: times
 * and what the kernel says of the thread are given.
 *
 * To wait by polling, and by yielding now and then, is best among ranks that all wait. Beside a process that computes,
 * whoever yields is back only after a slice of the scheduler's, some milliseconds later, and so is one that has used
 * up its own; one that sleeps is let in as soon as it is woken. So a caller who polls sleeps, for a number of times,
 * after it has lost its core. When they are used up it polls again. If the core is soon lost once more, that was too
 * early, and it sleeps for twice as many times. A loss after which, and before which, much came is no reason: ranks
 * that share cores and answer each other for a whole slice, then let others have theirs, do well. So a loss costs about
 * as much as the sleeps that it has bought. Those that are not taken in a second are forgotten: to whom all comes at
 * once a loss long ago says nothing, and each of his polls in vain would read the clock for it.
 *
 * A loss while nobody but this job's wants a core of this machine is one to peers, which copy long messages, or wait as
 * well: to whom sleeping gives nothing, since they are done sooner than one that sleeps is back. It changes nothing.
 *
 * Among ranks that all wait, one that has waited for long gives way, too: what it waits for takes long, and each of its
 * looks takes a turn from those that it waits for. It sleeps until something comes.
 *
 * Not all who poll at once again wait. One may look twice between two tasks (MUMPS does), and each sleep keeps it from
 * the next; one may hold a lock of the program's while it polls (StarPU's thread does), and other threads get it
 * between two polls alone. The former goes on to compute after a sleep in vain, and of the latter's process others run
 * between the ends of such sleeps, if only to find the lock taken. Then it has no sleeps for a second.
 *
 * A caller that sleeps by itself between two polls is told from one that waits by how often it leaves its core. The
 * sleeps that it takes here are not counted: while there are any nothing is judged, and counting begins after the last.
 */
#ifndef THOLE_ENDPOINT_CONTENTION_H
#define THOLE_ENDPOINT_CONTENTION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	CONTENTION_ABSENCE_NS = 1000000, /* between two idle polls: worth asking the kernel why */
	CONTENTION_WAITING_NS = 20000,   /* a caller that has run for longer between two polls computes */
	CONTENTION_SPIN_NS = 5000,       /* before a sleep: who answers may be running */
	CONTENTION_SLEEP_NS = 4000000,   /* a sleep at most: the caller may have other things to poll, */
	CONTENTION_SLEEP_BESIDE_NS = 200000, /* and has, where its process uses other endpoints, too */
	CONTENTION_MANY = 128,           /* polls with success since the last loss: sleeping would cost them more */
	CONTENTION_FREE = 4,             /* losses that buy nothing: a start of many ranks is full of them */
	CONTENTION_SLEEPS_MIN = 8,       /* that the next one is worth, */
	CONTENTION_SLEEPS_MAX = 4096,    /* and those after it: some 100 ms */
	CONTENTION_AGE_NS = 1000000000,  /* after a loss its sleeps are forgotten */
	CONTENTION_LONG_NS = 500000,     /* of waiting, compared with what a sleeper takes to be back */
	CONTENTION_DENIED_NS = 1000000000, /* who should not have slept has no sleeps for so long */
	CONTENTION_OTHERS = 3, /* sleeps in vain, one after the other: a thread of Thole's looks but once in 10 ms */
};

/* What the kernel says of a thread, */
struct contention_usage {
	uint64_t run_ns; /* it has run so long, */
	uint64_t taken;  /* lost its core so often though it had something to do, be it only yielding, */
	uint64_t left;   /* and left it so often, to sleep; */
	bool among_peers; /* and that all who want a core now may be it and its peers */
	pthread_t thread;
};

struct contention {
	uint64_t polled_ns; /* the last idle poll that read the clock */
	uint64_t asked_ns;  /* when the kernel was last asked (0: not yet), */
	struct contention_usage usage; /* and what it said */
	uint64_t lost_ns;   /* when sleeps were bought last */
	uint64_t told_ns;   /* when its caller was last answered here, */
	uint64_t ran_ns;    /* and what the thread had run when that was last told that there is nothing */
	uint32_t losses;    /* one after the other, without much between */
	uint32_t sleeps;    /* still to be taken, */
	bool until_found;   /* or rather as many as it takes until something is found */
	uint32_t bought;    /* by the last loss */
	uint32_t found;     /* the caller's polls that found something, then or after the last of the sleeps */
	uint32_t waits_found; /* its polls that had found something when it began to sleep until the next does, */
	uint32_t vain_found;  /* or when a sleep was in vain */
	bool vain;            /* one was, */
	uint8_t beside;       /* the last so many of them while other threads of the process ran, */
	uint64_t others;      /* who by the end of the last had lost or left their cores so often */
	uint64_t denied_ns;   /* no sleeps are bought before */
};

/* An idle poll read the clock: whether the time since the one before is a reason for contention_judge. */
static inline bool contention_absent(struct contention *contention, uint64_t now_ns)
{
	uint64_t away_ns = now_ns - contention->polled_ns;

	contention->polled_ns = now_ns;
	return away_ns >= CONTENTION_ABSENCE_NS;
}

/* Whether others took the core more often than the thread left it, and had most of the time since it was asked last. */
static inline bool contention_lost(const struct contention *contention, uint64_t now_ns,
				   const struct contention_usage *usage)
{
	return usage->taken - contention->usage.taken > usage->left - contention->usage.left &&
	       2 * (usage->run_ns - contention->usage.run_ns) < now_ns - contention->asked_ns;
}

/* Whether it is this one that the kernel was asked about last. What it says of two cannot be compared. */
static inline bool contention_knows(const struct contention *contention, const struct contention_usage *usage)
{
	return contention->asked_ns > 0 && pthread_equal(contention->usage.thread, usage->thread);
}

/* Whether contention_judge goes by usage->among_peers, which takes long to find out where there are many. */
static inline bool contention_asks(const struct contention *contention, uint64_t now_ns,
				   const struct contention_usage *usage)
{
	return contention->sleeps == 0 && contention_knows(contention, usage) &&
	       contention_lost(contention, now_ns, usage);
}

/* The thread was away. `found`: how many of its polls have found something, modulo 2^32. */
static inline void contention_judge(struct contention *contention, uint64_t now_ns,
				    const struct contention_usage *usage, uint32_t found)
{
	bool buys = now_ns >= contention->denied_ns && contention_asks(contention, now_ns, usage) &&
		    !usage->among_peers;

	contention->asked_ns = now_ns;
	contention->usage = *usage;
	if (!buys)
		return;
	if (found - contention->found >= CONTENTION_MANY)
		contention->losses = contention->bought = 0;
	else if (contention->losses < CONTENTION_FREE)
		contention->losses++;
	else if (contention->bought == 0)
		contention->bought = CONTENTION_SLEEPS_MIN;
	else if (contention->bought < CONTENTION_SLEEPS_MAX)
		contention->bought *= 2;
	contention->sleeps = contention->bought;
	contention->until_found = contention->vain = false; /* what the caller did since earlier ones says nothing */
	contention->lost_ns = now_ns;
	contention->found = found;
}

/* It has yielded to others of this job, having found nothing for so long. */
static inline void contention_yielded(struct contention *contention, uint64_t now_ns, uint64_t waited_ns,
				      uint32_t found)
{
	if (waited_ns >= CONTENTION_LONG_NS && contention->sleeps == 0 && now_ns >= contention->denied_ns) {
		contention->sleeps = 1;
		contention->until_found = true;
		contention->vain = false;
		contention->lost_ns = now_ns;
		contention->waits_found = found;
	}
}

/* Whether a caller that found nothing is to sleep rather than be told. */
static inline bool contention_sleeps(const struct contention *contention)
{
	return contention->sleeps > 0;
}

/* Whether those sleeps are too old, or were to last until something is found: then there are none any more, and
 * contention_awake follows. */
static inline bool contention_expires(struct contention *contention, uint64_t now_ns, uint32_t found)
{
	if (now_ns - contention->lost_ns < CONTENTION_AGE_NS &&
	    !(contention->until_found && found != contention->waits_found))
		return false;
	contention->sleeps = 0;
	return true;
}

/* Whether a caller is back so soon after an answer that it cannot have computed. Says so without the time that the
 * thread has run, which takes a system call; else contention_waits decides. */
static inline bool contention_is_back(const struct contention *contention, uint64_t now_ns)
{
	return now_ns - contention->told_ns < CONTENTION_WAITING_NS;
}

/* It has run so long, and is about to be told: whether it waits, having done nothing since it was told last. */
static inline bool contention_waits(const struct contention *contention, uint64_t run_ns)
{
	return run_ns - contention->ran_ns < CONTENTION_WAITING_NS;
}

/* It is about to sleep. Returns whether for the last time: then contention_awake follows. */
static inline bool contention_slept(struct contention *contention, uint32_t found)
{
	if (contention->until_found)
		return false;
	contention->found = found;
	return --contention->sleeps == 0;
}

static inline void contention_deny(struct contention *contention, uint64_t now_ns)
{
	contention->sleeps = 0;
	contention->vain = false;
	contention->beside = 0;
	contention->denied_ns = now_ns + CONTENTION_DENIED_NS;
}

/* A sleep found nothing, and the process's other threads have lost or left their cores so often. Returns whether they
 * may want what this one has: then it has no sleeps, and contention_awake follows. */
static inline bool contention_slept_in_vain(struct contention *contention, uint64_t now_ns, uint32_t found,
					    uint64_t others)
{
	bool again = contention->vain && contention->vain_found == found;

	contention->beside = again && contention->others != others ? contention->beside + 1 : 0;
	contention->vain = true;
	contention->vain_found = found;
	contention->others = others;
	if (contention->beside < CONTENTION_OTHERS)
		return false;
	contention_deny(contention, now_ns);
	return true;
}

/* It has computed since it was told that there is nothing. Returns whether a sleep kept it from that: then likewise. */
static inline bool contention_computed(struct contention *contention, uint64_t now_ns, uint32_t found)
{
	bool kept = contention->vain && contention->vain_found == found;

	contention->vain = false;
	if (kept)
		contention_deny(contention, now_ns);
	return kept;
}

/* The last of the sleeps is over, or too old. */
static inline void contention_awake(struct contention *contention, const struct contention_usage *usage)
{
	if (contention_knows(contention, usage))
		contention->usage.left = usage->left;
}

/* The caller gets an answer; if that is that there is nothing, contention_told follows. */
static inline void contention_answered(struct contention *contention, uint64_t now_ns)
{
	contention->told_ns = now_ns;
}

static inline void contention_told(struct contention *contention, uint64_t run_ns)
{
	contention->ran_ns = run_ns;
}

#endif
