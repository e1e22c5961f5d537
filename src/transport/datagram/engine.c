/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine: one endpoint's connections, frames in, what is due; see engine.h. Pure.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/datagram/burst.h"
#include "transport/datagram/connection.h"
#include "transport/datagram/transmit_frame.h"
#include "transport/datagram/scatter.h"

/* ---- Opening and closing -------------------------------------------------------------------------------- */

/* Without a key there is nothing that a stranger does not know too. */
static enum guard_mode engine_integrity(const struct engine *engine)
{
	static const enum guard_mode modes[] = {
		[OPTION_INTEGRITY_AUTO] = GUARD_HEADS,
		[OPTION_INTEGRITY_OFF] = GUARD_OFF,
		[OPTION_INTEGRITY_HEAD] = GUARD_HEADS,
		[OPTION_INTEGRITY_FULL] = GUARD_FULL,
	};

	return engine->codec->front && engine->key ? modes[engine->owner->options.integrity] : GUARD_OFF;
}

int engine_init(struct engine *engine, struct transport_owner *owner, const struct codec *codec)
{
	*engine = (struct engine){.owner = owner, .codec = codec, .key = owner->options.job_key};
	engine->naming = codec->indexed ? &naming_native : &naming_mxoe;
	engine->integrity = engine_integrity(engine);
	engine->checksums = owner->options.checksum != 0;
	engine->lots = (owner->options.inject_seed ^ owner->parts.endpoint) | 1;
	engine->frame_max = ENGINE_FRAME_MIN;
	list_init(&engine->dirty);
	list_init(&engine->patient);
	if (engine->naming->init(engine) != 0)
		return error_set(THOLE_ERR_MEMORY, "no memory for the network");
	pool_init(&engine->guards, sizeof(struct guard), 16, ENGINE_CONNECTIONS_MAX);
	pull_init(engine);
	handover_init(engine);
	serve_init(engine);
	engine->buckets = calloc(ENGINE_LINKS_MAX * (size_t)ENGINE_BUCKETS, sizeof(struct connection *));
	if (!engine->buckets || burst_init(engine) != 0 || scatter_init(engine) != 0) {
		engine_fini(engine);
		return error_set(THOLE_ERR_MEMORY, "no memory for the network");
	}
	return 0;
}

/* Nobody is told, neither peers nor requests. */
void engine_fini(struct engine *engine)
{
	scatter_fini(engine);
	serve_fini(engine);
	pull_fini(engine);
	handover_fini(engine);
	engine->naming->fini(engine);
	for (uint32_t i = 0; i < engine->guards.capacity; i++)
		if (pool_is_live(&engine->guards, pool_at(&engine->guards, i)))
			guard_end(pool_at(&engine->guards, i));
	pool_fini(&engine->guards);
	pool_fini(&engine->connections);
	transmit_frame_fini(engine);
	heap_fini(&engine->timers);
	free(engine->buckets);
	burst_fini(engine);
}

/* Behind those of the same rank. */
static void engine_rank(struct engine *engine, const struct link *link, enum link_use use)
{
	uint8_t *order = engine->order[use], rank = link->calls->rank[use], at = engine->order_count[use];

	if (rank == 0)
		return;
	for (; at > 0 && engine->links[order[at - 1]]->calls->rank[use] > rank; at--)
		order[at] = order[at - 1];
	order[at] = (uint8_t)link->index;
	engine->order_count[use]++;
}

