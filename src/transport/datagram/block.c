/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * block: see block.h.
 */
#include "transport/datagram/block.h"

#include "transport/datagram/wire/codec.h"

struct block_rules block_rules(const struct codec *codec)
{
	return (struct block_rules){
		.frames_max = codec->block_frames,
		.blocks_max = codec->blocks_max,
		.pull_blocks = codec->pull_blocks,
		.data = codec->data,
		.pull_ns = codec->pull_ns,
		.selective = codec->selective,
	};
}

void block_init(struct blocks *blocks, const struct block_rules *rules, const struct block_calls *calls)
{
	*blocks = (struct blocks){.rules = *rules, .calls = calls, .version = 1};
	list_init(&blocks->list);
	list_init(&blocks->fetching);
}

void block_peer_init(struct block_peer *peer, struct blocks *blocks, uint64_t seed)
{
	*peer = (struct block_peer){.all = blocks, .seed = (uint16_t)seed, .window = blocks->outstanding_max};
	list_init(&peer->node);
	list_init(&peer->fetches);
	list_init(&peer->asked);
	list_init(&peer->blocks);
}

uint32_t block_bytes(const struct block_rules *rules, uint32_t frame, uint32_t head)
{
	uint32_t frames = rules->data ? rules->frames_max : BATCH_MAX / (frame + head);

	if (frames > rules->frames_max)
		frames = rules->frames_max;
	if (frames > BLOCK_FRAMES_MAX)
		frames = BLOCK_FRAMES_MAX;
	return (frames ? frames : 1) * frame;
}

/* ---- Blocks --------------------------------------------------------------------------------------------- */

static uint32_t block_frames(const struct block *block)
{
	return (block->length + block->skew + block->fetch->frame - 1) / block->fetch->frame;
}

/* Frames end where pages of the sender's memory do, so where a window begins within one the first is shorter. */
static uint32_t block_skew(const struct block_fetch *fetch, uint64_t offset)
{
	uint32_t data = fetch->peer->all->rules.data;

	return data ? (uint32_t)((offset + fetch->place) % data) : 0;
}

static void block_free(struct block *block)
{
	struct block_peer *peer = block->fetch->peer;
	struct blocks *blocks = peer->all;

	blocks->version++;
	if (!block->late)
		blocks->outstanding -= block->length;
	peer->outstanding -= block->length;
	block->fetch->blocks--;
	list_remove(&block->node);
	list_remove(&block->peer_node);
	blocks->calls->put(peer, block);
}

static bool block_new(struct block_fetch *fetch, uint64_t offset, uint32_t length, uint64_t now_ns)
{
	struct block_peer *peer = fetch->peer;
	struct blocks *blocks = peer->all;
	struct block *block = blocks->calls->get(peer);

	if (!block)
		return false;
	*block = (struct block){
		.fetch = fetch,
		.offset = offset,
		.length = length,
		.skew = block_skew(fetch, offset),
		.asked_ns = now_ns,
		.order = ++peer->order,
	};
	fetch->blocks++;
	block->missing = block_mask(block_frames(block));
	blocks->version++;
	list_push_back(&blocks->list, &block->node);
	list_push_back(&peer->blocks, &block->peer_node);
	blocks->outstanding += length;
	peer->outstanding += length;
	return true;
}

/* The part of a block from the first missing frame to the last. Where single ones cannot be asked for, all of it could
 * be too much for the way each time, and this part gets shorter. */
static void block_missing(const struct block *block, struct block_pull *pull)
{
	uint32_t frame = block->fetch->frame, first = (uint32_t)__builtin_ctzll(block->missing);
	uint32_t last = 63 - (uint32_t)__builtin_clzll(block->missing);
	uint32_t from = first ? first * frame - block->skew : 0, to = (last + 1) * frame - block->skew;

	pull->offset = block->offset + from;
	pull->length = (to < block->length ? to : block->length) - from;
}

static void block_again(struct block *block, uint64_t now_ns)
{
	struct block_peer *peer = block->fetch->peer;
	struct blocks *blocks = peer->all;
	struct block_pull pull = {
		.offset = block->offset,
		.length = block->length,
		.wanted = block->missing == block_mask(block_frames(block)) ? 0 : block->missing,
	};

	blocks->version++;
	block->refused = false;
	block->asked_ns = now_ns;
	block->order = ++peer->order;
	if (block->tries < UINT8_MAX)
		block->tries++;
	list_remove(&block->node);
	list_push_back(&blocks->list, &block->node);
	list_remove(&block->peer_node);
	list_push_back(&peer->blocks, &block->peer_node);
	if (!blocks->rules.selective) {
		block_missing(block, &pull);
		pull.wanted = 0;
	}
	pull.tries = block->tries;
	blocks->calls->pull(block->fetch, &pull);
}

