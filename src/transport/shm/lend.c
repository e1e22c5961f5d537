/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lend: memory that peers map through the driver, which can be any memory (docs/DRIVER.md).
 *
 * Owns which buffers of this process are lent to peers, and views of those that peers have lent. Does not own when they
 * are used (fetch.c, serve.c), nor what goes over the pair's connection besides (attach.c, connect.c).
 *
 * What always holds: a view shows what its owner has at that address at the time. Where that is nothing, or is not lent
 * any more, the view says so afterwards; so each use looks again. Of what was told to a peer last, VIEWS and no more,
 * both sides keep track.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/shm/shm.h"

enum {
	PAGE = 4096,            /* as the driver has it; more would do, too */
	LEND_MIN = 32 * 1024,   /* bytes of a buffer: below this a page table costs more than it saves */
};

#define LOAN_MAGIC UINT64_C(0x74686f6c6c6e6431) /* "thollnd1" */

/* What a peer is told: over the pair's connection. */
struct loan {
	uint64_t magic;
	uint64_t base, length; /* whole pages of the sender's */
	uint32_t number;       /* the driver's */
	uint32_t flags;
	uint64_t key[2];
};

/* A buffer that is lent, or was. */
struct lent {
	struct list_node node;
	uint64_t serial; /* 0: it is not lent now */
	uint32_t flags;
	uint64_t base, length;
	struct thole_driver_offer offer;
};

/* ---- Lending --------------------------------------------------------------------------------------- */

static int lent_enter(void *arg, struct cache_entry *entry)
{
	struct transport_owner *owner = arg;
	struct iovec memory = {(void *)(uintptr_t)entry->address, entry->length};
	struct lent *lent = calloc(1, sizeof(*lent));
	int error;

	if (!lent)
		return THOLE_ERR_MEMORY;
	lent->base = entry->address;
	lent->length = entry->length;
	lent->flags = entry->access & CACHE_WRITE ? THOLE_DRIVER_WRITE : 0;
	error = driver_declare(owner->driver, &memory, 1, lent->flags, &lent->offer.id);
	if (error) {
		free(lent);
		return error == THOLE_ERR_AGAIN ? CACHE_FULL : error;
	}
	list_push_back(&shm_of(owner)->lendings.all, &lent->node);
	/* Nothing is pinned, and a view follows the mapping by itself: so this does not change while it is declared. */
	entry->word = driver_word(owner->driver, lent->offer.id);
	entry->generation = load_acquire(entry->word);
	entry->handle = (uintptr_t)lent;
	return 0;
}

static void lent_leave(void *arg, struct cache_entry *entry)
{
	const struct transport_owner *owner = arg;
	struct lent *lent = (struct lent *)(uintptr_t)entry->handle;

	driver_forget(owner->driver, lent->offer.id);
	list_remove(&lent->node);
	free(lent);
}

static const struct cache_registrar lent_registrar = {lent_enter, lent_leave};

void lend_open(struct transport_owner *owner)
{
	struct lendings *lendings = &shm_of(owner)->lendings;
	uint32_t kept = (uint32_t)owner->options.pin_cache;

	list_init(&lendings->all);
	lendings->memory = owner->driver && kept > 0 ? malloc(cache_size(kept + 1)) : NULL;
	if (!lendings->memory)
		return;
	cache_init(&lendings->cache, lendings->memory, kept + 1, kept, UINT64_MAX);
	cache_serve(&lendings->cache, &lent_registrar, owner);
}

void lend_close(struct shm *shm)
{
	struct lendings *lendings = &shm->lendings;

	if (lendings->memory)
		cache_fini(&lendings->cache);
	free(lendings->memory);
	lendings->memory = NULL;
}

/* Whether the buffer was used before, as far as is remembered: what is used once is not worth its calls. */
static bool lent_is_due(struct lendings *lendings, uint64_t base, uint64_t length)
{
	uint64_t what = (base ^ length << 20) * UINT64_C(0x9e3779b97f4a7c15);
	uint64_t *place = &lendings->seen[what >> 58];
	bool seen = *place == what;

	*place = what;
	return seen;
}

_Static_assert(LENDINGS_SEEN == 64, "the hash above takes 6 bits");

static bool lent_offer(const struct transport_owner *owner, struct lent *lent)
{
	if (lent->serial)
		return true;
	if (driver_call(owner->driver, THOLE_DRIVER_OFFER, &lent->offer) < 0)
		return false;
	lent->serial = ++shm_of((struct transport_owner *)(uintptr_t)owner)->lendings.serial;
	return true;
}

static struct views *views_get(struct shm_peer *link)
{
	if (!link->views)
		link->views = calloc(1, sizeof(*link->views));
	return link->views;
}

