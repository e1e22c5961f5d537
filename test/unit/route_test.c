/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An endpoint with three links, of which some die: which one is used for what, when it is left, and when it is
 * returned to. The other side is this test. Whole transfers while links die are the simulator's.
 */
#include "unit.h"

#include "message/message.h"
#include "stranger.h"

enum { FETCH_BYTES = 200000 };

/* A peer that all of them reach. */
static struct connection *three_open(struct host **host_p, struct packet *packet_p)
{
	struct host *host = *host_p = host_open_links(0, LINKS);
	struct connection *connection;
	struct packet asked, packet;

	*packet_p = stranger_opens(host);
	packet_p->credit = 64;
	connection = host_connection(host);
	for (unsigned i = 0; i < LINKS; i++) {
		if (i != UDP) {
			stranger_connect(&packet);
			stranger_says(host, i, &packet, 0);
			host_run(host, SECOND_NS / 100);
		}
		host_said(host, i, &asked);
		assert_int_equal(asked.type, PACKET_CONNECT);
		stranger_accept(&packet, &asked);
		stranger_says(host, i, &packet, 0);
	}
	host_run(host, 2 * (uint64_t)FALL_BACK_NS); /* until all is at rest */
	endpoint_advance(host->endpoint, ++host->now_ns);
	connection->out.trip.least_ns = TRIP_NS;
	assert_int_equal(connection->routes.working, LINKS);
	assert_int_equal(connection->routes.use[LINK_RECORDS], RAW);
	assert_int_equal(connection->routes.use[LINK_BULK], LANE);
	assert_false(connection->routes.aside);
	return connection;
}

/* What was sent by links is forgotten. */
static void sinks_clear(struct host *host)
{
	for (unsigned i = 0; i < LINKS; i++)
		host->sinks[i].frames = host->sinks[i].last_length = 0;
}

static void link_loses(struct host *host, struct connection *connection, struct packet *packet, unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		stranger_repeated(host, connection, packet, NARROW, TRIP_NS);
}

/* ---- Which way records go ------------------------------------------------------------------------------- */

/* However many have gone since one that was long, or since none was: short ones go by the link for records. */
static void records__go_by_their_link(void **state)
{
	static uint8_t bytes[60000];
	struct host *host;
	struct packet packet;
	struct connection *connection = three_open(&host, &packet);

	(void)state;
	for (unsigned i = 0; i < 12; i++) {
		sinks_clear(host);
		for (unsigned k = 0; k < 3; k++)
			assert_int_equal(thole_send(host->endpoint, 0, "", 1, 0, 0, 0, NULL, NULL), 0);
		endpoint_advance(host->endpoint, ++host->now_ns);
		assert_int_equal(host->sinks[LANE].frames, 0);
		assert_true(host->sinks[RAW].frames > 0);
		packet.ack = connection->out.next;
		stranger_says(host, RAW, &packet, 0);
		assert_true(list_empty(&connection->out.unacked));
		if (i == 5) { /* and what follows it goes its way until it is acknowledged */
			assert_int_equal(
				thole_send(host->endpoint, 0, bytes, sizeof(bytes), 0, 0, THOLE_INJECT, NULL, NULL), 0);
			assert_int_equal(thole_send(host->endpoint, 0, "", 1, 0, 0, 0, NULL, NULL), 0);
			endpoint_advance(host->endpoint, ++host->now_ns);
			assert_true(host->sinks[LANE].frames > 0);
			packet.ack = connection->out.next;
			stranger_says(host, RAW, &packet, 0);
			assert_true(list_empty(&connection->out.unacked));
		}
		connection->out.next += UINT32_C(1) << 30; /* as if so many had gone, and were acknowledged */
	}
	host_close(host);
}

/* ---- Left, and returned to ------------------------------------------------------------------------------ */

static void link__is_left_for_the_next(void **state)
{
	struct host *host;
	struct packet packet;
	struct connection *connection = three_open(&host, &packet);

	(void)state;
	link_loses(host, connection, &packet, LINK_LOSSES - 1);
	assert_int_equal(connection->routes.use[LINK_RECORDS], RAW);
	link_loses(host, connection, &packet, 1);
	assert_int_equal(connection->routes.use[LINK_RECORDS], UDP);
	assert_int_equal(connection->routes.use[LINK_BULK], LANE);
	link_loses(host, connection, &packet, LINK_LOSSES);
	assert_int_equal(connection->routes.use[LINK_RECORDS], LANE);
	assert_int_equal(host_count(host, COUNTER_LINK_FALLBACKS), 2);
	host_close(host);
}

