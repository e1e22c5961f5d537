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

/* Memory for frames of one record that lie directly behind each other, so that the kernel is handed many of them as one
 * piece: each further piece costs it about as much as to copy half a frame. */
struct transmit_train {
	uint32_t live;         /* frames that are in it */
	uint32_t used;         /* bytes, from the front */
	uint8_t size;          /* which pool it is of */
	_Alignas(8) uint8_t bytes[];
};

struct transmit_frame {
	struct list_node node;
	uint8_t *bytes;        /* the frame: behind this, or in its train */
	struct transmit_train *train; /* NULL: it has its own memory */
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
};

/* The pools; the engine's longest frame is known. */
void transmit_frame_init(struct engine *engine);
void transmit_frame_fini(struct engine *engine);
/* NULL: there are too many. */
struct transmit_frame *transmit_frame_new(struct engine *engine, uint32_t length);
/* The same for a frame of a record of many: behind the one before, where there is room. *train_p: where that lies,
 * NULL at first. left: bytes of all frames from this one on, about. */
struct transmit_frame *transmit_frame_behind(struct engine *engine, struct transmit_train **train_p, uint32_t length,
					     uint64_t left);
void transmit_frame_free(struct engine *engine, struct transmit_frame *frame);
void transmit_frame_free_all(struct engine *engine, struct list_node *list);

#endif
