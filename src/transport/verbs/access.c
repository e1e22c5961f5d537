/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * access: puts and gets by the adapters alone, without the target's process.
 *
 * Owns what is exported of our regions, what is known of peers' (grants.h), and accesses under way. A region is
 * exported when a peer asks for it: registered as a whole, until its exposure ends or its mapping changes, which takes
 * a monitor. Who asks goes on by records meanwhile; from the answer on, what fits a bay of staging is written or read.
 *
 * An access whose queue fails may have happened or not. Puts and gets may happen twice, so they are done again by
 * records (a target that looks at its memory may see both puts: thole_put); an atomic operation may not, so none goes
 * this way.
 *
 * A put is complete when a read behind it is: then the bytes are in the target's memory, whatever is between that and
 * its adapter.
 */
#include <string.h>

#include "transport/verbs/card.h"

enum {
	ACCESS_FLUSH = 8,          /* bytes at the end of a bay, for the read behind a put */
};

#define ACCESS_REGION_MAX ((uint64_t)1 << 40)

/* ---- Regions of ours -------------------------------------------------------------------------------- */

static struct verbs_export *export_find(const struct card *card, uint64_t key)
{
	for (struct list_node *node = list_first(&card->exports); node; node = list_next(&card->exports, node))
		if (container_of(node, struct verbs_export, node)->key == key)
			return container_of(node, struct verbs_export, node);
	return NULL;
}

static struct verbs_export *export_new(struct card *card, uint64_t key, const struct iovec *memory, bool put)
{
	struct verbs_export *export = pool_get(&card->export_pool);
	unsigned access = NIC_ACCESS_PEER_READ | (put ? NIC_ACCESS_WRITE | NIC_ACCESS_PEER_WRITE : 0);

	if (!export)
		return NULL;
	*export = (struct verbs_export){.key = key};
	export->word = card_watch(card, (uintptr_t)memory->iov_base, memory->iov_len, &access, &export->watch);
	if (export->word) {
		export->generation = __atomic_load_n(export->word, __ATOMIC_ACQUIRE);
		if (card->nic->calls->register_memory(card->nic, memory->iov_base, memory->iov_len, access,
						      &export->memory) == 0) {
			transport_count(card->owner, COUNTER_REGISTERED);
			list_push_back(&card->exports, &export->node);
			return export;
		}
		transport_count(card->owner, COUNTER_REGISTER_REFUSED);
		card_unwatch(card, export->watch);
	}
	pool_put(&card->export_pool, export);
	return NULL;
}

/* Nobody reaches it any more. */
static void export_end(struct card *card, struct verbs_export *export)
{
	list_remove(&export->node);
	card->nic->calls->deregister(card->nic, &export->memory);
	card_unwatch(card, export->watch);
	pool_put(&card->export_pool, export);
}

/* Those who use it would break their queue: let them know, where that can be said now. */
static void export_withdraw(struct card *card, struct verbs_export *export)
{
	struct record record = {.kind = VERBS_REGION_END, .length = RECORD_EXTERNAL, .tag = export->key};

	export_end(card, export);
	for (uint32_t i = 0; i < card->pair_count; i++)
		if (card->pairs[i] && !card->pairs[i]->dead && card->pairs[i]->state == PAIR_OPEN)
			(void)records_say(card->pairs[i], &record);
}

void access_region_end(struct card *card, uint64_t key)
{
	struct verbs_export *export = export_find(card, key);

	if (export)
		export_withdraw(card, export);
}

void access_turn(struct card *card)
{
	struct list_node *next;

	for (struct list_node *node = list_first(&card->exports); node; node = next) {
		struct verbs_export *export = container_of(node, struct verbs_export, node);

		next = list_next(&card->exports, node);
		if (__atomic_load_n(export->word, __ATOMIC_ACQUIRE) != export->generation)
			export_withdraw(card, export);
	}
}

/* A peer wants to know a region. */
static void region_asked(struct pair *pair, const struct record *record)
{
	struct card *card = pair->card;
	struct record answer = {.kind = VERBS_REGION_IS, .length = RECORD_EXTERNAL, .tag = record->tag};
	struct verbs_export *export = NULL;
	struct iovec memory;
	unsigned access;

	access_turn(card);
	if (card_keeps(card) && card->owner->up->region(pair->peer, record->tag, &memory, &access) &&
	    access && memory.iov_base && memory.iov_len > 0 && memory.iov_len <= ACCESS_REGION_MAX) {
		export = export_find(card, record->tag);
		if (!export)
			export = export_new(card, record->tag, &memory, access & THOLE_ACCESS_PUT);
	}
	if (export) {
		answer.arg[0] = export->memory.address;
		answer.arg[1] = export->memory.length;
		answer.arg[2] = export->memory.peer_key;
		answer.arg[3] = access;
	}
	card->owner->up->control(pair->peer, &answer);
}

/* ---- Regions of peers ------------------------------------------------------------------------------- */

/* The first use of a region: ask for it. */
static void peer_region_ask(struct pair *pair, uint64_t key)
{
	struct record record = {.kind = VERBS_REGION, .length = RECORD_EXTERNAL, .tag = key};
	struct grant *grant = grants_add(&pair->grants, &pair->card->grants, key);

	if (grant && !records_say(pair, &record))
		grants_drop(&pair->grants, &pair->card->grants, grant);
}

