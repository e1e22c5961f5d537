/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transmit_frame: RECORD frames that are kept, and the pools that they are of; see transmit_frame.h. Pure.
 */
#include "transport/datagram/transmit_frame.h"

/* Bytes of trains; the longest is what the kernel carries as one packet. */
static const uint32_t train_bytes[TRAIN_SIZES] = {6 << 10, 24 << 10, 64 << 10};

void transmit_frame_init(struct engine *engine)
{
	pool_init(&engine->small_frames, sizeof(struct transmit_frame) + ENGINE_SMALL_FRAME, 64,
		  ENGINE_TRANSMIT_FRAMES_MAX);
	pool_init(&engine->large_frames, sizeof(struct transmit_frame) + engine->frame_max, 16,
		  ENGINE_TRANSMIT_FRAMES_MAX);
	pool_init(&engine->train_frames, sizeof(struct transmit_frame), 64, ENGINE_TRANSMIT_FRAMES_MAX);
	for (unsigned i = 0; i < TRAIN_SIZES; i++)
		pool_init(&engine->trains[i], sizeof(struct transmit_train) + train_bytes[i], 4,
			  (uint32_t)((uint64_t)ENGINE_TRANSMIT_FRAMES_MAX * engine->frame_max / train_bytes[i]));
}

void transmit_frame_fini(struct engine *engine)
{
	pool_fini(&engine->small_frames);
	pool_fini(&engine->large_frames);
	pool_fini(&engine->train_frames);
	for (unsigned i = 0; i < TRAIN_SIZES; i++)
		pool_fini(&engine->trains[i]);
}

static struct transmit_frame *transmit_frame_begin(struct transmit_frame *frame, uint8_t *bytes, uint32_t length,
						   bool large)
{
	frame->bytes = bytes;
	frame->train = NULL;
	frame->sent_ns = 0;
	frame->length = (uint16_t)length;
	frame->fragment = frame->resends = 0;
	frame->large = large;
	frame->held = frame->out = false;
	return frame;
}

struct transmit_frame *transmit_frame_new(struct engine *engine, uint32_t length)
{
	bool large = length > ENGINE_SMALL_FRAME;
	struct transmit_frame *frame = pool_get(large ? &engine->large_frames : &engine->small_frames);

	return frame ? transmit_frame_begin(frame, (uint8_t *)(frame + 1), length, large) : NULL;
}

/* The smallest that holds what is left, or the longest. */
static struct transmit_train *transmit_frame_train(struct engine *engine, uint64_t left)
{
	struct transmit_train *train;
	uint8_t size = 0;

	while (size + 1 < TRAIN_SIZES && train_bytes[size] < left)
		size++;
	train = pool_get(&engine->trains[size]);
	if (!train)
		return NULL;
	train->live = train->used = 0;
	train->size = size;
	return train;
}

struct transmit_frame *transmit_frame_behind(struct engine *engine, struct transmit_train **train_p, uint32_t length,
					     uint64_t left)
{
	struct transmit_train *train = *train_p;
	struct transmit_frame *frame;

	if (!train || train_bytes[train->size] - train->used < length)
		train = *train_p = transmit_frame_train(engine, left > length ? left : length);
	frame = train ? pool_get(&engine->train_frames) : NULL;
	if (!frame) { /* it goes without, if there is other memory */
		if (train && train->live == 0)
			pool_put(&engine->trains[train->size], train);
		*train_p = NULL;
		return transmit_frame_new(engine, length);
	}
	transmit_frame_begin(frame, train->bytes + train->used, length, true);
	frame->train = train;
	train->used += length;
	train->live++;
	return frame;
}

void transmit_frame_free(struct engine *engine, struct transmit_frame *frame)
{
	struct transmit_train *train = frame->train;

	if (!train) {
		pool_put(frame->large ? &engine->large_frames : &engine->small_frames, frame);
		return;
	}
	pool_put(&engine->train_frames, frame);
	if (--train->live == 0)
		pool_put(&engine->trains[train->size], train);
}

void transmit_frame_free_all(struct engine *engine, struct list_node *list)
{
	struct list_node *node;

	while ((node = list_first(list))) {
		list_remove(node);
		transmit_frame_free(engine, container_of(node, struct transmit_frame, node));
	}
}
