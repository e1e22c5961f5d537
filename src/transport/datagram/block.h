/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * block: what of peers' windows was asked for and is not here: by block and by frame. The library's engine (pull.c) and
 * the driver in the kernel keep their books by this one file.
 *
 * Owns which frames are missing, how much may be asked of whom and what comes next, when something is late, and what is
 * asked for again. Does not own memory, frames, time, or how a PULL is sent: `struct block_calls` does that, once a
 * block or less. Nothing is called but from block_ask, block_received, block_welcome, block_expire and
 * block_fetch_end.
 *
 * A fetch's bytes are asked for from the front. A block is a range that was asked for and is not all here. Invariants:
 * the bytes of all blocks that are not late are blocks->outstanding, at most outstanding_max and one block for each
 * peer; blocks->list has them in the order in which their frames are expected. Pure; no thread safety.
 *
 * After Open-MX's pull (section 2.3 of its design paper), with a bitmap of the missing frames, time-outs from measured
 * trips, and one credit over all senders, so that many of them do not overrun one receiver.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_BLOCK_H
#define THOLE_TRANSPORT_DATAGRAM_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "transport/datagram/trip.h"

enum block_limits {
	BLOCK_FRAMES_MAX = 63,          /* one less than a burst, since a full one says not how much of it was taken */
	/* nobody is asked sooner whether a PULL was lost: there may only have been one poll of a link */
	PULL_PROBE_NS = 100000,
	PULL_MIN_NS = 2000000,          /* no block is late sooner: a sender may have lost its core for a while */
	/* by so many bytes a window gets narrower for each that is lost: least where a third is */
	PULL_LOSS = 2,
	PULL_SHARE = 4,                 /* the credit is asked for in parts of 1/4, to spare PULLs */
	/* bytes of credit where net_window says nothing, as more only leaves the caches: where long packets of it
	 * stay half of a core's second one, at least and at most so many */
	WINDOW_AUTO = 512 * 1024,
	WINDOW_MOST = 1024 * 1024,
	/* bytes of a packet that the kernel carries as one and cuts into several later: at once, if with the heads of
	 * IPv6, UDP and Ethernet (with a VLAN's) it has 64 KiB or more */
	BATCH_MAX = 65535 - 40 - 8 - 18,
	RESEND_BURST = 16,              /* blocks that one time-out asks for again */
};

struct block_fetch;
struct block_peer;
struct blocks;
struct codec;

/* What a codec has to say (codec.h). */
struct block_rules {
	uint32_t frames_max;            /* of a block */
	uint32_t blocks_max;            /* outstanding for one fetch */
	uint32_t pull_blocks;           /* that one PULL asks for, at most */
	uint32_t data;                  /* bytes of payload of a frame, which end where pages do; 0: as many as fit */
	uint64_t pull_ns;               /* fixed interval after which it is asked again; 0: measured trips */
	bool selective;                 /* single frames can be asked for */
};

struct block {
	struct list_node node;          /* blocks->list */
	struct list_node peer_node;     /* peer->blocks */
	struct block_fetch *fetch;
	uint64_t offset;
	uint64_t missing;               /* bit i: frame i is not here */
	uint64_t asked_ns;
	uint32_t length;
	uint32_t skew;                  /* bytes by which the first frame is shorter than others */
	uint32_t order;                 /* counts the PULLs of this peer */
	uint8_t tries;
	bool late;                      /* it timed out: not in blocks->outstanding any more */
	bool refused;                   /* since it was asked for, frames came that could not be taken: the owner's */
};

struct block_fetch {
	struct list_node node;          /* peer->fetches, or ->asked; alone: it has ended */
	struct block_peer *peer;
	uint64_t length;
	uint64_t asked, received;       /* bytes; asked: all before were asked for at least once */
	uint64_t place;                 /* with rules->data: where its first byte is in a page */
	uint32_t frame;                 /* bytes of payload a frame, */
	uint32_t head;                  /* and of its head */
	uint32_t blocks;                /* that are not all here */
};

