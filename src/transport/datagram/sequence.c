/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sequence: records over frames - numbers, acknowledgement, retransmission, order, credit. Pure.
 *
 * Out: engine_push encodes a record into frames, which stay in `unacked` until the peer has them. In: frames are handed to the
 * message layer in order; those ahead of a gap are held. Invariants: `unacked` is in order; the frames from `unsent` on are
 * to be sent, some of them again; those before it are out, or the peer holds them; `flight` counts what is out; what is held
 * here is beyond next_in.
 *
 * Fast retransmission from selective acknowledgements, a time-out from measured round trips with doubling, which begins as a look
 * at what has become of the last frames, and a window that narrows by some frames for each that is lost and grows by each that
 * is not; credit, given out by the receiver over all of its senders, bounds it from the other side.
 */
#include <string.h>

#include "message/message.h"
#include "transport/datagram/connection.h"

/* ---- Numbers ------------------------------------------------------------------------------------------ */

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static inline int32_t sequence_after(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b);
}

/* The number next to `near` whose low bits are on the wire. */
static uint32_t sequence_widen(const struct codec *codec, uint32_t wire, uint32_t near)
{
	unsigned unused = 32 - codec->sequence_bits;

	return near + (uint32_t)((int32_t)((wire - near) << unused) >> unused);
}

/* A window that is no smaller takes a message of as many frames as there may be, and some more. */
static uint32_t sequence_window_least(const struct codec *codec)
{
	return WINDOW_LEAST * codec->fragments_max;
}

/* ---- Kept frames -------------------------------------------------------------------------------------- */

static struct kept *kept_new(struct engine *engine, uint32_t length)
{
	bool large = length > ENGINE_SMALL_FRAME;
	struct kept *kept = pool_get(large ? &engine->large_frames : &engine->small_frames);

	if (!kept)
		return NULL;
	kept->sent_ns = 0;
	kept->length = (uint16_t)length;
	kept->fragment = kept->resends = 0;
	kept->large = large;
	kept->held = kept->out = false;
	return kept;
}

/* It is not under way any more. */
static void kept_in(struct connection *connection, struct kept *kept)
{
	connection->flight -= kept->out;
	kept->out = false;
}

static void kept_free(struct engine *engine, struct kept *kept)
{
	pool_put(kept->large ? &engine->large_frames : &engine->small_frames, kept);
}

static void kept_free_all(struct engine *engine, struct list_node *list)
{
	struct list_node *node;

	while ((node = list_first(list))) {
		list_remove(node);
		kept_free(engine, container_of(node, struct kept, node));
	}
}

void sequence_init(struct connection *connection)
{
	list_init(&connection->unacked);
	list_init(&connection->held);
	connection->unsent = &connection->unacked;
	connection->window = WINDOW_FIRST;
	connection->credit = connection->engine->codec->credited ? WINDOW_FIRST : 0; /* until the peer has answered */
	connection->credit_in = WINDOW_FIRST;
	connection->next_out = SEQUENCE_FIRST;
	connection->next_in = SEQUENCE_FIRST;
}

static void sequence_quiet(struct connection *connection)
{
	if (connection->heard_lately)
		connection->engine->senders--;
	connection->heard_lately = false;
}

void sequence_fini(struct connection *connection)
{
	struct engine *engine = connection->engine;

	kept_free_all(engine, &connection->unacked);
	kept_free_all(engine, &connection->held);
	engine->held -= connection->held_count;
	connection->held_count = 0;
	connection->unsent = &connection->unacked;
	connection->flight = 0;
	connection->resend_ns = connection->ack_ns = connection->gap_ns = 0;
	connection->ack_now = false;
	sequence_quiet(connection);
}

/* ---- Out ---------------------------------------------------------------------------------------------- */

/* How a record is cut into frames. */
struct cut {
	uint32_t most; /* bytes of a frame */
	uint32_t room; /* of payload in it, behind a head as long as that of the frame before */
};

/* Encode the head of a record's next frame, which has as much of what is left as fits, or as a fragment may have. Returns
 * its bytes. */
