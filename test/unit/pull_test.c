/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bulk over frames in memory: what a fetch takes for its own, and what the owner of a window gives. Whole transfers
 * under all kinds of faults are the simulator's.
 */
#include "unit.h"

#include "message/message.h"
#include "transport/datagram/connection.h"
#include "wire.h"

static struct wire wires[2]; /* the inboxes of a and b */
static uint64_t now_ns;

static const char *const offered[] = {"net_eager_max=0", NULL};

static void open_both(struct pair *pair, const struct codec *codec)
{
	now_ns = 1000000000;
	wired_open(pair, wires, codec, offered, offered);
}

static void vanish_both(struct pair *pair)
{
	endpoint_vanish(pair->a);
	endpoint_vanish(pair->b);
}

/* ---- Names of transfers ------------------------------------------------------------------------------------ */

enum { FETCH_BYTES = 64 };

/* The first frame of a type that waits in an inbox, -1: none. */
static int frame_of(const struct wire *wire, const struct codec *codec, unsigned type, struct packet *packet)
{
	for (unsigned at = wire->head; at != wire->tail; at++)
		if (codec->decode(packet, wire->frames[at % 256], wire->lengths[at % 256]) == 0 && packet->type == type)
			return (int)(at % 256);
	return -1;
}

/* Until a frame of this type waits for a side that is not advanced. */
static int run_until(struct pair *pair, unsigned side, const struct codec *codec, unsigned type, struct packet *packet)
{
	for (int i = 0; i < 1000; i++) {
		int at = frame_of(&wires[side], codec, type, packet);

		if (at >= 0)
			return at;
		endpoint_advance(side == 0 ? pair->b : pair->a, now_ns);
		at = frame_of(&wires[side], codec, type, packet);
		if (at >= 0)
			return at;
		endpoint_advance(side == 0 ? pair->a : pair->b, now_ns);
	}
	fail_msg("no frame of type %u", type);
	return -1;
}

/* One transfer from a to b whose DATA is that of an earlier one, if there is such; returns its own DATA. */
static void fetch_once(struct pair *pair, const struct codec *codec, uint64_t id, uint64_t *transfer_p, uint8_t *data,
		       size_t *length_p)
{
	struct thole_request *send, *receive;
	void *out = pair_filled(id, FETCH_BYTES);
	uint8_t in[FETCH_BYTES];
	struct packet packet;
	int at;

	assert_int_equal(thole_recv(pair->b, pair->b_to_a, in, FETCH_BYTES, 1, UINT64_MAX, 0, NULL, &receive), 0);
	assert_int_equal(thole_send(pair->a, pair->a_to_b, out, FETCH_BYTES, 1, 0, 0, NULL, &send), 0);
	at = run_until(pair, 1, codec, PACKET_DATA, &packet);
	*transfer_p = packet.data.transfer;
	if (*length_p)
		engine_frame(wires[1].link.engine, &wires[1].link, &wires[0].link.own, data, *length_p);
	else
		memcpy(data, wires[1].frames[at], *length_p = wires[1].lengths[at]);
	assert_int_equal(wired_finish(pair, &now_ns, pair->b, receive), 0);
	assert_int_equal(wired_finish(pair, &now_ns, pair->a, send), 0);
	pair_check(id, in, FETCH_BYTES);
	free(out);
}

/* One slot is used again and again; each time its transfer has another name, so that data of an earlier one is never
 * taken. */
static void transfers__do_not_come_again(void **state)
{
	enum { FETCHES = 9000 };
	static const struct codec *const codecs[] = {&codec_native, &codec_mxoe, &codec_mxoe_jumbo};
	static uint64_t transfers[FETCHES];

	(void)state;
	for (size_t k = 0; k < 3; k++) {
		uint8_t data[ENGINE_FRAME_MAX];
		size_t length = 0;
		struct pair pair;

		open_both(&pair, codecs[k]);
		for (uint64_t i = 0; i < FETCHES; i++) {
			fetch_once(&pair, codecs[k], i, &transfers[i], data, &length);
			assert_true(i == 0 || transfers[i] != transfers[0]);
		}
		/* they were few, and came again */
		assert_int_equal(datagram_of(&pair.b->base)->engine.fetches.capacity, 16);
		vanish_both(&pair);
	}
}

