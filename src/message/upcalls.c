/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * upcalls: what transports call. The answers to their questions are here; what comes is handed on to the file that owns
 * it, and records go straight to message.c.
 */
#include "message/internal.h"
#include "message/message.h"

static bool up_own(struct transport_access *access)
{
	return remote_own(container_of(access, struct thole_request, access)) == 0;
}

static void up_accessed(struct transport_access *access, int status)
{
	remote_accessed(container_of(access, struct thole_request, access), status);
}

static void up_connected(struct transport_peer *peer, int status)
{
	peer_connected(peer_of(peer), status);
}

static void up_lost(struct transport_peer *peer, int status)
{
	peer_lost(peer_of(peer), status);
}

static void up_room(struct transport_peer *peer)
{
	peer_ready(peer_of(peer));
}

static int up_peer(struct transport_owner *owner, const struct thole_address *address, struct transport_peer **peer_p)
{
	struct peer *peer;
	int error = peer_by_address(endpoint_of_owner(owner), address, &peer);

	if (!error)
		*peer_p = &peer->base;
	return error;
}

static int up_reach(struct transport_peer *peer)
{
	return message_reach(peer_of(peer));
}

static int up_answer(struct transport_peer *peer)
{
	message_reach_back(peer_of(peer));
	return peer->gone ? peer->gone_status : 0;
}

static void up_control(struct transport_peer *peer, const struct record *record)
{
	message_control(peer_of(peer), record);
}

/* The request whose memory a peer may read, as the owner of a window that it was told of by this id; NULL: none
 * is, or no longer. */
static struct thole_request *message_owner(struct peer *peer, uint64_t id)
{
	struct thole_request *request = request_find(peer, id);

	return request && request->state == REQUEST_WAITING &&
			       (request->record.kind == RECORD_RTS || request->record.kind == RECORD_PUT ||
				request->record.kind == RECORD_REPLY)
		       ? request
		       : NULL;
}

static const struct vector *up_window(struct transport_peer *peer, uint64_t id)
{
	const struct thole_request *request = message_owner(peer_of(peer), id);

	return request ? &request->vector : NULL;
}

static bool up_id_used(struct transport_peer *peer, uint64_t id)
{
	const struct thole_request *request = request_find(peer_of(peer), id);

	return request && request->state != REQUEST_DONE && request->state != REQUEST_QUEUED;
}

static bool up_placing(const struct transport_peer *peer)
{
	return peer_of(peer)->stream.request != NULL;
}

static bool up_pending(const struct transport_peer *peer)
{
	return peer_of(peer)->stream.left > 0 || !list_empty(&peer_of(peer)->pending);
}

static bool up_expected(struct transport_peer *peer, uint64_t tag)
{
	struct thole_endpoint *endpoint = peer_of(peer)->endpoint;

	return endpoint->screened == 0 && match_arrive_peek(&endpoint->match[MATCH_TAGGED], peer->index, tag);
}

static bool up_receiving(const struct transport_owner *owner)
{
	const struct thole_endpoint *endpoint = endpoint_of_owner(owner);
	bool posted = false;

	for (int queue = 0; queue < MATCH_QUEUES; queue++)
		posted |= match_receive_next(&endpoint->match[queue], NULL) != NULL;
	return posted;
}

static void up_awaited(struct transport_owner *owner, void (*each)(void *arg, struct transport_peer *peer), void *arg)
{
	struct thole_endpoint *endpoint = endpoint_of_owner(owner);

	for (int queue = 0; queue < MATCH_QUEUES; queue++) {
		struct match_receive *receive = NULL;

		while ((receive = match_receive_next(&endpoint->match[queue], receive)))
			if (receive->source != THOLE_ANY)
				each(arg, &endpoint->peers[receive->source]->base);
	}
}

static bool up_backlogged(const struct transport_owner *owner)
{
	return !list_empty(&endpoint_of_owner(owner)->backlogged);
}

const struct transport_upcalls message_upcalls = {
	.delivered = message_arrived,
	.pieces = message_pieces,
	.fetched = message_bulk_fetched,
	.accessed = up_accessed,
	.own = up_own,
	.region = remote_region,
	.connected = up_connected,
	.lost = up_lost,
	.room = up_room,
	.peer = up_peer,
	.reach = up_reach,
	.answer = up_answer,
	.control = up_control,
	.window = up_window,
	.id_used = up_id_used,
	.placing = up_placing,
	.pending = up_pending,
	.expected = up_expected,
	.receiving = up_receiving,
	.awaited = up_awaited,
	.backlogged = up_backlogged,
};
