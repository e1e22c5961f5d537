/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake, seen from one endpoint: the other side is this test, which writes what it likes and counts what comes
 * back.
 */
#include "unit.h"

#include "base/siphash.h"
#include "stranger.h"
#include "transport/datagram/sequence.h"

enum { TIMES = 5 };

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
			for (unsigned k = 0; k < 2 * LINKS_USUAL; k++) {
				struct packet packet;

				packet_of_type((enum packet_type)type, &packet);
				stranger_tries(keys[k / 2], k % 2, &packet, lengths[i]);
				packet.connect.target += type == PACKET_CONNECT; /* another endpoint */
				stranger_tries(keys[k / 2], k % 2, &packet, lengths[i]);
			}
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

/* Whom nobody answers is asked less and less often, by shorter frames: perhaps the way carries no long ones. */
static void wanted__is_asked_less_and_less(void **state)
{
	struct host *host = host_open(0);
	struct packet asked;
	uint64_t first;

	(void)state;
	host_wants(host, &asked);
	host_run(host, SECOND_NS / 2);
	first = host->sinks[UDP].frames;
	assert_in_range(first, 4, 10);
	host_run(host, 4 * SECOND_NS);
	assert_in_range(host->sinks[UDP].frames, first + 4, first + 12);
	assert_int_equal(host->sinks[UDP].longest, ENGINE_FRAME_MAX);
	assert_int_equal(host->sinks[UDP].last_length, ENGINE_FRAME_MIN);
	host_close(host);
}

/* A first CONNECT that could not be padded shows nothing of longer frames: they are tried once there is an answer. */
static void wanted__by_a_short_frame_at_first(void **state)
{
	struct host *host = host_open(0);
	struct packet packet, asked;

	(void)state;
	host->sinks[UDP].blind = true;
	host_wants(host, &asked);
	assert_true(host->sinks[UDP].longest < ENGINE_FRAME_MIN);
	host->sinks[UDP].blind = false;
	stranger_accept(&packet, &asked);
	packet.connect.seen = 0;
	stranger_says(host, UDP, &packet, 0);
	host_run(host, SECOND_NS / 100);
	assert_int_equal(host_connection(host)->state, CONNECTION_OPEN);
	assert_int_equal(host->sinks[UDP].longest, ENGINE_FRAME_MAX);
	host_said(host, UDP, &asked);
	stranger_accept(&packet, &asked);
	stranger_says(host, UDP, &packet, 0);
	assert_int_equal(host_connection(host)->route[UDP].frame_max, ENGINE_FRAME_MAX);
	host_close(host);
}

static void wanted__by_frames_of_the_option_mtu(void **state)
{
	struct host *host = host_open(0);
	struct packet asked;

	(void)state;
	host->endpoint->base.options.mtu = 700;
	host_wants(host, &asked);
	assert_int_equal(host->sinks[UDP].longest, 700);
	host_close(host);
}

/* The answer to a CONNECT that lets nobody in: it names nothing of ours, and is no longer than what it answers. */
static void refusal_check(struct host *host, unsigned link, uint8_t status)
{
	struct packet said;

	assert_int_equal(host->sinks[link].frames, 1);
	assert_true(bytes_out(host) <= host->bytes_in);
	host_said(host, link, &said);
	assert_int_equal(said.type, PACKET_ACCEPT);
	assert_int_equal(said.connect.status, status);
	assert_int_equal(said.connect.session, 0);
	assert_int_equal(said.connect.index, 0);
}

/* A CONNECT that was heard and is sent from elsewhere makes nobody the one who gets the answers; he is told that it is
 * not let in, since it may be the true one's, whose address was translated. */
