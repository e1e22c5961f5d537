/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handshake: how a connection begins, and how its peer says that it ends. Pure.
 *
 * Both sides send CONNECT, and each answers the other's with ACCEPT. A CONNECT says all that the other side has to know; the
 * ACCEPT adds how long a frame the path was seen to carry. It does not matter who begins, nor whether both do at once.
 *
 * A source address can be false. A CONNECT is answered with no more bytes than it has, each one by itself; all else waits until
 * a frame comes that repeats the session which our ACCEPT told, since only who is there has read that. Whom this endpoint wants
 * to reach it asks unasked.
 */
#include <string.h>

#include "base/siphash.h"
#include "message/message.h"
#include "transport/datagram/burst.h"
#include "transport/datagram/connection.h"
#include "transport/datagram/nack.h"
#include "transport/datagram/sequence.h"

/* ---- Proof of knowing the job key ---------------------------------------------------------------------------------- */

/* Over all that the packet says: who hears it can use it for nothing else. */
static uint64_t handshake_proof(const struct engine *engine, const struct packet *packet)
{
	struct packet plain = *packet;
	uint8_t text[PACKET_HEAD_MAX];
	size_t length;

	if (engine->key == 0)
		return 0;
	plain.connect.proof = 0; /* nor is a checksum encoded */
	length = engine->codec->encode(&plain, text);
	return siphash((const uint64_t[2]){engine->key, 0}, text, length);
}

/* What a CONNECT or ACCEPT to us has to say. With mxoe the key is shown as it is: it keeps strangers apart and no spies out. */
static uint64_t handshake_expected(const struct engine *engine, const struct packet *packet)
{
	if (!engine->numbers)
		return handshake_proof(engine, packet);
	return packet->type == PACKET_CONNECT ? (uint32_t)engine->key : 0;
}

/* ---- CONNECT and ACCEPT -------------------------------------------------------------------------------------------- */

/* Say who we are, to a peer or to whom asked. */
static void handshake_describe(struct engine *engine, struct packet *packet, const struct link *link)
{
	const struct address_parts *parts = &engine->endpoint->parts;
	struct packet_connect *connect = &packet->connect;

	connect->host = parts->host;
	connect->endpoint = parts->endpoint;
	memcpy(connect->network, parts->network, sizeof(connect->network));
	connect->bulk_port = link->bulk_port;
	connect->integrity = (uint8_t)engine->integrity;
	for (unsigned i = engine->link_count; i-- > 0;) /* of several of a kind, the first */
		engine->links[i]->calls->kind->tell(engine->links[i], connect);
}

static void handshake_packet(struct connection *connection, struct packet *packet, enum packet_type type,
			   const struct link *link)
{
	connection_packet(connection, packet, type);
	handshake_describe(connection->engine, packet, link);
	packet->connect.target = connection->peer->parts.endpoint;
	packet->connect.session = connection->session;
	packet->connect.index = connection->index;
	packet->connect.next = sequence_narrow(connection->engine->codec, connection->in.next) | connection->in.epoch;
	packet->connect.attempt = connection->engine->numbers ? connection->numbered.wish : connection->handshake.attempt;
	if (connection->engine->numbers)
		numbers_connect(connection->engine, packet, NULL);
}

/* Frames that are tried: what the interface and the routes say at first, then what may still pass. */
static uint32_t handshake_size(const struct connection *connection, unsigned link, unsigned attempt)
{
	static const uint32_t steps[] = {9216, 9216, 1500 - 28, 1500 - 28, 1280 - 48, 1280 - 48, ENGINE_FRAME_MIN};
	struct engine *engine = connection->engine;
	uint32_t most = engine->links[link]->calls->frame_max(engine->links[link], &connection->route[link].records);
	uint32_t option = (uint32_t)engine->endpoint->options.mtu;
	uint32_t step = steps[attempt < 6 ? attempt : 6];

	if (option && most > option)
		most = option;
	if (most > engine->frame_max)
		most = engine->frame_max;
	return most < step ? most : step;
}

static void handshake_send(struct connection *connection, unsigned link, uint32_t size)
{
	struct engine *engine = connection->engine;
	struct packet packet;

	handshake_packet(connection, &packet, PACKET_CONNECT, engine->links[link]);
	packet.connect.size = (uint16_t)size;
	packet.connect.proof = engine->numbers ? connection->numbered.key : handshake_proof(engine, &packet);
	if (engine->numbers) {
		numbers_query(engine, (uint8_t)link, &connection->route[link].records);
		size = 0;
	}
	burst_post(engine, (uint8_t)link, &connection->route[link].records, &packet, size);
}

