/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * access: puts into regions of a peer's and gets from them by the kernel (process_vm_writev, process_vm_readv), or by
 * plain copies where the memory is mapped here; the target's process takes no part. Export of arbitrary user memory
 * after the SCI paper, section 3, with the one-copy primitive of MPICH-PM/CLUMP, section 4.1, in place of a mapping.
 *
 * Owns what peers know of our regions (exports), and accesses under way. Who has no grant of a region asks for it, and
 * goes by records meanwhile. Accesses are put off until the next progress call, or until there are enough of them: one
 * call of the kernel's makes a whole row.
 *
 * A short access is quicker by a record where its target is polling, which nobody can know. So it is asked for by a
 * record (RECORD_ACCESS) and a word (segment.asked), by which one of both makes it: the target, who claims it as he
 * comes to the record, or its origin, who has waited for a little, and then asks no more until that record is handled.
 *
 * Nobody writes into a region that is exposed no more: who goes in says so first (segment.accessing) and looks then
 * whether any was withdrawn since he was told (segment.withdrawals); who withdraws one says that first, and waits
 * then for those who are in. Whoever is in to put and does not come out, because he was stopped, say, finds the door
 * shut before he has written (door.c), and what he has mapped is not that memory any more. Who reads looks once more
 * when he has, and throws away what came too late. That it still is the same process is known as for messages:
 * copy.c.
 *
 * What goes wrong is done again by records, and the target says why it may not be; a put that was half done is done
 * once more, before its origin knows that it is done, though who looks at the memory may see both. Atomics go by
 * records: those of a process are atomic to each other by its lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/blocks.h"
#include "base/clock.h"
#include "transport/shm/bulk.h"

enum {
	ACCESS_ROW = 32,            /* accesses that are made in one call, */
	ACCESS_SEGMENTS = SEGMENTS_A_CALL, /* of so many pieces here, */
	ACCESS_BYTES = 16 * 1024,   /* and bytes, from which on a call's cost counts for little */
	GRANT_USES = 64,            /* of a region, short ones: these take as long as looking for it does; */
	GRANT_USES_LONG = 8,        /* one of ACCESS_BYTES and more counts for so many */
	ACCESS_ASK_MAX = 2048,      /* bytes of one that is asked for: two copies, and no call */
	ACCESS_ASK_TURNS = 128,     /* polls after which it is made here: some microseconds */
	EXPORTS_MAX = 4096,         /* regions that peers know at a time; all others they reach by records */
	LEAVE_NS = 20000000,        /* who has not left a region for so long does not come to it */
	PAUSE_NS = 20000,           /* between two looks whether all have left */
};

#define NO_REGION UINT64_MAX

/* All are puts, or all are gets. */
struct access_row {
	struct list_node jobs;      /* struct transport_access */
	uint32_t count, segments;
	uint64_t bytes, withdrawals, door;
	bool put;
	struct iovec here[ACCESS_SEGMENTS], there[ACCESS_ROW];
};

/* A region of ours that a peer knows. */
struct shm_export {
	struct list_node node;
	struct hash_node by_key;
	struct iovec memory;
};

/* ---- Regions of ours -------------------------------------------------------------------------------- */

static struct shm_export *told_find(struct shm *shm, uint64_t key)
{
	struct hash_node *node = hash_table_find(&shm->exports_by_key, key);

	return node ? container_of(node, struct shm_export, by_key) : NULL;
}

static bool told_note(struct shm *shm, uint64_t key, const struct iovec *memory)
{
	struct shm_export *export = told_find(shm, key);

	if (export)
		return true;
	export = hash_table_reserve(&shm->exports_by_key) ? pool_get(&shm->export_pool) : NULL;
	if (!export)
		return false;
	export->memory = *memory;
	list_push_back(&shm->exports, &export->node);
	hash_table_add(&shm->exports_by_key, &export->by_key, key);
	return true;
}

static void grant_fill(struct transport_peer *peer, const struct iovec *memory, unsigned access,
		       struct record *answer)
{
	struct shm_peer *link = shm_link(peer);