/* A window is for whom it was announced to, whoever else learns its name (mxoe: 16 bits). */
static void window__of_another_peer(void **state)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 9};
	static const uint8_t bytes[FETCH_BYTES];
	const struct codec *codec = &codec_mxoe;
	struct path path = {{2, 0, 0, 0, 0, 9}};
	struct thole_request *send, *receive;
	uint8_t in[FETCH_BYTES], frame[PACKET_HEAD_MAX];
	struct connection *other;
	struct address_parts parts;
	struct thole_address address;
	struct packet packet;
	struct engine *a;
	struct pair pair;
	uint64_t nacks;
	uint32_t peer;

	(void)state;
	open_both(&pair, codec);
	a = wires[0].link.engine;
	assert_int_equal(thole_recv(pair.b, pair.b_to_a, in, FETCH_BYTES, 1, UINT64_MAX, 0, NULL, &receive), 0);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, bytes, FETCH_BYTES, 1, 0, 0, NULL, &send), 0);
	run_until(&pair, 0, codec, PACKET_PULL, &packet);
	address_mxoe(mac, 9, &parts);
	address_format(&parts, &address);
	assert_int_equal(thole_peer(pair.a, &address, &peer), 0);
	other = connection_get(a, &endpoint_peer(pair.a, peer)->base);
	route_reach(other, 0, &path);
	other->peer_session = 1;
	connection_open(other);
	packet.from = 9;
	nacks = pair.a->base.counters[COUNTER_NACKS_SENT];
	engine_frame(a, &wires[0].link, &path, frame, codec->encode(&packet, frame));
	assert_int_equal(pair.a->base.counters[COUNTER_NACKS_SENT], nacks + 1);
	assert_int_equal(a->serves.live, 0);
	assert_int_equal(wired_finish(&pair, &now_ns, pair.b, receive), 0);
	assert_int_equal(wired_finish(&pair, &now_ns, pair.a, send), 0);
	vanish_both(&pair);
}

/* ---- One transfer, looked at closely ------------------------------------------------------------------------- */

enum { PULL_LATE_NS = 2000000, LONG_BYTES = 4 << 20, FRAME_BYTES = (1400 - 32) & ~7 };

static struct {
	struct pair pair;
	struct thole_request *send, *receive;
	uint8_t *out, *in;
} one;

static struct connection *connection_b(void)
{
	return connection_of(&one.pair.b->peers[one.pair.b_to_a]->base);
}

static struct engine *engine_b(void)
{
	return &datagram_of(&one.pair.b->base)->engine;
}

/* Frames of a type that wait for a side; all of them are lost. */
static unsigned lose(unsigned side, unsigned type)
{
	struct wire *wire = &wires[side];
	unsigned count = 0;

	for (; wire->head != wire->tail; wire->head++)
		count += wire->frames[wire->head % 256][0] == type;
	return count;
}

/* A window of `length` bytes is offered, and b has sent its first PULLs. */
static void long_open(uint64_t length)
{
	static const uint8_t small[8];

	open_both(&one.pair, &codec_native);
	one.out = pair_filled(9, length);
	one.in = malloc(length);
	/* The paths are measured first. */
	assert_int_equal(thole_send(one.pair.b, one.pair.b_to_a, small, 8, 0, 0, THOLE_QUIET, NULL, NULL), 0);
	for (int i = 0; i < 1000; i++, now_ns += 10000) {
		endpoint_advance(one.pair.a, now_ns);
		endpoint_advance(one.pair.b, now_ns);
	}
	assert_int_equal(thole_recv(one.pair.b, one.pair.b_to_a, one.in, length, 9, UINT64_MAX, 0, NULL, &one.receive),
			 0);
	assert_int_equal(thole_send(one.pair.a, one.pair.a_to_b, one.out, length, 9, 0, 0, NULL, &one.send), 0);
	for (int i = 0; i < 100 && connection_b()->pull.peer.outstanding == 0; i++) {
		endpoint_advance(one.pair.a, now_ns);
		endpoint_advance(one.pair.b, now_ns);
	}
	assert_true(connection_b()->pull.peer.outstanding > 0);
}