/* It stays left, though frames of some length were too long for it. */
static void link__that_is_left_does_not_shrink(void **state)
{
	struct host *host;
	struct packet packet;
	struct connection *connection = three_open(&host, &packet);

	(void)state;
	link_loses(host, connection, &packet, LINK_LOSSES);
	route_shrink(connection, RAW, 1000, true);
	assert_int_equal(connection->route[RAW].frame_max, 0);
	assert_int_equal(connection->routes.use[LINK_RECORDS], UDP);
	host_close(host);
}

/* An ACCEPT that came by it speaks for a link, too, if it says what was not known: else it may be a copy. */
static void link__that_works_has_lost_nothing(void **state)
{
	struct host *host;
	struct packet packet;
	struct connection *connection = three_open(&host, &packet);

	(void)state;
	connection->route[RAW].frame_max = 1400;
	link_loses(host, connection, &packet, LINK_LOSSES - 1);
	route_work(connection, RAW, ENGINE_FRAME_MAX);
	link_loses(host, connection, &packet, LINK_LOSSES - 1);
	assert_int_equal(connection->routes.use[LINK_RECORDS], RAW);
	route_work(connection, RAW, ENGINE_FRAME_MAX);
	link_loses(host, connection, &packet, 1);
	assert_int_equal(connection->routes.use[LINK_RECORDS], UDP);
	host_close(host);
}

/* An ACCEPT that was heard shows of no other link that it works, nor, once it was left, of its own. */
static void link__is_shown_to_work_by_its_own_answer(void **state)
{
	struct packet packet, asked, answer;
	struct host *host;
	struct connection *connection = three_open(&host, &packet);

	uint8_t before = connection->route[RAW].asked;

	(void)state;
	route_leave(connection, RAW);
	for (uint8_t link = 0; link < LINKS; link++) { /* of another one as many have gone as by this one */
		uint8_t number = link == RAW ? before : connection->route[RAW].asked;

		stranger_accept(&answer, &(struct packet){.connect = {.index = connection->index,
								      .session = connection->session}});
		answer.connect.attempt = (uint8_t)(number * ENGINE_LINKS_MAX + link);
		stranger_says(host, RAW, &answer, 0);
		assert_int_equal(connection->route[RAW].frame_max, 0);
	}
	assert_int_equal(host_count(host, COUNTER_DROPPED_SESSION), LINKS);
	host_run(host, FALL_BACK_NS + PROBE_NS);
	host_said(host, RAW, &asked);
	assert_int_equal(asked.type, PACKET_CONNECT);
	stranger_accept(&answer, &asked);
	stranger_says(host, UDP, &answer, 0);
	assert_int_equal(connection->route[RAW].frame_max, 0);
	for (uint8_t link = 0; link < LINKS; link++) {
		answer.connect.attempt = (uint8_t)(asked.connect.attempt / ENGINE_LINKS_MAX * ENGINE_LINKS_MAX + link);
		if (link != RAW)
			stranger_says(host, RAW, &answer, 0);
		assert_int_equal(connection->route[RAW].frame_max, 0);
	}
	stranger_accept(&answer, &asked);
	stranger_says(host, RAW, &answer, 0);
	assert_int_equal(connection->route[RAW].frame_max, ENGINE_FRAME_MAX);
	host_close(host);
}

/* Of what has gone since it was left the last ones' answers count, not older ones. */
static void link__is_shown_to_work_by_a_late_answer(void **state)
{
	struct packet packet, asked, answer;
	struct host *host;
	struct connection *connection = three_open(&host, &packet);

	(void)state;
	route_leave(connection, RAW);
	host_run(host, FALL_BACK_NS + PROBE_NS);
	host_said(host, RAW, &asked);
	assert_int_equal(asked.type, PACKET_CONNECT);
	for (unsigned i = 0; i < ROUTE_NUMBERS_OUT; i++)
		route_ask(connection, RAW);
	stranger_accept(&answer, &asked);
	stranger_says(host, RAW, &answer, 0);
	assert_int_equal(connection->route[RAW].frame_max, 0);
	answer.connect.attempt = (uint8_t)(asked.connect.attempt + ENGINE_LINKS_MAX);
	stranger_says(host, RAW, &answer, 0);
	assert_int_equal(connection->route[RAW].frame_max, ENGINE_FRAME_MAX);
	host_close(host);
}

/* However often a link is left, or gets narrower: by the number the peer knows the next CONNECT for a newer one. */
static void connects__are_numbered_one_by_one(void **state)
{
	struct packet packet;
	struct host *host;
	struct connection *connection = three_open(&host, &packet);
	uint8_t number = connection->route[UDP].asked;

	(void)state;
	route_shrink(connection, UDP, 1400, false);
	route_shrink(connection, UDP, 1300, false);
	route_leave(connection, UDP);
	assert_int_equal(route_ask(connection, UDP), (uint8_t)((number + 1) * ENGINE_LINKS_MAX + UDP));
	host_close(host);
}

