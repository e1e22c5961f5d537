/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handshake: how a connection begins, and how its peer says that it ends. See handshake.c.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_HANDSHAKE_H
#define THOLE_TRANSPORT_DATAGRAM_HANDSHAKE_H

#include "transport/datagram/engine.h"

enum handshake_limits {
	/* first repetition of a CONNECT; then twice as long each time, up to RESEND_MAX_NS */
	CONNECT_RETRY_NS = 20000000,
	/* a CLOSE waits for so many looks for records that it overtook on this host; nobody sends them again */
	CLOSE_LOOKS = 100,
	CLOSE_PROBE_NS = 1000000,      /* between two looks whether they are here */
	/* CONNECTs until who is refused for what may pass believes it: memory comes, addresses and routes settle */
	CONNECT_BELIEVED = 8,
};

struct handshake {
	uint64_t connect_ns;        /* when CONNECT is sent again that has not been answered; 0: it is not */
	uint32_t closing;           /* the peer's CLOSE: sequence behind its last frame */
	uint8_t attempt;            /* CONNECTs sent that began it, saturating */
	uint8_t closing_looks;      /* whether all before the peer's CLOSE is here, from 1 on; 0: there was none */
	bool answered : 1;          /* an ACCEPT has come */
	bool connected : 1;         /* the layers above were told that the peer is there, or (mxoe) has taken our key */
	bool wanted : 1;            /* this side asked for it */
	bool foreign : 1;           /* from where the peer is a frame of another version has come */
};

/* Errors: MEMORY, ADDRESS. */
int handshake_connect(struct engine *engine, struct transport_peer *peer);
/* Whether frames flow, and (mxoe) the peer has taken our key. */
bool handshake_connected(const struct transport_peer *peer);
/* The number that the peer's next record has, as it is on the wire. */
uint32_t handshake_next(const struct connection *connection);
/* Send the next CONNECT of a connection that has not been answered. */
void handshake_ask(struct connection *connection);
/* Send one by a further link: padded, as the try of this number is, or as short as it is. */
void handshake_probe(struct connection *connection, unsigned link, bool padded, unsigned tries);
void handshake_connect_arrived(struct engine *engine, struct link *link, const struct path *from,
			       const struct packet *packet, size_t length);
void handshake_accept_arrived(struct engine *engine, struct link *link, const struct path *from,
			      const struct packet *packet);
/* A frame of another version, of which nothing but the packet's type is understood. */
void handshake_foreign(struct engine *engine, const struct link *link, const struct path *from,
		       const struct packet *packet, size_t length);
/* Whether frames of another version are all that has come from a peer that this side asks for. */
bool handshake_is_foreign(const struct connection *connection);
/* A frame with our session: whether there is a peer to have sent it. The first one opens a connection that the peer
 * asked for. */
bool handshake_proven(struct connection *connection);
void handshake_close_arrived(struct connection *connection, const struct packet *packet);
/* What is due while a CLOSE waits (handshake.closing_looks); when something is next, UINT64_MAX: never. */
uint64_t handshake_expire_close(struct connection *connection);
/* The endpoint closes: say so to all peers. */
void handshake_close(struct engine *engine);

#endif
