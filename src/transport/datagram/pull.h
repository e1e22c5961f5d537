/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pull: bulk in: blocks of windows asked for, and again. See pull.c.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_PULL_H
#define THOLE_TRANSPORT_DATAGRAM_PULL_H

#include "transport/datagram/engine.h"
#include "transport/datagram/trip.h"

enum pull_limits {
	TRANSFER_BITS = 20,             /* of a transfer's id are the pool's index; above them is a generation, */
	/* of so many that none comes again while a session lasts */
	GENERATION_BITS = PACKET_TRANSFER_BITS - TRANSFER_BITS,
	/* nobody is asked sooner whether a PULL was lost: there may only have been one poll of a link */
	PULL_PROBE_NS = 100000,
	PULL_MIN_NS = 2000000,          /* no block is late sooner: a sender may have lost its core for a while */
	/* by so many bytes a window gets narrower for each that is lost: least where a third is */
	PULL_LOSS = 2,
	PULL_SHARE = 4,                 /* the credit is asked for in parts of 1/4, to spare PULLs */
	WINDOW_AUTO = 512 * 1024,       /* bytes of credit where net_window says nothing: more only leaves the caches */
	BATCH_MAX = 65507,              /* bytes of a UDP packet, and of what the kernel cuts into several */
	RESEND_BURST = 16,              /* blocks that one time-out asks for again */
	/* time-outs in a row without DATA of a peer that says other things, before it is asked for by another link: or
	 * two, if they take a quarter of peer_timeout */
	LINK_STARVED = 8,
};

struct block {
	struct list_node node;          /* engine->blocks */
	struct list_node peer_node;     /* connection->pull.blocks */
	struct fetch *fetch;
	uint64_t offset;
	uint64_t missing;               /* bit i: frame i is not here */
	uint64_t asked_ns;
	uint32_t length;
	uint32_t skew;                  /* bytes by which the first frame is shorter than others */
	uint32_t order;                 /* counts the PULLs of this connection */
	uint8_t tries;
	bool late;                      /* it timed out: not in engine->outstanding any more */
};

struct fetch {
	struct list_node node;          /* connection->pull.fetches, or ->asked */
	struct transport_fetch *job;
	struct connection *connection;
	uint64_t length;
	uint64_t asked, received;       /* bytes; asked: all before were asked for at least once */
	uint64_t generation;            /* never 0 */
	uint32_t frame;                 /* bytes of payload a frame */
	uint32_t blocks;                /* that are not all here */
};

/* What is asked of one peer. */
struct pull {
	struct list_node node;      /* engine->fetching */
	struct list_node fetches;   /* struct fetch, oldest first: with bytes not yet asked for */
	struct list_node asked;     /* struct fetch: all asked for */
	struct list_node blocks;    /* struct block, in the order they were asked for */
	uint64_t outstanding;       /* bytes asked for and not here */
	uint64_t window;            /* bytes that may be */
	/* from a PULL to its block's end; the least is to the first frame that answers it */
	struct trip trip;
	uint64_t timeout_ns;        /* when nothing has come for too long; 0: no block is out */
	uint64_t late_ns;           /* when the last time-out was */
	uint64_t fed_ns;            /* when DATA last came that was asked for */
	uint64_t starved_ns;        /* the time-out from which on `starved` counts */
	uint32_t order;             /* blocks asked for so far */
	uint8_t backoff;
	uint8_t starved;            /* time-outs without DATA, though the peer says other things */
};

void pull_init(struct engine *engine);
void pull_fini(struct engine *engine);
void pull_begin(struct connection *connection);
/* Its fetches fail. */
void pull_end(struct connection *connection);
/* transport.h */
void pull_fetch(struct engine *engine, struct transport_fetch *job);
/* Ask for more where there is credit. */
void pull_ask(struct engine *engine);
void pull_data_arrived(struct connection *connection, const struct packet *packet);
/* The peer has no such window. */
void pull_nacked(struct connection *connection, uint64_t transfer);
/* Do what is due; when something is next, UINT64_MAX: never. */
uint64_t pull_expire(struct connection *connection);

/* What names a fetch in PULL and DATA. */
uint64_t pull_id(struct engine *engine, const struct fetch *fetch);
/* Whose fetch it is; NULL: there is none. */
struct connection *pull_connection(struct engine *engine, uint64_t id);
/* A frame of a block is in its place. */
void pull_received(struct block *block, uint32_t index);
/* Bytes of a block: its frames go out as one packet of the kernel's, which is cut into frames late. */
uint32_t pull_block_bytes(const struct connection *connection, uint32_t frame);

/* Bits of all frames. */
static inline uint64_t pull_mask(uint32_t frames)
{
	return frames >= 64 ? UINT64_MAX : (UINT64_C(1) << frames) - 1;
}

#endif
