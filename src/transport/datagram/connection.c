/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connection: handshake, the ways to a peer, whether it lives, and its end. Pure.
 *
 * Both sides send CONNECT, and each answers the other's with ACCEPT. A CONNECT says all that the other side has to know, so the
 * first packet of either kind opens the connection; the ACCEPT adds how long a frame the path was seen to carry. It does not
 * matter who begins, nor whether both do at once.
 *
 * Keep-alive: only while something is pending does anybody ask whether a silent peer is there. A process that computes answers
 * nothing, so its host is asked (link->fate). Invariant: a connection at rest is in no list and has no timer.
 */
#include <stdlib.h>
#include <string.h>

#include "base/endian.h"
#include "base/siphash.h"
#include "message/message.h"
#include "transport/datagram/connection.h"

/* ---- Finding -------------------------------------------------------------------------------------------- */

static uint32_t path_hash(const struct path *path)
{
	uint64_t a, b;
	uint32_t c;

	memcpy(&a, path->bytes, 8);
	memcpy(&b, path->bytes + 8, 8);
	memcpy(&c, path->bytes + 16, 4);
	a = (a ^ (b * 0x9e3779b97f4a7c15u) ^ c) * 0xff51afd7ed558ccdu;
	return (uint32_t)(a >> 32) % ENGINE_BUCKETS;
}

static struct connection **connection_bucket(struct engine *engine, unsigned link, const struct path *path)
{
	return &engine->buckets[link * ENGINE_BUCKETS + path_hash(path)];
}

static struct connection *connection_match(struct connection *connection, unsigned link, const struct path *path)
{
	while (connection && memcmp(&connection->route[link].records, path, sizeof(*path)) != 0)
		connection = connection->route[link].next;
	return connection;
}

struct connection *connection_by_path(struct engine *engine, const struct link *link, const struct path *path)
{
	return connection_match(*connection_bucket(engine, link->index, path), link->index, path);
}

struct connection *connection_next_by_path(struct connection *connection, const struct link *link,
					   const struct path *path)
{
	return connection_match(connection->route[link->index].next, link->index, path);
}

struct connection *connection_by_index(struct engine *engine, uint32_t index, uint64_t session)
{
	struct connection *connection = pool_at(&engine->connections, index);

	return connection && pool_is_live(&engine->connections, connection) && connection->session == session
		       ? connection
		       : NULL;
}

static void route_learn(struct connection *connection, unsigned link, const struct path *path)
{
	struct route *route = &connection->route[link];
	struct connection **bucket;

	if (route->known)
		return;
	bucket = connection_bucket(connection->engine, link, path);
	route->records = route->bulk = *path;
	route->known = true;
	if (connection->engine->numbers) /* frames have the lengths that the codec wants */
		route->frame_max = route->frame_in = connection->engine->frame_max;
	route->next = *bucket;
	*bucket = connection;
}

uint32_t connection_frame(const struct connection *connection)
{
	uint32_t least = UINT32_MAX;

	for (unsigned i = 0; i < connection->engine->link_count; i++) {
		uint32_t max = connection->route[i].frame_max;

		if (max > 0 && max < least)
			least = max;
	}
	return least != UINT32_MAX ? least : ENGINE_FRAME_MIN;
}

/* ---- Making ----------------------------------------------------------------------------------------------- */

struct connection *connection_get(struct engine *engine, struct peer *peer)
{
	struct connection *connection = connection_of(peer);

	if (connection)
		return connection;
	if (heap_reserve(&engine->timers, engine->connections.live + 1) != 0)
		return NULL;
	connection = pool_get(&engine->connections);
	if (!connection)
		return NULL;
	*connection = (struct connection){
		.engine = engine,
		.peer = peer,
		.index = pool_index_of(&engine->connections, connection),
		.peer_index = PACKET_TO_NONE,
		.record_link = engine->bulk_link,
		.bulk_link = engine->bulk_link,
	};
	if (engine->numbers)
		numbers_begin(connection);
	else
		engine->random(engine->random_arg, &connection->session, sizeof(connection->session));
	list_init(&connection->dirty_node);
	list_init(&connection->serving_node);
	list_init(&connection->fetching_node);
	list_init(&connection->fetches);
	list_init(&connection->asked);
	list_init(&connection->blocks);
	list_init(&connection->serves);
	connection->pull_window = engine->outstanding_max;
	sequence_init(connection);
	peer->link = connection;
	return connection;
}

