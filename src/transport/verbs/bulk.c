/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bulk: windows that are fetched, and windows that are lent.
 *
 * Whoever fetches chooses the way. A read needs the memory of both registered: the owner lends the window when it tells
 * of it, if its registration is kept or is worth being kept, or when it is asked; it takes it back when the window
 * ends. Where no monitor says when memory has changed, nothing stays registered beyond its transfer. Else the window
 * is pulled through the pipeline.
 *
 * When the queue fails, reads and pulls begin anew with the next one, behind what is in its place.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/verbs/card.h"

enum fetch_state {
	FETCH_ASKED,    /* the window is to be lent */
	FETCH_READING,
	FETCH_HUNGRY,   /* waits for bays, or for a queue */
	FETCH_PULLED,
};

enum { ACCESS_LENT = CACHE_WRITE << 1 }; /* bit of a registration's access: peers may read it */

struct registration {
	struct nic_memory memory;
	uint64_t watch;
};

/* ---- Registrations -------------------------------------------------------------------------------- */

static int registration_enter(void *arg, struct cache_entry *entry)
{
	struct card *card = arg;
	struct registration *registration = calloc(1, sizeof(*registration));
	uint64_t start_ns = card->nic->calls->now_ns(card->nic);
	unsigned access = entry->access & CACHE_WRITE ? NIC_ACCESS_WRITE : NIC_ACCESS_PEER_READ;
	int error;

	if (!registration)
		return THOLE_ERR_MEMORY;
	entry->word = card_watch(card, entry->address, entry->length, &access, &registration->watch);
	if (entry->word)
		entry->generation = __atomic_load_n(entry->word, __ATOMIC_ACQUIRE);
	error = card->nic->calls->register_memory(card->nic, (void *)(uintptr_t)entry->address, entry->length, access,
						  &registration->memory);
	if (error) {
		if (entry->word)
			card_unwatch(card, registration->watch);
		transport_count(card->owner, COUNTER_REGISTER_REFUSED);
		free(registration);
		return error == THOLE_ERR_MEMORY ? CACHE_FULL : error;
	}
	transport_count(card->owner, COUNTER_REGISTERED);
	choose_registered(&card->choose, entry->length, card->nic->calls->now_ns(card->nic) - start_ns);
	entry->handle = (uintptr_t)registration;
	return 0;
}

static void registration_leave(void *arg, struct cache_entry *entry)
{
	struct card *card = arg;
	struct registration *registration = (struct registration *)(uintptr_t)entry->handle;

	card->nic->calls->deregister(card->nic, &registration->memory);
	if (entry->word)
		card_unwatch(card, registration->watch);
	free(registration);
}

static const struct nic_memory *registration_of(const struct cache_entry *entry)
{
	return &((const struct registration *)(uintptr_t)entry->handle)->memory;
}

static struct cache_entry *registration_take(struct card *card, uint64_t address, uint64_t length, uint32_t access)
{
	struct cache_entry *entry;
	uint64_t hits = card->cache.counts.hits;

	if (cache_take(&card->cache, address, length, access, &entry) != 0)
		return NULL;
	if (card->cache.counts.hits > hits) {
		transport_count(card->owner, COUNTER_REGISTER_HITS);
		card->choose.found++;
	}
	return entry;
}

int bulk_verbs_open(struct card *card)
{
	static const struct cache_registrar registrar = {.enter = registration_enter, .leave = registration_leave};
	uint32_t room = card->setup.registrations + CARD_LENT_MAX;

	pool_init(&card->fetches, sizeof(struct verbs_fetch), 64, CARD_TRANSFERS);
	pool_init(&card->serves, sizeof(struct verbs_serve), 64, CARD_TRANSFERS);
	pool_init(&card->lends, sizeof(struct verbs_lend), 64, CARD_LENT_MAX);
	pool_init(&card->offers, sizeof(struct verbs_offer), 64, CARD_TRANSFERS);
	card->cache_memory = malloc(cache_size(room));
	if (!card->cache_memory)
		return error_set(THOLE_ERR_MEMORY, "no memory for an adapter");
	cache_init(&card->cache, card->cache_memory, room, card->setup.registrations,
		   card->nic->limits.registered_max);
	cache_serve(&card->cache, &registrar, card);
	return 0;
}

