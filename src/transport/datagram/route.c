/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * route: the ways to a peer, one by each link of the engine. Pure.
 *
 * A route is unknown until the peer's path is: by its address, or by what its handshake tells. Then CONNECTs go by it,
 * until an ACCEPT shows that it works both ways, or there were enough. Each use has the link of the lowest rank that
 * works. A link that loses frame after frame, which arrive once another repeats them, is left and tried again later:
 * so every link is fallen back from and returned to alike. Invariants: what is used works, unless none does; the last
 * one that works is not left.
 */
#include "transport/datagram/connection.h"

/* ---- Which one is used ---------------------------------------------------------------------------------- */

/* The first by rank that works. */
static uint8_t route_best(const struct connection *connection, enum link_use use)
{
	const struct engine *engine = connection->engine;

	for (unsigned i = 0; i < engine->order_count[use]; i++)
		if (connection->route[engine->order[use][i]].frame_max > 0)
			return engine->order[use][i];
	return connection->routes.use[LINK_CONNECT];
}

/* The one for bulk if none had been left. */
static uint8_t route_usual(const struct connection *connection)
{
	const struct engine *engine = connection->engine;

	for (unsigned i = 0; i < engine->order_count[LINK_BULK]; i++) {
		const struct route *route = &connection->route[engine->order[LINK_BULK][i]];

		if (route->frame_max > 0 || route->left)
			return engine->order[LINK_BULK][i];
	}
	return connection->routes.use[LINK_CONNECT];
}

static void route_choose(struct connection *connection)
{
	struct routes *routes = &connection->routes;
	uint32_t least = UINT32_MAX;

	routes->working = 0;
	for (unsigned i = 0; i < connection->engine->link_count; i++) {
		uint32_t max = connection->route[i].frame_max;

		routes->working = (uint8_t)(routes->working + (max > 0));
		if (max > 0 && max < least)
			least = max;
	}
	routes->frame = least != UINT32_MAX ? least : ENGINE_FRAME_MIN;
	routes->use[LINK_RECORDS] = route_best(connection, LINK_RECORDS);
	routes->use[LINK_BULK] = route_best(connection, LINK_BULK);
	routes->aside = routes->use[LINK_BULK] != route_usual(connection);
	handover_reroute(connection);
}

uint8_t route_other(const struct connection *connection, uint8_t usual, unsigned turn, uint32_t length)
{
	const struct engine *engine = connection->engine;
	uint8_t others[ENGINE_LINKS_MAX];
	unsigned count = 0;

	for (uint8_t i = 0; i < engine->link_count; i++) {
		uint32_t max = connection->route[i].frame_max;

		if (i != usual && max > 0 && max >= length)
			others[count++] = i;
	}
	return count > 0 ? others[turn % count] : usual;
}

uint8_t route_serve(const struct connection *connection, bool aside)
{
	uint8_t heard = connection->routes.heard;

	return aside && connection->route[heard].known ? heard : route_usual(connection);
}

/* ---- What is learnt of one ------------------------------------------------------------------------------ */

void route_begin(struct connection *connection)
{
	connection->routes.frame = ENGINE_FRAME_MIN;
	for (enum link_use use = 0; use < LINK_USES; use++)
		connection->routes.use[use] = connection->engine->order[LINK_CONNECT][0];
}

void route_reach(struct connection *connection, unsigned link, const struct path *path)
{
	struct engine *engine = connection->engine;
	struct route *route = &connection->route[link];
	struct connection **bucket;
	bool first = true;

	if (route->known)
		return;
	for (unsigned i = 0; i < engine->link_count; i++)
		first &= !connection->route[i].known;
	bucket = connection_bucket(engine, link, path);
	route->records = route->bulk = *path;
	route->known = true;
	if (engine->codec->data) /* frames have the lengths that the codec wants */
		route->frame_max = route->frame_in = (uint16_t)engine->frame_max;
	route->next = *bucket;
	*bucket = connection;
	if (first)
		connection->routes.use[LINK_CONNECT] = (uint8_t)link;
	route_choose(connection);
}

/* The port of DATA is told by each link for itself. */
void route_hear(struct connection *connection, unsigned link, const struct packet_connect *connect)
{
	struct route *route = &connection->route[link];

	if (!route->heard && connect->bulk_port) {
		route->bulk.bytes[16] = (uint8_t)(connect->bulk_port >> 8);
		route->bulk.bytes[17] = (uint8_t)(connect->bulk_port & 0xff);
	}
	route->heard = true;
}

/* A CONNECT can be copied, too: one from before the newest says nothing about lengths. The first one that comes
 * has any number. */
void route_arrive(struct connection *connection, unsigned link, const struct packet_connect *connect, size_t length)
{
	struct route *route = &connection->route[link];
	unsigned number = connect->attempt / ENGINE_LINKS_MAX;

	if (route->frame_in > 0 && (unsigned)(number - route->newest) % ROUTE_NUMBERS >= ROUTE_NUMBERS / 2)
		return;
	route->newest = number % ROUTE_NUMBERS;
	if (connect->seen < ENGINE_FRAME_MIN) {
		if (length > route->frame_in)
			route->frame_in = (uint16_t)length;
	} else if (connect->seen < route->frame_in) {
		route->frame_in = connect->seen;
		if (link == connection->routes.use[LINK_BULK])
			pull_narrow(connection);
	}
}

