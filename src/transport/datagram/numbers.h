/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * numbers: what is different where endpoints are named by MAC and number, as MX names them. See numbers.c.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_NUMBERS_H
#define THOLE_TRANSPORT_DATAGRAM_NUMBERS_H

#include "transport/datagram/engine.h"

enum { HELLO_NS = 1000000000 }; /* between two words to all that we are here */

/* What mxoe knows of one peer. */
struct numbered {
	uint32_t key;               /* that the peer wants to hear */
	uint32_t former_session;    /* of the peer at the same place that we have given up; 0: none */
	uint16_t host_index;        /* that its host has given ours */
	uint8_t number;             /* of our endpoint */
	uint8_t wish;               /* which connect they are, as their answers repeat it */
};

int numbers_init(struct engine *engine);
void numbers_fini(struct engine *engine);
/* The first link is there: draw a session, and say that we are here. */
void numbers_start(struct engine *engine);
/* Our session. */
uint32_t numbers_session(const struct engine *engine);
/* The number of a new connect: a late answer to another one is not taken for its own. */
uint8_t numbers_wish(struct engine *engine);
/* A new connection: frames to one before it must not be taken for its own. */
void numbers_begin(struct connection *connection);
/* When to say so again. */
uint64_t numbers_deadline(const struct engine *engine);
void numbers_expire(struct engine *engine);
/* Ask a host for its name, and with that tell it how we number it. */
void numbers_query(struct engine *engine, uint8_t link, const struct path *to);
/* The connection, alive or else the latest, with an endpoint of a host. */
struct connection *numbers_find(struct engine *engine, const struct link *link, const struct path *from, uint32_t number);
/* The same, only while it lives and is the one that sends this CONNECT; NULL: there is none. */
struct connection *numbers_known(struct engine *engine, const struct link *link, const struct path *from,
				 const struct packet *packet);
/* The peer that a CONNECT is of, made if it is the first word of it; who was there before it is lost. */
struct peer *numbers_peer(struct engine *engine, const struct link *link, const struct path *from,
			  const struct packet *packet);
/* Who sends a CONNECT or ACCEPT, who is meant, and in words of the codec. `asked`: what is answered, or NULL. */
void numbers_connect(struct engine *engine, struct packet *packet, const struct packet *asked);
/* Any frame. */
void numbers_frame(struct engine *engine, struct link *link, const struct path *from, struct packet *packet,
		   const uint8_t *frame, size_t length);
/* The request behind one of our windows, for whom it was opened; UINT64_MAX: it is not there. */
uint64_t numbers_request(const struct connection *connection, uint64_t window);
/* A window's short id for a request. False: none is free. */
bool numbers_window(struct connection *connection, uint64_t *id_p);
/* Nobody has heard of it. */
void numbers_window_back(struct connection *connection, uint64_t id);
/* Name a pull and its place as the codec does; `frame`: payload bytes of a frame. */
void numbers_pull(const struct engine *engine, struct packet_pull *pull, uint32_t frame);
/* Say that what a packet names is not there. */
void numbers_nack(struct engine *engine, const struct link *link, const struct path *to, const struct packet *refused,
		  enum nack_reason reason);
/* Have the peer's host say something. */
void numbers_ask(struct connection *connection);

#endif
