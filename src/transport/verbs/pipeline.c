/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pipeline: the superpipeline. The sender copies a chunk into a bay of staging and writes it into a bay of the
 * receiver's landing, and copies the next one while the wire is busy; the receiver copies each out of its bay as it
 * arrives, and has the bay filled again. Chunks grow (plan.h), and the first one is copied while the receiver is told
 * of the message. (Denis: A High-Performance Superpipeline Protocol for InfiniBand, section 4.)
 *
 * Bays are a resource of the card: transfers of several peers, in both directions, share them, and those that find none
 * wait in order. A transfer has up to PIPELINE_BAYS of them, so the sender need not wait for the chunk before.
 *
 * Each chunk ends with immediate data, by which the receiver knows that it is here; of an adapter that has none, with a
 * note behind the write, which the queue's order keeps there. Where adapters write in order, each block of it has a
 * flag, so the receiver copies one block while the next arrives. A flag is a number that is not there before.
 */
#include <string.h>

#include "base/atomic.h"
#include "transport/verbs/card.h"

enum {
	PIPELINE_BAYS = 4,
	PIPELINE_BUSY = 8, /* a pull that is found so soon after the first chunk's copy, in parts of that, was there */
};

static uint32_t pipeline_longest(const struct pair *pair, bool flags)
{
	uint32_t ours = pair->card->setup.bay, theirs = pair->theirs.bay;

	return plan_fits(flags, theirs && theirs < ours ? theirs : ours);
}

/* Whether blocks of what this card sends have flags. */
static bool pipeline_flags(const struct card *card)
{
	return card->nic->limits.can & NIC_ORDERED;
}

void pipeline_plan(const struct pair *pair, uint64_t length, struct plan *plan_p)
{
	const struct card *card = pair->card;
	const struct card_setup *setup = &card->setup;
	bool flags = pipeline_flags(card);
	uint32_t longest = pipeline_longest(pair, flags);

	if (setup->cap && setup->cap < longest)
		longest = setup->cap;
	choose_plan(&card->choose, length, flags, longest, plan_p);
	if (setup->cap)
		plan_p->cap = longest;
	if (setup->first)
		plan_p->first = setup->first < longest ? setup->first : longest;
	if (setup->growth)
		plan_p->growth = setup->growth;
}

/* ---- Chunks --------------------------------------------------------------------------------------- */

/* Where a chunk begins in its bay: the first block is the short one. */
static uint32_t chunk_start(const struct plan *plan, uint32_t length)
{
	return plan->flags ? plan_room(plan, length) / PLAN_BLOCK * PLAN_DATA - length : 0;
}

static uint64_t chunk_flag(uint32_t id, uint32_t chunk)
{
	return (uint64_t)id << 32 | (chunk + 1);
}

/* Bytes of a chunk from `at` on that lie in one piece of its bay, and where. */
static uint32_t chunk_piece(const struct plan *plan, uint32_t length, uint32_t at, uint32_t *place_p)
{
	uint32_t start = chunk_start(plan, length), data = start + at;

	if (!plan->flags) {
		*place_p = at;
		return length - at;
	}
	*place_p = data / PLAN_DATA * PLAN_BLOCK + data % PLAN_DATA;
	return PLAN_DATA - data % PLAN_DATA < length - at ? PLAN_DATA - data % PLAN_DATA : length - at;
}

static void chunk_fill(struct card *card, const struct plan *plan, const struct vector *vector, uint64_t offset,
		       uint8_t *bay, uint32_t length)
{
	uint32_t place, piece;

	for (uint32_t at = 0; at < length; at += piece) {
		piece = chunk_piece(plan, length, at, &place);
		card_copy_out(card, vector, offset + at, bay + place, piece, vector->length);
	}
}

/* ---- Sending -------------------------------------------------------------------------------------- */

void pipeline_bay_ended(struct card *card, uint32_t index)
{
	struct bay *bay = &card->bays[index];

	if (!bay->flying)
		return;
	bay->flying = false;
	list_push_front(&card->free_bays, &bay->node);
}

static void early_end(struct card *card, struct bay *bay)
{
	list_remove(&bay->node);
	card->early_count--;
	bay->pair = NULL;
}

