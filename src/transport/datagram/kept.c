/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kept: RECORD frames that are kept, and the pools that they are of; see kept.h. Pure.
 */
#include "transport/datagram/kept.h"

void kept_init(struct engine *engine)
{
	pool_init(&engine->small_frames, sizeof(struct kept) + ENGINE_SMALL_FRAME, 64, ENGINE_KEPT_MAX);
	pool_init(&engine->large_frames, sizeof(struct kept) + engine->frame_max, 16, ENGINE_KEPT_MAX);
}

void kept_fini(struct engine *engine)
{
	pool_fini(&engine->small_frames);
	pool_fini(&engine->large_frames);
}

struct kept *kept_new(struct engine *engine, uint32_t length)
{
	bool large = length > ENGINE_SMALL_FRAME;
	struct kept *kept = pool_get(large ? &engine->large_frames : &engine->small_frames);

	if (!kept)
		return NULL;
	kept->sent_ns = 0;
	kept->length = (uint16_t)length;
	kept->fragment = kept->resends = 0;
	kept->large = large;
	kept->held = kept->out = false;
	return kept;
}

void kept_free(struct engine *engine, struct kept *kept)
{
	pool_put(kept->large ? &engine->large_frames : &engine->small_frames, kept);
}

void kept_free_all(struct engine *engine, struct list_node *list)
{
	struct list_node *node;

	while ((node = list_first(list))) {
		list_remove(node);
		kept_free(engine, container_of(node, struct kept, node));
	}
}
