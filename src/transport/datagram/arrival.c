/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arrival: records in, and what their sender is told of them: acknowledgement, order, credit. Pure.
 *
 * Frames are handed to the message layer in order; those ahead of a gap are held. Invariant: what is held is beyond
 * `next`.
 */
#include <string.h>

#include "transport/datagram/burst.h"
#include "transport/datagram/connection.h"
#include "transport/datagram/transmit_frame.h"
#include "transport/datagram/sequence.h"

void arrival_begin(struct connection *connection)
{
	list_init(&connection->in.held);
	connection->in.credit = WINDOW_FIRST;
	connection->in.next = SEQUENCE_FIRST;
}

static void arrival_quiet(struct connection *connection)
{
	if (connection->in.heard_lately)
		connection->engine->senders--;
	connection->in.heard_lately = false;
}

void arrival_end(struct connection *connection)
{
	struct engine *engine = connection->engine;

	transmit_frame_free_all(engine, &connection->in.held);
	engine->held -= connection->in.held_count;
	connection->in.held_count = 0;
	connection->in.ack_ns = 0;
	connection->in.ack_now = connection->in.tell = connection->in.ask = false;
	arrival_quiet(connection);
}

/* ---- Acknowledgements ----------------------------------------------------------------------------------- */

/* Frames that this peer may have under way: its share of what the receive buffer holds. */
static uint16_t arrival_credit(const struct connection *connection)
{
	const struct engine *engine = connection->engine;
	uint64_t room =
		engine->links[connection->routes.use[LINK_RECORDS]]->room / (2 * (uint64_t)connection->routes.frame);
	uint64_t share = room / (engine->senders ? engine->senders : 1);

	if (engine->held >= ENGINE_REORDER_TOTAL || share < WINDOW_LEAST)
		share = WINDOW_LEAST;
	return (uint16_t)(share < engine->codec->ahead_max ? share : engine->codec->ahead_max);
}

void arrival_tell(struct connection *connection)
{
	struct packet packet = {
		.ack = sequence_narrow(connection->engine->codec, connection->in.next) | connection->in.epoch,
		.credit = arrival_credit(connection),
	};

	handover_report(connection, &packet);
}

void arrival_report(struct connection *connection, struct packet *packet)
{
	packet->ack = sequence_narrow(connection->engine->codec, connection->in.next) | connection->in.epoch;
	packet->credit = connection->in.credit = arrival_credit(connection);
	if (connection->handover)
		handover_report(connection, packet);
	connection->in.unreported = 0;
	connection->in.ack_ns = 0;
	/* Only an ACK says which frames are held. */
	connection->in.ack_now = connection->in.ack_now && (connection->in.held_count > 0 || connection->in.tell);
}

void arrival_acknowledge(struct connection *connection)
{
	struct engine *engine = connection->engine;
	/* By the link that was heard last: the other one may not carry frames any more. */
	uint8_t link = connection->routes.heard;
	struct packet packet;
	struct list_node *node;

	connection_packet(connection, &packet, PACKET_ACK);
	arrival_report(connection, &packet);
	connection->in.ack_now = connection->in.tell = false;
	packet.sequence = sequence_narrow(engine->codec, connection->out.next);
	packet.acked.send = packet.ack;
	packet.acked.session = packet.session;
	packet.acked.number = ++connection->in.ack_number;
	for (node = list_first(&connection->in.held); node; node = list_next(&connection->in.held, node)) {
		uint32_t ahead = container_of(node, struct transmit_frame, node)->sequence - connection->in.next;

		if (ahead > 0 && ahead <= 64)
			packet.acked.held |= UINT64_C(1) << (ahead - 1);
	}
	if (engine->owner->backpressure)
		packet.flags |= PACKET_BACKPRESSURE;
	if (connection->in.ask) {
		connection->in.ask = false;
		packet.flags |= PACKET_ANSWER;
		/* where a host answers for who is not there any more; and by all others that work */
		link = connection->routes.use[LINK_BULK];
		for (uint8_t i = 0; i < engine->link_count; i++)
			if (i != link && connection->route[i].frame_max > 0)
				burst_post(engine, i, &connection->route[i].records, &packet, 0);
	}
	engine_count(engine, COUNTER_ACKS_SENT);
	burst_post(engine, link, &connection->route[link].records, &packet, 0);
}

