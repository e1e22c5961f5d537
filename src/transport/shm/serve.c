/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * serve: the sender's side of bulk: pieces that a receiver pulls are pushed into the ring, and blocks of a receiver's
 * offer are copied into its memory, from the back.
 *
 * Does not own which way is taken (choose.c, for the receiver), nor what copies (ring.c, copy.c, attach.c). A serve
 * is of a window, which is asked for again each time: once its request is over, nothing is read from its memory. And
 * whatever ends a serve, its receiver learns of it, by a piece without data or by the offer's `failed`; where the
 * window is no more before a block was claimed, nothing is to be learnt.
 */
#include <errno.h>
#include <stdlib.h>

#include "transport/shm/bulk.h"

enum {
	BULK_SHARE = 256 * 1024,  /* bytes pushed before the next poll, */
	/* or, while something is fetched from there, so many: what is read as soon as it is written, in a place that is
	 * written again at once, is slower for both sides */
	BULK_SHARE_CROSSED = 1 << 20,
	LENT_PIECES = 4, /* in a place that is lent */
};

struct serve {
	struct list_node node;
	bool help;                 /* copy blocks of an offer; else push */
	uint64_t window;           /* our request */
	uint64_t id;               /* the peer's fetch, or the offer's sequence */
	uint64_t door, calls;      /* help: where the receiver lets us in, and how often we went */
	uint64_t offset, end;
	uint32_t piece;            /* push: as the peer asked for */
	uint32_t lent, lent_size;  /* and a place of its segment that it lends for that; size 0: none */
	bool begun, leased;        /* the pieces go there */
	struct offer *offer;
	uint64_t block;
	uint32_t blocks;
	struct iovec one, *many;   /* help: the receiver's vector */
	struct vector remote;
};

void serve_pool_open(struct shm *shm)
{
	pool_init(&shm->serves, sizeof(struct serve), 64, FETCHES_MAX);
}

void serve_pool_close(struct shm *shm)
{
	for (uint32_t i = 0; i < shm->serves.capacity; i++) {
		struct serve *serve = pool_at(&shm->serves, i);

		if (pool_is_live(&shm->serves, serve))
			free(serve->many);
	}
	pool_fini(&shm->serves);
}

static void serve_release(struct shm *shm, struct shm_peer *link, struct serve *serve)
{
	free(serve->many);
	list_remove(&serve->node);
	bulk_settle(link);
	pool_put(&shm->serves, serve);
}

/* A serve that its receiver needs no more: what it has lent is its own again. Where it cannot be told that, it is lost,
 * and with it all serves that there are by then. */
static void serve_give_up(struct transport_peer *peer, struct serve *serve)
{
	struct record record = {.kind = RECORD_BULK_DATA, .tag = serve->id};
	bool lent = !serve->help && serve->lent_size;

	serve_release(shm_of(peer->owner), shm_link(peer), serve);
	if (lent)
		peer->owner->up->control(peer, &record);
}

/* Who asks for a window again has given up what he had asked for before. So there are no more serves than windows, and
 * no peer can use up what all have. */
static void serve_supersede(struct transport_peer *peer, uint64_t window)
{
	struct shm_peer *link = shm_link(peer);
	struct list_node *node = list_first(&link->serves);

	while (node && container_of(node, struct serve, node)->window != window)
		node = list_next(&link->serves, node);
	if (node)
		serve_give_up(peer, container_of(node, struct serve, node));
}

static struct serve *serve_new(struct transport_peer *peer, uint64_t window)
{
	struct shm *shm = shm_of(peer->owner);
	struct serve *serve;

	serve_supersede(peer, window);
	serve = peer->gone ? NULL : pool_get(&shm->serves);
	if (!serve)
		return NULL;
	*serve = (struct serve){.window = window};
	bulk_activate(shm, shm_link(peer));
	list_push_back(&shm_link(peer)->serves, &serve->node);
	return serve;
}

/* Whether what a peer wants to lend is a place for payloads: for pieces of a line each at least (serve_push), since of
 * such as have no length no number is the last. */
static bool pull_lends(const struct shm_peer *link, const struct record *record)
{
	uint64_t place = (uint32_t)record->arg[3], size = record->arg[3] >> 32;

	return place % 64 == 0 && place >= offsetof(struct segment, small) && size >= LENT_PIECES * 64 &&
	       place + size <= link->in.size;
}

