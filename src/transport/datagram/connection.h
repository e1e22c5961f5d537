/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connection: what there is of one peer. Each part of a connection is of the file whose name its structure has.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_CONNECTION_H
#define THOLE_TRANSPORT_DATAGRAM_CONNECTION_H

#include "transport/datagram/arrival.h"
#include "transport/datagram/handover.h"
#include "transport/datagram/handshake.h"
#include "transport/datagram/naming.h"
#include "transport/datagram/pull.h"
#include "transport/datagram/route.h"
#include "transport/datagram/serve.h"
#include "transport/datagram/transmit.h"
#include "transport/datagram/silence.h"

enum connection_state {
	CONNECTION_NEW,        /* known, not asked for */
	CONNECTION_CONNECTING, /* CONNECT was sent */
	CONNECTION_OPEN,
	CONNECTION_DEAD,       /* the peer is lost; frames to it are answered with a NACK */
};

struct connection {
	struct engine *engine;
	struct transport_peer *peer;
	struct heap_node timer;
	struct list_node dirty_node;
	struct guard *guard;        /* NULL: frames have no tags, or the peer is not known yet */
	uint64_t session;           /* ours: what frames to us carry */
	uint64_t peer_session;      /* the peer's; 0: not known yet */
	uint32_t index;             /* ours: `to` in frames to us */
	uint32_t peer_index;        /* `to` in frames to it: its connection; mxoe: its endpoint's number */
	uint8_t state;              /* enum connection_state */
	bool patient;               /* dirty_node is in the engine's list of that name */
	struct routes routes;
	struct handshake handshake;
	struct names names;
	uint32_t serves;            /* serve.c's: how many wait; here, where there is a gap */
	struct transmit out;
	struct arrival in;
	struct pull pull;
	struct serving serving;
	struct handover *handover;  /* NULL: nothing was handed over */
	struct silence silence;
	struct route route[];       /* by link, for as many as the engine has */
};

static inline struct connection *connection_of(const struct transport_peer *peer)
{
	return peer->link;
}

/* Whether a peer is one that may have a connection: also those that adapters for remote DMA serve beside it. */
static inline bool connection_may_be(const struct transport_peer *peer)
{
	return peer->transport == &datagram_transport || peer->transport->word;
}

/* Bytes of a RECORD's head, at most. */
static inline uint32_t connection_record_head(const struct connection *connection)
{
	return connection->engine->codec->record_head + guard_bytes(connection->guard);
}

/* Bytes of DATA's head. */
static inline uint32_t connection_data_head(const struct connection *connection)
{
	return connection->engine->codec->data_head + guard_bytes(connection->guard);
}

/* Differently for each connection (trip_spread). */
static inline uint64_t connection_spread(const struct connection *connection, uint64_t ns, unsigned tries)
{
	return trip_spread(connection->session, ns, tries);
}

/* NULL: there is no memory for another one. */
struct connection *connection_get(struct engine *engine, struct transport_peer *peer);
struct connection *connection_by_index(struct engine *engine, uint32_t index, uint64_t session);
struct connection *connection_by_path(struct engine *engine, const struct link *link, const struct path *path);
struct connection *connection_next_by_path(struct connection *connection, const struct link *link,
					   const struct path *path);
/* The hash chain of the connections with such a path by a link. */
struct connection **connection_bucket(struct engine *engine, unsigned link, const struct path *path);
/* One that is in it is found by that path no more. */
void connection_hide(struct connection *connection, const struct link *link);
/* The peer is being connected to, or has connected; it is connected; it is lost. */
void connection_begin(struct connection *connection);
void connection_open(struct connection *connection);
void connection_lost(struct connection *connection, int status);
/* It is lost for a reason of which error_set has said a sentence. */
void connection_failed(struct connection *connection, int status);
/* transport.h */
void connection_disconnect(struct engine *engine, struct transport_peer *peer);

/* Ask for connection_expire at this time at the latest. */
void connection_wake(struct connection *connection, uint64_t when_ns);
/* Do what is due; when something is next, UINT64_MAX: never. The peer may be lost by it. */
uint64_t connection_expire(struct connection *connection);
/* It has something to be sent; something that may wait for the next poll, so that more goes with it. */
void connection_dirty(struct connection *connection);
void connection_patient(struct connection *connection);
/* Fill in who sends to whom. */
void connection_packet(const struct connection *connection, struct packet *packet, enum packet_type type);
/* Whether frames that name this connection are its peer's (guard_check). */
enum guard_verdict connection_judge(struct connection *connection, const struct guard_frame *frames, unsigned count);

#endif