	if (!door_lets_in(link)) {
		answer->imm = NO_REGION; /* not now: it is asked for again */
		return;
	}
	answer->arg[0] = (uintptr_t)memory->iov_base;
	answer->arg[1] = memory->iov_len;
	answer->arg[2] = link->let_in ? door_way_in(link, DOOR_ACCESS) : door_open(link, DOOR_ACCESS);
	answer->arg[3] = answer->arg[2] ? access : access & ~(unsigned)THOLE_ACCESS_PUT;
	link->let_in |= answer->arg[2] != 0;
	if (memory->iov_base) /* else it is the whole address space */
		attach_tell(peer, &(struct vector){memory, 1, memory->iov_len}, access & THOLE_ACCESS_PUT);
}

static void grant_asked(struct transport_peer *peer, uint64_t key)
{
	struct transport_owner *owner = peer->owner;
	struct shm_peer *link = shm_link(peer);
	struct record answer = {.kind = RECORD_REGION_IS, .length = RECORD_EXTERNAL, .tag = key,
				.imm = link->in.segment->withdrawals};
	struct iovec memory;
	unsigned access;
	bool known;

	if (owner->up->answer(peer) != 0)
		return;
	known = owner->up->region(peer, key, &memory, &access);
	if (!known)
		answer.imm = NO_REGION;
	else if (told_note(shm_of(owner), key, &memory) && access && owner->options.one_copy)
		grant_fill(peer, &memory, access, &answer);
	link->reaches |= known;
	if (!load_acquire(&link->in.segment->accessing))
		link->leave_ns = 0; /* it has left what ended before */
	owner->up->control(peer, &answer);
}

/* What the peer knows of our regions does not hold any more. */
static void access_close_to(struct shm_peer *link, uint64_t now_ns)
{
	if (!link->reaches)
		return;
	if (!link->leave_ns)
		link->leave_ns = now_ns;
	store_release(&link->in.segment->withdrawals, link->in.segment->withdrawals + 1);
	fence_full(); /* partner: access_enter */
}

bool shm_access_writes(const struct shm_peer *link)
{
	uint32_t accessing = load_acquire(&link->in.segment->accessing); /* partner: access_leave */

	return accessing != ACCESSING_NONE && accessing != ACCESSING_GET;
}

/* Whether it has had its time, and is about to write all the same. Not so who is past the door: the kernel copies for
 * him, and that ends. */
static bool access_is_late(const struct shm_peer *link, uint64_t now_ns)
{
	return link->reaches && link->door && now_ns - link->leave_ns >= LEAVE_NS && shm_access_writes(link) &&
	       !door_is_passed(link, DOOR_ACCESS);
}

bool shm_access_is_left(struct shm_peer *link, uint64_t now_ns)
{
	if (!link->reaches)
		return true;
	if (!load_acquire(&link->in.segment->accessing) || !connect_lives(link->peer)) {
		link->leave_ns = 0;
		return true;
	}
	if (now_ns - link->leave_ns < LEAVE_NS)
		return false;
	if (!link->door || !shm_access_writes(link))
		return true; /* he can but read, and will see that it was too late: access_has_read */
	if (access_is_late(link, now_ns))
		door_shut(link, now_ns);
	return door_is_left(link, DOOR_ACCESS, now_ns);
}

/* Who copies to where he has it mapped comes to no door: what he has mapped is not this memory any more. */
static void access_unshare(struct shm *shm, struct list_node *ended)
{
	for (struct list_node *node = list_first(ended); node; node = list_next(ended, node)) {
		const struct iovec *memory = &container_of(node, struct shm_export, node)->memory;

		blocks()->withdraw(memory->iov_base, memory->iov_len);
		lend_withdraw(shm->owner, &(struct vector){memory, 1, memory->iov_len});
	}
}

