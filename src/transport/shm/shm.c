/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm: the transport's table of calls, and what runs it: polling, maintenance, sleeping.
 */
#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host.h"
#include "transport/shm/shm.h"

enum {
	BUSY_SLEEP_NS = 100000,      /* longest sleep while a ring or copy is waited for that wakes nobody */
	UNFENCED_SLEEP_NS = 1000000, /* and where membarrier is refused to this process or to a producer */
};

static int membarrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

static uint64_t *cookie_make(void)
{
	uint64_t *cookie = door_page();

	if (cookie && getrandom(cookie, sizeof(*cookie), 0) != sizeof(*cookie)) {
		door_page_free(cookie);
		return NULL;
	}
	return cookie;
}

static int shm_wanted(const struct options *options, enum transport_need *need_p)
{
	*need_p = options->shm ? TRANSPORT_PERMITTED : TRANSPORT_UNWANTED;
	return 0;
}

/* It is as with the option shm off: nobody takes this endpoint to be of a host that he is on. */
static int shm_is_forbidden(struct transport_owner *owner)
{
	owner->parts.host ^= owner->parts.endpoint;
	error_set(THOLE_ERR_UNSUPPORTED, "no shared memory is permitted here (memfd_create: %m): other processes of "
					 "this host are reached over the network alone");
	transport_trouble(owner);
	return THOLE_ERR_UNSUPPORTED;
}

static bool shm_reaches(const struct transport_owner *owner, const struct address_parts *parts)
{
	return parts->host == owner->parts.host;
}

static int shm_open_endpoint(struct transport_owner *owner)
{
	struct shm *shm;
	int error;

	if (segment_is_forbidden())
		return shm_is_forbidden(owner);
	shm = calloc(1, sizeof(*shm));
	if (!shm)
		return error_set(THOLE_ERR_MEMORY, "no memory for an endpoint");
	owner->state[TRANSPORT_SHM] = shm;
	shm->owner = owner;
	shm->memory = host_memory();
	shm->cookie = cookie_make();
	if (!shm->cookie) {
		free(shm);
		owner->state[TRANSPORT_SHM] = NULL;
		return error_set(THOLE_ERR_MEMORY, "no memory for an endpoint");
	}
	shm->membarrier = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
	if (owner->options.ptracer)
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* EINVAL where there is no Yama: as well */
	list_init(&shm->links);
	list_init(&shm->owing);
	bulk_open(owner);
	shm_access_open(shm);
	lend_open(owner);
	error = connect_open(owner);
	transport_set_polled(owner, TRANSPORT_SHM, !error);
	if (error) {
		lend_close(shm);
		shm_access_close(shm);
		bulk_close(owner);
		door_page_free(shm->cookie);
		free(shm);
		owner->state[TRANSPORT_SHM] = NULL;
	}
	return error;
}

struct shm_peer *shm_peer_get(struct transport_peer *peer)
{
	struct shm_peer *link = peer->link;

	if (link)
		return link;
	link = calloc(1, sizeof(*link));
	if (!link)
		return NULL;
	link->peer = peer;
	link->watch_in.fd = link->watch_out.fd = link->watch_process.fd = -1;
	list_init(&link->copies);
	list_init(&link->pulls);
	list_init(&link->serves);
	list_init(&link->active);
	list_init(&link->accessing);
	grants_init(&link->grants);
	list_push_back(&shm_of(peer->owner)->links, &link->node);
	peer->link = link;
	return link;
}

static void shm_release(struct transport_peer *peer)
{
	struct shm_peer *link = shm_link(peer);

	if (!link)
		return;
	connect_release(peer);
	link->reaches = false;
	segment_withdraw(&link->out);
	peer->rendezvous_classes = NULL; /* it was in the segment */
	segment_release_out(peer->owner, &link->out);
	segment_release_in(&link->in);
	door_close(link);
	attach_release(link);
	life_release(link);
}