static void connect__comes_from_where_it_says(void **state)
{
	struct packet packet;

	(void)state;
	for (unsigned link = 0; link < LINKS_USUAL; link++) {
		struct host *host = host_open(0);

		stranger_connect(&packet);
		stranger_says_from(host, link, 3, &packet, 0);
		host_run(host, SECOND_NS);
		refusal_check(host, link, CONNECT_ELSEWHERE);
		assert_int_equal(host_count(host, COUNTER_DROPPED_STRANGER), 1);
		assert_int_equal(host_connection(host)->peer_session, 0);
		stranger_says(host, link, &packet, 0);
		host_run(host, SECOND_NS);
		assert_true(host->sinks[link].frames > 1);
		assert_int_not_equal(host_connection(host)->peer_session, 0);
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

/* A peer says how many frames it holds; more than any does would take those of all others. */
static void credit__has_a_bound(void **state)
{
	enum { MANY = 2000 };
	struct host *host = host_open(0);
	struct packet packet = stranger_opens(host);

	(void)state;
	packet.credit = UINT16_MAX;
	stranger_says(host, UDP, &packet, 0);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(thole_send(host->endpoint, 0, "", 1, 0, 0, 0, NULL, NULL), 0);
		endpoint_advance(host->endpoint, ++host->now_ns);
	}
	assert_in_range(host->engine->small_frames.live, 1, codec_native.ahead_max);
	host_close(host);
}

/* What a CONNECT or ACCEPT says, as one who knows the key. */
static void stranger_proves(struct packet *packet)
{
	uint8_t text[PACKET_HEAD_MAX];
	size_t length;

	packet->connect.proof = 0;
	length = codec_native.encode(packet, text);
	packet->connect.proof = siphash((const uint64_t[2]){JOB_KEY, 0}, text, length);
}

/* Whoever finds no memory here is told so. */
static void connect__finds_no_memory(void **state)
{
	(void)state;
	for (int guards = 0; guards < 2; guards++) {
		struct host *host = host_open(JOB_KEY);
		struct packet packet;

		(guards ? &host->engine->guards : &host->engine->connections)->bound = 0;
		stranger_connect(&packet);
		packet.connect.integrity = GUARD_HEADS;
		stranger_proves(&packet);
		stranger_says(host, UDP, &packet, 0);
		host_run(host, SECOND_NS);
		refusal_check(host, UDP, CONNECT_NO_ROOM);
		assert_int_equal(host_count(host, COUNTER_DROPPED_FULL), 1);
		host_close(host);
	}
}

/* Who is wanted gives a reason that has to be proven, if it is not that the keys differ; and who has connected to us
 * hears us all the same. */
static void wanted__gives_a_reason(void **state)
{
	static const struct {
		uint8_t status;
		int error;
		const char *sentence;
	} cases[] = {
		{CONNECT_BAD_KEY, THOLE_ERR_ACCESS, "another job key"},
		{CONNECT_ELSEWHERE, THOLE_ERR_ADDRESS, "translated"},
		{CONNECT_NO_ROOM, THOLE_ERR_MEMORY, "no memory for another connection"},
	};

	(void)state;
	for (unsigned i = 0; i < 3 * sizeof(cases) / sizeof(cases[0]); i++) {
		bool proven = i % 3 != 0 || cases[i / 3].status == CONNECT_BAD_KEY, connects = i % 3 == 2;
		struct host *host = host_open(JOB_KEY);
		struct packet packet, asked;
		const struct transport_peer *peer;

		peer = &endpoint_peer(host->endpoint, host_wants(host, &asked))->base;
		if (connects) {
			stranger_connect(&packet);
			stranger_proves(&packet);
			stranger_says(host, UDP, &packet, 0);
		}
		stranger_accept(&packet, &asked);
		packet.connect.session = 0;
		packet.connect.status = cases[i / 3].status;
		if (proven)
			stranger_proves(&packet);
		connection_of(peer)->handshake.attempt = CONNECT_BELIEVED - 1;
		stranger_says(host, UDP, &packet, 0);
		assert_int_equal(peer->gone, cases[i / 3].status == CONNECT_BAD_KEY && !connects);
		connection_of(peer)->handshake.attempt = CONNECT_BELIEVED;
		stranger_says(host, UDP, &packet, 0);
		assert_int_equal(peer->gone, proven && !connects);
		assert_int_equal(host_count(host, COUNTER_DROPPED_STRANGER), 2 * !proven);
		if (peer->gone) {
			assert_int_equal(peer->gone_status, cases[i / 3].error);
			assert_non_null(strstr(thole_detail(), cases[i / 3].sentence));
		}
		host_close(host);
	}
}

/* What a later Thole has to say where we look at nothing is proven like all else. */
static void connect__says_more(void **state)
{
	struct packet packet, said;

	(void)state;
	for (int altered = 0; altered < 2; altered++) {
		struct host *host = host_open(JOB_KEY);

		stranger_connect(&packet);
		packet.connect.later[0] = 1;
		packet.connect.later[5] = 2;
		stranger_proves(&packet);
		packet.connect.later[5] += (uint8_t)altered;
		stranger_says(host, UDP, &packet, 0);
		host_run(host, SECOND_NS / 100);
		host_said(host, UDP, &said);
		assert_int_equal(said.type, PACKET_ACCEPT);
		assert_int_equal(said.connect.status, altered ? CONNECT_BAD_KEY : CONNECT_OK);
		host_close(host);
	}
}

/* Copies of an ACCEPT by a link of which nothing is known yet take no memory. */
static void accept__by_an_unknown_route(void **state)
{
	struct host *host = host_open(JOB_KEY);
	struct packet packet, asked;

	(void)state;
	host_wants(host, &asked);
	stranger_accept(&packet, &asked);
	packet.connect.integrity = GUARD_HEADS;
	stranger_proves(&packet);
	for (int i = 0; i < TIMES; i++)
		stranger_says(host, RAW, &packet, 0);
	assert_int_equal(host_count(host, COUNTER_DROPPED_SESSION), TIMES);
	assert_int_equal(host->engine->guards.live, 0);
	stranger_says(host, UDP, &packet, 0);
	assert_int_equal(host->engine->guards.live, 1);
	assert_int_equal(host_connection(host)->state, CONNECTION_OPEN);
	host_close(host);
}

/* A session is what shows that frames are of this connection; 0 is what those have that know none. */
static void connect__has_a_session(void **state)
{
	struct host *host = host_open(0);
	struct packet packet, said;

	(void)state;
	stranger_connect(&packet);
	packet.connect.session = 0;
	stranger_says(host, UDP, &packet, 0);
	host_run(host, SECOND_NS / 100);
	assert_int_equal(host_count(host, COUNTER_DROPPED_STRANGER), 1);
	assert_int_equal(host->endpoint->peer_count, 0);
	host_said(host, UDP, &said);
	assert_int_equal(said.type, PACKET_ACCEPT);
	assert_int_not_equal(said.connect.status, CONNECT_OK);
	host_close(host);
}

/* Nor is it an answer that has seen a longer frame than any that we can send, or that lets us in and has no session, or
 * has one and does not. */
static void accept__that_cannot_be(void **state)
{
	static const struct {
		uint16_t seen;
		uint8_t status;
		uint64_t session;
	} cases[] = {
		{ENGINE_FRAME_MAX + 1, CONNECT_OK, 4711},
		{UINT16_MAX, CONNECT_OK, 4711},
		{ENGINE_FRAME_MAX, CONNECT_OK, 0},
		{ENGINE_FRAME_MAX, CONNECT_NO_GUARD, 4711},
	};
	struct thole_peer_info info;
	struct packet packet, asked;

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct host *host = host_open(0);
		uint32_t peer = host_wants(host, &asked);

		stranger_accept(&packet, &asked);
		packet.connect.seen = cases[i].seen;
		packet.connect.status = cases[i].status;
		packet.connect.session = cases[i].session;
		stranger_says(host, UDP, &packet, 0);
		assert_int_equal(host_count(host, COUNTER_DROPPED_STRANGER), 1);
		assert_int_equal(thole_peer_info(host->endpoint, peer, &info), 0);
		assert_string_equal(info.state, "connecting");
		stranger_accept(&packet, &asked);
		stranger_says(host, UDP, &packet, 0);
		assert_int_equal(thole_peer_info(host->endpoint, peer, &info), 0);
		assert_string_equal(info.state, "connected");
		host_close(host);
	}
}