static void long_close(void)
{
	vanish_both(&one.pair);
	free(one.in);
	free(one.out);
}

/* Both, until it is done. */
static void long_finish(uint64_t length)
{
	assert_int_equal(wired_finish(&one.pair, &now_ns, one.pair.b, one.receive), 0);
	assert_int_equal(wired_finish(&one.pair, &now_ns, one.pair.a, one.send), 0);
	pair_check(9, one.in, length);
}

/* Hand a frame to a side at once. */
static void hand(unsigned side, const struct packet *packet)
{
	uint8_t frame[ENGINE_FRAME_MAX];
	size_t length = codec_native.encode(packet, frame);

	if (packet->length)
		memcpy(frame + length, packet->payload, packet->length);
	engine_frame(wires[side].link.engine, &wires[side].link, &wires[!side].link.own, frame,
		     length + packet->length);
}

/* What a has sent of frame number `i` of the window. */
static void hand_data(const struct packet_pull *pull, unsigned i)
{
	const struct connection *b = connection_b();
	struct packet packet = {.type = PACKET_DATA, .to = b->index, .session = b->session,
				.data = {.transfer = pull->transfer, .offset = (uint64_t)i * pull->frame},
				.payload = one.out + (size_t)i * pull->frame, .length = pull->frame};

	hand(1, &packet);
}

/* ---- The window's owner --------------------------------------------------------------------------------------- */

enum { RANGE_BYTES = 10 * FRAME_BYTES + 40 };

/* A PULL like that of b; returns whether it was refused, and nothing came of it. */
static bool refused(const struct packet *like, uint64_t offset, uint32_t length, uint32_t frame, uint64_t wanted)
{
	struct thole_endpoint *a = one.pair.a;
	uint64_t before = a->base.counters[COUNTER_DROPPED_MALFORMED];
	struct packet packet = *like;
	unsigned frames;

	packet.pull.offset = offset;
	packet.pull.length = length;
	packet.pull.frame = frame;
	packet.pull.wanted = wanted;
	hand(0, &packet);
	for (int i = 0; i < 5; i++)
		endpoint_advance(a, now_ns);
	frames = lose(1, PACKET_DATA);
	assert_true((frames == 0) == (a->base.counters[COUNTER_DROPPED_MALFORMED] > before));
	assert_int_equal(datagram_of(&a->base)->engine.serves.live, 0);
	return frames == 0;
}

/* Whoever pulls gets bytes of the window alone, in frames that the path may carry. */
static void range__is_checked(void **state)
{
	struct packet pull;

	(void)state;
	long_open(RANGE_BYTES);
	assert_true(frame_of(&wires[0], &codec_native, PACKET_PULL, &pull) >= 0);
	lose(0, 0);
	assert_int_equal(pull.pull.length, RANGE_BYTES);
	assert_int_equal(pull.pull.frame, FRAME_BYTES);
	assert_false(refused(&pull, 0, RANGE_BYTES, FRAME_BYTES, 0));
	assert_false(refused(&pull, RANGE_BYTES - 8, 8, FRAME_BYTES, 0));
	assert_false(refused(&pull, RANGE_BYTES - 8, 8, FRAME_BYTES, 1));
	for (uint32_t beyond = 1; beyond <= 8; beyond++) {
		assert_true(refused(&pull, beyond, RANGE_BYTES, FRAME_BYTES, 0));
		assert_true(refused(&pull, 0, RANGE_BYTES + beyond, FRAME_BYTES, 0));
		assert_true(refused(&pull, RANGE_BYTES - 8 + beyond, 8, FRAME_BYTES, 1));
		assert_true(refused(&pull, RANGE_BYTES, beyond, FRAME_BYTES, 0));
	}
	assert_true(refused(&pull, UINT32_MAX, 8, FRAME_BYTES, 0));
	assert_true(refused(&pull, 0, RANGE_BYTES, FRAME_BYTES, 1 << 11)); /* of eleven frames */
	assert_true(refused(&pull, 0, RANGE_BYTES, ENGINE_FRAME_MAX, 0));  /* longer than any link carries, */
	/* and so short that they would be very many */
	assert_true(refused(&pull, 0, RANGE_BYTES, 64, 0));
	long_close();
}