/* Waits until nobody is in any region of ours, of which these end. */
static void access_close_all(struct shm *shm, struct list_node *ended)
{
	uint64_t now_ns = clock_now_ns();
	bool shared = true;

	for (struct list_node *node = list_first(&shm->links); node; node = list_next(&shm->links, node))
		access_close_to(container_of(node, struct shm_peer, node), now_ns);
	for (struct list_node *node = list_first(&shm->links); node;) {
		struct shm_peer *link = container_of(node, struct shm_peer, node);

		now_ns = clock_now_ns();
		if (shared && access_is_late(link, now_ns)) {
			access_unshare(shm, ended);
			shared = false;
		}
		if (shm_access_is_left(link, now_ns))
			node = list_next(&shm->links, node);
		else
			clock_sleep(PAUSE_NS);
	}
}

void shm_access_region_end(struct transport_owner *owner, uint64_t key)
{
	struct shm *shm = shm_of(owner);
	struct shm_export *export = told_find(shm, key);
	struct list_node ended;

	if (!export)
		return;
	list_init(&ended);
	hash_table_remove(&shm->exports_by_key, &export->by_key);
	list_remove(&export->node);
	list_push_back(&ended, &export->node);
	access_close_all(shm, &ended);
	list_remove(&export->node);
	pool_put(&shm->export_pool, export);
}

/* ---- Regions of peers ------------------------------------------------------------------------------- */

static void grant_ask(struct transport_peer *peer, uint64_t key)
{
	struct record record = {.kind = RECORD_REGION, .length = RECORD_EXTERNAL, .tag = key};

	if (grants_add(&shm_link(peer)->grants, &shm_of(peer->owner)->grants, key))
		peer->owner->up->control(peer, &record);
}

static void grant_told(struct transport_peer *peer, const struct record *record)
{
	struct grant *grant = grants_find(&shm_link(peer)->grants, record->tag);

	if (!grant)
		return;
	if (record->imm == NO_REGION) { /* one day there may be one: that one is asked for, too */
		grants_drop(&shm_link(peer)->grants, &shm_of(peer->owner)->grants, grant);
		return;
	}
	grant->told = true;
	grant->address = record->arg[0];
	grant->length = record->arg[1];
	grant->by = record->arg[2];
	grant->access = (unsigned)record->arg[3];
	grant->number = record->imm;
}

static bool grant_is_old(const struct shm_peer *link, const struct grant *grant)
{
	return grant->told && grant->number != load_relaxed(&link->out.segment->withdrawals);
}

void shm_access_review(struct transport_peer *peer)
{
	struct shm_peer *link = shm_link(peer);
	struct list_node *node = list_first(&link->grants.list);

	if (node && link->out.segment && grant_is_old(link, container_of(node, struct grant, node)))
		grants_clear(&link->grants, &shm_of(peer->owner)->grants);
}

/* What is used more often is worth finding out whether it is mapped here, too. */
static void grant_used(struct transport_peer *peer, struct grant *grant, uint64_t length)
{
	struct grants *grants = &shm_link(peer)->grants;

	if (grant->uses >= GRANT_USES)
		return;
	grant->uses += length < ACCESS_BYTES ? 1 : GRANT_USES_LONG;
	if (grant->uses < GRANT_USES)
		return;
	if (!grants_may_map(grants)) {
		grant->uses = 0; /* another time */
		return;
	}
	if (!shared_map(shm_link(peer)->pid, grant->address, grant->length, grant->access & THOLE_ACCESS_PUT,
			&grant->here))
		return;
	grants_mapped(grants);
	transport_count(peer->owner, COUNTER_ATTACHED);
}

/* A grant for this access; NULL: none, for now. */
static const struct grant *access_grant(struct transport_access *access)
{
	struct shm_peer *link = shm_link(access->peer);
	struct grant *grant = grants_find(&link->grants, access->key);

	if (grant && grant_is_old(link, grant)) {
		grants_clear(&link->grants, &shm_of(access->peer->owner)->grants);
		grant = NULL;
	}
	if (!grant) {
		grant_ask(access->peer, access->key);
		return NULL;
	}
	if (!grants_use(&link->grants, grant, access))
		return NULL;
	grant_used(access->peer, grant, access->vector->length);
	return grant;
}

