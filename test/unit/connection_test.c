/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake, seen from one endpoint: the other side is this test, which writes what it likes and counts what comes
 * back.
 */
#include "unit.h"

#include "pair.h"
#include "transport/datagram/connection.h"
#include "transport/datagram/transmit_frame.h"
#include "transport/datagram/sequence.h"
#include "transport/datagram/datagram.h"

#define SECOND_NS UINT64_C(1000000000)

enum { UDP, RAW, LINKS, ETHERTYPE = 0x88b5, JOB_KEY = 77, TIMES = 5 };

/* A link that keeps the last frame, and counts bytes. */
struct sink {
	struct link link;
	uint8_t last[ENGINE_FRAME_MAX];
	size_t last_length;
	size_t longest;
	uint64_t bytes, frames;
};

struct host {
	struct sink sinks[LINKS];
	struct thole_endpoint *endpoint;
	struct engine *engine;
	uint64_t now_ns, bytes_in;
};

static size_t frame_flatten(const struct frame_out *frame, uint8_t *bytes)
{
	uint8_t *at = bytes;

	memcpy(at, frame->head, frame->head_length);
	at += frame->head_length;
	for (unsigned i = 0; i < frame->body_count; at += frame->body[i++].iov_len)
		memcpy(at, frame->body[i].iov_base, frame->body[i].iov_len);
	return (size_t)(at - bytes);
}

static unsigned sink_send(struct link *link, const struct frame_out *frames, unsigned count)
{
	struct sink *sink = (struct sink *)link;

	for (unsigned i = 0; i < count; i++) {
		sink->last_length = frame_flatten(&frames[i], sink->last);
		if (sink->last_length > sink->longest)
			sink->longest = sink->last_length;
		sink->bytes += sink->last_length;
		sink->frames++;
	}
	return count;
}

static unsigned sink_receive(struct link *link, unsigned budget)
{
	(void)link;
	(void)budget;
	return 0;
}

static bool sink_ready(struct link *link)
{
	(void)link;
	return false;
}

static uint32_t sink_frame_max(struct link *link, const struct path *to)
{
	(void)link;
	(void)to;
	return ENGINE_FRAME_MAX;
}

static void sink_close(struct link *link)
{
	(void)link;
}

static const struct link_calls sink_calls[LINKS] = {[UDP] = {
	.name = "udp",
	.kind = &kind_ip,
	.rank = {[LINK_RECORDS] = 20, [LINK_BULK] = 10, [LINK_CONNECT] = 10},
	.send = sink_send,
	.receive = sink_receive,
	.ready = sink_ready,
	.frame_max = sink_frame_max,
	.close = sink_close,
}, [RAW] = {
	.name = "raw",
	.kind = &kind_ethernet,
	.rank = {[LINK_RECORDS] = 10, [LINK_BULK] = 20, [LINK_CONNECT] = 20},
	.send = sink_send,
	.receive = sink_receive,
	.cheap = true,
	.ready = sink_ready,
	.frame_max = sink_frame_max,
	.close = sink_close,
}};

static void count_up(void *arg, void *bytes, size_t length)
{
	uint64_t *next = arg;

	for (size_t i = 0; i < length; i++)
		((uint8_t *)bytes)[i] = (uint8_t)(++*next * 37);
}

static uint64_t random_state;

static void host_parts(uint8_t number, struct address_parts *parts)
{
	*parts = (struct address_parts){.host = number, .endpoint = 100u + number,
					.network = {ADDRESS_IPV4, 0, 1, 1, 10, 0, 0, number, 2, 0, 0, 0, 0, number}};
}

static struct path host_path(unsigned link, uint8_t number)
{
	return link == UDP ? (struct path){{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = number, [16] = 1, [17] = 1}}
			   : (struct path){{2, 0, 0, 0, 0, number, 0, 0, 0, (uint8_t)(100 + number)}};
}

static struct host *host_open(uint64_t key)
{
	struct host *host = malloc(sizeof(*host));
	struct link *links[LINKS];
	struct thole_endpoint_attr attr = {0};
	struct address_parts parts;
	struct options options;

