/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bulk: "fetch this window of that peer into this memory", four ways.
 *
 *   ring         The receiver asks for the window, the sender pushes it through the ring piece by piece, and both
 *                copies overlap. Needs the sender's processor, no right. The receiver takes over by one-copy if the
 *                sender does not come to it and the kernel permits.
 *   one-copy     The receiver reads the sender's memory (MPICH-PM/CLUMP, section 4).
 *   cooperative  One-copy by both: blocks are claimed from the front by the receiver, which reads, and from the back
 *                by the sender, which writes, if it comes by. A sender that does not costs nothing.
 *   direct       The same, where the receiver has the sender's memory mapped (attach.c): it copies without the kernel.
 *                The sender does so too, this way or cooperative, where it has the receiver's.
 *
 * Where the kernel refuses in the middle, what is left goes through the ring: it is always one range, since
 * both ends work towards each other. Which way is taken: choose.c.
 *
 * A fetch is the receiver's (fetch.c); a serve is the sender's share of it (serve.c). Both are looked up by ids that
 * are checked. This file owns whose turn it is, to whom records go, and how both end with their peer. A peer is in
 * shm->active while it has a fetch or a serve, or accesses to it are begun (access.c), which have their turn here, too.
 */
#include <time.h>

#include "base/clock.h"
#include "transport/shm/bulk.h"

enum {
	LEAVE_NS = 20000, /* between two checks, while closing, whether senders are out */
};

int bulk_open(struct transport_owner *owner)
{
	struct shm *shm = shm_of(owner);

	list_init(&shm->active);
	fetch_pool_open(shm);
	serve_pool_open(shm);
	return 0;
}

void bulk_close(struct transport_owner *owner)
{
	fetch_pool_close(shm_of(owner));
	serve_pool_close(shm_of(owner));
}

void bulk_lost(struct transport_peer *peer)
{
	serve_lost(peer);
	fetch_lost(peer);
}

/* Tell the sender of each to be out; whether all are. */
static bool bulk_is_left(struct shm *shm, uint64_t now_ns)
{
	bool left = true;

	for (struct list_node *node = list_first(&shm->active); node; node = list_next(&shm->active, node))
		left &= fetch_withdraw(container_of(node, struct shm_peer, active)->peer, now_ns);
	return left;
}

void bulk_withdraw(struct transport_owner *owner)
{
	while (!bulk_is_left(shm_of(owner), clock_now_ns()))
		clock_sleep(LEAVE_NS);
}

void bulk_arrived(struct transport_peer *peer, const struct record *record, const void *payload, uint32_t length)
{
	if (peer->gone)
		return;
	if (record->kind == RECORD_BULK_DATA)
		fetch_data(peer, record, payload, length);
	else if (record->kind == RECORD_BULK_PULL)
		serve_pull(peer, record);
	else if (record->kind == RECORD_BULK_OFFER)
		serve_offer(peer, record);
	else if (record->kind < RECORD_BULK || record->kind == RECORD_REGION || record->kind == RECORD_REGION_IS)
		shm_access_arrived(peer, record, payload, length);
	else
		transport_bad(peer);
}

int bulk_progress(struct transport_owner *owner)
{
	struct shm *shm = shm_of(owner);
	struct list_node *node = list_first(&shm->active), *next;
	int n = 0;

	for (; node; node = next) {
		struct transport_peer *peer = container_of(node, struct shm_peer, active)->peer;

		next = list_next(&shm->active, node);
		n += fetch_progress(peer);
		if (!peer->gone)
			n += serve_progress(peer);
	}
	return n + shm_access_progress(owner);
}

void bulk_maintain(struct transport_owner *owner, uint64_t now_ns)
{
	struct shm *shm = shm_of(owner);

	for (struct list_node *node = list_first(&shm->active); node; node = list_next(&shm->active, node))
		fetch_take_over(container_of(node, struct shm_peer, active)->peer, now_ns);
}