void bulk_verbs_close(struct card *card)
{
	for (uint32_t i = 0; i < card->lends.capacity; i++) {
		struct verbs_lend *lend = pool_at(&card->lends, i);

		if (pool_is_live(&card->lends, lend))
			cache_give(&card->cache, lend->entry);
	}
	for (uint32_t i = 0; i < card->fetches.capacity; i++) {
		struct verbs_fetch *fetch = pool_at(&card->fetches, i);

		if (pool_is_live(&card->fetches, fetch) && fetch->here)
			cache_give(&card->cache, fetch->here);
	}
	if (card->cache_memory)
		cache_fini(&card->cache);
	free(card->cache_memory);
	pool_fini(&card->fetches);
	pool_fini(&card->serves);
	pool_fini(&card->lends);
	pool_fini(&card->offers);
}

/* ---- Windows of ours ------------------------------------------------------------------------------ */

static struct verbs_lend *lend_window(struct pair *pair, uint64_t window, uint64_t address, uint64_t length)
{
	struct card *card = pair->card;
	struct verbs_lend *lend = pool_get(&card->lends);

	if (!lend)
		return NULL;
	*lend = (struct verbs_lend){.window = window};
	lend->entry = registration_take(card, address, length, ACCESS_LENT);
	if (!lend->entry) {
		pool_put(&card->lends, lend);
		return NULL;
	}
	list_push_back(&pair->lends, &lend->node);
	return lend;
}

static void lend_end(struct pair *pair, struct verbs_lend *lend)
{
	list_remove(&lend->node);
	cache_give(&pair->card->cache, lend->entry);
	pool_put(&pair->card->lends, lend);
}

static void lend_say(const struct verbs_lend *lend, uint64_t address, struct lent_there *there_p)
{
	*there_p = (struct lent_there){.address = address, .key = registration_of(lend->entry)->peer_key};
}

bool bulk_verbs_offer(struct pair *pair, struct record *record, struct lent_there *lent_p)
{
	struct card *card = pair->card;
	struct window window;
	struct verbs_lend *lend = NULL;
	struct plan plan;

	window_load(&window, record);
	pipeline_plan(pair, window.length, &plan);
	record->arg[1] = plan_pack(&plan);
	if (window.length == 0)
		return false;
	if (window.count == 1 && card->nic->limits.can & NIC_CAN_READ && card_keeps(card) &&
	    card->setup.way != CHOOSE_PIPELINE &&
	    (card->setup.way == CHOOSE_READ || cache_has(&card->cache, window.address, window.length, ACCESS_LENT) ||
	     choose_keep(&card->choose, window.address, window.length)))
		lend = lend_window(pair, window.id, window.address, window.length);
	if (!lend) {
		pair->early = window.id;
		pair->told_ns = card->nic->calls->now_ns(card->nic);
		pair->early_length = plan.first < window.length ? plan.first : (uint32_t)window.length;
		card_attend(pair);
		return false;
	}
	lend_say(lend, window.address, lent_p);
	return true;
}

static struct list_node *find(struct list_node *list, bool (*is)(const struct list_node *node, uint64_t key),
			      uint64_t key)
{
	for (struct list_node *node = list_first(list); node; node = list_next(list, node))
		if (is(node, key))
			return node;
	return NULL;
}

static bool is_lend(const struct list_node *node, uint64_t window)
{
	return container_of(node, struct verbs_lend, node)->window == window;
}

static bool is_offer(const struct list_node *node, uint64_t window)
{
	return container_of(node, struct verbs_offer, node)->window == window;
}

static bool is_fetch(const struct list_node *node, uint64_t id)
{
	return container_of(node, struct verbs_fetch, node)->id == id;
}

static bool is_serve(const struct list_node *node, uint64_t id)
{
	return container_of(node, struct verbs_serve, node)->id == id;
}

static bool serves_window(const struct list_node *node, uint64_t window)
{
	return container_of(node, struct verbs_serve, node)->window == window;
}

static void serve_drop(struct pair *pair, struct list_node *node)
{
	list_remove(node);
	pool_put(&pair->card->serves, container_of(node, struct verbs_serve, node));
}

void bulk_verbs_offer_end(struct pair *pair, uint64_t window)
{
	struct list_node *node = find(&pair->offers, is_offer, window);

	if (!node)
		return;
	list_remove(node);
	pool_put(&pair->card->offers, container_of(node, struct verbs_offer, node));
}

void bulk_verbs_offers_end(struct pair *pair)
{
	struct list_node *node;

	while ((node = list_first(&pair->offers))) {
		list_remove(node);
		pool_put(&pair->card->offers, container_of(node, struct verbs_offer, node));
	}
}