void pipeline_early_drop(struct card *card, const struct pair *pair, uint64_t window, bool all)
{
	struct list_node *next;

	for (struct list_node *node = list_first(&card->early); node; node = next) {
		struct bay *bay = container_of(node, struct bay, node);

		next = list_next(&card->early, node);
		if (bay->pair != pair || (!all && bay->window != window))
			continue;
		early_end(card, bay);
		list_push_front(&card->free_bays, &bay->node);
	}
}

void pipeline_early(struct pair *pair)
{
	struct card *card = pair->card;
	uint64_t window = pair->early;
	const struct vector *vector = card->owner->up->window(pair->peer, window);
	struct list_node *node = list_first(&card->free_bays);
	struct plan plan = {.flags = pipeline_flags(card)};
	struct bay *bay;

	pair->early = 0;
	if (!vector || !node || card->early_count == CARD_EARLY_MAX || pair->early_length > vector->length ||
	    card->early_count >= card->setup.bays / 2)
		return;
	bay = container_of(node, struct bay, node);
	list_remove(node);
	bay->pair = pair;
	bay->window = window;
	bay->length = pair->early_length;
	chunk_fill(card, &plan, vector, 0, bay->bytes, bay->length);
	bay->told_ns = pair->told_ns;
	bay->filled_ns = card->nic->calls->now_ns(card->nic);
	list_push_back(&card->early, node);
	card->early_count++;
}

void pipeline_pulled(const struct pair *pair, uint64_t window)
{
	struct card *card = pair->card;
	uint64_t now_ns = card->nic->calls->now_ns(card->nic);

	for (struct list_node *node = list_first(&card->early); node; node = list_next(&card->early, node)) {
		const struct bay *bay = container_of(node, struct bay, node);

		if (bay->pair == pair && bay->window == window)
			choose_trip(&card->choose, now_ns - bay->told_ns,
				    now_ns - bay->filled_ns < (bay->filled_ns - bay->told_ns) / PIPELINE_BUSY);
	}
}

/* The chunk that was copied early, or a free bay; NULL: there is none now. */
static struct bay *serve_bay(const struct verbs_serve *serve, bool *filled_p)
{
	struct card *card = serve->pair->card;
	struct list_node *node;

	*filled_p = false;
	for (node = list_first(&card->early); node && serve->walk.at == 0; node = list_next(&card->early, node)) {
		struct bay *bay = container_of(node, struct bay, node);

		if (bay->pair != serve->pair || bay->window != serve->window)
			continue;
		early_end(card, bay);
		*filled_p = bay->length == serve->walk.length && serve->walk.plan.flags == pipeline_flags(card);
		return bay;
	}
	node = list_first(&card->free_bays);
	if (node) {
		list_remove(node);
		return container_of(node, struct bay, node);
	}
	node = list_first(&card->early); /* who sends goes before who may */
	if (!node)
		return NULL;
	early_end(card, container_of(node, struct bay, node));
	return container_of(node, struct bay, node);
}

static void chunk_sign(const struct verbs_serve *serve, uint8_t *bay)
{
	uint64_t flag = chunk_flag(serve->id, serve->chunks);
	uint32_t room = plan_room(&serve->walk.plan, serve->walk.length);

	for (uint32_t block = PLAN_BLOCK; serve->walk.plan.flags && block <= room; block += PLAN_BLOCK)
		memcpy(bay + block - PLAN_FLAG, &flag, sizeof(flag));
}

bool pipeline_serve(struct verbs_serve *serve)
{
	struct pair *pair = serve->pair;
	struct card *card = pair->card;
	const struct plan *plan = &serve->walk.plan;
	const struct vector *vector = card->owner->up->window(pair->peer, serve->window);
	uint32_t start = chunk_start(plan, serve->walk.length), slot;
	bool imm = card->nic->limits.can & NIC_CAN_IMM;
	struct nic_segment segment;
	struct nic_work work;
	struct bay *bay;
	bool filled;

	if (serve->chunks >= serve->allowed || pair->works >= card->nic->limits.works - 2 || !vector)
		return false;
	bay = serve_bay(serve, &filled);
	pair->starved = !bay;
	if (!bay)
		return false;
	if (!filled)
		chunk_fill(card, plan, vector, serve->walk.at, bay->bytes, serve->walk.length);
	chunk_sign(serve, bay->bytes);
	slot = serve->bays[serve->chunks % serve->bay_count];
	segment = (struct nic_segment){bay->bytes + start, plan_room(plan, serve->walk.length) - start,
				       card->registered.local_key};
	work = (struct nic_work){
		.operation = NIC_WRITE, .flags = imm ? NIC_POST_IMM : 0, .imm = serve->walk.length, .count = 1,
		.segments = &segment, .remote_key = pair->theirs.landing_key,
		.remote_address = pair->theirs.landing + (uint64_t)slot * pair->theirs.bay + start,
		.id = work_id(WORK_BAY, bay->index),
	};
	if (pair_post(pair, &work) != 0) { /* the queue is broken, and says so */
		list_push_front(&card->free_bays, &bay->node);
		return false;
	}
	bay->flying = true;
	if (!imm)
		records_tell_chunk(pair);
	card->owner->counters[COUNTER_BULK_CHUNKS]++;
	serve->chunks++;
	plan_next(&serve->walk);
	return true;
}

