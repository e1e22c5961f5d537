/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fetch: the receiver's side of bulk: a window of a peer's comes into this process's memory, by one of the ways that
 * bulk.c lists.
 *
 * Does not own which way is taken (choose.c), nor what copies (copy.c, attach.c; the ring's pieces are pushed by
 * serve.c). Always holds: what is still to be fetched is one range, [offset, end), but for blocks that the sender has
 * claimed behind it. And a fetch ends, however that comes, only when no sender writes into its memory any more.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/blocks.h"
#include "base/clock.h"
#include "transport/shm/bulk.h"

enum {
	PIECE_SOON = 128 * 1024,  /* transfers up to this long use half pieces, to overlap at all, */
	PIECE_LATE = 512 * 1024,  /* and from this length on, and in streams, twice as long ones: each costs a wait */
	COOPERATIVE_MIN = 32 * 1024,         /* below this a second system call costs more than it saves, */
	COOPERATIVE_MIN_STREAM = 128 * 1024, /* in a stream, where the sender has other things to do */
	BALANCE_MIN = 1 << 20,               /* from here on whoever is faster should copy more: at least */
	BALANCE_BLOCKS = 8,                  /* so many blocks; for less, claiming them costs more */
	TAKE_OVER_NS = 200000,    /* without a piece for so long, the sender is taken to be busy */
	SEVERAL_MAX = 8,          /* fetches of which what is left is read in one call, */
	SEVERAL_BYTES = 256 * 1024, /* of so many bytes at most, since the first are finished only with the last */
};

struct fetch {
	struct list_node node;
	struct transport_fetch *job;
	struct transport_peer *peer;
	uint32_t generation;
	uint8_t method;            /* enum bulk_method: how the rest is being fetched */
	uint8_t chosen;            /* how it began, for its cost */
	bool pulled;               /* ring: the sender was asked */
	int offer;                 /* index, or -1 */
	uint64_t length;
	uint64_t offset, end;      /* what is still to be fetched, but for the sender's blocks */
	uint64_t block;            /* cooperative: bytes a claim */
	uint32_t blocks;
	uint32_t back;             /* blocks that are the sender's, once nothing more can be claimed */
	int32_t status;            /* how it will end, once the sender is out of the receiver's memory */
	bool direct;               /* the sender's memory was mapped here at first */
	bool unshared;             /* the sender does not have the receiver's memory mapped, or not any more */
	bool reached;              /* some of it was read from the sender's memory */
	bool faulted;              /* the kernel could not copy between the two memories */
	bool laid_out;             /* either side is the program's functions, so that all goes through the ring */
	uint64_t left_ns;          /* since when the sender should be out; 0: it is not to be */
	uint64_t start_ns, seen_ns;
	struct iovec one;          /* the remote vector, */
	struct iovec *many;        /* or a copy of it */
	struct vector remote;
};

void fetch_pool_open(struct shm *shm)
{
	pool_init(&shm->fetches, sizeof(struct fetch), 64, FETCHES_MAX);
}

void fetch_pool_close(struct shm *shm)
{
	for (uint32_t i = 0; i < shm->fetches.capacity; i++) {
		struct fetch *fetch = pool_at(&shm->fetches, i);

		if (pool_is_live(&shm->fetches, fetch))
			free(fetch->many);
	}
	pool_fini(&shm->fetches);
}

static uint64_t fetch_id(struct shm *shm, const struct fetch *fetch)
{
	return (uint64_t)fetch->generation << 32 | pool_index_of(&shm->fetches, fetch);
}

static void fetch_free(struct shm *shm, struct fetch *fetch)
{
	struct shm_peer *link = shm_link(fetch->peer);

	if (fetch->pulled)
		link->pulling--;
	if (fetch->offer >= 0)
		link->offers_used &= ~(1u << fetch->offer);
	free(fetch->many);
	fetch->many = NULL;
	fetch->job = NULL;
	list_remove(&fetch->node);
	bulk_settle(link);
	pool_put(&shm->fetches, fetch);
}

static enum pace fetch_pace(const struct fetch *fetch)
{
	return pace_of(fetch->job->pace);
}