void bulk_verbs_window_end(struct pair *pair, uint64_t window)
{
	struct list_node *node;

	while ((node = find(&pair->lends, is_lend, window)))
		lend_end(pair, container_of(node, struct verbs_lend, node));
	while ((node = find(&pair->serves, serves_window, window)))
		serve_drop(pair, node);
	pipeline_early_drop(pair->card, pair, window, false);
	if (pair->early == window)
		pair->early = 0;
}

/* ---- What the peer asks for ----------------------------------------------------------------------- */

static void window_answer(struct pair *pair, uint8_t kind, uint64_t id, uint64_t first, uint64_t second)
{
	struct record record = {.kind = kind, .length = RECORD_EXTERNAL, .imm = id, .arg = {first, second}};

	pair->card->owner->up->control(pair->peer, &record);
}

static void window_asked(struct pair *pair, const struct record *record)
{
	const struct vector *vector = pair->card->owner->up->window(pair->peer, record->tag);
	struct list_node *former = find(&pair->lends, is_lend, record->tag);
	struct verbs_lend *lend = former ? container_of(former, struct verbs_lend, node) : NULL;
	struct lent_there there = {0};
	uint64_t address = vector && vector->count == 1 ? (uintptr_t)vector->segments->iov_base : 0;

	if (!vector) {
		window_answer(pair, VERBS_FAILED, record->imm, 0, 0);
		return;
	}
	if (address && !lend) /* once: so no more are lent than there are windows */
		lend = lend_window(pair, record->tag, address, vector->length);
	if (lend)
		lend_say(lend, address, &there);
	window_answer(pair, VERBS_LENT, record->imm, there.address, there.key);
}

/* What a pull says of where its chunks are to land. False: nowhere. */
static bool serve_bays(struct verbs_serve *serve, uint64_t bays)
{
	for (; serve->bay_count < CARD_BAYS_MAX && (uint8_t)bays < serve->pair->theirs.bays; bays >>= 8)
		serve->bays[serve->bay_count++] = (uint8_t)bays;
	serve->allowed = serve->bay_count;
	return serve->bay_count > 0;
}

static void window_pulled(struct pair *pair, const struct record *record)
{
	struct card *card = pair->card;
	const struct vector *vector = card->owner->up->window(pair->peer, record->tag);
	struct list_node *former = find(&pair->serves, serves_window, record->tag);
	struct verbs_serve *serve;
	struct plan plan;

	if (record->imm >> 32 != pair->theirs.round)
		return; /* for a queue that is no more: it was asked for anew */
	if (former) /* nobody pulls a window twice: so there are no more than there are windows */
		serve_drop(pair, former);
	serve = vector ? pool_get(&card->serves) : NULL;
	if (serve)
		*serve = (struct verbs_serve){.pair = pair, .window = record->tag, .id = (uint32_t)record->imm,
					      .length = record->arg[2]};
	if (!serve || !serve_bays(serve, record->arg[3]) || !plan_unpack(record->arg[1], &plan) ||
	    record->arg[2] > vector->length || record->arg[0] >= record->arg[2] ||
	    plan_room(&plan, plan_longest(&plan)) >
		    (pair->theirs.bay < card->setup.bay ? pair->theirs.bay : card->setup.bay)) {
		if (serve)
			pool_put(&card->serves, serve);
		window_answer(pair, VERBS_FAILED, (uint32_t)record->imm, 0, 0);
		return;
	}
	if (record->arg[0] == 0) {
		pipeline_pulled(pair, record->tag);
		choose_cap_told(&card->choose, record->arg[2], plan.cap);
	}
	plan_begin(&serve->walk, &plan, record->arg[0], record->arg[2]);
	list_push_back(&pair->serves, &serve->node);
	card_attend(pair);
}

static void window_lent(struct pair *pair, const struct record *record);
static void window_failed(struct pair *pair, const struct record *record);