/* Who has answered is in: a refusal that comes later is somebody else's. */
static void accept__then_refused(void **state)
{
	static const uint8_t statuses[] = {CONNECT_BAD_KEY, CONNECT_NO_GUARD};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct host *host = host_open(0);
		struct packet packet, asked;
		uint32_t peer = host_wants(host, &asked);

		stranger_accept(&packet, &asked);
		stranger_says(host, UDP, &packet, 0);
		packet.connect.session = 0;
		packet.connect.status = statuses[i];
		stranger_says(host, UDP, &packet, 0);
		assert_false(endpoint_peer(host->endpoint, peer)->base.gone);
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

/* A CONNECT names the endpoint that it is for: an older one had this place, and this is another. */
static void connect__for_another_endpoint(void **state)
{
	struct host *host = host_open(0);
	struct packet packet, said;

	(void)state;
	stranger_connect(&packet);
	packet.connect.target++;
	stranger_says(host, UDP, &packet, 0);
	host_run(host, SECOND_NS / 100);
	assert_int_equal(host->sinks[UDP].frames, 1);
	host_said(host, UDP, &said);
	assert_int_equal(said.type, PACKET_NACK);
	assert_int_equal(said.nack.reason, NACK_BAD_ENDPOINT);
	assert_int_equal(said.nack.refused, packet.connect.session);
	assert_int_equal(host_count(host, COUNTER_ACCEPTS), 0);
	assert_int_equal(host->endpoint->peer_count, 0);
	host_close(host);
}

/* A NACK repeats the session of the frame that it refuses: a guess, or one for an earlier connection, ends nothing. */
static void nack__of_another_session(void **state)
{
	static const enum nack_reason reasons[] = {NACK_BAD_ENDPOINT, NACK_CLOSED, NACK_BAD_SESSION};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct host *host = host_open(0);
		struct packet packet = {.type = PACKET_NACK, .to = PACKET_TO_NONE};

		stranger_opens(host);
		packet.nack.reason = (uint8_t)reasons[i];
		packet.nack.refused = 4711 + 1; /* of the peer's, which our frames have */
		stranger_says(host, UDP, &packet, 0);
		packet.nack.refused = 0;
		stranger_says(host, UDP, &packet, 0);
		assert_false(endpoint_peer(host->endpoint, 0)->base.gone);
		packet.nack.refused = reasons[i] == NACK_BAD_ENDPOINT ? host_connection(host)->session : 4711;
		stranger_says(host, UDP, &packet, 0);
		assert_true(endpoint_peer(host->endpoint, 0)->base.gone);
		assert_int_equal(host_count(host, COUNTER_NACKS_RECEIVED), 3);
		host_close(host);
	}
}