/* Whether what was read from the sender's memory may be something else: its send had ended. */
static bool fetch_is_void(const struct fetch *fetch)
{
	if (!fetch->reached)
		return false;
	fence_full(); /* pairs with the one in segment_withdraw */
	return load_relaxed(&shm_link(fetch->peer)->in.segment->withdrawn);
}

static void fetch_end(struct fetch *fetch, int status)
{
	struct transport_fetch *job = fetch->job;
	struct transport_owner *owner = fetch->peer->owner;
	struct shm *shm = shm_of(owner);

	if (!status && fetch_is_void(fetch))
		status = shm_end_status(shm_link(fetch->peer));
	if (!status) {
		owner->counters[COUNTER_BULK_BYTES] += fetch->length;
		if (!fetch->laid_out)
			choose_fetched(fetch->peer, (enum bulk_method)fetch->chosen, fetch->length, fetch_pace(fetch),
				       fetch->direct, fetch->start_ns);
	}
	fetch_free(shm, fetch);
	owner->up->fetched(job, status);
}

static uint64_t fetch_piece(const struct fetch *fetch)
{
	uint64_t piece = fetch->peer->owner->options.bulk_piece;

	if (pace_streams(fetch_pace(fetch)) || fetch->length >= PIECE_LATE)
		return 2 * piece;
	return fetch->length <= PIECE_SOON ? piece / 2 : piece;
}

/* Ask the sender to push [offset, end). */
static void fetch_pull(struct fetch *fetch)
{
	struct shm_peer *link = shm_link(fetch->peer);
	uint32_t place, size;
	struct record record = {
		.kind = RECORD_BULK_PULL,
		.length = RECORD_EXTERNAL,
		.tag = fetch->job->window.id,
		.imm = fetch_id(shm_of(fetch->peer->owner), fetch),
	};

	fetch->pulled = true;
	link->pulling++;
	record.arg[0] = fetch->offset;
	record.arg[1] = fetch->end - fetch->offset;
	record.arg[2] = fetch_piece(fetch) | (fetch->faulted ? PULL_OF_DOUBT : 0);
	if (!pace_streams(fetch_pace(fetch)) && ring_lend(&link->out, &place, &size)) {
		record.arg[3] = place | (uint64_t)size << 32;
		link->lease = record.imm;
		link->lease_end = fetch->end;
	}
	fetch->peer->owner->up->control(fetch->peer, &record);
}

/* Learn the remote vector. */
static int fetch_remote(struct fetch *fetch)
{
	const struct window *window = &fetch->job->window;
	pid_t pid = shm_link(fetch->peer)->pid;
	uint64_t length = 0;
	int error;

	if (fetch->remote.count > 0)
		return 0;
	if (window->count == 1) {
		fetch->one = (struct iovec){(void *)(uintptr_t)window->address, window->length};
		fetch->remote = (struct vector){&fetch->one, 1, window->length};
		return 0;
	}
	fetch->many = malloc(window->count * sizeof(*fetch->many));
	if (!fetch->many)
		return ENOMEM;
	error = copy_from(pid, fetch->many, window->address, window->count * sizeof(*fetch->many));
	for (uint32_t i = 0; !error && i < window->count; i++)
		length += fetch->many[i].iov_len;
	if (error || length < window->length)
		return error ? error : EPROTO;
	fetch->remote = (struct vector){fetch->many, window->count, length};
	return 0;
}