	assert_non_null(host);
	*host = (struct host){.now_ns = SECOND_NS};
	random_state = 1;
	for (unsigned i = 0; i < LINKS; i++) {
		host->sinks[i].link = (struct link){.calls = &sink_calls[i], .fd = {-1, -1}, .room = 1 << 20,
						    .own = host_path(i, 1), .ethertype = i == RAW ? ETHERTYPE : 0};
		links[i] = &host->sinks[i].link;
	}
	host_parts(1, &parts);
	assert_int_equal(options_defaults(&options, NULL), 0);
	options.job_key = key;
	assert_int_equal(endpoint_create(&attr, &options, &parts, 1, &host->endpoint), 0);
	assert_int_equal(datagram_attach(&host->endpoint->base, &codec_native, links, LINKS, count_up, &random_state),
			 0);
	host->engine = &datagram_of(&host->endpoint->base)->engine;
	endpoint_advance(host->endpoint, host->now_ns);
	return host;
}

static void host_close(struct host *host)
{
	endpoint_vanish(host->endpoint);
	free(host);
}

/* Whatever it has in mind, it has time for. */
static void host_run(struct host *host, uint64_t ns)
{
	uint64_t end_ns = host->now_ns + ns;

	for (;;) {
		uint64_t next_ns;

		while (endpoint_advance(host->endpoint, host->now_ns) > 0)
			;
		next_ns = endpoint_deadline(host->endpoint);
		if (next_ns > end_ns)
			break;
		host->now_ns = next_ns > host->now_ns ? next_ns : host->now_ns + 1;
	}
	host->now_ns = end_ns;
}

static uint64_t bytes_out(const struct host *host)
{
	return host->sinks[UDP].bytes + host->sinks[RAW].bytes;
}

/* A frame of `length` bytes, or as short as its packet is. */
static void stranger_says_from(struct host *host, unsigned link, uint8_t number, const struct packet *packet,
			       size_t length)
{
	struct path from = host_path(link, number);
	uint8_t frame[ENGINE_FRAME_MAX] = {0};
	size_t head = codec_native.encode(packet, frame) + packet->length;

	if (length < head)
		length = head;
	host->bytes_in += length;
	engine_frame(host->engine, &host->sinks[link].link, &from, frame, length);
}

static void stranger_says(struct host *host, unsigned link, const struct packet *packet, size_t length)
{
	stranger_says_from(host, link, 2, packet, length);
}

/* From where it says that it is, and that is somebody else. */
static void stranger_connect(struct packet *packet)
{
	struct address_parts parts;

	host_parts(2, &parts);
	*packet = (struct packet){.type = PACKET_CONNECT, .to = PACKET_TO_NONE};
	packet->connect.host = parts.host;
	packet->connect.endpoint = parts.endpoint;
	memcpy(packet->connect.network, parts.network, sizeof(parts.network));
	memcpy(packet->connect.mac, parts.network + 8, 6);
	packet->connect.ethertype = ETHERTYPE;
	packet->connect.target = 101;
	packet->connect.session = 4711;
	packet->connect.next = 1;
}

/* ---- Answers to strangers -------------------------------------------------------------------------------- */

static void packet_of_type(enum packet_type type, struct packet *packet)
{
	if (type == PACKET_CONNECT) {
		stranger_connect(packet);
		return;
	}
	*packet = (struct packet){.type = (uint8_t)type, .session = 815};
	if (type == PACKET_ACK)
		packet->flags = PACKET_ANSWER;
	packet->pull.frame = packet->pull.length = 1440;
	if (type == PACKET_RECORD)
		packet->message = (struct packet_message){.record = {.kind = RECORD_PIECE}};
	if (type == PACKET_NACK)
		packet->nack = (struct packet_nack){.reason = NACK_CLOSED};
}