/* ---- Accesses --------------------------------------------------------------------------------------- */

static bool access_enter(struct shm_peer *link, bool put, uint64_t withdrawals)
{
	struct segment *segment = link->out.segment;

	store_relaxed(&segment->accessing, put ? ACCESSING_PUT : ACCESSING_GET);
	fence_full(); /* partner: access_close_to */
	if (load_acquire(&segment->withdrawals) == withdrawals)
		return true;
	store_release(&segment->accessing, ACCESSING_NONE);
	return false;
}

static void access_leave(struct shm_peer *link)
{
	store_release(&link->out.segment->accessing, ACCESSING_NONE);
}

/* Whether what was read is what was in the region: who reads for long is not waited for. */
static bool access_has_read(const struct shm_peer *link, uint64_t withdrawals)
{
	fence_full(); /* partner: access_close_to, before that memory is anything else */
	return load_relaxed(&link->out.segment->withdrawals) == withdrawals;
}

static void access_made(struct transport_access *access, int status)
{
	struct transport_owner *owner = access->peer->owner;

	if (!status)
		transport_count(owner, access->put ? COUNTER_SHM_PUTS : COUNTER_SHM_GETS);
	access->status = status;
	list_remove(&access->node);
	list_push_back(&shm_of(owner)->accessed, &access->node);
}

/* Make all of a row. 0 or an errno. */
static int row_copy(struct shm_peer *link, const struct access_row *row)
{
	struct vector here = {row->here, row->segments, row->bytes}, there = {row->there, row->count, row->bytes};
	uint64_t done;
	int error;

	if (!access_enter(link, row->put, row->withdrawals))
		return EFAULT;
	error = row->put ? copy_write(link, row->door, &link->access_calls, &here, &there, 0, row->bytes)
			 : copy_read(link, &here, &there, 0, row->bytes, &done);
	access_leave(link);
	if (!error && !row->put && !access_has_read(link, row->withdrawals))
		return EFAULT;
	return error;
}

static void row_make(struct transport_peer *peer)
{
	struct shm_peer *link = shm_link(peer);
	struct access_row *row = link->row;
	int error = row_copy(link, row);
	struct list_node *node;

	if (error) {
		grants_clear(&link->grants, &shm_of(peer->owner)->grants); /* perhaps the door is shut */
		if (error != EFAULT && error != ENOMEM && error != ESTALE)
			copy_refused(peer);
	}
	while ((node = list_first(&row->jobs)))
		access_made(container_of(node, struct transport_access, node), error ? THOLE_ERR_AGAIN : 0);
	row->count = row->segments = 0;
	row->bytes = 0;
	list_remove(&link->accessing);
}

static struct access_row *row_get(struct shm_peer *link)
{
	if (!link->row) {
		link->row = calloc(1, sizeof(*link->row));
		if (link->row)
			list_init(&link->row->jobs);
	}
	return link->row;
}

static bool row_takes(const struct access_row *row, const struct transport_access *access, const struct grant *grant)
{
	return row->count < ACCESS_ROW && row->segments + access->vector->count <= ACCESS_SEGMENTS &&
	       row->put == access->put && row->withdrawals == grant->number && row->door == grant->by;
}

static void row_add(struct access_row *row, struct transport_access *access, const struct grant *grant)
{
	const struct vector *vector = access->vector;

	row->put = access->put;
	row->withdrawals = grant->number;
	row->door = grant->by;
	for (size_t i = 0; i < vector->count; i++)
		row->here[row->segments++] = vector->segments[i];
	row->there[row->count++] =
		(struct iovec){(void *)(uintptr_t)(grant->address + access->offset), vector->length};
	row->bytes += vector->length;
	list_push_back(&row->jobs, &access->node);
}

