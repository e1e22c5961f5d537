/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_peer - peers as one endpoint knows them; endpoint addresses of MX are these.
 *
 * Owns them until the endpoint closes, since programs keep addresses. The first word of an address
 * is the place of its peer, the second the session, so that the address of a peer that has been
 * replaced tells which one it meant. Under the endpoint's lock.
 */
#ifndef MX_PEER_H
#define MX_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "mx_entry.h"
#include "myriexpress.h"
#include "thole.h"

/* Those of one endpoint. All but thole and entry is zero at first, `all` an empty list. */
struct mxi_peers {
	struct thole_endpoint *thole; /* the endpoint that they are peers of */
	struct mxi_entry *entry;      /* its own in the directory, which remembers who has asked for it */
	struct mxi_peer **by_handle;  /* by Thole's handle; NULL: not met yet */
	uint32_t size;                /* entries of it */
	struct list_node all;         /* of struct mxi_peer; what is here it owns */
};

struct mxi_peer {
	struct list_node node;         /* of mxi_peers.all */
	const struct mxi_peers *table; /* whose peer it is */
	uint64_t nic_id;               /* with endpoint_id: where it is; 0: not known */
	uint32_t endpoint_id;
	uint32_t session;  /* tells it from others that had the same place; 0: not known yet */
	uint32_t handle;   /* Thole's */
	bool disconnected; /* its address is no longer valid */
	bool connected;    /* MXoE: it has accepted the key */
	uint32_t key;      /* MXoE: that was offered to it last */
	void *context;     /* the program's */
};

static inline mx_endpoint_addr_t mxi_peer_address(const struct mxi_peer *peer)
{
	return peer ? (mx_endpoint_addr_t){{(uintptr_t)peer, peer->session}} : (mx_endpoint_addr_t){{0, 0}};
}

static inline struct mxi_peer *mxi_peer_at(mx_endpoint_addr_t address)
{
	return (struct mxi_peer *)(uintptr_t)address.stuff[0];
}

/* The peer of an address; NULL: it is none of this endpoint's, or was disconnected. */
static inline struct mxi_peer *mxi_peer_of(const struct mxi_peers *peers, mx_endpoint_addr_t address)
{
	struct mxi_peer *peer = mxi_peer_at(address);

	return peer && peer->table == peers && !peer->disconnected ? peer : NULL;
}

/* The out of line part of mxi_peer_by_handle. */
struct mxi_peer *mxi_peer_meet(struct mxi_peers *peers, uint32_t handle);
/* The peer behind a handle of Thole's: one that we know, or one that has spoken first. NULL: no
 * memory. */
static inline struct mxi_peer *mxi_peer_by_handle(struct mxi_peers *peers, uint32_t handle)
{
	struct mxi_peer *peer = handle < peers->size ? peers->by_handle[handle] : NULL;

	return __builtin_expect(peer && !peer->disconnected, 1) ? peer : mxi_peer_meet(peers, handle);
}

/* A peer that we connect to; session 0: not known yet. What was at this handle before is forgotten
 * if it was another one. NULL: no memory. */
struct mxi_peer *mxi_peer_add(struct mxi_peers *peers, uint32_t handle, uint64_t nic_id, uint32_t endpoint_id,
			      uint32_t session);
/* Which of those that had this place it is; 0: not known. Only MXoE's frames say so. */
uint32_t mxi_peer_session(const struct mxi_peers *peers, uint32_t handle);
/* Thole has given it up, and nothing reaches it any more. */
bool mxi_peer_is_gone(const struct mxi_peers *peers, uint32_t handle);
void mxi_peer_free_all(struct mxi_peers *peers);

#endif /* MX_PEER_H */
