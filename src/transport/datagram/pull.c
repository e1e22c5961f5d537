/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pull: bulk over frames. The receiver asks for a window block by block, and again for what does not come; the sender only
 * answers. Pure. After Open-MX's pull (section 2.3 of its design paper), with a bitmap of the missing frames, time-outs
 * from measured trips, and one credit over all senders, so that many of them do not overrun one receiver.
 *
 * A fetch is the receiver's transfer; its bytes are asked for from the front. A block is a range that was asked for and is not
 * all here. A serve is a PULL that waits to be answered. Invariants: the bytes of all blocks that are not late are
 * engine->outstanding, at most outstanding_max and one block for each connection; engine->blocks has them in the order in which their frames are expected.
 */
#include <stdlib.h>
#include <string.h>

#include "message/message.h"
#include "transport/datagram/connection.h"

enum {
	TRANSFER_BITS = 20,             /* of a transfer's id are the pool's index; above them is a generation, */
	GENERATION_BITS = PACKET_TRANSFER_BITS - TRANSFER_BITS, /* of so many that none comes again while a session lasts */
	PULL_LOOK_NS = 100000,          /* nobody is asked sooner whether a PULL was lost: nothing may have been but a look at a link */
	PULL_MIN_NS = 2000000,          /* no block is late sooner: a sender may have lost its core for a while */
	PULL_LOSS = 2,                  /* by so many bytes a window gets narrower for each that is lost: least where a third is */
	PULL_SHARE = 4,                 /* the credit is asked for in parts of 1/4, to spare PULLs */
	WINDOW_AUTO = 512 * 1024,       /* bytes of credit where net_window says nothing: more only leaves the caches */
	BATCH_MAX = 65507,              /* bytes of a UDP packet, and of what the kernel cuts into several */
	LANDING_FEW = 8,                /* packets in a row with less than half of the frames that were foreseen */
};

struct block {
	struct list_node node;          /* engine->blocks */
	struct list_node peer_node;     /* connection->blocks */
	struct fetch *fetch;
	uint64_t offset;
	uint64_t missing;               /* bit i: frame i is not here */
	uint64_t asked_ns;
	uint32_t length;
	uint32_t skew;                  /* bytes by which the first frame is shorter than others */
	uint32_t order;                 /* counts the PULLs of this connection */
	uint8_t tries;
	bool late;                      /* it timed out: not in engine->outstanding any more */
};

struct fetch {
	struct list_node node;          /* connection->fetches, or ->asked */
	struct request *request;
	struct connection *connection;
	uint64_t length;
	uint64_t asked, received;       /* bytes; asked: all before were asked for at least once */
	uint64_t generation;            /* never 0 */
	uint32_t frame;                 /* bytes of payload a frame */
	uint32_t blocks;                /* that are not all here */
};

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

int pull_init(struct engine *engine)
{
	pool_init(&engine->fetches, sizeof(struct fetch), 16, ENGINE_TRANSFERS_MAX);
	pool_init(&engine->block_pool, sizeof(struct block), 16, ENGINE_TRANSFERS_MAX);
	pool_init(&engine->serves, sizeof(struct serve), 16, ENGINE_TRANSFERS_MAX);
	list_init(&engine->blocks);
	list_init(&engine->fetching);
	list_init(&engine->serving);
	engine->landing_version = 1; /* a new landing has 0 */
	engine->repair = malloc(LANDING_SPILL);
	return engine->repair ? 0 : THOLE_ERR_MEMORY;
}

void pull_fini(struct engine *engine)
{
	pool_fini(&engine->fetches);
	pool_fini(&engine->block_pool);
	pool_fini(&engine->serves);
	free(engine->repair);
}

/* ---- The receiver's side: blocks ---------------------------------------------------------------------------- */

static uint64_t fetch_id(struct engine *engine, const struct fetch *fetch)
{
	return fetch->generation << TRANSFER_BITS | pool_index_of(&engine->fetches, fetch);
}

static struct fetch *fetch_find(struct connection *connection, uint64_t transfer)
{
	struct engine *engine = connection->engine;
	struct fetch *fetch = pool_at(&engine->fetches, (uint32_t)transfer & ((1u << TRANSFER_BITS) - 1));

	return fetch && pool_is_live(&engine->fetches, fetch) && fetch->connection == connection &&
			       fetch_id(engine, fetch) == transfer
		       ? fetch
		       : NULL;
}

