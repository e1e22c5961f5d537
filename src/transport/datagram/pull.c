/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pull: bulk in, over frames. The receiver asks for a window block by block, and again for what does not come; the
 * sender only answers (serve.c). Pure. After Open-MX's pull (section 2.3 of its design paper), with a bitmap of the
 * missing frames, time-outs from measured trips, and one credit over all senders, so that many of them do not overrun
 * one receiver.
 *
 * A fetch is the receiver's transfer; its bytes are asked for from the front. A block is a range that was asked for
 * and is not all here. Invariants: the bytes of all blocks that are not late are engine->outstanding, at most
 * outstanding_max and one block for each connection; engine->blocks has them in the order in which their frames are
 * expected.
 */
#include "transport/datagram/burst.h"
#include "transport/datagram/connection.h"

void pull_init(struct engine *engine)
{
	pool_init(&engine->fetches, sizeof(struct fetch), 16, ENGINE_TRANSFERS_MAX);
	pool_init(&engine->block_pool, sizeof(struct block), 16, ENGINE_TRANSFERS_MAX);
	list_init(&engine->blocks);
	list_init(&engine->fetching);
}

void pull_fini(struct engine *engine)
{
	pool_fini(&engine->fetches);
	pool_fini(&engine->block_pool);
}

void pull_begin(struct connection *connection)
{
	list_init(&connection->pull.node);
	list_init(&connection->pull.fetches);
	list_init(&connection->pull.asked);
	list_init(&connection->pull.blocks);
	connection->pull.window = connection->engine->outstanding_max;
}

/* ---- Blocks --------------------------------------------------------------------------------------------- */

uint64_t pull_id(struct engine *engine, const struct fetch *fetch)
{
	return fetch->generation << TRANSFER_BITS | pool_index_of(&engine->fetches, fetch);
}

static struct fetch *fetch_find(struct connection *connection, uint64_t transfer)
{
	struct engine *engine = connection->engine;
	struct fetch *fetch = pool_at(&engine->fetches, (uint32_t)transfer & ((1u << TRANSFER_BITS) - 1));

	return fetch && pool_is_live(&engine->fetches, fetch) && fetch->connection == connection &&
			       pull_id(engine, fetch) == transfer
		       ? fetch
		       : NULL;
}

struct connection *pull_connection(struct engine *engine, uint64_t id)
{
	struct fetch *fetch = pool_at(&engine->fetches, (uint32_t)id & ((1u << TRANSFER_BITS) - 1));

	return fetch && pool_is_live(&engine->fetches, fetch) && pull_id(engine, fetch) == id ? fetch->connection
											      : NULL;
}

uint32_t pull_block_bytes(const struct connection *connection, uint32_t frame)
{
	const struct codec *codec = connection->engine->codec;
	uint32_t frames = codec->data ? codec->block_frames : BATCH_MAX / (frame + connection_data_head(connection));

	if (frames > codec->block_frames)
		frames = codec->block_frames;
	if (frames >= ENGINE_BURST)
		/* a full burst is sent off at once, and would not say how much of it was taken */
		frames = ENGINE_BURST - 1;
	return (frames ? frames : 1) * frame;
}

static uint32_t block_frames(const struct block *block)
{
	return (block->length + block->skew + block->fetch->frame - 1) / block->fetch->frame;
}

static void block_free(struct engine *engine, struct block *block)
{
	struct connection *connection = block->fetch->connection;

	engine->scatter_version++;
	if (!block->late)
		engine->outstanding -= block->length;
	connection->pull.outstanding -= block->length;
	block->fetch->blocks--;
	list_remove(&block->node);
	list_remove(&block->peer_node);
	pool_put(&engine->block_pool, block);
}

/* How long nothing may come before a peer is asked again: by measured trips, twice as long each time. */
static uint64_t pull_timeout(const struct connection *connection)
{
	uint64_t ns = trip_limit(&connection->pull.trip), least_ns = PULL_PROBE_NS;

	if (connection->engine->codec->pull_ns && connection->pull.backoff > 0)
		return connection->engine->codec->pull_ns;
	if (connection->engine->codec->pull_ns || connection->pull.trip.smoothed_ns == 0)
		least_ns = PULL_MIN_NS;
	if (ns < least_ns)
		ns = least_ns;
	ns <<= connection->pull.backoff;
	return connection_spread(connection, ns < RESEND_MAX_NS ? ns : RESEND_MAX_NS, connection->pull.backoff);
}

static void pull_arm(struct connection *connection)
{
	if (list_empty(&connection->pull.blocks)) {
		connection->pull.timeout_ns = 0;
		return;
	}
	connection->pull.timeout_ns = connection->engine->now_ns + pull_timeout(connection);
	connection_wake(connection, connection->pull.timeout_ns);
}

