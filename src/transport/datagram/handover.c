/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handover: windows and fetches that a mover (mover.h) has instead of serve.c and pull.c, so that they get on while the
 * program computes. Pure.
 *
 * The engine keeps connections, records and the order of things; a mover only moves bytes of what it was handed. All
 * of a connection is taken back where the mover is gone, where the link for bulk is another one or its frames have got
 * shorter, and where nothing comes or a window is asked for in vain. Then a fetch begins anew as the engine's, with an
 * id of its own, so that nothing of the former one counts. Invariants: a fetch is either in pull.c's lists or here; a
 * window that is offered is one that its request still waits with; after a connection's end the mover knows nothing of
 * it.
 */
#include <errno.h>

#include "base/atomic.h"
#include "transport/datagram/connection.h"

void handover_init(struct engine *engine)
{
	pool_init(&engine->handovers, sizeof(struct handover), 4, ENGINE_CONNECTIONS_MAX);
	pool_init(&engine->offer_pool, sizeof(struct handover_window), 16, ENGINE_TRANSFERS_MAX);
	list_init(&engine->offers);
}

void handover_fini(struct engine *engine)
{
	pool_fini(&engine->handovers);
	pool_fini(&engine->offer_pool);
}

/* ---- Connections ---------------------------------------------------------------------------------------- */

/* Frame by frame, by the engine. */
static bool handover_is_barred(const struct engine *engine)
{
	return engine->checksums || engine->owner->options.inject_loss;
}

bool handover_moves(const struct engine *engine)
{
	bool moves = false;

	for (unsigned i = 0; i < engine->link_count; i++)
		moves |= engine->links[i]->mover != NULL;
	return moves && !handover_is_barred(engine);
}

/* The mover of the link by which the peer's bulk goes; NULL: none, or not that way now. */
static struct mover *handover_mover(const struct connection *connection)
{
	const struct engine *engine = connection->engine;

	if (handover_is_barred(engine))
		return NULL;
	return connection->routes.aside ? NULL : engine->links[connection->routes.use[LINK_BULK]]->mover;
}

static struct handover *handover_of(struct connection *connection)
{
	struct handover *handover = connection->handover;

	if (handover)
		return handover;
	handover = pool_get(&connection->engine->handovers);
	if (!handover)
		return NULL;
	*handover = (struct handover){.again_ns = 0};
	list_init(&handover->offers);
	list_init(&handover->moved);
	connection->handover = handover;
	return handover;
}

/* A mover that knows this connection; NULL: there is none now. */
static struct handover *handover_ready(struct connection *connection)
{
	struct engine *engine = connection->engine;
	struct mover *mover = handover_mover(connection);
	struct handover *handover = mover ? handover_of(connection) : NULL;
	uint8_t link = connection->routes.use[LINK_BULK];
	struct mover_peer peer = {
		.session = connection->session,
		.peer_session = connection->peer_session,
		.index = connection->index,
		.peer_index = connection->peer_index,
		.number = connection->names.number,
		.records = &connection->route[link].records,
		.bulk = &connection->route[link].bulk,
		.guard = connection->guard,
		.frame_max = connection->route[link].frame_max,
		.credit = pull_credit(engine),
	};

	if (!handover || connection->state != CONNECTION_OPEN || engine->now_ns < handover->again_ns)
		return NULL;
	if (handover->mover)
		return handover;
	if (connection->guard && connection->guard->mode != GUARD_HEADS)
		return NULL;
	if (mover->calls->connect(mover, &peer, &handover->id, &handover->way) != 0) {
		handover->again_ns = engine->now_ns + HANDOVER_AGAIN_NS;
		return NULL;
	}
	handover->mover = mover;
	handover->link = link;
	handover->frame_max = (uint16_t)peer.frame_max;
	handover->heard = load_relaxed(&handover->way->heard);
	if (connection->guard)
		connection->guard->shared = &handover->way->counter;
	arrival_tell(connection);
	return handover;
}

void handover_opened(struct connection *connection)
{
	const struct mover *mover = handover_mover(connection);

	if (mover && mover->keeps)
		handover_ready(connection);
}

/* The mover forgets the connection. */
static void handover_leave(struct connection *connection)
{
	struct handover *handover = connection->handover;
	struct list_node *node;

	while ((node = list_first(&handover->offers))) {
		list_remove(node);
		pool_put(&connection->engine->offer_pool, container_of(node, struct handover_window, node));
	}
	if (!handover->mover)
		return;
	handover->mover->calls->disconnect(handover->mover, handover->id);
	if (connection->guard) {
		connection->guard->counter = load_relaxed(&handover->way->counter);
		connection->guard->shared = NULL;
	}
	handover->mover = NULL;
}

