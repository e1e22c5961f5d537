/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * serve: bulk out: what peers have asked for. See serve.c.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_SERVE_H
#define THOLE_TRANSPORT_DATAGRAM_SERVE_H

#include "transport/datagram/engine.h"

enum serve_limits {
	SERVES_MAX = 256,     /* pulls of one peer that wait to be served; further ones are lost and asked for again */
	SERVE_TURN = 2,       /* blocks sent for one peer before others get a turn */
	SERVE_BURST = 8,      /* blocks sent before the next poll */
};

/* What one peer has asked for. */
struct serving {
	struct list_node node;      /* engine->serving */
	struct list_node serves;    /* struct serve */
};

void serve_init(struct engine *engine);
void serve_fini(struct engine *engine);
void serve_begin(struct connection *connection);
void serve_end(struct connection *connection);
void serve_pull_arrived(struct connection *connection, const struct packet *packet);
/* Send what was asked for. */
void serve_transmit(struct engine *engine);

#endif