void engine_add_link(struct engine *engine, struct link *link)
{
	uint32_t most = link->calls->frame_max(link, &link->own);

	link->index = engine->link_count;
	engine->links[engine->link_count++] = link;
	pool_init(&engine->connections, sizeof(struct connection) + engine->link_count * sizeof(struct route), 16,
		  ENGINE_CONNECTIONS_MAX);
	for (enum link_use use = 0; use < LINK_USES; use++)
		engine_rank(engine, link, use);
	if (most > ENGINE_FRAME_MAX)
		most = ENGINE_FRAME_MAX;
	if (most > engine->frame_max)
		engine->frame_max = most;
	engine->blocks.outstanding_max = engine->links[engine->order[LINK_BULK][0]]->room;
	engine->naming->start(engine);
	if (engine->large_frames.capacity == 0)
		transmit_frame_init(engine);
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- Time ----------------------------------------------------------------------------------------------- */

uint64_t engine_deadline(const struct engine *engine)
{
	const struct heap_node *first = heap_first(&engine->timers);

	return lesser(first ? first->key : UINT64_MAX, engine->naming->deadline(engine));
}

unsigned engine_expire(struct engine *engine)
{
	struct heap_node *node;
	unsigned n = 0;

	engine->naming->expire(engine);
	while ((node = heap_first(&engine->timers)) && node->key <= engine->now_ns) {
		struct connection *connection = container_of(node, struct connection, timer);
		uint64_t next_ns;

		heap_remove(&engine->timers, node);
		n++;
		if (connection->state == CONNECTION_DEAD)
			continue;
		next_ns = lesser(pull_expire(connection), handover_expire(connection));
		next_ns = lesser(next_ns, transmit_expire(connection));
		next_ns = lesser(next_ns, arrival_expire(connection));
		next_ns = lesser(next_ns, connection_expire(connection));
		if (next_ns != UINT64_MAX && connection->state != CONNECTION_DEAD)
			connection_wake(connection, next_ns > engine->now_ns ? next_ns : engine->now_ns + 1);
	}
	return n;
}

/* ---- Out ------------------------------------------------------------------------------------------------ */

void engine_hurry(struct engine *engine)
{
	struct list_node *node;

	while ((node = list_first(&engine->patient)))
		connection_dirty(container_of(node, struct connection, dirty_node));
}

unsigned engine_transmit(struct engine *engine)
{
	uint64_t sent = engine->owner->counters[COUNTER_FRAMES_SENT];
	struct list_node *node, *last = engine->dirty.prev;
	bool more = !list_empty(&engine->dirty);

	engine->burst->full = false;
	while (more && !engine->burst->full && (node = list_first(&engine->dirty))) {
		struct connection *connection = container_of(node, struct connection, dirty_node);

		more = node != last;
		list_remove(node);
		if (connection->state == CONNECTION_OPEN)
			transmit_connection(connection);
	}
	burst_send(engine, 0);
	if (!list_empty(&engine->blocks.fetching) && !engine->burst->full)
		pull_ask(engine);
	if (!list_empty(&engine->serving) && !engine->burst->full)
		serve_transmit(engine);
	burst_send(engine, 0);
	if (!list_empty(&engine->offers))
		handover_offer(engine);
	return (unsigned)(engine->owner->counters[COUNTER_FRAMES_SENT] - sent);
}

bool engine_busy(const struct engine *engine)
{
	return engine->burst->count > 0 || !list_empty(&engine->dirty) || !list_empty(&engine->serving);
}

/* Frames are there until their peer has them or is gone; but for those of peers that wait here for one before them. */
bool engine_drained(const struct engine *engine)
{
	uint32_t live = engine->small_frames.live + engine->large_frames.live;

	for (unsigned i = 0; i < TRAIN_SIZES; i++)
		live += engine->trains[i].live;
	return live == engine->held;
}

/* Whether a message of which so many bytes are left, with nothing under way, goes as two packets of one length: where
 * a packet's frames take the time, its receiver reads the first while the second is sent. Of use to an answer alone: in
 * a stream the receiver has time. */
static bool engine_halves(const struct engine *engine, const struct connection *connection, uint64_t left,
			  uint32_t packet)
{
	return engine->links[connection->routes.use[LINK_BULK]]->halves && left <= ENGINE_PIECE_MAX &&
	       left > packet / 4 * 3 && (uint16_t)connection->in.next != connection->out.heard;
}

/* A message that needs several packets of the kernel's goes in pieces of a packet each: while one is sent the receiver
 * works on the one before. They are full, since a packet takes its sender about as long as its bytes. Among others,
 * what is left of one goes at once, if that is not too much: the receiver has work. So do fragments, which say
 * themselves what they are of. */
uint32_t engine_piece_max(struct engine *engine, const struct transport_peer *peer, uint64_t left)
{
	const struct connection *connection = connection_of(peer);
	uint32_t most = ENGINE_PIECE_MAX;

	if (engine->codec->fragments_max > 1 || !connection ||
	    (left <= ENGINE_PIECE_MAX && !list_empty(&connection->out.unacked)))
		return engine->codec->eager_max < most ? (uint32_t)engine->codec->eager_max : most;
	most = transmit_piece_max(connection, left);
	return engine_halves(engine, connection, left, most) ? transmit_half(connection, left) : most;
}

/* Before a connection is open nothing is pushed. */
uint32_t engine_record_max(const struct transport_peer *peer)
{
	const struct connection *connection = connection_of(peer);

	return connection && connection->state == CONNECTION_OPEN ? transmit_record_max(connection) : UINT32_MAX;
}

/* A message by itself waits for the trip that asking for it takes, and its copies cost less: so it may be longer, if
 * the window takes all of it at once, and nothing moves bulk by itself. Among others the trip costs nothing; one frame
 * is no other, since it may say that a transfer before is done. Whoever wants messages to be asked for from less on
 * wants that here too. */
static uint64_t engine_eager_alone(const struct engine *engine, const struct connection *connection)
{
	const struct options *options = &engine->owner->options;

	if (options->net_eager_max < ENGINE_PIECE_MAX || options->eager_max < ENGINE_PIECE_MAX ||
	    transmit_kept(connection) > 1 || engine->links[connection->routes.use[LINK_BULK]]->mover)
		return 0;
	return lesser(options->net_eager_alone, transmit_bytes_max(connection));
}

uint64_t engine_eager_max(struct engine *engine, const struct transport_peer *peer)
{
	const struct options *options = &engine->owner->options;
	const struct connection *connection = connection_of(peer);
	uint64_t most = lesser(options->net_eager_max, options->eager_max), alone;

	if (connection && connection->out.rts_only)
		return 0;
	alone = connection ? engine_eager_alone(engine, connection) : 0;
	return lesser(alone > most ? alone : most, engine->codec->eager_max);
}

/* Tell all senders. Who misses it goes on sending data, and hears of it again with the next acknowledgement. */
void engine_backpressure(struct engine *engine)
{
	for (uint32_t i = 0; i < engine->connections.capacity; i++) {
		struct connection *connection = pool_at(&engine->connections, i);

		if (!pool_is_live(&engine->connections, connection) || connection->state != CONNECTION_OPEN)
			continue;
		connection->in.ack_now = connection->in.tell = true;
		connection_dirty(connection);
	}
}

/* ---- In ------------------------------------------------------------------------------------------------- */

/* Lose frames on purpose; xorshift64*, seeded by options. */
static bool engine_inject(struct engine *engine)
{
	uint64_t x = engine->lots;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	engine->lots = x;
	return (x * 0x2545f4914f6cdd1du >> 32) % 1000 < engine->owner->options.inject_loss;
}

/* From one who need not know yet that we want checksums. */
static bool engine_is_first(unsigned type)
{
	return type == PACKET_CONNECT || type == PACKET_ACCEPT || type == PACKET_NACK;
}

static bool engine_intact(struct engine *engine, unsigned type, const uint8_t *frame, size_t length)
{
	bool unset = false;

	if (!engine->codec->intact)
		return true;
	return engine->codec->intact(frame, length, &unset) &&
	       (!unset || !engine->owner->options.checksum || engine_is_first(type));
}

void engine_packet(struct connection *connection, const struct packet *packet, const uint8_t *frame, size_t length)
{
	connection->silence.heard_ns = connection->engine->now_ns;
	if (packet->flags & PACKET_ANSWER) {
		connection->in.ack_now = true;
		connection_dirty(connection);
	}
	switch (packet->type) {
	case PACKET_RECORD:
		transmit_acked(connection, packet);
		arrival_record(connection, packet, frame, length);
		break;
	case PACKET_ACK:
		connection->silence.answered = true;
		connection->in.tell |= (packet->flags & PACKET_ANSWER) != 0;
		connection->out.rts_only = packet->flags & PACKET_BACKPRESSURE;
		transmit_acked(connection, packet);
		break;
	case PACKET_PULL:
		transmit_acked(connection, packet);
		serve_pull_arrived(connection, packet);
		break;
	case PACKET_DATA:
		pull_data_arrived(connection, packet);
		break;
	case PACKET_NACK:
		connection->silence.answered = true;
		engine_count(connection->engine, COUNTER_NACKS_RECEIVED);
		if (packet->nack.reason == NACK_BAD_WINDOW)
			pull_nacked(connection, packet->nack.transfer);
		break;
	default: /* CLOSE */
		transmit_acked(connection, packet);
		handshake_close_arrived(connection, packet);
	}
}

void engine_records(struct connection *connection, const struct arrival_run *runs, unsigned count)
{
	const struct packet *before = NULL;

	for (unsigned i = 0; i < count && connection->state == CONNECTION_OPEN; before = &runs[i++].packet) {
		const struct packet *packet = &runs[i].packet;

		connection->silence.heard_ns = connection->engine->now_ns;
		if (packet->flags & PACKET_ANSWER) {
			connection->in.ack_now = true;
			connection_dirty(connection);
		}
		if (!before || packet->ack != before->ack || packet->credit != before->credit)
			transmit_acked(connection, packet);
		arrival_run(connection, &runs[i]);
	}
}

bool engine_frames(struct engine *engine, struct link *link, const struct path *from, const uint8_t *frames,
		   size_t length, size_t segment)
{
	/* losses are injected frame by frame, and a checksum is of one */
	bool together = engine->naming->records && !engine->owner->options.inject_loss && !engine->checksums;
	bool known = false;

	while (length > 0) {
		size_t some = segment * ENGINE_TOGETHER < length ? segment * ENGINE_TOGETHER : length, step;

		if (!together || some <= segment ||
		    !engine->naming->records(engine, link, from, frames, some, segment, &known)) {
			for (size_t at = 0; at < some; at += step) {
				step = some - at < segment ? some - at : segment;
				known |= engine_frame(engine, link, from, frames + at, step);
			}
		}
		frames += some;
		length -= some;
	}
	return known;
}

bool engine_frame(struct engine *engine, struct link *link, const struct path *from, const uint8_t *frame,
		  size_t length)
{
	struct packet packet;

	engine_count(engine, COUNTER_FRAMES_RECEIVED);
	if (engine->owner->options.inject_loss && engine_inject(engine)) {
		engine_count(engine, COUNTER_DROPPED_INJECTED);
		return false;
	}
	if (length > ENGINE_FRAME_MAX || engine->codec->decode(&packet, frame, length) != 0) {
		engine_count(engine, COUNTER_DROPPED_MALFORMED);
		if (engine->codec->foreign(&packet, frame, length))
			engine->naming->foreign(engine, link, from, &packet, length);
		return false;
	}
	if (!engine_intact(engine, packet.type, frame, length)) {
		engine_count(engine, COUNTER_DROPPED_CHECKSUM);
		return false;
	}
	return engine->naming->frame(engine, link, from, &packet, frame, length);
}

void engine_refused(struct engine *engine, struct link *link, const struct path *to)
{
	struct connection *connection = connection_by_path(engine, link, to);

	for (; connection; connection = connection_next_by_path(connection, link, to))
		if (connection->state != CONNECTION_DEAD)
			silence_refused(connection);
}

void engine_shrink(struct engine *engine, struct link *link, const struct path *to, uint32_t frame_max)
{
	if (frame_max < ENGINE_FRAME_MIN)
		frame_max = ENGINE_FRAME_MIN;
	for (uint32_t i = 0; i < engine->connections.capacity; i++) { /* DATA has a path by which none is looked for */
		struct connection *connection = pool_at(&engine->connections, i);
		const struct route *route = &connection->route[link->index];
		bool bulk = memcmp(&route->bulk, to, sizeof(*to)) == 0;

		if (pool_is_live(&engine->connections, connection) && connection->state != CONNECTION_DEAD &&
		    (bulk || memcmp(&route->records, to, sizeof(*to)) == 0))
			route_shrink(connection, link->index, frame_max, bulk);
	}
}