/* Make a shared offer for both sides, and tell the sender. Without a free one, it is the receiver's alone. */
static void fetch_offer(struct fetch *fetch)
{
	struct shm_peer *link = shm_link(fetch->peer);
	const struct vector *local = fetch->job->vector;
	uint64_t length = fetch->end, block = fetch->peer->owner->options.cooperative_block;
	struct record record = {.kind = RECORD_BULK_OFFER, .length = RECORD_EXTERNAL,
				.tag = fetch->job->window.id};
	uint64_t shares = length >= BALANCE_MIN ? BALANCE_BLOCKS : 2;
	uint64_t shortest = pace_streams(fetch_pace(fetch)) ? COOPERATIVE_MIN_STREAM : COOPERATIVE_MIN;
	struct offer *offer;
	int index;

	fetch->block = length;
	fetch->blocks = 1;
	if (length < shortest || !link->in.segment || link->offers_used == (1u << OFFERS) - 1)
		return;
	index = __builtin_ctz(~link->offers_used);
	record.arg[3] = door_open(link, index);
	if (!record.arg[3])
		return;
	if (block > length / shares)
		block = (length / shares + 4095) & ~(uint64_t)4095;
	if (length / block >= CLAIM_MAX)
		block = length / (CLAIM_MAX / 2);
	fetch->block = block;
	fetch->blocks = (uint32_t)((length + block - 1) / block);
	fetch->offer = index;
	link->offers_used |= 1u << index;
	offer = &link->in.segment->offers[fetch->offer];
	offer->done = offer->failed = 0;
	link->offer_sequence = (link->offer_sequence + 1) & 0xffffff;
	store_release(&offer->claim, claim_pack((struct claim){0, 0, link->offer_sequence}));
	record.imm = (uint64_t)fetch->offer | (uint64_t)link->offer_sequence << 8 | (uint64_t)local->count << 32;
	record.arg[0] = length;
	record.arg[1] = (uintptr_t)(local->count == 1 ? local->segments[0].iov_base : (const void *)local->segments);
	record.arg[2] = block;
	if (fetch->method == BULK_COOPERATIVE)
		transport_count(fetch->peer->owner, COUNTER_BULK_COOPERATIVE);
	fetch->peer->owner->up->control(fetch->peer, &record);
}

/* How many blocks this side has copied. */
static uint32_t fetch_front(const struct fetch *fetch)
{
	return (uint32_t)((fetch->offset + fetch->block - 1) / fetch->block);
}

/* Claim the next block from the front; false if the sender has all the others. The front is the receiver's
 * own, so whatever else the word says, it goes from its private count. */
static bool fetch_claim(struct fetch *fetch, uint32_t front, uint32_t *back_p)
{
	struct offer *offer = &shm_link(fetch->peer)->in.segment->offers[fetch->offer];
	uint64_t word = load_acquire(&offer->claim);

	for (;;) {
		struct claim claim = claim_unpack(word);

		if (claim.front != front || claim.back > fetch->blocks - front)
			claim.back = 0; /* no correct sender does that */
		*back_p = claim.back;
		if (front + claim.back >= fetch->blocks)
			return false;
		claim.front = front + 1;
		if (compare_swap(&offer->claim, &word, claim_pack(claim)))
			return true;
	}
}

/* Let nothing more be claimed, `front` blocks being this side's. What lies between what is copied of these and the
 * sender's first is left to be fetched otherwise. */
static void fetch_close(struct fetch *fetch, uint32_t front)
{
	while (fetch_claim(fetch, front, &fetch->back))
		front++;
	fetch->end = fetch->back ? (uint64_t)(fetch->blocks - fetch->back) * fetch->block : fetch->length;
}

/* Give the offer back. What the sender did of its blocks lies at the end; the others are left to us. */
static void fetch_reclaim(struct fetch *fetch, uint32_t done)
{
	fetch->end = done ? (uint64_t)(fetch->blocks - done) * fetch->block : fetch->length;
	shm_link(fetch->peer)->offers_used &= ~(1u << fetch->offer);
	fetch->offer = -1;
}

/* Whether the sender is through with its `back` blocks, or has given up; *done_p: how many it did. */
static bool fetch_helped(const struct fetch *fetch, uint32_t back, uint32_t *done_p)
{
	const struct offer *offer = &shm_link(fetch->peer)->in.segment->offers[fetch->offer];
	uint32_t failed = load_acquire(&offer->failed); /* first: it is written after the last done */

	*done_p = load_acquire(&offer->done);
	if (*done_p > back)
		*done_p = back;
	return *done_p == back || failed;
}

/* Behind the others of its kind. */
static void fetch_queue(struct fetch *fetch)
{
	struct shm_peer *link = shm_link(fetch->peer);

	list_push_back(fetch->method == BULK_RING ? &link->pulls : &link->copies, &fetch->node);
}

/* From now on by `method`. */
static void fetch_turn(struct fetch *fetch, enum bulk_method method)
{
	list_remove(&fetch->node);
	fetch->method = (uint8_t)method;
	fetch_queue(fetch);
}