struct connection *fetch_connection(struct engine *engine, uint64_t id)
{
	struct fetch *fetch = pool_at(&engine->fetches, (uint32_t)id & ((1u << TRANSFER_BITS) - 1));

	return fetch && pool_is_live(&engine->fetches, fetch) && fetch_id(engine, fetch) == id ? fetch->connection : NULL;
}

/* Bytes of a block: its frames go out as one packet of the kernel's, which is cut into frames late. */
static uint32_t block_bytes(const struct connection *connection, uint32_t frame)
{
	const struct codec *codec = connection->engine->codec;
	uint32_t frames = codec->data ? codec->block_frames : BATCH_MAX / (frame + connection_data_head(connection));

	if (frames > codec->block_frames)
		frames = codec->block_frames;
	if (frames >= ENGINE_BURST)
		frames = ENGINE_BURST - 1; /* a full burst is sent off at once, and would not say how much of it was taken */
	return (frames ? frames : 1) * frame;
}

static uint32_t block_frames(const struct block *block)
{
	return (block->length + block->skew + block->fetch->frame - 1) / block->fetch->frame;
}

static uint64_t frames_mask(uint32_t frames)
{
	return frames >= 64 ? UINT64_MAX : (UINT64_C(1) << frames) - 1;
}

static void block_free(struct engine *engine, struct block *block)
{
	struct connection *connection = block->fetch->connection;

	engine->landing_version++;
	if (!block->late)
		engine->outstanding -= block->length;
	connection->outstanding -= block->length;
	block->fetch->blocks--;
	list_remove(&block->node);
	list_remove(&block->peer_node);
	pool_put(&engine->block_pool, block);
}

/* How long nothing may come before a peer is asked again: by measured trips, twice as long each time. */
static uint64_t pull_timeout(const struct connection *connection)
{
	uint64_t ns = connection->pull_trip_ns + 4 * connection->pull_deviation_ns, least_ns = PULL_LOOK_NS;

	if (connection->engine->codec->pull_ns && connection->pull_backoff > 0)
		return connection->engine->codec->pull_ns;
	if (connection->engine->codec->pull_ns || connection->pull_trip_ns == 0)
		least_ns = PULL_MIN_NS;
	if (ns < least_ns)
		ns = least_ns;
	ns <<= connection->pull_backoff;
	return connection_spread(connection, ns < RESEND_MAX_NS ? ns : RESEND_MAX_NS, connection->pull_backoff);
}

static void pull_arm(struct connection *connection)
{
	if (list_empty(&connection->blocks)) {
		connection->pull_ns = 0;
		return;
	}
	connection->pull_ns = connection->engine->now_ns + pull_timeout(connection);
	connection_wake(connection, connection->pull_ns);
}

/* Ask for `length` bytes at `offset`: whole blocks, or of one block the wanted frames. */
static void pull_send(struct fetch *fetch, uint8_t link, uint64_t offset, uint32_t length, uint64_t wanted)
{
	struct connection *connection = fetch->connection;
	struct engine *engine = connection->engine;
	struct packet packet;

	connection_packet(connection, &packet, PACKET_PULL);
	if (engine->codec->credited) /* else it carries no acknowledgement */
		sequence_report(connection, &packet);
	packet.pull.window = fetch->request->window.id;
	packet.pull.transfer = fetch_id(engine, fetch);
	packet.pull.offset = offset;
	packet.pull.length = length;
	packet.pull.wanted = wanted;
	packet.pull.frame = fetch->frame;
	packet.pull.total = fetch->length;
	if (connection_is_aside(connection))
		packet.flags |= PACKET_ASIDE;
	if (connection->pull_backoff > 0 && engine->codec->credited)
		packet.flags |= PACKET_ANSWER; /* whether it is the link for bulk alone that says nothing */
	if (engine->numbers)
		numbers_pull(engine, &packet.pull, fetch->frame);
	engine_count(engine, COUNTER_PULLS_SENT);
	engine_post(engine, link, &connection->route[link].records, &packet, 0);
}