/* Where the peer's memory is mapped here, and still was when it was done. Whether that was so. */
static bool access_mapped(struct transport_access *access, const struct grant *grant)
{
	struct transport_peer *peer = access->peer;
	struct shm_peer *link = shm_link(peer);
	uint64_t address = grant->address + access->offset, length = access->vector->length;
	bool shared = grant->here.mapping && (grant->here.write || !access->put);
	void *memory = shared ? grant->here.memory + access->offset : attach_find(peer, address, length, access->put);

	if (!memory || !access_enter(link, access->put, grant->number))
		return false;
	if (access->put)
		vector_read(access->vector, 0, memory, length);
	else
		vector_write(access->vector, 0, memory, length);
	access_leave(link);
	if (!access->put && !access_has_read(link, grant->number))
		return false;
	if (!shared && !attach_is_current(peer, address, length, access->put, memory))
		return false;
	access_made(access, 0);
	return true;
}

/* Into the row, which is made once it is full. */
static void row_begin(struct transport_access *access, const struct grant *grant)
{
	struct transport_peer *peer = access->peer;
	struct shm_peer *link = shm_link(peer);

	if (link->row->count && !row_takes(link->row, access, grant))
		row_make(peer);
	if (!link->row->count)
		list_push_back(&shm_of(peer->owner)->accessing, &link->accessing);
	row_add(link->row, access, grant);
	if (link->row->bytes >= ACCESS_BYTES)
		row_make(peer);
}

/* ---- Accesses that are asked for -------------------------------------------------------------------- */

/* A word of segment.asked: the number, and in the lowest bits who makes it. */
enum asked { ASKED_OPEN, ASKED_TARGET, ASKED_ORIGIN, ASKED_SHIFT = 2 };

static bool asked_claim(struct segment *segment, uint64_t number, enum asked by)
{
	uint64_t word = number << ASKED_SHIFT | ASKED_OPEN;

	return compare_swap(&segment->asked[number % ASKED], &word, number << ASKED_SHIFT | by);
}

/* Whether the target may be expected to come to a record soon. */
static bool access_is_awaited(struct transport_peer *peer)
{
	struct shm_peer *link = shm_link(peer);

	if (peer->core_shared || peer->owner->oversubscribed)
		return false; /* it comes when this process lets it */
	if (link->absent && (int64_t)(load_acquire(&link->out.segment->handled) - link->asked_end) < 0)
		return false;
	link->absent = false;
	return true;
}

/* Ask the target to make it. Whether it was asked. */
static bool access_ask(struct transport_access *access)
{
	static const struct vector nothing;
	struct transport_peer *peer = access->peer;
	struct shm_peer *link = shm_link(peer);
	const struct vector *vector = access->vector;
	struct record record = {.kind = RECORD_ACCESS, .length = RECORD_EXTERNAL, .tag = access->key,
				.imm = link->asked_number + 1};
	uint32_t index = (uint32_t)(record.imm % ASKED);

	if (vector->length > ACCESS_ASK_MAX || link->asked[index] || !access_is_awaited(peer))
		return false;
	record.arg[0] = vector->length;
	record.arg[1] = access->put;
	record.arg[3] = access->offset;
	store_relaxed(&link->out.segment->asked[index], record.imm << ASKED_SHIFT | ASKED_OPEN);
	if (ring_push(peer, &record, access->put ? vector : &nothing, 0, access->put ? (uint32_t)vector->length : 0))
		return false;
	link->asked[index] = access;
	link->asked_count++;
	link->asked_number++;
	link->asked_end = link->out.produced;
	link->asked_turns = 0;
	return true;
}

/* The peer asks this process to make an access. */
static int asked_make(struct transport_peer *peer, const struct record *record, const void *payload,
		      struct iovec *memory_p)
{
	unsigned needed = record->arg[1] ? THOLE_ACCESS_PUT : THOLE_ACCESS_GET, access;
	uint64_t offset = record->arg[3], length = record->arg[0];

