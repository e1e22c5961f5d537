/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records over frames in memory: what bounds how much is out, when it goes again, and which acknowledgements are
 * believed. Whole conversations under all kinds of faults are the simulator's.
 */
#include "unit.h"

#include "transport/datagram/connection.h"
#include "transport/datagram/sequence.h"
#include "transport/datagram/transmit_frame.h"
#include "wire.h"

static struct wire wires[2]; /* the inboxes of a and b */
static struct pair pair;
static uint64_t now_ns;

static struct connection *connection_a(void)
{
	return connection_of(&pair.a->peers[pair.a_to_b]->base);
}

static void quiet(void)
{
	while (endpoint_advance(pair.a, now_ns) + endpoint_advance(pair.b, now_ns) > 0)
		;
}

/* Nothing is lost for some time. */
static void pass(uint64_t ns)
{
	for (uint64_t end_ns = now_ns + ns; now_ns < end_ns; now_ns += 10000)
		quiet();
}

static void send_one(uint64_t length)
{
	static uint8_t bytes[1 << 18];

	assert_int_equal(thole_send(pair.a, pair.a_to_b, bytes, length, 0, 0, THOLE_INJECT | THOLE_QUIET, NULL, NULL),
			 0);
}

/* Both know each other, and nothing is under way. */
static void open_both(void)
{
	now_ns = 1000000000;
	wired_open(&pair, wires, &codec_native, NULL, NULL);
	send_one(8);
	pass(10000000);
	assert_true(endpoint_drained(pair.a));
	assert_int_equal(connection_a()->out.backoff, 0);
}

static void vanish_both(void)
{
	endpoint_vanish(pair.a);
	endpoint_vanish(pair.b);
}

/* All that waits for a side is lost. Returns how many RECORD frames were among it. */
static unsigned lose(unsigned side)
{
	struct wire *wire = &wires[side];
	unsigned records = 0;

	for (; wire->head != wire->tail; wire->head++)
		records += wire->frames[wire->head % 256][0] == PACKET_RECORD;
	return records;
}

/* What b might send. */
static void hand_a(struct packet *packet)
{
	uint8_t frame[PACKET_HEAD_MAX];
	size_t length;

	packet->to = connection_a()->index;
	packet->session = connection_a()->session;
	length = codec_native.encode(packet, frame);
	engine_frame(wires[0].link.engine, &wires[0].link, &wires[1].link.own, frame, length);
	endpoint_advance(pair.a, now_ns);
}

static void acknowledge(uint32_t ack, uint16_t credit, uint64_t held)
{
	hand_a(&(struct packet){.type = PACKET_ACK, .ack = ack, .credit = credit, .acked.held = held});
}

/* ---- Frames of one record ------------------------------------------------------------------------------------ */

static struct engine *engine_a(void)
{
	return &datagram_of(&pair.a->base)->engine;
}

static uint32_t trains(void)
{
	uint32_t live = 0;

	for (unsigned i = 0; i < TRAIN_SIZES; i++)
		live += engine_a()->trains[i].live;
	return live;
}

/* Bounds of the memory for frames that lie behind each other. */
static void trains_bound(uint32_t bound)
{
	for (unsigned i = 0; i < TRAIN_SIZES; i++)
		engine_a()->trains[i].bound = bound;
}

/* How many runs there are of the frames that are kept. */
static unsigned runs(void)
{
	const struct list_node *list = &connection_a()->out.unacked;
	unsigned count = 0;

	for (const struct list_node *node = list->next; node != list; node = node->next)
		count++;
	return count;
}

/* Many frames of a record are one piece for the kernel, and of few nobody makes a fuss. */
static void frames__of_a_record_lie_together(void **state)
{
	static const struct {
		uint64_t length;
		uint32_t frames, trains, runs;
	} cases[] = {{2000, 2, 0, 2}, {4000, 3, 1, 1}, {20000, 15, 1, 1}, {60000, 44, 1, 1}, {65536, 48, 1, 3}};

	(void)state;
	open_both();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		send_one(cases[i].length);
		assert_int_equal(trains(), cases[i].trains);
		assert_int_equal(runs(), cases[i].runs);
		assert_int_equal(transmit_kept(connection_a()), cases[i].frames);
		pass(10000000);
		assert_true(endpoint_drained(pair.a));
		assert_int_equal(trains(), 0);
	}
	vanish_both();
}

/* Where there is no such memory they lie apart. */
static void frames__lie_apart_without_memory(void **state)
{
	(void)state;
	open_both();
	trains_bound(0);
	send_one(4000);
	assert_int_equal(trains(), 0);
	assert_int_equal(engine_a()->large_frames.live, 3);
	pass(10000000);
	assert_true(endpoint_drained(pair.a));
	assert_int_equal(engine_a()->large_frames.live, 0);
	vanish_both();
}

