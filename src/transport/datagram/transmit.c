/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transmit: records out, over frames that may be lost: numbers, repetition, how many may be under way. Pure.
 *
 * transmit_push encodes a record into frames, which stay in `unacked` until the peer has them. Invariants: `unacked`
 * is in order; the frames from `unsent` on are to be sent, some of them again; those before it are out, or the peer
 * holds them; `flight` counts what is out. Frames that lie behind each other are one entry, a run, until something is
 * true of some of them alone.
 *
 * Fast retransmission from selective acknowledgements, a time-out from measured round trips with doubling, which
 * begins as a probe of what has become of the last frames, and a window that narrows by some frames for each that is
 * lost and grows by each that is not; credit, given out by the receiver over all of its senders, bounds it from the
 * other side.
 */
#include <string.h>

#include "transport/datagram/burst.h"
#include "transport/datagram/connection.h"
#include "transport/datagram/transmit_frame.h"
#include "transport/datagram/sequence.h"

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* A window that is no smaller takes a message of as many frames as there may be, and some more. */
static uint32_t transmit_window_least(const struct codec *codec)
{
	return WINDOW_LEAST * codec->fragments_max;
}

/* It is not under way any more. */
static void transmit_frame_in(struct connection *connection, struct transmit_frame *frame)
{
	if (frame->out)
		connection->out.flight -= frame->count;
	frame->out = false;
}

void transmit_begin(struct connection *connection)
{
	list_init(&connection->out.unacked);
	connection->out.unsent = &connection->out.unacked;
	connection->out.window = WINDOW_FIRST;
	connection->out.credit = connection->engine->codec->credit_first;
	connection->out.next = SEQUENCE_FIRST;
}

void transmit_end(struct connection *connection)
{
	transmit_frame_free_all(connection->engine, &connection->out.unacked);
	connection->out.unsent = &connection->out.unacked;
	connection->out.flight = 0;
	connection->out.resend_ns = connection->out.gap_ns = 0;
}

void transmit_start(struct connection *connection, uint32_t next)
{
	const struct codec *codec = connection->engine->codec;

	connection->out.next = sequence_narrow(codec, next);
	connection->out.epoch = next ^ connection->out.next;
	connection->out.credit = codec->credit_unsaid;
}

/* ---- Cutting -------------------------------------------------------------------------------------------- */

/* How a record is cut into frames. */
struct cut {
	uint32_t most; /* bytes of a frame */
	uint32_t room; /* of payload in it, behind a head as long as that of the frame before */
	bool many;     /* a record of many frames, which lie behind each other */
	bool wide;     /* they go by the link for bulk */
	struct transmit_train *train; /* where, */
	struct transmit_frame *run;   /* and the run that goes on; NULL: none does */
	uint64_t bytes; /* of all frames from the next one on, about */
	uint32_t head;  /* of the piece before, if that fills its frame: */
	const uint8_t *piece; /* this one; the next one's head is like it. NULL: there is none */
	/* Frames before the short one: it is the last of a packet of the kernel's, and not of the record, whose last
	 * frames then begin a packet that the next record goes on with. UINT32_MAX: as it comes. */
	uint32_t before;
};

/* Encode the head of a record's next frame, which has as much of what is left as fits, or as a fragment may have.
 * Returns its bytes. */
static size_t transmit_head(const struct codec *codec, struct packet *packet, uint8_t *head, uint64_t left,
			    struct cut *cut)
{
	uint32_t most = smaller(codec->fragment, cut->most);
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

/* Whether a piece that is as long may have the same head, but for its number. */
static bool transmit_likes(const struct codec *codec, const struct packet *packet, bool full)
{
	return full && codec->encode_next && packet->message.record.kind == RECORD_PIECE;
}

/* Where a record's next frame goes, which is kept from now on; NULL: there is no memory. */
static uint8_t *transmit_place(struct connection *connection, const struct packet *packet, uint32_t length,
			       struct cut *cut)
{
	struct engine *engine = connection->engine;
	uint8_t *bytes = cut->run ? transmit_frame_extend(cut->run, length, 1) : NULL;
	struct transmit_frame *frame;

