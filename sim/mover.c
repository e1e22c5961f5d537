/* SPDX-License-Identifier: BSD-3-Clause */
#include "mover.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/region.h"
#include "process.h"
#include "transport/datagram/answer.h"
#include "transport/datagram/connection.h"

enum {
	PAGE_SHIFT = 12,
	BLOCKS_MAX = 64,                   /* of one connection */
	ANSWERS_MAX = 32,                  /* PULLs of one connection that wait */
	AGAIN_NS = 50 * MICROSECOND,       /* after which is looked for pages that were not there */
	LEAST = 4096,                      /* bytes: below that nothing is handed over */
};

struct mover_counts sim_mover_counts;

/* Memory of the process; its addresses are made up, so that they are the same each time. */
struct memory {
	struct event pinned;               /* a chunk is */
	struct sim_mover *mover;
	struct region region;
	struct region_segment *segments;
	struct region_run run;
	struct iovec *places;
	struct vector vector;
	bool refused;                      /* all of it is more than may be pinned */
};

struct offered {
	struct list_node node;
	struct memory *memory;
	uint64_t window;
	bool lost;                         /* it is not served any more */
};

struct moving {
	struct list_node node;             /* known->fetches, or mover->over with its status */
	struct block_fetch blocks;
	struct known *known;
	struct memory *memory;
	uint64_t transfer, window, id;
	int status;
};

struct waiting {
	struct list_node node;
	struct answer answer;
};

/* A connection. It stays in memory, for its way. */
struct known {
	struct list_node node;
	struct sim_mover *mover;
	struct block_peer peer;
	struct guard guard;
	struct mover_peer said;
	struct path records, bulk;
	struct mover_way way;
	struct list_node offers, fetches, answers;
	uint32_t answer_count, block_count;
	uint32_t id;
	bool live;
};

struct sim_mover {
	struct mover mover;
	struct wire *wire;
	struct world *world;
	struct mover_conditions conditions;
	struct dice dice;
	struct blocks blocks;
	struct event timer, sends;
	struct list_node knowns;
	struct list_node over;             /* struct moving */
	uint64_t addresses;                /* that were given out */
	uint64_t pages;                    /* that are pinned */
	uint32_t ids;
	bool stopped;
};

static struct sim_mover *mover_of(struct mover *mover)
{
	return container_of(mover, struct sim_mover, mover);
}

static bool mover_is_gone(const struct sim_mover *mover)
{
	return mover->stopped || mover->world->now_ns >= mover->conditions.gone_ns;
}

static int mover_refuses(struct sim_mover *mover)
{
	if (mover_is_gone(mover))
		return mover->conditions.told ? -ENODEV : 0;
	return dice_chance(&mover->dice, mover->conditions.refuse) ? -ENOMEM : 0;
}

static struct known *known_find(struct sim_mover *mover, uint32_t id)
{
	struct list_node *node;

	for (node = list_first(&mover->knowns); node; node = list_next(&mover->knowns, node))
		if (container_of(node, struct known, node)->id == id)
			return container_of(node, struct known, node);
	return NULL;
}

/* ---- Memory ------------------------------------------------------------------------------------------------- */

static void memory_drop(struct memory *memory)
{
	memory->mover->pages -= region_drop(&memory->region);
}

/* Pin the next pages, after the time that takes. */
static void memory_pin(struct memory *memory)
{
	struct sim_mover *mover = memory->mover;

	if (!event_is_set(&memory->pinned) && region_next(&memory->region, mover->conditions.chunk, &memory->run))
		world_set(mover->world, &memory->pinned,
			  mover->world->now_ns + memory->run.pages * mover->conditions.page_ns);
}

static void memory_pinned(struct world *world, struct event *event)
{
	struct memory *memory = container_of(event, struct memory, pinned);
	struct sim_mover *mover = memory->mover;

	world_cancel(world, event);
	memory->refused = memory->region.pages > mover->conditions.pages_max;
	if (mover->pages + memory->run.pages > mover->conditions.pages_max) {
		world_set(world, event, world->now_ns + MILLISECOND); /* the limit: when others have given some back */
		if (dice_below(&mover->dice, 2))
			memory_drop(memory);
		region_next(&memory->region, mover->conditions.chunk, &memory->run);
		return;
	}
	if (region_add(&memory->region, &memory->run, memory->run.pages)) {
		mover->pages += memory->run.pages;
		sim_mover_counts.pins += memory->run.pages;
	}
	memory_pin(memory);
}