/* The part of a block from the first missing frame to the last. Where single ones cannot be asked for, all of it could be too much
 * for the way each time, and this part gets shorter. */
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
	uint64_t offset = block->offset, wanted = block->missing == frames_mask(block_frames(block)) ? 0 : block->missing;
	uint32_t length = block->length;

	engine->landing_version++;
	block->asked_ns = engine->now_ns;
	block->order = ++connection->pull_order;
	if (block->tries < UINT8_MAX)
		block->tries++;
	list_remove(&block->node);
	list_push_back(&engine->blocks, &block->node);
	list_remove(&block->peer_node);
	list_push_back(&connection->blocks, &block->peer_node);
	engine_count(engine, COUNTER_PULLS_AGAIN);
	if (!engine->codec->selective) {
		block_missing(block, &offset, &length);
		wanted = 0;
	}
	/* As repeated records do, every other repetition goes by the other link. */
	pull_send(fetch, block->tries & 1 ? connection->bulk_link : connection->record_link, offset, length, wanted);
}

/* Frames end where pages of the sender's memory do, so where a window begins within one the first is shorter. */
static uint32_t fetch_skew(const struct fetch *fetch, uint64_t offset)
{
	const struct codec *codec = fetch->connection->engine->codec;

	return codec->data ? (uint32_t)((offset + (fetch->request->window.id >> 16)) % codec->data) : 0;
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
		.order = ++connection->pull_order,
	};
	fetch->blocks++;
	block->missing = frames_mask(block_frames(block));
	engine->landing_version++;
	list_push_back(&engine->blocks, &block->node);
	list_push_back(&connection->blocks, &block->peer_node);
	engine->outstanding += length;
	connection->outstanding += length;
	return block;
}

/* ---- The receiver's side: fetches ---------------------------------------------------------------------------- */

static void fetch_end(struct fetch *fetch, int status)
{
	struct connection *connection = fetch->connection;
	struct engine *engine = connection->engine;
	struct request *request = fetch->request;
	struct list_node *node = list_first(&connection->blocks), *next;

	for (; node; node = next) {
		struct block *block = container_of(node, struct block, peer_node);

		next = list_next(&connection->blocks, node);
		if (block->fetch == fetch)
			block_free(engine, block);
	}
	list_remove(&fetch->node);
	if (list_empty(&connection->fetches))
		list_remove(&connection->fetching_node);
	if (!status)
		engine->endpoint->counters[COUNTER_BULK_BYTES] += fetch->length;
	pool_put(&engine->fetches, fetch);
	message_fetched(request, status);
}

/* The frame's payload for data that comes from a peer: what was seen to arrive from it, in whole words. */
static uint32_t fetch_frame(const struct connection *connection)
{
	const struct codec *codec = connection->engine->codec;
	const struct route *route = &connection->route[connection->bulk_link];
	uint32_t max = route->frame_in ? route->frame_in : ENGINE_FRAME_MIN;

	return codec->data ? codec->data : (max - connection_data_head(connection)) & ~7u;
}

void engine_fetch(struct engine *engine, struct request *request)
{
	struct connection *connection = connection_of(request->peer);
	struct fetch *fetch = connection && connection->state == CONNECTION_OPEN ? pool_get(&engine->fetches) : NULL;

	if (!fetch) {
		message_fetched(request, connection && connection->state == CONNECTION_OPEN ? THOLE_ERR_MEMORY
											    : THOLE_ERR_PEER);
		return;
	}
	engine_count(engine, COUNTER_BULK_NETWORK);
	connection_return(connection);
	fetch->request = request;
	fetch->connection = connection;
	fetch->length = request->window.length < request->vector.length ? request->window.length : request->vector.length;
	fetch->asked = fetch->received = 0;
	fetch->generation = fetch->generation % ((UINT64_C(1) << GENERATION_BITS) - 1) + 1;
	fetch->blocks = 0;
	fetch->frame = fetch_frame(connection);
	if (list_empty(&connection->fetches))
		list_push_back(&engine->fetching, &connection->fetching_node);
	list_push_back(&connection->fetches, &fetch->node);
	if (fetch->length == 0)
		fetch_end(fetch, 0);
}