void handover_back(struct connection *connection)
{
	struct handover *handover = connection->handover;
	struct list_node *node;

	if (!handover || !handover->mover)
		return;
	handover_leave(connection);
	while ((node = list_first(&handover->moved))) {
		list_remove(node);
		engine_count(connection->engine, COUNTER_BULK_TAKEN_BACK);
		pull_anew(container_of(node, struct fetch, blocks.node));
	}
}

void handover_reroute(struct connection *connection)
{
	const struct handover *handover = connection->handover;

	if (handover && handover->mover &&
	    (handover_mover(connection) != handover->mover ||
	     connection->route[handover->link].frame_max != handover->frame_max))
		handover_back(connection);
}

void handover_report(struct connection *connection, const struct packet *packet)
{
	if (!connection->handover->mover)
		return;
	store_relaxed(&connection->handover->way->ack, packet->ack);
	store_relaxed(&connection->handover->way->credit, packet->credit);
	store_relaxed(&connection->handover->way->host_index, connection->names.host_index);
	if (connection->guard)
		store_relaxed(&connection->handover->way->epoch, guard_epoch(connection->guard));
}

void handover_end(struct connection *connection)
{
	struct engine *engine = connection->engine;
	struct list_node *node = list_first(&engine->offers), *next;

	for (; node; node = next) {
		struct handover_window *offer = container_of(node, struct handover_window, node);

		next = list_next(&engine->offers, node);
		if (offer->connection != connection)
			continue;
		list_remove(node);
		pool_put(&engine->offer_pool, offer);
	}
	if (!connection->handover)
		return;
	handover_leave(connection);
	while ((node = list_first(&connection->handover->moved)))
		pull_lost(container_of(node, struct fetch, blocks.node));
	pool_put(&engine->handovers, connection->handover);
	connection->handover = NULL;
}

/* It does not get on: for some time everything is the engine's. */
static void handover_stalls(struct connection *connection)
{
	struct handover *handover = connection->handover;

	handover->again_ns = connection->engine->now_ns + ((uint64_t)HANDOVER_AGAIN_NS << handover->stalls);
	if (handover->stalls < HANDOVER_AGAIN_MAX)
		handover->stalls++;
	handover_back(connection);
}

/* What it has is looked at now and then. */
static void handover_watch(struct connection *connection)
{
	connection_wake(connection, connection->engine->now_ns + HANDOVER_LOOK_NS);
}

/* ---- Windows -------------------------------------------------------------------------------------------- */

void handover_note(struct connection *connection, const struct record *record)
{
	struct engine *engine = connection->engine;
	struct handover_window *offer;
	const struct mover *mover = handover_mover(connection);
	struct window window;

	window_load(&window, record);
	if (!mover || window.length < mover->least)
		return;
	offer = pool_get(&engine->offer_pool);
	if (!offer)
		return;
	*offer = (struct handover_window){
		.connection = connection,
		.window = engine->naming->request(connection, window.id),
		.name = window.id,
	};
	list_push_back(&engine->offers, &offer->node);
}

void handover_offer(struct engine *engine)
{
	struct list_node *node;

	while ((node = list_first(&engine->offers))) {
		struct handover_window *offer = container_of(node, struct handover_window, node);
		struct connection *connection = offer->connection;
		const struct vector *memory = engine->owner->up->window(connection->peer, offer->window);
		struct handover *handover = memory ? handover_ready(connection) : NULL;

		list_remove(node);
		if (!handover || handover->mover->calls->offer(handover->mover, handover->id, offer->name, memory)) {
			pool_put(&engine->offer_pool, offer);
			continue;
		}
		engine_count(engine, COUNTER_BULK_HANDED_OVER);
		list_push_back(&handover->offers, &offer->node);
		if (handover->mover->keeps)
			handover_watch(connection);
	}
}

static struct handover_window *handover_find(const struct connection *connection, uint64_t window)
{
	const struct list_node *head = &connection->handover->offers;
	struct list_node *node;

	for (node = list_first(head); node; node = list_next(head, node))
		if (container_of(node, struct handover_window, node)->window == window)
			return container_of(node, struct handover_window, node);
	return NULL;
}

void handover_withdraw(struct connection *connection, uint64_t window)
{
	struct handover *handover = connection->handover;
	struct handover_window *offer = handover ? handover_find(connection, window) : NULL;

	if (!offer)
		return;
	handover->mover->calls->withdraw(handover->mover, handover->id, offer->name);
	list_remove(&offer->node);
	pool_put(&connection->engine->offer_pool, offer);
}