static bool memory_ready(struct memory *memory, uint64_t offset, uint64_t length)
{
	if (dice_chance(&memory->mover->dice, memory->mover->conditions.vanish))
		memory_drop(memory);
	if (region_ready(&memory->region, offset, length))
		return true;
	memory_pin(memory);
	return false;
}

static struct memory *memory_new(struct sim_mover *mover, const struct vector *vector)
{
	struct memory *memory = sim_alloc(sizeof(*memory));

	memory->mover = mover;
	memory->pinned.run = memory_pinned;
	memory->segments = sim_alloc((vector->count + 1) * sizeof(*memory->segments));
	memory->places = sim_alloc((vector->count + 1) * sizeof(*memory->places));
	for (size_t i = 0; i < vector->count; i++) {
		if (vector->segments[i].iov_len == 0)
			continue;
		memory->segments[memory->vector.count].address = mover->addresses + dice_below(&mover->dice, 4096);
		memory->segments[memory->vector.count].length = vector->segments[i].iov_len;
		mover->addresses += (vector->segments[i].iov_len + 8192) & ~UINT64_C(4095);
		memory->places[memory->vector.count++] = vector->segments[i];
	}
	memory->vector.segments = memory->places;
	memory->vector.length = vector->length;
	if (!region_init(&memory->region, memory->segments, (uint32_t)memory->vector.count, PAGE_SHIFT))
		world_fail(mover->world, "a region of %u segments is none", (unsigned)memory->vector.count);
	memory_pin(memory);
	return memory;
}

static void memory_free(struct memory *memory)
{
	world_cancel(memory->mover->world, &memory->pinned);
	memory_drop(memory);
	free(memory->segments);
	free(memory->places);
	free(memory);
}

/* ---- Frames out ------------------------------------------------------------------------------------------- */

/* Returns whether the link took it. */
static bool known_send(struct known *known, struct packet *packet, const struct path *to, unsigned channel,
		       const struct iovec *body)
{
	struct sim_mover *mover = known->mover;
	struct link *link = &mover->wire->link;
	uint8_t head[PACKET_HEAD_MAX];
	struct frame_out frame = {.to = to, .head = head, .body = body, .body_count = body ? 1 : 0,
				  .body_length = body ? (uint32_t)body->iov_len : 0, .channel = (uint8_t)channel};

	packet->to = known->said.peer_index;
	packet->session = known->said.peer_session;
	if (known->said.guard) {
		packet->guard = &known->guard;
		packet->flags |= (uint8_t)guard_flags(&known->guard, packet->type, 0);
	}
	frame.head_length = (uint32_t)codec_native.encode(packet, head);
	if (known->said.guard)
		guard_stamp(&known->guard, &codec_native, &frame, 1);
	return link->calls->send(link, &frame, 1) == 1;
}

static void moving_pull(struct block_fetch *blocks, const struct block_pull *pull)
{
	struct moving *moving = container_of(blocks, struct moving, blocks);
	struct known *known = moving->known;
	struct packet packet = {.type = PACKET_PULL, .ack = known->way.ack, .credit = known->way.credit};

	packet.pull.window = moving->window;
	packet.pull.transfer = moving->transfer;
	packet.pull.offset = pull->offset;
	packet.pull.length = pull->length;
	packet.pull.wanted = pull->wanted;
	packet.pull.frame = blocks->frame;
	packet.pull.total = blocks->length;
	known_send(known, &packet, &known->records, CHANNEL_RECORDS, NULL);
}

static struct block *moving_get(struct block_peer *peer)
{
	struct known *known = container_of(peer, struct known, peer);

	if (known->block_count == BLOCKS_MAX)
		return NULL;
	known->block_count++;
	return sim_alloc(sizeof(struct block));
}

static void moving_put(struct block_peer *peer, struct block *block)
{
	container_of(peer, struct known, peer)->block_count--;
	free(block);
}

/* ---- Time --------------------------------------------------------------------------------------------------- */

