/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer: handles for addresses, the backlog of what could not be handed to the transport at once, and the end of a
 * peer. The backlog keeps the order of operations: while it holds anything, everything new goes behind it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "message/internal.h"
#include "message/message.h"

/* ---- The choice of a transport ------------------------------------------------------------------ */

enum { LAST = TRANSPORTS - 1 }; /* the least preferred transport reaches most: what is in its way is the reason */

/* What addresses of such a kind name an endpoint by; an address may be of a later version's kind. */
static const char *nowhere_kind(uint8_t kind)
{
	static const char *const names[] = {"nothing", "IPv4", "IPv6", "MXoE", "Ethernet alone"};

	return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "what is not known here";
}

/* Two endpoints with networks of two kinds: what makes them one. */
static const char *nowhere_remedy(uint8_t here, uint8_t there)
{
	if (here == ADDRESS_MXOE || there == ADDRESS_MXOE)
		return "the same option codec";
	if (here == ADDRESS_ETHERNET || there == ADDRESS_ETHERNET)
		return "the same option link, and an interface with an IP address unless that is raw";
	return "an option interface that names an address of one kind";
}

/* ADDRESS, with what is in the way. */
static int nowhere_error(const struct transport_peer *peer)
{
	const struct thole_endpoint *endpoint = peer_of(peer)->endpoint;
	uint8_t here = endpoint->base.parts.network[0], there = peer->parts.network[0];

	if (!endpoint->base.state[LAST])
		return error_set(THOLE_ERR_ADDRESS,
				 "%s is of another host or network namespace, or without shared memory "
				 "(option shm), and there is no network here: %s",
				 peer->address.text, endpoint->absent[LAST]);
	if (there == ADDRESS_NONE)
		return error_set(THOLE_ERR_ADDRESS,
				 "%s is of another host or network namespace and has no network address: open both "
				 "endpoints with the option network=on",
				 peer->address.text);
	return error_set(THOLE_ERR_ADDRESS,
			 "%s is of another host or network namespace and named by %s, this endpoint by %s: give both "
			 "%s",
			 peer->address.text, nowhere_kind(there), nowhere_kind(here), nowhere_remedy(here, there));
}

static int nowhere_connect(struct transport_peer *peer)
{
	return nowhere_error(peer);
}

static int nowhere_push(struct transport_peer *peer, const struct record *record, const struct vector *payload,
			uint64_t offset, uint32_t length)
{
	(void)peer, (void)record, (void)payload, (void)offset, (void)length;
	return THOLE_ERR_AGAIN;
}

static uint32_t nowhere_piece_max(struct transport_peer *peer, uint64_t left)
{
	(void)peer, (void)left;
	return UINT32_MAX;
}

static void nowhere_disconnect(struct transport_peer *peer)
{
	(void)peer;
}

/* Of peers that no transport reaches: connecting fails, and nothing else happens. */
static const struct transport nowhere_transport = {
	.name = "none",
	.carried = COUNTER_NETWORK_MESSAGES, /* nothing is */
	.connect = nowhere_connect,
	.push = nowhere_push,
	.piece_max = nowhere_piece_max,
	.disconnect = nowhere_disconnect,
};

static const struct transport *peer_transport(const struct thole_endpoint *endpoint, const struct address_parts *parts)
{
	const struct transport_owner *owner = &endpoint->base;

	for (int i = transport_next(owner, -1); i < TRANSPORTS; i = transport_next(owner, i))
		if (transports[i]->reaches(owner, parts))
			return transports[i];
	return &nowhere_transport;
}

/* ---- Handles ------------------------------------------------------------------------------------ */

static int peer_no_memory(const struct thole_endpoint *endpoint)
{
	return error_set(THOLE_ERR_MEMORY, "no memory for another peer beside %u", endpoint->peer_count);
}

static int peer_new(struct thole_endpoint *endpoint, const struct thole_address *address,
		    const struct address_parts *parts, struct peer **peer_p)
{
	struct peer *peer, **peers;

	if (!hash_table_reserve(&endpoint->peers_by_id))
		return peer_no_memory(endpoint);
	peers = array_reserve(endpoint->peers, &endpoint->peer_capacity, endpoint->peer_count + 1, sizeof(*peers));
	if (!peers)
		return peer_no_memory(endpoint);
	endpoint->peers = peers;
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return peer_no_memory(endpoint);
	peer->endpoint = endpoint;
	peer->base.owner = &endpoint->base;
	peer->base.transport = peer_transport(endpoint, parts);
	peer->base.carried = peer->base.transport->carried;
	peer->limits = (struct transport_limits){.length_max = THOLE_LENGTH_MAX};
	if (peer->base.transport->limits)
		peer->base.transport->limits(&peer->base, &peer->limits);
	peer->base.index = endpoint->peer_count;
	list_init(&peer->backlog);
	list_init(&peer->pending);
	list_init(&peer->parts);
	peer->base.address = *address;
	peer->base.parts = *parts;
	hash_table_add(&endpoint->peers_by_id, &peer->by_id, parts->endpoint);
	endpoint->peers[endpoint->peer_count++] = peer;
	*peer_p = peer;
	return 0;
}

