/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mover_driver: a link's mover: windows and fetches for the driver in the kernel (docs/DRIVER.md), which has the link's
 * sockets (udp_driver.c), or is the link (link_ether.c).
 *
 * Owns which regions windows and fetches are of, and when they are pinned (option pin): regions that the program has
 * declared, or of a cache, so that memory that is used again is pinned already. Does not own the descriptor. Invariant:
 * a region is given back only after the driver has forgotten all windows and fetches of it that are listed here.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/endian.h"
#include "memory/cache.h"
#include "memory/driver.h"
#include "transport/datagram/mover_driver.h"

enum {
	DRIVER_LEAST = 128 * 1024,  /* bytes of a window that is worth two calls */
	DRIVER_UNDER_WAY = 512,     /* registrations in use at a time, at most */
};

_Static_assert(sizeof(struct mover_way) == sizeof(struct thole_driver_way) &&
	       offsetof(struct mover_way, heard) == offsetof(struct thole_driver_way, heard) &&
	       offsetof(struct mover_way, epoch) == offsetof(struct thole_driver_way, epoch) &&
	       offsetof(struct mover_way, credit) == offsetof(struct thole_driver_way, credit) &&
	       offsetof(struct mover_way, host_index) == offsetof(struct thole_driver_way, host_index),
	       "they are one");

/* A window or a fetch that the driver has. */
struct held {
	struct list_node node;
	uint64_t name;              /* window or transfer, as PULLs name them */
	uint32_t connection;
	bool fetch;
	bool own;                   /* region was made for this alone */
	uint32_t region;
	uint64_t offset;            /* in the region */
	struct cache_entry *entry;  /* whose region it is; NULL: declared by the program, or own */
};

struct mover_driver {
	struct mover mover;
	mover_driver_name *name;
	struct link *link;
	struct transport_owner *owner;
	struct driver *driver;
	struct thole_driver_events *events;
	struct mover_way *ways;
	uint32_t read;              /* events */
	uint32_t indices[THOLE_DRIVER_CONNECTIONS]; /* of the engine's connections, by the driver's id */
	struct list_node held;
	struct cache cache;
	void *cache_memory;
	/* by region: its generation and 1 when all of it was found pinned; 0: it was not */
	uint32_t pinned[THOLE_DRIVER_REGIONS];
	uint32_t pages[THOLE_DRIVER_REGIONS]; /* of the region, when it was last left to a worker to be pinned */
};

static struct mover_driver *driver_of(struct mover *mover)
{
	return container_of(mover, struct mover_driver, mover);
}

/* ---- Memory --------------------------------------------------------------------------------------------- */

static void held_give(struct mover_driver *self, struct held *held)
{
	list_remove(&held->node);
	if (held->entry)
		cache_give(&self->cache, held->entry);
	else if (held->own)
		driver_forget(self->driver, held->region);
	free(held);
}

/* Which region a vector is of: the program's, the cache's, or one of its own. */
static int held_region(struct mover_driver *self, struct held *held, const struct vector *vector, bool written)
{
	uint64_t address = (uintptr_t)vector->segments[0].iov_base;
	struct declared_place place;
	int error;

	if (vector->count > 1) {
		held->own = true;
		return driver_declare(self->driver, vector->segments, vector->count, written ? THOLE_DRIVER_WRITE : 0,
				      &held->region);
	}
	if (declared_find(&self->owner->declared, address, vector->length, written, &place)) {
		held->region = place.id;
		held->offset = place.offset;
		return 0;
	}
	error = cache_take(&self->cache, address, vector->length, written ? CACHE_WRITE : 0, &held->entry);
	if (!error)
		held->region = (uint32_t)held->entry->handle;
	return error;
}

static bool region_is_pinned(const struct mover_driver *self, uint32_t region)
{
	return self->pinned[region] && self->pinned[region] == load_acquire(driver_word(self->driver, region)) + 1;
}

