/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transmit_frame: RECORD frames that are kept, and the pools that they are of; see transmit_frame.h. Pure.
 */
#include "transport/datagram/burst.h"
#include "transport/datagram/transmit_frame.h"

/* Bytes of trains, the longest being what the kernel carries as one packet, and how many frames there may be in them:
 * none but the last of a record is shorter than the shortest path's. */
static const uint32_t train_bytes[TRAIN_SIZES] = {6 << 10, 24 << 10, 64 << 10};
static const uint8_t train_frames[TRAIN_SIZES] = {12, 45, 120};

/* What is in front of the bytes, which begin where the payload of pieces begins lines: it is copied faster. */
static size_t transmit_train_front(unsigned size)
{
	size_t bytes = sizeof(struct transmit_train) + train_frames[size] * sizeof(struct transmit_frame);

	return (bytes + BURST_FRONT + 63) / 64 * 64 - BURST_FRONT;
}

static uint8_t *transmit_train_bytes(struct transmit_train *train)
{
	return (uint8_t *)train + transmit_train_front(train->size);
}

static bool transmit_train_has_room(const struct transmit_train *train, uint32_t length)
{
	return train_bytes[train->size] - train->used >= length && train->made < train_frames[train->size];
}

void transmit_frame_init(struct engine *engine)
{
	pool_init(&engine->small_frames, sizeof(struct transmit_frame) + ENGINE_SMALL_FRAME, 64,
		  ENGINE_TRANSMIT_FRAMES_MAX);
	pool_init(&engine->large_frames, sizeof(struct transmit_frame) + engine->frame_max, 16,
		  ENGINE_TRANSMIT_FRAMES_MAX);
	for (unsigned i = 0; i < TRAIN_SIZES; i++)
		pool_init(&engine->trains[i],
			  transmit_train_front(i) + train_bytes[i], 4,
			  (uint32_t)((uint64_t)ENGINE_TRANSMIT_FRAMES_MAX * engine->frame_max / train_bytes[i]));
}

void transmit_frame_fini(struct engine *engine)
{
	pool_fini(&engine->small_frames);
	pool_fini(&engine->large_frames);
	for (unsigned i = 0; i < TRAIN_SIZES; i++)
		pool_fini(&engine->trains[i]);
}

static struct transmit_frame *transmit_frame_begin(struct transmit_frame *frame, uint8_t *bytes, uint32_t length,
						   bool large)
{
	frame->bytes = bytes;
	frame->train = NULL;
	frame->sent_ns = 0;
	frame->length = frame->last = (uint16_t)length;
	frame->count = 1;
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
	train->live = train->used = train->made = 0;
	train->size = size;
	return train;
}

struct transmit_frame *transmit_frame_behind(struct engine *engine, struct transmit_train **train_p, uint32_t length,
					     uint64_t left)
{
	struct transmit_train *train = *train_p;
	struct transmit_frame *frame;

	if (!train || !transmit_train_has_room(train, length))
		train = *train_p = transmit_frame_train(engine, left > length ? left : length);
	if (!train) /* it goes without, if there is other memory */
		return transmit_frame_new(engine, length);
	frame = transmit_frame_begin(&train->frames[train->made++], transmit_train_bytes(train) + train->used, length,
				     true);
	frame->train = train;
	train->used += length;
	train->live++;
	return frame;
}

uint32_t transmit_frame_room(const struct transmit_frame *run, uint32_t length)
{
	const struct transmit_train *train = run->train;
	uint32_t bytes, frames;

	if (!train || run + run->count != train->frames + train->made || run->last < run->length ||
	    length > run->length)
		return 0;
	bytes = (train_bytes[train->size] - train->used) / length;
	frames = train_frames[train->size] - train->made;
	return bytes < frames ? bytes : frames;
}

uint8_t *transmit_frame_extend(struct transmit_frame *run, uint32_t length, uint32_t count)
{
	struct transmit_train *train = run->train;
	uint8_t *bytes;

	if (transmit_frame_room(run, length) < count || (length < run->length && count > 1))
		return NULL;
	bytes = transmit_train_bytes(train) + train->used;
	run->last = (uint16_t)length;
	run->count = (uint8_t)(run->count + count);
	train->made = (uint8_t)(train->made + count);
	train->used += count * length;
	train->live += count;
	return bytes;
}

struct transmit_frame *transmit_frame_split(struct transmit_frame *run, uint32_t count)
{
	struct transmit_frame *others = run + count; /* in their train */

	*others = *run;
	others->bytes += count * run->length;
	others->sequence += count;
	others->count = (uint8_t)(run->count - count);
	run->count = (uint8_t)count;
	run->last = run->length;
	list_push_front(&run->node, &others->node);
	return others;
}

void transmit_frame_free(struct engine *engine, struct transmit_frame *frame)
{
	struct transmit_train *train = frame->train;

	if (!train) {
		pool_put(frame->large ? &engine->large_frames : &engine->small_frames, frame);
		return;
	}
	train->live -= frame->count;
	if (train->live == 0)
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