/* The kernel cannot copy these bytes, which says little of whether those can whose memory it is: pages that are secret
 * (memfd_secret), a device's, or under a handler of SIGSEGV's. But the ring is none for memory that is not there. */
static void fetch_fault(struct fetch *fetch)
{
	fetch->faulted = true;
	if (!copy_is_mapped(fetch->job->vector, fetch->offset, fetch->length - fetch->offset))
		fetch->status = THOLE_ERR_FAULT;
}

/* The kernel refused this process the peer's memory: the rest goes through the ring, or it ends, in either case only
 * after the sender, which may be writing its blocks. */
static int fetch_refused(struct fetch *fetch, int error)
{
	fetch_turn(fetch, BULK_RING);
	if (error == ESTALE) { /* it runs another program now, or has closed its endpoint */
		fetch->status = shm_end_status(shm_link(fetch->peer));
		connect_ending(fetch->peer);
		return 1;
	}
	if (error == EPROTO) {
		fetch->status = THOLE_ERR_FAULT;
		return 1;
	}
	if (error == EFAULT || error == ENOMEM)
		fetch_fault(fetch);
	else
		copy_refused(fetch->peer);
	transport_count(fetch->peer->owner, COUNTER_BULK_FALLBACKS);
	return 1;
}

/* All blocks are claimed: wait for the sender's, or take back what it could not do. */
static int fetch_wait(struct fetch *fetch, uint32_t back)
{
	uint32_t done;

	if (!fetch_helped(fetch, back, &done))
		return 0;
	if (done == back)
		fetch_end(fetch, 0);
	else
		fetch_reclaim(fetch, done);
	return 1;
}

/* Copy from the sender's memory where it is mapped here. ENOENT: it is not any more. */
static int fetch_mapped(const struct fetch *fetch, uint64_t length, uint64_t *done_p)
{
	uint64_t address = fetch->job->window.address + fetch->offset;
	const void *from = attach_find(fetch->peer, address, length, false);

	*done_p = 0;
	if (!from)
		return ENOENT;
	vector_write(fetch->job->vector, fetch->offset, from, length);
	if (!attach_is_current(fetch->peer, address, length, false, from))
		return ENOENT;
	*done_p = length;
	return 0;
}

/* The mapping has ended, since its owner has forked, or lends it no more: the rest goes through the ring. */
static int fetch_unmapped(struct fetch *fetch)
{
	fetch_turn(fetch, BULK_RING);
	transport_count(fetch->peer->owner, COUNTER_BULK_FALLBACKS);
	return 1;
}

/* Whether it needs only to be read, in one piece. */
static bool fetch_is_plain(const struct fetch *fetch)
{
	return (fetch->method == BULK_ONE_COPY || fetch->method == BULK_COOPERATIVE) && fetch->offer < 0 &&
	       fetch->job->window.count == 1 && fetch->job->vector->count == 1 &&
	       fetch->job->vector->length >= fetch->end && fetch->offset < fetch->end;
}

static inline bool fetch_is_done(const struct fetch *fetch)
{
	return fetch->offset == fetch->end && fetch->offer < 0 && fetch->method != BULK_RING;
}

/* Read what is left of this one and of those behind it, if they are short: a call by itself takes as long as several
 * KiB. Whether anything was read. Of what goes wrong each learns alone. */
static bool fetch_copy_several(struct fetch *fetch)
{
	struct shm_peer *link = shm_link(fetch->peer);
	struct list_node *node = &fetch->node;
	struct fetch *fetches[SEVERAL_MAX];
	struct copy_part parts[SEVERAL_MAX];
	uint64_t bytes = 0, left;
	size_t count = 0;

	for (; node && count < SEVERAL_MAX; node = list_next(&link->copies, node)) {
		struct fetch *next = container_of(node, struct fetch, node);
		const struct iovec *local = next->job->vector->segments;

		left = next->end - next->offset;
		if (!fetch_is_plain(next) || bytes + left > SEVERAL_BYTES)
			break;
		fetches[count] = next;
		parts[count++] = (struct copy_part){(char *)local->iov_base + next->offset,
						    next->job->window.address + next->offset, left};
		bytes += left;
	}
	if (count < 2)
		return false;
	left = bytes = copy_read_several(link, parts, count);
	for (size_t i = 0; i < count && left > 0; i++) {
		uint64_t read = left < parts[i].length ? left : parts[i].length;

		fetches[i]->reached = true;
		fetches[i]->offset += read;
		left -= read;
	}
	return bytes > 0;
}

