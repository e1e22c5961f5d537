/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * silence: whether a silent peer lives, and whether one that is heard lets anything get on. Pure.
 *
 * Only while something is pending does anybody ask. A process that computes answers nothing, so its host is asked
 * (link->liveness). Time counts as silence only while we polled.
 */
#include "transport/datagram/connection.h"
#include "transport/datagram/transmit_frame.h"

static void silence_await(struct connection *connection, bool awaited)
{
	if (awaited && !connection->silence.awaited)
		connection->engine->awaited++;
	else if (!awaited && connection->silence.awaited)
		connection->engine->awaited--;
	connection->silence.awaited = awaited;
}

/* A receive that is posted for one source waits for that peer, though nothing may be under way. */
static void silence_peer(void *arg, struct transport_peer *peer)
{
	struct engine *engine = arg;
	struct connection *connection = connection_may_be(peer) ? connection_of(peer) : NULL;

	if (peer->gone || !connection || connection->state == CONNECTION_NEW)
		return;
	silence_await(connection, true);
	if (connection->silence.checked_ns == 0)
		connection_wake(connection, engine->now_ns);
}

void silence_receives(struct engine *engine)
{
	for (uint32_t i = 0; engine->awaited > 0; i++) {
		struct connection *connection = pool_at(&engine->connections, i);

		if (pool_is_live(&engine->connections, connection))
			silence_await(connection, false);
	}
	engine->owner->up->awaited(engine->owner, silence_peer, engine);
}

/* Whether bytes were asked for, by us or by a mover, and are not here. */
static bool silence_fetches(const struct connection *connection)
{
	return connection->pull.peer.outstanding > 0 ||
	       (connection->handover && !list_empty(&connection->handover->moved));
}

static bool silence_pending(const struct connection *connection)
{
	return connection->state == CONNECTION_CONNECTING ||
	       (connection->handshake.connect_ns && !connection->handshake.answered) ||
	       !list_empty(&connection->out.unacked) || silence_fetches(connection) ||
	       connection->in.held_count > 0 || connection->silence.awaited ||
	       !list_empty(&connection->pull.peer.fetches) || connection->peer->owner->up->pending(connection->peer);
}

static void silence_ask_no_more(struct connection *connection)
{
	struct link *link = connection->engine->links[connection->routes.use[LINK_CONNECT]];

	if (connection->silence.asking && link->calls->liveness_end)
		link->calls->liveness_end(link, &connection->route[link->index].records);
	connection->silence.asking = false;
}

void silence_end(struct connection *connection)
{
	silence_ask_no_more(connection);
	connection->silence.checked_ns = 0;
	silence_await(connection, false);
}

/* There is nobody, as far as we know; perhaps no frame gets there. */
static void silence_nobody(struct connection *connection)
{
	connection->peer->unheard = connection->state == CONNECTION_CONNECTING;
	connection_lost(connection, THOLE_ERR_PEER);
}

/* Ask the peer's process, and its host. */
static enum link_liveness silence_ask(struct connection *connection)
{
	struct engine *engine = connection->engine;
	struct link *link = engine->links[connection->routes.use[LINK_CONNECT]];
	enum link_liveness verdict;

	if (!link->calls->liveness)
		return LINK_UNKNOWN;
	if (!connection->silence.asking)
		engine_count(engine, COUNTER_PEERS_ASKED_AFTER);
	verdict =
		link->calls->liveness(link, &connection->route[link->index].records, connection->peer->parts.endpoint);
	connection->silence.asking = verdict != LINK_ALIVE && verdict != LINK_GONE;
	if (verdict == LINK_GONE)
		silence_nobody(connection);
	return verdict;
}

/* It has said nothing for so long, while something was pending and we polled. Half of peer_timeout is for asking. */
static void silence_silent(struct connection *connection, uint64_t waited_ns)
{
	enum link_liveness verdict = LINK_UNKNOWN;

	connection->silence.total_ns += waited_ns;
	if (connection->silence.total_ns >= connection->engine->owner->options.peer_timeout / 2)
		verdict = silence_ask(connection);
	if (verdict == LINK_ALIVE && !handshake_is_foreign(connection))
		connection->silence.total_ns = 0;
	else if (verdict == LINK_HELD || verdict == LINK_UNASKED)
		connection->silence.total_ns -= waited_ns - waited_ns / SLOW_SILENCE;
}

/* The peer is heard, but does what is under way get on? Bulk that was asked for, and records that were sent: each by
 * itself, since their turns need not fall into the same check. (With mxoe a record that nobody awaits may have to wait
 * there.) Time counts if the peer reads: who computes, and sends now and then, does not. So it is asked. True: neither
 * has got on for so long that it never will. */
