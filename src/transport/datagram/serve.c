/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * serve: bulk out, over frames: windows are sent as their receivers ask for them (pull.c). Pure. A serve is a PULL
 * that waits to be answered.
 */
#include "transport/datagram/answer.h"
#include "transport/datagram/burst.h"
#include "transport/datagram/connection.h"
#include "transport/datagram/serve.h"

struct serve {
	struct list_node node;
	struct answer answer;
	uint8_t link;                   /* by which its frames go */
};

void serve_init(struct engine *engine)
{
	pool_init(&engine->serves, sizeof(struct serve), 16, ENGINE_TRANSFERS_MAX);
	list_init(&engine->serving);
}

void serve_fini(struct engine *engine)
{
	pool_fini(&engine->serves);
}

void serve_begin(struct connection *connection)
{
	list_init(&connection->serving.node);
	list_init(&connection->serving.serves);
}

static void serve_free(struct connection *connection, struct serve *serve)
{
	list_remove(&serve->node);
	connection->serves--;
	if (list_empty(&connection->serving.serves))
		list_remove(&connection->serving.node);
	pool_put(&connection->engine->serves, serve);
}

void serve_end(struct connection *connection)
{
	struct list_node *node;

	while ((node = list_first(&connection->serving.serves)))
		serve_free(connection, container_of(node, struct serve, node));
}

static bool serve_is_known(const struct connection *connection, const struct packet_pull *pull)
{
	struct list_node *node;

	for (node = list_first(&connection->serving.serves); node; node = list_next(&connection->serving.serves, node))
		if (answer_covers(&container_of(node, struct serve, node)->answer, pull))
			return true;
	return false;
}

void serve_pull_arrived(struct connection *connection, const struct packet *packet)
{
	struct engine *engine = connection->engine;
	const struct packet_pull *pull = &packet->pull;
	const struct vector *vector;
	uint32_t head = connection_data_head(connection);
	struct serve *serve;

	if (handover_serves(connection, packet))
		return;
	vector = connection->peer->owner->up->window(connection->peer, pull->window);
	if (!vector) {
		engine->naming->refuse_window(connection, packet);
		return;
	}
	if (!answer_is_right(pull, vector->length, (ENGINE_FRAME_MIN - head) & ~7u, engine->frame_max - head)) {
		engine_count(engine, COUNTER_DROPPED_MALFORMED);
		return;
	}
	if (serve_is_known(connection, pull)) {
		engine_count(engine, COUNTER_FRAMES_DUPLICATE);
		return;
	}
	serve = connection->serves < SERVES_MAX ? pool_get(&engine->serves) : NULL;
	if (!serve) {
		engine_count(engine, COUNTER_DROPPED_FULL);
		return;
	}
	answer_begin(&serve->answer, pull);
	serve->link = route_serve(connection, packet->flags & PACKET_ASIDE);
	if (connection->serves++ == 0)
		list_push_back(&engine->serving, &connection->serving.node);
	list_push_back(&connection->serving.serves, &serve->node);
}

/* Frames that are made, behind each other in the burst's memory: all as long as the first, but for the last. */
struct serve_run {
	uint8_t *bytes;
	uint32_t count, length, last; /* bytes of each, and of the last */
	size_t head;
};

/* Into the burst. */
static void serve_run_end(struct connection *connection, uint8_t link, struct serve_run *run)
{
	struct frame_out first = {.to = &connection->route[link].bulk, .head = run->bytes,
				  .head_length = run->length, .channel = CHANNEL_BULK};

	if (run->count > 0)
		burst_add_run(connection->engine, link, &first, run->count, run->last, connection, NULL);
	run->count = 0;
}

/* Make one frame: its payload is copied behind its head, which is behind the frame before, since each part that the
 * kernel is handed costs it more than to copy a frame. */
static void serve_frame(struct connection *connection, uint8_t link, const struct vector *vector, struct packet *packet,
			struct serve_run *run)
{
	struct engine *engine = connection->engine;
	const struct codec *codec = engine->codec;
	uint32_t room = connection_data_head(connection) + packet->length;
	uint8_t *bytes;