/* Some of a kind, at once and later: `length` bytes each. What comes back is no more than what was said, ever. */
static void stranger_tries(uint64_t key, unsigned link, const struct packet *packet, size_t length)
{
	struct host *host = host_open(key);

	for (int i = 0; i < TIMES; i++) {
		stranger_says(host, link, packet, length);
		if (i != 2)
			host_run(host, SECOND_NS / 10);
		if (bytes_out(host) > host->bytes_in)
			fail_msg("%u bytes of a packet of type %u of %u bytes, to a stranger who has sent %u",
				 (unsigned)bytes_out(host), packet->type, (unsigned)length, (unsigned)host->bytes_in);
	}
	host_run(host, 60 * SECOND_NS);
	if (bytes_out(host) > host->bytes_in)
		fail_msg("%u bytes in the end, to a stranger who has sent %u of type %u", (unsigned)bytes_out(host),
			 (unsigned)host->bytes_in, packet->type);
	host_close(host);
}

static void stranger__gets_no_more_than_it_sends(void **state)
{
	static const size_t lengths[] = {0, ENGINE_FRAME_MIN, ENGINE_FRAME_MAX};
	static const uint64_t keys[] = {0, JOB_KEY};

	(void)state;
	for (unsigned type = PACKET_CONNECT; type <= PACKET_CLOSE; type++)
		for (unsigned i = 0; i < 3; i++)
			for (unsigned k = 0; k < 2 * LINKS; k++) {
				struct packet packet;

				packet_of_type((enum packet_type)type, &packet);
				stranger_tries(keys[k / 2], k % 2, &packet, lengths[i]);
				packet.connect.target += type == PACKET_CONNECT; /* another endpoint */
				stranger_tries(keys[k / 2], k % 2, &packet, lengths[i]);
			}
}

/* The last frame that was sent by a link. */
static void host_said(const struct host *host, unsigned link, struct packet *packet)
{
	assert_int_equal(codec_native.decode(packet, host->sinks[link].last, host->sinks[link].last_length), 0);
}

/* We want the stranger. Returns its handle, and what it was asked. */
static uint32_t host_wants(struct host *host, struct packet *asked)
{
	struct thole_address address;
	struct address_parts parts;
	uint32_t peer;

	host_parts(2, &parts);
	address_format(&parts, &address);
	assert_int_equal(thole_peer(host->endpoint, &address, &peer), 0);
	assert_int_equal(thole_connect(host->endpoint, peer, 0, NULL, NULL), 0);
	host_run(host, SECOND_NS / 100);
	host_said(host, UDP, asked);
	return peer;
}

/* Its answer to our CONNECT or ACCEPT. */
static void stranger_accept(struct packet *packet, const struct packet *asked)
{
	stranger_connect(packet);
	packet->type = PACKET_ACCEPT;
	packet->to = asked->connect.index;
	packet->session = asked->connect.session;
	packet->connect.seen = ENGINE_FRAME_MAX;
}

/* Once it has shown that it reads what goes to its address it is asked how long frames may be; but the address on
 * another link that it gives is another one. */
static void stranger__shows_that_it_is_there(void **state)
{
	struct host *host = host_open(0);
	struct packet packet, answer;

	(void)state;
	stranger_connect(&packet);
	stranger_says(host, UDP, &packet, 0);
	host_run(host, SECOND_NS);
	assert_int_equal(host->sinks[UDP].frames, 1);
	host_said(host, UDP, &answer);
	assert_int_equal(answer.type, PACKET_ACCEPT);
	packet = (struct packet){.type = PACKET_ACK, .to = answer.connect.index, .session = answer.connect.session + 1};
	stranger_says(host, UDP, &packet, 0);
	host_run(host, SECOND_NS);
	assert_int_equal(host->sinks[UDP].frames, 1); /* a guess */
	packet.session--;
	stranger_says(host, UDP, &packet, 0);
	host_run(host, SECOND_NS);
	assert_true(host->sinks[UDP].longest == ENGINE_FRAME_MAX);
	stranger_accept(&packet, &answer);
	stranger_says(host, UDP, &packet, 0);
	host_run(host, SECOND_NS);
	assert_int_equal(host->sinks[RAW].frames, 0);
	packet.type = PACKET_CONNECT; /* by the other link too */
	stranger_says(host, RAW, &packet, 0);
	host_run(host, SECOND_NS);
	assert_true(host->sinks[RAW].longest == ENGINE_FRAME_MAX);
	host_close(host);
}