/* Whom we have lost is told so when it connects again: what it had from us, and we from it, is over. */
static void connect__of_who_is_lost(void **state)
{
	struct host *host = host_open(0);
	struct packet packet = {.type = PACKET_NACK, .to = PACKET_TO_NONE}, said;
	uint64_t accepts;

	(void)state;
	stranger_opens(host);
	accepts = host_count(host, COUNTER_ACCEPTS);
	packet.nack.reason = NACK_CLOSED;
	packet.nack.refused = 4711;
	stranger_says(host, UDP, &packet, 0);
	assert_true(endpoint_peer(host->endpoint, 0)->base.gone);
	assert_int_equal(host->engine->open, 0);
	stranger_connect(&packet);
	stranger_says(host, UDP, &packet, 0);
	host_run(host, SECOND_NS / 100);
	host_said(host, UDP, &said);
	assert_int_equal(said.type, PACKET_NACK);
	assert_int_equal(said.nack.reason, NACK_CLOSED);
	assert_int_equal(host_count(host, COUNTER_ACCEPTS), accepts);
	host_close(host);
}

/* A window that is not there is refused by the name of the transfer, so that who pulls need not wait for it. */
static void pull__of_no_window(void **state)
{
	struct host *host = host_open(0);
	struct packet packet = stranger_opens(host), said;

	(void)state;
	packet.type = PACKET_PULL;
	packet.pull = (struct packet_pull){.window = 0x4711, .transfer = 0x1234, .total = 9, .length = 9,
					   .frame = 1440};
	stranger_says(host, UDP, &packet, 0);
	host_run(host, SECOND_NS / 1000);
	host_said(host, UDP, &said);
	assert_int_equal(said.type, PACKET_NACK);
	assert_int_equal(said.nack.reason, NACK_BAD_WINDOW);
	assert_int_equal(said.nack.transfer, 0x1234);
	assert_int_equal(said.nack.refused, 4711);
	host_close(host);
}

/* A tag that nobody can judge is none. */
static void frame__with_a_tag_that_was_not_agreed_on(void **state)
{
	static const uint8_t flags[] = {PACKET_TAGGED, PACKET_SEALED};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct host *host = host_open(0);
		struct packet packet = stranger_opens(host);

		packet.flags = flags[i];
		packet.counter = 1;
		packet.credit = 99;
		stranger_says(host, UDP, &packet, 0);
		assert_int_equal(host_count(host, COUNTER_DROPPED_FORGED), 1);
		assert_int_not_equal(host_connection(host)->out.credit, 99);
		host_close(host);
	}
}

