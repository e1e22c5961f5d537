/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pull: bulk in, over frames. The receiver asks for a window block by block, and again for what does not come; the
 * sender only answers (serve.c). block.c keeps the books; here are fetches, PULLs and the links by which they go. Pure.
 */
#include "transport/datagram/burst.h"
#include "transport/datagram/connection.h"

static struct block *pull_block_get(struct block_peer *peer)
{
	return pool_get(&container_of(peer->all, struct engine, blocks)->block_pool);
}

static void pull_block_put(struct block_peer *peer, struct block *block)
{
	pool_put(&container_of(peer->all, struct engine, blocks)->block_pool, block);
}

/* DATA that is not to come by the usual link comes by that of its PULL. */
static uint8_t pull_link(const struct connection *connection)
{
	return connection->routes.use[connection->routes.aside ? LINK_BULK : LINK_RECORDS];
}

/* What waits for data has a timer. */
static void pull_wake(struct connection *connection)
{
	if (connection->pull.peer.timeout_ns)
		connection_wake(connection, connection->pull.peer.timeout_ns);
}

static void pull_send(struct block_fetch *blocks, const struct block_pull *pull)
{
	const struct fetch *fetch = container_of(blocks, struct fetch, blocks);
	struct connection *connection = fetch->connection;
	struct engine *engine = connection->engine;
	uint8_t link = pull_link(connection);
	struct packet packet;

	if (pull->tries > 0)
		engine_count(engine, COUNTER_PULLS_AGAIN);
	if (pull->tries & 1) /* as repeated records do, every other repetition goes by another link */
		link = route_other(connection, link, pull->tries / 2, 0);
	connection_packet(connection, &packet, PACKET_PULL);
	packet.pull.window = fetch->job->window.id;
	packet.pull.transfer = pull_id(engine, fetch);
	packet.pull.offset = pull->offset;
	packet.pull.length = pull->length;
	packet.pull.wanted = pull->wanted;
	packet.pull.frame = blocks->frame;
	packet.pull.total = blocks->length;
	if (connection->routes.aside)
		packet.flags |= PACKET_ASIDE;
	if (connection->pull.peer.backoff > 0)
		packet.flags |= PACKET_ANSWER; /* whether it is the link for bulk alone that says nothing */
	engine->naming->pull(connection, &packet);
	engine_count(engine, COUNTER_PULLS_SENT);
	burst_post(engine, link, &connection->route[link].records, &packet, 0);
	pull_wake(connection);
}

void pull_init(struct engine *engine)
{
	static const struct block_calls calls = {.get = pull_block_get, .put = pull_block_put, .pull = pull_send};
	struct block_rules rules = block_rules(engine->codec);

	pool_init(&engine->fetches, sizeof(struct fetch), 16, ENGINE_TRANSFERS_MAX);
	pool_init(&engine->block_pool, sizeof(struct block), 16, ENGINE_TRANSFERS_MAX);
	block_init(&engine->blocks, &rules, &calls);
}

void pull_fini(struct engine *engine)
{
	pool_fini(&engine->fetches);
	pool_fini(&engine->block_pool);
}

void pull_begin(struct connection *connection)
{
	block_peer_init(&connection->pull.peer, &connection->engine->blocks, connection->session);
}

uint32_t pull_block_bytes(const struct connection *connection, uint32_t frame)
{
	return block_bytes(&connection->engine->blocks.rules, frame, connection_data_head(connection));
}

/* ---- Fetches -------------------------------------------------------------------------------------------- */

uint64_t pull_id(struct engine *engine, const struct fetch *fetch)
{
	return fetch->generation << TRANSFER_BITS | pool_index_of(&engine->fetches, fetch);
}

struct fetch *pull_by_id(struct engine *engine, uint64_t id)
{
	struct fetch *fetch = pool_at(&engine->fetches, (uint32_t)id & ((1u << TRANSFER_BITS) - 1));

	return fetch && pool_is_live(&engine->fetches, fetch) && pull_id(engine, fetch) == id ? fetch : NULL;
}

static struct fetch *fetch_find(struct connection *connection, uint64_t transfer)
{
	struct fetch *fetch = pull_by_id(connection->engine, transfer);

	return fetch && fetch->connection == connection ? fetch : NULL;
}