/* We want it; but the address on the other link is its word alone: short frames until something has come from there. */
static void wanted__is_asked_by_the_other_link(void **state)
{
	struct host *host = host_open(0);
	struct packet packet, asked;

	(void)state;
	host_wants(host, &asked);
	assert_int_equal(host->sinks[UDP].last_length, ENGINE_FRAME_MAX);
	stranger_accept(&packet, &asked);
	stranger_says(host, UDP, &packet, 0);
	host_run(host, 20 * SECOND_NS);
	assert_int_equal(host->sinks[RAW].frames, PROBES_MAX);
	assert_true(host->sinks[RAW].longest < ENGINE_FRAME_MIN);
	host_close(host);
}

/* A connection that the other side has asked for, and shown that it reads our answer. Returns how it names ours. */
static struct packet stranger_opens(struct host *host)
{
	struct packet packet, answer;

	stranger_connect(&packet);
	stranger_says(host, UDP, &packet, 0);
	host_run(host, SECOND_NS / 100);
	host_said(host, UDP, &answer);
	assert_int_equal(answer.type, PACKET_ACCEPT);
	packet = (struct packet){
		.type = PACKET_ACK, .to = answer.connect.index, .session = answer.connect.session, .ack = 1};
	stranger_says(host, UDP, &packet, 0);
	host_run(host, SECOND_NS / 100);
	assert_false(endpoint_peer(host->endpoint, 0)->base.gone);
	assert_int_equal(connection_of(&endpoint_peer(host->endpoint, 0)->base)->state, CONNECTION_OPEN);
	return packet;
}

static uint64_t host_count(const struct host *host, enum counter counter)
{
	return host->endpoint->base.counters[counter];
}

/* A CONNECT that was heard and is sent from elsewhere makes nobody the one who gets the answers. */
static void connect__comes_from_where_it_says(void **state)
{
	struct packet packet;

	(void)state;
	for (unsigned link = 0; link < LINKS; link++) {
		struct host *host = host_open(0);

		stranger_connect(&packet);
		stranger_says_from(host, link, 3, &packet, 0);
		host_run(host, SECOND_NS);
		assert_int_equal(bytes_out(host), 0);
		assert_int_equal(host_count(host, COUNTER_DROPPED_STRANGER), 1);
		stranger_says(host, link, &packet, 0);
		host_run(host, SECOND_NS);
		assert_true(bytes_out(host) > 0);
		host_close(host);
	}
}

/* An ACCEPT that repeats our session, but does not prove the key, is nobody's. */
static void accept__proves_the_key(void **state)
{
	static const uint64_t keys[] = {0, JOB_KEY};
	struct thole_peer_info info;
	struct packet packet, asked;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct host *host = host_open(keys[i]);
		uint32_t peer = host_wants(host, &asked);

		stranger_accept(&packet, &asked);
		stranger_says(host, UDP, &packet, 0);
		assert_int_equal(thole_peer_info(host->endpoint, peer, &info), 0);
		assert_string_equal(info.state, keys[i] ? "connecting" : "connected");
		assert_int_equal(host_count(host, COUNTER_DROPPED_STRANGER), keys[i] != 0);
		host_close(host);
	}
}

/* Both want it at once, and the peer has heard us first: that it cannot have our integrity is why there is no
 * connection. */
static void accept__no_guard_there(void **state)
{
	struct host *host = host_open(0);
	struct packet packet, asked;
	uint32_t peer;

	(void)state;
	peer = host_wants(host, &asked);
	stranger_connect(&packet);
	stranger_says(host, UDP, &packet, 0);
	stranger_accept(&packet, &asked);
	packet.connect.session = 0;
	packet.connect.status = CONNECT_NO_GUARD;
	stranger_says(host, UDP, &packet, 0);
	assert_true(endpoint_peer(host->endpoint, peer)->base.gone);
	assert_int_equal(endpoint_peer(host->endpoint, peer)->base.gone_status, THOLE_ERR_UNSUPPORTED);
	host_close(host);
}