/* What is asked of one peer. */
struct block_peer {
	struct blocks *all;
	struct list_node node;          /* all->fetching */
	struct list_node fetches;       /* struct block_fetch, oldest first: with bytes not yet asked for */
	struct list_node asked;         /* struct block_fetch: all asked for */
	struct list_node blocks;        /* struct block, in the order they were asked for */
	uint64_t outstanding;           /* bytes asked for and not here */
	uint64_t window;                /* bytes that may be */
	/* from a PULL to its block's end; the least is to the first frame that answers it */
	struct trip trip;
	uint64_t timeout_ns;            /* when nothing has come for too long; 0: no block is out */
	uint32_t order;                 /* blocks asked for so far */
	uint16_t seed;                  /* by which its time-outs differ from others' */
	uint8_t backoff;
};

/* What a PULL asks for. */
struct block_pull {
	uint64_t offset;
	uint64_t wanted;                /* bit i: frame i of the block; 0: all */
	uint32_t length;
	uint8_t tries;                  /* how often it was asked for before */
};

struct block_calls {
	/* Memory for a block; NULL: not now. */
	struct block *(*get)(struct block_peer *peer);
	void (*put)(struct block_peer *peer, struct block *block);
	/* Send a PULL; it may be lost. */
	void (*pull)(struct block_fetch *fetch, const struct block_pull *pull);
};

/* What is asked of all peers. */
struct blocks {
	struct block_rules rules;
	const struct block_calls *calls;
	struct list_node list;          /* struct block, in the order in which they were asked for */
	struct list_node fetching;      /* struct block_peer that are to be asked, in turn */
	uint64_t outstanding;           /* bytes asked for and not here */
	uint64_t outstanding_max;       /* credit over all peers; the owner may change it at any time */
	uint64_t version;               /* counts changes of what is missing; never 0 */
};

enum block_verdict {
	BLOCK_FINE,
	BLOCK_DUPLICATE,                /* it is here already */
	BLOCK_MALFORMED,                /* nobody asked for such a frame */
};

struct block_rules block_rules(const struct codec *codec);

void block_init(struct blocks *blocks, const struct block_rules *rules, const struct block_calls *calls);

/* A peer of whom nothing is asked yet. */
void block_peer_init(struct block_peer *peer, struct blocks *blocks, uint64_t seed);

/* Begin to fetch: length, frame, head and place are filled in. Nothing is asked for before block_ask. */
void block_fetch_begin(struct block_fetch *fetch, struct block_peer *peer);
/* It ends, whole or not: its blocks are put back. */
void block_fetch_end(struct block_fetch *fetch);

/* Ask for what there is credit for, of each peer in turn. A peer's timeout_ns begins before its first PULL is sent. */
void block_ask(struct blocks *blocks, uint64_t now_ns);

/* Which missing frame of which block the bytes of a frame of DATA are; NULL: of none, and why. */
struct block *block_find(const struct block_fetch *fetch, uint64_t offset, uint32_t length, uint32_t *index_p,
			 enum block_verdict *verdict_p);

/* So many frames that were missing, from this one on, are in their places. What they show to be lost is asked for
 * again. Returns whether the fetch has all now; it is not ended. The block may be gone. The peer's timeout_ns changes.
 * away: when nobody looked for them; NULL: they are seen as they come. */
bool block_received(struct block *block, uint32_t index, uint32_t count, const struct trip_away *away, uint64_t now_ns);

/* Frames that were refused can be taken now: where a time-out is long, their blocks are asked for again at once. */
void block_welcome(struct block_fetch *fetch, uint64_t now_ns);

/* Nothing has come by timeout_ns: ask again. timeout_ns is set anew, 0: nothing is out. */
void block_expire(struct block_peer *peer, uint64_t now_ns);

/* Bytes of a block of frames with such heads: they go out as one packet of the kernel's, which is cut into frames
 * late. */
uint32_t block_bytes(const struct block_rules *rules, uint32_t frame, uint32_t head);

/* Where a frame of a block is in its fetch, and its bytes. */
static inline uint64_t block_frame(const struct block *block, uint32_t index, uint32_t *length_p)
{
	uint32_t frame = block->fetch->frame, from = index ? index * frame - block->skew : 0;
	uint32_t to = (index + 1) * frame - block->skew;

	*length_p = (to < block->length ? to : block->length) - from;
	return block->offset + from;
}

/* Bits of all frames. */
static inline uint64_t block_mask(uint32_t frames)
{
	return frames >= 64 ? UINT64_MAX : (UINT64_C(1) << frames) - 1;
}

#endif