int peer_by_address(struct thole_endpoint *endpoint, const struct thole_address *address, struct peer **peer_p)
{
	struct thole_address written;
	struct address_parts parts;
	struct hash_node *node;
	int error = address_parse(address, &parts);

	if (error)
		return error;
	address_format(&parts, &written); /* however the caller writes it */
	node = hash_table_find(&endpoint->peers_by_id, parts.endpoint);
	for (; node; node = hash_node_next(node)) {
		struct peer *peer = container_of(node, struct peer, by_id);

		if (memcmp(&peer->base.address, &written, sizeof(written)) != 0)
			continue;
		/* Who is gone does not come back, but where addresses are no more than a place, somebody else may be
		 * there. */
		if (!(peer->base.gone && parts.network[0] == ADDRESS_MXOE)) {
			*peer_p = peer;
			return 0;
		}
		hash_table_remove(&endpoint->peers_by_id, node);
		break;
	}
	return peer_new(endpoint, &written, &parts, peer_p);
}

int thole_peer(struct thole_endpoint *endpoint, const struct thole_address *address, uint32_t *peer_p)
{
	struct peer *peer;
	int error;

	endpoint_lock(endpoint);
	error = peer_by_address(endpoint, address, &peer);
	if (!error)
		*peer_p = peer->base.index;
	endpoint_unlock(endpoint);
	return error;
}

int thole_peer_address(struct thole_endpoint *endpoint, uint32_t index, struct thole_address *address_p)
{
	struct peer *peer;

	endpoint_lock(endpoint);
	peer = endpoint_peer(endpoint, index);
	if (peer)
		*address_p = peer->base.address;
	endpoint_unlock(endpoint);
	return peer ? 0 : error_set(THOLE_ERR_NOT_FOUND, "there is no peer %u", index);
}

static bool peer_is_own(const struct peer *peer)
{
	return memcmp(&peer->base.address, &peer->endpoint->base.address, sizeof(peer->base.address)) == 0;
}

static const char *peer_reason(const struct peer *peer)
{
	if (!peer->base.gone)
		return "";
	if (peer->base.gone_status == THOLE_ERR_CLOSED)
		return "closed";
	if (peer->base.gone_status == THOLE_ERR_PEER)
		return peer->base.silent ? "silent" : "ended";
	return peer->base.gone_status == THOLE_ERR_ACCESS ? "refused" : "failed";
}

static void peer_info_own(const struct thole_endpoint *endpoint, struct thole_peer_info *info_p)
{
	const struct transport_owner *owner = &endpoint->base;

	for (int i = transport_next(owner, -1); i < TRANSPORTS; i = transport_next(owner, i))
		if (transports[i]->info_own)
			transports[i]->info_own(owner, info_p);
}

int thole_peer_info(struct thole_endpoint *endpoint, uint32_t index, struct thole_peer_info *info_p)
{
	struct peer *peer;

	endpoint_lock(endpoint);
	peer = endpoint_peer(endpoint, index);
	if (peer) {
		*info_p = (struct thole_peer_info){
			.transport = peer->base.transport->name,
			.records = "",
			.bulk = "",
			.state = peer->base.gone ? "gone" : peer->base.connected ? "connected" : "new",
			.reason = peer_reason(peer),
		};
		if (peer->base.transport->info && !peer->base.gone)
			peer->base.transport->info(&peer->base, info_p);
		if (peer_is_own(peer))
			peer_info_own(endpoint, info_p);
	}
	endpoint_unlock(endpoint);
	return peer ? 0 : error_set(THOLE_ERR_NOT_FOUND, "there is no peer %u", index);
}

/* ---- The backlog, and the end ------------------------------------------------------------------- */

/* The list that a peer with a backlog belongs to. */
static struct list_node *peer_backlogged(struct peer *peer)
{
	return peer->base.stalled ? &peer->endpoint->stalled : &peer->endpoint->backlogged;
}

void peer_backlog(struct thole_request *request)
{
	struct peer *peer = request->peer;

	endpoint_count(peer->endpoint, COUNTER_BACKLOGGED);
	request->state = REQUEST_BACKLOG;
	if (peer->backlog_count++ == 0)
		list_push_back(peer_backlogged(peer), &peer->backlogged_node);
	list_push_back(&peer->backlog, &request->node);
	transport_rouse(&peer->endpoint->base, 0);
}