static void shm_peer_free(struct shm_peer *link)
{
	link->peer->link = NULL;
	list_unlink(&link->node);
	free(link);
}

/* No peer writes into this process's memory any more, nor takes what it reads there for what an RTS offered. */
static void shm_withdraw(struct transport_owner *owner)
{
	struct shm *shm = shm_of(owner);

	for (struct list_node *node = list_first(&shm->links); node; node = list_next(&shm->links, node))
		segment_withdraw(&container_of(node, struct shm_peer, node)->out);
	shm_access_withdraw(owner);
	bulk_withdraw(owner);
}

/* Records are where they should be once pushed; accesses may be put off. */
static bool shm_drained(const struct transport_owner *owner)
{
	const struct shm *shm = owner->state[TRANSPORT_SHM];

	return list_empty(&shm->accessing);
}

/* Say that what follows is an end in good order, also to those whose greetings are still to be read; the end itself is
 * seen at the socket, which is closed after this. */
static void shm_notify_close(struct transport_owner *owner)
{
	struct shm *shm = shm_of(owner);

	connect_accept_all(owner, clock_now_ns());
	for (struct list_node *node = list_first(&shm->links); node; node = list_next(&shm->links, node)) {
		struct shm_peer *link = container_of(node, struct shm_peer, node);

		if (link->out.segment)
			store_release(&link->out.segment->producer_closed, 1); /* partner: shm_end_status */
		if (link->in.segment)
			store_release(&link->in.segment->consumer_closed, 1); /* partner: shm_end_status */
	}
}

static void shm_close_endpoint(struct transport_owner *owner)
{
	struct shm *shm = shm_of(owner);
	struct list_node *node;

	shm_access_close(shm);
	while ((node = list_first(&shm->links))) {
		struct shm_peer *link = container_of(node, struct shm_peer, node);

		shm_release(link->peer);
		shm_peer_free(link);
	}
	connect_close(owner);
	bulk_close(owner);
	lend_close(shm);
	door_page_free(shm->cookie);
	free(shm->in);
	free(shm);
	owner->state[TRANSPORT_SHM] = NULL;
	transport_set_polled(owner, TRANSPORT_SHM, false);
}

static int shm_push(struct transport_peer *peer, const struct record *record, const struct vector *payload,
		    uint64_t offset, uint32_t length)
{
	struct shm_peer *link = shm_link(peer);

	if (__builtin_expect(!link->connected, 0))
		return THOLE_ERR_AGAIN;
	return ring_push(peer, record, payload, offset, length);
}

/* Of a message in a dialogue. What would be left for one shorter than PIECE_MORE goes with the one before. */
static inline uint32_t piece_alone(uint64_t sent, uint64_t left)
{
	uint32_t piece = PIECE_FIRST;

	if (sent + left <= PIECE_WHOLE)
		return PIECE_WHOLE;
	if (sent + left <= 2 * PIECE_OVERLAP)
		return PIECE_OVERLAP;
	for (; sent >= piece && piece < PIECE_MOST; piece += PIECE_MORE)
		sent -= piece;
	return left <= piece + PIECE_MORE ? (uint32_t)left : piece;
}

static uint32_t shm_piece_max(struct transport_peer *peer, uint64_t left)
{
	struct shm_peer *link = shm_link(peer);
	uint32_t max = ring_piece_max(&link->out);
	uint32_t piece = link->streaming || link->crossed ? PIECE_STREAM : piece_alone(link->sent, left);

	return max < piece ? max : piece;
}

/* The peer's memory is still being polled, perhaps by the caller: it goes later. */
static void shm_disconnect(struct transport_peer *peer)
{
	struct shm_peer *link = shm_link(peer);
	struct shm *shm = shm_of(peer->owner);

	if (!link)
		return;
	if (link->ending)
		shm->ending--;
	if (link->connecting)
		shm->connecting--;
	link->ending = link->connecting = link->connected = false;
	if (!link->dead)
		shm->dead++;
	link->dead = true;
	segment_withdraw(&link->out);
	shm_access_lost(peer);
	bulk_lost(peer);
}

