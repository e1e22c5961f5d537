/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * choose: which way a window takes, by what ways were seen to take, and what pipelines are to be like. Owns what was
 * measured; before there is something, the adapter's hints and a model count. Pure.
 *
 * Times are of the side that fetches, from its being asked for to its last byte. The rates of copies are of both.
 *
 * A pipeline's first chunk is its sender's choice, by the trip that it sees from telling of a window to its being
 * pulled, and its growth, too, by the rates of copies and of the wire. The cap is the fetcher's, who sees what a
 * transfer takes: it tries those around the model's and stays with the best. Senders are told it with each pull.
 */
#ifndef THOLE_TRANSPORT_VERBS_CHOOSE_H
#define THOLE_TRANSPORT_VERBS_CHOOSE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/verbs/plan.h"

enum choose_way {
	CHOOSE_LEARN,      /* whichever is best */
	CHOOSE_READ,
	CHOOSE_PIPELINE,
	CHOOSE_WAYS
};

/* What a read finds registered. */
enum choose_case { CHOOSE_NONE, CHOOSE_BOTH, CHOOSE_CASES };

enum {
	CHOOSE_CLASSES = 48, /* of lengths, by powers of two */
	CHOOSE_SEEN = 512,   /* memory that is remembered as used */
	CHOOSE_CAPS = 9,     /* from a quarter of the model's to four times that */
};

struct choose_mean {
	uint64_t ns;         /* of the longest of a class */
	uint32_t samples;
};

struct choose {
	uint64_t trip_ns;    /* from a word to a peer to its answer */
	uint32_t trips;      /* that were seen */
	uint32_t hint_rate;  /* of the wire, as the adapter says, and as was seen; 0: nothing was */
	uint32_t seen_rate;  /* bytes in a microsecond */
	uint64_t chunk_ns;   /* what a chunk costs beside its bytes */
	uint64_t register_ns, register_mib_ns; /* what registering takes, and a MiB of it */
	uint32_t copy_rate[CHOOSE_CLASSES];    /* by the length of the whole; 0: not known */
	struct choose_mean read[CHOOSE_CASES][CHOOSE_CLASSES], pipeline[CHOOSE_CLASSES];
	uint32_t choices[CHOOSE_CLASSES];
	struct choose_mean caps[CHOOSE_CLASSES][CHOOSE_CAPS];
	uint32_t pulls[CHOOSE_CLASSES];
	uint32_t told_cap[CHOOSE_CLASSES]; /* by the last pull of a peer's; 0: there was none */
	/* registrations, and how often they were found again, lately */
	uint32_t entered, found;
	uint32_t unkept;     /* times that memory was seen again and not worth being kept */
	uint64_t seen[CHOOSE_SEEN]; /* hashes of address and length */
};

/* What the adapter says; 0: nothing. */
void choose_init(struct choose *choose, uint64_t latency_ns, uint32_t rate);
void choose_copied(struct choose *choose, uint64_t bytes, uint64_t whole, uint64_t ns);
void choose_registered(struct choose *choose, uint64_t bytes, uint64_t ns);
/* A window was pulled so long after it was told of. busy: the pull waited for this process, or may have. */
void choose_trip(struct choose *choose, uint64_t ns, bool busy);
/* So many bytes have come in so long, at least. */
void choose_carried(struct choose *choose, uint64_t bytes, uint64_t ns);
/* Bytes in a microsecond, of the wire. */
uint32_t choose_rate(const struct choose *choose);
/* Which way now. can_read: it can be had so; found: and nothing needs to be registered for it. */
enum choose_way choose_way(struct choose *choose, uint64_t length, bool can_read, bool found);
void choose_measured(struct choose *choose, enum choose_way way, bool found, uint64_t length, uint64_t ns);
/* Whether this memory, which is not registered, is to be kept so: it is used again, and that pays. */
bool choose_keep(struct choose *choose, uint64_t address, uint64_t length);
/* What a sender says of a window, with the cap that it was told, or by the model. */
void choose_plan(const struct choose *choose, uint64_t length, bool flags, uint32_t longest, struct plan *plan_p);
/* What its fetcher makes of it: another cap, whose number, for choose_cap_measured, is returned. */
uint32_t choose_cap(struct choose *choose, uint64_t length, uint32_t longest, struct plan *plan);
void choose_cap_measured(struct choose *choose, uint64_t length, uint32_t cap, uint64_t ns);
void choose_cap_told(struct choose *choose, uint64_t length, uint32_t cap);

#endif