/* A record of which not all frames can be had leaves none behind, and goes later. */
static void frames__of_half_a_record_are_taken_back(void **state)
{
	enum { TAKEN = 15 };
	void *taken[TAKEN];
	uint32_t next;

	(void)state;
	open_both();
	next = connection_a()->out.next;
	trains_bound(0);
	engine_a()->large_frames.bound = TAKEN + 1;
	for (int i = 0; i < TAKEN; i++)
		taken[i] = pool_get(&engine_a()->large_frames);
	send_one(4000);
	assert_true(engine_a()->owner->counters[COUNTER_FRAMES_EXHAUSTED] > 0);
	assert_true(list_empty(&connection_a()->out.unacked));
	assert_int_equal(engine_a()->large_frames.live, TAKEN);
	assert_int_equal(connection_a()->out.next, next);
	for (int i = 0; i < TAKEN; i++)
		pool_put(&engine_a()->large_frames, taken[i]);
	pass(10000000);
	assert_true(endpoint_drained(pair.a));
	vanish_both();
}

static unsigned offered;
static uint64_t credited;

static int mover_connects(struct mover *mover, const struct mover_peer *peer, uint32_t *id_p, struct mover_way **way_p)
{
	static struct mover_way way;

	(void)mover;
	credited = peer->credit;
	*id_p = 0;
	*way_p = &way;
	return 0;
}

static void mover_disconnects(struct mover *mover, uint32_t connection)
{
	(void)mover, (void)connection;
}

static int mover_offers(struct mover *mover, uint32_t connection, uint64_t window, const struct vector *memory)
{
	(void)mover, (void)connection, (void)window, (void)memory;
	offered++;
	return 0;
}

static void mover_withdraws(struct mover *mover, uint32_t connection, uint64_t window)
{
	(void)mover, (void)connection, (void)window;
	offered--;
}

static int mover_fetches(struct mover *mover, const struct mover_fetch *fetch)
{
	(void)mover, (void)fetch;
	return -1;
}

static unsigned mover_polls(struct mover *mover, const struct mover_reports *reports, struct engine *engine)
{
	(void)mover, (void)reports, (void)engine;
	return 0;
}

/* A window that nobody could be told of is offered to no mover: it would have it twice, and once for ever. */
static void rts__that_found_no_memory(void **state)
{
	static const struct mover_calls calls = {
		.connect = mover_connects, .disconnect = mover_disconnects, .offer = mover_offers,
		.withdraw = mover_withdraws, .fetch = mover_fetches, .poll = mover_polls,
	};
	enum { FRAMES = 4096 };
	static void *taken[FRAMES];
	struct mover mover = {.calls = &calls, .least = 1};
	struct pool *pool;
	unsigned count = 0;

	(void)state;
	open_both();
	offered = 0;
	wires[0].link.mover = &mover;
	pool = &engine_a()->small_frames;
	pool->bound = pool->capacity;
	while (count < FRAMES && (taken[count] = pool_get(pool)))
		count++;
	send_one(200000);
	quiet();
	assert_true(engine_a()->owner->counters[COUNTER_FRAMES_EXHAUSTED] > 0);
	assert_int_equal(offered, 0);
	while (count > 0)
		pool_put(pool, taken[--count]);
	endpoint_advance(pair.a, now_ns);
	assert_int_equal(offered, 1);
	assert_int_equal(engine_a()->offer_pool.live, 1);
	vanish_both();
}

/* By MXoE windows are few: one that cannot be told of keeps none of them, however often it is tried. */
static void rts__that_found_no_memory_keeps_no_window(void **state)
{
	enum { FRAMES = 4096, TRIES = 300 };
	static void *taken[FRAMES];
	struct pool *pool;
	unsigned count = 0;

	(void)state;
	now_ns = 1000000000;
	wired_open(&pair, wires, &codec_mxoe, NULL, NULL);
	send_one(8);
	pass(10000000);
	pool = &engine_a()->small_frames;
	pool->bound = pool->capacity;
	while (count < FRAMES && (taken[count] = pool_get(pool)))
		count++;
	send_one(200000);
	for (unsigned i = 0; i < TRIES; i++)
		endpoint_advance(pair.a, now_ns);
	assert_true(engine_a()->owner->counters[COUNTER_FRAMES_EXHAUSTED] > TRIES / 2);
	while (count > 0)
		pool_put(pool, taken[--count]);
	endpoint_advance(pair.a, now_ns);
	assert_int_equal(transmit_kept(connection_a()), 1);
	vanish_both();
}