static bool shm_connected(struct transport_peer *peer)
{
	return shm_link(peer)->connected;
}

static bool shm_watched(struct transport_peer *peer)
{
	const struct shm_peer *link = shm_link(peer);

	return link && link->in.segment;
}

static void shm_info(struct transport_peer *peer, struct thole_peer_info *info_p)
{
	const struct shm_peer *link = shm_link(peer);

	if (!link || (!link->connected && !link->in.segment))
		return;
	info_p->state = "connected";
	info_p->records = "ring";
	info_p->bulk = link->one_copy == ONE_COPY_NO ? "ring" : "memory";
}

void shm_watch(struct shm *shm, uint32_t i)
{
	struct ring_in *ring = shm->in[i].ring;

	shm->in[i].stamp = &ring_slot(ring->segment, ring->next)->stamp;
	shm->in[i].expected = ring_stamp(ring->next);
	if (ring->published != ring->handled && !ring->owing) {
		ring->owing = true;
		list_push_back(&shm->owing, &ring->node);
	}
}

static void shm_settle(struct ring_in *ring)
{
	if (ring->owing)
		list_remove(&ring->node);
	ring->owing = false;
}

static void shm_publish_late(struct shm *shm)
{
	struct list_node *node = list_first(&shm->owing);

	while (node) {
		struct ring_in *ring = container_of(node, struct ring_in, node);

		node = list_next(&shm->owing, node);
		ring_publish_late(ring);
		if (ring->published == ring->handled)
			shm_settle(ring);
	}
}

static int shm_take(struct shm *shm, uint32_t i)
{
	int n = ring_take(shm->in[i].ring);

	shm->last = i;
	shm_watch(shm, i);
	return n;
}

static inline bool watch_has_record(const struct ring_watch *watch)
{
	/* Pairs with the release of the stamp in ring_push. */
	return __builtin_expect(load_acquire(watch->stamp) == watch->expected, 0);
}

/* Some of the rings, each time the next. */
static inline int shm_poll_row(struct shm *shm)
{
	uint32_t i = shm->turn, end = i + RINGS_ROW;
	int n = 0;

	shm->turn = end < shm->in_count ? end : 0;
	if (end > shm->in_count)
		end = shm->in_count;
	for (; i < end; i++)
		if (watch_has_record(&shm->in[i]))
			n += shm_take(shm, i);
	return n;
}

/* A look at most rings costs a line of a slot and a third of one here. All are looked at until something is there, and
 * the one that had something last again and again. Where there always is something, the others have their turn, too. */
__attribute__((noinline)) static int shm_poll_several(struct shm *shm)
{
	struct ring_in *last;
	int n = 0;

	for (uint32_t polled = 0; polled < shm->in_count && n == 0; polled += RINGS_ROW) {
		if (watch_has_record(&shm->in[shm->last]))
			n = shm_take(shm, shm->last);
		n += shm_poll_row(shm);
	}
	last = shm->in[shm->last].ring;
	prefetch_read(ring_slot(last->segment, last->next + 1)); /* its next record may need it */
	if (!list_empty(&shm->owing))
		shm_publish_late(shm);
	return n;
}

static int shm_progress(struct transport_owner *owner)
{
	struct shm *shm = shm_of(owner);
	int n = 0;

	if (shm->in_count > 1)
		n = shm_poll_several(shm);
	else if (shm->in_count == 1)
		n = ring_poll(shm->in->ring);
	if (!list_empty(&shm->active))
		n += bulk_progress(owner);
	return n;
}

/* ---- Maintenance ---------------------------------------------------------------------------------- */

int shm_end_status(const struct shm_peer *link)
{
	bool closed = (link->in.segment && load_acquire(&link->in.segment->producer_closed)) ||
		      (link->out.segment && load_acquire(&link->out.segment->consumer_closed));

	return link->foreign ? THOLE_ERR_PROTOCOL : closed ? THOLE_ERR_CLOSED : THOLE_ERR_PEER;
}