void bulk_verbs_record(struct pair *pair, const struct record *record)
{
	struct list_node *node;

	if (record->length != RECORD_EXTERNAL) {
		transport_bad(pair->peer);
		return;
	}
	switch (record->kind) {
	case VERBS_PULL:
		window_pulled(pair, record);
		break;
	case VERBS_ASK:
		window_asked(pair, record);
		break;
	case VERBS_LENT:
		window_lent(pair, record);
		break;
	case VERBS_LANDED:
		node = find(&pair->serves, is_serve, record->imm);
		if (node)
			container_of(node, struct verbs_serve, node)->allowed =
				container_of(node, struct verbs_serve, node)->bay_count + (uint32_t)record->arg[0];
		break;
	case VERBS_FAILED:
		window_failed(pair, record);
		break;
	case VERBS_REGION:
	case VERBS_REGION_IS:
	case VERBS_REGION_END:
		access_record(pair, record);
		break;
	default:
		transport_bad(pair->peer);
	}
}

/* ---- Fetches -------------------------------------------------------------------------------------- */

void bulk_verbs_end(struct verbs_fetch *fetch, int status)
{
	struct pair *pair = fetch->pair;
	struct card *card = pair->card;
	struct transport_fetch *job = fetch->job;

	list_remove(&fetch->node);
	pipeline_free_bays(fetch);
	if (fetch->here)
		cache_give(&card->cache, fetch->here);
	if (!status) {
		uint64_t now_ns = card->nic->calls->now_ns(card->nic), ns = now_ns - fetch->start_ns;

		choose_measured(&card->choose, fetch->way, fetch->reused, fetch->length, ns);
		/* an adapter that reads memory for the first time may wait for its pages */
		if (fetch->way == CHOOSE_PIPELINE || fetch->reused)
			choose_carried(&card->choose, fetch->length - fetch->first_at, now_ns - fetch->first_ns);
		if (fetch->way == CHOOSE_PIPELINE && fetch->cap < CHOOSE_CAPS)
			choose_cap_measured(&card->choose, fetch->length, fetch->cap, ns);
		transport_count(card->owner, fetch->way == CHOOSE_READ ? COUNTER_BULK_READ : COUNTER_BULK_PIPELINE);
		card->owner->counters[COUNTER_BULK_BYTES] += fetch->length;
	}
	pool_put(&card->fetches, fetch);
	if (!card->closing)
		card->owner->up->fetched(job, status);
}

struct transport_fetch *bulk_verbs_take(struct pair *pair)
{
	struct list_node *node = list_first(&pair->fetches);
	struct verbs_fetch *fetch = node ? container_of(node, struct verbs_fetch, node) : NULL;
	struct transport_fetch *job = fetch ? fetch->job : NULL;

	if (!fetch)
		return NULL;
	list_remove(node);
	list_remove(&fetch->hungry);
	pipeline_free_bays(fetch);
	if (fetch->here)
		cache_give(&pair->card->cache, fetch->here);
	pool_put(&pair->card->fetches, fetch);
	return job;
}

/* By the pipeline, as soon as there are bays. */
static void fetch_pipeline(struct verbs_fetch *fetch)
{
	fetch->way = CHOOSE_PIPELINE;
	fetch->state = FETCH_HUNGRY;
	if (fetch->here)
		cache_give(&fetch->pair->card->cache, fetch->here);
	fetch->here = NULL;
	if (fetch->pair->state == PAIR_OPEN && list_empty(&fetch->pair->card->hungry) && pipeline_pull(fetch) == 0) {
		fetch->state = FETCH_PULLED;
		return;
	}
	list_remove(&fetch->hungry);
	list_push_back(&fetch->pair->card->hungry, &fetch->hungry);
}

/* Bytes of its next read. */
static uint32_t read_length(const struct verbs_fetch *fetch)
{
	uint64_t left = fetch->length - fetch->at, most = fetch->pair->card->nic->limits.length_max;

	if (most > CARD_READ)
		most = CARD_READ;
	return (uint32_t)(left < most ? left : most);
}

static void fetch_read(struct verbs_fetch *fetch)
{
	struct pair *pair = fetch->pair;
	struct nic_segment segment = {(char *)fetch->job->vector->segments->iov_base + fetch->at, read_length(fetch),
				      registration_of(fetch->here)->local_key};
	struct nic_work work = {
		.operation = NIC_READ, .count = 1, .segments = &segment, .remote_key = fetch->there.key,
		.remote_address = fetch->there.address + fetch->at,
		.id = work_id(WORK_READ, pool_index_of(&pair->card->fetches, fetch)),
	};
	int status;

	fetch->state = FETCH_READING;
	if (fetch->first_ns == 0)
		pipeline_first(fetch, fetch->at);
	if (pair->state != PAIR_OPEN || fetch->reads > 0)
		return;
	status = pair_post(pair, &work);
	if (status == 0)
		fetch->reads = segment.length;
	else
		pair->unread = true;
	if (status == THOLE_ERR_SYSTEM)
		fetch->there.address = 0; /* by the next queue it would be so again */
}