static size_t sequence_head(const struct codec *codec, struct packet *packet, uint8_t *head, uint64_t left, struct cut *cut)
{
	uint32_t most = codec->fragment ? codec->fragment : cut->most;
	uint32_t wanted = left < most ? (uint32_t)left : most;
	size_t size;

	if (packet->guard)
		packet->flags = (uint8_t)guard_flags(packet->guard, packet->type, wanted);
	packet->length = smaller(wanted, cut->room);
	size = codec->encode(packet, head);
	cut->room = cut->most - (uint32_t)size;
	if (packet->length != smaller(wanted, cut->room)) { /* now it is known how long the head is */
		packet->length = smaller(wanted, cut->room);
		size = codec->encode(packet, head);
	}
	return size;
}

/* Keep one frame of a record: from `offset` of the payload on. Returns the bytes of payload in it, or -1. */
static int64_t sequence_frame(struct connection *connection, struct packet *packet, const struct vector *payload,
			      uint64_t offset, uint64_t left, bool wide, struct cut *cut)
{
	struct engine *engine = connection->engine;
	uint8_t head[PACKET_HEAD_MAX];
	struct kept *kept;
	uint32_t length;
	size_t size;

	packet->sequence = sequence_narrow(engine->codec, connection->next_out) | connection->epoch;
	size = sequence_head(engine->codec, packet, head, left, cut);
	length = packet->length;
	kept = kept_new(engine, (uint32_t)size + length);
	if (!kept)
		return -1;
	memcpy(kept->bytes, head, size);
	if (payload)
		vector_read(payload, offset, kept->bytes + size, length);
	else
		memcpy(kept->bytes + size, packet->message.record.payload, length);
	kept->sequence = connection->next_out;
	kept->fragment = packet->message.fragment;
	kept->wide = wide;
	connection->next_out += engine->codec->fragments_max <= 1 || length == left;
	if (wide)
		connection->wide_end = connection->next_out;
	list_push_back(&connection->unacked, &kept->node);
	if (connection->unsent == &connection->unacked)
		connection->unsent = &kept->node;
	return length;
}

/* Take back the frames that a record had up to here: nothing of it has left. */
static void sequence_take_back(struct connection *connection, uint32_t first)
{
	while (!list_empty(&connection->unacked)) {
		struct kept *kept = container_of(connection->unacked.prev, struct kept, node);

		if (sequence_after(kept->sequence, first) < 0)
			break;
		if (connection->unsent == &kept->node)
			connection->unsent = &connection->unacked;
		list_remove(&kept->node);
		kept_free(connection->engine, kept);
	}
	connection->next_out = first;
}

/* How many frames may be sent now. Small ones cannot fill a queue and are not held back by the window: a program may make no
 * further call after the one that has sent them, and others wait for what they say. */
static uint32_t sequence_window(const struct connection *connection, bool large)
{
	return large && connection->window < connection->credit ? connection->window : connection->credit;
}

static uint32_t sequence_room(const struct connection *connection, bool large)
{
	uint32_t window = sequence_window(connection, large);

	return connection->flight < window ? window - connection->flight : 0;
}

/* Frames that wait to be sent: some, while a burst gathers. */
static uint32_t sequence_queued(const struct connection *connection)
{
	const struct list_node *node = connection->unsent;
	uint32_t count = 0;

	for (; node != &connection->unacked; node = node->next)
		count += !container_of(node, struct kept, node)->held;
	return count;
}

/* Whether a record may be added now. */
static bool sequence_takes(const struct connection *connection, bool large)
{
	return connection->state == CONNECTION_OPEN &&
	       connection->flight + sequence_queued(connection) < sequence_window(connection, large);
}

void sequence_ready(struct connection *connection)
{
	if (connection->peer->stalled && sequence_takes(connection, true))
		peer_ready(connection->peer);
}

/* Whether a record of so many bytes goes by the link for bulk: if it is long, or one before it went there and is perhaps still
 * on its way, since it would overtake that one. */
static bool sequence_wide(struct connection *connection, uint32_t length)
{
	const struct list_node *first = list_first(&connection->unacked);

	if (connection->bulk_link == connection->record_link)
		return false;
	return length > WIDE_FRAMES * connection_frame(connection) || (first && sequence_after(connection->wide_end,
							     container_of(first, struct kept, node)->sequence) > 0);
}