/* Whether one that writes no more has not been heard of: its greeting may wait at the listener, among many. */
static bool shm_ends_unheard(const struct shm *shm)
{
	for (struct list_node *node = list_first(&shm->links); node; node = list_next(&shm->links, node)) {
		const struct shm_peer *link = container_of(node, struct shm_peer, node);

		if (link->ending && !link->in.segment)
			return true;
	}
	return false;
}

/* Peers that write no more are lost once all that they wrote is handled. */
static void shm_end_peers(struct transport_owner *owner, uint64_t now_ns)
{
	struct shm *shm = shm_of(owner);

	if (shm_ends_unheard(shm))
		connect_accept_all(owner, now_ns);
	for (struct list_node *node = list_first(&shm->links); node && shm->ending > 0;
	     node = list_next(&shm->links, node)) {
		struct shm_peer *link = container_of(node, struct shm_peer, node);

		if (link->ending && (!link->in.segment || !ring_ready(&link->in)))
			owner->up->lost(link->peer, shm_end_status(link));
	}
}

/* What is left of a peer that is gone, while anything is: nobody has work with those that were here before. Whether
 * there is more to be done. */
static bool shm_bury(struct shm_peer *link, uint64_t now_ns)
{
	if (!shm_access_is_left(link, now_ns))
		return true;
	if (shm_fetches(link))
		return false; /* when the last of them has ended */
	shm_release(link->peer);
	if (!list_empty(&link->active))
		return true; /* accesses that are over are to be told */
	shm_peer_free(link);
	return false;
}

static void shm_reap(struct transport_owner *owner)
{
	struct shm *shm = shm_of(owner);
	struct list_node *node = list_first(&shm->links), *next;
	uint64_t now_ns = clock_now_ns();
	uint32_t kept = 0, left = 0;

	for (uint32_t i = 0; i < shm->in_count; i++) {
		if (shm_link(shm->in[i].ring->peer)->dead)
			shm_settle(shm->in[i].ring);
		else
			shm->in[kept++] = shm->in[i];
	}
	shm->in_count = owner->locals = kept;
	shm->last = shm->turn = 0;
	for (; node; node = next) {
		struct shm_peer *link = container_of(node, struct shm_peer, node);

		next = list_next(&shm->links, node);
		left += link->dead && shm_bury(link, now_ns);
	}
	shm->dead = left;
}

/* Say which core this process waits on, and see who else does. The core of who stands in for it is none of that: what
 * was said and seen last stays. */
static void shm_meet(struct transport_owner *owner)
{
	const struct shm *shm = shm_of(owner);
	uint32_t core = (uint32_t)(sched_getcpu() + 1);
	pid_t self = getpid(); /* a system call */
	bool met = false;

	for (uint32_t i = 0; i < shm->in_count; i++) {
		struct ring_in *ring = shm->in[i].ring;
		const struct segment *theirs = shm_link(ring->peer)->out.segment;

		if (load_relaxed(&ring->segment->core) != core)
			store_relaxed(&ring->segment->core, core);
		ring->peer->core_shared = theirs && core > 0 && theirs != ring->segment &&
					  load_relaxed(&theirs->core) == core &&
					  shm_link(ring->peer)->pid != self;
		met |= ring->peer->core_shared;
	}
	owner->core_shared = met;
}

static bool shm_is_awake(const struct shm_peer *link)
{
	return link->out.segment && load_relaxed(&link->out.segment->wake) == 0;
}

/* A process with several endpoints counts once, where it is known to be one. */
static bool shm_is_first(const struct shm *shm, uint32_t index)
{
	const struct shm_peer *self = shm_link(shm->in[index].ring->peer);
	pid_t pid = self->pid;

	for (uint32_t i = 0; i < index && pid > 0 && self->beside; i++) {
		const struct shm_peer *link = shm_link(shm->in[i].ring->peer);

		if (link->pid == pid && shm_is_awake(link))
			return false;
	}
	return true;
}

