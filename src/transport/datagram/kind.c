/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kind: how the ends of links are named, and what of them a handshake tells peers: a row of functions for each kind.
 * Links of one kind are reached alike, so of each kind an endpoint tells one. Pure, so that the simulator's links are
 * of the same kinds.
 */
#include <string.h>

#include "base/endian.h"
#include "transport/address.h"
#include "transport/datagram/link.h"
#include "transport/datagram/wire/packet.h"

/* ---- By an IP address and a port, which the endpoint's address has -------------------------------------------- */

static bool ip_path(const struct link *link, const struct address_parts *parts, const struct packet_connect *connect,
		    struct path *path_p)
{
	const uint8_t *network = parts->network;

	(void)link;
	(void)connect;
	*path_p = (struct path){0};
	if (network[0] == ADDRESS_IPV4) {
		path_p->bytes[10] = path_p->bytes[11] = 0xff;
		memcpy(path_p->bytes + 12, network + 4, 4);
	} else if (network[0] == ADDRESS_IPV6) {
		memcpy(path_p->bytes, network + 4, 16);
	} else {
		return false;
	}
	memcpy(path_p->bytes + 16, network + 2, 2);
	return true;
}

/* The port of DATA alone, which is no link's but that by which the packet goes. */
static void ip_tell(const struct link *link, struct packet_connect *connect)
{
	(void)link;
	(void)connect;
}

const struct link_kind kind_ip = {.path = ip_path, .tell = ip_tell};

/* ---- By the MAC of an interface, and the lower half of an endpoint's id ------------------------------------------ */

/* Addresses have MACs too, but who listens there to which EtherType is told by handshakes alone. An interface does not
 * hear what it sends itself: its own MAC is no way to anybody. */
static bool ethernet_path(const struct link *link, const struct address_parts *parts,
			  const struct packet_connect *connect, struct path *path_p)
{
	const uint8_t *network = parts->network, *mac = connect ? connect->mac : network + 8;
	bool numbered = network[0] == ADDRESS_MXOE;

	*path_p = (struct path){0};
	if (connect ? connect->ethertype != link->ethertype : network[0] == ADDRESS_IPV6 || network[0] == ADDRESS_NONE)
		return false;
	if (memcmp(mac, link->own.bytes, sizeof(connect->mac)) == 0)
		return false;
	memcpy(path_p->bytes, mac, sizeof(connect->mac));
	store_be32(path_p->bytes + sizeof(connect->mac), numbered ? 0 : (uint32_t)parts->endpoint);
	return true;
}

static void ethernet_tell(const struct link *link, struct packet_connect *connect)
{
	connect->ethertype = link->ethertype;
	memcpy(connect->mac, link->own.bytes, sizeof(connect->mac));
}

const struct link_kind kind_ethernet = {.path = ethernet_path, .tell = ethernet_tell};