/* Whoever sends frames for no connection is told so now and then. */
static void strangers__are_told_now_and_then(void **state)
{
	struct host *host = host_open(0);
	struct packet packet = {.type = PACKET_ACK, .flags = PACKET_ANSWER, .to = 5, .session = 815};

	(void)state;
	for (int i = 0; i < 10; i++)
		stranger_says(host, UDP, &packet, 0);
	assert_int_equal(host_count(host, COUNTER_NACKS_SENT), 1);
	assert_int_equal(host_count(host, COUNTER_DROPPED_SESSION), 10);
	host_run(host, NACK_NS);
	endpoint_advance(host->endpoint, ++host->now_ns);
	stranger_says(host, UDP, &packet, 0);
	stranger_says(host, UDP, &packet, 0);
	assert_int_equal(host_count(host, COUNTER_NACKS_SENT), 2);
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
		host_run(host, (uint64_t)CLOSE_LOOKS * CLOSE_PROBE_NS / 2);
		assert_int_equal(endpoint_peer(host->endpoint, 0)->base.gone, !missing);
		host_run(host, (uint64_t)CLOSE_LOOKS * CLOSE_PROBE_NS);
		assert_true(endpoint_peer(host->endpoint, 0)->base.gone);
		host_close(host);
	}
}

/* It is not the time that tells whether they come: who computes in between has not looked where they are. */
static void close__waits_for_what_is_before_it_while_nobody_looks(void **state)
{
	struct host *host = host_open(0);
	struct packet packet = stranger_opens(host);
	uint32_t first = host_connection(host)->in.next;
	unsigned looks = 0;

	(void)state;
	packet.type = PACKET_RECORD;
	packet.message.record.kind = RECORD_EAGER;
	for (packet.sequence = first; packet.sequence < first + 2; packet.sequence++)
		stranger_leaves(host, RAW, &packet);
	packet.type = PACKET_CLOSE;
	stranger_says(host, UDP, &packet, 0);
	while (!endpoint_peer(host->endpoint, 0)->base.gone && looks++ < CLOSE_LOOKS)
		endpoint_advance(host->endpoint, host->now_ns += 10 * SECOND_NS);
	assert_int_equal(endpoint_peer(host->endpoint, 0)->base.gone_status, THOLE_ERR_CLOSED);
	assert_int_equal(host->sinks[RAW].in_taken, 2);
	host_close(host);
}