void serve_pull(struct transport_peer *peer, const struct record *record)
{
	const struct vector *vector = peer->owner->up->window(peer, record->tag);
	struct record failure = {.kind = RECORD_BULK_DATA, .tag = record->imm};
	uint64_t offset = record->arg[0], length = record->arg[1], piece = record->arg[2] & ~PULL_OF_DOUBT;
	bool doubt = record->arg[2] & PULL_OF_DOUBT;
	struct serve *serve = NULL;

	if (record->length != RECORD_EXTERNAL || piece == 0 ||
	    (record->arg[3] && !pull_lends(shm_link(peer), record))) {
		transport_bad(peer);
		return;
	}
	if (vector && offset <= vector->length && length > 0 && length <= vector->length - offset) {
		bool mapped = !doubt || copy_is_mapped(vector, offset, length);

		serve = mapped ? serve_new(peer, record->tag) : NULL;
		failure.imm = mapped ? -THOLE_ERR_MEMORY : -THOLE_ERR_FAULT;
	}
	if (!serve) {
		peer->owner->up->control(peer, &failure);
		return;
	}
	attach_tell(peer, vector, false);
	serve->id = record->imm;
	serve->offset = offset;
	serve->end = offset + length;
	serve->piece = piece < UINT32_MAX ? (uint32_t)piece : UINT32_MAX;
	serve->lent = (uint32_t)record->arg[3];
	serve->lent_size = (uint32_t)(record->arg[3] >> 32);
}

void serve_offer(struct transport_peer *peer, const struct record *record)
{
	const struct vector *vector = peer->owner->up->window(peer, record->tag);
	struct shm_peer *link = shm_link(peer);
	uint32_t index = record->imm & 0xff, count = (uint32_t)(record->imm >> 32);
	uint64_t length = record->arg[0], block = record->arg[2];
	struct serve *serve;

	if (record->length != RECORD_EXTERNAL || index >= OFFERS || count == 0 || count > THOLE_SEGMENTS_MAX ||
	    block == 0 || length / block > CLAIM_MAX) {
		transport_bad(peer);
		return;
	}
	/* Finished already, or too long: the receiver does it all. And no correct one offers memory for a layout. */
	if (!vector || length == 0 || length > vector->length || vector_has_layout(vector) || !link->connected)
		return;
	attach_tell(peer, vector, false);
	if (!(count == 1 && attach_find(peer, record->arg[1], length, true)) && !copy_allowed(peer))
		return;
	serve = serve_new(peer, record->tag);
	if (!serve)
		return;
	serve->help = true;
	serve->id = record->imm >> 8 & 0xffffff;
	serve->offer = &link->out.segment->offers[index];
	serve->end = length;
	serve->block = block;
	serve->door = record->arg[3];
	serve->blocks = (uint32_t)((length + block - 1) / block);
	serve->one = (struct iovec){(void *)(uintptr_t)record->arg[1], count == 1 ? length : count};
	serve->remote = (struct vector){&serve->one, 1, length};
	if (count > 1)
		serve->remote.count = 0; /* to be read from the receiver when a block is claimed */
}

/* Push pieces while there is room. */
static int serve_push(struct transport_peer *peer, struct serve *serve)
{
	struct transport_owner *owner = peer->owner;
	struct shm_peer *link = shm_link(peer);
	const struct vector *vector = peer->owner->up->window(peer, serve->window);
	struct record record = {.kind = RECORD_BULK_DATA, .length = RECORD_EXTERNAL, .tag = serve->id};
	uint64_t piece_max = ring_piece_max(&link->out), piece = serve->piece;
	uint64_t stop = serve->offset + (shm_fetches(link) ? BULK_SHARE_CROSSED : BULK_SHARE);
	int pushed = 0;

	if (!vector) {
		serve_give_up(peer, serve);
		return 1;
	}
	if (serve->lent_size && !serve->leased && !serve->begun)
		serve->leased = ring_lease(link, serve->lent, serve->lent_size);
	serve->begun = true;
	ring_bulk(peer, serve->leased);
	if (serve->leased && piece_max > serve->lent_size / LENT_PIECES)
		piece_max = serve->lent_size / LENT_PIECES;
	if (piece > piece_max)
		piece = piece_max;
	while (serve->offset < serve->end && serve->offset < stop && link->connected &&
	       ring_has_room(&link->out, RING_RESERVE)) {
		uint64_t left = serve->end - serve->offset;
		uint32_t length = (uint32_t)(left < piece ? left : piece);

		record.imm = serve->offset;
		if (ring_push(peer, &record, vector, serve->offset, length) != 0)
			break;
		serve->offset += length;
		pushed++;
	}
	if (serve->offset == serve->end)
		serve_release(shm_of(owner), link, serve);
	return pushed;
}