static void connection_ask_no_more(struct connection *connection)
{
	struct link *link = connection->engine->links[connection->bulk_link];

	if (connection->asking && link->calls->fate_end)
		link->calls->fate_end(link, &connection->route[connection->bulk_link].records);
	connection->asking = false;
}

/* Off all lists and timers; it stays as long as its peer does, so that late frames find it and are told. */
static void connection_rest(struct connection *connection)
{
	struct engine *engine = connection->engine;

	connection_ask_no_more(connection);
	sequence_fini(connection);
	pull_lost(connection);
	list_remove(&connection->dirty_node);
	heap_remove(&engine->timers, &connection->timer);
	connection->connect_ns = connection->checked_ns = 0;
	connection->watched = false;
}

void connection_lost(struct connection *connection, int status)
{
	peer_lost(connection->peer, status); /* calls engine_disconnect */
}

void engine_disconnect(struct engine *engine, struct peer *peer)
{
	struct connection *connection = connection_of(peer);

	if (!connection || connection->state == CONNECTION_DEAD)
		return;
	engine->deaths++;
	if (connection->state != CONNECTION_NEW)
		engine->open--;
	connection->state = CONNECTION_DEAD;
	burst_send(engine, 0); /* it may hold frames of this connection */
	connection_rest(connection);
}

/* ---- Proof of knowing the job key -------------------------------------------------------------------------- */

/* Over what identifies both sides and this try: who hears it can use it for nothing else. */
static uint64_t connect_proof(const struct engine *engine, const struct packet *packet)
{
	const struct packet_connect *connect = &packet->connect;
	const uint64_t words[] = {
		packet->type, packet->session, connect->host, connect->endpoint, connect->target, connect->session,
		(uint64_t)connect->index << 32 | connect->next,
		(uint64_t)connect->bulk_port << 16 | connect->ethertype,
	};
	uint8_t text[sizeof(words) + sizeof(connect->mac) + sizeof(connect->network)];

	if (engine->key == 0)
		return 0;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		store_be64(text + 8 * i, words[i]);
	memcpy(text + sizeof(words), connect->mac, sizeof(connect->mac));
	memcpy(text + sizeof(words) + sizeof(connect->mac), connect->network, sizeof(connect->network));
	return siphash((const uint64_t[2]){engine->key, 0}, text, sizeof(text));
}

/* What a CONNECT or ACCEPT to us has to say. With mxoe the key is shown as it is: it keeps strangers apart and no spies out. */
static uint64_t connect_expected(const struct engine *engine, const struct packet *packet)
{
	if (!engine->numbers)
		return connect_proof(engine, packet);
	return packet->type == PACKET_CONNECT ? (uint32_t)engine->key : 0;
}

/* ---- CONNECT and ACCEPT -------------------------------------------------------------------------------------- */

/* Say who we are, to a peer or to whom asked. */
static void connect_describe(struct engine *engine, struct packet *packet, const struct link *link)
{
	const struct address_parts *parts = &engine->endpoint->parts;
	struct packet_connect *connect = &packet->connect;

	connect->host = parts->host;
	connect->endpoint = parts->endpoint;
	memcpy(connect->network, parts->network, sizeof(connect->network));
	connect->bulk_port = link->bulk_port;
	for (unsigned i = 0; i < engine->link_count; i++) {
		if (!engine->links[i]->ethertype)
			continue;
		connect->ethertype = engine->links[i]->ethertype;
		memcpy(connect->mac, engine->links[i]->own.bytes, sizeof(connect->mac));
	}
}

static void connect_packet(struct connection *connection, struct packet *packet, enum packet_type type,
			   const struct link *link)
{
	connection_packet(connection, packet, type);
	connect_describe(connection->engine, packet, link);
	packet->connect.target = connection->peer->parts.endpoint;
	packet->connect.session = connection->session;
	packet->connect.index = connection->index;
	packet->connect.next = sequence_narrow(connection->engine->codec, connection->next_in) | connection->epoch_in;
	packet->connect.attempt = connection->engine->numbers ? connection->wish : connection->attempt;
	if (connection->engine->numbers)
		numbers_connect(connection->engine, packet, NULL);
}

/* Frames that are tried: what the interface and the routes say at first, then what may still pass. */
static uint32_t connect_size(const struct connection *connection, unsigned link, unsigned attempt)
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

