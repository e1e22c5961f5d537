/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_peer.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "mx_directory.h"
#include "mx_error.h"
#include "mx_extensions.h"
#include "mx_nic.h"

static bool mxi_peer_peers_reach(struct mxi_peers *peers, uint32_t handle)
{
	uint32_t old = peers->size;
	struct mxi_peer **by_handle = array_reserve(peers->by_handle, &peers->size, handle + 1, sizeof(*by_handle));

	if (!by_handle)
		return false;
	memset(by_handle + old, 0, (peers->size - old) * sizeof(*by_handle));
	peers->by_handle = by_handle;
	return true;
}

struct mxi_peer *mxi_peer_add(struct mxi_peers *peers, uint32_t handle, uint64_t nic_id, uint32_t endpoint_id,
			      uint32_t session)
{
	struct mxi_peer *peer;

	if (!mxi_peer_peers_reach(peers, handle))
		return NULL;
	peer = peers->by_handle[handle];
	if (peer && !peer->disconnected && peer->nic_id == nic_id && peer->endpoint_id == endpoint_id) {
		if (session)
			peer->session = session;
		return peer;
	}
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return NULL;
	*peer = (struct mxi_peer){
		.table = peers, .nic_id = nic_id, .endpoint_id = endpoint_id, .session = session, .handle = handle};
	list_push_back(&peers->all, &peer->node);
	peers->by_handle[handle] = peer;
	return peer;
}

uint32_t mxi_peer_session(const struct mxi_peers *peers, uint32_t handle)
{
	struct thole_peer_info info;

	return thole_peer_info(peers->thole, handle, &info) == 0 ? info.session : 0;
}

bool mxi_peer_is_gone(const struct mxi_peers *peers, uint32_t handle)
{
	struct thole_peer_info info;

	return thole_peer_info(peers->thole, handle, &info) == 0 && strcmp(info.state, "gone") == 0;
}

/* A peer of MXoE says in its address who it is. */
static bool mxi_peer_parse(const struct thole_address *address, struct mxi_identity *identity_p)
{
	uint8_t mac[MXI_NIC_BYTES], number;

	if (thole_mxoe_parts(address, mac, &number) != 0)
		return false;
	*identity_p = (struct mxi_identity){.nic_id = mxi_nic_of_mac(mac), .endpoint_id = number};
	return true;
}

/* One that has spoken first. It has asked the directory for us before, which remembers who it
 * is. */
struct mxi_peer *mxi_peer_meet(struct mxi_peers *peers, uint32_t handle)
{
	struct mxi_identity identity = {0};
	struct thole_address address;

	if (thole_peer_address(peers->thole, handle, &address) == 0 &&
	    !mxi_directory_who(peers->entry, &address, &identity) && mxi_peer_parse(&address, &identity))
		identity.session = mxi_peer_session(peers, handle);
	return mxi_peer_add(peers, handle, identity.nic_id, identity.endpoint_id, identity.session);
}

void mxi_peer_free_all(struct mxi_peers *peers)
{
	struct list_node *node;

	while ((node = list_first(&peers->all))) {
		list_unlink(node);
		free(container_of(node, struct mxi_peer, node));
	}
	free(peers->by_handle);
}

/* ---- The interface --------------------------------------------------------------------------- */

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