/* That a path became narrower may be heard of by the port of DATA. The peer is told until it answers. */
static void frames__get_shorter_for_data(void **state)
{
	struct packet packet, before, asked, answer;
	struct host *host;
	struct connection *connection = three_open(&host, &packet);
	uint16_t frame_max = connection->route[UDP].frame_max;

	(void)state;
	stranger_connect(&before);
	before.connect.index = connection->index;
	before.connect.session = connection->session;
	before.connect.attempt = (uint8_t)(connection->route[UDP].asked * ENGINE_LINKS_MAX + UDP);
	route_leave(connection, LANE);
	connection->route[UDP].bulk.bytes[16] ^= 0x40;
	engine_shrink(host->engine, &host->sinks[RAW].link, &connection->route[UDP].bulk, 1000);
	assert_int_equal(connection->route[UDP].frame_max, frame_max);
	engine_shrink(host->engine, &host->sinks[UDP].link, &connection->route[UDP].bulk, 1000);
	assert_int_equal(connection->route[UDP].frame_max, 1000);
	assert_int_equal(connection->routes.frame, 1000);
	assert_int_equal(host_count(host, COUNTER_FRAME_SHRINKS), 1);
	stranger_accept(&answer, &before); /* as if it had come late, or once more */
	stranger_says(host, UDP, &answer, 0);
	assert_int_equal(connection->route[UDP].frame_max, 1000);
	sinks_clear(host);
	host_run(host, PROBE_NS);
	assert_int_equal(host->sinks[UDP].frames, 2);
	host_said(host, UDP, &asked);
	assert_int_equal(asked.type, PACKET_CONNECT);
	assert_int_equal(asked.connect.seen, 1000);
	stranger_accept(&answer, &asked);
	answer.connect.seen = 0;
	stranger_says(host, UDP, &answer, 0);
	sinks_clear(host);
	host_run(host, SECOND_NS);
	assert_int_equal(host->sinks[UDP].frames, 0);
	route_shrink(connection, UDP, 900, false); /* and not for ever */
	host_run(host, 10 * SECOND_NS);
	assert_int_equal(host->sinks[UDP].frames, PROBES_MAX);
	host_close(host);
}

/* Who goes on to ask for DATA that is too long has not understood, though it has answered. */
static void frames__are_too_long_again(void **state)
{
	struct packet packet, asked, answer;
	struct host *host;
	struct connection *connection = three_open(&host, &packet);
	struct link *link = &host->sinks[UDP].link;
	struct path records = connection->route[UDP].records, *bulk = &connection->route[UDP].bulk;

	(void)state;
	route_leave(connection, LANE);
	bulk->bytes[16] ^= 0x40;
	for (unsigned i = 0; i < 3; i++) {
		sinks_clear(host);
		engine_shrink(host->engine, link, bulk, 1000);
		for (unsigned k = 0; k < 3; k++) {
			engine_shrink(host->engine, link, bulk, 1000 + k); /* it is just being told */
			host_run(host, PROBE_NS / 8);
		}
		assert_int_equal(host->sinks[UDP].frames, 1);
		host_said(host, UDP, &asked);
		assert_int_equal(asked.type, PACKET_CONNECT);
		assert_int_equal(asked.connect.seen, 1000);
		stranger_accept(&answer, &asked);
		answer.connect.seen = 0;
		stranger_says(host, UDP, &answer, 0);
		host_run(host, SECOND_NS);
		assert_int_equal(host->sinks[UDP].frames, 1);
	}
	assert_int_equal(host_count(host, COUNTER_FRAME_SHRINKS), 1);
	engine_shrink(host->engine, link, &records, 1000); /* of a CONNECT, perhaps */
	host_run(host, SECOND_NS);
	assert_int_equal(host->sinks[UDP].frames, 1);
	engine_shrink(host->engine, link, bulk, 1000);
	host_run(host, 10 * SECOND_NS); /* nobody answers; but it asks again */
	assert_int_equal(host->sinks[UDP].frames, 1 + PROBES_MAX);
	engine_shrink(host->engine, link, bulk, 1000);
	host_run(host, PROBE_NS / 8);
	assert_int_equal(host->sinks[UDP].frames, 2 + PROBES_MAX);
	host_close(host);
}

/* Its tries before were lost. */
static void first_connect__has_any_number(void **state)
{
	(void)state;
	for (uint8_t number = 0; number < ROUTE_NUMBERS; number++) {
		struct host *host = host_open_links(0, 1);
		struct packet connect;

		stranger_connect(&connect);
		connect.connect.size = 4000;
		connect.connect.attempt = (uint8_t)(number * ENGINE_LINKS_MAX);
		stranger_says(host, UDP, &connect, 4000);
		assert_int_equal(host_connection(host)->route[UDP].frame_in, 4000);
		connect.connect.attempt = (uint8_t)((number - 1) * ENGINE_LINKS_MAX);
		connect.connect.size = 5000;
		stranger_says(host, UDP, &connect, 5000);
		assert_int_equal(host_connection(host)->route[UDP].frame_in, 4000);
		host_close(host);
	}
}