static void connect_send(struct connection *connection, unsigned link, unsigned attempt)
{
	struct engine *engine = connection->engine;
	uint32_t size = connect_size(connection, link, attempt);
	struct packet packet;

	connect_packet(connection, &packet, PACKET_CONNECT, engine->links[link]);
	packet.connect.size = (uint16_t)size;
	packet.connect.proof = engine->numbers ? connection->key : connect_proof(engine, &packet);
	if (engine->numbers) {
		numbers_query(engine, (uint8_t)link, &connection->route[link].records);
		size = 0;
	}
	engine_post(engine, (uint8_t)link, &connection->route[link].records, &packet, size);
}

/* The next CONNECT: by the link that reaches by route, until that is answered; then, some times, by the other. */
static void connect_try(struct connection *connection)
{
	struct engine *engine = connection->engine;
	uint64_t wait_ns = CONNECT_RETRY_NS;

	if (!connection->answered) {
		connect_send(connection, connection->bulk_link, connection->attempt);
		for (unsigned i = 0; i < connection->attempt && wait_ns < RESEND_MAX_NS; i++)
			wait_ns *= 2;
		if (connection->attempt < UINT8_MAX)
			connection->attempt++;
	} else {
		uint8_t other = (uint8_t)!connection->bulk_link;

		connection->connect_ns = 0;
		if (engine->link_count < 2 || !connection->route[other].known || connection->route[other].frame_max > 0 ||
		    connection->probes >= PROBES_MAX)
			return;
		connect_send(connection, other, connection->probes);
		connection->probes++;
		wait_ns = (uint64_t)PROBE_NS << (connection->probes - 1);
	}
	connection->connect_ns = engine->now_ns + wait_ns;
	connection_wake(connection, connection->connect_ns);
}

/* How raw links name an endpoint: its interface's MAC, then the lower half of its id. */
static void raw_path(const uint8_t *mac, uint64_t endpoint, struct path *path_p)
{
	memcpy(path_p->bytes, mac, 6);
	store_be32(path_p->bytes + 6, (uint32_t)endpoint);
}