static void mover_schedule(struct sim_mover *mover)
{
	uint64_t next_ns = UINT64_MAX;
	struct list_node *node;

	for (node = list_first(&mover->knowns); node; node = list_next(&mover->knowns, node)) {
		struct known *known = container_of(node, struct known, node);

		if (known->live && known->peer.timeout_ns && known->peer.timeout_ns < next_ns)
			next_ns = known->peer.timeout_ns;
	}
	if (next_ns == UINT64_MAX)
		world_cancel(mover->world, &mover->timer);
	else
		world_set(mover->world, &mover->timer,
			  next_ns > mover->world->now_ns ? next_ns : mover->world->now_ns);
}

static void mover_expire(struct world *world, struct event *event)
{
	struct sim_mover *mover = container_of(event, struct sim_mover, timer);
	struct list_node *node;

	world_cancel(world, event);
	if (mover_is_gone(mover))
		return;
	for (node = list_first(&mover->knowns); node; node = list_next(&mover->knowns, node)) {
		struct known *known = container_of(node, struct known, node);

		if (known->live && known->peer.timeout_ns && known->peer.timeout_ns <= world->now_ns)
			block_expire(&known->peer, world->now_ns);
	}
	block_ask(&mover->blocks, world->now_ns);
	mover_schedule(mover);
}

/* ---- Serving ------------------------------------------------------------------------------------------------ */

static struct offered *offered_find(struct known *known, uint64_t window)
{
	struct list_node *node;

	for (node = list_first(&known->offers); node; node = list_next(&known->offers, node))
		if (container_of(node, struct offered, node)->window == window)
			return container_of(node, struct offered, node);
	return NULL;
}

static void waiting_free(struct known *known, struct waiting *waiting)
{
	known->answer_count--;
	list_remove(&waiting->node);
	free(waiting);
}

/* Send one frame of a PULL. Returns how long it takes, or until there is something to send. */
static uint64_t waiting_send(struct known *known, struct waiting *waiting)
{
	struct sim_mover *mover = known->mover;
	struct offered *offered = offered_find(known, waiting->answer.window);
	uint32_t at = waiting->answer.done;
	struct packet packet = {.type = PACKET_DATA};
	struct answer_frame frame;
	struct iovec body;
	uint8_t *bytes;
	bool sent;

	if (!offered || offered->lost || !answer_next(&waiting->answer, &at, waiting->answer.length, &frame)) {
		waiting_free(known, waiting);
		return 1;
	}
	if (!memory_ready(offered->memory, frame.offset, frame.length)) {
		offered->lost = offered->memory->refused || dice_below(&mover->dice, 256) == 0;
		if (offered->lost)
			process_wake(mover->wire->process, mover->world->now_ns);
		return AGAIN_NS;
	}
	packet.data.transfer = waiting->answer.transfer;
	packet.data.offset = frame.offset;
	packet.length = frame.length;
	bytes = sim_grow(NULL, frame.length);
	vector_read(&offered->memory->vector, frame.offset, bytes, frame.length);
	body = (struct iovec){bytes, frame.length};
	sent = known_send(known, &packet, &known->bulk, CHANNEL_BULK, &body);
	free(bytes);
	if (!sent)
		return AGAIN_NS;
	sim_mover_counts.served += frame.length;
	waiting->answer.done = at;
	return mover->conditions.frame_ns;
}

static void mover_send(struct world *world, struct event *event)
{
	struct sim_mover *mover = container_of(event, struct sim_mover, sends);
	uint64_t next_ns = UINT64_MAX;
	struct list_node *node;

	world_cancel(world, event);
	if (mover_is_gone(mover))
		return;
	for (node = list_first(&mover->knowns); node; node = list_next(&mover->knowns, node)) {
		struct known *known = container_of(node, struct known, node);
		struct list_node *first = list_first(&known->answers);
		uint64_t ns = first ? waiting_send(known, container_of(first, struct waiting, node)) : UINT64_MAX;

		if (ns < next_ns)
			next_ns = ns;
	}
	if (next_ns != UINT64_MAX)
		world_set(world, event, world->now_ns + next_ns);
}

