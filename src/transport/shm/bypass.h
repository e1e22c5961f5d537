/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bypass: whether the payloads of a stream are written past the caches, to memory, from where the reader fetches them.
 * Pure: times are given.
 *
 * A line that is to be written comes from the reader's cache first, and goes back there. Between cores that share a
 * cache that is much faster than memory; between others memory may be, and the reader asks it for many lines ahead.
 * Which it is changes with the cores that the two run on. The copy itself takes the sender the same time either way, as
 * stores wait behind it. So what is timed is BYPASS_STRETCH messages in a row, and where a line of them takes long, as
 * many past the caches; these are kept if that is shorter by an eighth at least, until the next look.
 */
#ifndef THOLE_TRANSPORT_SHM_BYPASS_H
#define THOLE_TRANSPORT_SHM_BYPASS_H

#include <stdbool.h>
#include <stdint.h>

enum {
	BYPASS_MIN = 2 * 1024,       /* bytes of payloads that may go past: shorter ones lose by it, */
	BYPASS_MAX = 16 * 1024,      /* longer ones gain nothing */
	BYPASS_STRETCH = 16,         /* messages that are timed together */
	BYPASS_SAMPLES = 7,          /* stretches, of which the second fastest counts */
	BYPASS_SLOW_PS = 4000,       /* a line, with all that a message takes: worth a try */
	BYPASS_LOOK_AFTER = 1 << 13, /* messages past the caches until the other way is looked at again */
	BYPASS_REST_MIN = 1 << 12,   /* messages between two looks: at first, */
	BYPASS_REST_MAX = 1 << 20,   /* and at last */
};

enum bypass_state {
	BYPASS_LOOKS, /* times stretches through the caches, */
	BYPASS_TRIES, /* and past them */
	BYPASS_GOES,  /* past them */
};

/* All zero: before the first message. */
struct bypass {
	enum bypass_state state;
	bool timing;        /* a stretch began at start_ns, with the message of this turn */
	uint32_t left;      /* messages until the next note */
	uint32_t turn;
	uint32_t bytes;     /* of the stretch */
	uint32_t count;     /* of samples */
	uint32_t cached_ps; /* a line, through the caches */
	uint32_t rest;      /* messages after the last look in vain */
	uint64_t start_ns;
	uint32_t samples[BYPASS_SAMPLES];
};

/* A payload of a stream goes, of BYPASS_MIN to BYPASS_MAX bytes. Whether a note is due before it. */
static inline bool bypass_is_due(struct bypass *bypass, uint32_t bytes)
{
	if (__builtin_expect(bypass->left > 1, 1)) {
		bypass->left--;
		bypass->bytes += bytes;
		return false;
	}
	return true;
}

/* What is the time, and how many messages have gone in a row before this one, of so many bytes? */
void bypass_note(struct bypass *bypass, uint64_t now_ns, uint32_t turn, uint32_t bytes);

static inline bool bypass_goes(const struct bypass *bypass)
{
	return bypass->state != BYPASS_LOOKS;
}

#endif
