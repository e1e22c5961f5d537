/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records that arrive, from a peer that this test is: which are held, which are dropped, and what is said of them.
 */
#include "unit.h"

#include "stranger.h"

/* What it says of the record with this number: a message of one byte, the number. */
static void stranger_sends(struct host *host, const struct packet *own, uint32_t sequence)
{
	struct packet packet = {.type = PACKET_RECORD, .to = own->to, .session = own->session, .ack = own->ack,
				.credit = 64, .sequence = sequence,
				.message.record = {.kind = RECORD_EAGER, .tag = sequence}};
	uint8_t frame[ENGINE_FRAME_MAX];
	struct path from = host_path(UDP, 2);
	size_t length;

	packet.length = 1;
	length = codec_native.encode(&packet, frame);
	frame[length++] = (uint8_t)sequence;
	engine_frame(host->engine, &host->sinks[UDP].link, &from, frame, length);
}

/* Whether the next message is this one. */
static bool host_takes(struct host *host, uint32_t sequence)
{
	struct thole_completion completion;
	struct thole_request *receive;
	uint8_t byte = 0;

	if (!thole_probe(host->endpoint, THOLE_ANY, 0, 0, 0, &completion))
		return false;
	assert_int_equal(completion.tag, sequence);
	assert_int_equal(thole_recv(host->endpoint, THOLE_ANY, &byte, 1, 0, 0, 0, NULL, &receive), 0);
	assert_int_equal(thole_test(host->endpoint, receive, &completion), 1);
	assert_int_equal(byte, (uint8_t)sequence);
	return true;
}

/* The acknowledgement that is due now. */
static void host_acknowledges(struct host *host, struct packet *ack)
{
	host_run(host, 2 * codec_native.ack_delay_ns);
	host_said(host, UDP, ack);
	assert_int_equal(ack->type, PACKET_ACK);
}

/* As many as a sender may have under way are held, and not one beyond: that would be for whoever makes numbers up. */
static void ahead__is_held_up_to_a_bound(void **state)
{
	struct host *host = host_open(0);
	struct packet own = stranger_opens(host);

	(void)state;
	stranger_sends(host, &own, 1 + codec_native.ahead_max + 1);
	stranger_sends(host, &own, 1 + (UINT32_C(1) << 30));
	assert_int_equal(host_count(host, COUNTER_FRAMES_HELD), 0);
	assert_int_equal(host_count(host, COUNTER_DROPPED_FULL), 2);
	stranger_sends(host, &own, 1 + codec_native.ahead_max);
	assert_int_equal(host_count(host, COUNTER_FRAMES_HELD), 1);
	assert_int_equal(host_count(host, COUNTER_DROPPED_FULL), 2);
	host_close(host);
}

/* A frame that comes again and again takes no room from others. */
static void ahead__is_held_once(void **state)
{
	struct host *host = host_open(0);
	struct packet own = stranger_opens(host);

	(void)state;
	for (unsigned i = 0; i < 2 * ENGINE_REORDER_MAX; i++)
		stranger_sends(host, &own, 3);
	assert_int_equal(host_count(host, COUNTER_FRAMES_DUPLICATE), 2 * ENGINE_REORDER_MAX - 1);
	stranger_sends(host, &own, 2);
	stranger_sends(host, &own, 4);
	assert_int_equal(host_count(host, COUNTER_FRAMES_HELD), 3);
	assert_int_equal(host_count(host, COUNTER_DROPPED_FULL), 0);
	assert_false(host_takes(host, 1));
	assert_true(engine_drained(host->engine)); /* nothing of ours waits for anybody */
	stranger_sends(host, &own, 1);
	for (uint32_t i = 1; i <= 4; i++)
		assert_true(host_takes(host, i));
	assert_false(host_takes(host, 5));
	assert_int_equal(host->engine->held, 0);
	host_close(host);
}

