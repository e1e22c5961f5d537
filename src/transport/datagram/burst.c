/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * burst: frames to be sent gather here, and go to one link at a time; see burst.h. Pure.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "transport/datagram/burst.h"
#include "transport/datagram/connection.h"
#include "transport/datagram/transmit_frame.h"

int burst_init(struct engine *engine)
{
	engine->burst = memalign(64, sizeof(*engine->burst));
	if (!engine->burst)
		return THOLE_ERR_MEMORY;
	engine->burst->count = 0;
	engine->burst->used = 64 - BURST_FRONT;
	engine->burst->full = false;
	return 0;
}

void burst_fini(struct engine *engine)
{
	free(engine->burst);
}

uint8_t *burst_bytes(struct engine *engine, uint8_t link, uint32_t length)
{
	struct burst *burst = engine->burst;
	uint8_t *bytes;

	if (burst->count > 0 && burst->link != link)
		burst_send(engine, 0);
	bytes = burst->bytes + burst->used;
	burst->used += length;
	return bytes;
}

/* Counters, tags and checksums, as late as can be: those of many frames are made at once. The heads are ours to write:
 * in the burst, or in transmit frames. Without a tag a frame would be dropped, as others are lost. */
static void burst_seal(struct engine *engine, unsigned count)
{
	const struct burst *burst = engine->burst;
	const struct codec *codec = engine->codec;
	unsigned end;

	for (unsigned at = 0; at < count; at = end) {
		for (end = at + 1; end < count && burst->guards[end] == burst->guards[at]; end++)
			;
		if (burst->guards[at])
			guard_stamp(burst->guards[at], codec, &burst->frames[at], end - at);
	}
	for (unsigned i = 0; i < count && codec->seal && engine->checksums; i++) {
		const struct frame_out *frame = &burst->frames[i];

		codec->seal((uint8_t *)(uintptr_t)frame->head, frame->head_length, frame->body, frame->body_count);
	}
}

unsigned burst_send(struct engine *engine, unsigned tail)
{
	struct burst *burst = engine->burst;
	unsigned count = burst->count, taken = 0;

	if (count == 0)
		return 0;
	burst->count = 0;
	burst->used = 64 - BURST_FRONT;
	if (!burst->full) {
		struct link *link = engine->links[burst->link];

		burst_seal(engine, count);
		taken = link->calls->send(link, burst->frames, count);
		if (link->calls->counter)
			engine->owner->counters[link->calls->counter] += taken;
	}
	engine->owner->counters[COUNTER_FRAMES_SENT] += taken;
	if (taken < count) {
		burst->full = true;
		engine->owner->counters[COUNTER_FRAMES_BLOCKED] += count - taken;
		for (unsigned i = count; i-- > taken;) /* the earliest last: all behind it are taken back with it */
			if (burst->transmit[i] && (i == taken || burst->transmit[i - 1] != burst->transmit[i]))
				transmit_unsend(burst->connections[i], burst->transmit[i], burst->frames[i].head);
	}
	return taken > count - tail ? taken - (count - tail) : 0;
}

bool burst_add(struct engine *engine, uint8_t link, const struct frame_out *frame, struct guard *guard,
	       struct connection *connection, struct transmit_frame *transmit)
{
	struct burst *burst = engine->burst;
	unsigned at;

	if (burst->count > 0 && burst->link != link)
		burst_send(engine, 0);
	at = burst->count++;
	burst->link = link;
	burst->frames[at] = *frame;
	burst->frames[at].known = connection != NULL;
	burst->guards[at] = guard;
	burst->connections[at] = connection;
	burst->transmit[at] = transmit;
	if (burst->count == ENGINE_BURST)
		burst_send(engine, 0);
	return !burst->full;
}

bool burst_add_run(struct engine *engine, uint8_t link, const struct frame_out *first, uint32_t count, uint32_t last,
		   struct connection *connection, struct transmit_frame *transmit)
{
	struct burst *burst = engine->burst;
	struct frame_out frame = *first;

	frame.known = true;
	while (count > 0) {
		uint32_t some = count < ENGINE_BURST ? count : ENGINE_BURST;

		/* or what could be one packet of the kernel's became two */
		if (burst->count > 0 && (burst->link != link || burst->count + some > ENGINE_BURST))
			burst_send(engine, 0);
		burst->link = link;
		for (unsigned at = burst->count, end = at + some; at < end; at++, frame.head += frame.head_length) {
			frame.behind = (uint16_t)(end - at - 1);
			burst->frames[at] = frame;
			burst->guards[at] = connection->guard;
			burst->connections[at] = connection;
			burst->transmit[at] = transmit;
		}
		burst->count += some;
		count -= some;
		if (count == 0)
			burst->frames[burst->count - 1].head_length = last;
		if (burst->count == ENGINE_BURST)
			burst_send(engine, 0);
		if (burst->full)
			return false;
	}
	return true;
}

void burst_post(struct engine *engine, uint8_t link, const struct path *to, const struct packet *packet, uint32_t size)
{
	struct frame_out frame = {.channel = CHANNEL_RECORDS, .probe = size > 0};
	struct path *path;
	uint8_t *bytes = burst_bytes(engine, link, size > PACKET_HEAD_MAX ? size : PACKET_HEAD_MAX);
	uint32_t length;

	path = &engine->burst->paths[engine->burst->count];
	*path = *to; /* the caller's may be a link's, and change */
	length = (uint32_t)engine->codec->encode(packet, bytes);
	if (length > 0 && length < size) {
		memset(bytes + length, 0, size - length);
		length = size;
	}
	engine->burst->used = (uint32_t)(bytes - engine->burst->bytes) + length;
	if (length == 0)
		return; /* the codec has no such packet */
	frame.to = path;
	frame.head = bytes;
	frame.head_length = length;
	burst_add(engine, link, &frame, packet->guard, NULL, NULL);
}
