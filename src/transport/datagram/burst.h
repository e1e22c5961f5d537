/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * burst: frames to be sent gather here, and go to one link at a time. Pure.
 *
 * A burst is sent off when it is full, when a frame for another link follows, and at the end of engine_transmit.
 * Invariant: whatever a frame of it refers to lives until then.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_BURST_H
#define THOLE_TRANSPORT_DATAGRAM_BURST_H

#include "transport/datagram/engine.h"

/* Heads of DATA and of pieces are mostly as long: frames begin so many bytes in front of a line, and are multiples of
 * lines where they are as long as an MTU of 1500 allows. */
enum { BURST_FRONT = 48 };

struct burst {
	struct frame_out frames[ENGINE_BURST];
	struct guard *guards[ENGINE_BURST];           /* that make the tags when it is sent; NULL: none */
	struct connection *connections[ENGINE_BURST];
	struct transmit_frame *transmit[ENGINE_BURST]; /* of a RECORD that was not sent before, else NULL */
	struct path paths[ENGINE_BURST];
	/* of frames that are made here, behind each other */
	_Alignas(64) uint8_t bytes[64 + ENGINE_BURST * ENGINE_FRAME_MAX];
	uint32_t used;                                /* of these, from the front */
	unsigned count;
	uint8_t link;
	/* a link had no room: nothing more is tried until the next transmit */
	bool full;
};

/* Errors: MEMORY. */
int burst_init(struct engine *engine);
void burst_fini(struct engine *engine);
/* Put a frame into the burst; true: it is in it, or its link has taken it. guard: makes its tag, or NULL. transmit: of
 * a RECORD frame of this connection, or NULL. */
bool burst_add(struct engine *engine, uint8_t link, const struct frame_out *frame, struct guard *guard,
	       struct connection *connection, struct transmit_frame *transmit);
/* Put a packet without payload into it, padded to `size` bytes if that is more. */
void burst_post(struct engine *engine, uint8_t link, const struct path *to, const struct packet *packet, uint32_t size);
/* burst_add for `count` frames of a connection that lie behind each other: all as long as the first, but for the last,
 * which has `last` bytes. False: there is no room now. */
bool burst_add_run(struct engine *engine, uint8_t link, const struct frame_out *first, uint32_t count, uint32_t last,
		   struct connection *connection, struct transmit_frame *transmit);
/* Send the burst off. Returns how many of its last `tail` frames were taken. */
unsigned burst_send(struct engine *engine, unsigned tail);
/* Memory for the next frame, at most ENGINE_FRAME_MAX bytes, which lasts until the burst is sent: behind the frame
 * before. */
uint8_t *burst_bytes(struct engine *engine, uint8_t link, uint32_t length);

#endif