void peer_backlog_remove(struct thole_request *request)
{
	struct peer *peer = request->peer;

	list_remove(&request->node);
	if (--peer->backlog_count == 0)
		list_remove(&peer->backlogged_node);
}

/* Push one peer's backlog until the transport takes no more. Returns how many requests have left it. */
static int peer_push(struct peer *peer)
{
	int left = 0;

	while (peer->backlog_count && peer->base.connected && !peer->base.gone) {
		struct thole_request *request = container_of(list_first(&peer->backlog), struct thole_request, node);

		if (message_emit(request) != 0)
			break;
		peer_backlog_remove(request);
		message_emitted(request);
		left++;
	}
	if (peer->backlog_count && peer->base.stalled) {
		list_remove(&peer->backlogged_node);
		list_push_back(peer_backlogged(peer), &peer->backlogged_node);
	}
	return left;
}

void peer_ready(struct peer *peer)
{
	peer->base.stalled = false;
	if (!peer->backlog_count)
		return;
	list_remove(&peer->backlogged_node);
	list_push_back(peer_backlogged(peer), &peer->backlogged_node);
}

int peer_backlog_push(struct thole_endpoint *endpoint)
{
	struct list_node *end = &endpoint->backlogged;
	int left = 0;

	for (struct list_node *node = end->next, *next; node != end; node = next) {
		next = node->next;
		left += peer_push(container_of(node, struct peer, backlogged_node));
	}
	return left;
}

/* Nobody here has asked for what answers the peer. */
static bool peer_is_answered(const struct thole_request *request)
{
	return request->operation == 0 || (request->operation >= THOLE_OP_REMOTE_PUT &&
					   request->operation <= THOLE_OP_REMOTE_ATOMIC);
}

static void peer_fail_list(struct list_node *list, int status)
{
	while (!list_empty(list)) {
		struct thole_request *request = container_of(list_first(list), struct thole_request, node);

		if (request->state == REQUEST_BACKLOG) {
			peer_backlog_remove(request);
		} else {
			list_remove(&request->node);
		}
		if (peer_is_answered(request))
			request_free(request);
		else
			request_complete(request, status);
	}
}

void peer_connected(struct peer *peer, int status)
{
	for (struct list_node *node = list_first(&peer->pending), *next; node; node = next) {
		struct thole_request *request = container_of(node, struct thole_request, node);

		next = list_next(&peer->pending, node);
		if (request->state != REQUEST_CONNECTING)
			continue;
		list_remove(node);
		request_complete(request, status);
	}
}

void peer_fail_receive(struct peer *peer, struct thole_request *request)
{
	request->peer = peer;
	request_give_up(request, peer->base.gone_status);
}

void peer_fail_receives(struct peer *peer)
{
	struct thole_endpoint *endpoint = peer->endpoint;

	for (int queue = 0; queue < MATCH_QUEUES; queue++) {
		struct match_receive *receive = match_receive_next(&endpoint->match[queue], NULL);

		while (receive) {
			struct match_receive *next = match_receive_next(&endpoint->match[queue], receive);

			if (receive->source == peer->base.index)
				peer_fail_receive(peer, container_of(receive, struct thole_request, match));
			receive = next;
		}
	}
}

/* Of a local peer's address with mxoe, which is no more than a place, it may yet come there. */
static bool peer_is_unwatched(struct peer *peer)
{
	const struct transport *transport = peer->base.transport;

	return !peer->base.connected && !peer->base.gone && !transport_is_own(&peer->base) &&
	       !(transport->watched && transport->watched(&peer->base)) &&
	       !(attach_is_near(peer) && peer->base.parts.network[0] == ADDRESS_MXOE);
}

/* Connecting may end peers, and with them the receives that name them: so who is awaited is gathered first. */
struct gathered {
	uint32_t *peers;
	uint32_t count, capacity;
	bool left; /* there was no memory for more */
};

static void gather_awaited(void *arg, struct transport_peer *peer)
{
	struct gathered *gathered = arg;
	uint32_t *peers;

	if (!peer_is_unwatched(peer_of(peer)) || gathered->left)
		return;
	peers = array_reserve(gathered->peers, &gathered->capacity, gathered->count + 1, sizeof(*peers));
	if (!peers) {
		gathered->left = true;
		return;
	}
	gathered->peers = peers;
	peers[gathered->count++] = peer->index;
}

