/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handshake: how a connection begins, and how its peer says that it ends. Pure.
 *
 * Both sides send CONNECT, and each answers the other's with ACCEPT. A CONNECT says all that the other side has to
 * know; the ACCEPT adds how long a frame the path was seen to carry. It does not matter who begins, nor whether both
 * do at once.
 *
 * A source address can be false. So each CONNECT has one answer, of no more bytes than it has. All else waits for a
 * frame that repeats the session in our ACCEPT: only a process at that address has read it. A peer that this endpoint
 * itself wants to reach is sent CONNECTs at once.
 */
#include "transport/datagram/burst.h"
#include "transport/datagram/connection.h"
#include "transport/datagram/sequence.h"

/* ---- CONNECT and ACCEPT --------------------------------------------------------------------------------- */

uint32_t handshake_next(const struct connection *connection)
{
	return sequence_narrow(connection->engine->codec, connection->in.next) | connection->in.epoch;
}

/* What any codec's CONNECT or ACCEPT says of a connection. */
static void handshake_packet(const struct connection *connection, struct packet *packet, enum packet_type type)
{
	connection_packet(connection, packet, type);
	packet->connect.target = connection->peer->parts.endpoint;
	packet->connect.session = connection->session;
	packet->connect.index = connection->index;
	packet->connect.next = handshake_next(connection);
}

enum { HANDSHAKE_SHORTEST = 6 }; /* the first try that is as short as they get */

/* Frames that are tried: what the interface and the routes say at first, then what may still pass. */
static uint32_t handshake_size(const struct connection *connection, unsigned link, unsigned attempt)
{
	static const uint32_t steps[] = {9216, 9216, 1500 - 28, 1500 - 28, 1280 - 48, 1280 - 48, ENGINE_FRAME_MIN};
	struct engine *engine = connection->engine;
	uint32_t most = engine->links[link]->calls->frame_max(engine->links[link], &connection->route[link].records);
	uint32_t option = (uint32_t)engine->owner->options.mtu;
	uint32_t step = steps[attempt < HANDSHAKE_SHORTEST ? attempt : HANDSHAKE_SHORTEST];

	if (option && most > option)
		most = option;
	if (most > engine->frame_max)
		most = engine->frame_max;
	return most < step ? most : step;
}

static void handshake_send(struct connection *connection, unsigned link, uint32_t size)
{
	struct packet packet;

	handshake_packet(connection, &packet, PACKET_CONNECT);
	if (connection->route[link].narrow)
		packet.connect.seen = connection->route[link].frame_max;
	connection->engine->naming->connect(connection, connection->engine->links[link], &packet, size);
}

void handshake_ask(struct connection *connection)
{
	uint8_t link = connection->routes.use[LINK_CONNECT];
	uint64_t wait_ns = CONNECT_RETRY_NS;

	handshake_send(connection, link, handshake_size(connection, link, connection->handshake.attempt));
	for (unsigned i = 0; i < connection->handshake.attempt && wait_ns < RESEND_MAX_NS; i++)
		wait_ns *= 2;
	if (connection->handshake.attempt < UINT8_MAX)
		connection->handshake.attempt++;
	connection->handshake.connect_ns = connection->engine->now_ns + wait_ns;
	connection_wake(connection, connection->handshake.connect_ns);
}

void handshake_probe(struct connection *connection, unsigned link, bool padded, unsigned tries)
{
	handshake_send(connection, link, padded ? handshake_size(connection, link, tries) : 0);
}

/* A link has begun to work with shorter frames than it may have. Perhaps the longer ones that were tried before do not
 * pass; but perhaps nothing did, or the peer was busy and answered late. So each length gets another chance. */
static void handshake_lengthen(struct connection *connection, unsigned link)
{
	uint32_t frame_max = connection->route[link].frame_max, before = UINT32_MAX;

	for (unsigned attempt = 0; attempt < HANDSHAKE_SHORTEST; attempt++) {
		uint32_t size = handshake_size(connection, link, attempt);

		if (size <= frame_max)
			return; /* they only get shorter */
		if (size < before)
			handshake_send(connection, link, size);
		before = size;
	}
}

/* The first link in order that its address names. */
static const struct link *handshake_first(const struct engine *engine, const struct transport_peer *peer,
					  struct path *path_p)
{
	for (unsigned i = 0; i < engine->order_count[LINK_CONNECT]; i++) {
		const struct link *link = engine->links[engine->order[LINK_CONNECT][i]];

		if (link->calls->kind->path(link, &peer->parts, NULL, path_p))
			return link;
	}
	return NULL;
}

int handshake_connect(struct engine *engine, struct transport_peer *peer)
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
	first = handshake_first(engine, peer, &path);
	if (!first)
		return error_set(THOLE_ERR_ADDRESS,
				 "%s has no address for the link %s: open it with the same option link; within a host "
				 "only shared memory (option shm) and the link udp reach",
				 peer->address.text, engine->links[engine->order[LINK_CONNECT][0]]->calls->name);
	route_reach(connection, first->index, &path);
	connection_begin(connection);
	handshake_ask(connection);
	return 0;
}