/* ---- Time ----------------------------------------------------------------------------------------------- */

/* How long nothing may come before a peer is asked again: by measured trips, twice as long each time. */
static uint64_t peer_patience(const struct block_peer *peer)
{
	uint64_t ns = trip_limit(&peer->trip), least_ns = PULL_PROBE_NS, fixed_ns = peer->all->rules.pull_ns;

	if (fixed_ns && peer->backoff > 0)
		return fixed_ns;
	if (fixed_ns || peer->trip.smoothed_ns == 0)
		least_ns = PULL_MIN_NS;
	if (ns < least_ns)
		ns = least_ns;
	ns <<= peer->backoff;
	return trip_spread(peer->seed * UINT64_C(0x1000100010001), ns < RESEND_MAX_NS ? ns : RESEND_MAX_NS,
			   peer->backoff);
}

static void peer_wait(struct block_peer *peer, uint64_t now_ns)
{
	peer->timeout_ns = list_empty(&peer->blocks) ? 0 : now_ns + peer_patience(peer);
}

/* ---- Fetches -------------------------------------------------------------------------------------------- */

void block_fetch_begin(struct block_fetch *fetch, struct block_peer *peer)
{
	fetch->peer = peer;
	fetch->asked = fetch->received = 0;
	fetch->blocks = 0;
	if (list_empty(&peer->fetches))
		list_push_back(&peer->all->fetching, &peer->node);
	list_push_back(&peer->fetches, &fetch->node);
}

/* Out of those that have something to be asked for. */
static void fetch_unlist(struct block_fetch *fetch)
{
	list_remove(&fetch->node);
	if (list_empty(&fetch->peer->fetches))
		list_remove(&fetch->peer->node);
}

void block_fetch_end(struct block_fetch *fetch)
{
	struct block_peer *peer = fetch->peer;
	struct list_node *node = list_first(&peer->blocks), *next;

	for (; node && fetch->blocks > 0; node = next) {
		struct block *block = container_of(node, struct block, peer_node);

		next = list_next(&peer->blocks, node);
		if (block->fetch == fetch)
			block_free(block);
	}
	fetch_unlist(fetch);
	if (list_empty(&peer->blocks))
		peer->timeout_ns = 0;
}

static void fetch_send(struct block_fetch *fetch, uint64_t from)
{
	struct block_pull pull = {.offset = from, .length = (uint32_t)(fetch->asked - from)};

	fetch->peer->all->calls->pull(fetch, &pull);
}

/* Ask for the next bytes of a peer's oldest fetch: at most `credit`. Returns how many. */
static uint64_t fetch_ask(struct block_fetch *fetch, uint64_t credit, uint64_t now_ns)
{
	struct block_peer *peer = fetch->peer;
	const struct block_rules *rules = &peer->all->rules;
	uint32_t bytes = block_bytes(rules, fetch->frame, fetch->head), blocks = 0;
	uint64_t start = fetch->asked, sent = start; /* PULLs were sent for all before it */

	while (fetch->asked < fetch->length && fetch->asked - start < credit && fetch->blocks < rules->blocks_max) {
		uint64_t left = fetch->length - fetch->asked;
		uint32_t most = bytes - block_skew(fetch, fetch->asked);
		uint32_t length = left < most ? (uint32_t)left : most;

		if (fetch->asked > start && fetch->asked - start + length > credit)
			break;
		if (!block_new(fetch, fetch->asked, length, now_ns))
			break;
		fetch->asked += length;
		if (peer->timeout_ns == 0)
			peer_wait(peer, now_ns);
		if (++blocks % rules->pull_blocks)
			continue;
		fetch_send(fetch, sent);
		sent = fetch->asked;
	}
	if (fetch->asked == start)
		return 0;
	if (sent < fetch->asked)
		fetch_send(fetch, sent);
	if (fetch->asked == fetch->length) {
		fetch_unlist(fetch);
		list_push_back(&peer->asked, &fetch->node);
	}
	return fetch->asked - start;
}

