/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nack: how native endpoints say that what a frame named does not exist, and which of that is believed. Pure.
 */
#include <string.h>

#include "base/endian.h"
#include "base/siphash.h"
#include "transport/datagram/burst.h"
#include "transport/datagram/connection.h"
#include "transport/datagram/nack.h"

/* Who knows the job key and is at this path has got a frame with this session, and has no such connection. */
static uint64_t nack_proof(const struct engine *engine, const struct packet_nack *nack, const struct path *from)
{
	uint8_t text[24 + sizeof(from->bytes)];

	if (engine->key == 0)
		return 0;
	store_be64(text, (uint64_t)PACKET_NACK << 56 | nack->reason);
	store_be64(text + 8, nack->transfer);
	store_be64(text + 16, nack->refused);
	memcpy(text + 24, from->bytes, sizeof(from->bytes));
	return siphash((const uint64_t[2]){engine->key, 0}, text, sizeof(text));
}

void nack_send(struct engine *engine, struct link *link, const struct path *to, enum nack_reason reason, uint64_t refused)
{
	struct packet packet = {.type = PACKET_NACK, .to = PACKET_TO_NONE};

	packet.nack.reason = (uint8_t)reason;
	packet.nack.refused = refused;
	packet.nack.proof = nack_proof(engine, &packet.nack, &link->own);
	engine_count(engine, COUNTER_NACKS_SENT);
	burst_post(engine, (uint8_t)link->index, to, &packet, 0);
}

void nack_peer(struct connection *connection, uint64_t transfer)
{
	struct engine *engine = connection->engine;
	uint8_t link = connection->record_link;
	struct packet packet;

	connection_packet(connection, &packet, PACKET_NACK);
	packet.nack.reason = NACK_BAD_WINDOW;
	packet.nack.refused = connection->peer_session;
	packet.nack.transfer = transfer;
	packet.nack.proof = nack_proof(engine, &packet.nack, &engine->links[link]->own);
	engine_count(engine, COUNTER_NACKS_SENT);
	burst_post(engine, link, &connection->route[link].records, &packet, 0);
}

/* Whether a NACK is about this connection, and believed: who is asked for a connection may not know the key, and refuses all the
 * same. */
static bool nack_counts(const struct connection *connection, const struct packet_nack *nack, bool proven)
{
	uint64_t known = nack->reason == NACK_BAD_ENDPOINT || !connection->peer_session ? connection->session
										       : connection->peer_session;

	if (connection->state == CONNECTION_DEAD || (nack->refused != known && nack->refused != connection->session))
		return false;
	if (proven || (!connection->peer_session && nack->reason != NACK_BAD_WINDOW))
		return true;
	engine_count(connection->engine, COUNTER_DROPPED_STRANGER);
	return false;
}

void nack_arrived(struct engine *engine, struct link *link, const struct path *from, const struct packet *packet)
{
	struct connection *connection = connection_by_path(engine, link, from), *next;
	bool proven = packet->nack.proof == nack_proof(engine, &packet->nack, from);

	engine_count(engine, COUNTER_NACKS_RECEIVED);
	for (; connection; connection = next) {
		next = connection_next_by_path(connection, link, from);
		if (!nack_counts(connection, &packet->nack, proven))
			continue;
		if (packet->nack.reason == NACK_BAD_WINDOW)
			pull_nacked(connection, packet->nack.transfer);
		else
			connection_lost(connection, THOLE_ERR_PEER);
	}
}