int engine_push(struct engine *engine, struct peer *peer, const struct record *record, const struct vector *payload,
		uint64_t offset, uint32_t length)
{
	struct connection *connection = connection_of(peer);
	struct packet packet;
	uint32_t first, left = length;
	struct cut cut;
	bool wide;

	if (!connection || !sequence_takes(connection, length > RECORD_SMALL)) {
		peer->stalled = connection != NULL; /* the backlog keeps it */
		return THOLE_ERR_AGAIN;
	}
	wide = sequence_wide(connection, length);
	first = connection->next_out;
	connection_packet(connection, &packet, PACKET_RECORD);
	packet.message.record = *record;
	if (record->kind == RECORD_ANNOUNCE || (record->flags & RECORD_WINDOW)) {
		packet.message.record.arg[1] = 0; /* where our memory is, is none of another host's business */
		if (engine->codec->windows_max && !numbers_window(connection, &packet.message.record.arg[2]))
			return THOLE_ERR_AGAIN;
	}
	if (length == 0 && record->length != RECORD_EXTERNAL) { /* the data is inside the record */
		left = record->length;
		payload = NULL;
	} else if (length > 0 && record->kind != RECORD_PIECE &&
		   length > connection_frame(connection) - connection_record_head(connection) && !(record->flags & RECORD_MORE)) {
		packet.message.record.flags |= RECORD_MORE;
		packet.message.record.length = RECORD_EXTERNAL;
		packet.message.record.arg[0] = length;
	} else if (record->flags & RECORD_MORE) {
		packet.message.record.length = RECORD_EXTERNAL;
	}
	packet.message.total = record->kind == RECORD_FINISH ? finish_bytes(record->imm) : left;
	cut.most = cut.room = connection_frame(connection);
	for (;;) {
		int64_t taken = sequence_frame(connection, &packet, payload, offset, left, wide, &cut);

		if (taken < 0) {
			sequence_take_back(connection, first);
			if (engine->codec->windows_max && record->kind == RECORD_ANNOUNCE)
				numbers_window_back(connection, packet.message.record.arg[2]);
			engine_count(engine, COUNTER_FRAMES_EXHAUSTED);
			return THOLE_ERR_AGAIN;
		}
		offset += (uint64_t)taken;
		left -= (uint32_t)taken;
		if (left == 0)
			break;
		if (engine->codec->fragments_max > 1)
			packet.message.fragment++; /* they say themselves what they are a fragment of */
		else
			packet.message.record = (struct record){.kind = RECORD_PIECE};
	}
	connection_dirty(connection);
	return 0;
}

/* How long nothing may be heard of what is out: by measured trips, twice as long each time. */
static uint64_t sequence_timeout(const struct connection *connection)
{
	uint64_t ns = connection->round_trip_ns + 4 * connection->deviation_ns;
	uint64_t least_ns = connection->round_trip_ns ? RESEND_LOOK_NS : RESEND_MIN_NS;

	if (connection->engine->codec->resend_ns)
		return connection->engine->codec->resend_ns;
	if (ns < least_ns)
		ns = least_ns;
	ns <<= connection->backoff;
	return connection_spread(connection, ns < RESEND_MAX_NS ? ns : RESEND_MAX_NS, connection->backoff);
}

static void sequence_arm(struct connection *connection)
{
	if (connection->flight == 0) {
		connection->resend_ns = 0;
		return;
	}
	connection->resend_ns = connection->engine->now_ns + sequence_timeout(connection);
	connection_wake(connection, connection->resend_ns);
}

/* The link for a frame: every other repetition tries the other one, where there is one that works. */
static uint8_t sequence_link(const struct connection *connection, const struct kept *kept)
{
	uint8_t usual = kept->wide ? connection->bulk_link : connection->record_link, other = (uint8_t)!usual;

	return (kept->resends & 1) && connection->engine->link_count > 1 && connection->route[other].frame_max >= kept->length
		       ? other
		       : usual;
}

/* report: what the peer is told of its own frames (sequence_report). answer: this one is to be acknowledged at once. again: it was
 * sent before; if the link has no room now the time-out will see to it. */
