/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handover: which windows and fetches of a connection a mover has. See handover.c.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_HANDOVER_H
#define THOLE_TRANSPORT_DATAGRAM_HANDOVER_H

#include "transport/datagram/engine.h"
#include "transport/datagram/mover.h"

enum handover_limits {
	HANDOVER_LOOK_NS = 50000000,    /* between two looks at whether handed over fetches get on */
	HANDOVER_STALL_NS = 1000000000, /* without a frame they are taken back */
	HANDOVER_AGAIN_NS = 1000000000, /* and nothing is handed over for so long; then twice as long */
	HANDOVER_AGAIN_MAX = 6,         /* times that this doubles */
	/* PULLs in so long that ask for nothing new: the mover does not serve that window */
	HANDOVER_REPEATS = 4,
	HANDOVER_REPEATS_NS = 1000000000,
};

struct connection;
struct engine;
struct fetch;
struct packet;
struct record;

/* A window that was, or is to be, handed over. */
struct handover_window {
	struct list_node node;          /* handover->offers, or engine->offers until it is */
	struct connection *connection;
	uint64_t window;                /* the request's id, */
	uint64_t name;                  /* and what PULLs call it */
	uint64_t asked;                 /* bytes from the front that were asked for */
	uint64_t asked_ns;              /* when that became more, */
	uint32_t repeats;               /* and PULLs since then that ask once more */
};

/* What a mover has of a connection. */
struct handover {
	struct list_node offers;        /* struct handover_window */
	struct list_node moved;         /* struct fetch, by blocks.node */
	struct mover *mover;            /* NULL: it does not know this connection */
	struct mover_way *way;
	uint64_t heard;                 /* way->heard at the last look, */
	uint64_t heard_ns;              /* and when it changed, or something was added to nothing */
	uint64_t again_ns;              /* nothing is handed over before */
	uint32_t id;                    /* the mover's */
	uint16_t frame_max;             /* that the mover was told of */
	uint8_t link;
	uint8_t stalls;                 /* in a row */
};

void handover_init(struct engine *engine);
void handover_fini(struct engine *engine);
/* Whether there is a mover that windows and fetches may be handed over to. */
bool handover_moves(const struct engine *engine);
/* A connection is open: a mover that answers for the endpoint is to know it. */
void handover_opened(struct connection *connection);
/* A record goes out that tells the peer of a window: the window is offered to a mover when frames have been sent. */
void handover_note(struct connection *connection, const struct record *record);
/* Offer what was noted. */
void handover_offer(struct engine *engine);
/* The peer needs a window no longer. */
void handover_withdraw(struct connection *connection, uint64_t window);
/* Whether a mover answers a PULL that has come. */
bool handover_serves(struct connection *connection, const struct packet *pull);
/* Begin a fetch by a mover. False: it is the engine's. */
bool handover_fetch(struct fetch *fetch);
/* It ends, other than by its mover's word. */
void handover_cancel(struct fetch *fetch);
/* What the mover's PULLs are to say of the peer's records. */
void handover_report(struct connection *connection, const struct packet *packet);
/* The ways to the peer have changed. */
void handover_reroute(struct connection *connection);
/* All of a connection goes back to the engine, which goes on with it; or the connection ends. */
void handover_back(struct connection *connection);
void handover_end(struct connection *connection);
/* Report what movers have done. */
unsigned handover_poll(struct engine *engine);
/* Look whether what was handed over gets on; when to look next. */
uint64_t handover_expire(struct connection *connection);

#endif