/* As the option says. A transfer begins when the first pages are pinned. */
static int held_pin(struct mover_driver *self, const struct held *held, uint64_t length)
{
	const struct options *options = &self->owner->options;
	uint64_t all = held->offset + length, first = held->offset + options->pin_first;
	uint32_t generation = load_acquire(driver_word(self->driver, held->region)); /* before it is pinned */
	struct thole_driver_pin state;
	int error;

	if (region_is_pinned(self, held->region))
		return 0;
	self->pinned[held->region] = 0;
	if (options->pin != OPTION_PIN_OVERLAPPED)
		first = all;
	if (first > all)
		first = all;
	if (first > 0) {
		error = driver_pin(self->driver, held->region, first, 0, &state);
		if (error)
			return error;
		if (state.state == THOLE_DRIVER_PINNED)
			self->pinned[held->region] = generation + 1;
	}
	if (first == all)
		return 0;
	error = driver_pin(self->driver, held->region, all, THOLE_DRIVER_BACKGROUND, &state);
	if (!error)
		self->pages[held->region] = (uint32_t)state.pages;
	return error;
}

/* For the first `length` bytes of a vector, which may have room for far more: that is neither pinned nor declared.
 * Returns NULL, with a negative errno, if the driver cannot have this memory. */
static struct held *held_new(struct mover_driver *self, const struct vector *vector, uint64_t length, bool written,
			     int *status_p)
{
	struct iovec segments[THOLE_DRIVER_SEGMENTS];
	uint64_t covered;
	size_t count = vector_slice(vector, 0, length, segments, THOLE_DRIVER_SEGMENTS, &covered);
	struct held *held = count > 0 && covered == length ? calloc(1, sizeof(*held)) : NULL;

	*status_p = -ENOMEM;
	if (!held)
		return NULL;
	list_init(&held->node);
	if (held_region(self, held, &(struct vector){segments, count, length}, written) != 0) {
		free(held);
		return NULL;
	}
	if (held_pin(self, held, length) != 0) {
		held_give(self, held);
		return NULL;
	}
	*status_p = 0;
	return held;
}

static struct held *held_find(const struct mover_driver *self, uint32_t connection, uint64_t name, bool fetch)
{
	struct list_node *node;

	for (node = list_first(&self->held); node; node = list_next(&self->held, node)) {
		struct held *held = container_of(node, struct held, node);

		if (held->name == name && held->connection == connection && held->fetch == fetch)
			return held;
	}
	return NULL;
}

/* ---- Calls ---------------------------------------------------------------------------------------------- */

static int driver_connect(struct mover *mover, const struct mover_peer *peer, uint32_t *id_p, struct mover_way **way_p)
{
	struct mover_driver *self = driver_of(mover);
	struct thole_driver_connection wanted = {
		.session = peer->session,
		.peer_session = peer->peer_session,
		.index = peer->index,
		.peer_index = peer->peer_index,
		.frame_max = peer->frame_max,
		.credit = peer->credit < UINT32_MAX ? (uint32_t)peer->credit : UINT32_MAX,
	};
	int status;

	self->name(self->link, peer, &wanted);
	if (peer->guard) {
		wanted.mode = peer->guard->mode;
		memcpy(wanted.out_secret, peer->guard->out.secret, sizeof(wanted.out_secret));
		memcpy(wanted.in_secret, peer->guard->in.secret, sizeof(wanted.in_secret));
		wanted.counter = peer->guard->counter;
	}
	status = driver_call(self->driver, THOLE_DRIVER_CONNECTION, &wanted);
	if (status < 0)
		return status;
	self->indices[wanted.id] = peer->index;
	*id_p = wanted.id;
	*way_p = &self->ways[wanted.id];
	return 0;
}

static void driver_disconnect(struct mover *mover, uint32_t connection)
{
	struct mover_driver *self = driver_of(mover);
	struct list_node *node = list_first(&self->held), *next;

	driver_call(self->driver, THOLE_DRIVER_CONNECTION_END, (void *)(uintptr_t)connection);
	for (; node; node = next) {
		struct held *held = container_of(node, struct held, node);

		next = list_next(&self->held, node);
		if (held->connection == connection)
			held_give(self, held);
	}
}