/* DATA that is not to come by the usual link comes by that of its PULL. */
static uint8_t pull_link(const struct connection *connection)
{
	return connection->routes.use[connection->routes.aside ? LINK_BULK : LINK_RECORDS];
}

/* Ask for `length` bytes at `offset`: whole blocks, or of one block the wanted frames. */
static void pull_send(struct fetch *fetch, uint8_t link, uint64_t offset, uint32_t length, uint64_t wanted)
{
	struct connection *connection = fetch->connection;
	struct engine *engine = connection->engine;
	struct packet packet;

	connection_packet(connection, &packet, PACKET_PULL);
	packet.pull.window = fetch->job->window.id;
	packet.pull.transfer = pull_id(engine, fetch);
	packet.pull.offset = offset;
	packet.pull.length = length;
	packet.pull.wanted = wanted;
	packet.pull.frame = fetch->frame;
	packet.pull.total = fetch->length;
	if (connection->routes.aside)
		packet.flags |= PACKET_ASIDE;
	if (connection->pull.backoff > 0)
		packet.flags |= PACKET_ANSWER; /* whether it is the link for bulk alone that says nothing */
	engine->naming->pull(connection, &packet);
	engine_count(engine, COUNTER_PULLS_SENT);
	burst_post(engine, link, &connection->route[link].records, &packet, 0);
}

/* The part of a block from the first missing frame to the last. Where single ones cannot be asked for, all of it could
 * be too much for the way each time, and this part gets shorter. */
static void block_missing(const struct block *block, uint64_t *offset_p, uint32_t *length_p)
{
	uint32_t frame = block->fetch->frame, first = (uint32_t)__builtin_ctzll(block->missing);
	uint32_t last = 63 - (uint32_t)__builtin_clzll(block->missing);
	uint32_t from = first ? first * frame - block->skew : 0, to = (last + 1) * frame - block->skew;

	*offset_p = block->offset + from;
	*length_p = (to < block->length ? to : block->length) - from;
}

static void block_again(struct block *block)
{
	struct fetch *fetch = block->fetch;
	struct connection *connection = fetch->connection;
	struct engine *engine = connection->engine;
	uint64_t offset = block->offset, wanted = block->missing == pull_mask(block_frames(block)) ? 0 : block->missing;
	uint32_t length = block->length;

	engine->scatter_version++;
	block->asked_ns = engine->now_ns;
	block->order = ++connection->pull.order;
	if (block->tries < UINT8_MAX)
		block->tries++;
	list_remove(&block->node);
	list_push_back(&engine->blocks, &block->node);
	list_remove(&block->peer_node);
	list_push_back(&connection->pull.blocks, &block->peer_node);
	engine_count(engine, COUNTER_PULLS_AGAIN);
	if (!engine->codec->selective) {
		block_missing(block, &offset, &length);
		wanted = 0;
	}
	/* As repeated records do, every other repetition goes by another link. */
	pull_send(fetch,
		  block->tries & 1 ? route_other(connection, pull_link(connection), block->tries / 2, 0)
				   : pull_link(connection),
		  offset, length, wanted);
}

/* Frames end where pages of the sender's memory do, so where a window begins within one the first is shorter. */
static uint32_t fetch_skew(const struct fetch *fetch, uint64_t offset)
{
	const struct codec *codec = fetch->connection->engine->codec;

	return codec->data ? (uint32_t)((offset + (fetch->job->window.id >> 16)) % codec->data) : 0;
}

static struct block *block_new(struct fetch *fetch, uint64_t offset, uint32_t length)
{
	struct connection *connection = fetch->connection;
	struct engine *engine = connection->engine;
	struct block *block = pool_get(&engine->block_pool);

	if (!block)
		return NULL;
	*block = (struct block){
		.fetch = fetch,
		.offset = offset,
		.length = length,
		.skew = fetch_skew(fetch, offset),
		.asked_ns = engine->now_ns,
		.order = ++connection->pull.order,
	};
	fetch->blocks++;
	block->missing = pull_mask(block_frames(block));
	engine->scatter_version++;
	list_push_back(&engine->blocks, &block->node);
	list_push_back(&connection->pull.blocks, &block->peer_node);
	engine->outstanding += length;
	connection->pull.outstanding += length;
	return block;
}

/* ---- Fetches -------------------------------------------------------------------------------------------- */