/* Who says that frames are shorter now is asked for such, and no copy of what was said before changes that. */
static void frames__of_the_peer_get_shorter(void **state)
{
	struct packet packet, connect;
	struct host *host;
	struct connection *connection = three_open(&host, &packet);
	struct route *route = &connection->route[LANE];

	(void)state;
	stranger_connect(&connect);
	connect.connect.size = 4000;
	connect.connect.attempt = 5 * ENGINE_LINKS_MAX;
	stranger_says(host, LANE, &connect, 4000);
	assert_int_equal(route->frame_in, 4000);
	packet = connect;
	packet.connect.size = 0;
	packet.connect.seen = 1400;
	packet.connect.attempt = 30 * ENGINE_LINKS_MAX;
	stranger_says(host, LANE, &packet, 0);
	assert_int_equal(route->frame_in, 1400);
	stranger_says(host, LANE, &connect, 4000);
	assert_int_equal(route->frame_in, 1400);
	connect.connect.attempt = 31 * ENGINE_LINKS_MAX; /* a newer one */
	stranger_says(host, LANE, &connect, 4000);
	assert_int_equal(route->frame_in, 4000);
	stranger_says(host, LANE, &packet, 0);
	assert_int_equal(route->frame_in, 4000);
	packet.connect.seen = ENGINE_FRAME_MIN - 1; /* shorter than they get */
	packet.connect.attempt = 32 * ENGINE_LINKS_MAX;
	stranger_says(host, LANE, &packet, 0);
	assert_int_equal(route->frame_in, 4000);
	host_close(host);
}

/* Where DATA goes is told once: a CONNECT of before, or of nobody knows who, does not lead it elsewhere. */
static void port_of_data__is_told_once(void **state)
{
	struct host *host;
	struct packet packet;
	struct connection *connection = three_open(&host, &packet);
	struct path bulk = connection->route[UDP].bulk;

	(void)state;
	route_hear(connection, UDP, &(struct packet_connect){.bulk_port = 4711});
	assert_memory_equal(&connection->route[UDP].bulk, &bulk, sizeof(bulk));
	host_close(host);
}

/* A frame that came by itself speaks for its link. */
static void link__loses_in_a_row(void **state)
{
	struct host *host;
	struct packet packet;
	struct connection *connection = three_open(&host, &packet);

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		link_loses(host, connection, &packet, LINK_LOSSES - 1);
		assert_int_equal(thole_send(host->endpoint, 0, "", 1, 0, 0, 0, NULL, NULL), 0);
		endpoint_advance(host->endpoint, ++host->now_ns);
		packet.ack = connection->out.next;
		stranger_says(host, RAW, &packet, 0);
	}
	assert_int_equal(host_count(host, COUNTER_LINK_FALLBACKS), 0);
	host_close(host);
}

static void last_link__is_not_left(void **state)
{
	struct host *host;
	struct packet packet;
	struct connection *connection = three_open(&host, &packet);

	(void)state;
	route_leave(connection, LANE);
	route_leave(connection, RAW);
	route_leave(connection, UDP);
	assert_int_equal(connection->routes.working, 1);
	for (unsigned i = 0; i < 2 * LINK_LOSSES; i++)
		route_lose(connection, UDP);
	assert_int_equal(connection->routes.working, 1);
	assert_true(connection->route[UDP].frame_max > 0);
	assert_int_equal(connection->routes.use[LINK_RECORDS], UDP);
	assert_int_equal(connection->routes.use[LINK_BULK], UDP);
	assert_int_equal(host_count(host, COUNTER_LINK_FALLBACKS), 2);
	host_close(host);
}

/* Not at once; after a round of tries in vain only when something goes on. What shows that it works is the answer to a
 * CONNECT by it. */