/* PULLs that wait are few for each peer, and one that comes again while it waits is answered once. */
static void pulls__that_wait_have_a_bound(void **state)
{
	const struct engine *a;
	const uint64_t *counters;
	struct packet pull;

	(void)state;
	long_open(RANGE_BYTES);
	a = &datagram_of(&one.pair.a->base)->engine;
	counters = one.pair.a->base.counters;
	assert_true(frame_of(&wires[0], &codec_native, PACKET_PULL, &pull) >= 0);
	lose(0, 0);
	hand(0, &pull);
	hand(0, &pull);
	assert_int_equal(counters[COUNTER_FRAMES_DUPLICATE], 1);
	assert_int_equal(a->serves.live, 1);
	for (unsigned i = 1; i < SERVES_MAX; i++) {
		pull.pull.transfer++;
		hand(0, &pull);
	}
	assert_int_equal(a->serves.live, SERVES_MAX);
	assert_int_equal(counters[COUNTER_DROPPED_FULL], 0);
	for (unsigned i = 0; i < 3; i++) {
		pull.pull.transfer++;
		hand(0, &pull);
	}
	assert_int_equal(a->serves.live, SERVES_MAX);
	assert_int_equal(counters[COUNTER_DROPPED_FULL], 3);
	long_close();
}

/* ---- Whose DATA it is ------------------------------------------------------------------------------------------ */

/* A second peer, which b knows as well; nothing is asked of it. */
static struct connection *another_peer(void)
{
	struct address_parts parts = {.host = 7, .endpoint = 107, .network = {ADDRESS_IPV4, 0, 1, 1, 10, 0, 0, 7}};
	struct connection *connection;
	struct thole_address address;
	uint32_t peer;

	address_format(&parts, &address);
	assert_int_equal(thole_peer(one.pair.b, &address, &peer), 0);
	connection = connection_get(engine_b(), &endpoint_peer(one.pair.b, peer)->base);
	assert_non_null(connection);
	connection_open(connection);
	return connection;
}

/* It can neither feed the transfer of somebody else, nor end it. */
static void transfer__of_another_peer(void **state)
{
	struct connection *other;
	struct packet pull, data = {.type = PACKET_DATA};
	uint64_t duplicates;

	(void)state;
	long_open(RANGE_BYTES);
	assert_true(frame_of(&wires[0], &codec_native, PACKET_PULL, &pull) >= 0);
	other = another_peer();
	data.data.transfer = pull.pull.transfer;
	data.length = pull.pull.frame;
	data.payload = one.out + pull.pull.frame; /* wrong bytes */
	duplicates = one.pair.b->base.counters[COUNTER_FRAMES_DUPLICATE];
	pull_data_arrived(other, &data);
	assert_int_equal(one.pair.b->base.counters[COUNTER_FRAMES_DUPLICATE], duplicates + 1);
	pull_nacked(other, pull.pull.transfer);
	assert_int_equal(engine_b()->fetches.live, 1);
	long_finish(RANGE_BYTES);
	long_close();
}

/* Of a fetch that its peer has refused nothing is waited for any more. */
static void refused__ends_the_timer(void **state)
{
	struct packet pull;

	(void)state;
	long_open(RANGE_BYTES);
	assert_true(frame_of(&wires[0], &codec_native, PACKET_PULL, &pull) >= 0);
	assert_true(connection_b()->pull.peer.timeout_ns > 0);
	pull_nacked(connection_b(), pull.pull.transfer);
	assert_int_equal(engine_b()->fetches.live, 0);
	assert_int_equal(connection_b()->pull.peer.timeout_ns, 0);
	long_close();
}