struct connection *pull_connection(struct engine *engine, uint64_t id)
{
	struct fetch *fetch = pull_by_id(engine, id);

	return fetch ? fetch->connection : NULL;
}

static void pull_fetch_end(struct fetch *fetch, int status)
{
	struct engine *engine = fetch->connection->engine;
	struct transport_fetch *job = fetch->job;

	if (!fetch->moved)
		block_fetch_end(&fetch->blocks);
	if (!status)
		engine->owner->counters[COUNTER_BULK_BYTES] += fetch->blocks.length;
	pool_put(&engine->fetches, fetch);
	engine->owner->up->fetched(job, status);
}

/* The frame's payload for data that comes from a peer: what was seen to arrive from it, in whole words. */
static uint32_t fetch_frame(const struct connection *connection)
{
	const struct codec *codec = connection->engine->codec;
	const struct route *route = &connection->route[connection->routes.use[LINK_BULK]];
	/* a first CONNECT may be short */
	uint32_t max = route->frame_in > ENGINE_FRAME_MIN ? route->frame_in : ENGINE_FRAME_MIN;

	return codec->data ? codec->data : (max - connection_data_head(connection)) & ~7u;
}

/* A name that no fetch has had. */
static void fetch_name(struct fetch *fetch)
{
	fetch->generation = fetch->generation % ((UINT64_C(1) << GENERATION_BITS) - 1) + 1;
}

void pull_fetch(struct engine *engine, struct transport_fetch *job)
{
	struct connection *connection = connection_of(job->peer);
	struct fetch *fetch = connection && connection->state == CONNECTION_OPEN ? pool_get(&engine->fetches) : NULL;

	if (!fetch) {
		engine->owner->up->fetched(job, connection && connection->state == CONNECTION_OPEN ? THOLE_ERR_MEMORY
												   : THOLE_ERR_PEER);
		return;
	}
	engine_count(engine, COUNTER_BULK_NETWORK);
	fetch->job = job;
	fetch->connection = connection;
	fetch->moved = false;
	fetch_name(fetch);
	fetch->blocks.length = job->window.length < job->vector->length ? job->window.length : job->vector->length;
	fetch->blocks.place = job->window.id >> 16;
	fetch->blocks.frame = fetch_frame(connection);
	fetch->blocks.head = connection_data_head(connection);
	if (handover_fetch(fetch))
		return;
	block_fetch_begin(&fetch->blocks, &connection->pull.peer);
	if (fetch->blocks.length == 0)
		pull_fetch_end(fetch, 0);
}

void pull_moved(struct fetch *fetch)
{
	pull_fetch_end(fetch, 0);
}

void pull_anew(struct fetch *fetch)
{
	fetch->moved = false;
	fetch_name(fetch);
	fetch->blocks.frame = fetch_frame(fetch->connection);
	block_fetch_begin(&fetch->blocks, &fetch->connection->pull.peer);
}

void pull_narrow(struct connection *connection)
{
	struct block_peer *peer = &connection->pull.peer;
	struct list_node *node, all;

	handover_back(connection);
	list_init(&all);
	while ((node = list_first(&peer->asked)) || (node = list_first(&peer->fetches))) {
		block_fetch_end(&container_of(node, struct fetch, blocks.node)->blocks);
		list_push_back(&all, node);
	}
	while ((node = list_first(&all))) {
		list_remove(node);
		pull_anew(container_of(node, struct fetch, blocks.node));
	}
}

void pull_lost(struct fetch *fetch)
{
	const struct transport_peer *peer = fetch->connection->peer;

	if (fetch->moved)
		list_remove(&fetch->blocks.node);
	pull_fetch_end(fetch, peer->gone_status ? peer->gone_status : THOLE_ERR_PEER);
}

uint64_t pull_credit(struct engine *engine)
{
	const struct link *link = engine->links[engine->order[LINK_BULK][0]];
	uint64_t window = engine->owner->options.net_window, most = link->cached;

	if (window == 0) { /* room shrinks after overflows */
		most = most < WINDOW_AUTO ? WINDOW_AUTO : most < WINDOW_MOST ? most : WINDOW_MOST;
		window = link->room < most ? link->room : most;
	}
	engine->blocks.outstanding_max = window;
	return window;
}