static void link__is_tried_again_and_returned_to(void **state)
{
	struct host *host;
	struct packet packet, asked, answer;
	struct connection *connection = three_open(&host, &packet);

	(void)state;
	link_loses(host, connection, &packet, LINK_LOSSES);
	assert_int_equal(connection->routes.use[LINK_RECORDS], UDP);
	sinks_clear(host);
	host_run(host, FALL_BACK_NS / 2);
	assert_int_equal(host->sinks[RAW].frames, 0);
	host_run(host, 4 * (uint64_t)FALL_BACK_NS);
	assert_int_equal(host->sinks[RAW].frames, PROBES_MAX);
	sinks_clear(host);
	host_run(host, 4 * (uint64_t)FALL_BACK_NS);
	assert_int_equal(host->sinks[RAW].frames, 0); /* at rest */
	assert_int_equal(thole_send(host->endpoint, 0, "", 1, 0, 0, 0, NULL, NULL), 0);
	host_run(host, 100);
	connection_wake(connection, host->now_ns);
	host_run(host, 100);
	host_said(host, RAW, &asked);
	assert_int_equal(asked.type, PACKET_CONNECT);
	assert_int_equal(connection->routes.use[LINK_RECORDS], UDP);
	stranger_accept(&answer, &asked);
	stranger_says(host, RAW, &answer, 0);
	assert_int_equal(connection->routes.use[LINK_RECORDS], RAW);
	assert_int_equal(connection->routes.working, LINKS);
	assert_false(connection->route[RAW].left);
	assert_true(connection->route[RAW].later);
	route_leave(connection, RAW);
	assert_false(connection->route[RAW].later); /* left anew, it is tried at rest too */
	host_close(host);
}

/* As often as it takes. */
static void link__is_tried_in_rounds(void **state)
{
	struct host *host;
	struct packet packet;
	struct connection *connection = three_open(&host, &packet);

	(void)state;
	route_leave(connection, LANE);
	sinks_clear(host);
	for (unsigned i = 0; i < 200; i++) {
		if (list_empty(&connection->out.unacked))
			assert_int_equal(thole_send(host->endpoint, 0, "", 1, 0, 0, 0, NULL, NULL), 0);
		host_run(host, FALL_BACK_NS / 20);
		packet.ack = connection->out.next - (i % 2); /* there is always something */
		stranger_says(host, UDP, &packet, 0);
		connection_wake(connection, host->now_ns);
	}
	assert_true(host->sinks[LANE].frames > PROBES_MAX);
	host_close(host);
}

/* Answer what has gone by a link last, as if that frame had arrived as it was. */
static void answer_last(struct host *host, unsigned link)
{
	struct packet asked, answer;

	host_said(host, link, &asked);
	assert_int_equal(asked.type, PACKET_CONNECT);
	stranger_accept(&answer, &asked);
	answer.connect.seen = (uint16_t)host->sinks[link].last_length;
	host->sinks[link].longest = 0;
	stranger_says(host, link, &answer, 0);
	endpoint_advance(host->endpoint, ++host->now_ns);
}

/* Tries get shorter, since long ones may not pass. What is answered late, because its link was down or its peer busy,
 * says nothing about longer ones: they get another chance. */
static void frames__are_long_after_a_late_answer(void **state)
{
	struct host *host;
	struct packet packet, longest;
	struct connection *connection = three_open(&host, &packet);

	(void)state;
	route_leave(connection, RAW);
	host_run(host, FALL_BACK_NS + SECOND_NS / 2);
	assert_int_equal(host->sinks[RAW].last_length, ENGINE_FRAME_MIN);
	answer_last(host, RAW);
	assert_int_equal(connection->routes.use[LINK_RECORDS], RAW);
	assert_int_equal(connection->routes.frame, ENGINE_FRAME_MIN);
	assert_int_equal(host->sinks[RAW].longest, ENGINE_FRAME_MAX);
	host_said(host, RAW, &packet);
	stranger_accept(&longest, &packet);
	stranger_says(host, RAW, &longest, 0);
	assert_int_equal(connection->routes.frame, ENGINE_FRAME_MAX);
	sinks_clear(host);
	host_run(host, 4 * (uint64_t)FALL_BACK_NS);
	assert_int_equal(host->sinks[RAW].frames, 0);
	host_close(host);
}

static void frames__are_long_after_a_late_start(void **state)
{
	struct host *host = host_open_links(0, 1);
	struct thole_request *request;
	struct thole_address address;
	struct address_parts parts;
	struct connection *connection;
	uint64_t frames;
	uint32_t peer;

	(void)state;
	host_parts(2, &parts);
	address_format(&parts, &address);
	assert_int_equal(thole_peer(host->endpoint, &address, &peer), 0);
	assert_int_equal(thole_connect(host->endpoint, peer, 0, NULL, &request), 0);
	host_run(host, 2 * SECOND_NS);
	assert_int_equal(host->sinks[UDP].last_length, ENGINE_FRAME_MIN);
	connection = host_connection(host);
	answer_last(host, UDP);
	assert_int_equal(connection->routes.frame, ENGINE_FRAME_MIN);
	assert_int_equal(host->sinks[UDP].longest, ENGINE_FRAME_MAX);
	/* None of them arrives: then it stays as it is. */
	frames = host->sinks[UDP].frames;
	host_run(host, SECOND_NS);
	assert_int_equal(host->sinks[UDP].frames, frames);
	assert_int_equal(connection->routes.frame, ENGINE_FRAME_MIN);
	host_close(host);
}