	if (!peer->owner->up->region(peer, record->tag, memory_p, &access) || !(access & needed) ||
	    offset > memory_p->iov_len || length > memory_p->iov_len - offset)
		return THOLE_ERR_AGAIN; /* by a record of another kind it is told why */
	*memory_p = (struct iovec){(void *)((uintptr_t)memory_p->iov_base + offset), length};
	if (record->arg[1])
		memcpy(memory_p->iov_base, payload, length);
	return 0;
}

static void access_asked(struct transport_peer *peer, const struct record *record, const void *payload, uint32_t length)
{
	struct shm_peer *link = shm_link(peer);
	struct record answer = {.kind = RECORD_ACCESSED, .tag = record->imm};
	struct iovec memory;
	struct vector got = {&memory, 1, 0};
	int status;

	if (record->arg[0] > ACCESS_ASK_MAX || length != (record->arg[1] ? record->arg[0] : 0)) {
		transport_bad(peer);
		return;
	}
	/* Where it cannot be answered its origin makes it. */
	if (peer->owner->up->reach(peer) != 0 || !link->connected || !ring_has_room(&link->out, RING_RESERVE) ||
	    !asked_claim(link->in.segment, record->imm, ASKED_TARGET))
		return;
	status = asked_make(peer, record, payload, &memory);
	answer.imm = (uint64_t)(int64_t)status;
	if (!status && !record->arg[1])
		got.length = memory.iov_len;
	if (ring_push(peer, &answer, &got, 0, (uint32_t)got.length) != 0) {
		answer.imm = (uint64_t)(int64_t)THOLE_ERR_AGAIN; /* a put may be made twice */
		peer->owner->up->control(peer, &answer);
	}
}

static void access_over(struct transport_access *access, int status)
{
	struct shm_peer *link = shm_link(access->peer);

	link->accesses--;
	bulk_settle(link);
	access->peer->owner->up->accessed(access, status);
}

static void access_answered(struct transport_peer *peer, const struct record *record, const void *payload,
			    uint32_t length)
{
	struct shm_peer *link = shm_link(peer);
	uint32_t index = (uint32_t)(record->tag % ASKED);
	struct transport_access *access = link->asked[index];

	if (!access || link->asked_number - record->tag >= ASKED) {
		transport_bad(peer);
		return;
	}
	link->asked[index] = NULL;
	link->asked_count--;
	link->asked_turns = 0;
	if (record->imm) {
		access_over(access, THOLE_ERR_AGAIN);
	} else if (length != (access->put ? 0 : access->vector->length)) {
		transport_bad(peer);
		access_over(access, THOLE_ERR_AGAIN);
	} else {
		if (!access->put)
			vector_write(access->vector, 0, payload, length);
		access_over(access, 0);
	}
}

/* Make it here, if the target has not come to it. */
static void asked_take_back(struct transport_peer *peer, uint64_t number)
{
	struct shm_peer *link = shm_link(peer);
	struct transport_access *access = link->asked[number % ASKED];
	const struct grant *grant;

	if (!access || !asked_claim(link->out.segment, number, ASKED_ORIGIN))
		return;
	link->asked[number % ASKED] = NULL;
	link->asked_count--;
	link->absent = true;
	grant = access_grant(access);
	if (grant)
		row_begin(access, grant);
	else
		access_made(access, THOLE_ERR_AGAIN);
}

static void access_take_back(struct transport_peer *peer)
{
	struct shm_peer *link = shm_link(peer);

	if (link->asked_count == 0 || ++link->asked_turns < ACCESS_ASK_TURNS)
		return;
	for (uint64_t i = ASKED; i-- > 0;)
		asked_take_back(peer, link->asked_number - i);
	link->asked_turns = 0;
}

void shm_access_hasten(struct shm *shm)
{
	for (struct list_node *node = list_first(&shm->active); node; node = list_next(&shm->active, node))
		container_of(node, struct shm_peer, active)->asked_turns = ACCESS_ASK_TURNS;
}