static void lent_tell(struct transport_peer *peer, struct lent *lent)
{
	struct shm_peer *link = shm_link(peer);
	struct views *views = views_get(link);
	struct loan loan = {LOAN_MAGIC, lent->base, lent->length, lent->offer.number, lent->flags,
			    {lent->offer.key[0], lent->offer.key[1]}};

	for (int i = 0; views && i < VIEWS; i++)
		if (views->told[i] == lent->serial)
			return;
	/* Where the socket is full the next message tells. */
	if (views && connect_send(link->watch_out.fd, &loan, sizeof(loan), -1))
		views->told[views->next++ % VIEWS] = lent->serial;
}

void lend_tell(struct transport_peer *peer, const struct vector *vector, bool write)
{
	struct transport_owner *owner = peer->owner;
	struct lendings *lendings = &shm_of(owner)->lendings;
	uint64_t address = (uintptr_t)vector->segments->iov_base, base = address & ~(uint64_t)(PAGE - 1);
	uint64_t length = ((address + vector->segments->iov_len + PAGE - 1) & ~(uint64_t)(PAGE - 1)) - base;
	struct cache_entry *entry;
	struct lent *lent;

	if (!lendings->memory || length < LEND_MIN || !lent_is_due(lendings, base, length + write) ||
	    cache_take(&lendings->cache, base, length, write ? CACHE_WRITE : 0, &entry) != 0)
		return;
	lent = (struct lent *)(uintptr_t)entry->handle;
	if (lent_offer(owner, lent))
		lent_tell(peer, lent);
	cache_give(&lendings->cache, entry);
}

void lend_withdraw(struct transport_owner *owner, const struct vector *vector)
{
	struct lendings *lendings = &shm_of(owner)->lendings;

	for (struct list_node *node = list_first(&lendings->all); node; node = list_next(&lendings->all, node)) {
		struct lent *lent = container_of(node, struct lent, node);
		bool touched = false;

		for (size_t i = 0; i < vector->count; i++) {
			uint64_t address = (uintptr_t)vector->segments[i].iov_base;

			touched |= address < lent->base + lent->length &&
				   lent->base < address + vector->segments[i].iov_len;
		}
		if (!touched || !lent->serial)
			continue;
		(void)driver_call(owner->driver, THOLE_DRIVER_WITHDRAW, (void *)(uintptr_t)lent->offer.id);
		lent->serial = 0;
	}
}

/* ---- Views ------------------------------------------------------------------------------------------- */

static void view_end(struct view *view)
{
	driver_view_end(&view->shown);
	*view = (struct view){0};
}

static bool view_make(const struct driver *driver, const struct loan *loan, struct view *view)
{
	const struct thole_driver_attach offered = {
		.number = loan->number, .flags = loan->flags, .key = {loan->key[0], loan->key[1]}};

	*view = (struct view){.base = loan->base, .write = loan->flags & THOLE_DRIVER_WRITE};
	if (driver_view_make(driver, &offered, &view->shown) != 0)
		return false;
	if (view->shown.length == loan->length)
		return true;
	view_end(view);
	return false;
}

/* The newest is the first. */
void lend_arrived(struct transport_peer *peer, const void *message, size_t size)
{
	struct transport_owner *owner = peer->owner;
	struct views *views;
	struct view view;
	struct loan loan;

	if (size != sizeof(loan) || peer->gone || !owner->driver || !owner->options.one_copy)
		return;
	memcpy(&loan, message, sizeof(loan));
	views = views_get(shm_link(peer));
	if (!views || loan.magic != LOAN_MAGIC || loan.base % PAGE != 0 || loan.length % PAGE != 0 ||
	    loan.length == 0 || loan.base > UINT64_MAX - loan.length || !view_make(owner->driver, &loan, &view)) {
		transport_count(owner, COUNTER_ATTACH_REFUSED);
		return;
	}
	view_end(&views->views[VIEWS - 1]);
	memmove(views->views + 1, views->views, (VIEWS - 1) * sizeof(views->views[0]));
	views->views[0] = view;
	transport_count(owner, COUNTER_ATTACHED);
}

void *lend_find(struct views *views, uint64_t address, uint64_t length, bool write)
{
	for (int i = 0; views && i < VIEWS; i++) {
		struct view *view = &views->views[i];
		uint64_t at = address - view->base;

		if (!view->shown.head || at >= view->shown.length || length > view->shown.length - at ||
		    (write && !view->write))
			continue;
		if (driver_view_is_whole(&view->shown))
			return view->shown.memory + at;
		view_end(view);
	}
	return NULL;
}

void lend_review(struct views *views)
{
	for (int i = 0; views && i < VIEWS; i++)
		if (views->views[i].shown.head && !driver_view_is_whole(&views->views[i].shown))
			view_end(&views->views[i]);
}

void lend_release(struct views *views)
{
	for (int i = 0; views && i < VIEWS; i++)
		view_end(&views->views[i]);
	free(views);
}