/* Before anything has been answered any answer counts, but by the link of its CONNECT. */
static void first_accept__comes_late(void **state)
{
	struct host *host = host_open_links(0, 1);
	struct thole_address address;
	struct address_parts parts;
	struct packet asked, answer;
	uint32_t peer;

	(void)state;
	host_parts(2, &parts);
	address_format(&parts, &address);
	assert_int_equal(thole_peer(host->endpoint, &address, &peer), 0);
	assert_int_equal(thole_connect(host->endpoint, peer, 0, NULL, NULL), 0);
	host_run(host, CONNECT_RETRY_NS / 2);
	host_said(host, UDP, &asked);
	for (unsigned i = 0; i < ROUTE_NUMBERS_OUT; i++)
		route_ask(host_connection(host), UDP);
	stranger_accept(&answer, &asked);
	answer.connect.attempt++; /* by the next link */
	stranger_says(host, UDP, &answer, 0);
	assert_int_equal(host_connection(host)->state, CONNECTION_CONNECTING);
	stranger_accept(&answer, &asked);
	stranger_says(host, UDP, &answer, 0);
	assert_int_equal(host_connection(host)->state, CONNECTION_OPEN);
	assert_int_equal(host_connection(host)->routes.frame, ENGINE_FRAME_MAX);
	host_close(host);
}

/* Which links lose is said by the frames that went by them first, whichever are used by now. */
static void loss__is_of_the_link_that_lost(void **state)
{
	struct host *host;
	struct packet packet;
	struct connection *connection = three_open(&host, &packet);
	struct list_node *node;

	(void)state;
	for (unsigned i = 0; i < 2 * LINK_LOSSES; i++)
		assert_int_equal(thole_send(host->endpoint, 0, "", 1, 0, 0, 0, NULL, NULL), 0);
	endpoint_advance(host->endpoint, ++host->now_ns);
	route_leave(connection, RAW);
	assert_int_equal(connection->routes.use[LINK_RECORDS], UDP);
	while ((node = list_first(&connection->out.unacked))) {
		struct transmit_frame *frame = container_of(node, struct transmit_frame, node);

		assert_int_equal(frame->link, RAW);
		frame->resends = 1;
		frame->sent_ns = ++host->now_ns;
		host->engine->now_ns = host->now_ns += TRIP_NS;
		packet.ack = frame->sequence + 1;
		stranger_says(host, UDP, &packet, 0);
	}
	assert_int_equal(connection->route[UDP].lost_in_row, 0);
	assert_int_equal(host_count(host, COUNTER_LINK_FALLBACKS), 1);
	host_close(host);
}

/* Repetitions go round all that carry frames of the length: any of them may be dead by now. */
static void repetitions__go_by_all_others(void **state)
{
	struct host *host;
	struct packet packet;
	struct connection *connection = three_open(&host, &packet);

	(void)state;
	for (unsigned turn = 0; turn < 4; turn++)
		assert_int_equal(route_other(connection, RAW, turn, 1), turn % 2 ? LANE : UDP);
	route_shrink(connection, UDP, 1000, false);
	for (unsigned turn = 0; turn < 4; turn++)
		assert_int_equal(route_other(connection, RAW, turn, 1001), LANE);
	route_leave(connection, LANE);
	assert_int_equal(route_other(connection, RAW, 0, 1000), UDP);
	assert_int_equal(route_other(connection, RAW, 0, 1001), RAW);
	host_close(host);
}

/* ---- Bulk ----------------------------------------------------------------------------------------------- */

/* It has a long message for us, which we want. */
static void stranger_rts(struct host *host, const struct packet *own, void *to)
{
	struct packet packet = *own;
	struct window window = {.length = FETCH_BYTES, .count = 1, .id = 7};

	packet.type = PACKET_RECORD;
	packet.sequence = 1;
	packet.message = (struct packet_message){.record = {.kind = RECORD_RTS, .tag = 1, .length = RECORD_EXTERNAL}};
	window_store(&window, &packet.message.record);
	assert_int_equal(thole_recv(host->endpoint, 0, to, FETCH_BYTES, 1, UINT64_MAX, 0, NULL, NULL), 0);
	stranger_says(host, RAW, &packet, 0);
	host_run(host, 100);
}

/* It says this and that, but no DATA comes: until the link for it is left, or is not for so long that it never will. */
static void stranger_starves(struct host *host, const struct connection *connection, const struct packet *packet)
{
	uint8_t link = connection->routes.use[LINK_BULK];

	for (unsigned i = 0; i < 1000 && connection->routes.use[LINK_BULK] == link; i++) {
		host_run(host, SECOND_NS / 100);
		stranger_says(host, UDP, packet, 0);
	}
	assert_int_not_equal(connection->routes.use[LINK_BULK], link);
}