/* Over all peers there is a bound too, which a peer that sends in order does not feel. */
static void ahead__has_a_bound_over_all_peers(void **state)
{
	struct host *host = host_open(0);
	struct packet own = stranger_opens(host), ack;

	(void)state;
	host->engine->held += ENGINE_REORDER_TOTAL; /* of others */
	stranger_sends(host, &own, 2);
	assert_int_equal(host_count(host, COUNTER_FRAMES_HELD), 0);
	assert_int_equal(host_count(host, COUNTER_DROPPED_FULL), 1);
	stranger_sends(host, &own, 1);
	assert_true(host_takes(host, 1));
	host_acknowledges(host, &ack);
	assert_int_equal(ack.credit, WINDOW_LEAST); /* no more than a few that could be lost */
	host->engine->held -= ENGINE_REORDER_TOTAL;
	stranger_sends(host, &own, 3);
	assert_int_equal(host_count(host, COUNTER_FRAMES_HELD), 1);
	host_close(host);
}

/* All orders of five. */
static void any_order__is_delivered_in_order(void **state)
{
	(void)state;
	for (unsigned order = 0; order < 5 * 4 * 3 * 2; order++) {
		struct host *host = host_open(0);
		struct packet own = stranger_opens(host), ack;
		uint32_t left[5] = {1, 2, 3, 4, 5};
		unsigned rest = order;

		for (unsigned n = 5; n > 0; rest /= n--) {
			unsigned at = rest % n;

			stranger_sends(host, &own, left[at]);
			left[at] = left[n - 1];
		}
		for (uint32_t i = 1; i <= 5; i++)
			assert_true(host_takes(host, i));
		assert_false(host_takes(host, 6));
		host_acknowledges(host, &ack);
		assert_int_equal(ack.ack, 6);
		assert_int_equal(ack.acked.held, 0);
		host_close(host);
	}
}

/* What is held is said, bit by bit, at once. */
static void acknowledgement__says_what_is_held(void **state)
{
	struct host *host = host_open(0);
	struct packet own = stranger_opens(host), ack;

	(void)state;
	stranger_sends(host, &own, 1);
	for (uint32_t i = 3; i < 70; i += 3)
		stranger_sends(host, &own, i);
	endpoint_advance(host->endpoint, host->now_ns);
	host_said(host, UDP, &ack);
	assert_int_equal(ack.type, PACKET_ACK);
	assert_int_equal(ack.ack, 2);
	assert_int_equal(ack.acked.held, UINT64_C(0x9249249249249249)); /* of 3, 6, ... 66 */
	host_close(host);
}

/* Its acknowledgement was lost, or late: it comes at once, and the message not again. */
static void duplicate__is_acknowledged_at_once(void **state)
{
	struct host *host = host_open(0);
	struct packet own = stranger_opens(host), ack;
	uint64_t acks;

	(void)state;
	stranger_sends(host, &own, 1);
	host_acknowledges(host, &ack);
	assert_int_equal(ack.ack, 2);
	assert_true(host_takes(host, 1));
	acks = host_count(host, COUNTER_ACKS_SENT);
	stranger_sends(host, &own, 1);
	endpoint_advance(host->endpoint, host->now_ns);
	assert_int_equal(host_count(host, COUNTER_ACKS_SENT), acks + 1);
	assert_false(host_takes(host, 1));
	host_close(host);
}

/* One by itself may ride on an answer for a short time; many are acknowledged as they come. */
static void acknowledgement__waits_a_little(void **state)
{
	struct host *host = host_open(0);
	struct packet own = stranger_opens(host), ack;
	uint64_t acks = host_count(host, COUNTER_ACKS_SENT);

	(void)state;
	stranger_sends(host, &own, 1);
	endpoint_advance(host->endpoint, host->now_ns);
	host_run(host, codec_native.ack_delay_ns / 2);
	assert_int_equal(host_count(host, COUNTER_ACKS_SENT), acks);
	host_run(host, codec_native.ack_delay_ns);
	assert_int_equal(host_count(host, COUNTER_ACKS_SENT), acks + 1);
	for (uint32_t i = 2; i < 2 + 2 * codec_native.ack_every; i++) {
		stranger_sends(host, &own, i);
		endpoint_advance(host->endpoint, host->now_ns);
	}
	assert_in_range(host_count(host, COUNTER_ACKS_SENT), acks + 3, acks + 9);
	host_said(host, UDP, &ack);
	assert_int_equal(ack.ack, 2 + 2 * codec_native.ack_every);
	host_close(host);
}