/* A mover asks for no more at a time than the engine would, though that has asked for nothing yet. */
static void mover__has_the_credit_of_the_engine(void **state)
{
	static const struct mover_calls calls = {
		.connect = mover_connects, .disconnect = mover_disconnects, .offer = mover_offers,
		.withdraw = mover_withdraws, .fetch = mover_fetches, .poll = mover_polls,
	};
	struct mover mover = {.calls = &calls, .least = 1};

	(void)state;
	for (uint64_t window = 0; window <= 65536; window += 65536) {
		open_both();
		offered = 0;
		pair.a->base.options.net_window = window;
		wires[0].link.mover = &mover;
		send_one(200000);
		endpoint_advance(pair.a, now_ns);
		assert_int_equal(offered, 1);
		assert_int_equal(credited, window ? window : WINDOW_AUTO);
		vanish_both();
	}
}

/* A message that is more than one packet of the kernel's goes in full ones, unless the receiver has work anyway, and
 * what is left is not much. */
static void pieces__are_packets_at_rest(void **state)
{
	struct transport_peer *peer;
	uint32_t most;

	(void)state;
	open_both();
	peer = &pair.a->peers[pair.a_to_b]->base;
	most = engine_piece_max(engine_a(), peer, 65536);
	assert_in_range(most, 60000, 65535);
	assert_true(engine_piece_max(engine_a(), peer, 60000) >= 60000);
	assert_true(engine_piece_max(engine_a(), peer, 8) >= 8);
	send_one(8);
	assert_int_equal(engine_piece_max(engine_a(), peer, 65536), 65536);
	assert_int_equal(engine_piece_max(engine_a(), peer, 65537), most);
	pass(10000000);
	assert_int_equal(engine_piece_max(engine_a(), peer, 65536), most);
	vanish_both();
}

/* Where the link says so, what is two packets, or nearly one, goes as halves. */
static void pieces__are_halves(void **state)
{
	struct transport_peer *peer;
	uint32_t most, room, half, rest, more = codec_native.record_head - codec_native.piece_head;
	struct link *link;

	(void)state;
	open_both();
	peer = &pair.a->peers[pair.a_to_b]->base;
	link = engine_a()->links[connection_a()->routes.use[LINK_BULK]];
	room = connection_a()->routes.frame - codec_native.piece_head - guard_bytes(connection_a()->guard);
	most = engine_piece_max(engine_a(), peer, 65536);
	link->halves = true;
	connection_a()->out.heard = (uint16_t)(connection_a()->in.next - 1); /* it has sent one since */
	for (uint32_t left = 50000; left <= 65536; left += 32) {
		half = engine_piece_max(engine_a(), peer, left) + more;
		rest = (left + more - half + room - 1) / room;
		assert_int_equal(half % room, 0);
		assert_int_equal(half / room + rest, (left + more + room - 1) / room);
		assert_in_range(half / room, rest, rest + 1);
	}
	assert_int_equal(engine_piece_max(engine_a(), peer, 65537), most);
	assert_in_range(engine_piece_max(engine_a(), peer, 40000), 40000, most);
	send_one(8);
	pass(10000000);
	assert_int_equal(engine_piece_max(engine_a(), peer, 65536), most); /* it is no answer */
	vanish_both();
}

/* A packet ends with a frame that is short where that spares one behind it, and else makes no frames more. */
static void pieces__end_short_where_that_spares_a_frame(void **state)
{
	uint32_t whole = UINT32_MAX, longest = 0, room;
	struct transport_peer *peer;

	(void)state;
	open_both();
	peer = &pair.a->peers[pair.a_to_b]->base;
	room = connection_a()->routes.frame - codec_native.piece_head - guard_bytes(connection_a()->guard);
	for (uint32_t left = 70000; left < 300000; left += 100) {
		uint32_t most = engine_piece_max(engine_a(), peer, left);

		whole = most < whole ? most : whole;
		longest = most > longest ? most : longest;
	}
	assert_in_range(longest - whole, 1, room - 1);
	for (uint32_t left = 70000; left < 300000; left += 100) {
		uint32_t most = engine_piece_max(engine_a(), peer, left);
		uint32_t plain = (left - whole + room - 1) / room, some = (left - most + room - 1) / room;

		assert_int_equal(most > whole, (left - longest + room - 1) / room < plain);
		assert_true(some + (most > whole) <= plain);
	}
	vanish_both();
}

