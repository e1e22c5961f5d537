/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * serve: bulk out, over frames: windows are sent as their receivers ask for them (pull.c). Pure. A serve is a PULL
 * that waits to be answered.
 */
#include "transport/datagram/burst.h"
#include "transport/datagram/connection.h"
#include "transport/datagram/serve.h"

struct serve {
	struct list_node node;
	uint64_t window, transfer;
	uint64_t offset;
	uint64_t wanted;                /* of the block at offset; 0: all frames of all blocks */
	uint32_t length, done;          /* bytes; done: from the front */
	uint32_t frame, skew;           /* as in blocks */
	uint32_t index;                 /* mxoe: of the first frame */
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
	connection->serving.count--;
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

/* Whether a PULL that waits here covers this one: the receiver asked again because it took long; nothing was lost. */
static bool serve_is_known(const struct connection *connection, const struct packet_pull *pull)
{
	struct list_node *node;

	for (node = list_first(&connection->serving.serves); node;
	     node = list_next(&connection->serving.serves, node)) {
		const struct serve *serve = container_of(node, struct serve, node);
		uint64_t start = serve->offset + serve->done, end = serve->offset + serve->length;

		if (serve->transfer != pull->transfer || pull->offset < start || pull->offset + pull->length > end)
			continue;
		if (!serve->wanted ||
		    (serve->offset == pull->offset && (pull->wanted & ~serve->wanted) == 0 && pull->wanted))
			return true;
	}
	return false;
}

void serve_pull_arrived(struct connection *connection, const struct packet *packet)
{
	struct engine *engine = connection->engine;
	const struct packet_pull *pull = &packet->pull;
	const struct vector *vector = connection->peer->owner->up->window(connection->peer, pull->window);
	uint32_t least = ENGINE_FRAME_MIN - connection_data_head(connection), frames;
	struct serve *serve;

	if (!vector) {
		engine->naming->refuse_window(connection, packet);
		return;
	}
	frames = pull->frame ? (pull->length + pull->frame - 1) / pull->frame : 0;
	if (pull->length == 0 || pull->offset > vector->length ||
	    pull->length > vector->length - pull->offset || pull->frame < (least & ~7u) ||
	    pull->frame > engine->frame_max - connection_data_head(connection) ||
	    (pull->wanted && (frames > PACKET_FRAMES_MAX || (pull->wanted & ~pull_mask(frames))))) {
		engine_count(engine, COUNTER_DROPPED_MALFORMED);
		return;
	}
	if (serve_is_known(connection, pull)) {
		engine_count(engine, COUNTER_FRAMES_DUPLICATE);
		return;
	}
	serve = connection->serving.count < SERVES_MAX ? pool_get(&engine->serves) : NULL;
	if (!serve) {
		engine_count(engine, COUNTER_DROPPED_FULL);
		return;
	}
	*serve = (struct serve){
		.window = pull->window,
		.transfer = pull->transfer,
		.offset = pull->offset,
		.wanted = pull->wanted,
		.length = pull->length,
		.frame = pull->frame,
		.skew = pull->frame_offset,
		.index = pull->frame_index,
		.link = route_serve(connection, packet->flags & PACKET_ASIDE),
	};
	if (connection->serving.count++ == 0)
		list_push_back(&engine->serving, &connection->serving.node);
	list_push_back(&connection->serving.serves, &serve->node);
}

/* Bytes of the frame at `at`, but for the end. */
static uint32_t serve_step(const struct serve *serve, uint32_t at)
{
	return at == 0 ? serve->frame - serve->skew : serve->frame;
}

/* Put one frame into the burst. */
static void serve_frame(struct connection *connection, const struct serve *serve, const struct vector *vector,
			struct packet *packet, uint32_t at)
{
	struct engine *engine = connection->engine;
	uint64_t offset = serve->offset + at, covered;
	uint32_t left = serve->length - at, step = serve_step(serve, at), length = left < step ? left : step;
	uint8_t link = serve->link;
	uint8_t *head = burst_head(engine);
	struct iovec *body = burst_iov(engine);
	struct frame_out frame = {
		.to = &connection->route[link].bulk,
		.head = head,
		.body = body,
		.body_length = length,
		.channel = CHANNEL_BULK,
	};

	packet->data.offset = offset;
	packet->length = length;
	frame.head_length = (uint32_t)engine->codec->encode(packet, head);
	frame.body_count = (uint16_t)vector_slice(vector, offset, length, body, FRAME_PIECES, &covered);
	if (covered < length) { /* scattered too finely */
		uint8_t *bounce = burst_bounce(engine);

		vector_read(vector, offset, bounce, length);
		body[0] = (struct iovec){bounce, length};
		frame.body_count = 1;
	}
	engine->owner->counters[COUNTER_BULK_SERVED] += length;
	burst_add(engine, link, &frame, connection->guard, connection, NULL);
}

/* Send the next block of a serve, or what is wanted of it. Returns whether the link took it all. */
static bool serve_block(struct connection *connection, struct serve *serve)
{
	struct engine *engine = connection->engine;
	const struct vector *vector = connection->peer->owner->up->window(connection->peer, serve->window);
	uint32_t most = pull_block_bytes(connection, serve->frame), at = serve->done, frames = 0, end;
	uint32_t starts[ENGINE_BURST], step;
	struct packet packet;
	unsigned taken;

	if (!vector) { /* it ended while the PULL waited: nobody wants it any more */
		serve_free(connection, serve);
		return true;
	}
	burst_send(engine, 0);
	connection_packet(connection, &packet, PACKET_DATA);
	packet.data.transfer = serve->transfer;
	if (at == 0)
		most -= serve->skew;
	end = serve->length - at > most ? at + most : serve->length;
	for (; at < end; at += step) {
		uint32_t index = (at + serve->skew) / serve->frame;

		step = serve_step(serve, at);
		packet.data.frame = (uint8_t)(serve->index + index);
		if (serve->wanted && !(serve->wanted >> index & 1))
			continue;
		serve_frame(connection, serve, vector, &packet, at);
		starts[frames++] = at;
	}
	taken = burst_send(engine, frames);
	if (taken < frames) { /* no room: the rest later */
		serve->done = starts[taken];
		return false;
	}
	serve->done = end;
	if (end == serve->length)
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