static void region_told(struct pair *pair, const struct record *record)
{
	struct grant *grant = grants_find(&pair->grants, record->tag);

	if (!grant)
		return;
	if (record->kind == VERBS_REGION_END) {
		grants_drop(&pair->grants, &pair->card->grants, grant);
		return;
	}
	grant->address = record->arg[0];
	grant->length = record->arg[1];
	grant->by = (uint32_t)record->arg[2];
	grant->access = (unsigned)record->arg[3];
}

void access_record(struct pair *pair, const struct record *record)
{
	if (record->kind == VERBS_REGION)
		region_asked(pair, record);
	else
		region_told(pair, record);
}

/* ---- Accesses --------------------------------------------------------------------------------------- */

static bool access_post(const struct verbs_access *access, const struct grant *grant)
{
	struct pair *pair = access->pair;
	struct card *card = pair->card;
	struct bay *bay = &card->bays[access->bay];
	uint64_t there = grant->address + access->job->offset;
	struct nic_segment segment = {bay->bytes, access->length, card->registered.local_key};
	struct nic_work work = {
		.operation = access->job->put ? NIC_WRITE : NIC_READ, .count = 1, .segments = &segment,
		.remote_key = (uint32_t)grant->by, .remote_address = there,
		.id = work_id(access->job->put ? WORK_PUT : WORK_ACCESS, pool_index_of(&card->accesses, access)),
	};

	if (pair_post(pair, &work) != 0)
		return false;
	if (!access->job->put)
		return true;
	segment.address = bay->bytes + card->setup.bay - ACCESS_FLUSH;
	segment.length = 1;
	work.operation = NIC_READ;
	work.remote_address = there + access->length - 1;
	work.id = work_id(WORK_ACCESS, pool_index_of(&card->accesses, access));
	(void)pair_post(pair, &work); /* where it fails, the queue does, and the access with it */
	return true;
}

/* Memory of ours for it, filled in. */
static struct verbs_access *access_new(struct pair *pair, struct transport_access *job)
{
	struct card *card = pair->card;
	struct list_node *node = list_first(&card->free_bays);
	struct verbs_access *access = node ? pool_get(&card->accesses) : NULL;
	struct bay *bay;

	if (!access)
		return NULL;
	bay = container_of(node, struct bay, node);
	list_remove(node);
	*access = (struct verbs_access){.pair = pair, .job = job, .bay = bay->index,
					.length = (uint32_t)job->vector->length};
	if (job->put)
		card_copy_out(card, job->vector, 0, bay->bytes, access->length, access->length);
	return access;
}

static void access_free(struct verbs_access *access)
{
	struct card *card = access->pair->card;

	list_push_front(&card->free_bays, &card->bays[access->bay].node);
	pool_put(&card->accesses, access);
}

bool access_begin(struct pair *pair, struct transport_access *job)
{
	struct card *card = pair->card;
	uint64_t length = job->vector->length;
	struct verbs_access *access;
	struct grant *grant;

	if (pair->state != PAIR_OPEN || pair->again || length == 0 || length > card->setup.bay - ACCESS_FLUSH ||
	    !(card->nic->limits.can & NIC_CAN_READ) || pair->works + 2 > card->nic->limits.works / 2)
		return false;
	grant = grants_find(&pair->grants, job->key);
	if (!grant) {
		peer_region_ask(pair, job->key);
		return false;
	}
	if (!grants_use(&pair->grants, grant, job))
		return false;
	access = access_new(pair, job);
	if (!access)
		return false;
	if (!access_post(access, grant)) {
		access_free(access);
		return false;
	}
	transport_count(card->owner, job->put ? COUNTER_VERBS_PUTS : COUNTER_VERBS_GETS);
	list_push_back(&pair->accesses, &access->node);
	card_attend(pair);
	return true;
}

static void access_end(struct verbs_access *access, int status)
{
	struct card *card = access->pair->card;
	struct transport_access *job = access->job;

	list_remove(&access->node);
	access_free(access);
	if (!card->closing)
		card->owner->up->accessed(job, status);
}

void access_ended(struct card *card, uint32_t index, int status)
{
	struct verbs_access *access = pool_at(&card->accesses, index);

	if (status)
		return; /* it ends with its queue */
	if (!access->job->put)
		card_copy_in(card, access->job->vector, 0, card->bays[access->bay].bytes, access->length,
			     access->length);
	access_end(access, 0);
}

void access_broken(struct pair *pair)
{
	struct list_node *node;
	struct list_node over;

	grants_clear(&pair->grants, &pair->card->grants);
	list_init(&over); /* one that is done again by records may begin another one */
	while ((node = list_first(&pair->accesses))) {
		list_remove(node);
		list_push_back(&over, node);
	}
	while ((node = list_first(&over))) {
		int gone = pair->peer->gone_status ? pair->peer->gone_status : THOLE_ERR_PEER;

		access_end(container_of(node, struct verbs_access, node), pair->dead ? gone : THOLE_ERR_AGAIN);
	}
}

/* ---- Opening ---------------------------------------------------------------------------------------- */

void access_open(struct card *card)
{
	pool_init(&card->grants, sizeof(struct grant), 16, GRANTS_ALL_MAX);
	pool_init(&card->accesses, sizeof(struct verbs_access), 16, CARD_TRANSFERS);
	pool_init(&card->export_pool, sizeof(struct verbs_export), 16, CARD_TRANSFERS);
	list_init(&card->exports);
}

void access_close(struct card *card)
{
	struct list_node *node;

	while ((node = list_first(&card->exports)))
		export_end(card, container_of(node, struct verbs_export, node));
	pool_fini(&card->grants);
	pool_fini(&card->accesses);
	pool_fini(&card->export_pool);
}