/* What is true of some frames of a run alone makes entries of their own of these. */
static void runs__are_split(void **state)
{
	uint32_t first;
	uint16_t credit;

	(void)state;
	open_both();
	first = connection_a()->out.next;
	credit = (uint16_t)connection_a()->out.credit;
	send_one(20000);
	endpoint_advance(pair.a, now_ns);
	assert_int_equal(lose(1), 15);
	assert_int_equal(runs(), 1);
	acknowledge(first + 5, credit, 0);
	assert_int_equal(runs(), 1);
	assert_int_equal(transmit_kept(connection_a()), 10);
	assert_int_equal(connection_a()->out.flight, 10);
	acknowledge(first + 5, credit, 6); /* two are held, behind two that are not */
	assert_int_equal(runs(), 3);
	assert_int_equal(connection_a()->out.flight, 8);
	acknowledge(first + 15, credit, 0);
	assert_true(endpoint_drained(pair.a));
	assert_int_equal(trains(), 0);
	vanish_both();
}

/* Of a run as much goes as there is credit for, and of that as much as its link takes. */
static void runs__go_as_far_as_there_is_room(void **state)
{
	struct wire *wire = &wires[1];

	(void)state;
	open_both();
	acknowledge(connection_a()->out.next, 12, 0);
	wire->tail += 256 - 7; /* there is room for seven */
	send_one(20000);
	wire->head += 256 - 7;
	assert_int_equal(lose(1), 7);
	assert_int_equal(connection_a()->out.flight, 7);
	assert_int_equal(runs(), 3);
	endpoint_advance(pair.a, now_ns);
	assert_int_equal(lose(1), 5);
	assert_int_equal(connection_a()->out.flight, 12);
	vanish_both();
}

/* Packets of the kernel's that the frames from here on are: each ends with a short frame, or is full. */
static unsigned packets_from(const struct list_node *node)
{
	const struct list_node *list = &connection_a()->out.unacked;
	uint32_t bytes = 0, last = 0;
	unsigned count = 0;

	for (; node != list; node = node->next) {
		const struct transmit_frame *run = container_of(node, struct transmit_frame, node);

		for (uint32_t i = 0; i < run->count; i++) {
			uint32_t length = i + 1 < run->count ? run->length : run->last;

			count += bytes == 0 || bytes + length > BATCH_MAX || length > last;
			bytes = bytes == 0 || bytes + length > BATCH_MAX || length > last ? length : bytes + length;
			last = length;
		}
	}
	return count;
}

/* The frames of 64 KiB are more than a packet, but not two: the next ones share it. */
static void messages__share_packets(void **state)
{
	struct wire *wire = &wires[1];

	(void)state;
	open_both();
	acknowledge(connection_a()->out.next, 256, 0);
	connection_a()->out.window = 256;
	wire->tail += 256; /* there is no room */
	for (int i = 0; i < 4; i++)
		send_one(65536);
	wire->head += 256;
	assert_int_equal(packets_from(connection_a()->out.unsent), 6);
	pass(10000000);
	assert_true(endpoint_drained(pair.a));
	vanish_both();
}

/* While an answer is awaited that says how much more may go, no less than a packet does. */
static void packets__are_waited_for(void **state)
{
	enum { CREDIT = 200 };

	(void)state;
	open_both();
	acknowledge(connection_a()->out.next, CREDIT, 0);
	connection_a()->out.window = 256;
	for (int i = 0; i < 6; i++)
		send_one(65536);
	assert_in_range(connection_a()->out.flight, CREDIT / 2, CREDIT - 1);
	assert_int_not_equal(connection_a()->out.unsent, &connection_a()->out.unacked);
	pass(10000000);
	assert_true(endpoint_drained(pair.a));
	vanish_both();
}

/* The first of several RTS goes at once, those behind it go together. */
static void rts__of_a_window_go_together(void **state)
{
	(void)state;
	open_both();
	for (int i = 0; i < 5; i++)
		send_one(200000);
	assert_int_equal(lose(1), 2);
	endpoint_advance(pair.a, now_ns);
	assert_int_equal(lose(1), 3);
	vanish_both();
}

/* ---- Acknowledgements --------------------------------------------------------------------------------------- */

static void ack__of_what_was_not_sent(void **state)
{
	uint32_t next;
	uint16_t credit;

	(void)state;
	open_both();
	for (int i = 0; i < 3; i++)
		send_one(8);
	endpoint_advance(pair.a, now_ns);
	assert_int_equal(lose(1), 3);
	next = connection_a()->out.next;
	credit = (uint16_t)connection_a()->out.credit;
	acknowledge(next + 1, 7, 0); /* nothing that it says is believed */
	assert_false(endpoint_drained(pair.a));
	assert_int_equal(connection_a()->out.credit, credit);
	acknowledge(next + 1000000, 7, UINT64_MAX);
	assert_false(endpoint_drained(pair.a));
	acknowledge(next - 1, credit, 0);
	assert_false(endpoint_drained(pair.a));
	acknowledge(next, credit, 0);
	assert_true(endpoint_drained(pair.a));
	vanish_both();
}