bool handover_serves(struct connection *connection, const struct packet *pull)
{
	struct handover_window *offer = connection->handover ? handover_find(connection, pull->pull.window) : NULL;
	uint64_t now_ns = connection->engine->now_ns, end;

	if (!offer)
		return false;
	if (connection->routes.heard != connection->handover->link || (pull->flags & PACKET_ASIDE) ||
	    connection->handover->mover->keeps)
		return false; /* the mover has not seen it */
	end = pull->pull.offset + pull->pull.length;
	if (end > offer->asked) {
		offer->asked = end;
		offer->asked_ns = now_ns;
		offer->repeats = 0;
		return true;
	}
	if (++offer->repeats < HANDOVER_REPEATS || now_ns - offer->asked_ns < HANDOVER_REPEATS_NS)
		return true;
	handover_withdraw(connection, offer->window);
	engine_count(connection->engine, COUNTER_BULK_TAKEN_BACK);
	return false;
}

/* ---- Fetches -------------------------------------------------------------------------------------------- */

bool handover_fetch(struct fetch *fetch)
{
	struct connection *connection = fetch->connection;
	struct engine *engine = connection->engine;
	const struct mover *mover = handover_mover(connection);
	struct handover *handover =
		mover && fetch->blocks.length >= mover->least ? handover_ready(connection) : NULL;
	struct mover_fetch moved = {
		.into = fetch->job->vector,
		.window = fetch->job->window.id,
		.transfer = engine->naming->transfer(engine, pull_id(engine, fetch)),
		.id = pull_id(engine, fetch),
		.length = fetch->blocks.length,
		.frame = fetch->blocks.frame,
	};

	if (!handover)
		return false;
	moved.connection = handover->id;
	if (handover->mover->calls->fetch(handover->mover, &moved) != 0)
		return false;
	engine_count(engine, COUNTER_BULK_HANDED_OVER);
	if (list_empty(&handover->moved))
		handover->heard_ns = engine->now_ns;
	fetch->moved = true;
	list_push_back(&handover->moved, &fetch->blocks.node);
	handover_watch(connection);
	return true;
}

void handover_cancel(struct fetch *fetch)
{
	struct handover *handover = fetch->connection->handover;
	struct engine *engine = fetch->connection->engine;

	if (handover->mover)
		handover->mover->calls->cancel(handover->mover, handover->id,
					       engine->naming->transfer(engine, pull_id(engine, fetch)));
	list_remove(&fetch->blocks.node);
}

/* A mover's: a fetch is over. */
static void handover_fetched(struct engine *engine, uint64_t id, int status)
{
	struct fetch *fetch = pull_by_id(engine, id);
	struct handover *handover;

	if (!fetch || !fetch->moved)
		return;
	handover = fetch->connection->handover;
	list_remove(&fetch->blocks.node);
	if (status) {
		engine_count(engine, COUNTER_BULK_TAKEN_BACK);
		pull_anew(fetch);
		return;
	}
	handover->stalls = 0;
	handover->heard_ns = engine->now_ns;
	fetch->connection->silence.heard_ns = fetch->connection->pull.fed_ns = engine->now_ns;
	pull_moved(fetch);
}

/* ---- Now and then --------------------------------------------------------------------------------------- */

static void handover_lost(struct engine *engine, uint32_t index, uint64_t name)
{
	struct connection *connection = pool_at(&engine->connections, index);

	if (!connection || !pool_is_live(&engine->connections, connection))
		return;
	engine_count(engine, COUNTER_BULK_TAKEN_BACK);
	handover_withdraw(connection, engine->naming->request(connection, name));
}

unsigned handover_poll(struct engine *engine)
{
	static const struct mover_reports reports = {.fetched = handover_fetched, .lost = handover_lost};
	unsigned n = 0;

	for (unsigned i = 0; i < engine->link_count; i++)
		if (engine->links[i]->mover)
			n += engine->links[i]->mover->calls->poll(engine->links[i]->mover, &reports, engine);
	return n;
}

/* Whether it has something of which the engine sees no frames. */
static bool handover_has(const struct handover *handover)
{
	return !list_empty(&handover->moved) || (handover->mover->keeps && !list_empty(&handover->offers));
}

/* A peer that is asked again after a fixed time may be so twice, and say nothing before. */
static uint64_t handover_patience(const struct connection *connection)
{
	return HANDOVER_STALL_NS + 2 * connection->engine->codec->pull_ns;
}

uint64_t handover_expire(struct connection *connection)
{
	struct handover *handover = connection->handover;
	uint64_t now_ns = connection->engine->now_ns, heard;

	if (!handover || !handover->mover || !handover_has(handover))
		return UINT64_MAX;
	heard = load_relaxed(&handover->way->heard);
	if (heard != handover->heard) {
		handover->heard = heard;
		handover->heard_ns = connection->pull.fed_ns = connection->silence.heard_ns = now_ns;
	} else if (!list_empty(&handover->moved) && now_ns - handover->heard_ns >= handover_patience(connection)) {
		handover_stalls(connection);
		return UINT64_MAX;
	}
	return now_ns + HANDOVER_LOOK_NS;
}