/* How much may be asked of a peer now. Not little by little, but as long as nothing is under way. */
static uint64_t fetch_credit(const struct block_fetch *fetch)
{
	const struct block_peer *peer = fetch->peer;
	const struct blocks *blocks = peer->all;
	uint64_t left = fetch->length - fetch->asked;
	/* rounded up: of the least credit, too, there is a part, or nothing would ever be asked for */
	uint64_t part = (blocks->outstanding_max + PULL_SHARE - 1) / PULL_SHARE;
	uint64_t window = peer->window > peer->outstanding ? peer->window - peer->outstanding : 0;
	uint64_t all =
		blocks->outstanding_max > blocks->outstanding ? blocks->outstanding_max - blocks->outstanding : 0;
	uint64_t credit = window < all ? window : all;

	if (all > 0 && peer->outstanding == 0)
		return credit && credit < part ? credit : part; /* at least one block */
	if (credit < part && credit < left)
		return 0;
	return credit < part ? credit : part;
}

void block_ask(struct blocks *blocks, uint64_t now_ns)
{
	struct list_node *node = list_first(&blocks->fetching), *last = blocks->fetching.prev;

	/* Each peer in turn; who was asked goes behind, and has another turn while there is credit. */
	while (node && blocks->outstanding < blocks->outstanding_max) {
		struct block_peer *peer = container_of(node, struct block_peer, node);
		struct block_fetch *fetch = container_of(list_first(&peer->fetches), struct block_fetch, node);
		uint64_t credit = fetch_credit(fetch);
		struct list_node *next = node == last ? NULL : node->next;

		if (credit > 0 && fetch_ask(fetch, credit, now_ns) > 0) {
			if (!list_empty(&peer->fetches)) {
				list_remove(node);
				list_push_back(&blocks->fetching, node);
				last = node;
			}
			if (!next)
				next = list_first(&blocks->fetching);
			if (!list_empty(&blocks->fetching))
				last = blocks->fetching.prev;
		}
		node = next;
	}
}

/* ---- What comes, and what does not ---------------------------------------------------------------------- */

/* The window grows by what comes and narrows by twice what is lost: so it stays wide where as much as one in five is
 * by bad luck, and becomes least where a third is for want of room. */
static void peer_grow(struct block_peer *peer, uint64_t bytes)
{
	uint64_t most = peer->all->outstanding_max;

	peer->window = peer->window + bytes < most ? peer->window + bytes : most;
}

static void peer_shrink(struct block_peer *peer, uint64_t lost, uint64_t least)
{
	if (peer->window > least + PULL_LOSS * lost)
		peer->window -= PULL_LOSS * lost;
	else if (peer->window > least)
		peer->window = least;
}

/* Bytes of frames that are not here. Counted in a loop: the kernel has no __popcountdi2 for gcc's builtin. */
static uint64_t block_lost(const struct block *block)
{
	uint64_t bytes = 0;

	for (uint64_t missing = block->missing; missing; missing &= missing - 1)
		bytes += block->fetch->frame;
	return bytes;
}

/* Blocks asked for before this one and still not here have lost frames: ask again, each once a trip. */
static void blocks_overtaken(struct block_peer *peer, uint32_t order, uint64_t now_ns)
{
	struct list_node *node = list_first(&peer->blocks);
	uint32_t newest = peer->order;

	while (node) {
		struct block *block = container_of(node, struct block, peer_node);

		node = list_next(&peer->blocks, node);
		if ((int32_t)(block->order - order) >= 0 || (int32_t)(block->order - newest) > 0)
			return;
		if (block->tries > 0 && peer->all->rules.pull_ns)
			continue; /* all of it comes again, so once a time-out has to do */
		peer_shrink(peer, block_lost(block), 2 * (uint64_t)block->length);
		block_again(block, now_ns);
	}
}

static struct block *block_at(const struct block_fetch *fetch, uint64_t offset)
{
	const struct list_node *head = &fetch->peer->blocks;
	struct list_node *node;

	for (node = list_first(head); node; node = list_next(head, node)) {
		struct block *block = container_of(node, struct block, peer_node);

		if (block->fetch == fetch && offset >= block->offset && offset - block->offset < block->length)
			return block;
	}
	return NULL;
}

struct block *block_find(const struct block_fetch *fetch, uint64_t offset, uint32_t length, uint32_t *index_p,
			 enum block_verdict *verdict_p)
{
	struct block *block = offset < fetch->asked ? block_at(fetch, offset) : NULL;
	uint32_t within, start, left;