static bool sequence_send(struct connection *connection, struct kept *kept, const struct packet *report, bool again,
			  bool answer)
{
	struct engine *engine = connection->engine;
	uint8_t link = sequence_link(connection, kept);
	struct frame_out frame = {
		.to = &connection->route[link].records,
		.head = kept->bytes,
		.head_length = kept->length,
		.channel = CHANNEL_RECORDS,
	};

	engine->codec->restamp(kept->bytes, report->ack, report->credit, answer ? PACKET_ANSWER : 0);
	kept->sent_ns = engine->now_ns;
	connection->frames_sent++;
	return burst_add(engine, link, &frame, connection->guard, connection, again ? NULL : kept);
}

static bool sequence_precedes(const struct kept *a, const struct kept *b)
{
	return a->sequence == b->sequence ? a->fragment < b->fragment : sequence_after(a->sequence, b->sequence) < 0;
}

/* The link did not take it, nor those behind it, which were of the same burst: as if they had never been sent. What another link
 * did not take may have been before it. */
void sequence_unsend(struct connection *connection, struct kept *kept)
{
	struct list_node *node = &kept->node;

	for (; node != &connection->unacked && node != connection->unsent; node = node->next)
		kept_in(connection, container_of(node, struct kept, node));
	if (connection->unsent == &connection->unacked ||
	    sequence_precedes(kept, container_of(connection->unsent, struct kept, node)))
		connection->unsent = &kept->node;
	connection_dirty(connection);
}

static void sequence_repeated(struct connection *connection, struct kept *kept)
{
	if (kept->resends < UINT8_MAX)
		kept->resends++;
	connection->frames_resent++;
	engine_count(connection->engine, COUNTER_FRAMES_RETRANSMITTED);
}

static void sequence_resend(struct connection *connection, struct kept *kept)
{
	struct packet report;

	sequence_repeated(connection, kept);
	sequence_report(connection, &report);
	sequence_send(connection, kept, &report, true, true);
}

/* ---- Acknowledgements that come in ------------------------------------------------------------------------ */

void round_trip_measure(uint64_t sample_ns, uint64_t *smoothed_ns, uint64_t *deviation_ns)
{
	uint64_t difference_ns;

	if (*smoothed_ns == 0) {
		*smoothed_ns = sample_ns ? sample_ns : 1;
		*deviation_ns = sample_ns / 2;
		return;
	}
	difference_ns = *smoothed_ns > sample_ns ? *smoothed_ns - sample_ns : sample_ns - *smoothed_ns;
	*deviation_ns += difference_ns / 4 - *deviation_ns / 4;
	*smoothed_ns += sample_ns / 8 - *smoothed_ns / 8;
}

static void sequence_grow(struct connection *connection, uint32_t acked)
{
	connection->window = smaller(connection->window + acked, connection->engine->codec->unacked_max);
}

/* Narrower by some frames for each that is lost, and wider by one for each that is not: single losses hardly cost anything, and
 * where one in LOSS_FRAMES is lost there are too many under way. */
static void sequence_shrink(struct connection *connection)
{
	uint32_t least = sequence_window_least(connection->engine->codec);

	connection->window = connection->window > least + LOSS_FRAMES ? connection->window - LOSS_FRAMES : least;
}

/* How long a frame is given that others have overtaken. */
static uint64_t sequence_patience(const struct connection *connection)
{
	return connection->round_trip_ns / 2 < REORDER_NS ? connection->round_trip_ns / 2 : REORDER_NS;
}

/* There are frames beyond it that the peer has. One that was repeated is not again until something sent after that has arrived:
 * the round trip, as it was measured, may be far shorter than what a queue has made of it. */
static bool sequence_lost(const struct connection *connection, const struct kept *kept)
{
	return kept->resends == 0 ? connection->engine->now_ns - kept->sent_ns > sequence_patience(connection)
				  : connection->delivered_ns > kept->sent_ns;
}

/* The peer has it. What was sent earlier and is not there is probably lost. Of one that was repeated just now it was an earlier
 * sending that has arrived: nothing is known of the latest. */
static void sequence_delivered(struct connection *connection, const struct kept *kept)
{
	uint64_t ns = connection->engine->now_ns - kept->sent_ns;

	connection->backoff = 0; /* there is a way */
	if (kept->resends > 0 && ns < connection->least_ns)
		return;
	if (kept->resends == 0 && (connection->least_ns == 0 || ns < connection->least_ns))
		connection->least_ns = ns;
	if (kept->sent_ns > connection->delivered_ns)
		connection->delivered_ns = kept->sent_ns;
}