/* A frame is one of those that its block is cut into, or nothing: part of one would count for all of it. */
static void data__is_a_whole_frame(void **state)
{
	static const struct {
		uint64_t offset;
		uint32_t length;
		bool taken;
	} cases[] = {
		{0, FRAME_BYTES - 8, false},
		{0, FRAME_BYTES + 8, false},
		{8, FRAME_BYTES - 8, false},
		{8, FRAME_BYTES, false},
		{FRAME_BYTES - 8, 8, false},
		{10 * FRAME_BYTES + 8, 32, false},
		{10 * FRAME_BYTES, 32, false},
		{RANGE_BYTES, 8, false},
		{RANGE_BYTES + FRAME_BYTES, FRAME_BYTES, false},
		{FRAME_BYTES, FRAME_BYTES, true},
		{10 * FRAME_BYTES, 40, true},
	};
	struct packet pull, data = {.type = PACKET_DATA};

	(void)state;
	long_open(RANGE_BYTES);
	assert_true(frame_of(&wires[0], &codec_native, PACKET_PULL, &pull) >= 0);
	data.to = connection_b()->index;
	data.session = connection_b()->session;
	data.data.transfer = pull.pull.transfer;
	data.payload = one.out; /* wrong bytes, where it is not taken */
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t malformed = one.pair.b->base.counters[COUNTER_DROPPED_MALFORMED];

		data.data.offset = cases[i].offset;
		data.length = cases[i].length;
		if (cases[i].taken)
			data.payload = one.out + cases[i].offset;
		hand(1, &data);
		assert_int_equal(one.pair.b->base.counters[COUNTER_DROPPED_MALFORMED], malformed + !cases[i].taken);
	}
	long_finish(RANGE_BYTES);
	long_close();
}

/* ---- What is lost ---------------------------------------------------------------------------------------------- */

/* Let b be, and lose what it says, until some time. Returns how many PULLs it sends. */
static unsigned unheard(uint64_t until_ns)
{
	unsigned pulls = 0;

	while (now_ns < until_ns) {
		endpoint_advance(one.pair.b, now_ns);
		pulls += lose(0, PACKET_PULL);
		now_ns = endpoint_deadline(one.pair.b) < until_ns ? endpoint_deadline(one.pair.b) : until_ns;
	}
	return pulls;
}

/* Nothing comes: b asks less and less often, with less under way, and others have its share of the credit. A single
 * frame ends that. */
static void timeout__doubles_until_something_comes(void **state)
{
	uint64_t start_ns, window;
	struct packet pull;

	(void)state;
	long_open(LONG_BYTES);
	assert_true(frame_of(&wires[0], &codec_native, PACKET_PULL, &pull) >= 0);
	lose(0, 0);
	start_ns = now_ns;
	window = connection_b()->pull.peer.window;
	assert_true(engine_b()->blocks.outstanding > 0);
	unheard(start_ns + 10 * PULL_LATE_NS);
	assert_int_equal(engine_b()->blocks.outstanding, 0);
	assert_true(connection_b()->pull.peer.outstanding > 0);
	assert_true(connection_b()->pull.peer.window <= window / 2);
	assert_in_range(unheard(start_ns + 3 * UINT64_C(1000000000)), 16, 150); /* sixteen blocks at most each time */
	assert_in_range(connection_b()->pull.peer.backoff, 7, 16);
	hand_data(&pull.pull, 3);
	assert_int_equal(connection_b()->pull.peer.backoff, 0);
	assert_true(connection_b()->pull.peer.timeout_ns <= now_ns + 20 * PULL_LATE_NS);
	long_finish(LONG_BYTES);
	assert_int_equal(connection_b()->pull.peer.timeout_ns, 0);
	long_close();
}

/* Who says other things is at work, and is not asked again so soon; who says nothing is. */
static void busy__is_not_asked_again(void **state)
{
	struct block_peer *peer;
	struct packet ack = {.type = PACKET_ACK, .credit = 64};
	unsigned pulls = 0;

	(void)state;
	long_open(LONG_BYTES);
	peer = &connection_b()->pull.peer;
	lose(0, 0);
	peer->trip.smoothed_ns = PULL_PROBE_NS / 10;
	peer->timeout_ns = now_ns + PULL_PROBE_NS;
	connection_wake(connection_b(), peer->timeout_ns);
	ack.to = connection_b()->index;
	ack.session = connection_b()->session;
	ack.ack = connection_b()->out.next;
	for (int i = 0; i < 10; i++, now_ns += PULL_PROBE_NS / 2) {
		hand(1, &ack);
		endpoint_advance(one.pair.b, now_ns);
		pulls += lose(0, PACKET_PULL);
	}
	assert_int_equal(pulls, 0);
	assert_true(unheard(now_ns + 3 * PULL_PROBE_NS) > 0);
	long_finish(LONG_BYTES);
	long_close();
}