/* ---- Receiving ------------------------------------------------------------------------------------ */

/* A bay that was written to without flags has none where others look for theirs. */
static void flags_clear(const struct card *card, uint32_t bay)
{
	uint8_t *bytes = card->landing + (uint64_t)bay * card->setup.bay;

	for (uint32_t block = PLAN_BLOCK; block <= card->setup.bay; block += PLAN_BLOCK)
		memset(bytes + block - PLAN_FLAG, 0, PLAN_FLAG);
}

/* After the last one the first ones come again, which bays may have flags of. Where a chunk just lands its end says all
 * the same that it is here. */
uint32_t pipeline_number(struct card *card)
{
	uint32_t number = card->next_id++;

	if (card->next_id > 0)
		return number;
	for (uint32_t i = 0; i < card->setup.bays; i++)
		flags_clear(card, i);
	card->next_id = 1;
	return number;
}

/* Something of it has come, or never will. */
static void fetch_seen(struct verbs_fetch *fetch)
{
	fetch->pair->blind -= fetch->blind;
	fetch->blind = 0;
}

void pipeline_free_bays(struct verbs_fetch *fetch)
{
	struct card *card = fetch->pair->card;

	fetch_seen(fetch);
	for (uint32_t i = 0; i < fetch->bay_count; i++) {
		if (pipeline_flags(card) && !fetch->walk.plan.flags)
			flags_clear(card, fetch->bays[i]);
		card->landing_used[fetch->bays[i]] = 0;
	}
	card->landing_free += fetch->bay_count;
	fetch->bay_count = 0;
}

/* How many chunks there are from here on, if that is less than a bound. */
static uint32_t chunks_left(struct plan_walk walk, uint32_t bound)
{
	uint32_t n = 0;

	for (; walk.length > 0 && n < bound; n++)
		plan_next(&walk);
	return n;
}

int pipeline_pull(struct verbs_fetch *fetch)
{
	struct pair *pair = fetch->pair;
	struct card *card = pair->card;
	struct record record = {.kind = VERBS_PULL, .length = RECORD_EXTERNAL, .tag = fetch->job->window.id};
	struct plan plan;
	uint32_t wanted;

	if (!plan_unpack(fetch->job->window.address, &plan) || plan_room(&plan, plan_longest(&plan)) > card->setup.bay)
		pipeline_plan(pair, fetch->length, &plan);
	fetch->cap = CHOOSE_CAPS;
	if (!card->setup.cap)
		fetch->cap = choose_cap(&card->choose, fetch->length, pipeline_longest(pair, plan.flags), &plan);
	plan_begin(&fetch->walk, &plan, fetch->at, fetch->length);
	wanted = chunks_left(fetch->walk, PIPELINE_BAYS);
	/* the last ones are for who has begun, or has none yet: else one that computes could have all */
	if (pair->blind > 0 && card->landing_free < wanted + card->setup.bays / 4)
		return THOLE_ERR_AGAIN;
	if (card->landing_free < wanted && card->landing_free < CARD_BAYS_LEAST)
		return THOLE_ERR_MEMORY;
	record.arg[3] = UINT64_MAX;
	for (uint32_t i = 0; i < card->setup.bays && fetch->bay_count < wanted; i++) {
		if (card->landing_used[i])
			continue;
		card->landing_used[i] = 1;
		card->landing_free--;
		record.arg[3] &= ~(UINT64_C(0xff) << 8 * fetch->bay_count);
		record.arg[3] |= (uint64_t)i << 8 * fetch->bay_count;
		fetch->bays[fetch->bay_count++] = i;
	}
	fetch->chunks = 0;
	fetch->chunk_at = 0;
	record.imm = fetch->id | (uint64_t)pair->round << 32;
	record.arg[0] = fetch->at;
	record.arg[1] = plan_pack(&plan);
	record.arg[2] = fetch->length;
	if (!records_say(pair, &record)) {
		pipeline_free_bays(fetch);
		return THOLE_ERR_AGAIN;
	}
	list_remove(&fetch->node); /* chunks land in the order of pulls */
	list_push_back(&pair->fetches, &fetch->node);
	pair->blind += fetch->blind = fetch->bay_count;
	fetch->pulled = true;
	fetch->owing = false;
	return 0;
}