/* A link that loses frame after frame, which arrive once they are sent again by the other, is left alone for a while. */
static void sequence_judge(struct connection *connection, const struct kept *kept)
{
	bool late = connection->engine->now_ns - kept->sent_ns > LINK_TRIP_NS;
	uint8_t *lost = kept->wide ? &connection->wide_lost_in_row : &connection->lost_in_row;

	if (connection->record_link == connection->bulk_link || (kept->resends > 0 && late))
		return; /* a peer that was busy for a while looks different: its answer has nothing to do with the repetition */
	*lost = kept->resends == 0 ? 0 : (uint8_t)(*lost + 1);
	if (*lost < LINK_LOSSES)
		return;
	if (kept->wide)
		connection_aside(connection);
	else
		connection_fall_back(connection);
}

static void sequence_release(struct connection *connection, uint32_t ack)
{
	struct engine *engine = connection->engine;
	uint32_t acked = 0;
	struct list_node *node;

	while ((node = list_first(&connection->unacked))) {
		struct kept *kept = container_of(node, struct kept, node);

		if (sequence_after(kept->sequence, ack) >= 0 || kept->sent_ns == 0)
			break;
		if (node == connection->unsent)
			connection->unsent = node->next; /* taken for lost, and was not */
		if (!kept->held)
			sequence_delivered(connection, kept);
		sequence_judge(connection, kept);
		kept_in(connection, kept);
		acked++;
		list_remove(node);
		kept_free(engine, kept);
	}
	sequence_grow(connection, acked);
	if (acked > 0)
		sequence_arm(connection);
}

/* Something that was sent after all that was known to have arrived has arrived: the trip of the newest is that of the network, as
 * others may have waited behind a gap. */
static void sequence_progress(struct connection *connection)
{
	round_trip_measure(connection->engine->now_ns - connection->delivered_ns, &connection->round_trip_ns,
			   &connection->deviation_ns);
	connection->engine->endpoint->counters[COUNTER_RTT_NS] = connection->round_trip_ns;
	sequence_arm(connection);
}

/* The peer holds frames up to held_end, and not all before: those are lost, unless they were sent just now. Then they are looked
 * at again, as perhaps nothing more comes from there that would have it done. */
static void sequence_overtaken(struct connection *connection)
{
	struct list_node *node = list_first(&connection->unacked);

	connection->gap_ns = 0;
	for (; node; node = list_next(&connection->unacked, node)) {
		struct kept *kept = container_of(node, struct kept, node);

		if (sequence_after(kept->sequence, connection->held_end) >= 0)
			break;
		if (kept->held || !kept->out)
			continue;
		if (sequence_lost(connection, kept)) {
			sequence_shrink(connection);
			sequence_resend(connection, kept);
		} else if (kept->resends == 0 && connection->gap_ns == 0) {
			connection->gap_ns = kept->sent_ns + sequence_patience(connection) + 1;
			connection_wake(connection, connection->gap_ns);
		}
	}
	burst_send(connection->engine, 0); /* before any of them is acknowledged and freed */
}

static void sequence_selective(struct connection *connection, uint32_t ack, uint64_t held)
{
	struct list_node *node = list_first(&connection->unacked);

	connection->held_end = ack + 1 + (64 - (uint32_t)__builtin_clzll(held));
	for (; node; node = list_next(&connection->unacked, node)) {
		struct kept *kept = container_of(node, struct kept, node);
		uint32_t ahead = kept->sequence - ack;

		if (sequence_after(kept->sequence, connection->held_end) >= 0)
			break;
		if (ahead == 0 || ahead > 64 || !(held >> (ahead - 1) & 1))
			continue;
		if (!kept->held)
			sequence_delivered(connection, kept);
		kept_in(connection, kept);
		kept->held = true;
	}
	sequence_overtaken(connection);
}