/* Copy one block, or several short fetches. */
static int fetch_copy(struct fetch *fetch)
{
	uint64_t share = fetch->peer->owner->options.cooperative_block;
	uint64_t length = fetch->end - fetch->offset, done = 0;
	uint32_t back = 0;
	int error;

	if (fetch_copy_several(fetch)) {
		if (fetch_is_done(fetch))
			fetch_end(fetch, 0);
		return 1;
	}
	if (fetch->offer >= 0) {
		if (!fetch_claim(fetch, fetch_front(fetch), &back))
			return fetch_wait(fetch, back);
		share = fetch->block;
	}
	length = length < share ? length : share;
	fetch->reached = true;
	if (fetch->method == BULK_DIRECT)
		error = fetch_mapped(fetch, length, &done);
	else if (!(error = fetch_remote(fetch)))
		error = copy_read(shm_link(fetch->peer), fetch->job->vector, &fetch->remote, fetch->offset, length,
				  &done);
	if (error) {
		if (fetch->offer >= 0)
			fetch_close(fetch, fetch_front(fetch) + 1);
		fetch->offset += done;
		return fetch->method == BULK_DIRECT ? fetch_unmapped(fetch) : fetch_refused(fetch, error);
	}
	fetch->offset += done;
	if (fetch_is_done(fetch))
		fetch_end(fetch, 0);
	return 1;
}

/* Begin to pull, as soon as the sender is through with blocks that it claimed before this process was refused. */
static int fetch_ring(struct fetch *fetch)
{
	uint32_t done;

	if (fetch->pulled || shm_link(fetch->peer)->pulling >= PULLS_MAX)
		return 0;
	if (fetch->offer >= 0) {
		if (!fetch_helped(fetch, fetch->back, &done))
			return 0;
		fetch_reclaim(fetch, done);
	}
	if (fetch->status || fetch->offset == fetch->end)
		fetch_end(fetch, fetch->status);
	else
		fetch_pull(fetch);
	return 1;
}

/* What a program's functions take says nothing of the ways that memory is copied by. */
static void fetch_choose(struct fetch *fetch)
{
	struct transport_peer *peer = fetch->peer;
	enum pace pace = fetch_pace(fetch);

	fetch->method = (uint8_t)(fetch->laid_out ? BULK_RING
						  : choose_fetch(peer, fetch->length, pace, fetch->direct));
	fetch->chosen = fetch->method;
	fetch->start_ns = !fetch->laid_out &&
					  choose_fetch_is_due(peer, fetch->method, fetch->length, pace, fetch->direct)
				  ? clock_now_ns()
				  : 0;
}

void fetch_window(struct transport_fetch *job)
{
	struct transport_peer *peer = job->peer;
	struct transport_owner *owner = peer->owner;
	struct shm *shm = shm_of(owner);
	struct shm_peer *link = shm_link(peer);
	struct fetch *fetch;
	uint64_t length = job->window.length;
	int error;

	if (length == 0) {
		owner->up->fetched(job, 0);
		return;
	}
	error = owner->up->answer(peer);
	fetch = error ? NULL : pool_get(&shm->fetches);
	if (!fetch) {
		owner->up->fetched(job, error ? error : THOLE_ERR_MEMORY);
		return;
	}
	fetch->job = job;
	fetch->peer = peer;
	fetch->generation++;
	fetch->pulled = false;
	fetch->offer = -1;
	fetch->offset = 0;
	fetch->length = fetch->end = length;
	fetch->many = NULL;
	fetch->status = 0;
	fetch->reached = fetch->unshared = fetch->faulted = false;
	fetch->left_ns = 0;
	fetch->remote.count = 0;
	fetch->seen_ns = 0;
	fetch->direct = job->window.count == 1 && attach_find(peer, job->window.address, length, false) != NULL;
	fetch->laid_out = job->window.count == 0 || vector_has_layout(job->vector);
	fetch_choose(fetch);
	bulk_activate(shm, link);
	fetch_queue(fetch);
	attach_tell(peer, job->vector, true);
	if (fetch->method == BULK_COOPERATIVE) {
		fetch_offer(fetch);
	} else if (fetch->method == BULK_DIRECT) {
		transport_count(owner, COUNTER_BULK_DIRECT);
		if (!pace_crosses(fetch_pace(fetch)))
			fetch_offer(fetch);
	} else if (fetch->method == BULK_RING) {
		transport_count(owner, COUNTER_BULK_RING);
		fetch_ring(fetch);
	} else {
		transport_count(owner, COUNTER_BULK_ONE_COPY);
	}
}