static void pull_fetch_end(struct fetch *fetch, int status)
{
	struct connection *connection = fetch->connection;
	struct engine *engine = connection->engine;
	struct transport_fetch *job = fetch->job;
	struct list_node *node = list_first(&connection->pull.blocks), *next;

	for (; node; node = next) {
		struct block *block = container_of(node, struct block, peer_node);

		next = list_next(&connection->pull.blocks, node);
		if (block->fetch == fetch)
			block_free(engine, block);
	}
	list_remove(&fetch->node);
	if (list_empty(&connection->pull.fetches))
		list_remove(&connection->pull.node);
	if (!status)
		engine->owner->counters[COUNTER_BULK_BYTES] += fetch->length;
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
	fetch->length = job->window.length < job->vector->length ? job->window.length : job->vector->length;
	fetch->asked = fetch->received = 0;
	fetch->generation = fetch->generation % ((UINT64_C(1) << GENERATION_BITS) - 1) + 1;
	fetch->blocks = 0;
	fetch->frame = fetch_frame(connection);
	if (list_empty(&connection->pull.fetches))
		list_push_back(&engine->fetching, &connection->pull.node);
	list_push_back(&connection->pull.fetches, &fetch->node);
	if (fetch->length == 0)
		pull_fetch_end(fetch, 0);
}

/* Ask for the next bytes of a connection's oldest fetch: at most `credit`. Returns how many. */
static uint64_t fetch_ask(struct fetch *fetch, uint64_t credit)
{
	struct connection *connection = fetch->connection;
	const struct codec *codec = connection->engine->codec;
	uint32_t bytes = pull_block_bytes(connection, fetch->frame);
	uint64_t start = fetch->asked, sent = start; /* PULLs were sent for all before it */
	uint32_t blocks = 0;

	while (fetch->asked < fetch->length && fetch->asked - start < credit && fetch->blocks < codec->blocks_max) {
		uint64_t left = fetch->length - fetch->asked;
		uint32_t most = bytes - fetch_skew(fetch, fetch->asked);
		uint32_t length = left < most ? (uint32_t)left : most;

		if (fetch->asked > start && fetch->asked - start + length > credit)
			break;
		if (!block_new(fetch, fetch->asked, length))
			break;
		fetch->asked += length;
		if (++blocks % codec->pull_blocks)
			continue;
		pull_send(fetch, pull_link(connection), sent, (uint32_t)(fetch->asked - sent), 0);
		sent = fetch->asked;
	}
	if (fetch->asked == start)
		return 0;
	if (connection->pull.timeout_ns == 0)
		pull_arm(connection);
	if (sent < fetch->asked)
		pull_send(fetch, pull_link(connection), sent, (uint32_t)(fetch->asked - sent), 0);
	if (fetch->asked == fetch->length) {
		list_remove(&fetch->node);
		list_push_back(&connection->pull.asked, &fetch->node);
		if (list_empty(&connection->pull.fetches))
			list_remove(&connection->pull.node);
	}
	return fetch->asked - start;
}

/* How much may be asked of a connection now. Not little by little, but as long as nothing is under way. */
static uint64_t pull_credit(const struct connection *connection, const struct fetch *fetch)
{
	const struct engine *engine = connection->engine;
	uint64_t left = fetch->length - fetch->asked, part = engine->outstanding_max / PULL_SHARE;
	uint64_t window = connection->pull.window > connection->pull.outstanding
				  ? connection->pull.window - connection->pull.outstanding
				  : 0;
	uint64_t all =
		engine->outstanding_max > engine->outstanding ? engine->outstanding_max - engine->outstanding : 0;
	uint64_t credit = window < all ? window : all;

	if (all > 0 && connection->pull.outstanding == 0)
		return credit && credit < part ? credit : part; /* at least one block */
	if (credit < part && credit < left)
		return 0;
	return credit < part ? credit : part;
}

void pull_ask(struct engine *engine)
{
	struct list_node *node = list_first(&engine->fetching), *last = engine->fetching.prev;
	uint64_t window = engine->owner->options.net_window, room = engine->links[engine->order[LINK_BULK][0]]->room;

	if (window == 0) /* room shrinks after overflows */
		window = room < WINDOW_AUTO ? room : WINDOW_AUTO;
	engine->outstanding_max = window;
	/* Each connection in turn; who was asked goes behind, and has another turn while there is credit. */
	while (node && engine->outstanding < engine->outstanding_max) {
		struct connection *connection = container_of(node, struct connection, pull.node);
		struct fetch *fetch = container_of(list_first(&connection->pull.fetches), struct fetch, node);
		uint64_t credit = pull_credit(connection, fetch);
		struct list_node *next = node == last ? NULL : node->next;

		if (credit > 0 && fetch_ask(fetch, credit) > 0) {
			if (!list_empty(&connection->pull.fetches)) {
				list_remove(node);
				list_push_back(&engine->fetching, node);
				last = node;
			}
			if (!next)
				next = list_first(&engine->fetching);
			if (!list_empty(&engine->fetching))
				last = engine->fetching.prev;
		}
		node = next;
	}
}