void sequence_acked(struct connection *connection, const struct packet *packet)
{
	const struct codec *codec = connection->engine->codec;
	uint32_t ack = sequence_widen(codec, packet->ack, connection->next_out);
	struct list_node *first = list_first(&connection->unacked);
	uint64_t delivered_ns = connection->delivered_ns;

	if (sequence_after(ack, connection->next_out) > 0)
		return; /* of what was not sent yet: made up, or of another time */
	if (codec->credited)
		connection->credit = packet->credit ? packet->credit : 1;
	if (first && sequence_after(ack, container_of(first, struct kept, node)->sequence) > 0)
		sequence_release(connection, ack);
	if (packet->type == PACKET_ACK && packet->acked.held && !list_empty(&connection->unacked))
		sequence_selective(connection, ack, packet->acked.held);
	if (connection->delivered_ns > delivered_ns)
		sequence_progress(connection);
	if (connection->unsent != &connection->unacked)
		connection_dirty(connection);
	sequence_ready(connection);
}

bool sequence_is_out(const struct connection *connection, uint32_t wire)
{
	const struct codec *codec = connection->engine->codec;
	const struct list_node *first = list_first(&connection->unacked);
	uint32_t sequence = sequence_widen(codec, wire, connection->next_out);

	return first && (wire ^ sequence_narrow(codec, wire)) == connection->epoch &&
	       sequence_after(sequence, connection->next_out) < 0 &&
	       sequence_after(sequence, container_of(first, struct kept, node)->sequence) >= 0;
}

/* ---- Acknowledgements that go out --------------------------------------------------------------------------- */

/* Frames that this peer may have under way: its share of what the receive buffer holds. */
static uint16_t sequence_credit(const struct connection *connection)
{
	const struct engine *engine = connection->engine;
	uint64_t room = engine->links[connection->record_link]->room / (2 * (uint64_t)connection_frame(connection));
	uint64_t share = room / (engine->senders ? engine->senders : 1);

	if (engine->held >= ENGINE_HOLD_TOTAL || share < WINDOW_LEAST)
		share = WINDOW_LEAST;
	return (uint16_t)(share < engine->codec->ahead_max ? share : engine->codec->ahead_max);
}

void sequence_report(struct connection *connection, struct packet *packet)
{
	packet->ack = sequence_narrow(connection->engine->codec, connection->next_in) | connection->epoch_in;
	packet->credit = connection->credit_in = sequence_credit(connection);
	connection->unreported = 0;
	connection->ack_ns = 0;
	/* Only an ACK says which frames are held, and whether messages are to be announced. */
	connection->ack_now = connection->ack_now && (connection->held_count > 0 || connection->tell_hold);
}

static void sequence_acknowledge(struct connection *connection)
{
	struct engine *engine = connection->engine;
	/* By the link that was heard last: the other one may not carry frames any more. */
	uint8_t link = connection->heard_link;
	struct packet packet;
	struct list_node *node;

	connection_packet(connection, &packet, PACKET_ACK);
	sequence_report(connection, &packet);
	connection->ack_now = connection->tell_hold = false;
	packet.sequence = sequence_narrow(engine->codec, connection->next_out);
	packet.acked.send = packet.ack;
	packet.acked.session = packet.session;
	packet.acked.number = ++connection->ack_number;
	for (node = list_first(&connection->held); node; node = list_next(&connection->held, node)) {
		uint32_t ahead = container_of(node, struct kept, node)->sequence - connection->next_in;

		if (ahead > 0 && ahead <= 64)
			packet.acked.held |= UINT64_C(1) << (ahead - 1);
	}
	if (engine->endpoint->holding)
		packet.flags |= PACKET_HOLD;
	if (connection->checked_ns && connection->silence_ns > 0 && connection->heard_ns <= connection->checked_ns) {
		packet.flags |= PACKET_ANSWER;
		link = connection->bulk_link; /* where a host answers for who is not there any more; and by the other, if that is well */
		if (connection->record_link != link)
			engine_post(engine, connection->record_link, &connection->route[connection->record_link].records, &packet, 0);
	}
	engine_count(engine, COUNTER_ACKS_SENT);
	engine_post(engine, link, &connection->route[link].records, &packet, 0);
}

void sequence_flush(struct connection *connection)
{
	bool idle = connection->flight == 0, reported = false;
	struct packet report;

	while (connection->unsent != &connection->unacked) {
		struct kept *kept = container_of(connection->unsent, struct kept, node);
		uint32_t room = sequence_room(connection, kept->large);

		if (room == 0 && !kept->held)
			break;

		connection->unsent = connection->unsent->next;
		if (kept->held)
			continue;
		kept->out = true;
		connection->flight++;
		if (kept->sent_ns)
			sequence_repeated(connection, kept);
		if (!reported)
			sequence_report(connection, &report);
		reported = true;
		/* What fills the window is to be acknowledged at once: nothing follows that would have it done. */
		if (!sequence_send(connection, kept, &report, false, room == 1))
			break;
	}
	if (idle && connection->flight > 0)
		sequence_arm(connection);
	if (connection->ack_now)
		sequence_acknowledge(connection);
	sequence_ready(connection);
}