/* Why the sender pushes nothing. As a rule there is no such window any more. */
static int fetch_reason(uint64_t reason)
{
	return reason == -THOLE_ERR_FAULT || reason == -THOLE_ERR_MEMORY ? -(int)reason : THOLE_ERR_PEER;
}

void fetch_data(struct transport_peer *peer, const struct record *record, const void *payload, uint32_t length)
{
	struct shm *shm = shm_of(peer->owner);
	struct fetch *fetch = pool_at(&shm->fetches, (uint32_t)record->tag);
	struct shm_peer *link = shm_link(peer);

	if (link->out.bulk_lent && record->tag == link->lease &&
	    (length == 0 || record->imm + length == link->lease_end))
		link->out.bulk_lent = false; /* even if its fetch is over: that was the last piece */
	if (!fetch || !pool_is_live(&shm->fetches, fetch) || !fetch->job || fetch->peer != peer ||
	    fetch->generation != (uint32_t)(record->tag >> 32) || fetch->method != BULK_RING || !fetch->pulled)
		return; /* of a fetch that was taken over */
	if (length == 0) {
		fetch_end(fetch, fetch_reason(record->imm));
		return;
	}
	if (record->imm != fetch->offset || length > fetch->end - fetch->offset) {
		transport_bad(peer);
		fetch_end(fetch, THOLE_ERR_PROTOCOL);
		return;
	}
	vector_write(fetch->job->vector, fetch->offset, payload, length);
	fetch->offset += length;
	fetch->seen_ns = 0; /* now, for whoever reads the clock next */
	if (fetch->offset == fetch->end)
		fetch_end(fetch, 0);
}

/* ---- Leaving ---------------------------------------------------------------------------------------
 *
 * A fetch that ends before all of it is here gives its memory back, so the sender has to be out of it first. What was
 * not claimed is withdrawn. A block that was is the sender's to write: it cannot be taken back, and there are three
 * ends to that. It says that it is done, a moment later as a rule. Its process ends, or runs another program. Or it
 * comes to nothing for close_timeout: then its door is shut, after which only a call of the kernel's that is copying
 * already goes on; and that is waited for. */

static void fetch_leave(struct fetch *fetch, int status, uint64_t now_ns)
{
	if (fetch->left_ns)
		return;
	if (fetch->method != BULK_RING) { /* else its offer is closed already */
		if (fetch->offer >= 0)
			fetch_close(fetch, fetch_front(fetch));
		fetch_turn(fetch, BULK_RING);
	}
	fetch->status = status;
	fetch->left_ns = now_ns;
}

/* What a sender has mapped of this memory is not this memory any more. */
static void fetch_unshare(struct fetch *fetch)
{
	const struct vector *vector = fetch->job->vector;

	for (size_t i = 0; i < vector->count && !fetch->unshared; i++)
		blocks()->withdraw(vector->segments[i].iov_base, vector->segments[i].iov_len);
	if (!fetch->unshared)
		lend_withdraw(fetch->peer->owner, vector);
	fetch->unshared = true;
}

/* Whether the sender is out. */
static bool fetch_is_left(struct fetch *fetch, uint64_t now_ns)
{
	struct shm_peer *link = shm_link(fetch->peer);
	uint32_t done;

	if (fetch->offer < 0 || fetch_helped(fetch, fetch->back, &done) || !connect_lives(fetch->peer))
		return true;
	if (now_ns - fetch->left_ns < fetch->peer->owner->options.close_timeout)
		return false;
	fetch_unshare(fetch);
	door_shut(link, now_ns);
	return door_is_left(link, fetch->offer, now_ns);
}