/* It says how many records there were, so that who gets it knows whether all are there. */
static void close__says_what_is_before_it(void **state)
{
	struct host *host = host_open(0);
	struct packet own = stranger_opens(host), said;

	(void)state;
	own.credit = 64;
	stranger_says(host, UDP, &own, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(thole_send(host->endpoint, 0, "", 1, 0, 0, 0, NULL, NULL), 0);
	endpoint_advance(host->endpoint, ++host->now_ns);
	host_said(host, UDP, &said);
	assert_int_equal(said.type, PACKET_RECORD);
	assert_int_equal(said.sequence, 3);
	handshake_close(host->engine);
	host_said(host, UDP, &said);
	assert_int_equal(said.type, PACKET_CLOSE);
	assert_int_equal(said.sequence, 4);
	assert_int_equal(said.ack, host_connection(host)->in.next); /* what has arrived is not lost by it */
	host_close(host);
}

/* ---- Many that there were ---------------------------------------------------------------------------------- */

static void host_receives(struct host *host, const void *context)
{
	static uint8_t byte;

	assert_int_equal(thole_recv(host->endpoint, 0, &byte, 1, 0, 0, 0, (void *)(uintptr_t)context, NULL), 0);
	silence_receives(host->engine);
}

/* What is asked all the time, of an endpoint at rest too, is not asked of each connection that there ever was. */
static void many__are_not_looked_at(void **state)
{
	static const int first, second;
	struct host *host = host_open(0);
	unsigned char **chunks;

	(void)state;
	stranger_opens(host);
	host_receives(host, &first);
	host_receives(host, &second);
	assert_int_equal(host->engine->awaited, 1);
	assert_true(host_connection(host)->silence.awaited);
	assert_int_equal(thole_cancel_context(host->endpoint, &first), 1);
	assert_int_equal(thole_cancel_context(host->endpoint, &second), 1);
	silence_receives(host->engine);
	assert_int_equal(host->engine->awaited, 0);
	assert_false(host_connection(host)->silence.awaited);
	chunks = host->engine->connections.chunks;
	host->engine->connections.chunks = NULL;
	silence_receives(host->engine);
	assert_true(engine_drained(host->engine));
	host->engine->connections.chunks = chunks;
	host_receives(host, &first);
	assert_int_equal(host->engine->awaited, 1);
	connection_lost(host_connection(host), THOLE_ERR_PEER);
	assert_int_equal(host->engine->awaited, 0);
	host_close(host);
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

/* It sends now and then, and reads nothing meanwhile, as a program that computes may: it acknowledges nothing, and
 * lives. Once it reads and still does not, it never will. */
static void stalled__by_who_does_not_read(void **state)
{
	struct host *host = host_open(0);
	struct connection *connection;
	struct packet packet;
	unsigned asked = 0;

	(void)state;
	packet = stranger_opens(host);
	packet.credit = 64;
	packet.length = 1;
	packet.message.record = (struct record){.kind = RECORD_EAGER};
	connection = connection_of(&endpoint_peer(host->endpoint, 0)->base);
	for (unsigned i = 0; i < 600; i++) {
		struct packet said;

		packet.type = PACKET_RECORD;
		packet.sequence = connection->in.next;
		stranger_acknowledges(host, &packet, 0, 1);
		host_said(host, UDP, &said);
		asked += said.type == PACKET_ACK && said.flags & PACKET_ANSWER;
	}
	assert_false(endpoint_peer(host->endpoint, 0)->base.gone);
	assert_true(asked > 3);
	packet.type = PACKET_ACK;
	packet.length = 0;
	stranger_acknowledges(host, &packet, 0, 150);
	assert_true(endpoint_peer(host->endpoint, 0)->base.gone);
	assert_int_equal(host_count(host, COUNTER_PEERS_STALLED), 1);
	host_close(host);
}

/* Who is asked says so by an ACK, though a record that says as much of what has come leaves at the same time. */
static void asked__amid_records(void **state)
{
	struct host *host = host_open(0);
	struct packet packet;
	uint64_t acks;

	(void)state;
	packet = stranger_opens(host);
	packet.credit = 1;
	stranger_says(host, UDP, &packet, 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(thole_send(host->endpoint, 0, "", 1, 0, 0, 0, NULL, NULL), 0);
	host_run(host, 1);
	assert_int_equal(host_connection(host)->out.next - packet.ack, 1); /* the other one waits for credit */
	acks = host_count(host, COUNTER_ACKS_SENT);
	packet.ack++;
	packet.flags = PACKET_ANSWER;
	stranger_says(host, UDP, &packet, 0);
	host_run(host, 1);
	assert_int_equal(host_connection(host)->out.next - packet.ack, 1);
	assert_int_equal(host_count(host, COUNTER_ACKS_SENT), acks + 1);
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
	connection->pull.peer.outstanding = 1; /* as if asked for */
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

/* ---- A peer that says nothing ------------------------------------------------------------------------------- */

static enum link_liveness verdict;
static bool asking; /* a question is asked, and has not ended */

static enum link_liveness sink_liveness(struct link *link, const struct path *to, uint64_t endpoint)
{
	(void)link;
	(void)to;
	assert_int_equal(endpoint, 102);
	asking = verdict != LINK_ALIVE && verdict != LINK_GONE;
	return verdict;
}

static void sink_liveness_end(struct link *link, const struct path *to)
{
	(void)link;
	(void)to;
	asking = false;
}

/* Its host is asked after it; what it says decides how long something that waits goes on waiting. */
static void silent__by_what_its_host_says(void **state)
{
	static const struct {
		enum link_liveness verdict;
		unsigned least, most; /* eighths of peer_timeout that it is waited for */
	} cases[] = {
		{LINK_UNKNOWN, 8, 11}, {LINK_GONE, 4, 7}, {LINK_HELD, 13, 1000}, {LINK_ALIVE, 200, 0},
		{LINK_UNASKED, 13, 1000},
	};
	struct link_calls calls = sink_calls[UDP];

	(void)state;
	calls.liveness = sink_liveness;
	calls.liveness_end = sink_liveness_end;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct host *host = host_open(0);
		uint64_t eighth = host->endpoint->base.options.peer_timeout / 8;
		unsigned waited = 0;

		host->sinks[UDP].link.calls = &calls;
		stranger_opens(host);
		verdict = cases[i].verdict;
		assert_int_equal(thole_send(host->endpoint, 0, "", 1, 0, 0, 0, NULL, NULL), 0);
		for (; waited < 200 && !endpoint_peer(host->endpoint, 0)->base.gone; waited++)
			host_run(host, eighth);
		if (cases[i].most)
			assert_in_range(waited, cases[i].least, cases[i].most);
		else
			assert_int_equal(waited, cases[i].least);
		assert_false(asking);
		if (cases[i].most)
			assert_int_equal(endpoint_peer(host->endpoint, 0)->base.silent, verdict != LINK_GONE);
		host_close(host);
	}
}

static unsigned troubles;

static void count_trouble(const struct transport_owner *owner)
{
	(void)owner;
	troubles++;
}

/* Who never answered has perhaps not died: it is said where it was looked for, and what may be in the way, at once and
 * whenever it is asked for again. Of one that was heard there is nothing to say. */
static void silent__without_ever_an_answer(void **state)
{
	static const char remedy[] = "has never answered at 10.0.0.2:257";

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		bool heard = i & 1, refused = i & 2;
		struct host *host = host_open(0);
		struct path to = host_path(UDP, 2);
		struct packet asked;
		uint32_t peer = 0;

		troubles = 0;
		host->endpoint->base.trouble = count_trouble;
		if (heard)
			stranger_opens(host);
		else
			peer = host_wants(host, &asked);
		assert_int_equal(thole_send(host->endpoint, peer, "", 1, 0, 0, 0, NULL, NULL), 0);
		error_set(THOLE_ERR_BUSY, "something else");
		for (unsigned k = 0; k < 100 && !endpoint_peer(host->endpoint, peer)->base.gone; k++) {
			if (refused)
				engine_refused(host->engine, &host->sinks[UDP].link, &to);
			host_run(host, SECOND_NS);
		}
		assert_true(endpoint_peer(host->endpoint, peer)->base.gone);
		assert_int_equal(endpoint_peer(host->endpoint, peer)->base.silent, !refused);
		assert_int_equal(troubles, !heard);
		assert_int_equal(strstr(thole_detail(), remedy) != NULL, !heard);
		assert_int_equal(thole_send(host->endpoint, peer, "", 1, 0, 0, 0, NULL, NULL), THOLE_ERR_PEER);
		assert_int_equal(strstr(thole_detail(), remedy) != NULL, !heard);
		assert_int_equal(strstr(thole_detail(), "firewall") != NULL, !heard);
		host_close(host);
	}
}

/* Its frames are of another version, so that none of them is understood, and it lives: it is not waited for for ever.
 * It is told the same, so that neither side has to begin. */
static void silent__of_another_version(void **state)
{
	struct link_calls calls = sink_calls[UDP];

	(void)state;
	calls.liveness = sink_liveness;
	calls.liveness_end = sink_liveness_end;
	verdict = LINK_ALIVE;
	for (unsigned type = 0; type <= PACKET_NACK; type += PACKET_NACK) {
		struct host *host = host_open(0);
		uint64_t eighth = host->endpoint->base.options.peer_timeout / 8;
		struct path from = host_path(UDP, 2);
		uint8_t frame[ENGINE_FRAME_MIN] = {(uint8_t)(type ? type : PACKET_CONNECT), 77};
		struct thole_request *request;
		struct thole_address address;
		struct address_parts parts;
		uint32_t peer;

		host->sinks[UDP].link.calls = &calls;
		host_parts(2, &parts);
		address_format(&parts, &address);
		assert_int_equal(thole_peer(host->endpoint, &address, &peer), 0);
		assert_int_equal(thole_connect(host->endpoint, peer, 0, NULL, &request), 0);
		for (int i = 0; i < 100; i++)
			host_run(host, eighth);
		assert_false(endpoint_peer(host->endpoint, peer)->base.gone);
		assert_int_equal(host_count(host, COUNTER_NACKS_SENT), 0);
		for (int i = 0; i < TIMES; i++)
			engine_frame(host->engine, &host->sinks[UDP].link, &from, frame, sizeof(frame));
		assert_int_equal(host_count(host, COUNTER_NACKS_SENT), !type);
		for (int i = 0; i < 100 && !endpoint_peer(host->endpoint, peer)->base.gone; i++)
			host_run(host, eighth);
		assert_true(endpoint_peer(host->endpoint, peer)->base.gone);
		assert_int_equal(endpoint_peer(host->endpoint, peer)->base.gone_status, THOLE_ERR_PROTOCOL);
		host_close(host);
	}
}

/* Who is heard of again is asked after no more: each question has descriptors. */
static void silent__then_heard(void **state)
{
	struct link_calls calls = sink_calls[UDP];
	struct host *host = host_open(0);
	uint64_t eighth = host->endpoint->base.options.peer_timeout / 8;
	struct packet own;

	(void)state;
	calls.liveness = sink_liveness;
	calls.liveness_end = sink_liveness_end;
	host->sinks[UDP].link.calls = &calls;
	own = stranger_opens(host);
	verdict = LINK_HELD;
	assert_int_equal(thole_send(host->endpoint, 0, "", 1, 0, 0, 0, NULL, NULL), 0);
	for (int i = 0; i < 8 && !asking; i++)
		host_run(host, eighth);
	assert_true(asking);
	host_run(host, 1); /* later than it was looked at last */
	stranger_says(host, UDP, &own, 0);
	host_run(host, eighth);
	assert_false(asking);
	assert_false(endpoint_peer(host->endpoint, 0)->base.gone);
	host_close(host);
}

/* ---- A link that loses ------------------------------------------------------------------------------------- */

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

/* What was lost together is one loss. */
static void link__is_not_left_for_one_loss(void **state)
{
	size_t lengths[4 * LINK_LOSSES];
	struct packet packet;
	struct host *host = host_open(0);
	struct connection *connection = stranger_opens_both(host, &packet);

	(void)state;
	packet.credit = 64;
	connection->out.trip.least_ns = TRIP_NS;
	stranger_repeated(host, connection, &packet, NARROW, LINK_TRIP_NS + 1); /* says the credit, and no more */
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		lengths[i] = 1000 + 8 * i;
	assert_true(stranger_repeated_all(host, connection, &packet, lengths, sizeof(lengths) / sizeof(lengths[0]),
					  TRIP_NS) >= LINK_LOSSES);
	assert_int_equal(host_count(host, COUNTER_LINK_FALLBACKS), 0);
	host_close(host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stranger__gets_no_more_than_it_sends),
		cmocka_unit_test(stranger__shows_that_it_is_there),
		cmocka_unit_test(wanted__is_asked_by_the_other_link),
		cmocka_unit_test(wanted__is_asked_less_and_less),
		cmocka_unit_test(wanted__by_a_short_frame_at_first),
		cmocka_unit_test(wanted__by_frames_of_the_option_mtu),
		cmocka_unit_test(connect__comes_from_where_it_says),
		cmocka_unit_test(accept__proves_the_key),
		cmocka_unit_test(credit__has_a_bound),
		cmocka_unit_test(connect__finds_no_memory),
		cmocka_unit_test(wanted__gives_a_reason),
		cmocka_unit_test(connect__says_more),
		cmocka_unit_test(accept__by_an_unknown_route),
		cmocka_unit_test(connect__has_a_session),
		cmocka_unit_test(accept__that_cannot_be),
		cmocka_unit_test(accept__then_refused),
		cmocka_unit_test(accept__no_guard_there),
		cmocka_unit_test(connect__of_a_second_session),
		cmocka_unit_test(connect__for_another_endpoint),
		cmocka_unit_test(nack__of_another_session),
		cmocka_unit_test(connect__of_who_is_lost),
		cmocka_unit_test(pull__of_no_window),
		cmocka_unit_test(frame__with_a_tag_that_was_not_agreed_on),
		cmocka_unit_test(strangers__are_told_now_and_then),
		cmocka_unit_test(close__waits_for_what_is_before_it),
		cmocka_unit_test(close__waits_for_what_is_before_it_while_nobody_looks),
		cmocka_unit_test(close__says_what_is_before_it),
		cmocka_unit_test(many__are_not_looked_at),
		cmocka_unit_test(stalled__records),
		cmocka_unit_test(stalled__by_who_does_not_read),
		cmocka_unit_test(asked__amid_records),
		cmocka_unit_test(stalled__neither),
		cmocka_unit_test(silent__by_what_its_host_says),
		cmocka_unit_test(silent__without_ever_an_answer),
		cmocka_unit_test(silent__then_heard),
		cmocka_unit_test(silent__of_another_version),
		cmocka_unit_test(link__is_left_after_losses),
		cmocka_unit_test(link__is_not_left_for_one_loss),
	};

	return cmocka_run_group_tests_name("connection", tests, NULL, NULL);
}