/* ---- In --------------------------------------------------------------------------------------------------- */

static void sequence_deliver(struct connection *connection, const struct packet *packet)
{
	struct record record = packet->message.record;
	const uint8_t *payload = packet->payload;

	if (record.kind == RECORD_FINISH && connection->engine->codec->windows_max) {
		record.tag = numbers_request(connection, record.tag);
		record.imm = finish_pack(0, packet->message.total);
	}
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
	message_arrived(connection->peer, &record, payload, packet->length);
}

/* Is it the last frame with its sequence number? */
static bool sequence_is_last(const struct codec *codec, const struct packet *packet)
{
	return codec->fragments_max <= 1 || !packet->message.medium ||
	       packet->message.total <= ((uint64_t)packet->message.fragment + 1) * codec->fragment;
}

static void sequence_advance(struct connection *connection, const struct packet *packet)
{
	if (sequence_is_last(connection->engine->codec, packet)) {
		connection->next_in++;
		connection->fragment_in = 0;
		connection->unreported++;
	} else {
		connection->fragment_in++;
	}
	sequence_deliver(connection, packet);
}

/* Hand over what was held and is in order now. */
static void sequence_drain(struct connection *connection)
{
	struct engine *engine = connection->engine;
	struct list_node *node;

	while (connection->state == CONNECTION_OPEN && (node = list_first(&connection->held))) {
		struct kept *kept = container_of(node, struct kept, node);
		struct packet packet;

		if (sequence_after(kept->sequence, connection->next_in) > 0 ||
		    (kept->sequence == connection->next_in && kept->fragment > connection->fragment_in))
			return;
		list_remove(node);
		connection->held_count--;
		engine->held--;
		if (kept->sequence == connection->next_in && kept->fragment == connection->fragment_in &&
		    engine->codec->decode(&packet, kept->bytes, kept->length) == 0)
			sequence_advance(connection, &packet);
		kept_free(engine, kept);
	}
}

static void sequence_hold(struct connection *connection, const struct packet *packet, uint32_t sequence,
			  const uint8_t *frame, size_t length)
{
	struct engine *engine = connection->engine;
	struct list_node *node = connection->held.prev;
	struct kept *kept;

	for (; node != &connection->held; node = node->prev) {
		const struct kept *before = container_of(node, struct kept, node);
		int32_t after = sequence_after(sequence, before->sequence);

		if (after == 0 && before->fragment == packet->message.fragment) {
			engine_count(engine, COUNTER_FRAMES_DUPLICATE);
			return;
		}
		if (after > 0 || (after == 0 && packet->message.fragment > before->fragment))
			break;
	}
	kept = connection->held_count < ENGINE_HOLD_MAX && engine->held < ENGINE_HOLD_TOTAL &&
			       length <= engine->frame_max
		       ? kept_new(engine, (uint32_t)length)
		       : NULL;
	if (!kept) {
		engine_count(engine, COUNTER_DROPPED_FULL);
		return;
	}
	engine_count(engine, COUNTER_FRAMES_HELD);
	kept->sequence = sequence;
	kept->fragment = packet->message.fragment;
	memcpy(kept->bytes, frame, length);
	list_push_front(node, &kept->node);
	connection->held_count++;
	engine->held++;
}

/* An acknowledgement is due: at once when there is something the sender should hear, else when a record goes back, or later. */
static void sequence_owe(struct connection *connection, bool now)
{
	struct engine *engine = connection->engine;
	uint32_t often = smaller(connection->credit_in / 4u, engine->codec->ack_every);

	if (now || connection->unreported >= often) {
		connection->ack_now = true;
		connection_dirty(connection);
	} else if (connection->ack_ns == 0) {
		connection->ack_ns = engine->now_ns + engine->codec->ack_delay_ns;
		connection_wake(connection, connection->ack_ns);
	}
}