/* Nor can those frames of a message have arrived that wait for credit: they are sent all the same. */
static void ack__of_what_waits_for_credit(void **state)
{
	uint32_t next;

	(void)state;
	open_both();
	acknowledge(connection_a()->out.next, 5, 0);
	send_one(9 * 1400);
	endpoint_advance(pair.a, now_ns);
	assert_int_equal(lose(1), 5);
	next = connection_a()->out.next;
	acknowledge(next, 5, 0);
	assert_false(endpoint_drained(pair.a));
	assert_int_equal(lose(1), 5);
	acknowledge(next, 5, 0);
	assert_true(endpoint_drained(pair.a));
	vanish_both();
}

/* Of records that come as one each may say that more has arrived. */
static void ack__of_records_that_come_together(void **state)
{
	struct packet packet = {.type = PACKET_RECORD, .credit = 64, .message.record = {.kind = RECORD_EAGER}};
	uint8_t frames[2 * PACKET_HEAD_MAX];
	struct connection *a;
	size_t length = 0;

	(void)state;
	open_both();
	a = connection_a();
	send_one(8);
	send_one(8);
	endpoint_advance(pair.a, now_ns);
	assert_int_equal(lose(1), 2);
	packet.to = a->index;
	packet.session = a->session;
	for (uint32_t i = 0; i < 2; i++) {
		packet.sequence = a->in.next + i;
		packet.ack = a->out.next - 1 + i;
		length += codec_native.encode(&packet, frames + length);
	}
	engine_frames(engine_a(), &wires[0].link, &wires[1].link.own, frames, length, length / 2);
	assert_true(endpoint_drained(pair.a));
	vanish_both();
}

/* Not an ACK alone says what has arrived: a peer that pulls, or closes, may send nothing else for a while. */
static void ack__comes_with_a_pull(void **state)
{
	const struct connection *a;
	struct packet packet = {.type = PACKET_PULL, .pull = {.window = 1, .frame = 1000, .length = 8}};

	(void)state;
	open_both();
	a = connection_a();
	for (int i = 0; i < 3; i++)
		send_one(8);
	endpoint_advance(pair.a, now_ns);
	assert_int_equal(lose(1), 3);
	packet.ack = a->out.next - 1;
	packet.credit = 9;
	hand_a(&packet);
	assert_int_equal(a->out.flight, 1);
	assert_int_equal(a->out.credit, 9);
	packet.ack++;
	hand_a(&packet);
	assert_true(endpoint_drained(pair.a));
	vanish_both();
}

/* ---- What is said ------------------------------------------------------------------------------------------- */

/* Another host cannot read our memory, and need not know where it is. */
static void rts__does_not_say_where_memory_is(void **state)
{
	static uint8_t bytes[200000];
	struct thole_request *send;
	struct packet packet = {0};
	struct window window;

	(void)state;
	open_both();
	assert_int_equal(thole_send(pair.a, pair.a_to_b, bytes, sizeof(bytes), 0, 0, 0, NULL, &send), 0);
	endpoint_advance(pair.a, now_ns);
	assert_true(wires[1].head != wires[1].tail);
	assert_int_equal(codec_native.decode(&packet, wires[1].frames[wires[1].head % 256],
					     wires[1].lengths[wires[1].head % 256]),
			 0);
	assert_int_equal(packet.message.record.kind, RECORD_RTS);
	window_load(&window, &packet.message.record);
	assert_int_equal(window.length, sizeof(bytes));
	assert_int_equal(window.address, 0);
	vanish_both();
}

/* ---- How much is out ---------------------------------------------------------------------------------------- */

/* The receiver's word counts, for small frames as well. */
static void credit__bounds_what_is_out(void **state)
{
	static const uint64_t lengths[] = {8, 1000};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		open_both();
		acknowledge(connection_a()->out.next, 5, 0);
		for (int k = 0; k < 100; k++)
			send_one(lengths[i]);
		for (int k = 0; k < 10; k++)
			endpoint_advance(pair.a, now_ns);
		assert_int_equal(lose(1), 5);
		assert_int_equal(connection_a()->out.flight, 5);
		assert_true(pair.a->peers[pair.a_to_b]->base.stalled); /* polls try none in vain */
		acknowledge(connection_a()->out.next, 3, 0);
		for (int k = 0; k < 10; k++)
			endpoint_advance(pair.a, now_ns);
		assert_int_equal(lose(1), 3);
		vanish_both();
	}
}

/* However much has arrived, a window is no wider than what a receiver may hold: else no loss would ever be felt. */
static void window__has_a_bound(void **state)
{
	(void)state;
	open_both();
	for (int i = 0; i < 2000; i++) {
		send_one(1000);
		pass(150000);
	}
	assert_int_equal(connection_a()->out.window, codec_native.unacked_max);
	vanish_both();
}