static uint32_t shm_awake(const struct transport_owner *owner, uint32_t most)
{
	const struct shm *shm = owner->state[TRANSPORT_SHM];
	uint32_t awake = 0;
	pid_t self = getpid();

	for (uint32_t i = 0; i < shm->in_count && awake < most; i++) {
		const struct shm_peer *link = shm_link(shm->in[i].ring->peer);

		awake += link->pid != self && shm_is_awake(link) && shm_is_first(shm, i);
	}
	return awake;
}

static void shm_maintain(struct transport_owner *owner, uint64_t now_ns)
{
	struct shm *shm = shm_of(owner);

	if (!owner->stood_in)
		shm_meet(owner);
	if (shm->connecting > 0)
		connect_retry(owner, now_ns);
	if (shm->greeting_count > 0)
		connect_expire(owner, now_ns);
	if (shm->ending > 0)
		shm_end_peers(owner, now_ns);
	if (shm->dead > 0)
		shm_reap(owner);
	if (!list_empty(&shm->active))
		bulk_maintain(owner, now_ns);
	for (uint32_t i = 0; i < shm->in_count; i++) {
		attach_review(shm_link(shm->in[i].ring->peer));
		shm_access_review(shm->in[i].ring->peer);
	}
}

/* ---- Sleeping ------------------------------------------------------------------------------------- */

static void shm_set_wake(struct shm *shm, uint32_t wake)
{
	for (uint32_t i = 0; i < shm->in_count; i++)
		store_relaxed(&shm->in[i].ring->segment->wake, wake);
}

/* Whether membarrier reaches all who may have to wake this process. It may be refused to some and not to others. */
static bool shm_is_fenced(const struct shm *shm)
{
	for (uint32_t i = 0; i < shm->in_count; i++)
		if (!shm->in[i].ring->fenced)
			return false;
	return true;
}

static uint64_t shm_arm(struct transport_owner *owner)
{
	struct shm *shm = shm_of(owner);
	uint64_t longest = UINT64_MAX;

	shm_set_wake(shm, 1);
	fence_full();
	/* Pairs with the compiler barrier in ring_attend: after this, each producer sees wake, or we its record. */
	if (!shm->membarrier || !shm_is_fenced(shm) || membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0)
		longest = UNFENCED_SLEEP_NS;
	if (shm->ending > 0 || shm->dead > 0)
		return 0;
	for (uint32_t i = 0; i < shm->in_count; i++)
		if (ring_ready(shm->in[i].ring))
			return 0;
	shm_access_hasten(shm);
	if (!list_empty(&shm->active) || owner->up->backlogged(owner) || shm->connecting > 0)
		longest = BUSY_SLEEP_NS;
	return longest;
}

static void shm_disarm(struct transport_owner *owner)
{
	shm_set_wake(shm_of(owner), 0);
}

const struct transport shm_transport = {
	.name = "shm",
	.option = "shm",
	.carried = COUNTER_SHM_MESSAGES,
	.weight = 1,
	.wanted = shm_wanted,
	.open = shm_open_endpoint,
	.withdraw = shm_withdraw,
	.close = shm_close_endpoint,
	.drained = shm_drained,
	.watched = shm_watched,
	.reaches = shm_reaches,
	.connect = connect_peer,
	.push = shm_push,
	.piece_max = shm_piece_max,
	.fits = ring_fits,
	.push_short = ring_push_short,
	.short_end = SHORT_END,
	.connected = shm_connected,
	.info = shm_info,
	.disconnect = shm_disconnect,
	.backpressure = choose_tell_all,
	.fetch = fetch_window,
	.layouts = true,
	.access = shm_access_begin,
	.region_end = shm_access_region_end,
	.progress = shm_progress,
	.maintain = shm_maintain,
	.awake = shm_awake,
	.notify_close = shm_notify_close,
	.arm = shm_arm,
	.disarm = shm_disarm,
};