/* An ACCEPT can be copied, also to another link. So its number says by which one it was asked for, and when. Before the
 * first one there is nothing to copy. */
uint8_t route_ask(struct connection *connection, unsigned link)
{
	struct route *route = &connection->route[link];

	route->asked = (route->asked + 1u) % ROUTE_NUMBERS;
	if (route->counting < ROUTE_NUMBERS_OUT)
		route->counting++;
	return (uint8_t)(route->asked * ENGINE_LINKS_MAX + link);
}

bool route_asked(const struct connection *connection, unsigned link, uint8_t number)
{
	const struct route *route = &connection->route[link];
	unsigned ago = (unsigned)(route->asked - number / ENGINE_LINKS_MAX) % ROUTE_NUMBERS;

	return number % ENGINE_LINKS_MAX == link && (ago < route->counting || !connection->handshake.answered);
}

void route_work(struct connection *connection, unsigned link, uint32_t seen)
{
	struct route *route = &connection->route[link];

	if (route->narrow) /* it knows */
		route->try_ns = 0;
	route->narrow = false;
	if (seen < ENGINE_FRAME_MIN || seen <= route->frame_max)
		return;
	route->frame_max = (uint16_t)seen;
	route->left = false;
	route->lost_in_row = 0;
	route_choose(connection);
	if (link == connection->routes.use[LINK_BULK])
		connection->silence.starved = 0;
}

void route_shrink(struct connection *connection, unsigned link, uint32_t frame_max, bool bulk)
{
	struct route *route = &connection->route[link];

	if (route->frame_max > frame_max) {
		route->frame_max = (uint16_t)frame_max;
		route->counting = 0;
		engine_count(connection->engine, COUNTER_FRAME_SHRINKS);
		route_choose(connection);
	} else if (!bulk || route->frame_max == 0 || (route->narrow && route->try_ns)) {
		return; /* the peer knows, as far as we know, or is being told */
	}
	if (connection->engine->codec->data) /* its frames have their lengths by themselves */
		return;
	route->narrow = true;
	route->tries = 0;
	route->try_ns = connection->engine->now_ns;
	connection_wake(connection, route->try_ns);
}

/* ---- Links that lose ------------------------------------------------------------------------------------ */

void route_leave(struct connection *connection, unsigned link)
{
	struct route *route = &connection->route[link];

	route->lost_in_row = 0;
	if (route->frame_max == 0 || connection->routes.working < 2)
		return;
	engine_count(connection->engine, COUNTER_LINK_FALLBACKS);
	route->counting = 0;
	route->narrow = false;
	route->frame_max = 0;
	route->left = true;
	route->tries = 0;
	route->later = false;
	route->try_ns = connection->engine->now_ns + FALL_BACK_NS;
	connection_wake(connection, route->try_ns);
	route_choose(connection);
}

void route_lose(struct connection *connection, unsigned link)
{
	connection->route[link].lost_ns = connection->engine->now_ns;
	if (++connection->route[link].lost_in_row >= LINK_LOSSES)
		route_leave(connection, link);
}

/* ---- CONNECTs by further links -------------------------------------------------------------------------- */

/* Where it leads to is the peer's word alone until something has come from there, so before that it gets short frames,
 * and none at all if it is not us who want the connection. */
void route_try(struct connection *connection, unsigned link)
{
	struct route *route = &connection->route[link];

	route->try_ns = 0;
	if (!route->narrow &&
	    (!route->known || route->frame_max > 0 || !(route->heard || connection->handshake.wanted) ||
	     (link == connection->routes.use[LINK_BULK] && !connection->handshake.answered)))
		return;
	if (route->tries >= PROBES_MAX) {
		if (route->left) {
			route->tries = 0; /* another round, later, and only if anything goes on then */
			route->later = true;
			route->try_ns = connection->engine->now_ns + FALL_BACK_NS;
		}
		return;
	}
	handshake_probe(connection, link, route->heard && !route->narrow, route->tries);
	route->try_ns = connection->engine->now_ns + ((uint64_t)PROBE_NS << route->tries++);
	connection_wake(connection, route->try_ns);
}

void route_try_all(struct connection *connection)
{
	for (unsigned i = 0; i < connection->engine->link_count; i++)
		if (connection->route[i].try_ns == 0)
			route_try(connection, i);
}

uint64_t route_expire(struct connection *connection)
{
	uint64_t now_ns = connection->engine->now_ns, next_ns = UINT64_MAX;

	for (unsigned i = 0; i < connection->engine->link_count; i++) {
		struct route *route = &connection->route[i];

		if (route->try_ns && route->try_ns <= now_ns)
			route_try(connection, i);
		if (route->try_ns && !(route->later && route->tries == 0) && route->try_ns < next_ns)
			next_ns = route->try_ns;
	}
	return next_ns;
}

void route_end(struct connection *connection)
{
	for (unsigned i = 0; i < connection->engine->link_count; i++)
		connection->route[i].try_ns = 0;
}