static void bulk__goes_aside(void **state)
{
	static uint8_t bytes[FETCH_BYTES];
	struct host *host;
	struct packet packet, asked;
	struct connection *connection = three_open(&host, &packet);

	(void)state;
	sinks_clear(host);
	stranger_rts(host, &packet, bytes);
	host_said(host, RAW, &asked);
	assert_int_equal(asked.type, PACKET_PULL);
	assert_false(asked.flags & PACKET_ASIDE);
	stranger_starves(host, connection, &packet);
	assert_int_equal(connection->routes.use[LINK_BULK], UDP);
	assert_int_equal(connection->routes.use[LINK_RECORDS], RAW);
	assert_true(connection->routes.aside);
	assert_int_equal(host_count(host, COUNTER_LINK_FALLBACKS), 1);
	host_close(host);
}

/* Where time-outs are long, the link is left long before the peer would be taken for one that never gets on. */
static void bulk__goes_aside_in_time(void **state)
{
	static uint8_t bytes[FETCH_BYTES];
	struct host *host;
	struct packet packet;
	struct connection *connection = three_open(&host, &packet);
	uint64_t start_ns;

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		trip_measure(&connection->pull.peer.trip, SECOND_NS / 2, 0);
	stranger_rts(host, &packet, bytes);
	start_ns = host->now_ns;
	stranger_starves(host, connection, &packet);
	assert_true(host->now_ns - start_ns < host->engine->owner->options.peer_timeout / 2);
	assert_int_equal(host_count(host, COUNTER_PEERS_STALLED), 0);
	host_close(host);
}

/* A PULL goes by the link by which its DATA is to come, where that is not the usual one: by nothing else does the
 * peer know it. */
static void pull__shows_the_way(void **state)
{
	static uint8_t bytes[FETCH_BYTES];
	struct host *host;
	struct packet packet, asked;
	struct connection *connection = three_open(&host, &packet);

	(void)state;
	route_leave(connection, LANE);
	sinks_clear(host);
	stranger_rts(host, &packet, bytes);
	host_said(host, UDP, &asked);
	assert_int_equal(asked.type, PACKET_PULL);
	assert_true(asked.flags & PACKET_ASIDE);
	assert_int_equal(host->sinks[LANE].frames, 0);
	host_close(host);
}

/* And so it is with what is asked of us. */
static void data__goes_the_way_of_its_pull(void **state)
{
	struct host *host;
	struct packet packet;
	struct connection *connection = three_open(&host, &packet);

	(void)state;
	for (unsigned i = 0; i < LINKS; i++) {
		connection->routes.heard = (uint8_t)i;
		assert_int_equal(route_serve(connection, true), i);
		assert_int_equal(route_serve(connection, false), LANE);
	}
	host_close(host);
}

/* ---- Silence -------------------------------------------------------------------------------------------- */

/* It is asked by each link that works, as by any the answer may come. */
static void silent_peer__is_asked_by_each_link(void **state)
{
	static uint8_t byte;
	struct host *host;
	struct packet packet, asked;
	struct connection *connection = three_open(&host, &packet);

	(void)state;
	assert_int_equal(thole_recv(host->endpoint, 0, &byte, 1, 1, UINT64_MAX, 0, NULL, NULL), 0);
	host_run(host, SECOND_NS / 100);
	sinks_clear(host);
	host_run(host, host->endpoint->base.options.peer_timeout / 2);
	assert_true(connection->silence.total_ns > 0);
	for (unsigned i = 0; i < LINKS; i++) {
		assert_true(host->sinks[i].frames > 0);
		host_said(host, i, &asked);
		assert_int_equal(asked.type, PACKET_ACK);
		assert_true(asked.flags & PACKET_ANSWER);
	}
	route_leave(connection, LANE);
	sinks_clear(host);
	host_run(host, host->endpoint->base.options.peer_timeout / 4);
	assert_true(host->sinks[UDP].frames > 0 && host->sinks[RAW].frames > 0);
	host_close(host);
}

/* ---- Within the host -------------------------------------------------------------------------------------- */

/* Begins to connect to an endpoint at the same interface. */
static int neighbour_connect(struct host *host)
{
	struct thole_address address;
	struct address_parts parts;
	uint32_t peer;

	host_parts(1, &parts);
	parts.host = 9; /* no shared memory with that one */
	parts.endpoint = 55;
	address_format(&parts, &address);
	assert_int_equal(thole_peer(host->endpoint, &address, &peer), 0);
	return thole_connect(host->endpoint, peer, 0, NULL, NULL);
}