/* The driver has it now, or has refused it. */
static int held_begin(struct mover_driver *self, struct held *held, uint32_t connection, uint64_t name, int status)
{
	held->connection = connection;
	held->name = name;
	if (status >= 0) {
		list_push_back(&self->held, &held->node);
		return 0;
	}
	held_give(self, held);
	return status;
}

static int driver_offer(struct mover *mover, uint32_t connection, uint64_t window, const struct vector *memory)
{
	struct mover_driver *self = driver_of(mover);
	struct thole_driver_window wanted = {.window = window, .length = memory->length, .connection = connection};
	struct held *held;
	int status;

	held = held_new(self, memory, memory->length, false, &status);
	if (!held)
		return status;
	wanted.region = held->region;
	wanted.offset = held->offset;
	status = driver_call(self->driver, THOLE_DRIVER_WINDOW, &wanted);
	return held_begin(self, held, connection, window, status);
}

/* A window that is offered no more, or a fetch that is cancelled. */
static void driver_end(struct mover *mover, uint32_t connection, uint64_t which, bool fetch)
{
	struct mover_driver *self = driver_of(mover);
	struct thole_driver_name name = {.name = which, .connection = connection};
	struct held *held = held_find(self, connection, which, fetch);

	driver_call(self->driver, fetch ? THOLE_DRIVER_FETCH_END : THOLE_DRIVER_WINDOW_END, &name);
	if (held)
		held_give(self, held);
}

static void driver_withdraw(struct mover *mover, uint32_t connection, uint64_t window)
{
	driver_end(mover, connection, window, false);
}

static int driver_fetch(struct mover *mover, const struct mover_fetch *fetch)
{
	struct mover_driver *self = driver_of(mover);
	struct thole_driver_fetch wanted = {
		.window = fetch->window,
		.transfer = fetch->transfer,
		.length = fetch->length,
		.cookie = fetch->id,
		.connection = fetch->connection,
		.frame = fetch->frame,
	};
	struct held *held;
	int status;

	held = held_new(self, fetch->into, fetch->length, true, &status);
	if (!held)
		return status;
	held->fetch = true;
	wanted.region = held->region;
	wanted.region_offset = held->offset;
	status = driver_call(self->driver, THOLE_DRIVER_FETCH, &wanted);
	return held_begin(self, held, fetch->connection, fetch->transfer, status);
}

static void driver_cancel(struct mover *mover, uint32_t connection, uint64_t transfer)
{
	driver_end(mover, connection, transfer, true);
}

/* ---- Events --------------------------------------------------------------------------------------------- */

/* Which fetch is over, by its id: 0, if nobody waits for it. */
static uint64_t driver_fetched(struct mover_driver *self, const struct thole_driver_event *event, int *status_p)
{
	struct thole_driver_fetched fetched;
	struct held *held;

	memcpy(&fetched, event->data, sizeof(fetched));
	held = held_find(self, fetched.connection, fetched.transfer, true);
	if (!held)
		return 0; /* it was cancelled, or its connection has ended */
	held_give(self, held);
	*status_p = fetched.status;
	return event->cookie;
}

/* What was pinned while the program went on: maybe a part of the region, or it has gone before this was told. */
static void driver_pinned(struct mover_driver *self, const struct thole_driver_event *event)
{
	struct thole_driver_pinned pinned;

	memcpy(&pinned, event->data, sizeof(pinned));
	if (event->cookie < THOLE_DRIVER_REGIONS && pinned.pinned == self->pages[event->cookie])
		self->pinned[event->cookie] = pinned.generation + 1;
}

static void driver_count(struct mover_driver *self)
{
	const struct thole_driver_shared *shared = self->driver->shared;

	self->owner->counters[COUNTER_OVERLAP_MISS] = shared->overlap_miss;
	self->owner->counters[COUNTER_DRIVER_SENT] = shared->sent_bytes;
	self->owner->counters[COUNTER_DRIVER_RECEIVED] = shared->received_bytes;
}

/* A window that the driver cannot read any more. */
static void driver_lost(const struct mover_driver *self, const struct thole_driver_event *event,
			const struct mover_reports *reports, struct engine *engine)
{
	struct thole_driver_lost lost;

	memcpy(&lost, event->data, sizeof(lost));
	if (held_find(self, lost.connection, event->cookie, false))
		reports->lost(engine, self->indices[lost.connection], event->cookie);
}