	*verdict_p = offset < fetch->asked ? BLOCK_DUPLICATE : BLOCK_MALFORMED;
	if (!block)
		return NULL;
	left = block->length - (uint32_t)(offset - block->offset);
	within = (uint32_t)(offset - block->offset) + block->skew;
	start = within % fetch->frame;
	*index_p = within / fetch->frame;
	if ((start != 0 && offset != block->offset) ||
	    length != (left < fetch->frame - start ? left : fetch->frame - start)) {
		*verdict_p = BLOCK_MALFORMED;
		return NULL;
	}
	if (!(block->missing >> *index_p & 1))
		return NULL;
	*verdict_p = BLOCK_FINE;
	return block;
}

/* Does what has come answer the latest PULL of its block? Not where that was sent just now: then an earlier one's
 * answer was late. */
static bool block_answers(const struct block *block, uint64_t now_ns)
{
	struct trip *trip = &block->fetch->peer->trip;
	uint64_t ns = now_ns - block->asked_ns;

	if (block->tries > 0)
		return ns >= trip->least_ns;
	trip_shorten(trip, ns);
	return true;
}

bool block_received(struct block *block, uint32_t index, uint32_t count, const struct trip_away *away, uint64_t now_ns)
{
	struct block_fetch *fetch = block->fetch;
	struct block_peer *peer = fetch->peer;
	uint32_t order = block->order, length = block->length;
	bool answers = block_answers(block, now_ns), last;

	block->missing &= ~(block_mask(count) << index);
	peer->all->version++;
	peer->backoff = 0; /* there is a way: whatever else was lost is no reason to wait longer */
	last = block->missing >> index == 0; /* behind them nothing is missing */
	if (last && block->tries == 0) /* else it would not be known which PULL the trip was of */
		trip_measure(&peer->trip, now_ns - block->asked_ns, trip_unseen(away, block->asked_ns));
	peer_grow(peer, (uint64_t)count * fetch->frame);
	if (block->missing == 0) {
		fetch->received += length;
		block_free(block);
	} else {
		order += last; /* its own earlier frames are late as well */
		answers &= last || peer->all->rules.selective; /* what is asked for again else costs more */
	}
	peer_wait(peer, now_ns);
	if (answers && !list_empty(&peer->blocks) &&
	    container_of(list_first(&peer->blocks), struct block, peer_node)->order != order)
		blocks_overtaken(peer, order, now_ns);
	return fetch->received == fetch->length;
}

void block_welcome(struct block_fetch *fetch, uint64_t now_ns)
{
	struct block_peer *peer = fetch->peer;
	struct list_node *node = list_first(&peer->blocks);
	uint32_t newest = peer->order;

	while (node && peer->all->rules.pull_ns) {
		struct block *block = container_of(node, struct block, peer_node);

		node = list_next(&peer->blocks, node);
		if ((int32_t)(block->order - newest) > 0)
			break;
		if (block->fetch == fetch && block->refused)
			block_again(block, now_ns);
	}
}

/* A block that is late takes no credit from others: one slow or dead peer delays no other. */
static void block_late(struct block *block)
{
	if (!block->late)
		block->fetch->peer->all->outstanding -= block->length;
	block->late = true;
}

/* If nothing has come for a short time, perhaps only a PULL was lost, or the last frames: ask for the oldest block
 * again, whose frames then say of all others whether they are lost. Else ask for all that is late, with less under way
 * from now on. */
void block_expire(struct block_peer *peer, uint64_t now_ns)
{
	uint64_t fixed_ns = peer->all->rules.pull_ns, patience_ns = peer_patience(peer);
	bool poll = patience_ns < PULL_MIN_NS, again = fixed_ns == 0 || peer->backoff > 0;
	uint32_t newest = peer->order;
	struct list_node *node = list_first(&peer->blocks);
	unsigned left = poll ? 1 : RESEND_BURST;

	if (!poll && again)
		peer->window = peer->window / 2 > 1 ? peer->window / 2 : 1;
	while (node && left > 0) {
		struct block *block = container_of(node, struct block, peer_node);

		node = list_next(&peer->blocks, node);
		if ((int32_t)(block->order - newest) > 0)
			break;
		if (now_ns - block->asked_ns < patience_ns)
			continue;
		if (!poll)
			block_late(block);
		if (again)
			block_again(block, now_ns);
		left -= again;
	}
	if (peer->backoff < 16)
		peer->backoff++;
	peer_wait(peer, now_ns);
}