void pull_ask(struct engine *engine)
{
	pull_credit(engine);
	block_ask(&engine->blocks, engine->now_ns);
}

/* ---- What comes, and what does not ---------------------------------------------------------------------- */

void pull_received(struct block *block, uint32_t index, uint32_t count)
{
	struct fetch *fetch = pull_fetch_of(block);
	struct connection *connection = fetch->connection;
	struct engine *engine = connection->engine;

	connection->pull.fed_ns = engine->now_ns;
	connection->silence.starved = 0;
	if (block_received(block, index, count, engine->away, engine->now_ns))
		pull_fetch_end(fetch, 0);
	else
		pull_wake(connection);
}

void pull_data_arrived(struct connection *connection, const struct packet *packet)
{
	struct engine *engine = connection->engine;
	struct fetch *fetch = fetch_find(connection, packet->data.transfer);
	enum block_verdict verdict = BLOCK_DUPLICATE;
	struct block *block;
	uint32_t index;

	block = fetch && !fetch->moved
			? block_find(&fetch->blocks, packet->data.offset, packet->length, &index, &verdict)
			: NULL;
	if (!block) {
		engine_count(engine, verdict == BLOCK_DUPLICATE ? COUNTER_FRAMES_DUPLICATE : COUNTER_DROPPED_MALFORMED);
		return;
	}
	vector_write(fetch->job->vector, packet->data.offset, packet->payload, packet->length);
	pull_received(block, index, 1);
}

void pull_nacked(struct connection *connection, uint64_t transfer)
{
	struct fetch *fetch = fetch_find(connection, transfer);

	if (!fetch)
		return;
	if (fetch->moved)
		handover_cancel(fetch);
	pull_fetch_end(fetch, THOLE_ERR_PROTOCOL);
}

/* ---- Time, and the end ---------------------------------------------------------------------------------- */

void pull_end(struct connection *connection)
{
	struct block_peer *peer = &connection->pull.peer;
	struct list_node *node;

	while ((node = list_first(&peer->asked)) || (node = list_first(&peer->fetches)))
		pull_lost(container_of(node, struct fetch, blocks.node));
}

/* Blocks are late again. A peer that computes says nothing at all; one that says other things would have sent them.
 * Time-outs get long where trips are: another link must be tried well before silence_stalls takes the peer for lost. */
static void pull_starve(struct connection *connection)
{
	struct pull *pull = &connection->pull;
	uint64_t now_ns = connection->engine->now_ns;

	if (pull->late_ns && connection->silence.heard_ns > pull->late_ns && pull->fed_ns < pull->late_ns &&
	    connection->silence.starved++ == 0)
		pull->starved_ns = pull->late_ns;
	pull->late_ns = now_ns;
	if (connection->silence.starved < LINK_STARVED &&
	    (connection->silence.starved < 2 ||
	     now_ns - pull->starved_ns < connection->engine->owner->options.peer_timeout / 4))
		return;
	connection->silence.starved = 0;
	route_leave(connection, connection->routes.use[LINK_BULK]);
}

/* Whether who was asked just now is at work: it says other things, and has made no call yet that looks for PULLs. Then
 * nothing is lost; to ask again would have all come twice. */
static bool pull_is_early(const struct connection *connection)
{
	const struct block_peer *peer = &connection->pull.peer;
	const struct block *oldest = container_of(list_first(&peer->blocks), struct block, peer_node);
	uint64_t now_ns = connection->engine->now_ns;

	return now_ns - connection->silence.heard_ns < PULL_PROBE_NS && now_ns - oldest->asked_ns < PULL_MIN_NS;
}

uint64_t pull_expire(struct connection *connection)
{
	struct block_peer *peer = &connection->pull.peer;

	if (peer->timeout_ns && peer->timeout_ns <= connection->engine->now_ns && pull_is_early(connection))
		peer->timeout_ns = connection->silence.heard_ns + PULL_PROBE_NS;
	if (peer->timeout_ns && peer->timeout_ns <= connection->engine->now_ns) {
		pull_starve(connection);
		block_expire(peer, connection->engine->now_ns);
	}
	return peer->timeout_ns ? peer->timeout_ns : UINT64_MAX;
}