static unsigned driver_poll(struct mover *mover, const struct mover_reports *reports, struct engine *engine)
{
	struct mover_driver *self = driver_of(mover);
	struct thole_driver_events *events = self->events;
	unsigned n = 0;

	for (;;) {
		const struct thole_driver_event *slot = &events->events[self->read % THOLE_DRIVER_EVENTS];
		struct thole_driver_event event;
		uint64_t transfer;
		int status;

		if (load_acquire(&slot->stamp) != self->read + 1)
			break;
		event = *slot;
		store_release(&events->read, ++self->read); /* before what it leads to reads more */
		n++;
		if (event.kind == THOLE_DRIVER_EVENT_PINNED)
			driver_pinned(self, &event);
		else if (event.kind == THOLE_DRIVER_EVENT_LOST)
			driver_lost(self, &event, reports, engine);
		transfer = event.kind == THOLE_DRIVER_EVENT_FETCHED ? driver_fetched(self, &event, &status) : 0;
		if (transfer)
			reports->fetched(engine, transfer, status);
	}
	if (n > 0) {
		driver_count(self);
		fence_full(); /* pairs with the driver's, which looks for room once it has said that events wait */
		if (load_relaxed(&events->waiting))
			driver_call(self->driver, THOLE_DRIVER_ROOM, NULL);
	}
	return n;
}

/* ---- Opening -------------------------------------------------------------------------------------------- */

static void *driver_map(const struct driver *driver, size_t bytes, off_t at)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, driver->fd, at);

	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, bytes, MADV_DONTFORK);
	return memory;
}

static void driver_free(struct mover_driver *self)
{
	if (self->events)
		munmap(self->events, sizeof(*self->events));
	if (self->ways)
		munmap(self->ways, THOLE_DRIVER_CONNECTIONS * sizeof(*self->ways));
	free(self->cache_memory);
	free(self);
}

int mover_driver_open(struct link *link, struct transport_owner *owner, mover_driver_name *name)
{
	static const struct mover_calls calls = {
		.connect = driver_connect,
		.disconnect = driver_disconnect,
		.offer = driver_offer,
		.withdraw = driver_withdraw,
		.fetch = driver_fetch,
		.cancel = driver_cancel,
		.poll = driver_poll,
	};
	struct mover_driver *self = calloc(1, sizeof(*self));
	uint32_t room = (uint32_t)owner->options.pin_cache + DRIVER_UNDER_WAY;

	if (!self)
		return THOLE_ERR_MEMORY;
	self->mover = (struct mover){.calls = &calls, .least = DRIVER_LEAST};
	self->mover.keeps = owner->options.codec != OPTION_CODEC_NATIVE;
	self->link = link;
	self->name = name;
	self->owner = owner;
	self->driver = owner->driver;
	list_init(&self->held);
	self->cache_memory = malloc(cache_size(room));
	self->events = driver_map(self->driver, sizeof(*self->events), THOLE_DRIVER_AT_EVENTS);
	self->ways = driver_map(self->driver, THOLE_DRIVER_CONNECTIONS * sizeof(*self->ways), THOLE_DRIVER_AT_WAYS);
	if (!self->cache_memory || !self->events || !self->ways) {
		driver_free(self);
		return THOLE_ERR_SYSTEM;
	}
	cache_init(&self->cache, self->cache_memory, room,
		   owner->options.pin == OPTION_PIN_BEFORE ? 0 : (uint32_t)owner->options.pin_cache, UINT64_MAX);
	cache_serve(&self->cache, &driver_registrar, self->driver);
	link->mover = &self->mover;
	return 0;
}

void mover_driver_close(struct link *link)
{
	struct mover_driver *self = link->mover ? driver_of(link->mover) : NULL;
	struct list_node *node;

	if (!self)
		return;
	link->mover = NULL;
	driver_count(self);
	while ((node = list_first(&self->held)))
		held_give(self, container_of(node, struct held, node));
	cache_fini(&self->cache);
	driver_free(self);
}