static void fetch_leave_all(struct shm_peer *link, int status, uint64_t now_ns)
{
	struct list_node *node;

	while ((node = list_first(&link->copies)))
		fetch_leave(container_of(node, struct fetch, node), status, now_ns); /* is a pull now */
	for (node = list_first(&link->pulls); node; node = list_next(&link->pulls, node))
		fetch_leave(container_of(node, struct fetch, node), status, now_ns);
}

/* End those fetches from a peer that is gone whose memory it is out of. Returns how many. */
static int fetch_leave_ended(struct shm *shm, struct shm_peer *link)
{
	struct list_node *node = list_first(&link->pulls), *next;
	uint64_t now_ns = clock_now_ns();
	int n = 0;

	for (; node; node = next) {
		struct fetch *fetch = container_of(node, struct fetch, node);
		struct transport_fetch *job = fetch->job;
		int status = fetch->status;

		next = list_next(&link->pulls, node);
		if (!fetch_is_left(fetch, now_ns))
			continue;
		fetch_free(shm, fetch);
		shm->owner->up->fetched(job, status);
		n++;
	}
	if (n > 0 && !shm_fetches(link))
		shm->dead++; /* its memory goes now */
	return n;
}

void fetch_lost(struct transport_peer *peer)
{
	struct shm_peer *link = shm_link(peer);

	fetch_leave_all(link, peer->gone_status, clock_now_ns());
	fetch_leave_ended(shm_of(peer->owner), link);
}

bool fetch_withdraw(struct transport_peer *peer, uint64_t now_ns)
{
	struct shm_peer *link = shm_link(peer);
	bool left = true;

	fetch_leave_all(link, THOLE_ERR_CANCELED, now_ns);
	for (struct list_node *node = list_first(&link->pulls); node; node = list_next(&link->pulls, node))
		left &= fetch_is_left(container_of(node, struct fetch, node), now_ns);
	return left;
}

/* ---- Running --------------------------------------------------------------------------------------- */

/* The oldest copy, and the end of those that were done with it. */
static int fetch_progress_copies(struct shm_peer *link)
{
	struct list_node *node;
	int n = 0;

	for (bool copied = false; (node = list_first(&link->copies)) && !link->peer->gone;) {
		struct fetch *fetch = container_of(node, struct fetch, node);

		if (fetch_is_done(fetch)) {
			fetch_end(fetch, 0);
			n++;
		} else if (!copied) {
			copied = true;
			n += fetch_copy(fetch);
		} else {
			break;
		}
	}
	return n;
}

int fetch_progress(struct transport_peer *peer)
{
	struct shm_peer *link = shm_link(peer);
	struct list_node *node, *next;
	int n;

	if (peer->gone)
		return fetch_leave_ended(shm_of(peer->owner), link);
	n = fetch_progress_copies(link);
	for (node = list_first(&link->pulls); node && !peer->gone && link->pulling < PULLS_MAX; node = next) {
		next = list_next(&link->pulls, node);
		n += fetch_ring(container_of(node, struct fetch, node));
	}
	return n;
}

void fetch_take_over(struct transport_peer *peer, uint64_t now_ns)
{
	struct transport_owner *owner = peer->owner;
	struct shm_peer *link = shm_link(peer);
	struct list_node *node = list_first(&link->pulls);
	struct fetch *fetch = node ? container_of(node, struct fetch, node) : NULL;

	if (!fetch || fetch->left_ns || fetch->faulted || fetch->laid_out || !fetch->pulled ||
	    owner->options.bulk == OPTION_BULK_RING || !copy_allowed(peer))
		return;
	if (fetch->seen_ns == 0)
		fetch->seen_ns = now_ns;
	if (now_ns - fetch->seen_ns < TAKE_OVER_NS)
		return;
	fetch_turn(fetch, BULK_ONE_COPY);
	fetch->generation++; /* what the sender still pushes is for nobody, even if this one pulls again */
	fetch->pulled = false;
	link->pulling--;
	transport_count(owner, COUNTER_BULK_TAKEN_OVER);
}