/* The buffer is shared by those who send now, and each may always send a few. */
static void credit__is_shared(void **state)
{
	struct host *host = host_open(0);
	struct packet own = stranger_opens(host), ack;
	uint16_t alone;

	(void)state;
	stranger_sends(host, &own, 1);
	host_acknowledges(host, &ack);
	alone = ack.credit;
	assert_in_range(alone, WINDOW_LEAST + 1, codec_native.ahead_max);
	host->engine->senders += 15;
	stranger_sends(host, &own, 2);
	host_acknowledges(host, &ack);
	assert_in_range(ack.credit, WINDOW_LEAST, alone - 1);
	host->engine->senders += 100000;
	stranger_sends(host, &own, 3);
	host_acknowledges(host, &ack);
	assert_int_equal(ack.credit, WINDOW_LEAST);
	host->engine->senders -= 100015;
	assert_int_equal(host->engine->senders, 1);
	host_run(host, 2 * QUIET_NS);
	assert_int_equal(host->engine->senders, 0); /* it is quiet, and has no share */
	host_close(host);
}

/* Who has ended has no share of the buffer any more, nor of what is held. */
static void end__gives_its_share_back(void **state)
{
	struct host *host = host_open(0);
	struct packet own = stranger_opens(host);

	(void)state;
	stranger_sends(host, &own, 1);
	stranger_sends(host, &own, 3);
	assert_int_equal(host->engine->senders, 1);
	assert_int_equal(host->engine->held, 1);
	own.type = PACKET_CLOSE;
	own.sequence = 2;
	stranger_says(host, UDP, &own, 0);
	assert_true(endpoint_peer(host->endpoint, 0)->base.gone);
	assert_int_equal(host->engine->senders, 0);
	assert_int_equal(host->engine->held, 0);
	host_close(host);
}

/* What was lost before a CLOSE is waited for in vain: then the peer has not closed in good order. */
static void end__with_a_gap(void **state)
{
	struct host *host = host_open(0);
	struct packet own = stranger_opens(host);

	(void)state;
	stranger_sends(host, &own, 1);
	stranger_sends(host, &own, 3);
	own.type = PACKET_CLOSE;
	own.sequence = 4;
	stranger_says(host, UDP, &own, 0);
	host_run(host, UINT64_C(2) * CLOSE_LOOKS * CLOSE_PROBE_NS);
	assert_true(endpoint_peer(host->endpoint, 0)->base.gone);
	assert_int_equal(endpoint_peer(host->endpoint, 0)->base.gone_status, THOLE_ERR_PEER);
	host_close(host);
}

/* That there is backpressure only an ACK says, also where a record of ours goes that acknowledges all. */
static void backpressure__is_told_beside_records(void **state)
{
	struct host *host = host_open(0);
	struct packet ack;

	(void)state;
	stranger_opens(host);
	host->endpoint->base.backpressure = true;
	engine_backpressure(host->engine);
	assert_int_equal(thole_send(host->endpoint, 0, "", 1, 0, 0, THOLE_INJECT | THOLE_QUIET, NULL, NULL), 0);
	endpoint_advance(host->endpoint, ++host->now_ns);
	host_said(host, UDP, &ack);
	assert_int_equal(ack.type, PACKET_ACK);
	assert_true(ack.flags & PACKET_BACKPRESSURE);
	host_close(host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ahead__is_held_up_to_a_bound),
		cmocka_unit_test(ahead__is_held_once),
		cmocka_unit_test(ahead__has_a_bound_over_all_peers),
		cmocka_unit_test(any_order__is_delivered_in_order),
		cmocka_unit_test(acknowledgement__says_what_is_held),
		cmocka_unit_test(duplicate__is_acknowledged_at_once),
		cmocka_unit_test(acknowledgement__waits_a_little),
		cmocka_unit_test(credit__is_shared),
		cmocka_unit_test(end__gives_its_share_back),
		cmocka_unit_test(end__with_a_gap),
		cmocka_unit_test(backpressure__is_told_beside_records),
	};

	setenv("THOLE_OPTIONS_FILE", "", 1);
	return cmocka_run_group_tests_name("arrival", tests, NULL, NULL);
}