	if (run->count > 0 && (run->last < run->length || room > run->length))
		serve_run_end(connection, link, run);
	bytes = burst_bytes(engine, link, room);
	if (run->count > 0 && codec->encode_next && room == run->length)
		codec->encode_next(bytes, bytes - run->length, run->head, packet->data.offset);
	else
		run->head = codec->encode(packet, bytes);
	vector_read(vector, packet->data.offset, bytes + run->head, packet->length);
	if (run->count++ == 0) {
		run->bytes = bytes;
		run->length = room;
	}
	run->last = room;
}

/* Make so many frames like the one before, with the payload behind its own, from `offset` on. */
static void serve_like(struct engine *engine, uint8_t link, const struct vector *vector, uint64_t offset,
		       uint32_t count, struct serve_run *run)
{
	uint32_t length = run->length - (uint32_t)run->head;
	uint8_t *bytes = burst_bytes(engine, link, count * run->length);

	run->count += count;
	for (; count > 0; count--, offset += length, bytes += run->length) {
		engine->codec->encode_next(bytes, bytes - run->length, run->head, offset);
		vector_read(vector, offset, bytes + run->head, length);
	}
}

/* How many frames up to the end of a block are as long as the one before, all of them wanted. */
static uint32_t serve_alike(const struct engine *engine, const struct answer *answer, uint32_t at, uint32_t end,
			    uint32_t length)
{
	return engine->codec->encode_next && !answer->wanted && length == answer->frame ? (end - at) / length : 0;
}

/* Send the next block of a serve, or what is wanted of it. Returns whether the link took it all. */
static bool serve_block(struct connection *connection, struct serve *serve)
{
	struct engine *engine = connection->engine;
	struct answer *answer = &serve->answer;
	const struct vector *vector = connection->peer->owner->up->window(connection->peer, answer->window);
	uint32_t at = answer->done, starts[ENGINE_BURST], end;
	struct serve_run run = {.count = 0};
	struct answer_frame frame;
	struct packet packet;
	unsigned taken, frames = 0;
	uint32_t alike;

	if (!vector) { /* it ended while the PULL waited: nobody wants it any more */
		serve_free(connection, serve);
		return true;
	}
	burst_send(engine, 0);
	connection_packet(connection, &packet, PACKET_DATA);
	packet.data.transfer = answer->transfer;
	end = answer_end(answer, pull_block_bytes(connection, answer->frame));
	while (answer_next(answer, &at, end, &frame)) {
		packet.data.offset = frame.offset;
		packet.data.frame = (uint8_t)frame.index;
		packet.length = frame.length;
		serve_frame(connection, serve->link, vector, &packet, &run);
		engine->owner->counters[COUNTER_BULK_SERVED] += packet.length;
		starts[frames++] = frame.at;
		alike = serve_alike(engine, answer, at, end, frame.length);
		if (alike > 0)
			serve_like(engine, serve->link, vector, answer->offset + at, alike, &run);
		engine->owner->counters[COUNTER_BULK_SERVED] += (uint64_t)alike * frame.length;
		for (; alike > 0; alike--, at += frame.length)
			starts[frames++] = at;
	}
	serve_run_end(connection, serve->link, &run);
	taken = burst_send(engine, frames);
	if (taken < frames) { /* no room: the rest later */
		answer->done = starts[taken];
		return false;
	}
	answer->done = end;
	if (end == answer->length)
		serve_free(connection, serve);
	return true;
}

void serve_transmit(struct engine *engine)
{
	unsigned left = SERVE_BURST;
	struct list_node *node;

	while (left > 0 && (node = list_first(&engine->serving))) {
		struct connection *connection = container_of(node, struct connection, serving.node);

		list_remove(node);
		list_push_back(&engine->serving, node);
		for (unsigned turn = 0; turn < SERVE_TURN && left > 0 && !list_empty(&connection->serving.serves);
		     turn++, left--)
			if (!serve_block(connection,
					 container_of(list_first(&connection->serving.serves), struct serve, node)))
				return;
	}
}