bool peer_reach_awaited(struct thole_endpoint *endpoint)
{
	struct gathered gathered = {0};

	message_upcalls.awaited(&endpoint->base, gather_awaited, &gathered);
	for (uint32_t i = 0; i < gathered.count; i++) {
		struct peer *peer = endpoint->peers[gathered.peers[i]];
		int error = peer->base.gone ? 0 : message_reach(peer);

		if (error == THOLE_ERR_MEMORY || error == THOLE_ERR_SYSTEM)
			gathered.left = true;
		else if (error)
			peer_lost(peer, error);
	}
	free(gathered.peers);
	return gathered.left;
}

/* PEER, with what may be in the way to one that has never answered. */
static int peer_unheard(const struct peer *peer)
{
	const char *way = "nothing gets there and back: the option interface may name another way";
	char place[ADDRESS_PLACE_MAX];

	address_place(&peer->base.parts, place);
	if (address_is_inside(&peer->base.parts))
		way = "its host has no network but the loopback, which no other host reaches";
	else if (*place)
		way = "a firewall keeps UDP or TCP from passing, or the option interface has to name another way";
	return error_set(THOLE_ERR_PEER, "peer %u (%s) has never answered%s%s: it has ended, or %s", peer->base.index,
			 peer->base.address.text, *place ? " at " : "", place, way);
}

int peer_gone(const struct peer *peer)
{
	if (peer->base.transport == &nowhere_transport)
		return nowhere_error(&peer->base);
	if (peer->base.unheard)
		return peer_unheard(peer);
	if (peer->base.gone_status == THOLE_ERR_PROTOCOL)
		return error_set(THOLE_ERR_PROTOCOL,
				 "peer %u (%s) has another version of Thole: all processes of a host, and all hosts of "
				 "a job, need the same",
				 peer->base.index, peer->base.address.text);
	if (peer->base.gone_status == THOLE_ERR_ADDRESS)
		return error_set(THOLE_ERR_ADDRESS,
				 "peer %u (%s) is gone: what is sent there does not come from this side's address; the "
				 "option interface names the one that leads there",
				 peer->base.index, peer->base.address.text);
	if (peer->base.gone_status == THOLE_ERR_UNSUPPORTED)
		return error_set(THOLE_ERR_UNSUPPORTED,
				 "peer %u (%s) is gone: one side has not what the other one asks for, as its codec or "
				 "its integrity",
				 peer->base.index, peer->base.address.text);
	if (peer->base.gone_status != THOLE_ERR_ACCESS)
		return error_set(peer->base.gone_status, "peer %u (%s) is gone", peer->base.index,
				 peer->base.address.text);
	if (peer->base.parts.network[0] == ADDRESS_MXOE)
		return error_set(THOLE_ERR_ACCESS,
				 "peer %u (%s) wants to hear another key, which thole_connect tells it",
				 peer->base.index, peer->base.address.text);
	return error_set(
		THOLE_ERR_ACCESS,
		"peer %u (%s) has another job key, or none: start both sides by one thole run, or give "
		"both the same option job_key, as by copying one host's ~/.config/thole/job_key to the other (thole "
		"info options says where each has its own from)",
		peer->base.index, peer->base.address.text);
}

int peer_gone_empty(const struct peer *peer)
{
	int status = peer->base.gone_status;

	if (status == THOLE_ERR_ACCESS || status == THOLE_ERR_ADDRESS || status == THOLE_ERR_PROTOCOL ||
	    status == THOLE_ERR_UNSUPPORTED || peer->base.unheard) /* there is a remedy */
		return peer_gone(peer);
	return error_set(status == THOLE_ERR_CLOSED ? THOLE_ERR_CLOSED : THOLE_ERR_PEER,
			 "peer %u (%s) is gone and nothing of it is left", peer->base.index, peer->base.address.text);
}

void peer_lost(struct peer *peer, int status)
{
	struct thole_endpoint *endpoint = peer->endpoint;

	if (peer->base.gone)
		return;
	if (status == THOLE_ERR_PEER && endpoint->base.died)
		endpoint->base.died(&endpoint->base);
	peer->base.gone = true;
	peer->base.gone_status = status;
	if (status == THOLE_ERR_ACCESS || peer->base.unheard) {
		peer_gone(peer); /* whoever gets to know of it now can say why */
		transport_trouble(&endpoint->base);
	}
	endpoint_count(endpoint, COUNTER_PEERS_GONE);
	peer->base.transport->disconnect(&peer->base);
	message_stream_lost(peer, status);
	peer_fail_list(&peer->backlog, status);
	peer_fail_list(&peer->pending, status);
	if (!peer->screened) /* else after the last of its messages that are screened: they may be for these */
		peer_fail_receives(peer);
}