static bool silence_stalls(struct connection *connection, uint64_t waited_ns)
{
	struct engine *engine = connection->engine;
	const struct list_node *node = engine->codec->backpressure ? list_first(&connection->out.unacked) : NULL;
	const struct transmit_frame *frame = node ? container_of(node, struct transmit_frame, node) : NULL;
	uint32_t oldest = frame ? frame->sequence : connection->out.next;
	bool fed = !silence_fetches(connection) || connection->pull.fed_ns >= connection->silence.checked_ns;
	uint64_t patience_ns = engine->owner->options.peer_timeout;
	bool taken = !frame || frame->sent_ns == 0 || oldest != connection->silence.stalled_at;

	if (!connection->silence.answered)
		waited_ns = 0;
	connection->silence.answered = false;
	if (!(fed && taken) && connection->state == CONNECTION_OPEN)
		engine->naming->ask(connection);
	connection->silence.stalled_at = oldest;
	connection->silence.unfed_ns = fed ? 0 : connection->silence.unfed_ns + waited_ns;
	connection->silence.untaken_ns = taken ? 0 : connection->silence.untaken_ns + waited_ns;
	return connection->silence.unfed_ns >= patience_ns || connection->silence.untaken_ns >= patience_ns;
}

void silence_refused(struct connection *connection)
{
	if (connection->silence.refused_polls > 0)
		return;
	connection->silence.refused_polls = 1;
	connection->silence.checked_ns = connection->engine->now_ns + 1;
	connection_wake(connection, connection->silence.checked_ns);
}

/* What it sent before it ended may be in the memory of any link. So it is lost when all of them were polled (the first
 * look may be within the poll that has told it) and brought nothing of it; at the latest after some polls, as somebody
 * may say so of a peer that goes on sending. */
static uint64_t silence_check_refused(struct connection *connection)
{
	struct silence *silence = &connection->silence;
	bool more = silence->refused_polls == 1 || silence->heard_ns >= silence->checked_ns;

	if (connection->engine->now_ns < silence->checked_ns)
		return silence->checked_ns;
	if (more && silence->refused_polls < REFUSED_POLLS) {
		silence->refused_polls++;
		return silence->checked_ns = connection->engine->now_ns + 1;
	}
	silence_nobody(connection);
	return UINT64_MAX;
}

static void silence_lost(struct connection *connection)
{
	const struct transport_peer *peer = connection->peer;

	if (!handshake_is_foreign(connection)) {
		silence_nobody(connection);
		return;
	}
	error_set(THOLE_ERR_PROTOCOL,
		  "%s has another version of Thole, whose frames are others: all hosts of a job need the same Thole",
		  peer->address.text);
	connection_failed(connection, THOLE_ERR_PROTOCOL);
}

/* Time counts as silence only while we polled, and only while something was pending. */
uint64_t silence_check(struct connection *connection)
{
	struct engine *engine = connection->engine;
	uint64_t patience_ns = engine->owner->options.peer_timeout, now_ns = engine->now_ns;
	uint64_t turn_ns = patience_ns / 8 ? patience_ns / 8 : 1, since_ns;

	if (connection->silence.refused_polls > 0)
		return silence_check_refused(connection);
	if (!silence_pending(connection)) {
		silence_ask_no_more(connection);
		connection->silence.checked_ns = 0;
		connection->silence.total_ns = connection->silence.unfed_ns = connection->silence.untaken_ns = 0;
		return UINT64_MAX;
	}
	since_ns = connection->silence.checked_ns ? now_ns - connection->silence.checked_ns : 0;
	if (connection->silence.checked_ns == 0 || connection->silence.heard_ns > connection->silence.checked_ns) {
		silence_ask_no_more(connection);
		if (silence_stalls(connection, since_ns < 2 * turn_ns ? since_ns : 2 * turn_ns)) {
			engine_count(engine, COUNTER_PEERS_STALLED);
			connection_lost(connection, THOLE_ERR_PEER);
			return UINT64_MAX;
		}
		connection->silence.total_ns = 0;
		connection->silence.checked_ns = now_ns;
		return now_ns + turn_ns;
	}
	if (connection->silence.asking)
		turn_ns = LIVENESS_NS < turn_ns ? LIVENESS_NS : turn_ns;
	if (since_ns < turn_ns)
		return connection->silence.checked_ns + turn_ns;
	connection->silence.checked_ns = now_ns;
	if (connection->state == CONNECTION_OPEN)
		engine->naming->ask(connection);
	silence_silent(connection, since_ns < 2 * turn_ns ? since_ns : 2 * turn_ns);
	if (connection->state == CONNECTION_DEAD)
		return UINT64_MAX;
	if (connection->silence.total_ns >= patience_ns) {
		engine_count(engine, COUNTER_PEERS_SILENT);
		connection->peer->silent = true;
		silence_lost(connection);
		return UINT64_MAX;
	}
	if (connection->silence.asking && turn_ns > LIVENESS_NS)
		turn_ns = LIVENESS_NS;
	return now_ns + turn_ns;
}
