/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer: endpoint addresses. The first word of an address is the place of its peer, the second the session, so that the address
 * of a peer that has been replaced tells which one it meant.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include "library.h"
#include "nic.h"

static bool peers_reach(struct mx_endpoint *endpoint, uint32_t handle)
{
	uint32_t size = endpoint->peers_size ? endpoint->peers_size : 16;
	struct mxi_peer **peers;

	if (handle < endpoint->peers_size)
		return true;
	while (size <= handle)
		size *= 2;
	peers = realloc(endpoint->peers, size * sizeof(*peers));
	if (!peers)
		return false;
	memset(peers + endpoint->peers_size, 0, (size - endpoint->peers_size) * sizeof(*peers));
	endpoint->peers = peers;
	endpoint->peers_size = size;
	return true;
}

struct mxi_peer *mxi_peer_add(struct mx_endpoint *endpoint, uint32_t handle, uint64_t nic_id, uint32_t endpoint_id, uint32_t session)
{
	struct mxi_peer *peer;

	if (!peers_reach(endpoint, handle))
		return NULL;
	peer = endpoint->peers[handle];
	if (peer && !peer->disconnected && peer->nic_id == nic_id && peer->endpoint_id == endpoint_id) {
		if (session)
			peer->session = session;
		return peer;
	}
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return NULL;
	*peer = (struct mxi_peer){.endpoint = endpoint, .nic_id = nic_id, .endpoint_id = endpoint_id, .session = session,
				  .handle = handle};
	list_push_back(&endpoint->all_peers, &peer->node);
	endpoint->peers[handle] = peer;
	return peer;
}

/* Which of those that had this place it is. Only MXoE's frames say so. */
uint32_t mxi_peer_session(struct mx_endpoint *endpoint, uint32_t handle)
{
	struct thole_peer_info info;

	return thole_peer_info(endpoint->thole, handle, &info) == 0 ? info.session : 0;
}

/* A peer of MXoE says in its address who it is. */
static bool peer_parse(const struct thole_address *address, struct mxi_identity *identity_p)
{
	uint8_t mac[MXI_NIC_BYTES], number;

	if (thole_mxoe_parts(address, mac, &number) != 0)
		return false;
	*identity_p = (struct mxi_identity){.nic_id = mxi_nic_of_mac(mac), .endpoint_id = number};
	return true;
}

/* One that has spoken first. It has asked the directory for us before, which remembers who it is. */
struct mxi_peer *mxi_peer_meet(struct mx_endpoint *endpoint, uint32_t handle)
{
	struct mxi_identity identity = {0};
	struct thole_address address;

	if (thole_peer_address(endpoint->thole, handle, &address) == 0 &&
	    !mxi_directory_who(&endpoint->entry, &address, &identity) && peer_parse(&address, &identity))
		identity.session = mxi_peer_session(endpoint, handle);
	return mxi_peer_add(endpoint, handle, identity.nic_id, identity.endpoint_id, identity.session);
}

void mxi_peer_free_all(struct mx_endpoint *endpoint)
{
	struct list_node *node;

	while ((node = list_first(&endpoint->all_peers))) {
		list_unlink(node);
		free(container_of(node, struct mxi_peer, node));
	}
	free(endpoint->peers);
}

/* ---- The interface --------------------------------------------------------------------------------------------- */

mx_return_t mx_get_endpoint_addr(mx_endpoint_t endpoint, mx_endpoint_addr_t *endpoint_addr)
{
	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "mx_get_endpoint_addr without an endpoint");
	*endpoint_addr = mxi_peer_address(endpoint->self);
	return MX_SUCCESS;
}

mx_return_t mx_decompose_endpoint_addr2(mx_endpoint_addr_t endpoint_addr, uint64_t *nic_id, uint32_t *endpoint_id,
					uint32_t *session_id)
{
	const struct mxi_peer *peer = mxi_peer_at(endpoint_addr);

	if (!peer)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "an endpoint address that nobody has filled in");
	if (nic_id)
		*nic_id = peer->nic_id;
	if (endpoint_id)
		*endpoint_id = peer->endpoint_id;
	if (session_id)
		*session_id = (uint32_t)endpoint_addr.stuff[1];
	return MX_SUCCESS;
}

mx_return_t mx_decompose_endpoint_addr(mx_endpoint_addr_t endpoint_addr, uint64_t *nic_id, uint32_t *endpoint_id)
{
	return mx_decompose_endpoint_addr2(endpoint_addr, nic_id, endpoint_id, NULL);
}

mx_return_t mx_set_endpoint_addr_context(mx_endpoint_addr_t endpoint_addr, void *context)
{
	struct mxi_peer *peer = mxi_peer_at(endpoint_addr);

	if (!peer)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "an endpoint address that nobody has filled in");
	peer->context = context;
	return MX_SUCCESS;
}

mx_return_t mx_get_endpoint_addr_context(mx_endpoint_addr_t endpoint_addr, void **context)
{
	const struct mxi_peer *peer = mxi_peer_at(endpoint_addr);

	if (!peer)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "an endpoint address that nobody has filled in");
	*context = peer->context;
	return MX_SUCCESS;
}