/* The last frame that was asked for comes, and others have not: those are asked for again at once, by name; and once
 * more when the last of these has come. */
static void lost__are_asked_for_at_once(void **state)
{
	struct packet pull, again;
	uint64_t window;

	(void)state;
	long_open(RANGE_BYTES);
	assert_true(frame_of(&wires[0], &codec_native, PACKET_PULL, &pull) >= 0);
	lose(0, 0);
	now_ns += 50000;
	endpoint_advance(one.pair.b, now_ns);
	for (unsigned i = 0; i < 10; i++)
		if (i != 2 && i != 5 && i != 7)
			hand_data(&pull.pull, i);
	assert_int_equal(lose(0, PACKET_PULL), 0);
	window = connection_b()->pull.peer.window;
	pull.pull.offset = 10 * FRAME_BYTES;
	hand(1, &(struct packet){.type = PACKET_DATA, .to = connection_b()->index, .session = connection_b()->session,
				 .data = {.transfer = pull.pull.transfer, .offset = 10 * FRAME_BYTES},
				 .payload = one.out + 10 * FRAME_BYTES, .length = 40});
	endpoint_advance(one.pair.b, now_ns);
	assert_true(frame_of(&wires[0], &codec_native, PACKET_PULL, &again) >= 0);
	assert_int_equal(again.pull.wanted, 1 << 2 | 1 << 5 | 1 << 7);
	assert_true(connection_b()->pull.peer.window <= window);
	lose(0, 0);
	now_ns += 50000;
	endpoint_advance(one.pair.b, now_ns);
	hand_data(&again.pull, 5);
	assert_int_equal(frame_of(&wires[0], &codec_native, PACKET_PULL, &again), -1);
	hand_data(&pull.pull, 7);
	endpoint_advance(one.pair.b, now_ns);
	assert_true(frame_of(&wires[0], &codec_native, PACKET_PULL, &again) >= 0);
	assert_int_equal(again.pull.wanted, 1 << 2);
	long_finish(RANGE_BYTES);
	long_close();
}

/* Losses make the window narrower and what comes makes it wider, but never wider than the credit over all senders. */
static void window__follows_what_comes(void **state)
{
	struct connection *b;
	uint64_t before;
	struct packet pull;

	(void)state;
	long_open(LONG_BYTES);
	b = connection_b();
	assert_true(frame_of(&wires[0], &codec_native, PACKET_PULL, &pull) >= 0);
	lose(0, 0);
	now_ns += 50000;
	endpoint_advance(one.pair.b, now_ns);
	hand_data(&pull.pull, 0);
	assert_int_equal(b->pull.peer.window, engine_b()->blocks.outstanding_max);
	before = b->pull.peer.window;
	hand_data(&pull.pull, 50); /* of the second block: what is missing of the first, 45 frames, is lost */
	endpoint_advance(one.pair.b, now_ns);
	assert_true(frame_of(&wires[0], &codec_native, PACKET_PULL, &pull) >= 0);
	assert_int_equal(__builtin_popcountll(pull.pull.wanted), 45);
	assert_int_equal(b->pull.peer.window, before - 2 * 45 * FRAME_BYTES);
	long_finish(LONG_BYTES);
	assert_int_equal(b->pull.peer.window, engine_b()->blocks.outstanding_max);
	long_close();
}

/* However little may be under way, a block at a time is: what a user sets as the window is no end to all bulk. */
static void window__of_few_bytes(void **state)
{
	static const char *const windows[] = {"net_window=1", "net_window=3", "net_window=4"};

	(void)state;
	for (size_t k = 0; k < sizeof(windows) / sizeof(windows[0]); k++) {
		const char *const strings[] = {"net_eager_max=0", windows[k], NULL};
		struct thole_request *send, *receive;
		void *out = pair_filled(k, 256 << 10), *in = calloc(1, 256 << 10);
		struct pair pair;

		now_ns = 1000000000;
		wired_open(&pair, wires, &codec_native, strings, strings);
		assert_int_equal(thole_recv(pair.b, pair.b_to_a, in, 256 << 10, 1, UINT64_MAX, 0, NULL, &receive), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, out, 256 << 10, 1, 0, 0, NULL, &send), 0);
		assert_int_equal(wired_finish(&pair, &now_ns, pair.b, receive), 0);
		assert_int_equal(wired_finish(&pair, &now_ns, pair.a, send), 0);
		pair_check(k, in, 256 << 10);
		free(out);
		free(in);
		vanish_both(&pair);
	}
}

