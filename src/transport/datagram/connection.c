/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connection: one peer: how it is found, what wakes its timer, and its end. Pure.
 *
 * What it says, and what it is told, is of the files whose names the parts of struct connection have. Invariants: a
 * connection at rest is in no list and has no timer; it stays as long as its peer does, so that late frames find it
 * and are told. Where only a path and a number say whose a frame is, they find the latest that had these.
 */
#include <string.h>

#include "transport/datagram/burst.h"
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

struct connection **connection_bucket(struct engine *engine, unsigned link, const struct path *path)
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

void connection_hide(struct connection *connection, const struct link *link)
{
	const struct path *path = &connection->route[link->index].records;
	struct connection **at = connection_bucket(connection->engine, link->index, path);

	while (*at != connection)
		at = &(*at)->route[link->index].next;
	*at = connection->route[link->index].next;
}

struct connection *connection_by_index(struct engine *engine, uint32_t index, uint64_t session)
{
	struct connection *connection = pool_at(&engine->connections, index);

	return connection && pool_is_live(&engine->connections, connection) && connection->session == session
		       ? connection
		       : NULL;
}

/* ---- Beginning and end ---------------------------------------------------------------------------------- */

struct connection *connection_get(struct engine *engine, struct transport_peer *peer)
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
	};
	memset(connection->route, 0, engine->link_count * sizeof(*connection->route));
	engine->naming->begin(connection);
	list_init(&connection->dirty_node);
	route_begin(connection);
	transmit_begin(connection);
	arrival_begin(connection);
	pull_begin(connection);
	serve_begin(connection);
	peer->link = connection;
	return connection;
}

void connection_begin(struct connection *connection)
{
	connection->engine->open++;
	connection->state = CONNECTION_CONNECTING;
	connection->silence.checked_ns = connection->silence.heard_ns = connection->engine->now_ns;
}

void connection_open(struct connection *connection)
{
	bool fresh = connection->state != CONNECTION_OPEN;

	if (connection->state == CONNECTION_NEW)
		connection_begin(connection);
	connection->state = CONNECTION_OPEN;
	transmit_ready(connection);
	if (!fresh) /* what has opened it may be a copy of what has opened it before */
		return;
	connection->silence.heard_ns = connection->engine->now_ns;
	connection->engine->naming->opened(connection);
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

	silence_end(connection);
	transmit_end(connection);
	arrival_end(connection);
	serve_end(connection);
	handover_end(connection);
	pull_end(connection);
	connection_unguard(connection);
	list_remove(&connection->dirty_node);
	connection->patient = false;
	heap_remove(&engine->timers, &connection->timer);
	route_end(connection);
	connection->handshake.connect_ns = 0;
}

void connection_lost(struct connection *connection, int status)
{
	connection->peer->owner->up->lost(connection->peer, status); /* calls connection_disconnect */
}

void connection_failed(struct connection *connection, int status)
{
	transport_trouble(connection->engine->owner);
	connection_lost(connection, status);
}

void connection_disconnect(struct engine *engine, struct transport_peer *peer)
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

/* ---- Time ----------------------------------------------------------------------------------------------- */

void connection_wake(struct connection *connection, uint64_t when_ns)
{
	if (connection->timer.place && when_ns >= connection->timer.key)
		return;
	heap_set(&connection->engine->timers, &connection->timer, when_ns);
	transport_rouse(connection->engine->owner, when_ns);
}

void connection_patient(struct connection *connection)
{
	if (connection->dirty_node.next != &connection->dirty_node)
		return;
	list_push_back(&connection->engine->patient, &connection->dirty_node);
	connection->patient = true;
	transport_rouse(connection->engine->owner, 0);
}

void connection_dirty(struct connection *connection)
{
	if (connection->patient)
		list_remove(&connection->dirty_node);
	connection->patient = false;
	if (connection->dirty_node.next == &connection->dirty_node)
		list_push_back(&connection->engine->dirty, &connection->dirty_node);
	transport_rouse(connection->engine->owner, 0);
}

uint64_t connection_expire(struct connection *connection)
{
	uint64_t next_ns, try_ns;

	if (connection->handshake.closing_looks)
		return handshake_expire_close(connection);
	if (connection->handshake.connect_ns && connection->handshake.connect_ns <= connection->engine->now_ns)
		handshake_ask(connection);
	try_ns = route_expire(connection);
	next_ns = silence_check(connection);
	if (connection->state == CONNECTION_DEAD)
		return next_ns;
	if (connection->handshake.connect_ns && connection->handshake.connect_ns < next_ns)
		next_ns = connection->handshake.connect_ns;
	return try_ns < next_ns ? try_ns : next_ns;
}

/* ---- Frames --------------------------------------------------------------------------------------------- */

void connection_packet(const struct connection *connection, struct packet *packet, enum packet_type type)
{
	memset(packet, 0, sizeof(*packet));
	packet->type = (uint8_t)type;
	packet->to = connection->peer_index;
	packet->from = connection->names.number;
	packet->peer_index = connection->names.host_index;
	packet->session = connection->peer_session;
	if (!connection->guard || type == PACKET_CONNECT || type == PACKET_ACCEPT)
		return;
	packet->guard = connection->guard;
	packet->flags = (uint8_t)guard_flags(connection->guard, type, 0);
}

enum guard_verdict connection_judge(struct connection *connection, const struct guard_frame *frames, unsigned count)
{
	unsigned flags = 0;

	if (connection->guard)
		return guard_check(connection->guard, connection->engine->codec, frames, count);
	for (unsigned i = 0; i < count; i++)
		flags |= frames[i].flags;
	return flags & (PACKET_TAGGED | PACKET_SEALED) ? GUARD_FORGED : GUARD_FINE;
}