void shm_access_arrived(struct transport_peer *peer, const struct record *record, const void *payload, uint32_t length)
{
	if (record->kind != RECORD_ACCESSED && record->length != RECORD_EXTERNAL)
		transport_bad(peer);
	else if (record->kind == RECORD_ACCESS)
		access_asked(peer, record, payload, length);
	else if (record->kind == RECORD_ACCESSED)
		access_answered(peer, record, payload, length);
	else if (record->kind == RECORD_REGION)
		grant_asked(peer, record->tag);
	else if (record->kind == RECORD_REGION_IS)
		grant_told(peer, record);
	else
		transport_bad(peer);
}

/* ---- All of them ------------------------------------------------------------------------------------ */

bool shm_access_begin(struct transport_access *access)
{
	struct transport_peer *peer = access->peer;
	struct shm *shm = shm_of(peer->owner);
	struct shm_peer *link = shm_link(peer);
	const struct grant *grant;

	if (!link || !link->connected || access->vector->length == 0 ||
	    access->vector->count > ACCESS_SEGMENTS || peer->owner->options.bulk == OPTION_BULK_RING ||
	    !copy_allowed(peer))
		return false;
	grant = access_grant(access);
	if (!grant || !row_get(link))
		return false;
	list_init(&access->node);
	if (!access_mapped(access, grant)) {
		if (!peer->owner->up->own(access))
			return false;
		if (!access_ask(access))
			row_begin(access, grant);
	}
	bulk_activate(shm, link);
	link->accesses++;
	return true;
}

static void access_make_all(struct shm *shm)
{
	struct list_node *node;

	while ((node = list_first(&shm->accessing)))
		row_make(container_of(node, struct shm_peer, accessing)->peer);
}

int shm_access_progress(struct transport_owner *owner)
{
	struct shm *shm = shm_of(owner);
	struct list_node *node;
	struct list_node over;
	int n = 0;

	for (node = list_first(&shm->active); node; node = list_next(&shm->active, node))
		access_take_back(container_of(node, struct shm_peer, active)->peer);
	access_make_all(shm);
	list_init(&over); /* one that is done again by records may begin another one */
	while ((node = list_first(&shm->accessed))) {
		list_remove(node);
		list_push_back(&over, node);
	}
	for (; (node = list_first(&over)); n++) {
		struct transport_access *access = container_of(node, struct transport_access, node);

		list_remove(node);
		access_over(access, access->status);
	}
	return n;
}

void shm_access_lost(struct transport_peer *peer)
{
	struct shm *shm = shm_of(peer->owner);
	struct shm_peer *link = shm_link(peer);
	struct list_node *node;

	access_close_to(link, clock_now_ns());
	grants_clear(&link->grants, &shm->grants);
	for (uint32_t i = 0; i < ASKED; i++) {
		if (link->asked[i])
			access_made(link->asked[i], peer->gone_status);
		link->asked[i] = NULL;
	}
	link->asked_count = 0;
	if (!link->row)
		return;
	list_remove(&link->accessing);
	while ((node = list_first(&link->row->jobs)))
		access_made(container_of(node, struct transport_access, node), peer->gone_status);
	free(link->row);
	link->row = NULL;
}

void shm_access_withdraw(struct transport_owner *owner)
{
	access_make_all(shm_of(owner));
	access_close_all(shm_of(owner), &shm_of(owner)->exports);
}

/* ---- Opening ---------------------------------------------------------------------------------------- */

void shm_access_open(struct shm *shm)
{
	list_init(&shm->accessing);
	list_init(&shm->accessed);
	list_init(&shm->exports);
	pool_init(&shm->grants, sizeof(struct grant), 16, GRANTS_ALL_MAX);
	pool_init(&shm->export_pool, sizeof(struct shm_export), 16, EXPORTS_MAX);
}

void shm_access_close(struct shm *shm)
{
	for (struct list_node *node = list_first(&shm->links); node; node = list_next(&shm->links, node)) {
		struct shm_peer *link = container_of(node, struct shm_peer, node);

		grants_clear(&link->grants, &shm->grants);
		free(link->row);
	}
	pool_fini(&shm->grants);
	hash_table_fini(&shm->exports_by_key);
	pool_fini(&shm->export_pool);
}