bool handshake_connected(const struct transport_peer *peer)
{
	const struct connection *connection = connection_of(peer);

	return connection && connection->state == CONNECTION_OPEN && connection->handshake.connected;
}

/* Both sides have to hear of it, and the other one may never send a CONNECT of its own. */
void handshake_foreign(struct engine *engine, const struct link *link, const struct path *from,
		       const struct packet *packet, size_t length)
{
	struct connection *connection = connection_by_path(engine, link, from);
	static const struct packet asked = {.type = PACKET_CONNECT};

	for (; connection; connection = connection_next_by_path(connection, link, from))
		connection->handshake.foreign |= connection->state == CONNECTION_CONNECTING;
	if (packet->type != PACKET_CONNECT || length < engine->codec->nack ||
	    engine->now_ns - engine->nack_ns < NACK_NS)
		return;
	engine->nack_ns = engine->now_ns;
	engine->naming->refuse(engine, link, from, &asked, NACK_BAD_ENDPOINT);
}

bool handshake_is_foreign(const struct connection *connection)
{
	return connection->state == CONNECTION_CONNECTING && connection->handshake.foreign;
}

/* A frame has our session, so it comes from who has read what we sent to that address. */
bool handshake_proven(struct connection *connection)
{
	if (connection->state == CONNECTION_OPEN)
		return true;
	if (connection->state == CONNECTION_DEAD || !connection->peer_session)
		return false;
	connection_open(connection);
	if (!connection->handshake.answered && connection->handshake.connect_ns == 0)
		handshake_ask(connection); /* it knows our path, and we do not know its yet */
	return connection->state == CONNECTION_OPEN;
}

static void handshake_accept(struct engine *engine, struct link *link, const struct path *to,
			     const struct connection *connection, const struct packet *asked, size_t length,
			     enum connect_status status)
{
	struct packet packet = {.type = PACKET_ACCEPT};

	if (connection)
		handshake_packet(connection, &packet, PACKET_ACCEPT);
	packet.to = asked->connect.index;
	packet.session = asked->connect.session;
	packet.connect.target = asked->connect.endpoint;
	packet.connect.seen = (uint16_t)length;
	packet.connect.attempt = asked->connect.attempt;
	packet.connect.status = (uint8_t)status;
	engine->naming->accept(engine, link, to, &packet, asked);
}

/* Who knows the key, and is not let in, is told why: else it would ask for ever, since its peer lives. */
static void handshake_turn_away(struct engine *engine, struct link *link, const struct path *from,
				const struct packet *packet, size_t length, int error)
{
	enum connect_status status = CONNECT_NO_ROOM;

	if (error == THOLE_ERR_UNSUPPORTED) {
		engine_count(engine, COUNTER_REFUSED);
		transport_trouble(engine->owner);
		status = CONNECT_NO_GUARD;
	} else if (error == THOLE_ERR_ACCESS) {
		engine_count(engine, COUNTER_DROPPED_STRANGER);
		status = CONNECT_ELSEWHERE;
	} else {
		engine_count(engine, COUNTER_DROPPED_FULL);
	}
	handshake_accept(engine, link, from, NULL, packet, length, status);
}

/* The connection of a CONNECT's sender, which has taken over what that says. NULL: it was refused, or dropped. */
static struct connection *handshake_caller(struct engine *engine, struct link *link, const struct path *from,
					   const struct packet *packet, size_t length)
{
	const struct naming *naming = engine->naming;
	struct transport_peer *peer = naming->caller(engine, link, from, packet);
	struct connection *connection = peer ? connection_get(engine, peer) : NULL;
	int error;

	if (!connection) {
		handshake_turn_away(engine, link, from, packet, length, THOLE_ERR_MEMORY);
		return NULL;
	}
	if (connection->state == CONNECTION_DEAD) {
		naming->refuse(engine, link, from, packet, NACK_CLOSED);
		return NULL;
	}
	error = naming->admit(connection, link, from, packet);
	if (error) {
		handshake_turn_away(engine, link, from, packet, length, error);
		return NULL;
	}
	route_reach(connection, link->index, from);
	if (!naming->learn(connection, link, packet)) {
		engine_count(engine, COUNTER_DROPPED_SESSION);
		return NULL;
	}
	return connection;
}

void handshake_connect_arrived(struct engine *engine, struct link *link, const struct path *from,
			       const struct packet *packet, size_t length)
{
	struct connection *connection;

	if (!engine->naming->knows(engine, packet) || packet->connect.session == 0) {
		engine_count(engine, COUNTER_DROPPED_STRANGER);
		handshake_accept(engine, link, from, NULL, packet, length, CONNECT_BAD_KEY);
		return;
	}
	connection = handshake_caller(engine, link, from, packet, length);
	if (!connection)
		return;
	route_hear(connection, link->index, &packet->connect);
	route_arrive(connection, link->index, &packet->connect, length);
	handshake_accept(engine, link, from, connection, packet, length, CONNECT_OK);
	engine_count(engine, COUNTER_ACCEPTS);
	if (packet->session == connection->session)
		handshake_proven(connection);
	if (connection->state != CONNECTION_OPEN)
		return;
	if (connection->handshake.answered)
		route_try_all(connection);
	else if (connection->handshake.connect_ns == 0)
		handshake_ask(connection);
}