/* A path gets narrower under a transfer: the rest of it, and what comes later, is asked for in frames that pass. */
static void frames__get_shorter_under_way(void **state)
{
	enum { BYTES = 1 << 20, NARROW_BYTES = 700 };
	uint64_t end_ns;

	(void)state;
	for (unsigned later = 0; later < 2; later++) {
		struct thole_request *send[2], *receive[2];
		void *out = pair_filled(5, BYTES), *in[2] = {calloc(1, BYTES), calloc(1, BYTES)};
		struct packet packet;
		struct pair pair;

		open_both(&pair, &codec_native);
		for (unsigned i = 0; i < 2; i++) {
			assert_int_equal(thole_recv(pair.b, pair.b_to_a, in[i], BYTES, i, UINT64_MAX, 0, NULL,
						    &receive[i]), 0);
			assert_int_equal(thole_send(pair.a, pair.a_to_b, out, BYTES, i, 0, 0, NULL, &send[i]), 0);
		}
		if (later)
			run_until(&pair, 1, &codec_native, PACKET_DATA, &packet);
		else
			assert_int_equal(wired_finish(&pair, &now_ns, pair.b, receive[0]), 0);
		wires[0].widest = NARROW_BYTES;
		engine_shrink(&datagram_of(&pair.a->base)->engine, &wires[0].link, &wires[1].link.own, NARROW_BYTES);
		end_ns = now_ns + 1000000000; /* long before anybody is given up */
		if (later) { /* what was on its way answers nobody any more */
			const struct connection *b = connection_of(&endpoint_peer(pair.b, pair.b_to_a)->base);

			assert_non_null(pull_by_id(b->engine, packet.data.transfer));
			for (; b->route[0].frame_in > NARROW_BYTES; now_ns += 1000) {
				endpoint_advance(pair.a, now_ns);
				endpoint_advance(pair.b, now_ns);
			}
			assert_null(pull_by_id(b->engine, packet.data.transfer));
		}
		for (unsigned i = !later; i < 2; i++) {
			assert_int_equal(wired_finish(&pair, &now_ns, pair.b, receive[i]), 0);
			pair_check(5, in[i], BYTES);
		}
		assert_true(now_ns < end_ns);
		assert_true(wires[1].lengths[(wires[1].tail - 1) % 256] <= NARROW_BYTES);
		free(in[0]);
		free(in[1]);
		free(out);
		vanish_both(&pair);
	}
}

/* ---- Frames that are counted together ---------------------------------------------------------------------------- */

enum { TOGETHER_BLOCKS = 8 };

/* A fetch by itself, whose PULLs are counted. */
struct together {
	struct blocks blocks;
	struct block_peer peer;
	struct block_fetch fetch;
	struct block memory[TOGETHER_BLOCKS];
	unsigned used, pulls;
};

static struct block *together_get(struct block_peer *peer)
{
	struct together *one_of = container_of(peer, struct together, peer);

	return one_of->used < TOGETHER_BLOCKS ? &one_of->memory[one_of->used++] : NULL;
}

static void together_put(struct block_peer *peer, struct block *block)
{
	(void)peer;
	(void)block;
}

static void together_pull(struct block_fetch *fetch, const struct block_pull *pull)
{
	(void)pull;
	container_of(fetch, struct together, fetch)->pulls++;
}

static void together_open(struct together *it, const struct block_rules *rules)
{
	static const struct block_calls calls = {together_get, together_put, together_pull};

	memset(it, 0, sizeof(*it));
	block_init(&it->blocks, rules, &calls);
	it->blocks.outstanding_max = WINDOW_AUTO;
	block_peer_init(&it->peer, &it->blocks, 1);
	it->fetch = (struct block_fetch){.length = 3 * 32 * FRAME_BYTES - 5, .frame = FRAME_BYTES, .head = 48};
	block_fetch_begin(&it->fetch, &it->peer);
	block_ask(&it->blocks, 1000);
	assert_true(it->fetch.blocks >= 2);
}