/* Ask for the next bytes of a connection's oldest fetch: at most `credit`. Returns how many. */
static uint64_t fetch_ask(struct fetch *fetch, uint64_t credit)
{
	struct connection *connection = fetch->connection;
	const struct codec *codec = connection->engine->codec;
	uint32_t bytes = block_bytes(connection, fetch->frame);
	uint64_t start = fetch->asked;

	while (fetch->asked < fetch->length && fetch->asked - start < credit &&
	       (codec->blocks_max == 0 || fetch->blocks < codec->blocks_max)) {
		uint64_t left = fetch->length - fetch->asked;
		uint32_t most = bytes - fetch_skew(fetch, fetch->asked);
		uint32_t length = left < most ? (uint32_t)left : most;

		if (fetch->asked > start && fetch->asked - start + length > credit)
			break;
		if (!block_new(fetch, fetch->asked, length))
			break;
		if (codec->blocks_max) /* each with a PULL of its own */
			pull_send(fetch, connection->record_link, fetch->asked, length, 0);
		fetch->asked += length;
	}
	if (fetch->asked == start)
		return 0;
	if (connection->pull_ns == 0)
		pull_arm(connection);
	if (codec->blocks_max == 0)
		pull_send(fetch, connection->record_link, start, (uint32_t)(fetch->asked - start), 0);
	if (fetch->asked == fetch->length) {
		list_remove(&fetch->node);
		list_push_back(&connection->asked, &fetch->node);
		if (list_empty(&connection->fetches))
			list_remove(&connection->fetching_node);
	}
	return fetch->asked - start;
}

/* How much may be asked of a connection now. Not little by little, but as long as nothing is under way. */
static uint64_t pull_credit(const struct connection *connection, const struct fetch *fetch)
{
	const struct engine *engine = connection->engine;
	uint64_t left = fetch->length - fetch->asked, part = engine->outstanding_max / PULL_SHARE;
	uint64_t window = connection->pull_window > connection->outstanding
				  ? connection->pull_window - connection->outstanding
				  : 0;
	uint64_t all = engine->outstanding_max > engine->outstanding ? engine->outstanding_max - engine->outstanding : 0;
	uint64_t credit = window < all ? window : all;

	if (all > 0 && connection->outstanding == 0)
		return credit && credit < part ? credit : part; /* at least one block */
	if (credit < part && credit < left)
		return 0;
	return credit < part ? credit : part;
}

