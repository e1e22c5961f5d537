/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * guard: what shows that a frame of an open connection is the peer's, unaltered, and new. Pure.
 *
 * Each frame has a counter, which never comes again in its direction, and a tag over both. Who knows neither the job
 * key nor the process can make none. Keys are worked out of the job key and of what both sides have said of themselves
 * when connecting, for each direction, and anew for every 2^32 frames; none is ever sent.
 *
 * A short tag is SipHash-2-4. It covers a frame of up to GUARD_WHOLE bytes that no bulk data is in, of a longer one
 * what its head is in: no more where that ends with the tag. A long one is a `struct mac` over all of it, for the mode
 * full, where what a short tag does not cover wholly needs one. Frames of one burst are handled together, since many
 * short tags are made in little more time than one.
 *
 * Invariants. A counter is used once. A frame is taken once, and none that is GUARD_WINDOW older than the newest.
 * Nothing a frame says is heeded before guard_check has found it fine.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_GUARD_H
#define THOLE_TRANSPORT_DATAGRAM_GUARD_H

#include "transport/datagram/link.h"
#include "transport/datagram/wire/codec.h"

enum guard_limits {
	GUARD_WINDOW =
		2048, /* frames behind the newest of its kind that are still taken: two links, and lanes, bring them in
				  another order */
	GUARD_WHOLE = 256,     /* bytes of a frame that a short tag covers wholly, */
	GUARD_HEAD = 96,       /* and of a longer one that begins a record: its head and its tag are in them */
	GUARD_EPOCH_BITS = 32, /* so many frames have one key */
	GUARD_PARTS = 12,      /* segments of a frame */
	GUARD_KEY = 16,        /* bytes of the key of a long tag */
};

enum guard_mode { /* the numbers are on the wire; of both sides' the greater one counts */
	GUARD_OFF,
	GUARD_HEADS,
	GUARD_FULL,
	GUARD_MODES
};

/* A way to make long tags; of a library that need not be there. */
struct mac {
	/* NULL: no memory. */
	void *(*open)(const uint8_t key[GUARD_KEY]);
	void (*close)(void *context);
	/* Over the parts, with a number that never comes again for this key. False: it failed. */
	bool (*tag)(void *context, uint64_t number, const struct iovec *parts, size_t count,
		    uint8_t tag[PACKET_TAG_LONG]);
};

/* What a side says of itself when connecting. */
struct guard_end {
	uint64_t host, endpoint, session;
};

/* One direction. */
struct guard_way {
	uint64_t secret[2]; /* keys come of it */
	uint64_t epoch;     /* that key and context are for */
	uint64_t key[2];    /* of short tags */
	void *context;      /* of long ones; NULL: none was needed yet */
};

/* Which counters were seen: bit i of a word is for the counters whose remainder it is. */
struct guard_window {
	uint64_t newest;
	uint64_t seen[GUARD_WINDOW / 64];
};

struct guard {
	const struct mac *mac;           /* NULL but in the mode full */
	struct guard_way out, in;
	uint64_t counter;                /* of the frame that was sent last */
	/* where it is instead, since somebody else sends frames, too: each adds, in one step, as many as it sends */
	uint64_t *shared;
	struct guard_window windows[2];  /* of DATA, which has a socket of its own, and of all else */
	uint8_t mode;                    /* enum guard_mode, never off */
};

enum guard_verdict { GUARD_FINE, GUARD_FORGED, GUARD_REPLAYED };

/* Between ourselves and a peer. mac: for the mode full. */
void guard_begin(struct guard *guard, enum guard_mode mode, uint64_t job_key, const struct guard_end *own,
		 const struct guard_end *peer, const struct mac *mac);
void guard_end(struct guard *guard);
/* Somebody else has frames of the peer, too, and the newest of those is of this epoch. */
void guard_follow(struct guard *guard, uint64_t epoch);
/* The epoch of the newest frame from the peer. */
static inline uint64_t guard_epoch(const struct guard *guard)
{
	return guard->in.epoch == UINT64_MAX ? 0 : guard->in.epoch;
}

/* Flags of a packet with at most `length` bytes of payload. */
unsigned guard_flags(const struct guard *guard, unsigned type, size_t length);
/* Bytes that heads get longer by, at most; guard may be NULL. */
unsigned guard_bytes(const struct guard *guard);

/* A frame that has come, in parts, of which the first has all of its head. */
struct guard_frame {
	uint64_t counter;
	const struct iovec *parts;
	uint32_t count;
	uint8_t type, flags;
	/* so many more like it, with the counters behind its own: each is as long as the first, but the last has `last`
	 * bytes. Of one part each, directly behind the one before; or, where tags are short, their first parts are
	 * `stride` bytes from each other, and have all that tags cover */
	uint16_t behind;
	uint32_t last, stride; /* stride 0: as long as the first */
};

/* What a packet says of the frame that it was in. */
static inline struct guard_frame guard_frame(const struct packet *packet, const struct iovec *parts, uint32_t count)
{
	return (struct guard_frame){packet->counter, parts, count, packet->type, packet->flags, 0, 0, 0};
}

/* Give frames that are sent now, in this order, counters and tags, in their heads. False: that failed for some, and
 * whoever gets them will drop them. */
bool guard_stamp(struct guard *guard, const struct codec *codec, const struct frame_out *frames, unsigned count);
/* What is to be thought of frames, no two with one counter: FINE if all are, else what one of them is. Nothing is
 * remembered of them. */
enum guard_verdict guard_check(struct guard *guard, const struct codec *codec, const struct guard_frame *frames,
			       unsigned count);
/* They were fine, and are never taken again. */
void guard_seen(struct guard *guard, const struct guard_frame *frames, unsigned count);

#endif