/* By the link that reaches by route. Returns how long its answer is waited for. */
static uint64_t handshake_ask(struct connection *connection)
{
	uint64_t wait_ns = CONNECT_RETRY_NS;

	handshake_send(connection, connection->bulk_link, handshake_size(connection, connection->bulk_link, connection->handshake.attempt));
	for (unsigned i = 0; i < connection->handshake.attempt && wait_ns < RESEND_MAX_NS; i++)
		wait_ns *= 2;
	if (connection->handshake.attempt < UINT8_MAX)
		connection->handshake.attempt++;
	return wait_ns;
}

/* By the other link, some times; 0: no more. Where it leads to is the peer's word alone until something has come from there, so
 * before that it gets short frames, and none at all if it is not us who want the connection. */
static uint64_t handshake_probe(struct connection *connection)
{
	uint8_t other = (uint8_t)!connection->bulk_link;
	const struct route *route = &connection->route[other];

	if (connection->engine->link_count < 2 || !route->known || route->frame_max > 0 ||
	    connection->handshake.probes >= PROBES_MAX || !(route->heard || connection->handshake.wanted))
		return 0;
	handshake_send(connection, other, route->heard ? handshake_size(connection, other, connection->handshake.probes) : 0);
	return (uint64_t)PROBE_NS << connection->handshake.probes++;
}

void handshake_try(struct connection *connection)
{
	uint64_t wait_ns = connection->handshake.answered ? handshake_probe(connection) : handshake_ask(connection);

	connection->handshake.connect_ns = wait_ns ? connection->engine->now_ns + wait_ns : 0;
	if (wait_ns)
		connection_wake(connection, connection->handshake.connect_ns);
}

int handshake_connect(struct engine *engine, struct peer *peer)
{
	struct connection *connection = connection_get(engine, peer);
	const struct link *first;
	struct path path;

	if (!connection)
		return error_set(THOLE_ERR_MEMORY, "no memory for another connection beside %u",
				 engine->connections.live);
	connection->handshake.wanted = true;
	if (connection->state != CONNECTION_NEW)
		return 0;
	first = engine->links[connection->bulk_link];
	if (!first->calls->kind->path(first, &peer->parts, NULL, &path))
		return error_set(THOLE_ERR_ADDRESS, "%s has no address for the link %s: open it with the same option link",
				 peer->address.text, first->calls->name);
	connection_reach(connection, first->index, &path);
	connection_begin(connection);
	handshake_try(connection);
	return 0;
}

bool handshake_connected(const struct engine *engine, const struct peer *peer)
{
	const struct connection *connection = connection_of(peer);

	/* mxoe: keys are asked for in each direction by itself. */
	return connection && connection->state == CONNECTION_OPEN && (!engine->numbers || connection->handshake.answered);
}

int handshake_key(struct engine *engine, struct peer *peer, uint64_t key)
{
	struct connection *connection;
	bool asked;

	if (!engine->numbers)
		return 0;
	connection = connection_get(engine, peer);
	if (!connection)
		return error_set(THOLE_ERR_MEMORY, "no memory for another connection beside %u", engine->connections.live);
	asked = connection->handshake.connect_ns && connection->numbered.key == (uint32_t)key;
	if (connection->handshake.answered || asked)
		return 0;
	connection->numbered.key = (uint32_t)key;
	if (connection->state == CONNECTION_NEW)
		return 0; /* handshake_connect asks */
	connection->numbered.wish = numbers_wish(engine);
	connection->handshake.attempt = 0;
	handshake_try(connection);
	return 0;
}