/* A connection has one session of the peer's as long as it lasts. */
static void connect__of_a_second_session(void **state)
{
	struct host *host = host_open(0);
	struct packet packet, own, said;
	uint64_t accepts;

	(void)state;
	own = stranger_opens(host);
	accepts = host_count(host, COUNTER_ACCEPTS);
	stranger_connect(&packet);
	packet.connect.session++;
	stranger_says(host, UDP, &packet, 0);
	host_run(host, SECOND_NS / 100);
	assert_int_equal(host_count(host, COUNTER_ACCEPTS), accepts);
	assert_int_equal(host_count(host, COUNTER_DROPPED_SESSION), 1);
	own.flags = PACKET_ANSWER;
	stranger_says(host, UDP, &own, 0);
	host_run(host, SECOND_NS / 1000);
	host_said(host, UDP, &said);
	assert_int_equal(said.type, PACKET_ACK);
	assert_int_equal(said.session, 4711);
	host_close(host);
}

/* Records that were sent before a CLOSE may still lie in another link's memory: they have a little time, and no
 * more. */
static void close__waits_for_what_is_before_it(void **state)
{
	(void)state;
	for (uint32_t missing = 0; missing < 2; missing++) {
		struct host *host = host_open(0);
		struct packet packet = stranger_opens(host);

		packet.type = PACKET_CLOSE;
		packet.sequence = 1 + missing;
		stranger_says(host, UDP, &packet, 0);
		assert_int_equal(endpoint_peer(host->endpoint, 0)->base.gone, !missing);
		host_run(host, CLOSE_WAIT_NS / 2);
		assert_int_equal(endpoint_peer(host->endpoint, 0)->base.gone, !missing);
		host_run(host, CLOSE_WAIT_NS);
		assert_true(endpoint_peer(host->endpoint, 0)->base.gone);
		host_close(host);
	}
}

/* ---- A peer that answers, while nothing gets on ------------------------------------------------------------- */

enum { SAID_NS = 100000000 }; /* between two words of the peer's */

/* Send it something, of which it acknowledges one frame in `every` words, 0: none; for some time. */
static void stranger_acknowledges(struct host *host, struct packet *packet, unsigned every, unsigned words)
{
	static const uint8_t bytes[64];

	for (unsigned i = 1; i <= words && !endpoint_peer(host->endpoint, 0)->base.gone; i++) {
		struct connection *connection = connection_of(&endpoint_peer(host->endpoint, 0)->base);

		if (connection->out.next - packet->ack < 2)
			assert_int_equal(thole_send(host->endpoint, 0, bytes, sizeof(bytes), 0, 0, 0, NULL, NULL), 0);
		host_run(host, SAID_NS);
		if (every && i % every == 0)
			packet->ack++;
		endpoint_advance(host->endpoint, ++host->now_ns); /* later than all looks before */
		stranger_says(host, UDP, packet, 0);
		connection_wake(connection, host->now_ns + 1);
		host_run(host, 1);
	}
}

/* Whatever else it says: what it does not acknowledge for peer_timeout it never will. */
static void stalled__records(void **state)
{
	struct host *host = host_open(0);
	struct packet packet;

	(void)state;
	packet = stranger_opens(host);
	packet.credit = 64;
	stranger_acknowledges(host, &packet, 10, 300); /* slowly, but it does */
	assert_false(endpoint_peer(host->endpoint, 0)->base.gone);
	stranger_acknowledges(host, &packet, 0, 80);
	assert_false(endpoint_peer(host->endpoint, 0)->base.gone);
	stranger_acknowledges(host, &packet, 0, 70);
	assert_true(endpoint_peer(host->endpoint, 0)->base.gone);
	assert_int_equal(host_count(host, COUNTER_PEERS_STALLED), 1);
	host_close(host);
}

/* Records and bulk that get on by turns: never both between two looks. */
static void stalled__neither(void **state)
{
	struct host *host = host_open(0);
	struct connection *connection;
	struct packet packet;

	(void)state;
	packet = stranger_opens(host);
	packet.credit = 64;
	connection = connection_of(&endpoint_peer(host->endpoint, 0)->base);
	connection->pull.outstanding = 1; /* as if asked for */
	for (unsigned i = 0; i < 300; i++) {
		if (i % 2)
			connection->pull.fed_ns = host->now_ns + SAID_NS; /* just before the next look */
		stranger_acknowledges(host, &packet, 1 + i % 2, 1);
	}
	assert_false(endpoint_peer(host->endpoint, 0)->base.gone);
	stranger_acknowledges(host, &packet, 1, 150);
	assert_true(endpoint_peer(host->endpoint, 0)->base.gone);
	assert_int_equal(host_count(host, COUNTER_PEERS_STALLED), 1);
	host_close(host);
}