/* One that is lost and seen to be makes the window narrower, and what arrives makes it wider again. */
static void window__shrinks_with_losses(void **state)
{
	uint32_t window, next;

	(void)state;
	open_both();
	window = connection_a()->out.window;
	next = connection_a()->out.next;
	for (int i = 0; i < 8; i++)
		send_one(1000);
	endpoint_advance(pair.a, now_ns);
	assert_int_equal(lose(1), 8);
	now_ns += 200000;
	acknowledge(next, 256, 0xfc >> 1); /* the first two are lost */
	assert_int_equal(connection_a()->out.window, window - 2 * LOSS_FRAMES);
	assert_int_equal(lose(1), 2);      /* and go again at once */
	now_ns += 200000;
	acknowledge(next + 8, 256, 0);
	assert_int_equal(connection_a()->out.window, window - 2 * LOSS_FRAMES + 8);
	vanish_both();
}

/* ---- Time-outs ------------------------------------------------------------------------------------------------ */

/* Advance the sender from deadline to deadline. Returns how many frames it has sent, and lost. */
static unsigned unheard(uint64_t until_ns)
{
	unsigned frames = 0;

	while (now_ns < until_ns) {
		endpoint_advance(pair.a, now_ns);
		frames += lose(1);
		now_ns = endpoint_deadline(pair.a) < until_ns ? endpoint_deadline(pair.a) : until_ns;
	}
	return frames;
}

/* The time doubles from some hundred microseconds to half a second, so in two seconds there are not many tries. */
static void timeout__doubles(void **state)
{
	uint64_t start_ns;
	unsigned first, more;

	(void)state;
	open_both();
	send_one(8);
	start_ns = now_ns;
	first = unheard(start_ns + 10000000);
	assert_in_range(first, 3, 7);
	more = unheard(start_ns + 2000000000);
	assert_in_range(more, 4, 12);
	assert_in_range(connection_a()->out.backoff, 8, 16);
	vanish_both();
}

/* Once all that is out counts as lost, it goes out again from the least window on: senders that have filled a queue
 * together do not do it again. */
static void timeout__begins_with_a_small_window(void **state)
{
	(void)state;
	open_both();
	for (int i = 0; i < 60; i++)
		send_one(1000);
	endpoint_advance(pair.a, now_ns);
	assert_int_equal(lose(1), 60);
	while (connection_a()->out.flight == 60) { /* looks at what has become of them */
		now_ns = endpoint_deadline(pair.a);
		endpoint_advance(pair.a, now_ns);
		assert_in_range(lose(1), 1, WINDOW_LEAST);
	}
	assert_int_equal(connection_a()->out.flight, WINDOW_LEAST);
	assert_int_equal(connection_a()->out.window, WINDOW_LEAST);
	vanish_both();
}

/* The last of many is lost: a look, long before all counts as lost, brings it, and costs no window. */
static void timeout__begins_with_a_poll(void **state)
{
	uint32_t window, next;

	(void)state;
	open_both();
	window = connection_a()->out.window;
	for (int i = 0; i < 8; i++)
		send_one(1000);
	endpoint_advance(pair.a, now_ns);
	wires[1].tail--; /* the last */
	quiet();
	next = connection_a()->out.next;
	pass(RESEND_MIN_NS / 2);
	assert_true(endpoint_drained(pair.a));
	assert_int_equal(connection_a()->out.next, next);
	assert_true(connection_a()->out.window >= window);
	vanish_both();
}

/* Of the newest frames those go again that an acknowledgement can tell of. */
static void timeout__polls_for_what_can_be_told(void **state)
{
	struct packet packet;
	uint32_t first;

	(void)state;
	open_both();
	acknowledge(connection_a()->out.next, 200, 0);
	first = connection_a()->out.next;
	for (int i = 0; i < 80; i++)
		send_one(8);
	endpoint_advance(pair.a, now_ns);
	assert_int_equal(lose(1), 80);
	for (int i = 0; i < 10 && wires[1].head == wires[1].tail; i++) {
		now_ns = endpoint_deadline(pair.a);
		endpoint_advance(pair.a, now_ns);
	}
	assert_int_equal(wires[1].tail - wires[1].head, 2);
	for (uint32_t i = 0; i < 2; i++, wires[1].head++) {
		assert_int_equal(codec_native.decode(&packet, wires[1].frames[wires[1].head % 256],
						     wires[1].lengths[wires[1].head % 256]), 0);
		assert_int_equal(packet.sequence, first + 64 * i);
	}
	vanish_both();
}