/* Bytes of the chunk from chunk_at on that are here. */
static uint32_t chunk_here(const struct verbs_fetch *fetch, const uint8_t *bay)
{
	const struct pair *pair = fetch->pair;
	const struct plan_walk *walk = &fetch->walk;
	uint64_t flag = chunk_flag(fetch->id, fetch->chunks);
	uint32_t place, piece, here = 0, left = walk->length - (uint32_t)fetch->chunk_at;

	if (pair->arrived > pair->landed)
		return left;
	if (!walk->plan.flags || !(pair->card->nic->limits.can & NIC_ORDERED))
		return 0;
	while (here < left) {
		piece = chunk_piece(&walk->plan, walk->length, (uint32_t)fetch->chunk_at + here, &place);
		place = place / PLAN_BLOCK * PLAN_BLOCK + PLAN_DATA;
		if (load_acquire((const uint64_t *)(const void *)(bay + place)) != flag) /* partner: the adapter */
			break;
		here += piece;
	}
	return here;
}

static void chunk_take(struct verbs_fetch *fetch, const uint8_t *bay, uint32_t here)
{
	struct plan_walk *walk = &fetch->walk;
	uint32_t place, piece;

	for (; here > 0; here -= piece) {
		piece = chunk_piece(&walk->plan, walk->length, (uint32_t)fetch->chunk_at, &place);
		card_copy_in(fetch->pair->card, fetch->job->vector, walk->at + fetch->chunk_at, bay + place, piece,
			     fetch->length);
		fetch->chunk_at += piece;
	}
}

/* Say how many chunks are out of their bays; where there is no room for that, later. */
static void fetch_say_landed(struct verbs_fetch *fetch)
{
	struct record record = {.kind = VERBS_LANDED, .length = RECORD_EXTERNAL, .imm = fetch->id,
				.arg = {fetch->chunks}};

	fetch->owing = !records_say(fetch->pair, &record);
}

/* The wire's rate is seen from here on. */
void pipeline_first(struct verbs_fetch *fetch, uint64_t at)
{
	fetch->first_at = at;
	fetch->first_ns = fetch->pair->card->nic->calls->now_ns(fetch->pair->card->nic);
}

/* A chunk is out of its bay: the next one but some may have it. */
static void chunk_done(struct verbs_fetch *fetch)
{
	struct pair *pair = fetch->pair;

	pair->landed++;
	fetch->at += fetch->walk.length;
	if (fetch->chunks++ == 0) {
		pipeline_first(fetch, fetch->at);
		fetch_seen(fetch);
	}
	fetch->chunk_at = 0;
	plan_next(&fetch->walk);
	if (fetch->walk.length == 0) {
		bulk_verbs_end(fetch, 0);
	} else if (chunks_left(fetch->walk, fetch->bay_count) >= fetch->bay_count) {
		fetch_say_landed(fetch);
	}
}

bool pipeline_land(struct pair *pair)
{
	struct card *card = pair->card;
	struct verbs_fetch *fetch = NULL;
	const uint8_t *bay;
	uint32_t here;

	for (struct list_node *node = list_first(&pair->fetches); node && !fetch;
	     node = list_next(&pair->fetches, node))
		if (container_of(node, struct verbs_fetch, node)->pulled)
			fetch = container_of(node, struct verbs_fetch, node);
	if (!fetch)
		return false;
	if (fetch->owing)
		fetch_say_landed(fetch);
	bay = card->landing + (uint64_t)fetch->bays[fetch->chunks % fetch->bay_count] * card->setup.bay;
	here = chunk_here(fetch, bay);
	if (here == 0)
		return false;
	chunk_take(fetch, bay, here);
	if (fetch->chunk_at == fetch->walk.length)
		chunk_done(fetch);
	return true;
}