/* ---- A link that loses ------------------------------------------------------------------------------------- */

enum { WIDE = 60000, NARROW = 8, TRIP_NS = 50000 };

/* A peer that both links reach. */
static struct connection *stranger_opens_both(struct host *host, struct packet *packet_p)
{
	struct connection *connection;

	*packet_p = stranger_opens(host);
	packet_p->credit = 64;
	connection = connection_of(&endpoint_peer(host->endpoint, 0)->base);
	route_reach(connection, RAW, &(struct path){{2}});
	route_work(connection, UDP, 1400);
	route_work(connection, RAW, 1400);
	return connection;
}

/* A message arrives, as it seems by a repetition of all of its frames so long ago. */
static void stranger_repeated(struct host *host, struct connection *connection, struct packet *packet, size_t length,
			      uint64_t ago_ns)
{
	static const uint8_t bytes[WIDE];

	assert_int_equal(thole_send(host->endpoint, 0, bytes, length, 0, 0, 0, NULL, NULL), 0);
	while (endpoint_advance(host->endpoint, ++host->now_ns) > 0)
		;
	for (struct list_node *node = list_first(&connection->out.unacked); node;
	     node = list_next(&connection->out.unacked, node)) {
		struct transmit_frame *frame = container_of(node, struct transmit_frame, node);

		frame->resends = 1;
		frame->sent_ns = host->now_ns;
	}
	host->now_ns += ago_ns;
	host->engine->now_ns = host->now_ns;
	packet->ack = connection->out.next;
	stranger_says(host, RAW, packet, 0);
	assert_true(list_empty(&connection->out.unacked));
}

/* One loss of many frames is one, and what is answered sooner than can be, or late, is none. */
static void link__is_left_after_losses(void **state)
{
	static const size_t lengths[] = {WIDE, NARROW};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct host *host = host_open(0);
		struct packet packet;
		struct connection *connection = stranger_opens_both(host, &packet);

		connection->out.trip.least_ns = TRIP_NS;
		for (unsigned turn = 0; turn < 2 * LINK_LOSSES; turn++)
			stranger_repeated(host, connection, &packet, lengths[i],
					  turn % 2 ? TRIP_NS - 1 : LINK_TRIP_NS + 1);
		for (unsigned turn = 1; turn < LINK_LOSSES; turn++)
			stranger_repeated(host, connection, &packet, lengths[i], TRIP_NS);
		assert_int_equal(host_count(host, COUNTER_LINK_FALLBACKS), 0);
		stranger_repeated(host, connection, &packet, lengths[i], TRIP_NS);
		assert_int_equal(host_count(host, COUNTER_LINK_FALLBACKS), 1);
		assert_int_equal(connection->routes.use[LINK_BULK], lengths[i] == WIDE ? RAW : UDP);
		assert_int_equal(connection->routes.use[LINK_RECORDS], connection->routes.use[LINK_BULK]);
		host_close(host);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stranger__gets_no_more_than_it_sends),
		cmocka_unit_test(stranger__shows_that_it_is_there),
		cmocka_unit_test(wanted__is_asked_by_the_other_link),
		cmocka_unit_test(connect__comes_from_where_it_says),
		cmocka_unit_test(accept__proves_the_key),
		cmocka_unit_test(accept__no_guard_there),
		cmocka_unit_test(connect__of_a_second_session),
		cmocka_unit_test(close__waits_for_what_is_before_it),
		cmocka_unit_test(stalled__records),
		cmocka_unit_test(stalled__neither),
		cmocka_unit_test(link__is_left_after_losses),
	};

	return cmocka_run_group_tests_name("connection", tests, NULL, NULL);
}