/* Anything that arrives ends the doubling, be it once that several tries were needed for, and the round trip stays
 * what it is. */
static void timeout__is_short_again_after_progress(void **state)
{
	uint64_t trip_ns;

	(void)state;
	open_both();
	trip_ns = connection_a()->out.trip.smoothed_ns;
	send_one(8);
	unheard(now_ns + 3000000000);
	assert_in_range(connection_a()->out.backoff, 8, 16);
	while (wires[1].head == wires[1].tail) { /* the next try arrives */
		now_ns = endpoint_deadline(pair.a);
		endpoint_advance(pair.a, now_ns);
	}
	pass(200000);
	assert_true(endpoint_drained(pair.a));
	assert_int_equal(connection_a()->out.backoff, 0);
	assert_in_range(connection_a()->out.trip.smoothed_ns, trip_ns / 4, 4 * trip_ns + 200000);
	vanish_both();
}

/* ---- Trips ---------------------------------------------------------------------------------------------------- */

/* So many exchanges, after which the trip is known. */
static void exchange(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		send_one(8);
		pass(1000000);
	}
}

/* One sends a message, and looks again so long after its acknowledgement has come. */
static void look_late(uint64_t late_ns)
{
	send_one(8);
	endpoint_advance(pair.a, now_ns);
	while (wires[0].head == wires[0].tail) {
		endpoint_advance(pair.b, now_ns);
		now_ns += 10000;
	}
	now_ns += late_ns;
	endpoint_advance(pair.a, now_ns);
	assert_true(endpoint_drained(pair.a));
}

/* Who computes, or has no processor, finds the answer once it looks: how long that took was not the trip, and what is
 * lost afterwards is missed as soon as before. */
static void trip__is_not_how_late_one_looks(void **state)
{
	struct trip trip;
	uint64_t lost_ns;

	(void)state;
	open_both();
	exchange(20);
	trip = connection_a()->out.trip;
	for (int i = 0; i < 5; i++)
		look_late(300000000);
	assert_int_equal(connection_a()->out.trip.smoothed_ns, trip.smoothed_ns);
	assert_int_equal(connection_a()->out.trip.deviation_ns, trip.deviation_ns);
	send_one(8);
	endpoint_advance(pair.a, now_ns);
	assert_int_equal(lose(1), 1);
	for (lost_ns = now_ns; wires[1].head == wires[1].tail; endpoint_advance(pair.a, now_ns))
		now_ns = endpoint_deadline(pair.a);
	assert_true(now_ns - lost_ns < RESEND_MIN_NS);
	vanish_both();
}

/* The peer answers so late, and the sender sleeps but where something is due. */
static void answered_late(uint64_t late_ns)
{
	uint64_t answer_ns = now_ns + late_ns;

	send_one(8);
	for (endpoint_advance(pair.a, now_ns); endpoint_deadline(pair.a) < answer_ns; endpoint_advance(pair.a, now_ns))
		now_ns = endpoint_deadline(pair.a);
	for (now_ns = answer_ns; wires[0].head == wires[0].tail; now_ns += 10000)
		endpoint_advance(pair.b, now_ns);
	pass(1000000);
}

/* Who sleeps learns that the way has become longer, and sends no message again and again: once, as the time since then
 * is taken for the trip. */
static void trip__is_learnt_by_who_sleeps(void **state)
{
	uint64_t resent;

	(void)state;
	open_both();
	exchange(20);
	for (int i = 0; i < 30; i++)
		answered_late(5000000);
	resent = connection_a()->out.frames_resent;
	for (int i = 0; i < 10; i++)
		answered_late(5000000);
	assert_in_range(connection_a()->out.frames_resent - resent, 0, 10);
	vanish_both();
}

/* A look of somebody who waits for the answer to what was sent then, and finds something; or the answer, too. */
static void look(struct trip_away *away, uint64_t at_ns, unsigned found)
{
	trip_look(away, at_ns);
	trip_looked(away, found);
}

static void answer(struct trip *trip, struct trip_away *away, uint64_t sent_ns, uint64_t at_ns)
{
	trip_look(away, at_ns);
	trip_measure(trip, at_ns - sent_ns, trip_unseen(away, sent_ns));
	trip_looked(away, 1);
}

/* Of two seldom looks the first has not found it: so long it took. */
static void trip__is_learnt_by_seldom_looks(void **state)
{
	const uint64_t between_ns = 10 * TRIP_AWAY_NS, way_ns = 25 * between_ns - between_ns / 2;
	struct trip trip = {.smoothed_ns = 30000, .deviation_ns = 1000};
	struct trip_away away = {0};
	uint64_t at_ns = 1000000000;

	(void)state;
	for (int i = 0; i < 100; i++) {
		uint64_t sent_ns = at_ns;

		look(&away, sent_ns, 0);
		for (at_ns += between_ns; at_ns - sent_ns < way_ns; at_ns += between_ns)
			look(&away, at_ns, 0);
		answer(&trip, &away, sent_ns, at_ns);
	}
	assert_in_range(trip.smoothed_ns, way_ns - between_ns, way_ns + between_ns);
}