/* Reasons of a peer that knows our key. One without it can prove nothing. */
static bool handshake_is_proven(unsigned status)
{
	return status == CONNECT_NO_GUARD || status == CONNECT_ELSEWHERE || status == CONNECT_NO_ROOM;
}

/* Whether an ACCEPT is a correct answer that lets us in. If not, what follows from that was done. */
static bool handshake_accepted(struct connection *connection, const struct packet *packet)
{
	const struct packet_connect *connect = &packet->connect;
	struct engine *engine = connection->engine;
	bool welcome = connect->status == CONNECT_OK;

	if (!welcome && !handshake_is_proven(connect->status)) {
		engine->naming->refused(connection, connect);
		return false;
	}
	if (!engine->naming->knows(engine, packet) || connect->seen > engine->frame_max ||
	    (connect->session != 0) != welcome) {
		engine_count(engine, COUNTER_DROPPED_STRANGER);
		return false;
	}
	if (!welcome)
		engine->naming->refused(connection, connect);
	return welcome;
}

void handshake_accept_arrived(struct engine *engine, struct link *link, const struct path *from,
			      const struct packet *packet)
{
	const struct packet_connect *connect = &packet->connect;
	struct connection *connection = engine->naming->called(engine, link, from, packet);
	bool worked;
	int error;

	if (!connection || connection->state == CONNECTION_DEAD || connection->state == CONNECTION_NEW) {
		engine_count(engine, COUNTER_DROPPED_SESSION);
		return;
	}
	if (!handshake_accepted(connection, packet))
		return;
	if (!connection->route[link->index].known) {
		engine_count(engine, COUNTER_DROPPED_SESSION);
		return;
	}
	error = engine->naming->admit(connection, link, from, packet);
	if (error) {
		connection_failed(connection, error);
		return;
	}
	if (!engine->naming->learn(connection, link, packet)) {
		engine_count(engine, COUNTER_DROPPED_SESSION);
		return;
	}
	connection_open(connection);
	route_hear(connection, link->index, connect);
	worked = connection->route[link->index].frame_max > 0;
	route_work(connection, link->index, connect->seen);
	if (!worked && connection->route[link->index].frame_max > 0)
		handshake_lengthen(connection, link->index);
	if (connection->handshake.answered) {
		if (connection->route[link->index].frame_max == 0) /* somebody is there: try longer frames */
			route_try(connection, link->index);
	} else {
		engine_count(engine, COUNTER_CONNECTS);
		connection->handshake.answered = connection->handshake.connected = true;
		connection->peer->owner->up->connected(connection->peer, 0);
		connection->handshake.connect_ns = 0;
		route_try_all(connection);
	}
	connection_dirty(connection);
}

/* ---- CLOSE ---------------------------------------------------------------------------------------------- */

/* Whether all that was sent before the CLOSE is here. */
static bool handshake_is_closed(const struct connection *connection)
{
	return (int32_t)(connection->handshake.closing - connection->in.next) <= 0;
}

/* And whether all that came beside, by an adapter, was taken: before the CLOSE was sent, it was here, too. */
static bool handshake_is_over(const struct connection *connection)
{
	return handshake_is_closed(connection) && !connection->engine->owner->unread;
}

static uint64_t handshake_look_ns(const struct connection *connection)
{
	return connection->engine->now_ns + (handshake_is_closed(connection) ? 1 : CLOSE_PROBE_NS);
}

/* A CLOSE may overtake records that go by another link: they get a little time. That is counted by looks,
 * since a program that computes takes nothing of what is here. */
void handshake_close_arrived(struct connection *connection, const struct packet *packet)
{
	connection->handshake.closing = packet->sequence;
	if (connection->engine->owner->queues > 0)
		connection->engine->owner->unread = true; /* adapters were looked at before this came, in this turn */
	if (handshake_is_over(connection)) {
		connection_lost(connection, THOLE_ERR_CLOSED);
		return;
	}
	if (connection->handshake.closing_looks == 0)
		connection->handshake.closing_looks = 1;
	connection_wake(connection, handshake_look_ns(connection));
}

uint64_t handshake_expire_close(struct connection *connection)
{
	if (!handshake_is_over(connection) && connection->handshake.closing_looks++ < CLOSE_LOOKS)
		return handshake_look_ns(connection);
	connection_lost(connection, handshake_is_closed(connection) ? THOLE_ERR_CLOSED : THOLE_ERR_PEER);
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
		burst_post(engine, connection->routes.use[LINK_BULK],
			   &connection->route[connection->routes.use[LINK_BULK]].records, &packet, 0);
	}
	burst_send(engine, 0);
}
