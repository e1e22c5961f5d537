/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pull: bulk in: blocks of windows asked for, and again. See pull.c.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_PULL_H
#define THOLE_TRANSPORT_DATAGRAM_PULL_H

#include "transport/datagram/block.h"
#include "transport/datagram/engine.h"

enum pull_limits {
	TRANSFER_BITS = 20,             /* of a transfer's id are the pool's index; above them is a generation, */
	/* of so many that none comes again while a session lasts */
	GENERATION_BITS = PACKET_TRANSFER_BITS - TRANSFER_BITS,
	/* time-outs in a row without DATA of a peer that says other things, before it is asked for by another link: or
	 * two, if they take a quarter of peer_timeout */
	LINK_STARVED = 8,
};

struct fetch {
	struct block_fetch blocks;
	struct transport_fetch *job;
	struct connection *connection;
	uint64_t generation;            /* never 0 */
	bool moved;                     /* a mover has it (handover.c) */
};

/* What is asked of one peer. */
struct pull {
	struct block_peer peer;
	uint64_t late_ns;           /* when the last time-out was */
	uint64_t fed_ns;            /* when DATA last came that was asked for */
	uint64_t starved_ns;        /* the time-out from which on silence.starved counts */
};

static inline struct fetch *pull_fetch_of(const struct block *block)
{
	return container_of(block->fetch, struct fetch, blocks);
}

void pull_init(struct engine *engine);
void pull_fini(struct engine *engine);
void pull_begin(struct connection *connection);
/* Its fetches fail. */
void pull_end(struct connection *connection);
/* transport.h */
void pull_fetch(struct engine *engine, struct transport_fetch *job);
/* Bytes that may be asked for and not here, of all peers: as things are now, and so known to blocks. */
uint64_t pull_credit(struct engine *engine);
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
/* NULL: there is none. */
struct fetch *pull_by_id(struct engine *engine, uint64_t id);
/* What a mover had is here; is to be fetched as if it had not been begun; has ended with its connection. */
void pull_moved(struct fetch *fetch);
void pull_anew(struct fetch *fetch);
/* The peer sends shorter frames now: what is under way is asked for anew, by such. */
void pull_narrow(struct connection *connection);
void pull_lost(struct fetch *fetch);
/* So many frames of a block, from this one on, are in their places. */
void pull_received(struct block *block, uint32_t index, uint32_t count);
/* Bytes of a block. */
uint32_t pull_block_bytes(const struct connection *connection, uint32_t frame);

#endif
