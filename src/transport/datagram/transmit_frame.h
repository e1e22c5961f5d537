/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transmit_frame: RECORD frames from push to acknowledgement, and the pools that they are of. Pure.
 *
 * The sender has one until it is acknowledged (transmit.c), or a run of some that lie behind each other and share their
 * fate: as soon as they do not, the run is split. A receiver has one of a frame that came ahead of a gap, until those
 * before it are here (arrival.c). Invariants: it is in one list, and that list's owner frees it; to split a run needs
 * no memory.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_TRANSMIT_FRAME_H
#define THOLE_TRANSPORT_DATAGRAM_TRANSMIT_FRAME_H

#include "transport/datagram/engine.h"

struct transmit_frame {
	struct list_node node;
	uint8_t *bytes;        /* the frame: behind this, or in its train */
	struct transmit_train *train; /* NULL: it has its own memory */
	uint64_t sent_ns;
	uint32_t sequence;     /* of the first */
	uint16_t length;       /* of each but the last, which is */
	uint16_t last;         /* perhaps shorter */
	uint8_t count;         /* frames */
	uint8_t fragment;
	uint8_t resends;       /* saturating */
	bool large;            /* which pool it is of */
	bool wide;             /* of a record of several frames, which goes by the link for bulk */
	bool held;             /* the receiver has it, but not those before it */
	bool out;              /* it counts in flight */
	uint8_t link;          /* by which it went first */
};

/* Memory for frames of one record that lie directly behind each other, so that the kernel is handed many of them as one
 * piece: each further piece costs it about as much as to copy half a frame. */
struct transmit_train {
	uint32_t live;         /* frames that are in it */
	uint32_t used;         /* bytes, from the front */
	uint8_t made;          /* frames that it has had: each has its place below, whether in a run or by itself */
	uint8_t size;          /* which pool it is of */
	struct transmit_frame frames[];
	/* and their bytes */
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
/* How many frames of so many bytes there is room for behind a run's last (or a frame, which is a run of one). */
uint32_t transmit_frame_room(const struct transmit_frame *run, uint32_t length);
/* Make a run longer by `count` such frames. Returns where they are; NULL: it cannot be. */
uint8_t *transmit_frame_extend(struct transmit_frame *run, uint32_t length, uint32_t count);
/* Let a run end after so many frames. Returns the run of the others, which is behind it in its list. */
struct transmit_frame *transmit_frame_split(struct transmit_frame *run, uint32_t count);
void transmit_frame_free(struct engine *engine, struct transmit_frame *frame);
void transmit_frame_free_all(struct engine *engine, struct list_node *list);

#endif