/* From here on both sides' frames have tags, as the one wants that wants more. Errors: UNSUPPORTED, MEMORY. */
static int handshake_guard(struct connection *connection, const struct packet_connect *connect)
{
	struct engine *engine = connection->engine;
	enum guard_mode mode = connect->integrity > engine->integrity ? connect->integrity : engine->integrity;
	struct guard_end own = {engine->endpoint->parts.host, engine->endpoint->parts.endpoint, connection->session};
	struct guard_end peer = {connection->peer->parts.host, connection->peer->parts.endpoint, connect->session};
	const struct mac *mac = mode == GUARD_FULL && engine->mac ? engine->mac() : NULL;

	if (engine->numbers || engine->key == 0 || mode == GUARD_OFF || connection->peer_session)
		return 0;
	if (mode >= GUARD_MODES || (mode == GUARD_FULL && !mac))
		return THOLE_ERR_UNSUPPORTED;
	connection->guard = pool_get(&engine->guards);
	if (!connection->guard)
		return THOLE_ERR_MEMORY;
	guard_begin(connection->guard, mode, engine->key, &own, &peer, mac);
	return 0;
}

/* Take over what a CONNECT or ACCEPT says of the other side. False: it contradicts what we know. */
static bool handshake_learn(struct connection *connection, const struct packet_connect *connect, unsigned link)
{
	struct engine *engine = connection->engine;
	struct route *route = &connection->route[link];

	if (engine->numbers)
		connection->numbered.host_index = (uint16_t)connect->index;
	if (connection->peer_session)
		return connection->peer_session == connect->session;
	connection->peer_session = connect->session;
	if (engine->numbers) {
		if (connection->state == CONNECTION_NEW && connection->numbered.former_session != connect->session)
			connection->in.epoch = 0; /* it knows of none before */
		return true;
	}
	connection->peer_index = connect->index;
	if (connection->out.next == SEQUENCE_FIRST)
		connection->out.next = connect->next;
	if (connect->bulk_port) {
		route->bulk.bytes[16] = (uint8_t)(connect->bulk_port >> 8);
		route->bulk.bytes[17] = (uint8_t)(connect->bulk_port & 0xff);
	}
	for (unsigned i = 0; i < engine->link_count; i++) {
		const struct link *other = engine->links[i];
		struct path path;

		if (other->calls->kind->path(other, &connection->peer->parts, connect, &path))
			connection_reach(connection, i, &path);
	}
	return true;
}

/* A frame has our session, so it comes from who has read what we sent to that address. */
bool handshake_proven(struct connection *connection)
{
	if (connection->state == CONNECTION_OPEN)
		return true;
	if (connection->state == CONNECTION_DEAD || !connection->peer_session || connection->engine->numbers)
		return false;
	connection_open(connection);
	if (!connection->handshake.answered && connection->handshake.connect_ns == 0)
		handshake_try(connection); /* it knows our path, we not yet its */
	return connection->state == CONNECTION_OPEN;
}

static void handshake_accept(struct engine *engine, struct link *link, const struct path *to, struct connection *connection,
			const struct packet *asked, size_t length, enum connect_status status)
{
	struct packet packet = {.type = PACKET_ACCEPT};

	if (connection)
		handshake_packet(connection, &packet, PACKET_ACCEPT, link);
	else
		handshake_describe(engine, &packet, link);
	packet.to = asked->connect.index;
	packet.session = asked->connect.session;
	packet.connect.target = asked->connect.endpoint;
	packet.connect.seen = (uint16_t)length;
	packet.connect.attempt = asked->connect.attempt;
	packet.connect.status = (uint8_t)status;
	if (engine->numbers)
		numbers_connect(engine, &packet, asked);
	packet.connect.proof = engine->numbers ? 0 : handshake_proof(engine, &packet);
	burst_post(engine, (uint8_t)link->index, to, &packet, 0);
}

/* The peer that a CONNECT is of, made if it is the first word of it. */
static struct peer *handshake_peer(struct engine *engine, const struct packet_connect *connect)
{
	struct address_parts parts = {.host = connect->host, .endpoint = connect->endpoint};
	struct thole_address address;
	struct peer *peer;

	memcpy(parts.network, connect->network, sizeof(parts.network));
	address_format(&parts, &address);
	if (peer_by_address(engine->endpoint, &address, &peer) != 0)
		return NULL;
	return peer->transport == &datagram_transport ? peer : NULL;
}

/* Does a CONNECT come from where its sender says that it is? The proof covers what it says; a copy of it that somebody else
 * sends must not make him the one who gets the answers. */
static bool handshake_is_from(const struct connection *connection, const struct packet_connect *connect, const struct link *link,
			 const struct path *from)
{
	struct path path;

	return link->calls->kind->path(link, &connection->peer->parts, connect, &path) && memcmp(&path, from, sizeof(path)) == 0;
}