/* ---- In ------------------------------------------------------------------------------------------------- */

static void arrival_deliver(struct connection *connection, const struct packet *packet)
{
	struct record record = packet->message.record;
	const uint8_t *payload = packet->payload;

	if (record.kind == RECORD_FINISH)
		connection->engine->naming->finish(connection, &record, packet->message.total);
	if (record.length != RECORD_EXTERNAL) {
		if (packet->length <= RECORD_INLINE_MAX) {
			record.length = (uint16_t)packet->length;
			if (packet->length > 0)
				memcpy(record.payload, payload, packet->length);
			payload = record.payload;
		} else {
			record.length = RECORD_EXTERNAL;
			memset(record.payload, 0, sizeof(record.payload));
		}
	}
	connection->peer->owner->up->delivered(connection->peer, &record, payload, packet->length);
}

/* Is it the last frame with its sequence number? */
static bool arrival_is_last(const struct codec *codec, const struct packet *packet)
{
	return codec->fragments_max <= 1 || !packet->message.medium ||
	       packet->message.total <= ((uint64_t)packet->message.fragment + 1) * codec->fragment;
}

static void arrival_advance(struct connection *connection, const struct packet *packet)
{
	if (arrival_is_last(connection->engine->codec, packet)) {
		connection->in.next++;
		connection->in.fragment = 0;
		connection->in.unreported++;
	} else {
		connection->in.fragment++;
	}
	arrival_deliver(connection, packet);
}

/* Hand over what was held and is in order now. */
static void arrival_drain(struct connection *connection)
{
	struct engine *engine = connection->engine;
	struct list_node *node;

	while (connection->state == CONNECTION_OPEN && (node = list_first(&connection->in.held))) {
		struct transmit_frame *frame = container_of(node, struct transmit_frame, node);
		struct packet packet;

		if (sequence_after(frame->sequence, connection->in.next) > 0 ||
		    (frame->sequence == connection->in.next && frame->fragment > connection->in.fragment))
			return;
		list_remove(node);
		connection->in.held_count--;
		engine->held--;
		if (frame->sequence == connection->in.next && frame->fragment == connection->in.fragment &&
		    engine->codec->decode(&packet, frame->bytes, frame->length) == 0)
			arrival_advance(connection, &packet);
		transmit_frame_free(engine, frame);
	}
}

static void arrival_hold(struct connection *connection, const struct packet *packet, uint32_t sequence,
			 const uint8_t *frame, size_t length)
{
	struct engine *engine = connection->engine;
	struct list_node *node = connection->in.held.prev;
	struct transmit_frame *transmit;

	for (; node != &connection->in.held; node = node->prev) {
		const struct transmit_frame *before = container_of(node, struct transmit_frame, node);
		int32_t after = sequence_after(sequence, before->sequence);

		if (after == 0 && before->fragment == packet->message.fragment) {
			engine_count(engine, COUNTER_FRAMES_DUPLICATE);
			return;
		}
		if (after > 0 || (after == 0 && packet->message.fragment > before->fragment))
			break;
	}
	transmit = connection->in.held_count < ENGINE_REORDER_MAX && engine->held < ENGINE_REORDER_TOTAL &&
			       length <= engine->frame_max
		       ? transmit_frame_new(engine, (uint32_t)length)
		       : NULL;
	if (!transmit) {
		engine_count(engine, COUNTER_DROPPED_FULL);
		return;
	}
	engine_count(engine, COUNTER_FRAMES_HELD);
	transmit->sequence = sequence;
	transmit->fragment = packet->message.fragment;
	memcpy(transmit->bytes, frame, length);
	list_push_front(node, &transmit->node);
	connection->in.held_count++;
	engine->held++;
}

/* An acknowledgement is due: at once when there is something the sender should hear, else when a record goes back,
 * or later. */