	if (bytes)
		return bytes;
	frame = cut->many ? transmit_frame_behind(engine, &cut->train, length, cut->bytes)
			  : transmit_frame_new(engine, length);
	if (!frame)
		return NULL;
	cut->run = engine->codec->fragments_max <= 1 ? frame : NULL; /* fragments have one number */
	frame->sequence = connection->out.next;
	frame->fragment = packet->message.fragment;
	frame->wide = cut->wide;
	list_push_back(&connection->out.unacked, &frame->node);
	if (connection->out.unsent == &connection->out.unacked)
		connection->out.unsent = &frame->node;
	return frame->bytes;
}

/* Frames with so many bytes in all were made. */
static void transmit_made(struct connection *connection, struct cut *cut, uint32_t frames, uint64_t bytes)
{
	connection->out.next += frames;
	cut->bytes -= bytes < cut->bytes ? bytes : cut->bytes;
	if (cut->wide)
		connection->out.wide_end = connection->out.next;
}

/* Bytes of payload in a record's next frame, at most. */
static uint64_t transmit_wanted(const struct connection *connection, const struct packet *packet, uint64_t left,
				struct cut *cut)
{
	uint32_t room;

	if (cut->before == UINT32_MAX || cut->before-- > 0 || packet->message.record.kind != RECORD_PIECE)
		return left;
	room = cut->most - connection->engine->codec->piece_head - guard_bytes(connection->guard);
	return left % room > 0 ? left % room : left;
}

/* Keep one frame of a record: from `offset` of the payload on. Returns the bytes of payload in it, or -1. */
static int64_t transmit_frame(struct connection *connection, struct packet *packet, const struct vector *payload,
			      uint64_t offset, uint64_t left, struct cut *cut)
{
	struct engine *engine = connection->engine;
	uint8_t head[PACKET_HEAD_MAX], *bytes;
	uint32_t length;
	size_t size;

	packet->sequence = sequence_narrow(engine->codec, connection->out.next) | connection->out.epoch;
	size = transmit_head(engine->codec, packet, head, transmit_wanted(connection, packet, left, cut), cut);
	length = packet->length;
	bytes = transmit_place(connection, packet, (uint32_t)size + length, cut);
	if (!bytes)
		return -1;
	memcpy(bytes, head, size);
	cut->head = (uint32_t)size;
	cut->piece = transmit_likes(engine->codec, packet, length == cut->room) ? bytes : NULL;
	if (payload)
		vector_read(payload, offset, bytes + size, length);
	else
		memcpy(bytes + size, packet->message.record.payload, length);
	transmit_made(connection, cut, engine->codec->fragments_max <= 1 || length == left, size + length);
	return length;
}

/* Keep the pieces that are like the one before, as long, and have room behind it. Returns the bytes of payload in
 * them. */
static uint64_t transmit_pieces(struct connection *connection, const struct vector *payload, uint64_t offset,
				uint64_t left, struct cut *cut)
{
	uint32_t room = cut->room, head = cut->head, count;
	const struct codec *codec = connection->engine->codec;
	uint8_t *bytes;

	if (!cut->piece || !cut->run || !payload || left < room)
		return 0;
	count = smaller(left / room < UINT8_MAX ? (uint32_t)(left / room) : UINT8_MAX,
			smaller(cut->before, transmit_frame_room(cut->run, head + room)));
	bytes = count > 0 ? transmit_frame_extend(cut->run, head + room, count) : NULL;
	if (!bytes)
		return 0;
	for (uint32_t i = 0; i < count; i++, bytes += head + room, offset += room) {
		codec->encode_next(bytes, cut->piece, head, connection->out.next + i);
		vector_read(payload, offset, bytes + head, room);
	}
	if (cut->before != UINT32_MAX)
		cut->before -= count;
	transmit_made(connection, cut, count, (uint64_t)count * (head + room));
	return (uint64_t)count * room;
}

/* Take back the frames that a record had up to here: nothing of it has left. */
static void transmit_take_back(struct connection *connection, uint32_t first)
{
	while (!list_empty(&connection->out.unacked)) {
		struct transmit_frame *frame = container_of(connection->out.unacked.prev, struct transmit_frame, node);

		if (sequence_after(frame->sequence, first) < 0)
			break;
		if (connection->out.unsent == &frame->node)
			connection->out.unsent = &connection->out.unacked;
		list_remove(&frame->node);
		transmit_frame_free(connection->engine, frame);
	}
	connection->out.next = first;
}

/* ---- How much ------------------------------------------------------------------------------------------- */

/* How many frames may be sent now. Small ones cannot fill a queue and are not held back by the window: a program may
 * make no further call after the one that has sent them, and others wait for what they say. */
static uint32_t transmit_window(const struct connection *connection, bool large)
{
	return large ? smaller(connection->out.window, connection->out.credit) : connection->out.credit;
}

static uint32_t transmit_room(const struct connection *connection, bool large)
{
	uint32_t window = transmit_window(connection, large);

	return connection->out.flight < window ? window - connection->out.flight : 0;
}

/* Frames that wait to be sent: some, while a burst gathers. */
static uint32_t transmit_queued(const struct connection *connection)
{
	const struct list_node *node = connection->out.unsent;
	uint32_t count = 0;

	for (; node != &connection->out.unacked; node = node->next) {
		const struct transmit_frame *frame = container_of(node, struct transmit_frame, node);

		count += frame->held ? 0 : frame->count;
	}
	return count;
}

/* Whether a record may be added now. */
static bool transmit_takes(const struct connection *connection, bool large)
{
	return connection->state == CONNECTION_OPEN &&
	       connection->out.flight + transmit_queued(connection) < transmit_window(connection, large);
}

void transmit_ready(struct connection *connection)
{
	if (connection->peer->stalled && transmit_takes(connection, true))
		connection->peer->owner->up->room(connection->peer);
}

/* Whether a record of so many bytes goes by the link for bulk: if it is long, or one before it went there and is
 * perhaps still on its way, since it would overtake that one. */
static bool transmit_wide(struct connection *connection, uint32_t length)
{
	const struct list_node *first = list_first(&connection->out.unacked);

	if (connection->routes.use[LINK_BULK] == connection->routes.use[LINK_RECORDS])
		return false;
	return length > WIDE_FRAMES * connection->routes.frame ||
	       (first && sequence_after(connection->out.wide_end,
					container_of(first, struct transmit_frame, node)->sequence) > 0);
}

uint32_t transmit_record_max(const struct connection *connection)
{
	return connection->routes.frame - connection_record_head(connection);
}

uint32_t transmit_piece_max(const struct connection *connection, uint64_t left)
{
	const struct codec *codec = connection->engine->codec;
	uint32_t frame = connection->routes.frame, frames = smaller(BATCH_MAX / frame, ENGINE_BURST - 1);
	uint32_t piece_head = codec->piece_head + guard_bytes(connection->guard), last = BATCH_MAX - frames * frame;
	uint32_t room = frame - piece_head, whole = frames * room - (codec->record_head - codec->piece_head);

	/* and one that is shorter, where that is worth its head and spares a frame behind the packet */
	if (last >= frame || last <= piece_head + RECORD_INLINE_MAX || left <= whole)
		return whole;
	last -= piece_head;
	left -= whole + 1;
	return left < last || left / room > (left - last) / room ? whole + last : whole;
}

uint32_t transmit_half(const struct connection *connection, uint64_t left)
{
	const struct codec *codec = connection->engine->codec;
	uint32_t room = connection->routes.frame - codec->piece_head - guard_bytes(connection->guard);
	uint32_t more = codec->record_head - codec->piece_head; /* the first frame's head is longer */

	return (((uint32_t)left + more - 1) / room / 2 + 1) * room - more;
}

/* How many frames of such a length still belong into the packet that the last of those that wait are in. */
static uint32_t transmit_packet_left(const struct connection *connection, uint32_t length)
{
	const struct list_node *node = connection->out.unsent;
	uint32_t all = smaller(BATCH_MAX / length, ENGINE_BURST - 1), count = 0;

	for (; node != &connection->out.unacked; node = node->next) {
		const struct transmit_frame *frame = container_of(node, struct transmit_frame, node);

		count = frame->length == length && frame->last == length ? (count + frame->count) % all : 0;
	}
	return all - count;
}

uint64_t transmit_bytes_max(const struct connection *connection)
{
	return (uint64_t)transmit_room(connection, true) * transmit_record_max(connection);
}

/* Whether an RTS that was pushed may wait for the next poll, and others with it, which go as one packet then: those
 * before it keep the peer busy, and it is served by polls alone. */
static bool transmit_is_patient(const struct connection *connection)
{
	return connection->out.flight > 0 && transmit_kept(connection) > PATIENT_FRAMES &&
	       !connection->engine->links[connection->routes.use[LINK_BULK]]->mover;
}

static bool transmit_has_window(const struct record *record)
{
	return record->kind == RECORD_RTS || record->flags & RECORD_WINDOW;
}

int transmit_push(struct engine *engine, struct transport_peer *peer, const struct record *record,
		  const struct vector *payload, uint64_t offset, uint32_t length)
{
	struct connection *connection = connection_of(peer);
	struct packet packet;
	uint32_t first, left = length;
	struct cut cut;

	if (!connection || !transmit_takes(connection, length > RECORD_SMALL)) {
		peer->stalled = connection != NULL; /* the backlog keeps it */
		return THOLE_ERR_AGAIN;
	}
	first = connection->out.next;
	connection_packet(connection, &packet, PACKET_RECORD);
	packet.message.record = *record;
	if (transmit_has_window(record)) {
		packet.message.record.arg[1] = 0; /* where our memory is, is none of another host's business */
		if (!engine->naming->window(connection, &packet.message.record.arg[2]))
			return THOLE_ERR_AGAIN;
	}
	if (length == 0 && record->length != RECORD_EXTERNAL) { /* the data is inside the record */
		left = record->length;
		payload = NULL;
	} else if (length > 0 && record->kind != RECORD_PIECE && length > transmit_record_max(connection) &&
		   !(record->flags & RECORD_MORE)) {
		packet.message.record.flags |= RECORD_MORE;
		packet.message.record.length = RECORD_EXTERNAL;
		packet.message.record.arg[0] = length;
	} else if (record->flags & RECORD_MORE) {
		packet.message.record.length = RECORD_EXTERNAL;
	}
	packet.message.total = record->kind == RECORD_FINISH ? finish_bytes(record->imm) : left;
	cut = (struct cut){.most = connection->routes.frame, .room = connection->routes.frame, .before = UINT32_MAX};
	cut.wide = transmit_wide(connection, length);
	cut.many = left > WIDE_FRAMES * cut.most;
	cut.bytes = left + (left / cut.most + 1) * (uint64_t)connection_record_head(connection);
	if (cut.many && engine->codec->fragments_max <= 1 && left > transmit_piece_max(connection, left))
		cut.before = transmit_packet_left(connection, cut.most) - 1;
	for (;;) {
		int64_t taken = transmit_frame(connection, &packet, payload, offset, left, &cut);

		if (taken < 0) {
			transmit_take_back(connection, first);
			if (record->kind == RECORD_RTS)
				engine->naming->window_back(connection, packet.message.record.arg[2]);
			engine_count(engine, COUNTER_FRAMES_EXHAUSTED);
			return THOLE_ERR_AGAIN;
		}
		taken += (int64_t)transmit_pieces(connection, payload, offset + (uint64_t)taken, left - (uint64_t)taken,
						  &cut);
		offset += (uint64_t)taken;
		left -= (uint32_t)taken;
		if (left == 0)
			break;
		if (engine->codec->fragments_max > 1)
			packet.message.fragment++; /* they say themselves what they are a fragment of */
		else
			packet.message.record = (struct record){.kind = RECORD_PIECE};
	}
	connection->out.heard = (uint16_t)connection->in.next;
	if (__builtin_expect(transmit_has_window(record), 0)) /* it has no payload: the packet is still its own */
		handover_note(connection, &packet.message.record);
	if (record->kind == RECORD_RTS && transmit_is_patient(connection))
		connection_patient(connection);
	else
		connection_dirty(connection);
	return 0;
}

/* ---- Sending -------------------------------------------------------------------------------------------- */

/* How long nothing may be heard of what is out: by measured trips, twice as long each time. */
static uint64_t transmit_timeout(const struct connection *connection)
{
	uint64_t ns = trip_limit(&connection->out.trip);
	uint64_t least_ns = connection->out.trip.smoothed_ns ? RESEND_PROBE_NS : RESEND_MIN_NS;

	if (connection->engine->codec->resend_ns)
		return connection->engine->codec->resend_ns;
	if (ns < least_ns)
		ns = least_ns;
	ns <<= connection->out.backoff;
	return connection_spread(connection, ns < RESEND_MAX_NS ? ns : RESEND_MAX_NS, connection->out.backoff);
}

static void transmit_arm(struct connection *connection)
{
	if (connection->out.flight == 0) {
		connection->out.resend_ns = 0;
		return;
	}
	connection->out.resend_ns = connection->engine->now_ns + transmit_timeout(connection);
	connection_wake(connection, connection->out.resend_ns);
}

static uint8_t transmit_usual(const struct connection *connection, const struct transmit_frame *frame)
{
	return connection->routes.use[frame->wide ? LINK_BULK : LINK_RECORDS];
}

/* The link for a frame: every other repetition tries another one, where there is one that works. */
static uint8_t transmit_link(const struct connection *connection, const struct transmit_frame *frame)
{
	uint8_t usual = transmit_usual(connection, frame);

	return frame->resends & 1 ? route_other(connection, usual, frame->resends / 2, frame->length) : usual;
}

/* report: what the peer is told of its own frames (arrival_report). calm: so many of them from the front need not be
 * acknowledged at once. again: they were sent before; if the link has no room now, the time-out will see to them. */
static bool transmit_send(struct connection *connection, struct transmit_frame *run, const struct packet *report,
			  bool again, uint32_t calm)
{
	const struct codec *codec = connection->engine->codec;
	uint8_t link = transmit_link(connection, run), *bytes = run->bytes;
	struct frame_out first = {.to = &connection->route[link].records, .head = bytes, .channel = CHANNEL_RECORDS};
	/* It is split if there is no room. */
	uint32_t count = run->count, length = run->length, calms = smaller(calm, count);

	if (calms > 0)
		codec->restamp(bytes, calms, length, report->ack, report->credit, 0);
	if (calms < count)
		codec->restamp(bytes + calms * length, count - calms, length, report->ack, report->credit,
			       PACKET_ANSWER);
	run->sent_ns = connection->engine->now_ns;
	if (run->resends == 0)
		run->link = link;
	connection->out.frames_sent += count;
	first.head_length = count > 1 ? length : run->last;
	if (count == 1)
		return burst_add(connection->engine, link, &first, connection->guard, connection, again ? NULL : run);
	return burst_add_run(connection->engine, link, &first, count, run->last, connection, again ? NULL : run);
}

static bool transmit_precedes(const struct transmit_frame *a, const struct transmit_frame *b)
{
	return a->sequence == b->sequence ? a->fragment < b->fragment : sequence_after(a->sequence, b->sequence) < 0;
}

/* The link did not take it, nor those behind it, which were of the same burst: as if they had never been sent. What
 * another link did not take may have been before it. */
void transmit_unsend(struct connection *connection, struct transmit_frame *run, const uint8_t *bytes)
{
	uint32_t taken = (uint32_t)(bytes - run->bytes) / run->length;
	struct transmit_frame *frame = taken ? transmit_frame_split(run, taken) : run;
	struct list_node *node = &frame->node;

	for (; node != &connection->out.unacked && node != connection->out.unsent; node = node->next)
		transmit_frame_in(connection, container_of(node, struct transmit_frame, node));
	if (connection->out.unsent == &connection->out.unacked ||
	    transmit_precedes(frame, container_of(connection->out.unsent, struct transmit_frame, node)))
		connection->out.unsent = &frame->node;
	connection_dirty(connection);
}

static void transmit_repeated(struct connection *connection, struct transmit_frame *frame)
{
	if (frame->resends < UINT8_MAX)
		frame->resends++;
	connection->out.frames_resent += frame->count;
	connection->engine->owner->counters[COUNTER_FRAMES_RETRANSMITTED] += frame->count;
}

static void transmit_resend(struct connection *connection, struct transmit_frame *frame)
{
	struct packet report;

	transmit_repeated(connection, frame);
	arrival_report(connection, &report);
	transmit_send(connection, frame, &report, true, 0);
}

/* ---- What has arrived there ----------------------------------------------------------------------------- */

static void transmit_grow(struct connection *connection, uint32_t acked)
{
	connection->out.window = smaller(connection->out.window + acked, connection->engine->codec->unacked_max);
}

/* Narrower by some frames for each that is lost, and wider by one for each that is not: single losses hardly cost
 * anything, and where one in LOSS_FRAMES is lost there are too many under way. */
static void transmit_shrink(struct connection *connection, uint32_t lost)
{
	uint32_t least = transmit_window_least(connection->engine->codec);
	struct transmit *out = &connection->out;

	out->window = out->window > least + lost * LOSS_FRAMES ? out->window - lost * LOSS_FRAMES : least;
}

/* How long a frame is given that others have overtaken. */
static uint64_t transmit_patience(const struct connection *connection)
{
	return connection->out.trip.smoothed_ns / 2 < REORDER_NS ? connection->out.trip.smoothed_ns / 2 : REORDER_NS;
}

/* There are frames beyond it that the peer has. One that was repeated is not again until something sent after that has
 * arrived: the round trip, as it was measured, may be far shorter than what a queue has made of it. */
static bool transmit_lost(const struct connection *connection, const struct transmit_frame *frame)
{
	return frame->resends == 0 ? connection->engine->now_ns - frame->sent_ns > transmit_patience(connection)
				  : connection->out.delivered_ns > frame->sent_ns;
}

/* The peer has it. What was sent earlier and is not there is probably lost. Of one that was repeated just now it was
 * an earlier sending that has arrived: nothing is known of the latest. */
static void transmit_delivered(struct connection *connection, const struct transmit_frame *frame)
{
	uint64_t ns = connection->engine->now_ns - frame->sent_ns;

	connection->out.backoff = 0; /* there is a way */
	if (frame->resends > 0 && ns < connection->out.trip.least_ns)
		return;
	if (frame->resends == 0)
		trip_shorten(&connection->out.trip, ns);
	if (frame->sent_ns > connection->out.delivered_ns) {
		connection->out.delivered_ns = frame->sent_ns;
		connection->engine->repeated = frame->resends > 0;
	}
}

/* Whether a frame was lost by its link, and arrived once it was sent again by another. The answer has to be to the
 * repetition: one that comes sooner than any can is to the first sending, one that comes late is of a peer that was
 * busy. And frames that were sent at once were lost for one reason, or waited for one: only what was sent since a loss
 * was counted counts again. */
static void transmit_judge(struct connection *connection, const struct transmit_frame *frame)
{
	uint64_t ns = connection->engine->now_ns - frame->sent_ns;
	uint8_t usual = transmit_usual(connection, frame);
	struct route *route = &connection->route[usual];

	if (connection->routes.working < 2 || frame->link != usual)
		return;
	if (frame->resends == 0)
		route->lost_in_row = 0;
	else if (ns >= connection->out.trip.least_ns && ns <= LINK_TRIP_NS && frame->sent_ns > route->lost_ns)
		route_lose(connection, usual);
}

static void transmit_release(struct connection *connection, uint32_t ack)
{
	struct engine *engine = connection->engine;
	uint32_t acked = 0;
	struct list_node *node;

	while ((node = list_first(&connection->out.unacked))) {
		struct transmit_frame *frame = container_of(node, struct transmit_frame, node);

		if (sequence_after(frame->sequence, ack) >= 0 || frame->sent_ns == 0)
			break;
		if (ack - frame->sequence < frame->count)
			transmit_frame_split(frame, ack - frame->sequence);
		if (node == connection->out.unsent)
			connection->out.unsent = node->next; /* taken for lost, and was not */
		if (!frame->held)
			transmit_delivered(connection, frame);
		transmit_judge(connection, frame);
		transmit_frame_in(connection, frame);
		acked += frame->count;
		list_remove(node);
		transmit_frame_free(engine, frame);
	}
	transmit_grow(connection, acked);
	if (sequence_after(ack, connection->out.wide_end) > 0)
		connection->out.wide_end = ack; /* left behind, it would seem to be ahead after 2^31 frames */
	if (acked > 0)
		transmit_arm(connection);
}

/* Something that was sent after all that was known to have arrived has arrived: the trip of the newest is that of the
 * network, as others may have waited behind a gap. */
static void transmit_progress(struct connection *connection)
{
	const struct engine *engine = connection->engine;
	uint64_t sent_ns = connection->out.delivered_ns;

	if (engine->repeated)
		trip_measure_again(&connection->out.trip, engine->now_ns - sent_ns);
	else
		trip_measure(&connection->out.trip, engine->now_ns - sent_ns, trip_unseen(engine->away, sent_ns));
	engine->owner->counters[COUNTER_RTT_NS] = connection->out.trip.smoothed_ns;
	transmit_arm(connection);
}

/* The peer holds frames up to held_end, and not all before: those are lost, unless they were sent just now. Then they
 * are checked again, as perhaps nothing more comes from there that would have it done. */
static void transmit_overtaken(struct connection *connection)
{
	struct list_node *node = list_first(&connection->out.unacked);

	connection->out.gap_ns = 0;
	for (; node; node = list_next(&connection->out.unacked, node)) {
		struct transmit_frame *frame = container_of(node, struct transmit_frame, node);

		if (sequence_after(frame->sequence, connection->out.held_end) >= 0)
			break;
		if (frame->held || !frame->out)
			continue;
		if (transmit_lost(connection, frame)) {
			transmit_shrink(connection, frame->count);
			transmit_resend(connection, frame);
		} else if (frame->resends == 0 && connection->out.gap_ns == 0) {
			connection->out.gap_ns = frame->sent_ns + transmit_patience(connection) + 1;
			connection_wake(connection, connection->out.gap_ns);
		}
	}
	burst_send(connection->engine, 0); /* before any of them is acknowledged and freed */
}

/* Whether an acknowledgement says of a frame that the peer holds it. */
static bool transmit_is_held(uint32_t ahead, uint64_t held)
{
	return ahead > 0 && ahead <= 64 && (held >> (ahead - 1) & 1);
}

static void transmit_selective(struct connection *connection, uint32_t ack, uint64_t held)
{
	struct list_node *node = list_first(&connection->out.unacked);

	connection->out.held_end = ack + 1 + (64 - (uint32_t)__builtin_clzll(held));
	for (; node; node = list_next(&connection->out.unacked, node)) {
		struct transmit_frame *frame = container_of(node, struct transmit_frame, node);
		uint32_t ahead = frame->sequence - ack, same = 1;

		if (sequence_after(frame->sequence, connection->out.held_end) >= 0)
			break;
		while (same < frame->count && transmit_is_held(ahead + same, held) == transmit_is_held(ahead, held))
			same++;
		if (same < frame->count)
			transmit_frame_split(frame, same);
		if (!transmit_is_held(ahead, held))
			continue;
		if (!frame->held)
			transmit_delivered(connection, frame);
		transmit_frame_in(connection, frame);
		frame->held = true;
	}
	transmit_overtaken(connection);
}

void transmit_acked(struct connection *connection, const struct packet *packet)
{
	const struct codec *codec = connection->engine->codec;
	uint32_t ack = sequence_widen(codec, packet->ack, connection->out.next);
	struct list_node *first = list_first(&connection->out.unacked);
	uint64_t delivered_ns = connection->out.delivered_ns;

	if (sequence_after(ack, connection->out.next) > 0)
		return; /* of what was not sent yet: made up, or of another time */
	connection->out.credit = smaller(packet->credit ? packet->credit : codec->credit_unsaid, codec->ahead_max);
	if (first && sequence_after(ack, container_of(first, struct transmit_frame, node)->sequence) > 0)
		transmit_release(connection, ack);
	if (packet->type == PACKET_ACK && packet->acked.held && !list_empty(&connection->out.unacked))
		transmit_selective(connection, ack, packet->acked.held);
	if (connection->out.delivered_ns > delivered_ns)
		transmit_progress(connection);
	if (connection->out.unsent != &connection->out.unacked)
		connection_dirty(connection);
	transmit_ready(connection);
}

uint32_t transmit_kept(const struct connection *connection)
{
	const struct list_node *first = list_first(&connection->out.unacked);

	return first ? connection->out.next - container_of(first, struct transmit_frame, node)->sequence : 0;
}

bool transmit_is_out(const struct connection *connection, uint32_t wire)
{
	const struct codec *codec = connection->engine->codec;
	const struct list_node *first = list_first(&connection->out.unacked);
	uint32_t sequence = sequence_widen(codec, wire, connection->out.next);

	return first && (wire ^ sequence_narrow(codec, wire)) == connection->out.epoch &&
	       sequence_after(sequence, connection->out.next) < 0 &&
	       sequence_after(sequence, container_of(first, struct transmit_frame, node)->sequence) >= 0;
}

/* ---- Out, and time -------------------------------------------------------------------------------------- */

/* Whether what waits is better sent once it is a packet: there is more than may be sent now, and an acknowledgement
 * is due, which says that more may be. */
static bool transmit_gathers(const struct connection *connection, const struct transmit_frame *run, uint32_t room)
{
	uint32_t due = smaller(connection->engine->codec->ack_every, connection->out.credit / 2);
	uint32_t all = BATCH_MAX / run->length;

	return room < all && all <= due && connection->out.flight >= due && room < transmit_queued(connection);
}

/* A run becomes what may be sent of it in a packet of the kernel's that has so many bytes. False: nothing of it. */
static bool transmit_trim(struct transmit_frame *run, uint32_t room, uint32_t packet)
{
	uint32_t all = (run->count - 1u) * run->length + run->last;
	uint32_t count = packet + all <= BATCH_MAX ? run->count : (BATCH_MAX - packet) / run->length;

	if (count > 0 && run->count > smaller(room, count))
		transmit_frame_split(run, smaller(room, count));
	return count > 0;
}

void transmit_connection(struct connection *connection)
{
	bool idle = connection->out.flight == 0, reported = false;
	uint32_t packet = 0; /* bytes of the packet of the kernel's that gathers */
	struct packet report;

	while (connection->out.unsent != &connection->out.unacked) {
		struct transmit_frame *frame = container_of(connection->out.unsent, struct transmit_frame, node);
		uint32_t room = transmit_room(connection, frame->large);

		if (frame->held) {
			connection->out.unsent = frame->node.next;
			continue;
		}
		if (room == 0 || (frame->train && packet == 0 && transmit_gathers(connection, frame, room)))
			break;
		if (frame->train && !transmit_trim(frame, room, packet)) {
			burst_send(connection->engine, 0);
			packet = 0;
			continue;
		}
		connection->out.unsent = frame->node.next;
		frame->out = true;
		connection->out.flight += frame->count;
		if (frame->sent_ns)
			transmit_repeated(connection, frame);
		if (!reported)
			arrival_report(connection, &report);
		reported = true;
		/* What fills the window is to be acknowledged at once: nothing follows that would have it done. */
		if (!transmit_send(connection, frame, &report, false, room - 1))
			break;
		packet += frame->count * frame->length;
		if (!frame->train || frame->last < frame->length) { /* nothing can follow in it */
			if (packet > BATCH_MAX / 2) /* else the next would be cut where the burst ends */
				burst_send(connection->engine, 0);
			packet = 0;
		}
	}
	if (idle && connection->out.flight > 0)
		transmit_arm(connection);
	if (connection->in.ack_now)
		arrival_acknowledge(connection);
	transmit_ready(connection);
}

/* One frame of a run becomes an entry by itself. */
static struct transmit_frame *transmit_single(struct transmit_frame *run, uint32_t at)
{
	if (at > 0)
		run = transmit_frame_split(run, at);
	if (run->count > 1)
		transmit_frame_split(run, 1);
	return run;
}

/* Nothing is heard for a short time: perhaps the last frames or their acknowledgement were lost. The oldest goes
 * again, and the newest that an acknowledgement can speak of: what comes back says what has become of those between. */
static void transmit_poll(struct connection *connection)
{
	struct transmit_frame *oldest = NULL, *newest = NULL;

	for (struct list_node *node = list_first(&connection->out.unacked); node && node != connection->out.unsent;
	     node = list_next(&connection->out.unacked, node)) {
		struct transmit_frame *frame = container_of(node, struct transmit_frame, node);

		if (!frame->out)
			continue;
		if (!oldest)
			oldest = transmit_single(frame, 0); /* what follows comes next */
		else if (frame->sequence - oldest->sequence <= 64)
			newest = frame;
	}
	if (newest) {
		uint32_t most = oldest->sequence + 64 - newest->sequence;

		newest = transmit_single(newest, smaller(most, newest->count - 1u));
	}
	if (oldest)
		transmit_resend(connection, oldest);
	if (newest)
		transmit_resend(connection, newest);
	burst_send(connection->engine, 0); /* before any of them is acknowledged and freed */
	transmit_arm(connection);
}

/* Nothing is heard of the oldest frame: all that is out counts as lost, and goes out again as acknowledgements come
 * in, from the least window on. So senders that have filled a queue together do not do it again. */
static void transmit_late(struct connection *connection)
{
	struct list_node *node = list_first(&connection->out.unacked);
	bool poll = transmit_timeout(connection) < RESEND_MIN_NS;

	if (connection->out.backoff < 16)
		connection->out.backoff++;
	if (poll) {
		transmit_poll(connection);
		return;
	}
	connection->out.window = transmit_window_least(connection->engine->codec);
	for (; node && node != connection->out.unsent; node = list_next(&connection->out.unacked, node))
		transmit_frame_in(connection, container_of(node, struct transmit_frame, node));
	connection->out.unsent =
		list_first(&connection->out.unacked) ? list_first(&connection->out.unacked) : &connection->out.unacked;
	connection->out.resend_ns = 0;
	connection_dirty(connection); /* which sends, and sets the next time */
}

uint64_t transmit_expire(struct connection *connection)
{
	uint64_t now_ns = connection->engine->now_ns, next_ns = UINT64_MAX;

	if (connection->out.gap_ns && connection->out.gap_ns <= now_ns)
		transmit_overtaken(connection);
	if (connection->out.resend_ns && connection->out.resend_ns <= now_ns)
		transmit_late(connection);
	if (connection->out.gap_ns)
		next_ns = connection->out.gap_ns;
	if (connection->out.resend_ns && connection->out.resend_ns < next_ns)
		next_ns = connection->out.resend_ns;
	return next_ns;
}