void handshake_connect_arrived(struct engine *engine, struct link *link, const struct path *from, const struct packet *packet,
		     size_t length)
{
	const struct packet_connect *connect = &packet->connect;
	struct connection *connection;
	struct peer *peer;
	int error;

	if (!engine->numbers && connect->target != engine->endpoint->parts.endpoint) {
		nack_send(engine, link, from, NACK_BAD_ENDPOINT, connect->session);
		return;
	}
	if (connect->proof != handshake_expected(engine, packet) || connect->session == 0) {
		engine_count(engine, COUNTER_DROPPED_STRANGER);
		connection = engine->numbers ? numbers_known(engine, link, from, packet) : NULL;
		handshake_accept(engine, link, from, connection, packet, length, CONNECT_BAD_KEY);
		return;
	}
	peer = engine->numbers ? numbers_peer(engine, link, from, packet) : handshake_peer(engine, connect);
	connection = peer ? connection_get(engine, peer) : NULL;
	if (!connection) {
		engine_count(engine, COUNTER_DROPPED_FULL);
		return;
	}
	if (connection->state == CONNECTION_DEAD) {
		nack_send(engine, link, from, NACK_CLOSED, connect->session);
		return;
	}
	if (!engine->numbers && !handshake_is_from(connection, connect, link, from)) {
		engine_count(engine, COUNTER_DROPPED_STRANGER);
		return;
	}
	error = handshake_guard(connection, connect);
	if (error) {
		engine_count(engine, error == THOLE_ERR_UNSUPPORTED ? COUNTER_REFUSED : COUNTER_DROPPED_FULL);
		if (error == THOLE_ERR_UNSUPPORTED)
			handshake_accept(engine, link, from, NULL, packet, length, CONNECT_NO_GUARD);
		return;
	}
	connection_reach(connection, link->index, from);
	if (!handshake_learn(connection, connect, link->index)) {
		engine_count(engine, COUNTER_DROPPED_SESSION);
		return;
	}
	/* Anything but the beginning may be of another session or epoch: hosts say the right one when they answer ours. */
	if (engine->numbers && connection->out.credit == 0 && connect->next == SEQUENCE_FIRST)
		transmit_start(connection, connect->next);
	if (engine->numbers)
		connection_open(connection);
	connection->route[link->index].heard = true;
	if (length > connection->route[link->index].frame_in)
		connection->route[link->index].frame_in = (uint32_t)length;
	handshake_accept(engine, link, from, connection, packet, length, CONNECT_OK);
	engine_count(engine, COUNTER_ACCEPTS);
	if (packet->session == connection->session)
		handshake_proven(connection);
	if (connection->state == CONNECTION_OPEN && connection->handshake.connect_ns == 0)
		handshake_try(connection);
}

/* Whom an ACCEPT answers. */
static struct connection *handshake_asked(struct engine *engine, const struct link *link, const struct path *from,
					    const struct packet *packet)
{
	const struct packet_connect *connect = &packet->connect;
	struct connection *connection;

	if (engine->numbers) {
		connection = numbers_find(engine, link, from, packet->from);
		return connection && connect->echo == connection->session ? connection : NULL;
	}
	connection = connection_by_index(engine, packet->to, packet->session);
	return connection && connect->endpoint == connection->peer->parts.endpoint ? connection : NULL;
}

/* Our key is not what the peer wants to hear. If it has connected to us, as hosts with mxoe do each for itself, it will hear us
 * all the same. */
static void handshake_refused(struct connection *connection, const struct packet_connect *connect)
{
	bool numbers = connection->engine->numbers;

	if (connection->handshake.answered || (numbers && connect->attempt != connection->numbered.wish))
		return; /* somebody else is saying so, or it was another key */
	if (connect->status == CONNECT_NO_GUARD && !numbers) { /* whatever its own CONNECT has said */
		connection_lost(connection, THOLE_ERR_UNSUPPORTED);
	} else if (!connection->peer_session) {
		connection_lost(connection, THOLE_ERR_ACCESS);
	} else if (numbers) {
		connection->handshake.connect_ns = 0;
		if (connection->out.credit == 0)
			transmit_start(connection, connect->next);
		connection_open(connection);
		connection_dirty(connection);
		peer_connected(connection->peer, THOLE_ERR_ACCESS);
	}
}