static void arrival_owe(struct connection *connection, bool now)
{
	struct engine *engine = connection->engine;
	uint32_t half = connection->in.credit / 2u;
	uint32_t often = half < engine->codec->ack_every ? half : engine->codec->ack_every;

	if (now || connection->in.unreported >= often) {
		connection->in.ack_now = true;
		connection_dirty(connection);
	} else if (connection->in.ack_ns == 0) {
		connection->in.ack_ns = engine->now_ns + engine->codec->ack_delay_ns;
		connection_wake(connection, connection->in.ack_ns);
	}
}

void arrival_record(struct connection *connection, const struct packet *packet, const uint8_t *frame, size_t length)
{
	struct engine *engine = connection->engine;
	uint32_t sequence = sequence_widen(engine->codec, packet->sequence, connection->in.next);
	int32_t ahead = sequence_after(sequence, connection->in.next);

	if (!connection->in.heard_lately) {
		connection->in.heard_lately = true;
		engine->senders++;
		connection_wake(connection, engine->now_ns + QUIET_NS);
	}
	if (ahead < 0 || (ahead == 0 && packet->message.fragment < connection->in.fragment)) {
		engine_count(engine, COUNTER_FRAMES_DUPLICATE);
		arrival_owe(connection, true);
		return;
	}
	if (ahead > 0 || packet->message.fragment > connection->in.fragment) {
		if ((uint32_t)ahead > engine->codec->ahead_max)
			engine_count(engine, COUNTER_DROPPED_FULL);
		else
			arrival_hold(connection, packet, sequence, frame, length);
		if (engine->codec->selective) /* else it would say nothing new */
			arrival_owe(connection, true);
		return;
	}
	arrival_advance(connection, packet);
	if (!list_empty(&connection->in.held))
		arrival_drain(connection);
	if (connection->state == CONNECTION_OPEN)
		arrival_owe(connection, !list_empty(&connection->in.held) && engine->codec->selective);
}

/* Pieces that are next, all at once. */
static void arrival_pieces(struct connection *connection, const struct arrival_run *run)
{
	struct transport_peer *peer = connection->peer;

	connection->in.next += run->behind + 1;
	connection->in.unreported += run->behind + 1;
	peer->owner->up->pieces(peer, run->packet.payload, run->length, run->behind + 1, run->packet.length, run->last);
	if (connection->state == CONNECTION_OPEN)
		arrival_owe(connection, false);
}

void arrival_run(struct connection *connection, const struct arrival_run *run)
{
	const uint8_t *frame = run->frame;
	struct packet packet;

	if (run->behind > 0 && run->packet.sequence == connection->in.next && list_empty(&connection->in.held) &&
	    connection->in.heard_lately) {
		arrival_pieces(connection, run);
		return;
	}
	packet = run->packet;
	for (uint32_t i = 0; i <= run->behind && connection->state == CONNECTION_OPEN; i++) {
		size_t length = run->length;

		if (i > 0 && i == run->behind) {
			length -= packet.length - run->last;
			packet.length = run->last;
		}
		if (packet.message.record.length != RECORD_EXTERNAL)
			packet.message.record.length = (uint16_t)packet.length;
		arrival_record(connection, &packet, frame, length);
		frame += run->length;
		packet.payload += run->length;
		packet.sequence++;
	}
}

/* ---- Time ----------------------------------------------------------------------------------------------- */

uint64_t arrival_expire(struct connection *connection)
{
	uint64_t now_ns = connection->engine->now_ns, next_ns = UINT64_MAX;

	if (connection->in.ack_ns && connection->in.ack_ns <= now_ns) {
		connection->in.ack_ns = 0;
		connection->in.ack_now = true;
		connection_dirty(connection);
	}
	if (connection->in.heard_lately) {
		if (now_ns - connection->silence.heard_ns >= QUIET_NS)
			arrival_quiet(connection);
		else
			next_ns = connection->silence.heard_ns + QUIET_NS;
	}
	if (connection->in.ack_ns && connection->in.ack_ns < next_ns)
		next_ns = connection->in.ack_ns;
	return next_ns;
}