/* ---- What comes, and what does not ---------------------------------------------------------------------- */

/* The window grows by what comes and narrows by twice what is lost: so it stays wide where as much as one in five is
 * by bad luck, and becomes least where a third is for want of room. */
static void pull_grow(struct connection *connection, uint32_t bytes)
{
	uint64_t most = connection->engine->outstanding_max;

	connection->pull.window = connection->pull.window + bytes < most ? connection->pull.window + bytes : most;
}

static void pull_shrink(struct connection *connection, uint64_t lost, uint64_t least)
{
	if (connection->pull.window > least + PULL_LOSS * lost)
		connection->pull.window -= PULL_LOSS * lost;
	else if (connection->pull.window > least)
		connection->pull.window = least;
}

/* Blocks asked for before this one and still not here have lost frames: ask again, each once a trip. */
static void blocks_overtaken(struct connection *connection, uint32_t order)
{
	struct list_node *node = list_first(&connection->pull.blocks);
	uint32_t newest = connection->pull.order;

	while (node) {
		struct block *block = container_of(node, struct block, peer_node);

		node = list_next(&connection->pull.blocks, node);
		if ((int32_t)(block->order - order) >= 0 || (int32_t)(block->order - newest) > 0)
			return;
		if (block->tries > 0 && connection->engine->codec->pull_ns)
			continue; /* all of it comes again, so once a time-out has to do */
		pull_shrink(connection, (uint64_t)__builtin_popcountll(block->missing) * block->fetch->frame,
			    2 * (uint64_t)block->length);
		block_again(block);
	}
}

static struct block *block_find(struct connection *connection, const struct fetch *fetch, uint64_t offset)
{
	struct list_node *node;

	for (node = list_first(&connection->pull.blocks); node; node = list_next(&connection->pull.blocks, node)) {
		struct block *block = container_of(node, struct block, peer_node);

		if (block->fetch == fetch && offset >= block->offset && offset - block->offset < block->length)
			return block;
	}
	return NULL;
}

/* Does what has come answer the latest PULL of its block? Not where that was sent just now: then an earlier one's
 * answer was late. */
static bool block_answers(const struct block *block)
{
	struct connection *connection = block->fetch->connection;
	uint64_t ns = connection->engine->now_ns - block->asked_ns;

	if (block->tries > 0)
		return ns >= connection->pull.trip.least_ns;
	trip_shorten(&connection->pull.trip, ns);
	return true;
}

void pull_received(struct block *block, uint32_t index)
{
	struct fetch *fetch = block->fetch;
	struct connection *connection = fetch->connection;
	struct engine *engine = connection->engine;
	uint32_t order = block->order, length = block->length;
	bool answers = block_answers(block), last;

	block->missing &= ~(UINT64_C(1) << index);
	connection->pull.fed_ns = engine->now_ns;
	connection->pull.starved = 0;
	engine->scatter_version++;
	connection->pull.backoff = 0; /* there is a way: whatever else was lost is no reason to wait longer */
	last = block->missing >> index == 0;
	if (last && block->tries == 0) /* else it would not be known which PULL the trip was of */
		trip_measure(&connection->pull.trip, engine->now_ns - block->asked_ns);
	pull_grow(connection, fetch->frame);
	if (block->missing == 0) {
		fetch->received += length;
		block_free(engine, block);
	} else {
		order += last; /* its own earlier frames are late as well */
		answers &= last || engine->codec->selective; /* what is asked for again else costs more */
	}
	pull_arm(connection);
	if (answers && !list_empty(&connection->pull.blocks) &&
	    container_of(list_first(&connection->pull.blocks), struct block, peer_node)->order != order)
		blocks_overtaken(connection, order);
	if (fetch->received == fetch->length)
		pull_fetch_end(fetch, 0);
}

/* Which frame of which block it is; NULL: none that is missing. */
static struct block *data_block(struct connection *connection, const struct packet *packet, uint32_t *index_p)
{
	struct engine *engine = connection->engine;
	struct fetch *fetch = fetch_find(connection, packet->data.transfer);
	uint64_t offset = packet->data.offset;
	struct block *block;
	uint32_t within, start, left;