static void known_pull(struct known *known, const struct packet *packet)
{
	const struct packet_pull *pull = &packet->pull;
	struct sim_mover *mover = known->mover;
	struct offered *offered = offered_find(known, pull->window);
	uint32_t head = codec_native.data_head + guard_bytes(known->said.guard), most = known->said.frame_max - head;
	struct waiting *waiting;
	struct list_node *node;

	if (!offered || offered->lost || (packet->flags & PACKET_ASIDE) || known->answer_count == ANSWERS_MAX ||
	    !answer_is_right(pull, offered->memory->vector.length, (ENGINE_FRAME_MIN - head) & ~7u, most))
		return;
	for (node = list_first(&known->answers); node; node = list_next(&known->answers, node))
		if (answer_covers(&container_of(node, struct waiting, node)->answer, pull))
			return;
	waiting = sim_alloc(sizeof(*waiting));
	answer_begin(&waiting->answer, pull);
	list_push_back(&known->answers, &waiting->node);
	known->answer_count++;
	if (!event_is_set(&mover->sends))
		world_set(mover->world, &mover->sends, mover->world->now_ns + mover->conditions.frame_ns);
}

/* ---- Fetching ----------------------------------------------------------------------------------------------- */

static struct moving *moving_find(struct known *known, uint64_t transfer)
{
	struct list_node *node;

	for (node = list_first(&known->fetches); node; node = list_next(&known->fetches, node))
		if (container_of(node, struct moving, node)->transfer == transfer)
			return container_of(node, struct moving, node);
	return NULL;
}

static void moving_free(struct moving *moving)
{
	list_remove(&moving->node);
	memory_free(moving->memory);
	free(moving);
}

static void moving_over(struct moving *moving, int status)
{
	struct sim_mover *mover = moving->known->mover;

	moving->status = status;
	block_fetch_end(&moving->blocks);
	list_remove(&moving->node);
	list_push_back(&mover->over, &moving->node);
	process_wake(mover->wire->process, mover->world->now_ns);
}

static void known_data(struct known *known, struct moving *moving, const struct packet *packet)
{
	struct sim_mover *mover = known->mover;
	enum block_verdict verdict;
	uint32_t index;
	struct block *block;

	known->way.heard++;
	block = block_find(&moving->blocks, packet->data.offset, packet->length, &index, &verdict);
	if (!block)
		return;
	if (!memory_ready(moving->memory, packet->data.offset, packet->length)) {
		sim_mover_counts.overlap_miss++;
		if (moving->memory->refused)
			moving_over(moving, -ENOMEM);
		mover_schedule(mover);
		return;
	}
	vector_write(&moving->memory->vector, packet->data.offset, packet->payload, packet->length);
	if (block_received(block, index, 1, NULL, mover->world->now_ns)) {
		sim_mover_counts.fetched += moving->blocks.length;
		moving_over(moving, 0);
	}
	block_ask(&mover->blocks, mover->world->now_ns);
	mover_schedule(mover);
}

bool sim_mover_frame(struct sim_mover *mover, const uint8_t *bytes, uint32_t length)
{
	struct iovec part = {(void *)(uintptr_t)bytes, length};
	struct guard_frame frame;
	struct packet packet;
	struct list_node *node;

	if (mover_is_gone(mover) || codec_native.decode(&packet, bytes, length) != 0 ||
	    (packet.type != PACKET_DATA && packet.type != PACKET_PULL))
		return false;
	frame = guard_frame(&packet, &part, 1);
	for (node = list_first(&mover->knowns); node; node = list_next(&mover->knowns, node)) {
		struct known *known = container_of(node, struct known, node);
		struct moving *moving = NULL;

		if (!known->live || known->said.index != packet.to || known->said.session != packet.session)
			continue;
		if (packet.type == PACKET_DATA && !(moving = moving_find(known, packet.data.transfer)))
			return false;
		if (known->said.guard)
			guard_follow(&known->guard, known->way.epoch);
		if (known->said.guard ? guard_check(&known->guard, &codec_native, &frame, 1) != GUARD_FINE
				      : (packet.flags & (PACKET_TAGGED | PACKET_SEALED)) != 0)
			return false;
		if (known->said.guard)
			guard_seen(&known->guard, &frame, 1);
		if (packet.type == PACKET_PULL)
			known_pull(known, &packet);
		else
			known_data(known, moving, &packet);
		return packet.type == PACKET_DATA;
	}
	return false;
}

/* ---- Calls -------------------------------------------------------------------------------------------------- */

