/* SPDX-License-Identifier: BSD-3-Clause */
/* transmit_frame: RECORD frames from push to acknowledgement, and their pools; see transmit_frame.h. Pure. */
#include "transport/datagram/transmit_frame.h"

void transmit_frame_init(struct engine *engine)
{
	pool_init(&engine->small_frames, sizeof(struct transmit_frame) + ENGINE_SMALL_FRAME, 64,
		  ENGINE_TRANSMIT_FRAMES_MAX);
	pool_init(&engine->large_frames, sizeof(struct transmit_frame) + engine->frame_max, 16,
		  ENGINE_TRANSMIT_FRAMES_MAX);
}

void transmit_frame_fini(struct engine *engine)
{
	pool_fini(&engine->small_frames);
	pool_fini(&engine->large_frames);
}

struct transmit_frame *transmit_frame_new(struct engine *engine, uint32_t length)
{
	bool large = length > ENGINE_SMALL_FRAME;
	struct transmit_frame *frame = pool_get(large ? &engine->large_frames : &engine->small_frames);

	if (!frame)
		return NULL;
	frame->sent_ns = 0;
	frame->length = (uint16_t)length;
	frame->fragment = frame->resends = 0;
	frame->large = large;
	frame->held = frame->out = false;
	return frame;
}

void transmit_frame_free(struct engine *engine, struct transmit_frame *frame)
{
	pool_put(frame->large ? &engine->large_frames : &engine->small_frames, frame);
}

void transmit_frame_free_all(struct engine *engine, struct list_node *list)
{
	struct list_node *node;

	while ((node = list_first(list))) {
		list_remove(node);
		transmit_frame_free(engine, container_of(node, struct transmit_frame, node));
	}
}