/* Frames of a block, from one on. */
static bool together_receive(struct block *block, unsigned first, unsigned count, bool singly, uint64_t now)
{
	bool over = false;

	if (!singly)
		return block_received(block, first, count, NULL, now);
	for (unsigned i = 0; i < count; i++)
		over = block_received(block, first + i, 1, NULL, now);
	return over;
}

/* What is known after them is what would be if they had been counted one by one: what is missing, the window, the trip,
 * what is asked for again. */
static void together__as_one_by_one(void **state)
{
	const struct block_rules rules = {.frames_max = 32, .blocks_max = 64, .pull_blocks = 1, .selective = true};
	struct together both[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct together *it = &both[i];
		bool singly = i;
		unsigned pulls;

		together_open(it, &rules);
		pulls = it->pulls;
		it->peer.window = 5 * FRAME_BYTES;
		assert_false(together_receive(&it->memory[0], 0, 7, singly, 51000));
		assert_int_equal(it->pulls, pulls); /* nothing is known to be lost */
		assert_int_equal(it->memory[0].missing, block_mask(32) & ~block_mask(7));
		assert_false(together_receive(&it->memory[0], 9, 23, singly, 52000)); /* 7 and 8 are not here */
		assert_int_equal(it->memory[0].missing, UINT64_C(3) << 7);
		assert_int_equal(it->pulls, pulls + 1);
		assert_false(together_receive(&it->memory[1], 0, 32, singly, 53000));
		assert_false(together_receive(&it->memory[0], 7, 2, singly, 54000));
		assert_int_equal(it->fetch.received, 2 * 32 * FRAME_BYTES);
	}
	assert_int_equal(both[0].peer.window, both[1].peer.window);
	assert_int_equal(both[0].peer.timeout_ns, both[1].peer.timeout_ns);
	assert_int_equal(both[0].peer.outstanding, both[1].peer.outstanding);
	assert_int_equal(both[0].pulls, both[1].pulls);
	assert_memory_equal(&both[0].peer.trip, &both[1].peer.trip, sizeof(struct trip));
}

/* What came and could not be taken is asked for again as soon as it can be, once; what is only on its way is not. */
static void refused__are_asked_for_when_they_can_be_taken(void **state)
{
	const struct block_rules rules = {
		.frames_max = 32, .blocks_max = 64, .pull_blocks = 1, .data = FRAME_BYTES, .pull_ns = 1000000000};
	struct together it;
	unsigned pulls;

	(void)state;
	together_open(&it, &rules);
	pulls = it.pulls;
	block_welcome(&it.fetch, 50000);
	assert_int_equal(it.pulls, pulls);
	it.memory[0].refused = true;
	block_welcome(&it.fetch, 51000);
	assert_int_equal(it.pulls, pulls + 1);
	assert_int_equal(it.memory[0].tries, 1);
	assert_int_equal(it.memory[1].tries, 0);
	block_welcome(&it.fetch, 52000);
	assert_int_equal(it.pulls, pulls + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(together__as_one_by_one),
		cmocka_unit_test(refused__are_asked_for_when_they_can_be_taken),
		cmocka_unit_test(transfers__do_not_come_again),
		cmocka_unit_test(window__of_another_peer),
		cmocka_unit_test(range__is_checked),
		cmocka_unit_test(pulls__that_wait_have_a_bound),
		cmocka_unit_test(transfer__of_another_peer),
		cmocka_unit_test(refused__ends_the_timer),
		cmocka_unit_test(data__is_a_whole_frame),
		cmocka_unit_test(timeout__doubles_until_something_comes),
		cmocka_unit_test(busy__is_not_asked_again),
		cmocka_unit_test(lost__are_asked_for_at_once),
		cmocka_unit_test(window__follows_what_comes),
		cmocka_unit_test(window__of_few_bytes),
		cmocka_unit_test(frames__get_shorter_under_way),
	};

	setenv("THOLE_OPTIONS_FILE", "", 1);
	return cmocka_run_group_tests_name("pull", tests, NULL, NULL);
}
