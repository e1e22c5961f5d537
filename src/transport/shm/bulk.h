/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bulk: what the two sides of a transfer share, the claims on an offer's blocks among it; and what each side has for
 * bulk.c. Nothing of this is for other files.
 */
#ifndef THOLE_TRANSPORT_SHM_BULK_H
#define THOLE_TRANSPORT_SHM_BULK_H

#include "transport/shm/shm.h"

enum { FETCHES_MAX = 1 << 20 }; /* fetches, and serves, of an endpoint */

/* Beside the length of pieces in a pull: the kernel could not copy from there, so the sender looks first whether there
 * is any memory. */
#define PULL_OF_DOUBT (UINT64_C(1) << 63)

/* An offer's claim: 20 bits each of blocks from the front and from the back, under a sequence number against
 * claims for the offer's former use. */
enum { CLAIM_BITS = 20, CLAIM_MAX = (1 << CLAIM_BITS) - 1 };

struct claim {
	uint32_t front, back, sequence;
};

static inline struct claim claim_unpack(uint64_t word)
{
	return (struct claim){word & CLAIM_MAX, word >> CLAIM_BITS & CLAIM_MAX, (uint32_t)(word >> 2 * CLAIM_BITS)};
}

static inline uint64_t claim_pack(struct claim claim)
{
	return claim.front | (uint64_t)claim.back << CLAIM_BITS | (uint64_t)claim.sequence << 2 * CLAIM_BITS;
}

/* The peer has bulk work, or accesses, */
static inline void bulk_activate(struct shm *shm, struct shm_peer *link)
{
	if (link->active.next == &link->active)
		list_push_back(&shm->active, &link->active);
	transport_rouse(shm->owner, 0);
}

/* or perhaps none any more. */
static inline void bulk_settle(struct shm_peer *link)
{
	if (!shm_fetches(link) && list_empty(&link->serves) && link->accesses == 0)
		list_remove(&link->active);
}

/* fetch.c */
void fetch_pool_open(struct shm *shm);
void fetch_pool_close(struct shm *shm);
/* A piece that the peer has pushed. */
void fetch_data(struct transport_peer *peer, const struct record *record, const void *payload, uint32_t length);
/* Go on with what is fetched from the peer, who may be gone. Returns how much was done. */
int fetch_progress(struct transport_peer *peer);
/* Read the memory of a sender that does not come to pushing. */
void fetch_take_over(struct transport_peer *peer, uint64_t now_ns);
/* The peer is gone: what is fetched from it ends, now or as soon as it is out of that memory. */
void fetch_lost(struct transport_peer *peer);
/* Have the peer leave the memory that is fetched into, for good; whether it is out. */
bool fetch_withdraw(struct transport_peer *peer, uint64_t now_ns);

/* serve.c */
void serve_pool_open(struct shm *shm);
void serve_pool_close(struct shm *shm);
/* The peer asks for pieces of a window; or offers blocks of its fetch to be copied. */
void serve_pull(struct transport_peer *peer, const struct record *record);
void serve_offer(struct transport_peer *peer, const struct record *record);
/* Push, or copy a block, for the oldest one. Returns how much was done. */
int serve_progress(struct transport_peer *peer);
void serve_lost(struct transport_peer *peer);

#endif