static int mover_connect(struct mover *calls, const struct mover_peer *peer, uint32_t *id_p, struct mover_way **way_p)
{
	struct sim_mover *mover = mover_of(calls);
	int error = mover_refuses(mover);
	struct known *known;

	if (error)
		return error;
	known = sim_alloc(sizeof(*known));
	known->mover = mover;
	known->live = true;
	known->said = *peer;
	known->records = *peer->records;
	known->bulk = *peer->bulk;
	known->id = *id_p = ++mover->ids;
	*way_p = &known->way;
	list_init(&known->offers);
	list_init(&known->fetches);
	list_init(&known->answers);
	list_push_back(&mover->knowns, &known->node);
	mover->blocks.outstanding_max = peer->credit;
	block_peer_init(&known->peer, &mover->blocks, peer->session);
	if (peer->guard) {
		known->guard = *peer->guard;
		known->way.counter = peer->guard->counter;
		known->guard.shared = &known->way.counter;
	}
	return 0;
}

static void known_end(struct known *known)
{
	struct list_node *node, *next;

	known->live = false;
	while ((node = list_first(&known->answers)))
		waiting_free(known, container_of(node, struct waiting, node));
	while ((node = list_first(&known->offers))) {
		memory_free(container_of(node, struct offered, node)->memory);
		list_remove(node);
		free(container_of(node, struct offered, node));
	}
	while ((node = list_first(&known->fetches))) {
		block_fetch_end(&container_of(node, struct moving, node)->blocks);
		moving_free(container_of(node, struct moving, node));
	}
	for (node = list_first(&known->mover->over); node; node = next) {
		next = list_next(&known->mover->over, node);
		if (container_of(node, struct moving, node)->known == known)
			moving_free(container_of(node, struct moving, node));
	}
}

static void mover_disconnect(struct mover *calls, uint32_t id)
{
	known_end(known_find(mover_of(calls), id));
	mover_schedule(mover_of(calls));
}

static int mover_offer(struct mover *calls, uint32_t id, uint64_t window, const struct vector *memory)
{
	struct sim_mover *mover = mover_of(calls);
	struct known *known = known_find(mover, id);
	int error = mover_refuses(mover);
	struct offered *offered;

	if (error)
		return error;
	if (offered_find(known, window))
		world_fail(mover->world, "%u offers a window twice", mover->wire->process->index);
	offered = sim_alloc(sizeof(*offered));
	offered->window = window;
	offered->memory = memory_new(mover, memory);
	list_push_back(&known->offers, &offered->node);
	return 0;
}

static void mover_withdraw(struct mover *calls, uint32_t id, uint64_t window)
{
	struct known *known = known_find(mover_of(calls), id);
	struct offered *offered = offered_find(known, window);

	if (!offered) {
		world_fail(known->mover->world, "%u withdraws a window that it has not offered",
			   known->mover->wire->process->index);
		return;
	}
	list_remove(&offered->node);
	memory_free(offered->memory);
	free(offered);
}

static int mover_fetch(struct mover *calls, const struct mover_fetch *fetch)
{
	struct sim_mover *mover = mover_of(calls);
	struct known *known = known_find(mover, fetch->connection);
	int error = mover_refuses(mover);
	struct moving *moving;

	if (error)
		return error;
	moving = sim_alloc(sizeof(*moving));
	moving->known = known;
	moving->memory = memory_new(mover, fetch->into);
	moving->transfer = fetch->transfer;
	moving->id = fetch->id;
	moving->window = fetch->window;
	moving->blocks.length = fetch->length;
	moving->blocks.frame = fetch->frame;
	moving->blocks.head = codec_native.data_head + guard_bytes(known->said.guard);
	block_fetch_begin(&moving->blocks, &known->peer);
	list_push_back(&known->fetches, &moving->node);
	if (mover_is_gone(mover))
		return 0;
	block_ask(&mover->blocks, mover->world->now_ns);
	mover_schedule(mover);
	return 0;
}

static void mover_cancel(struct mover *calls, uint32_t id, uint64_t transfer)
{
	struct sim_mover *mover = mover_of(calls);
	struct moving *moving = moving_find(known_find(mover, id), transfer);

	if (!moving)
		return;
	block_fetch_end(&moving->blocks);
	moving_free(moving);
	mover_schedule(mover);
}