void bulk_verbs_read_ended(struct card *card, uint32_t index, int status)
{
	struct verbs_fetch *fetch = pool_at(&card->fetches, index);

	if (!status)
		fetch->at += fetch->reads;
	fetch->reads = 0;
	if (status == THOLE_ERR_ACCESS || status == THOLE_ERR_SYSTEM || (status && card->nic->limits.can & NIC_LATE))
		fetch->there.address = 0; /* not lent any more, or nobody says whether, or it cannot be read */
	if (!status && fetch->at == fetch->length)
		bulk_verbs_end(fetch, 0);
	else if (!status)
		fetch_read(fetch);
}

static void window_lent(struct pair *pair, const struct record *record)
{
	struct list_node *node = find(&pair->fetches, is_fetch, record->imm);
	struct verbs_fetch *fetch = node ? container_of(node, struct verbs_fetch, node) : NULL;

	if (!fetch || fetch->state != FETCH_ASKED)
		return;
	fetch->there = (struct lent_there){.address = record->arg[0], .key = (uint32_t)record->arg[1]};
	if (fetch->there.address && fetch->here)
		fetch_read(fetch);
	else
		fetch_pipeline(fetch);
}

/* An answer to what was asked: else the adapter may be at the memory, and the end of its work names the fetch. */
static void window_failed(struct pair *pair, const struct record *record)
{
	struct list_node *node = find(&pair->fetches, is_fetch, record->imm);
	struct verbs_fetch *fetch = node ? container_of(node, struct verbs_fetch, node) : NULL;

	if (fetch && (fetch->state == FETCH_ASKED || fetch->state == FETCH_PULLED))
		bulk_verbs_end(fetch, THOLE_ERR_PROTOCOL);
	else if (fetch)
		transport_bad(pair->peer);
}

/* Ask for the window while this side registers. False: there is no room for a question now. */
static bool fetch_borrow(struct verbs_fetch *fetch)
{
	struct record record = {.kind = VERBS_ASK, .length = RECORD_EXTERNAL, .tag = fetch->job->window.id,
				.imm = fetch->id};

	fetch->state = FETCH_ASKED;
	return records_say(fetch->pair, &record);
}

/* Which way. */
static bool fetch_reads(struct verbs_fetch *fetch, const struct verbs_offer *offer)
{
	struct card *card = fetch->pair->card;
	const struct vector *vector = fetch->job->vector;
	uint64_t address = (uintptr_t)vector->segments->iov_base;
	bool can = card->nic->limits.can & NIC_CAN_READ && fetch->job->window.count == 1 && vector->count == 1;
	bool here = can && cache_has(&card->cache, address, fetch->length, CACHE_WRITE);

	fetch->reused = offer && here;
	if (card->setup.way != CHOOSE_LEARN)
		return can && card->setup.way == CHOOSE_READ;
	if (can && offer && !here && choose_keep(&card->choose, address, fetch->length))
		return true;
	return choose_way(&card->choose, fetch->length, can, fetch->reused) == CHOOSE_READ;
}

static void fetch_begin(struct verbs_fetch *fetch)
{
	struct pair *pair = fetch->pair;
	struct list_node *node = find(&pair->offers, is_offer, fetch->job->window.id);
	const struct verbs_offer *offer = node ? container_of(node, struct verbs_offer, node) : NULL;

	if (!fetch_reads(fetch, offer)) {
		fetch_pipeline(fetch);
		return;
	}
	fetch->way = CHOOSE_READ;
	if (offer) {
		fetch->there = offer->there;
	} else if (!fetch_borrow(fetch)) {
		fetch_pipeline(fetch);
		return;
	}
	fetch->here = registration_take(pair->card, (uintptr_t)fetch->job->vector->segments->iov_base, fetch->length,
					CACHE_WRITE);
	if (!offer)
		return;
	if (fetch->here)
		fetch_read(fetch);
	else
		fetch_pipeline(fetch);
}

