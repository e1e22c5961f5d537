/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transmit_frame: RECORD frames from push to acknowledgement, and the pools that they are of. Pure.
 *
 * The sender has one until it is acknowledged (transmit.c). A receiver has one of a frame that came ahead of a gap,
 * until those before it are here (arrival.c). Invariant: it is in one list, and that list's owner frees it.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_TRANSMIT_FRAME_H
#define THOLE_TRANSPORT_DATAGRAM_TRANSMIT_FRAME_H

#include "transport/datagram/engine.h"

struct transmit_frame {
	struct list_node node;
	uint64_t sent_ns;
	uint32_t sequence;
	uint16_t length;
	uint8_t fragment;
	uint8_t resends;       /* saturating */
	bool large;            /* which pool it is of */
	bool wide;             /* of a record of several frames, which goes by the link for bulk */
	bool held;             /* the receiver has it, but not those before it */
	bool out;              /* it counts in flight */
	uint8_t link;          /* by which it went first */
	_Alignas(8) uint8_t bytes[]; /* the frame */
};

/* The pools; the engine's longest frame is known. */
void transmit_frame_init(struct engine *engine);
void transmit_frame_fini(struct engine *engine);
/* NULL: there are too many. */
struct transmit_frame *transmit_frame_new(struct engine *engine, uint32_t length);
void transmit_frame_free(struct engine *engine, struct transmit_frame *frame);
void transmit_frame_free_all(struct engine *engine, struct list_node *list);

#endif