void pull_ask(struct engine *engine)
{
	struct list_node *node = list_first(&engine->fetching), *last = engine->fetching.prev;
	uint64_t window = engine->endpoint->options.net_window;

	if (window == 0) /* room shrinks after overflows */
		window = engine->links[engine->bulk_link]->room < WINDOW_AUTO ? engine->links[engine->bulk_link]->room : WINDOW_AUTO;
	engine->outstanding_max = window;
	/* Each connection in turn; who was asked goes behind, and has another turn while there is credit. */
	while (node && engine->outstanding < engine->outstanding_max) {
		struct connection *connection = container_of(node, struct connection, fetching_node);
		struct fetch *fetch = container_of(list_first(&connection->fetches), struct fetch, node);
		uint64_t credit = pull_credit(connection, fetch);
		struct list_node *next = node == last ? NULL : node->next;

		if (credit > 0 && fetch_ask(fetch, credit) > 0) {
			if (!list_empty(&connection->fetches)) {
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

/* ---- The receiver's side: what comes, and what does not -------------------------------------------------------- */

/* The window grows by what comes and narrows by twice what is lost: so it stays wide where as much as one in five is by bad luck, and
 * becomes least where a third is for want of room. */
static void pull_grow(struct connection *connection, uint32_t bytes)
{
	uint64_t most = connection->engine->outstanding_max;

	connection->pull_window = connection->pull_window + bytes < most ? connection->pull_window + bytes : most;
}

static void pull_shrink(struct connection *connection, uint64_t lost, uint64_t least)
{
	if (connection->pull_window > least + PULL_LOSS * lost)
		connection->pull_window -= PULL_LOSS * lost;
	else if (connection->pull_window > least)
		connection->pull_window = least;
}

/* Blocks asked for before this one and still not here have lost frames: ask again, each once a trip. */
static void blocks_overtaken(struct connection *connection, uint32_t order)
{
	struct list_node *node = list_first(&connection->blocks);
	uint32_t newest = connection->pull_order;

	while (node) {
		struct block *block = container_of(node, struct block, peer_node);

		node = list_next(&connection->blocks, node);
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

	for (node = list_first(&connection->blocks); node; node = list_next(&connection->blocks, node)) {
		struct block *block = container_of(node, struct block, peer_node);

		if (block->fetch == fetch && offset >= block->offset && offset - block->offset < block->length)
			return block;
	}
	return NULL;
}

/* Does what has come answer the latest PULL of its block? Not where that was sent just now: then an earlier one's answer was late. */
static bool block_answers(const struct block *block)
{
	struct connection *connection = block->fetch->connection;
	uint64_t ns = connection->engine->now_ns - block->asked_ns;

	if (block->tries > 0)
		return ns >= connection->pull_least_ns;
	if (connection->pull_least_ns == 0 || ns < connection->pull_least_ns)
		connection->pull_least_ns = ns;
	return true;
}

/* A frame of a block is in its place. */
static void block_received(struct block *block, uint32_t index)
{
	struct fetch *fetch = block->fetch;
	struct connection *connection = fetch->connection;
	struct engine *engine = connection->engine;
	uint32_t order = block->order, length = block->length;
	bool answers = block_answers(block), last;

	block->missing &= ~(UINT64_C(1) << index);
	connection->fed_ns = engine->now_ns;
	connection->starved = 0;
	engine->landing_version++;
	connection->pull_backoff = 0; /* there is a way: whatever else was lost is no reason to wait longer */
	last = block->missing >> index == 0;
	if (last && block->tries == 0) /* else it would not be known which PULL the trip was of */
		round_trip_measure(engine->now_ns - block->asked_ns, &connection->pull_trip_ns,
				   &connection->pull_deviation_ns);
	pull_grow(connection, fetch->frame);
	if (block->missing == 0) {
		fetch->received += length;
		block_free(engine, block);
	} else {
		order += last; /* its own earlier frames are late as well */
		answers &= last || engine->codec->selective; /* what is asked for again else costs more */
	}
	pull_arm(connection);
	if (answers && !list_empty(&connection->blocks) &&
	    container_of(list_first(&connection->blocks), struct block, peer_node)->order != order)
		blocks_overtaken(connection, order);
	if (fetch->received == fetch->length)
		fetch_end(fetch, 0);
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

void data_arrived(struct connection *connection, const struct packet *packet)
{
	uint32_t index;
	struct block *block = data_block(connection, packet, &index);

	if (!block)
		return;
	vector_write(&block->fetch->request->vector, packet->data.offset, packet->payload, packet->length);
	block_received(block, index);
}

void pull_nacked(struct connection *connection, uint64_t transfer)
{
	struct fetch *fetch = fetch_find(connection, transfer);

	if (fetch)
		fetch_end(fetch, THOLE_ERR_PROTOCOL);
}

/* ---- The receiver's side: landing --------------------------------------------------------------------------- */

/* The memory of a frame, where it is one piece. */
static void *landing_place(const struct block *block, uint32_t index, uint32_t length)
{
	const struct vector *vector = &block->fetch->request->vector;
	uint64_t offset = block->offset + (uint64_t)index * block->fetch->frame, covered;
	struct iovec place[2];

	if (vector->count == 1)
		return (char *)vector->segments->iov_base + offset;
	return vector_slice(vector, offset, length, place, 2, &covered) == 1 && covered == length ? place[0].iov_base : NULL;
}

/* How many frames are foreseen. */
static unsigned landing_most(const struct landing *landing)
{
	return landing->most ? landing->most : LANDING_FRAMES;
}

/* Add the missing frames of a block. False: nothing can follow them in the same batch. */
static bool landing_add(struct landing *landing, struct block *block)
{
	uint32_t frame = block->fetch->frame, head = connection_data_head(block->fetch->connection);

	if (landing->frames == 0)
		landing->frame = head + frame;
	else if (landing->frame != head + frame)
		return false;
	for (uint64_t missing = block->missing; missing; missing &= missing - 1) {
		uint32_t index = (uint32_t)__builtin_ctzll(missing), at = index * frame;
		uint32_t length = block->length - at < frame ? block->length - at : frame;
		void *place;

		if (landing->frames == landing_most(landing))
			return false;
		place = landing_place(block, index, length);
		if (!place)
			return false;
		landing->where[landing->frames] = block;
		landing->frame_index[landing->frames] = (uint8_t)index;
		landing->iov[landing->count++] = (struct iovec){landing->heads[landing->frames++], head};
		landing->iov[landing->count++] = (struct iovec){place, length};
		if (length < frame)
			return false; /* the kernel puts nothing behind a short frame */
	}
	return true;
}

void engine_landing(struct engine *engine, struct landing *landing)
{
	const struct options *options = &engine->endpoint->options;
	struct list_node *node = list_first(&engine->blocks);

	if (landing->version == engine->landing_version)
		return; /* nothing has changed since it was filled, and came to nothing */
	landing->version = engine->landing_version;
	landing->count = landing->frames = 0;
	/* A checksum is over what is not looked at otherwise; losses are injected frame by frame. */
	if (!engine->numbers && !options->checksum && !options->inject_loss)
		while (node && landing_add(landing, container_of(node, struct block, node)))
			node = list_next(&engine->blocks, node);
	landing->iov[landing->count++] = (struct iovec){landing->spill, sizeof(landing->spill)};
}

/* Where the kernel hands over frames singly, to foresee many each time costs more than to copy the first of a long row. */
static void landing_learn(struct landing *landing, unsigned frames)
{
	unsigned most = landing_most(landing);

	landing->few = 2 * frames < most ? landing->few + 1 : 0;
	if (frames < most && landing->few < LANDING_FEW)
		return;
	most = 2 * frames;
	landing->few = 0;
	landing->most = (uint8_t)(most < LANDING_FRAMES ? most : LANDING_FRAMES);
}

/* Is the frame that came into a slot the one that was foreseen there? */
static bool landing_hit(struct engine *engine, const struct landing *landing, unsigned slot, uint32_t length)
{
	const struct block *block = landing->where[slot];
	struct connection *connection = block->fetch->connection;
	const struct iovec *parts = &landing->iov[2 * slot];
	struct packet packet;

	return length == parts[0].iov_len + parts[1].iov_len &&
	       engine->codec->decode(&packet, landing->heads[slot], length) == 0 && packet.type == PACKET_DATA &&
	       packet.to == connection->index && packet.session == connection->session &&
	       packet.data.transfer == fetch_id(engine, block->fetch) &&
	       packet.data.offset == block->offset + (uint64_t)landing->frame_index[slot] * block->fetch->frame &&
	       connection_judge(connection, &packet, parts, 2) == GUARD_FINE;
}

/* Its counter is not taken again. */
static void landing_see(struct engine *engine, const struct landing *landing, unsigned slot, struct connection *connection)
{
	struct packet packet;

	if (connection->guard && engine->codec->decode(&packet, landing->heads[slot], landing->frame) == 0)
		guard_seen(connection->guard, &packet);
}

/* Whether it came from where the peer sends DATA from. */
static bool landing_known(const struct block *block, const struct link *link, const struct path *from)
{
	return memcmp(&block->fetch->connection->route[link->index].bulk, from, sizeof(*from)) == 0;
}

/* All as foreseen: only the books are to be kept. */
static bool landing_all_hit(struct engine *engine, const struct landing *landing, size_t bytes, size_t segment)
{
	unsigned slot = 0;

	if (landing->frames == 0 || bytes == 0 || (bytes > segment && segment != landing->frame))
		return false;
	for (size_t at = 0; at < bytes; at += landing->frame, slot++) {
		size_t left = bytes - at;

		if (slot == landing->frames ||
		    !landing_hit(engine, landing, slot, (uint32_t)(left < landing->frame ? left : landing->frame)))
			return false;
	}
	return true;
}

unsigned engine_landed(struct engine *engine, struct link *link, const struct path *from, struct landing *landing,
		       size_t bytes, size_t segment)
{
	struct vector all = {landing->iov, landing->count, 0};
	unsigned frames = 0;

	if (segment == 0)
		segment = bytes;
	landing->known = false;
	if (landing_all_hit(engine, landing, bytes, segment)) {
		uint32_t deaths = engine->deaths;

		/* A connection that ends takes its blocks with it. */
		for (size_t at = 0; at < bytes && engine->deaths == deaths; at += landing->frame, frames++) {
			struct block *block = landing->where[frames];

			block->fetch->connection->heard_ns = engine->now_ns;
			landing->known |= landing_known(block, link, from);
			landing_see(engine, landing, frames, block->fetch->connection);
			block_received(block, landing->frame_index[frames]);
		}
		engine->endpoint->counters[COUNTER_FRAMES_RECEIVED] += frames;
		landing_learn(landing, frames);
		return frames;
	}
	for (unsigned i = 0; i < landing->count; i++)
		all.length += landing->iov[i].iov_len;
	if (bytes > all.length || bytes > LANDING_SPILL)
		return 0;
	vector_read(&all, 0, engine->repair, bytes); /* before any of it is overwritten */
	for (size_t at = 0; at < bytes; at += segment, frames++) {
		engine_count(engine, COUNTER_BULK_REPAIRS);
		landing->known |= engine_frame(engine, link, from, engine->repair + at,
					       bytes - at < segment ? bytes - at : segment);
	}
	landing_learn(landing, frames);
	return frames;
}

/* ---- The sender's side ---------------------------------------------------------------------------------------- */

static void serve_free(struct connection *connection, struct serve *serve)
{
	list_remove(&serve->node);
	connection->serve_count--;
	if (list_empty(&connection->serves))
		list_remove(&connection->serving_node);
	pool_put(&connection->engine->serves, serve);
}

/* Asked for again before it was sent: the receiver lost patience, not the frames. */
static bool serve_is_known(const struct connection *connection, const struct packet_pull *pull)
{
	struct list_node *node;

	for (node = list_first(&connection->serves); node; node = list_next(&connection->serves, node)) {
		const struct serve *serve = container_of(node, struct serve, node);
		uint64_t start = serve->offset + serve->done, end = serve->offset + serve->length;

		if (serve->transfer != pull->transfer || pull->offset < start || pull->offset + pull->length > end)
			continue;
		if (!serve->wanted || (serve->offset == pull->offset && (pull->wanted & ~serve->wanted) == 0 && pull->wanted))
			return true;
	}
	return false;
}

/* The peer knows by which link its frames arrive. */
static uint8_t serve_link(const struct connection *connection, const struct packet *packet)
{
	uint8_t usual = connection->engine->bulk_link, other = (uint8_t)!usual;
	bool aside = packet->flags & PACKET_ASIDE && connection->engine->link_count > 1 && connection->route[other].known;

	return aside ? other : usual;
}

void pull_arrived(struct connection *connection, const struct packet *packet)
{
	struct engine *engine = connection->engine;
	const struct packet_pull *pull = &packet->pull;
	const struct request *request = message_owner(connection->peer, pull->window);
	uint32_t least = ENGINE_FRAME_MIN - connection_data_head(connection), frames;
	struct serve *serve;

	if (!request && engine->numbers) {
		numbers_nack(engine, engine->links[connection->record_link],
			     &connection->route[connection->record_link].records, packet, NACK_BAD_WINDOW);
		return;
	}
	if (!request) {
		nack_peer(connection, pull->transfer);
		return;
	}
	frames = pull->frame ? (pull->length + pull->frame - 1) / pull->frame : 0;
	if (pull->length == 0 || pull->offset > request->vector.length ||
	    pull->length > request->vector.length - pull->offset || pull->frame < (least & ~7u) ||
	    pull->frame > engine->frame_max - connection_data_head(connection) ||
	    (pull->wanted && (frames > PACKET_FRAMES_MAX || (pull->wanted & ~frames_mask(frames))))) {
		engine_count(engine, COUNTER_DROPPED_MALFORMED);
		return;
	}
	if (serve_is_known(connection, pull)) {
		engine_count(engine, COUNTER_FRAMES_DUPLICATE);
		return;
	}
	serve = connection->serve_count < SERVES_MAX ? pool_get(&engine->serves) : NULL;
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
		.link = serve_link(connection, packet),
	};
	if (connection->serve_count++ == 0)
		list_push_back(&engine->serving, &connection->serving_node);
	list_push_back(&connection->serves, &serve->node);
}

/* Bytes of the frame at `at`, but for the end. */
static uint32_t serve_step(const struct serve *serve, uint32_t at)
{
	return at == 0 ? serve->frame - serve->skew : serve->frame;
}

/* Put one frame into the burst. */
static void serve_frame(struct connection *connection, const struct serve *serve, const struct request *request,
			struct packet *packet, uint32_t at)
{
	struct engine *engine = connection->engine;
	uint64_t offset = serve->offset + at, covered;
	uint32_t left = serve->length - at, step = serve_step(serve, at), length = left < step ? left : step;
	uint8_t link = serve->link;
	uint8_t *head = burst_head(engine);
	struct iovec *body = burst_iov(engine);
	struct frame_out frame = {
		.to = &connection->route[link].bulk, .head = head, .body = body, .body_length = length, .channel = CHANNEL_BULK,
	};

	packet->data.offset = offset;
	packet->length = length;
	frame.head_length = (uint32_t)engine->codec->encode(packet, head);
	frame.body_count = (uint16_t)vector_slice(&request->vector, offset, length, body, FRAME_PIECES, &covered);
	if (covered < length) { /* scattered too finely */
		uint8_t *bounce = burst_bounce(engine);

		vector_read(&request->vector, offset, bounce, length);
		body[0] = (struct iovec){bounce, length};
		frame.body_count = 1;
	}
	engine->endpoint->counters[COUNTER_BULK_SERVED] += length;
	burst_add(engine, link, &frame, connection->guard, connection, NULL);
}

/* Send the next block of a serve, or what is wanted of it. Returns whether the link took it all. */
static bool serve_block(struct connection *connection, struct serve *serve)
{
	struct engine *engine = connection->engine;
	const struct request *request = message_owner(connection->peer, serve->window);
	uint32_t most = block_bytes(connection, serve->frame), at = serve->done, frames = 0, end;
	uint32_t starts[ENGINE_BURST], step;
	struct packet packet;
	unsigned taken;

	if (!request) { /* it ended while the PULL waited: nobody wants it any more */
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
		serve_frame(connection, serve, request, &packet, at);
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

void pull_serve(struct engine *engine)
{
	unsigned left = SERVE_BURST;
	struct list_node *node;

	while (left > 0 && (node = list_first(&engine->serving))) {
		struct connection *connection = container_of(node, struct connection, serving_node);

		list_remove(node);
		list_push_back(&engine->serving, node);
		for (unsigned turn = 0; turn < SERVE_TURN && left > 0 && !list_empty(&connection->serves); turn++, left--)
			if (!serve_block(connection, container_of(list_first(&connection->serves), struct serve, node)))
				return;
	}
}

/* ---- Time, and the end ------------------------------------------------------------------------------------------ */

void pull_lost(struct connection *connection)
{
	struct list_node *node;

	while ((node = list_first(&connection->serves)))
		serve_free(connection, container_of(node, struct serve, node));
	while ((node = list_first(&connection->asked)) || (node = list_first(&connection->fetches)))
		fetch_end(container_of(node, struct fetch, node), connection->peer->gone_status ? connection->peer->gone_status
												: THOLE_ERR_PEER);
	connection->pull_ns = 0;
}

/* A block that is late takes no credit from others: one slow or dead peer delays no other. */
static void block_late(struct block *block)
{
	if (!block->late)
		block->fetch->connection->engine->outstanding -= block->length;
	block->late = true;
}

/* Nothing has come for some time. If that was a short one, perhaps only a PULL was lost, or the last frames: ask for the oldest
 * block again, whose frames then say of all others whether they are lost. Else ask for all that is late, with less under way from
 * now on. */
static void pull_late(struct connection *connection)
{
	const struct codec *codec = connection->engine->codec;
	uint64_t now_ns = connection->engine->now_ns, timeout_ns = pull_timeout(connection);
	bool look = timeout_ns < PULL_MIN_NS, again = codec->pull_ns == 0 || connection->pull_backoff > 0;
	uint32_t newest = connection->pull_order;
	struct list_node *node = list_first(&connection->blocks);
	unsigned left = look ? 1 : RESEND_BURST;

	if (!look && again)
		connection->pull_window = connection->pull_window / 2 > 1 ? connection->pull_window / 2 : 1;
	while (node && left > 0) {
		struct block *block = container_of(node, struct block, peer_node);

		node = list_next(&connection->blocks, node);
		if ((int32_t)(block->order - newest) > 0)
			break;
		if (now_ns - block->asked_ns < timeout_ns)
			continue;
		if (!look)
			block_late(block);
		if (again)
			block_again(block);
		left -= again;
	}
	if (connection->pull_backoff < 16)
		connection->pull_backoff++;
	pull_arm(connection);
}

/* Blocks are late again. A peer that computes says nothing at all; one that says other things would have sent them. */
static void pull_starve(struct connection *connection)
{
	if (connection->late_ns && connection->heard_ns > connection->late_ns && connection->fed_ns < connection->late_ns)
		connection->starved++;
	connection->late_ns = connection->engine->now_ns;
	if (connection->starved >= LINK_STARVED)
		connection_aside(connection);
}

uint64_t pull_expire(struct connection *connection)
{
	if (connection->pull_ns && connection->pull_ns <= connection->engine->now_ns) {
		pull_starve(connection);
		pull_late(connection);
	}
	return connection->pull_ns ? connection->pull_ns : UINT64_MAX;
}