/* An interface does not hear itself. */
static void own_interface__is_no_way_for_raw_frames(void **state)
{
	struct host *host = host_open(0);

	(void)state;
	assert_int_equal(neighbour_connect(host), 0);
	host_run(host, SECOND_NS);
	assert_true(host->sinks[UDP].frames > 1);
	assert_int_equal(host->sinks[RAW].frames, 0);
	host_close(host);
	host = host_open_some(0, RAW, 1);
	assert_int_equal(neighbour_connect(host), THOLE_ERR_ADDRESS);
	assert_non_null(strstr(thole_detail(), "option shm"));
	host_close(host);
}

/* ---- A host that says that nobody is there ---------------------------------------------------------------- */

static struct connection *three_refused(struct host **host_p, struct packet *packet_p)
{
	struct connection *connection = three_open(host_p, packet_p);
	struct path path = host_path(UDP, 2);

	engine_refused((*host_p)->engine, &(*host_p)->sinks[UDP].link, &path);
	assert_int_equal(connection->state, CONNECTION_OPEN);
	return connection;
}

/* What the peer has sent before waits in the memory of another link, and is more than a poll of that brings. */
static void refused__after_what_other_links_have(void **state)
{
	struct host *host;
	struct packet packet;
	struct connection *connection = three_refused(&host, &packet);
	struct thole_request *receives[2];
	struct thole_completion completion;

	(void)state;
	packet.type = PACKET_RECORD;
	packet.message = (struct packet_message){.record = {.kind = RECORD_EAGER, .tag = 1}};
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(thole_recv(host->endpoint, 0, NULL, 0, 1, UINT64_MAX, 0, NULL, &receives[i]), 0);
		packet.sequence = 1 + i;
		stranger_leaves(host, RAW, &packet);
	}
	host->engine->now_ns = ++host->now_ns;
	engine_expire(host->engine); /* in the poll that has told it */
	assert_int_equal(connection->state, CONNECTION_OPEN);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(connection->state, CONNECTION_OPEN);
		endpoint_advance(host->endpoint, ++host->now_ns);
	}
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(thole_wait(host->endpoint, receives[i], 0, &completion), 0);
		assert_int_equal(completion.status, 0);
	}
	assert_int_equal(connection->state, CONNECTION_DEAD);
	host_close(host);
}

/* Though it is heard. */
static void refused__in_the_end(void **state)
{
	struct host *host;
	struct packet packet;
	struct connection *connection = three_refused(&host, &packet);

	(void)state;
	for (unsigned i = 1; i <= REFUSED_POLLS; i++) {
		assert_int_equal(connection->state, CONNECTION_OPEN);
		host->engine->now_ns = ++host->now_ns;
		stranger_says(host, RAW, &packet, 0);
		endpoint_advance(host->endpoint, host->now_ns);
	}
	assert_int_equal(connection->state, CONNECTION_DEAD);
	host_close(host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records__go_by_their_link),
		cmocka_unit_test(frames__are_long_after_a_late_answer),
		cmocka_unit_test(frames__are_long_after_a_late_start),
		cmocka_unit_test(link__is_left_for_the_next),
		cmocka_unit_test(link__that_is_left_does_not_shrink),
		cmocka_unit_test(link__that_works_has_lost_nothing),
		cmocka_unit_test(link__is_shown_to_work_by_its_own_answer),
		cmocka_unit_test(frames__get_shorter_for_data),
		cmocka_unit_test(first_connect__has_any_number),
		cmocka_unit_test(link__is_shown_to_work_by_a_late_answer),
		cmocka_unit_test(connects__are_numbered_one_by_one),
		cmocka_unit_test(frames__are_too_long_again),
		cmocka_unit_test(first_accept__comes_late),
		cmocka_unit_test(frames__of_the_peer_get_shorter),
		cmocka_unit_test(port_of_data__is_told_once),
		cmocka_unit_test(link__loses_in_a_row),
		cmocka_unit_test(last_link__is_not_left),
		cmocka_unit_test(link__is_tried_again_and_returned_to),
		cmocka_unit_test(link__is_tried_in_rounds),
		cmocka_unit_test(loss__is_of_the_link_that_lost),
		cmocka_unit_test(repetitions__go_by_all_others),
		cmocka_unit_test(bulk__goes_aside),
		cmocka_unit_test(bulk__goes_aside_in_time),
		cmocka_unit_test(pull__shows_the_way),
		cmocka_unit_test(data__goes_the_way_of_its_pull),
		cmocka_unit_test(silent_peer__is_asked_by_each_link),
		cmocka_unit_test(own_interface__is_no_way_for_raw_frames),
		cmocka_unit_test(refused__after_what_other_links_have),
		cmocka_unit_test(refused__in_the_end),
	};

	return cmocka_run_group_tests_name("route", tests, NULL, NULL);
}