void sequence_arrived(struct connection *connection, const struct packet *packet, const uint8_t *frame, size_t length)
{
	struct engine *engine = connection->engine;
	uint32_t sequence = sequence_widen(engine->codec, packet->sequence, connection->next_in);
	int32_t ahead = sequence_after(sequence, connection->next_in);

	if (!connection->heard_lately) {
		connection->heard_lately = true;
		engine->senders++;
		connection_wake(connection, engine->now_ns + QUIET_NS);
	}
	if (ahead < 0 || (ahead == 0 && packet->message.fragment < connection->fragment_in)) {
		engine_count(engine, COUNTER_FRAMES_DUPLICATE);
		sequence_owe(connection, true);
		return;
	}
	if (ahead > 0 || packet->message.fragment > connection->fragment_in) {
		if ((uint32_t)ahead > engine->codec->ahead_max)
			engine_count(engine, COUNTER_DROPPED_FULL);
		else
			sequence_hold(connection, packet, sequence, frame, length);
		if (engine->codec->selective) /* else it would say nothing new */
			sequence_owe(connection, true);
		return;
	}
	sequence_advance(connection, packet);
	if (!list_empty(&connection->held))
		sequence_drain(connection);
	if (connection->state == CONNECTION_OPEN)
		sequence_owe(connection, !list_empty(&connection->held) && engine->codec->selective);
}

/* ---- Time ------------------------------------------------------------------------------------------------- */

/* Nothing is heard for a short time: perhaps the last frames or their acknowledgement were lost. The oldest goes again, and the newest
 * that an acknowledgement can speak of: what comes back says what has become of those between. */
static void sequence_look(struct connection *connection)
{
	struct kept *oldest = NULL, *newest = NULL;

	for (struct list_node *node = list_first(&connection->unacked); node && node != connection->unsent;
	     node = list_next(&connection->unacked, node)) {
		struct kept *kept = container_of(node, struct kept, node);

		if (!kept->out)
			continue;
		if (!oldest)
			oldest = kept;
		else if (kept->sequence - oldest->sequence <= 64)
			newest = kept;
	}
	if (oldest)
		sequence_resend(connection, oldest);
	if (newest)
		sequence_resend(connection, newest);
	burst_send(connection->engine, 0); /* before any of them is acknowledged and freed */
	sequence_arm(connection);
}

/* Nothing is heard of the oldest frame: all that is out counts as lost, and goes out again as acknowledgements come in, from
 * the least window on. So senders that have filled a queue together do not do it again. */
static void sequence_late(struct connection *connection)
{
	struct list_node *node = list_first(&connection->unacked);
	bool look = sequence_timeout(connection) < RESEND_MIN_NS;

	if (connection->backoff < 16)
		connection->backoff++;
	if (look) {
		sequence_look(connection);
		return;
	}
	connection->window = sequence_window_least(connection->engine->codec);
	for (; node && node != connection->unsent; node = list_next(&connection->unacked, node))
		kept_in(connection, container_of(node, struct kept, node));
	connection->unsent = list_first(&connection->unacked) ? list_first(&connection->unacked) : &connection->unacked;
	connection->resend_ns = 0;
	connection_dirty(connection); /* which sends, and sets the next time */
}

uint64_t sequence_expire(struct connection *connection)
{
	uint64_t now_ns = connection->engine->now_ns, next_ns = UINT64_MAX;

	if (connection->gap_ns && connection->gap_ns <= now_ns)
		sequence_overtaken(connection);
	if (connection->resend_ns && connection->resend_ns <= now_ns)
		sequence_late(connection);
	if (connection->ack_ns && connection->ack_ns <= now_ns) {
		connection->ack_ns = 0;
		connection->ack_now = true;
		connection_dirty(connection);
	}
	if (connection->heard_lately) {
		if (now_ns - connection->heard_ns >= QUIET_NS)
			sequence_quiet(connection);
		else
			next_ns = connection->heard_ns + QUIET_NS;
	}
	if (connection->gap_ns && connection->gap_ns < next_ns)
		next_ns = connection->gap_ns;
	if (connection->resend_ns && connection->resend_ns < next_ns)
		next_ns = connection->resend_ns;
	if (connection->ack_ns && connection->ack_ns < next_ns)
		next_ns = connection->ack_ns;
	return next_ns;
}