/* The path that an address names on a link, if it does. */
static bool connect_route(const struct address_parts *parts, const struct link *link, struct path *path_p)
{
	const uint8_t *network = parts->network;

	*path_p = (struct path){0};
	if (link->ethertype) {
		if (network[0] == ADDRESS_IPV6 || network[0] == ADDRESS_NONE)
			return false;
		raw_path(network + 8, network[0] == ADDRESS_MXOE ? 0 : parts->endpoint, path_p);
		return true;
	}
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

void connection_fall_back(struct connection *connection)
{
	struct engine *engine = connection->engine;

	engine_count(engine, COUNTER_LINK_FALLBACKS);
	connection->route[connection->record_link].frame_max = 0;
	connection->record_link = connection->bulk_link;
	connection->lost_in_row = connection->probes = 0;
	connection->connect_ns = engine->now_ns + FALL_BACK_NS;
	connection_wake(connection, connection->connect_ns);
}

static void connection_begin(struct connection *connection)
{
	connection->engine->open++;
	connection->state = CONNECTION_CONNECTING;
	connection->checked_ns = connection->heard_ns = connection->engine->now_ns;
}

int engine_connect(struct engine *engine, struct peer *peer)
{
	struct connection *connection = connection_get(engine, peer);
	struct path path;

	if (!connection)
		return error_set(THOLE_ERR_MEMORY, "no memory for another connection beside %u",
				 engine->connections.live);
	if (connection->state != CONNECTION_NEW)
		return 0;
	if (!connect_route(&peer->parts, engine->links[engine->bulk_link], &path))
		return error_set(THOLE_ERR_ADDRESS, "%s has no address for the link %s: open it with the same option link",
				 peer->address.text, engine->links[engine->bulk_link]->calls->name);
	route_learn(connection, engine->bulk_link, &path);
	connection_begin(connection);
	connect_try(connection);
	return 0;
}

bool engine_connected(const struct engine *engine, const struct peer *peer)
{
	const struct connection *connection = connection_of(peer);

	/* mxoe: keys are asked for in each direction by itself. */
	return connection && connection->state == CONNECTION_OPEN && (!engine->numbers || connection->answered);
}

int engine_key(struct engine *engine, struct peer *peer, uint64_t key)
{
	struct connection *connection;
	bool asked;

	if (!engine->numbers)
		return 0;
	connection = connection_get(engine, peer);
	if (!connection)
		return error_set(THOLE_ERR_MEMORY, "no memory for another connection beside %u", engine->connections.live);
	asked = connection->connect_ns && connection->key == (uint32_t)key;
	if (connection->answered || asked)
		return 0;
	connection->key = (uint32_t)key;
	if (connection->state == CONNECTION_NEW)
		return 0; /* engine_connect asks */
	connection->wish = numbers_wish(engine);
	connection->attempt = 0;
	connect_try(connection);
	return 0;
}

/* Take over what a CONNECT or ACCEPT says of the other side. False: it contradicts what we know. */
static bool connect_learn(struct connection *connection, const struct packet_connect *connect, unsigned link)
{
	struct engine *engine = connection->engine;
	struct route *route = &connection->route[link];

	if (engine->numbers)
		connection->host_index = (uint16_t)connect->index;
	if (connection->peer_session)
		return connection->peer_session == connect->session;
	connection->peer_session = connect->session;
	if (engine->numbers) {
		if (connection->state == CONNECTION_NEW && connection->former_session != connect->session)
			connection->epoch_in = 0; /* it knows of none before */
		return true;
	}
	connection->peer_index = connect->index;
	if (connection->next_out == 1)
		connection->next_out = connect->next;
	if (connect->bulk_port) {
		route->bulk.bytes[16] = (uint8_t)(connect->bulk_port >> 8);
		route->bulk.bytes[17] = (uint8_t)(connect->bulk_port & 0xff);
	}
	for (unsigned i = 0; i < engine->link_count; i++) {
		struct path path = {0};

		if (!engine->links[i]->ethertype || engine->links[i]->ethertype != connect->ethertype)
			continue;
		raw_path(connect->mac, connect->endpoint, &path);
		route_learn(connection, i, &path);
	}
	return true;
}

static void connection_open(struct connection *connection)
{
	bool fresh = connection->state != CONNECTION_OPEN;

	if (connection->state == CONNECTION_NEW)
		connection_begin(connection);
	connection->state = CONNECTION_OPEN;
	sequence_ready(connection);
	connection->heard_ns = connection->engine->now_ns;
	if (fresh && !connection->engine->numbers)
		peer_connected(connection->peer, 0);
}

static void accept_send(struct engine *engine, struct link *link, const struct path *to, struct connection *connection,
			const struct packet *asked, size_t length, enum connect_status status)
{
	struct packet packet = {.type = PACKET_ACCEPT};

	if (connection)
		connect_packet(connection, &packet, PACKET_ACCEPT, link);
	else
		connect_describe(engine, &packet, link);
	packet.to = asked->connect.index;
	packet.session = asked->connect.session;
	packet.connect.target = asked->connect.endpoint;
	packet.connect.seen = (uint16_t)length;
	packet.connect.attempt = asked->connect.attempt;
	packet.connect.status = (uint8_t)status;
	if (engine->numbers)
		numbers_connect(engine, &packet, asked);
	packet.connect.proof = engine->numbers ? 0 : connect_proof(engine, &packet);
	engine_post(engine, (uint8_t)link->index, to, &packet, 0);
}

/* The peer that a CONNECT is of, made if it is the first word of it. */
static struct peer *connect_peer(struct engine *engine, const struct packet_connect *connect)
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

/* The peer takes records from this number on. */
static void accept_begin(struct connection *connection, uint32_t next)
{
	const struct codec *codec = connection->engine->codec;

	connection->next_out = sequence_narrow(codec, next);
	connection->epoch = next ^ connection->next_out;
	connection->credit = codec->ahead_max;
}

/* Does a CONNECT come from where its sender says that it is? The proof covers what it says; a copy of it that somebody else
 * sends must not make him the one who gets the answers. */
static bool connect_from(const struct connection *connection, const struct packet_connect *connect, const struct link *link,
			 const struct path *from)
{
	struct path path = {0};

	if (link->ethertype)
		raw_path(connect->mac, connect->endpoint, &path);
	else if (!connect_route(&connection->peer->parts, link, &path))
		return false;
	return memcmp(&path, from, sizeof(path)) == 0;
}

void connect_arrived(struct engine *engine, struct link *link, const struct path *from, const struct packet *packet,
		     size_t length)
{
	const struct packet_connect *connect = &packet->connect;
	struct connection *connection;
	struct peer *peer;

	if (!engine->numbers && connect->target != engine->endpoint->parts.endpoint) {
		nack_send(engine, link, from, NACK_BAD_ENDPOINT, connect->session, 0);
		return;
	}
	if (connect->proof != connect_expected(engine, packet) || connect->session == 0) {
		engine_count(engine, COUNTER_DROPPED_STRANGER);
		connection = engine->numbers ? numbers_known(engine, link, from, packet) : NULL;
		accept_send(engine, link, from, connection, packet, length, CONNECT_BAD_KEY);
		return;
	}
	peer = engine->numbers ? numbers_peer(engine, link, from, packet) : connect_peer(engine, connect);
	connection = peer ? connection_get(engine, peer) : NULL;
	if (!connection) {
		engine_count(engine, COUNTER_DROPPED_FULL);
		return;
	}
	if (connection->state == CONNECTION_DEAD) {
		nack_send(engine, link, from, NACK_CLOSED, connect->session, 0);
		return;
	}
	if (!engine->numbers && !connect_from(connection, connect, link, from)) {
		engine_count(engine, COUNTER_DROPPED_STRANGER);
		return;
	}
	route_learn(connection, link->index, from);
	if (!connect_learn(connection, connect, link->index)) {
		engine_count(engine, COUNTER_DROPPED_SESSION);
		return;
	}
	/* An epoch in a CONNECT may not be the last word: hosts say another one when they answer ours. */
	if (engine->numbers && connection->credit == 0 && sequence_narrow(engine->codec, connect->next) == connect->next)
		accept_begin(connection, connect->next);
	connection_open(connection);
	if (length > connection->route[link->index].frame_in)
		connection->route[link->index].frame_in = (uint32_t)length;
	accept_send(engine, link, from, connection, packet, length, CONNECT_OK);
	engine_count(engine, COUNTER_ACCEPTS);
	if (!connection->answered && connection->connect_ns == 0)
		connect_try(connection);
}

/* Whom an ACCEPT answers. */
static struct connection *accept_connection(struct engine *engine, const struct link *link, const struct path *from,
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
static void accept_refused(struct connection *connection, const struct packet_connect *connect)
{
	bool numbers = connection->engine->numbers;

	if (connection->answered || (numbers && connect->attempt != connection->wish))
		return; /* somebody else is saying so, or it was another key */
	if (!connection->peer_session) {
		connection_lost(connection, THOLE_ERR_ACCESS);
	} else if (numbers) {
		connection->connect_ns = 0;
		if (connection->credit == 0)
			accept_begin(connection, connect->next);
		connection_open(connection);
		connection_dirty(connection);
		peer_connected(connection->peer, THOLE_ERR_ACCESS);
	}
}

void accept_arrived(struct engine *engine, struct link *link, const struct path *from, const struct packet *packet)
{
	const struct packet_connect *connect = &packet->connect;
	struct connection *connection = accept_connection(engine, link, from, packet);
	struct route *route;

	if (!connection || connection->state == CONNECTION_DEAD || connection->state == CONNECTION_NEW) {
		engine_count(engine, COUNTER_DROPPED_SESSION);
		return;
	}
	if (connect->status != CONNECT_OK) {
		accept_refused(connection, connect);
		return;
	}
	if (connect->proof != connect_expected(engine, packet) || connect->session == 0 || connect->seen > engine->frame_max) {
		engine_count(engine, COUNTER_DROPPED_STRANGER);
		return;
	}
	route = &connection->route[link->index];
	if (!route->known || !connect_learn(connection, connect, link->index)) {
		engine_count(engine, COUNTER_DROPPED_SESSION);
		return;
	}
	if (engine->numbers && connection->credit == 0)
		accept_begin(connection, connect->next);
	connection_open(connection);
	if (connect->seen >= ENGINE_FRAME_MIN && connect->seen > route->frame_max)
		route->frame_max = connect->seen;
	if (!connection->answered) {
		engine_count(engine, COUNTER_CONNECTS);
		connection->answered = true;
		connection->connect_ns = 0;
		peer_connected(connection->peer, 0);
		connect_try(connection); /* by the other link */
	} else if (link->index == engine->record_link) {
		connection->record_link = engine->record_link;
		connection->lost_in_row = 0;
	}
	connection_dirty(connection);
}

/* ---- The end -------------------------------------------------------------------------------------------------- */

/* Whether all that was sent before the CLOSE is here. */
static bool close_is_complete(const struct connection *connection)
{
	return (int32_t)(connection->closing - connection->next_in) <= 0;
}

/* It may have overtaken records, which lie in another link's memory: they get a little time. */
void close_arrived(struct connection *connection, const struct packet *packet)
{
	uint64_t now_ns = connection->engine->now_ns;

	connection->closing = packet->sequence;
	if (close_is_complete(connection)) {
		connection_lost(connection, THOLE_ERR_PEER);
		return;
	}
	if (connection->closing_ns == 0)
		connection->closing_ns = now_ns + CLOSE_WAIT_NS;
	connection_wake(connection, now_ns + CLOSE_LOOK_NS);
}

void engine_close(struct engine *engine)
{
	for (uint32_t i = 0; i < engine->connections.capacity; i++) {
		struct connection *connection = pool_at(&engine->connections, i);
		struct packet packet;

		if (!pool_is_live(&engine->connections, connection) || connection->state != CONNECTION_OPEN)
			continue;
		connection_packet(connection, &packet, PACKET_CLOSE);
		packet.sequence = connection->next_out;
		sequence_report(connection, &packet);
		engine_post(engine, connection->bulk_link, &connection->route[connection->bulk_link].records, &packet, 0);
	}
	burst_send(engine, 0);
}

void nack_send(struct engine *engine, struct link *link, const struct path *to, enum nack_reason reason, uint64_t refused,
	       uint64_t transfer)
{
	struct packet packet = {.type = PACKET_NACK, .to = PACKET_TO_NONE};

	packet.nack.reason = (uint8_t)reason;
	packet.nack.refused = refused;
	packet.nack.transfer = transfer;
	engine_count(engine, COUNTER_NACKS_SENT);
	engine_post(engine, (uint8_t)link->index, to, &packet, 0);
}

void nack_arrived(struct engine *engine, struct link *link, const struct path *from, const struct packet *packet)
{
	struct connection *connection = connection_by_path(engine, link, from), *next;

	engine_count(engine, COUNTER_NACKS_RECEIVED);
	for (; connection; connection = next) {
		uint64_t known = packet->nack.reason == NACK_BAD_ENDPOINT || !connection->peer_session ? connection->session
												       : connection->peer_session;

		next = connection_next_by_path(connection, link, from);
		if (connection->state == CONNECTION_DEAD ||
		    (packet->nack.refused != known && packet->nack.refused != connection->session))
			continue;
		if (packet->nack.reason == NACK_BAD_WINDOW)
			pull_nacked(connection, packet->nack.transfer);
		else
			connection_lost(connection, THOLE_ERR_PEER);
	}
}

void engine_refused(struct engine *engine, struct link *link, const struct path *to)
{
	struct connection *connection = connection_by_path(engine, link, to), *next;

	for (; connection; connection = next) {
		next = connection_next_by_path(connection, link, to);
		if (connection->state != CONNECTION_DEAD)
			connection_lost(connection, THOLE_ERR_PEER);
	}
}

void engine_shrink(struct engine *engine, struct link *link, const struct path *to, uint32_t frame_max)
{
	struct connection *connection = connection_by_path(engine, link, to);

	if (frame_max < ENGINE_FRAME_MIN)
		frame_max = ENGINE_FRAME_MIN;
	for (; connection; connection = connection_next_by_path(connection, link, to)) {
		struct route *route = &connection->route[link->index];

		if (route->frame_max <= frame_max)
			continue;
		route->frame_max = frame_max;
		engine_count(engine, COUNTER_FRAME_SHRINKS);
	}
}

/* ---- Is it there? ------------------------------------------------------------------------------------------------ */

/* A receive that is posted for one source waits for that peer, though nothing may be under way. */
static void connection_watch(struct engine *engine, struct peer *peer)
{
	struct connection *connection;

	if (peer->gone || peer->transport != &datagram_transport)
		return;
	if (!peer->connected && message_reach(peer) != 0)
		return;
	connection = connection_of(peer);
	connection->watched = true;
	if (connection->checked_ns == 0)
		connection_wake(connection, engine->now_ns);
}

void engine_watch(struct engine *engine)
{
	struct thole_endpoint *endpoint = engine->endpoint;

	for (uint32_t i = 0; i < engine->connections.capacity; i++) {
		struct connection *connection = pool_at(&engine->connections, i);

		if (pool_is_live(&engine->connections, connection))
			connection->watched = false;
	}
	for (int queue = 0; queue < MATCH_QUEUES; queue++) {
		struct match_receive *receive = NULL;

		while ((receive = match_receive_next(&endpoint->match[queue], receive)))
			if (receive->source != THOLE_ANY)
				connection_watch(engine, endpoint->peers[receive->source]);
	}
}

static bool connection_pending(const struct connection *connection)
{
	return connection->state == CONNECTION_CONNECTING || (connection->connect_ns && !connection->answered) ||
	       !list_empty(&connection->unacked) || connection->outstanding > 0 || connection->held_count > 0 ||
	       connection->peer->stream.left > 0 ||
	       connection->watched || !list_empty(&connection->peer->pending) || !list_empty(&connection->fetches);
}

/* Ask the peer's host. True: it lives. */
static bool connection_ask(struct connection *connection)
{
	struct engine *engine = connection->engine;
	struct link *link = engine->links[connection->bulk_link];
	enum link_fate fate;

	if (!link->calls->fate)
		return false;
	if (!connection->asking)
		engine_count(engine, COUNTER_PEERS_ASKED_AFTER);
	fate = link->calls->fate(link, &connection->route[connection->bulk_link].records);
	connection->asking = true;
	if (fate == LINK_GONE)
		connection_lost(connection, THOLE_ERR_PEER);
	return fate == LINK_ALIVE;
}

/* Time counts as silence only while we looked, and only while something was pending. */
static uint64_t connection_check(struct connection *connection)
{
	struct engine *engine = connection->engine;
	uint64_t patience_ns = engine->endpoint->options.peer_timeout, now_ns = engine->now_ns;
	uint64_t turn_ns = patience_ns / 8 ? patience_ns / 8 : 1, since_ns;

	if (!connection_pending(connection)) {
		connection_ask_no_more(connection);
		connection->checked_ns = 0;
		connection->silence_ns = 0;
		return UINT64_MAX;
	}
	if (connection->checked_ns == 0 || connection->heard_ns > connection->checked_ns) {
		connection_ask_no_more(connection);
		connection->silence_ns = 0;
		connection->checked_ns = now_ns;
		return now_ns + turn_ns;
	}
	since_ns = now_ns - connection->checked_ns;
	if (connection->asking)
		turn_ns = FATE_NS < turn_ns ? FATE_NS : turn_ns;
	if (since_ns < turn_ns)
		return connection->checked_ns + turn_ns;
	connection->silence_ns += since_ns < 2 * turn_ns ? since_ns : 2 * turn_ns;
	connection->checked_ns = now_ns;
	if (connection->state == CONNECTION_OPEN && engine->numbers) {
		numbers_ask(connection);
	} else if (connection->state == CONNECTION_OPEN) {
		connection->ack_now = true; /* with PACKET_ANSWER: a host may answer that nobody is there */
		connection_dirty(connection);
	}
	if (connection->silence_ns >= patience_ns / 2 && connection_ask(connection))
		connection->silence_ns = 0;
	if (connection->state == CONNECTION_DEAD)
		return UINT64_MAX;
	if (connection->silence_ns >= patience_ns) {
		engine_count(engine, COUNTER_PEERS_SILENT);
		connection->peer->silent = true;
		connection_lost(connection, THOLE_ERR_PEER);
		return UINT64_MAX;
	}
	if (connection->asking && turn_ns > FATE_NS)
		turn_ns = FATE_NS;
	return now_ns + turn_ns;
}

uint64_t connection_expire(struct connection *connection)
{
	uint64_t next_ns;

	if (connection->closing_ns) {
		if (close_is_complete(connection) || connection->closing_ns <= connection->engine->now_ns) {
			connection_lost(connection, THOLE_ERR_PEER);
			return UINT64_MAX;
		}
		return connection->engine->now_ns + CLOSE_LOOK_NS;
	}
	if (connection->connect_ns && connection->connect_ns <= connection->engine->now_ns)
		connect_try(connection);
	next_ns = connection_check(connection);
	if (connection->state != CONNECTION_DEAD && connection->connect_ns && connection->connect_ns < next_ns)
		next_ns = connection->connect_ns;
	return next_ns;
}