	if (!fetch || offset >= fetch->asked) {
		engine_count(engine, fetch ? COUNTER_DROPPED_MALFORMED : COUNTER_FRAMES_DUPLICATE);
		return NULL;
	}
	block = block_find(connection, fetch, offset);
	if (!block) {
		engine_count(engine, COUNTER_FRAMES_DUPLICATE);
		return NULL;
	}
	left = block->length - (uint32_t)(offset - block->offset);
	within = (uint32_t)(offset - block->offset) + block->skew;
	start = within % fetch->frame;
	if ((start != 0 && offset != block->offset) ||
	    packet->length != (left < fetch->frame - start ? left : fetch->frame - start)) {
		engine_count(engine, COUNTER_DROPPED_MALFORMED);
		return NULL;
	}
	*index_p = within / fetch->frame;
	if (!(block->missing >> *index_p & 1)) {
		engine_count(engine, COUNTER_FRAMES_DUPLICATE);
		return NULL;
	}
	return block;
}

void pull_data_arrived(struct connection *connection, const struct packet *packet)
{
	uint32_t index;
	struct block *block = data_block(connection, packet, &index);

	if (!block)
		return;
	vector_write(block->fetch->job->vector, packet->data.offset, packet->payload, packet->length);
	pull_received(block, index);
}

void pull_nacked(struct connection *connection, uint64_t transfer)
{
	struct fetch *fetch = fetch_find(connection, transfer);

	if (fetch)
		pull_fetch_end(fetch, THOLE_ERR_PROTOCOL);
}

/* ---- Time, and the end ---------------------------------------------------------------------------------- */

void pull_end(struct connection *connection)
{
	struct list_node *node;

	while ((node = list_first(&connection->pull.asked)) || (node = list_first(&connection->pull.fetches)))
		pull_fetch_end(container_of(node, struct fetch, node),
			       connection->peer->gone_status ? connection->peer->gone_status : THOLE_ERR_PEER);
	connection->pull.timeout_ns = 0;
}

/* A block that is late takes no credit from others: one slow or dead peer delays no other. */
static void block_late(struct block *block)
{
	if (!block->late)
		block->fetch->connection->engine->outstanding -= block->length;
	block->late = true;
}

/* Nothing has come for some time. If that was a short one, perhaps only a PULL was lost, or the last frames: ask for
 * the oldest block again, whose frames then say of all others whether they are lost. Else ask for all that is late,
 * with less under way from now on. */
static void pull_late(struct connection *connection)
{
	const struct codec *codec = connection->engine->codec;
	uint64_t now_ns = connection->engine->now_ns, timeout_ns = pull_timeout(connection);
	bool poll = timeout_ns < PULL_MIN_NS, again = codec->pull_ns == 0 || connection->pull.backoff > 0;
	uint32_t newest = connection->pull.order;
	struct list_node *node = list_first(&connection->pull.blocks);
	unsigned left = poll ? 1 : RESEND_BURST;

	if (!poll && again)
		connection->pull.window = connection->pull.window / 2 > 1 ? connection->pull.window / 2 : 1;
	while (node && left > 0) {
		struct block *block = container_of(node, struct block, peer_node);

		node = list_next(&connection->pull.blocks, node);
		if ((int32_t)(block->order - newest) > 0)
			break;
		if (now_ns - block->asked_ns < timeout_ns)
			continue;
		if (!poll)
			block_late(block);
		if (again)
			block_again(block);
		left -= again;
	}
	if (connection->pull.backoff < 16)
		connection->pull.backoff++;
	pull_arm(connection);
}

/* Blocks are late again. A peer that computes says nothing at all; one that says other things would have sent them.
 * Time-outs get long where trips are: another link must be tried well before silence_stalls takes the peer for lost. */
static void pull_starve(struct connection *connection)
{
	struct pull *pull = &connection->pull;
	uint64_t now_ns = connection->engine->now_ns;

	if (pull->late_ns && connection->silence.heard_ns > pull->late_ns && pull->fed_ns < pull->late_ns &&
	    pull->starved++ == 0)
		pull->starved_ns = pull->late_ns;
	pull->late_ns = now_ns;
	if (pull->starved < LINK_STARVED &&
	    (pull->starved < 2 || now_ns - pull->starved_ns < connection->engine->owner->options.peer_timeout / 4))
		return;
	pull->starved = 0;
	route_leave(connection, connection->routes.use[LINK_BULK]);
}

uint64_t pull_expire(struct connection *connection)
{
	if (connection->pull.timeout_ns && connection->pull.timeout_ns <= connection->engine->now_ns) {
		pull_starve(connection);
		pull_late(connection);
	}
	return connection->pull.timeout_ns ? connection->pull.timeout_ns : UINT64_MAX;
}