static bool serve_claim(struct serve *serve, uint32_t *back_p)
{
	uint64_t word = load_acquire(&serve->offer->claim);

	for (;;) {
		struct claim claim = claim_unpack(word);

		if (claim.sequence != serve->id || claim.front + claim.back >= serve->blocks)
			return false;
		*back_p = claim.back++;
		if (compare_swap(&serve->offer->claim, &word, claim_pack(claim)))
			return true;
	}
}

/* The receiver's vector, where it has several segments. */
static int serve_remote(struct transport_peer *peer, struct serve *serve)
{
	size_t count = serve->one.iov_len;
	uint64_t length = 0;
	int error;

	if (serve->remote.count > 0)
		return 0;
	serve->many = malloc(count * sizeof(*serve->many));
	if (!serve->many)
		return ENOMEM;
	error = copy_from(shm_link(peer)->pid, serve->many, (uintptr_t)serve->one.iov_base,
			  count * sizeof(*serve->many));
	for (size_t i = 0; !error && i < count; i++)
		length += serve->many[i].iov_len;
	if (error || length < serve->end)
		return error ? error : EFAULT;
	serve->remote = (struct vector){serve->many, count, length};
	return 0;
}

/* Write a block into the receiver's memory where it is mapped here. Whether it is there. */
static bool serve_mapped(struct transport_peer *peer, const struct serve *serve, const struct vector *vector,
			 uint64_t from, uint64_t length)
{
	uint64_t address = (uintptr_t)serve->one.iov_base;
	void *to = serve->remote.count == 1 && !serve->many ? attach_find(peer, address + from, length, true) : NULL;

	if (!to)
		return false;
	vector_read(vector, from, to, length);
	if (!attach_is_current(peer, address + from, length, true, to))
		return false; /* the receiver forked or took it back meanwhile: it may or may not have it */
	transport_count(peer->owner, COUNTER_BULK_BLOCKS_DIRECT);
	return true;
}

/* The same by process_vm_writev. 0 or an errno. */
static int serve_write(struct transport_peer *peer, struct serve *serve, const struct vector *vector, uint64_t from,
		       uint64_t length)
{
	int error = copy_allowed(peer) ? serve_remote(peer, serve) : EPERM;

	return error ? error
		     : copy_write(shm_link(peer), serve->door, &serve->calls, vector, &serve->remote, from, length);
}

/* Copy one block from the back. */
static int serve_help(struct transport_peer *peer, struct serve *serve)
{
	struct transport_owner *owner = peer->owner;
	const struct vector *vector = peer->owner->up->window(peer, serve->window);
	uint64_t from, length;
	uint32_t back;
	int error;

	if (!vector || !serve_claim(serve, &back)) {
		serve_release(shm_of(owner), shm_link(peer), serve);
		return 0;
	}
	from = (uint64_t)(serve->blocks - 1 - back) * serve->block;
	length = serve->end - from < serve->block ? serve->end - from : serve->block;
	error = serve_mapped(peer, serve, vector, from, length) ? 0 : serve_write(peer, serve, vector, from, length);
	if (error) {
		/* The receiver reads failed before done, and done then stays: it knows what is left to it. */
		store_release(&serve->offer->failed, 1);
		if (error != EFAULT && error != ENOMEM)
			copy_refused(peer);
		serve_release(shm_of(owner), shm_link(peer), serve);
		return 1;
	}
	transport_count(owner, COUNTER_BULK_BLOCKS_HELPED);
	store_release(&serve->offer->done, back + 1);
	return 1;
}

int serve_progress(struct transport_peer *peer)
{
	struct list_node *node = list_first(&shm_link(peer)->serves);
	struct serve *serve = node ? container_of(node, struct serve, node) : NULL;

	if (!serve)
		return 0;
	return serve->help ? serve_help(peer, serve) : serve_push(peer, serve);
}

void serve_lost(struct transport_peer *peer)
{
	struct shm_peer *link = shm_link(peer);

	while (!list_empty(&link->serves))
		serve_release(shm_of(peer->owner), link, container_of(list_first(&link->serves), struct serve, node));
}