void handshake_accept_arrived(struct engine *engine, struct link *link, const struct path *from, const struct packet *packet)
{
	const struct packet_connect *connect = &packet->connect;
	struct connection *connection = handshake_asked(engine, link, from, packet);
	struct route *route;

	if (!connection || connection->state == CONNECTION_DEAD || connection->state == CONNECTION_NEW) {
		engine_count(engine, COUNTER_DROPPED_SESSION);
		return;
	}
	if (connect->status != CONNECT_OK && connect->status != CONNECT_NO_GUARD) { /* who has no key proves nothing */
		handshake_refused(connection, connect);
		return;
	}
	if (connect->proof != handshake_expected(engine, packet) || connect->seen > engine->frame_max ||
	    (connect->session == 0) != (connect->status != CONNECT_OK)) {
		engine_count(engine, COUNTER_DROPPED_STRANGER);
		return;
	}
	if (connect->status != CONNECT_OK) {
		handshake_refused(connection, connect);
		return;
	}
	if (handshake_guard(connection, connect) != 0) {
		connection_lost(connection, THOLE_ERR_UNSUPPORTED);
		return;
	}
	route = &connection->route[link->index];
	if (!route->known || !handshake_learn(connection, connect, link->index)) {
		engine_count(engine, COUNTER_DROPPED_SESSION);
		return;
	}
	if (engine->numbers && connection->out.credit == 0)
		transmit_start(connection, connect->next);
	connection_open(connection);
	route->heard = true;
	if (connect->seen >= ENGINE_FRAME_MIN && connect->seen > route->frame_max)
		route->frame_max = connect->seen;
	if (!connection->handshake.answered) {
		engine_count(engine, COUNTER_CONNECTS);
		connection->handshake.answered = true;
		connection->in.ack_now = !engine->numbers; /* now it knows that we are where we say */
		peer_connected(connection->peer, 0);
		handshake_try(connection); /* by the other link */
	} else if (route->frame_max == 0) {
		handshake_try(connection); /* somebody is there: with longer ones */
	} else if (link->index == engine->order[LINK_RECORDS][0]) {
		connection->record_link = (uint8_t)link->index;
		connection->lost_in_row = 0;
	} else {
		connection->bulk_link = engine->order[LINK_BULK][0];
		connection->wide_lost_in_row = connection->pull.starved = 0;
	}
	connection_dirty(connection);
}

/* ---- CLOSE --------------------------------------------------------------------------------------------------------- */

/* Whether all that was sent before the CLOSE is here. */
static bool handshake_is_closed(const struct connection *connection)
{
	return (int32_t)(connection->handshake.closing - connection->in.next) <= 0;
}

/* It may have overtaken records, which lie in another link's memory: they get a little time. */
void handshake_close_arrived(struct connection *connection, const struct packet *packet)
{
	uint64_t now_ns = connection->engine->now_ns;

	connection->handshake.closing = packet->sequence;
	if (handshake_is_closed(connection)) {
		connection_lost(connection, THOLE_ERR_CLOSED);
		return;
	}
	if (connection->handshake.closing_ns == 0)
		connection->handshake.closing_ns = now_ns + CLOSE_WAIT_NS;
	connection_wake(connection, now_ns + CLOSE_LOOK_NS);
}

uint64_t handshake_expire_close(struct connection *connection)
{
	bool complete = handshake_is_closed(connection);

	if (!complete && connection->handshake.closing_ns > connection->engine->now_ns)
		return connection->engine->now_ns + CLOSE_LOOK_NS;
	connection_lost(connection, complete ? THOLE_ERR_CLOSED : THOLE_ERR_PEER);
	return UINT64_MAX;
}

void handshake_close(struct engine *engine)
{
	for (uint32_t i = 0; i < engine->connections.capacity; i++) {
		struct connection *connection = pool_at(&engine->connections, i);
		struct packet packet;

		if (!pool_is_live(&engine->connections, connection) || connection->state != CONNECTION_OPEN)
			continue;
		connection_packet(connection, &packet, PACKET_CLOSE);
		packet.sequence = connection->out.next;
		arrival_report(connection, &packet);
		burst_post(engine, connection->bulk_link, &connection->route[connection->bulk_link].records, &packet, 0);
	}
	burst_send(engine, 0);
}
