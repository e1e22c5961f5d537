/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connection: handshake, the ways to a peer, whether it lives, and its end. Pure.
 *
 * Both sides send CONNECT, and each answers the other's with ACCEPT. A CONNECT says all that the other side has to know; the
 * ACCEPT adds how long a frame the path was seen to carry. It does not matter who begins, nor whether both do at once.
 *
 * A source address can be false. A CONNECT is answered with no more bytes than it has, each one by itself; all else waits until
 * a frame comes that repeats the session which our ACCEPT told, since only who is there has read that. Whom this endpoint wants
 * to reach it asks unasked.
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
	struct link *link = connection->engine->links[connection->engine->bulk_link];

	if (connection->asking && link->calls->fate_end)
		link->calls->fate_end(link, &connection->route[link->index].records);
	connection->asking = false;
}

static void connection_unguard(struct connection *connection)
{
	if (!connection->guard)
		return;
	guard_end(connection->guard);
	pool_put(&connection->engine->guards, connection->guard);
	connection->guard = NULL;
}

/* Off all lists and timers; it stays as long as its peer does, so that late frames find it and are told. */
static void connection_rest(struct connection *connection)
{
	struct engine *engine = connection->engine;

	connection_ask_no_more(connection);
	sequence_fini(connection);
	pull_lost(connection);
	connection_unguard(connection);
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

/* Over all that the packet says: who hears it can use it for nothing else. */
static uint64_t connect_proof(const struct engine *engine, const struct packet *packet)
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
	connect->integrity = (uint8_t)engine->integrity;
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

static void connect_send(struct connection *connection, unsigned link, uint32_t size)
{
	struct engine *engine = connection->engine;
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

/* By the link that reaches by route. Returns how long its answer is waited for. */
static uint64_t connect_ask(struct connection *connection)
{
	uint64_t wait_ns = CONNECT_RETRY_NS;

	connect_send(connection, connection->bulk_link, connect_size(connection, connection->bulk_link, connection->attempt));
	for (unsigned i = 0; i < connection->attempt && wait_ns < RESEND_MAX_NS; i++)
		wait_ns *= 2;
	if (connection->attempt < UINT8_MAX)
		connection->attempt++;
	return wait_ns;
}

/* By the other link, some times; 0: no more. Where it leads to is the peer's word alone until something has come from there, so
 * before that it gets short frames, and none at all if it is not us who want the connection. */
static uint64_t connect_probe(struct connection *connection)
{
	uint8_t other = (uint8_t)!connection->bulk_link;
	const struct route *route = &connection->route[other];

	if (connection->engine->link_count < 2 || !route->known || route->frame_max > 0 ||
	    connection->probes >= PROBES_MAX || !(route->heard || connection->wanted))
		return 0;
	connect_send(connection, other, route->heard ? connect_size(connection, other, connection->probes) : 0);
	return (uint64_t)PROBE_NS << connection->probes++;
}

/* The next CONNECT, if there is one to be sent. */
static void connect_try(struct connection *connection)
{
	uint64_t wait_ns = connection->answered ? connect_probe(connection) : connect_ask(connection);

	connection->connect_ns = wait_ns ? connection->engine->now_ns + wait_ns : 0;
	if (wait_ns)
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

bool connection_is_aside(const struct connection *connection)
{
	return connection->bulk_link != connection->engine->bulk_link;
}

void connection_aside(struct connection *connection)
{
	struct engine *engine = connection->engine;
	uint8_t other = (uint8_t)!engine->bulk_link;

	connection->starved = connection->wide_lost_in_row = 0;
	if (engine->link_count < 2 || connection_is_aside(connection) || connection->route[other].frame_max == 0)
		return;
	engine_count(engine, COUNTER_LINK_FALLBACKS);
	connection->route[engine->bulk_link].frame_max = 0;
	connection->bulk_link = connection->record_link = other;
	connection->probes = 0;
	connection->connect_ns = engine->now_ns + FALL_BACK_NS;
	connection_wake(connection, connection->connect_ns);
}

void connection_return(struct connection *connection)
{
	if (!connection_is_aside(connection) || connection->connect_ns)
		return;
	connection->probes = 0;
	connect_try(connection);
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
	connection->wanted = true;
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

/* From here on both sides' frames have tags, as the one wants that wants more. Errors: UNSUPPORTED, MEMORY. */
static int connection_guard(struct connection *connection, const struct packet_connect *connect)
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
	if (connection->next_out == SEQUENCE_FIRST)
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

/* A frame has our session, so it comes from who has read what we sent to that address. */
bool connection_proven(struct connection *connection)
{
	if (connection->state == CONNECTION_OPEN)
		return true;
	if (connection->state == CONNECTION_DEAD || !connection->peer_session || connection->engine->numbers)
		return false;
	connection_open(connection);
	if (!connection->answered && connection->connect_ns == 0)
		connect_try(connection); /* it knows our path, we not yet its */
	return connection->state == CONNECTION_OPEN;
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
	int error;

	if (!engine->numbers && connect->target != engine->endpoint->parts.endpoint) {
		nack_send(engine, link, from, NACK_BAD_ENDPOINT, connect->session);
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
		nack_send(engine, link, from, NACK_CLOSED, connect->session);
		return;
	}
	if (!engine->numbers && !connect_from(connection, connect, link, from)) {
		engine_count(engine, COUNTER_DROPPED_STRANGER);
		return;
	}
	error = connection_guard(connection, connect);
	if (error) {
		engine_count(engine, error == THOLE_ERR_UNSUPPORTED ? COUNTER_REFUSED : COUNTER_DROPPED_FULL);
		if (error == THOLE_ERR_UNSUPPORTED)
			accept_send(engine, link, from, NULL, packet, length, CONNECT_NO_GUARD);
		return;
	}
	route_learn(connection, link->index, from);
	if (!connect_learn(connection, connect, link->index)) {
		engine_count(engine, COUNTER_DROPPED_SESSION);
		return;
	}
	/* Anything but the beginning may be of another session or epoch: hosts say the right one when they answer ours. */
	if (engine->numbers && connection->credit == 0 && connect->next == SEQUENCE_FIRST)
		accept_begin(connection, connect->next);
	if (engine->numbers)
		connection_open(connection);
	connection->route[link->index].heard = true;
	if (length > connection->route[link->index].frame_in)
		connection->route[link->index].frame_in = (uint32_t)length;
	accept_send(engine, link, from, connection, packet, length, CONNECT_OK);
	engine_count(engine, COUNTER_ACCEPTS);
	if (packet->session == connection->session)
		connection_proven(connection);
	if (connection->state == CONNECTION_OPEN && connection->connect_ns == 0)
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
	if (connect->status == CONNECT_NO_GUARD && !numbers) { /* whatever its own CONNECT has said */
		connection_lost(connection, THOLE_ERR_UNSUPPORTED);
	} else if (!connection->peer_session) {
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
	if (connect->status != CONNECT_OK && connect->status != CONNECT_NO_GUARD) { /* who has no key proves nothing */
		accept_refused(connection, connect);
		return;
	}
	if (connect->proof != connect_expected(engine, packet) || connect->seen > engine->frame_max ||
	    (connect->session == 0) != (connect->status != CONNECT_OK)) {
		engine_count(engine, COUNTER_DROPPED_STRANGER);
		return;
	}
	if (connect->status != CONNECT_OK) {
		accept_refused(connection, connect);
		return;
	}
	if (connection_guard(connection, connect) != 0) {
		connection_lost(connection, THOLE_ERR_UNSUPPORTED);
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
	route->heard = true;
	if (connect->seen >= ENGINE_FRAME_MIN && connect->seen > route->frame_max)
		route->frame_max = connect->seen;
	if (!connection->answered) {
		engine_count(engine, COUNTER_CONNECTS);
		connection->answered = true;
		connection->ack_now = !engine->numbers; /* now it knows that we are where we say */
		peer_connected(connection->peer, 0);
		connect_try(connection); /* by the other link */
	} else if (route->frame_max == 0) {
		connect_try(connection); /* somebody is there: with longer ones */
	} else if (link->index == engine->record_link) {
		connection->record_link = engine->record_link;
		connection->lost_in_row = 0;
	} else {
		connection->bulk_link = engine->bulk_link;
		connection->wide_lost_in_row = connection->starved = 0;
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
		connection_lost(connection, THOLE_ERR_CLOSED);
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
	engine_post(engine, (uint8_t)link->index, to, &packet, 0);
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
	engine_post(engine, link, &connection->route[link].records, &packet, 0);
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

/* Ask the peer's process, and its host. */
static enum link_fate connection_ask(struct connection *connection)
{
	struct engine *engine = connection->engine;
	struct link *link = engine->links[engine->bulk_link];
	enum link_fate fate;

	if (!link->calls->fate)
		return LINK_UNKNOWN;
	if (!connection->asking)
		engine_count(engine, COUNTER_PEERS_ASKED_AFTER);
	fate = link->calls->fate(link, &connection->route[link->index].records, connection->peer->parts.endpoint);
	connection->asking = fate != LINK_ALIVE && fate != LINK_GONE;
	if (fate == LINK_GONE)
		connection_lost(connection, THOLE_ERR_PEER);
	return fate;
}

/* It has said nothing for so long, while something was pending and we looked. Half of peer_timeout is for asking. */
static void connection_silent(struct connection *connection, uint64_t waited_ns)
{
	enum link_fate fate = LINK_UNKNOWN;

	connection->silence_ns += waited_ns;
	if (connection->silence_ns >= connection->engine->endpoint->options.peer_timeout / 2)
		fate = connection_ask(connection);
	if (fate == LINK_ALIVE)
		connection->silence_ns = 0;
	else if (fate == LINK_HELD || fate == LINK_UNASKED)
		connection->silence_ns -= waited_ns - waited_ns / SLOW_SILENCE;
}

/* It does say things; but does what is under way get on? Bulk that was asked for, and records that were sent: each by itself, since
 * their turns need not fall into the same look. (With mxoe a record that nobody awaits may have to wait there.) True: not for so long
 * that it never will. */
static bool connection_stalls(struct connection *connection, uint64_t waited_ns)
{
	const struct engine *engine = connection->engine;
	const struct list_node *node = engine->codec->credited ? list_first(&connection->unacked) : NULL;
	const struct kept *kept = node ? container_of(node, struct kept, node) : NULL;
	uint32_t oldest = kept ? kept->sequence : connection->next_out;
	bool fed = connection->outstanding == 0 || connection->fed_ns >= connection->checked_ns;
	uint64_t patience_ns = engine->endpoint->options.peer_timeout;
	bool taken = !kept || kept->sent_ns == 0 || oldest != connection->stalled_at;

	connection->stalled_at = oldest;
	connection->unfed_ns = fed ? 0 : connection->unfed_ns + waited_ns;
	connection->untaken_ns = taken ? 0 : connection->untaken_ns + waited_ns;
	return connection->unfed_ns >= patience_ns || connection->untaken_ns >= patience_ns;
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
		connection->silence_ns = connection->unfed_ns = connection->untaken_ns = 0;
		return UINT64_MAX;
	}
	since_ns = connection->checked_ns ? now_ns - connection->checked_ns : 0;
	if (connection->checked_ns == 0 || connection->heard_ns > connection->checked_ns) {
		connection_ask_no_more(connection);
		if (connection_stalls(connection, since_ns < 2 * turn_ns ? since_ns : 2 * turn_ns)) {
			engine_count(engine, COUNTER_PEERS_STALLED);
			connection_lost(connection, THOLE_ERR_PEER);
			return UINT64_MAX;
		}
		connection->silence_ns = 0;
		connection->checked_ns = now_ns;
		return now_ns + turn_ns;
	}
	if (connection->asking)
		turn_ns = FATE_NS < turn_ns ? FATE_NS : turn_ns;
	if (since_ns < turn_ns)
		return connection->checked_ns + turn_ns;
	connection->checked_ns = now_ns;
	if (connection->state == CONNECTION_OPEN && engine->numbers) {
		numbers_ask(connection);
	} else if (connection->state == CONNECTION_OPEN) {
		connection->ack_now = true; /* with PACKET_ANSWER: a host may answer that nobody is there */
		connection_dirty(connection);
	}
	connection_silent(connection, since_ns < 2 * turn_ns ? since_ns : 2 * turn_ns);
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
			connection_lost(connection, close_is_complete(connection) ? THOLE_ERR_CLOSED : THOLE_ERR_PEER);
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