/* What came while nobody looked is not all found at the first look, nor need it be before nobody looks again. */
static void trip__behind_much_that_came(void **state)
{
	struct trip trip = {.smoothed_ns = 30000, .deviation_ns = 1000};
	struct trip_away away = {0};
	uint64_t at_ns = 1000000000, sent_ns = at_ns, first_ns = at_ns;

	(void)state;
	look(&away, at_ns, 0);
	look(&away, at_ns += 300000000, 1);
	answer(&trip, &away, sent_ns, at_ns += 10000);
	sent_ns = at_ns;
	look(&away, at_ns += 100000000, 1);
	answer(&trip, &away, sent_ns, at_ns += 10000);
	answer(&trip, &away, first_ns, at_ns);
	assert_int_equal(trip.smoothed_ns, 30000);
	assert_int_equal(trip.deviation_ns, 1000);
	look(&away, at_ns += 10000, 0); /* all is found */
	sent_ns = at_ns;
	look(&away, at_ns += TRIP_AWAY_NS, 0);
	answer(&trip, &away, sent_ns, at_ns += TRIP_AWAY_NS);
	assert_in_range(trip.smoothed_ns, 30000 + (2 * TRIP_AWAY_NS - 30000) / 8 - 8, 30000 + 2 * TRIP_AWAY_NS / 8);
}

/* The first is believed as far as it is known. */
static void trip__that_is_the_first(void **state)
{
	struct trip trip = {0}, late = {0};

	(void)state;
	trip_measure(&trip, 30000, 20000);
	assert_int_equal(trip.smoothed_ns, 30000);
	trip_measure(&late, 300000000, 299990000);
	assert_int_equal(late.smoothed_ns, TRIP_FIRST_NS);
	trip = (struct trip){0};
	trip_measure_again(&trip, 300000000);
	assert_int_equal(trip.smoothed_ns, TRIP_FIRST_NS);
	trip_measure_again(&trip, 300000000);
	assert_in_range(trip.smoothed_ns, TRIP_FIRST_NS, 2 * TRIP_FIRST_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames__of_a_record_lie_together),
		cmocka_unit_test(frames__lie_apart_without_memory),
		cmocka_unit_test(frames__of_half_a_record_are_taken_back),
		cmocka_unit_test(rts__that_found_no_memory),
		cmocka_unit_test(rts__that_found_no_memory_keeps_no_window),
		cmocka_unit_test(mover__has_the_credit_of_the_engine),
		cmocka_unit_test(pieces__are_packets_at_rest),
		cmocka_unit_test(pieces__are_halves),
		cmocka_unit_test(pieces__end_short_where_that_spares_a_frame),
		cmocka_unit_test(runs__are_split),
		cmocka_unit_test(runs__go_as_far_as_there_is_room),
		cmocka_unit_test(messages__share_packets),
		cmocka_unit_test(packets__are_waited_for),
		cmocka_unit_test(rts__of_a_window_go_together),
		cmocka_unit_test(ack__of_what_was_not_sent),
		cmocka_unit_test(ack__of_what_waits_for_credit),
		cmocka_unit_test(ack__of_records_that_come_together),
		cmocka_unit_test(ack__comes_with_a_pull),
		cmocka_unit_test(rts__does_not_say_where_memory_is),
		cmocka_unit_test(credit__bounds_what_is_out),
		cmocka_unit_test(window__has_a_bound),
		cmocka_unit_test(window__shrinks_with_losses),
		cmocka_unit_test(timeout__doubles),
		cmocka_unit_test(timeout__begins_with_a_small_window),
		cmocka_unit_test(timeout__begins_with_a_poll),
		cmocka_unit_test(timeout__polls_for_what_can_be_told),
		cmocka_unit_test(timeout__is_short_again_after_progress),
		cmocka_unit_test(trip__is_not_how_late_one_looks),
		cmocka_unit_test(trip__is_learnt_by_seldom_looks),
		cmocka_unit_test(trip__is_learnt_by_who_sleeps),
		cmocka_unit_test(trip__behind_much_that_came),
		cmocka_unit_test(trip__that_is_the_first),
	};

	setenv("THOLE_OPTIONS_FILE", "", 1);
	return cmocka_run_group_tests_name("transmit", tests, NULL, NULL);
}