/* Windows that cannot be read any more, each reported once. Withdrawn, they are no longer listed. */
static unsigned mover_lost(struct known *known, const struct mover_reports *reports, struct engine *engine)
{
	struct list_node *node, *next;
	unsigned n = 0;

	for (node = list_first(&known->offers); node; node = next) {
		struct offered *offered = container_of(node, struct offered, node);

		next = list_next(&known->offers, node);
		if (!offered->lost)
			continue;
		reports->lost(engine, known->said.index, offered->window);
		n++;
	}
	return n;
}

static unsigned mover_poll(struct mover *calls, const struct mover_reports *reports, struct engine *engine)
{
	struct sim_mover *mover = mover_of(calls);
	struct list_node *node;
	unsigned n = 0;

	while (!mover_is_gone(mover) && (node = list_first(&mover->over))) {
		struct moving *moving = container_of(node, struct moving, node);
		uint64_t id = moving->id;
		int status = moving->status;

		moving_free(moving);
		reports->fetched(engine, id, status);
		n++;
	}
	for (node = list_first(&mover->knowns); node && !mover_is_gone(mover); node = list_next(&mover->knowns, node))
		n += mover_lost(container_of(node, struct known, node), reports, engine);
	return n;
}

/* ---- Beginning and end ---------------------------------------------------------------------------------------- */

static void conditions_draw(struct mover_conditions *conditions, struct dice *dice, uint64_t now_ns)
{
	*conditions = (struct mover_conditions){
		.page_ns = dice_scale(dice, 10, 2000),
		.frame_ns = dice_scale(dice, 100, 5000),
		.chunk = (uint32_t)dice_between(dice, 1, 64),
		.pages_max = (uint32_t)dice_scale(dice, 128, 1 << 20),
		.vanish = dice_below(dice, 3) ? 0 : (uint32_t)dice_scale(dice, 100, 20000),
		.refuse = dice_below(dice, 3) ? 0 : (uint32_t)dice_scale(dice, 1000, 200000),
		.gone_ns = dice_below(dice, 4) ? UINT64_MAX : now_ns + dice_scale(dice, MILLISECOND, SECOND),
		.told = dice_below(dice, 2),
	};
}

struct sim_mover *sim_mover_open(struct wire *wire, uint64_t seed)
{
	static const struct mover_calls calls = {
		.connect = mover_connect,
		.disconnect = mover_disconnect,
		.offer = mover_offer,
		.withdraw = mover_withdraw,
		.fetch = mover_fetch,
		.cancel = mover_cancel,
		.poll = mover_poll,
	};
	static const struct block_calls blocks = {.get = moving_get, .put = moving_put, .pull = moving_pull};
	const struct block_rules rules = block_rules(&codec_native);
	struct sim_mover *mover = sim_alloc(sizeof(*mover));

	mover->mover = (struct mover){.calls = &calls, .least = LEAST};
	mover->wire = wire;
	mover->world = wire->network->world;
	mover->dice = dice_new(seed, 63);
	mover->addresses = UINT64_C(1) << 40;
	mover->timer.run = mover_expire;
	mover->sends.run = mover_send;
	conditions_draw(&mover->conditions, &mover->dice, mover->world->now_ns);
	block_init(&mover->blocks, &rules, &blocks);
	list_init(&mover->knowns);
	list_init(&mover->over);
	wire->link.mover = &mover->mover;
	return mover;
}

/* Its process has ended: nothing of it is there any more. */
static void sim_mover_stop(struct sim_mover *mover)
{
	struct list_node *node;

	mover->stopped = true;
	for (node = list_first(&mover->knowns); node; node = list_next(&mover->knowns, node))
		known_end(container_of(node, struct known, node));
	world_cancel(mover->world, &mover->timer);
	world_cancel(mover->world, &mover->sends);
}

uint32_t sim_mover_windows(const struct sim_mover *mover)
{
	struct list_node *node, *offer;
	uint32_t count = 0;

	for (node = list_first(&mover->knowns); node; node = list_next(&mover->knowns, node)) {
		const struct known *known = container_of(node, struct known, node);

		for (offer = list_first(&known->offers); offer; offer = list_next(&known->offers, offer))
			count++;
	}
	return count;
}

void sim_mover_close(struct sim_mover *mover)
{
	struct list_node *node;

	sim_mover_stop(mover);
	while ((node = list_first(&mover->knowns))) {
		list_remove(node);
		free(container_of(node, struct known, node));
	}
	free(mover);
}