void bulk_verbs_fetch(struct transport_fetch *job)
{
	struct pair *pair = pair_get(job->peer);
	struct card *card = card_of(job->peer->owner);
	uint64_t length = job->window.length < job->vector->length ? job->window.length : job->vector->length;
	struct verbs_fetch *fetch = pair && length ? pool_get(&card->fetches) : NULL;

	if (!fetch) {
		card->owner->up->fetched(job, length ? THOLE_ERR_MEMORY : 0);
		return;
	}
	*fetch = (struct verbs_fetch){.job = job, .pair = pair, .id = pipeline_number(card), .length = length,
				.start_ns = card->nic->calls->now_ns(card->nic)};
	list_init(&fetch->hungry);
	list_push_back(&pair->fetches, &fetch->node);
	pair_want(pair);
	card_attend(pair);
	fetch_begin(fetch);
}

void bulk_verbs_offered(struct pair *pair, uint64_t window, const struct lent_there *there)
{
	struct verbs_offer *offer = pool_get(&pair->card->offers);

	if (!offer)
		return;
	*offer = (struct verbs_offer){.window = window, .there = *there};
	list_push_back(&pair->offers, &offer->node);
}

/* ---- Turns, and what becomes of it when the queue fails ------------------------------------------- */

bool bulk_verbs_busy(const struct pair *pair)
{
	return !list_empty(&pair->fetches) || !list_empty(&pair->serves);
}

bool bulk_verbs_turn(struct pair *pair)
{
	struct list_node *node;
	bool done = pipeline_land(pair);

	if (pair->dead || pair->state != PAIR_OPEN)
		return done;
	if (pair->unread && pair_has_room(pair))
		bulk_verbs_again(pair);
	node = list_first(&pair->serves);
	if (node) {
		struct verbs_serve *serve = container_of(node, struct verbs_serve, node);

		done |= pipeline_serve(serve);
		if (serve->walk.length == 0)
			serve_drop(pair, node);
	}
	return done;
}

/* In order: where one waits for several bays, those behind it that one is enough for do not take each that is freed. */
void bulk_verbs_feed(struct card *card)
{
	struct list_node *last = card->hungry.prev, *node;
	bool more = !list_empty(&card->hungry);
	int status = 0;

	while (more && (node = list_first(&card->hungry))) {
		struct verbs_fetch *fetch = container_of(node, struct verbs_fetch, hungry);

		more = node != last;
		list_remove(node);
		if (fetch->pair->state == PAIR_OPEN && status != THOLE_ERR_MEMORY &&
		    (status = pipeline_pull(fetch)) == 0)
			fetch->state = FETCH_PULLED;
		else
			list_push_back(&card->hungry, node);
	}
}

void bulk_verbs_broken(struct pair *pair)
{
	struct list_node *node;

	while ((node = list_first(&pair->serves)))
		serve_drop(pair, node);
	pair->landed = pair->arrived = 0;
	for (node = list_first(&pair->fetches); node; node = list_next(&pair->fetches, node)) {
		struct verbs_fetch *fetch = container_of(node, struct verbs_fetch, node);

		/* who was asked may have had the answer dropped with the queue */
		if (fetch->state == FETCH_PULLED || fetch->state == FETCH_ASKED) {
			pipeline_free_bays(fetch);
			fetch->pulled = false;
			fetch->id = pipeline_number(pair->card);
			fetch_pipeline(fetch);
		}
	}
	if (!pair->dead)
		return;
	while ((node = list_first(&pair->fetches))) {
		struct verbs_fetch *fetch = container_of(node, struct verbs_fetch, node);

		list_remove(&fetch->hungry);
		bulk_verbs_end(fetch, pair->peer->gone_status ? pair->peer->gone_status : THOLE_ERR_PEER);
	}
}

void bulk_verbs_again(struct pair *pair)
{
	struct list_node *next;

	pair->unread = false;
	for (struct list_node *node = list_first(&pair->fetches); node && !pair->unread; node = next) {
		struct verbs_fetch *fetch = container_of(node, struct verbs_fetch, node);

		next = list_next(&pair->fetches, node);
		if (fetch->state != FETCH_READING)
			continue;
		if (fetch->there.address)
			fetch_read(fetch);
		else
			fetch_pipeline(fetch);
	}
}

void bulk_verbs_lost(struct pair *pair)
{
	struct card *card = pair->card;
	struct list_node *node;

	pair->early = 0;
	pipeline_early_drop(card, pair, 0, true);
	while ((node = list_first(&pair->serves)))
		serve_drop(pair, node);
	bulk_verbs_offers_end(pair);
	while ((node = list_first(&pair->lends)))
		lend_end(pair, container_of(node, struct verbs_lend, node));
	if (!pair->queue)
		bulk_verbs_broken(pair);
}
