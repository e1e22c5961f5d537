/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_unexpected: the function of a program that is asked about messages which no receive wants: when it is called,
 * with what, and what becomes of the message.
 */
#include "mx_test.h"

#include <pthread.h>
#include <stdatomic.h>

#define DATA TEST_KIND(0x10)
#define REPLY TEST_KIND(0x11)
#define LAST (UINT64_C(1) << 40)

enum {
	MESSAGES = 120,
	THREADS = 3,
	LENGTH_SURE = 32,      /* up to here a message always comes in one piece */
	LENGTH_MAX = 3 << 20,
	LENGTH_LARGE = 1 << 20, /* from here on none does */
};

enum what { TAKE, LEAVE, RECEIVE, RECEIVE_AND_TAKE, ANSWER, CLOSE };

/* What the handler is to do, and what it has seen; the messages of a part are numbered, in the order of sending. */
static struct {
	struct test *test;
	enum what what;
	atomic_uint calls;
	atomic_int inside;
	uint64_t matches[MESSAGES + 1];
	mx_request_t request;
	uint8_t *buffer;
} handler;

static uint8_t *buffers[MESSAGES];

/* Of message i of a part: all lengths come up; in its match information are the part, the number, and whether it is
 * sent synchronously. */
static uint32_t length_of(unsigned i)
{
	static const uint32_t lengths[] = {0,     1,     32,           100, 129,        2000, 5000,
					   30000, 70000, LENGTH_LARGE, 8,   LENGTH_MAX, 16};

	return lengths[i % (sizeof(lengths) / sizeof(*lengths))];
}

static bool sync_of(unsigned i)
{
	return i % 4 == 3;
}

static uint64_t match_of(uint64_t part, unsigned i)
{
	return DATA | part << 32 | i;
}

/* ---- The handler ----------------------------------------------------------------------------- */

static void check_source(mx_endpoint_addr_t source)
{
	uint64_t nic_id, expected_nic_id;
	uint32_t endpoint_id, expected_endpoint_id;

	MX(mx_decompose_endpoint_addr(source, &nic_id, &endpoint_id));
	MX(mx_decompose_endpoint_addr(handler.test->peer, &expected_nic_id, &expected_endpoint_id));
	CHECK_EQUAL(nic_id, expected_nic_id);
	CHECK_EQUAL(endpoint_id, expected_endpoint_id);
}

static void check_data(uint64_t match, uint32_t length, const void *data)
{
	if (data && length)
		payload_check(data, length, match);
	if (length == 0 || (length <= LENGTH_SURE && !sync_of((uint32_t)match)))
		CHECK(data != NULL); /* of none, none is missing */
	if (length >= LENGTH_LARGE)
		CHECK(data == NULL);
}

static void start_receive(uint64_t match)
{
	CHECK(handler.request == NULL);
	handler.request = receive_start(handler.test, handler.buffer, LENGTH_MAX, match, MX_MATCH_MASK_NONE);
}

static mx_unexp_handler_action_t decide(mx_endpoint_addr_t source, uint64_t match)
{
	struct test *test = handler.test;

	switch (handler.what) {
	case TAKE:
		return MX_RECV_FINISHED;
	case LEAVE:
		return MX_RECV_CONTINUE;
	case RECEIVE:
		start_receive(match);
		return MX_RECV_CONTINUE;
	case RECEIVE_AND_TAKE:
		start_receive(match);
		return MX_RECV_FINISHED;
	case ANSWER:
		CHECK(handler.request == NULL);
		handler.request = send_to(test->endpoint, source, &handler.matches[0], sizeof(uint64_t), REPLY, false);
		return MX_RECV_FINISHED;
	case CLOSE:
		CHECK_RETURN(mx_close_endpoint(test->endpoint), MX_CLOSE_IN_HANDLER);
		return MX_RECV_FINISHED;
	}
	return MX_RECV_CONTINUE;
}

static mx_unexp_handler_action_t handle(void *context, mx_endpoint_addr_t source, uint64_t match, uint32_t length,
					void *data)
{
	mx_unexp_handler_action_t action;
	unsigned call;

	CHECK(context == &handler);
	if ((match & TEST_KIND_MASK) != DATA)
		return MX_RECV_CONTINUE; /* the test's own */
	CHECK(atomic_fetch_add(&handler.inside, 1) == 0);
	call = atomic_load(&handler.calls);
	CHECK(call < MESSAGES);
	check_source(source);
	CHECK_EQUAL(length, length_of((uint32_t)match));
	check_data(match, length, data);
	handler.matches[call] = match;
	action = decide(source, match);
	atomic_store(&handler.calls, call + 1); /* from here on others read what is above */
	atomic_fetch_sub(&handler.inside, 1);
	return action;
}

static void expect(struct test *test, enum what what)
{
	handler.what = what;
	handler.request = NULL;
	atomic_store(&handler.calls, 0);
	MX(mx_register_unexp_handler(test->endpoint, handle, &handler));
}

static void await_calls(struct test *test, unsigned calls)
{
	while (atomic_load(&handler.calls) < calls)
		MX(mx_progress(test->endpoint));
	CHECK_EQUAL(atomic_load(&handler.calls), calls);
}

/* ---- Sender ---------------------------------------------------------------------------------- */

static void send_part(struct test *test, uint64_t part, unsigned first, unsigned end)
{
	mx_request_t requests[MESSAGES];

	for (unsigned i = first; i < end; i++) {
		uint64_t match = match_of(part, i);

		payload_fill(buffers[i], length_of(i), match);
		requests[i] = send_start(test, buffers[i], length_of(i), match, sync_of(i));
	}
	for (unsigned i = first; i < end; i++)
		send_finish(test, &requests[i], length_of(i), match_of(part, i));
}

static void receive_one(struct test *test, uint64_t part, unsigned i)
{
	uint64_t match = match_of(part, i);
	mx_request_t request = receive_start(test, buffers[i], length_of(i), match, MX_MATCH_MASK_NONE);
	mx_status_t status;

	receive_finish(test, &request, length_of(i), match, &status);
	payload_check(buffers[i], status.msg_length, match);
}

/* ---- Parts, of both sides -------------------------------------------------------------------- */

static void *progress(void *arg)
{
	struct test *test = arg;

	await_calls(test, MESSAGES);
	return NULL;
}

static void taken(struct test *test, uint64_t part, unsigned threads)
{
	pthread_t others[THREADS];
	mx_status_t status;

	phase("messages that the handler takes, with %u threads", threads);
	if (!test->there)
		expect(test, TAKE);
	test_meet(test);
	if (test->there) {
		send_part(test, part, 0, MESSAGES);
	} else {
		for (unsigned i = 1; i < threads; i++)
			CHECK_EQUAL(pthread_create(&others[i], NULL, progress, test), 0);
		progress(test);
		for (unsigned i = 1; i < threads; i++)
			pthread_join(others[i], NULL);
		for (unsigned i = 0; i < MESSAGES; i++)
			CHECK_EQUAL(handler.matches[i], match_of(part, i));
		CHECK(!message_waits(test, DATA, TEST_KIND_MASK, &status));
	}
	test_meet(test);
}

/* They become what they would have been, and the handler is not asked again. */
static void left(struct test *test, uint64_t part)
{
	mx_status_t status;

	phase("messages that the handler leaves");
	if (!test->there)
		expect(test, LEAVE);
	test_meet(test);
	if (test->there) {
		send_part(test, part, 0, MESSAGES);
	} else {
		await_calls(test, MESSAGES);
		CHECK(message_waits(test, match_of(part, 7), MX_MATCH_MASK_NONE, &status));
		CHECK_EQUAL(status.msg_length, length_of(7));
		for (unsigned i = 0; i < MESSAGES; i++) {
			CHECK_EQUAL(handler.matches[i], match_of(part, i));
			CHECK(message_waits(test, DATA, TEST_KIND_MASK, &status));
			CHECK_EQUAL(status.match_info, match_of(part, i));
			receive_one(test, part, i);
		}
		CHECK_EQUAL(atomic_load(&handler.calls), MESSAGES);
	}
	test_meet(test);
}

/* The receive that the handler has started gets the message. */
static void received(struct test *test, uint64_t part)
{
	mx_status_t status;

	for (unsigned i = 0; i < 13; i++) {
		uint64_t match = match_of(part, i);

		phase("a message of %u bytes that the handler receives", length_of(i));
		if (!test->there)
			expect(test, RECEIVE);
		test_meet(test);
		if (test->there) {
			send_part(test, part, i, i + 1);
			continue;
		}
		await_calls(test, 1);
		CHECK_EQUAL(handler.matches[0], match);
		receive_finish(test, &handler.request, length_of(i), match, &status);
		payload_check(handler.buffer, length_of(i), match);
		check_source(status.source);
		CHECK_EQUAL(atomic_load(&handler.calls), 1);
	}
	test_meet(test);
}

/* The message is gone: the receive that the handler has started gets the next. */
static void received_and_taken(struct test *test, uint64_t part)
{
	uint64_t match = match_of(part, 4);
	mx_status_t status;

	phase("a message that the handler takes though it receives");
	if (!test->there)
		expect(test, RECEIVE_AND_TAKE);
	test_meet(test);
	if (test->there) {
		send_part(test, part, 4, 5);
	} else {
		await_calls(test, 1);
		guard_fill(handler.buffer, length_of(4)); /* before the other side may send again */
	}
	test_meet(test);
	if (test->there) {
		send_part(test, part, 4, 5);
	} else {
		receive_finish(test, &handler.request, length_of(4), match, &status);
		payload_check(handler.buffer, length_of(4), match);
		CHECK_EQUAL(atomic_load(&handler.calls), 1);
	}
	test_meet(test);
}

static void answered(struct test *test, uint64_t part)
{
	uint64_t answer = 0;
	mx_request_t request;
	mx_status_t status;

	phase("a message that the handler answers");
	if (test->there) {
		test_meet(test);
		request = receive_start(test, &answer, sizeof(answer), REPLY, MX_MATCH_MASK_NONE);
		send_part(test, part, 5, 6);
		receive_finish(test, &request, sizeof(answer), REPLY, &status);
		CHECK_EQUAL(answer, match_of(part, 5));
	} else {
		expect(test, ANSWER);
		test_meet(test);
		await_calls(test, 1);
		send_finish(test, &handler.request, sizeof(answer), REPLY);
	}
	test_meet(test);
}

/* Receives that were there first are not asked about. */
static void expected(struct test *test, uint64_t part)
{
	mx_request_t requests[13];
	mx_status_t status;

	phase("messages that are expected");
	if (!test->there)
		expect(test, TAKE);
	for (unsigned i = 0; !test->there && i < 13; i++)
		requests[i] = receive_start(test, buffers[i], length_of(i), match_of(part, i), MX_MATCH_MASK_NONE);
	test_meet(test);
	if (test->there)
		send_part(test, part, 0, 13);
	for (unsigned i = 0; !test->there && i < 13; i++) {
		receive_finish(test, &requests[i], length_of(i), match_of(part, i), &status);
		payload_check(buffers[i], length_of(i), match_of(part, i));
	}
	CHECK_EQUAL(atomic_load(&handler.calls), 0);
	test_meet(test);
}

/* Without a handler, all is as ever. */
static void removed(struct test *test, uint64_t part)
{
	mx_status_t status;

	phase("messages without a handler");
	if (!test->there) {
		expect(test, TAKE);
		MX(mx_register_unexp_handler(test->endpoint, NULL, NULL));
	}
	test_meet(test);
	if (test->there) {
		send_part(test, part, 0, 13);
	} else {
		while (!message_waits(test, match_of(part, 12), MX_MATCH_MASK_NONE, &status))
			continue;
		for (unsigned i = 0; i < 13; i++)
			receive_one(test, part, i);
		CHECK_EQUAL(atomic_load(&handler.calls), 0);
	}
	test_meet(test);
}

static void not_closed(struct test *test, uint64_t part)
{
	phase("closing in the handler");
	if (!test->there)
		expect(test, CLOSE);
	test_meet(test);
	if (test->there)
		send_part(test, part, 1, 2);
	else
		await_calls(test, 1);
	test_meet(test);
}

/* ---- To ourselves ---------------------------------------------------------------------------- */

static mx_unexp_handler_action_t handle_self(void *context, mx_endpoint_addr_t source, uint64_t match, uint32_t length,
					     void *data)
{
	mx_endpoint_addr_t own;
	uint64_t nic_id, own_nic_id;
	uint32_t endpoint_id, own_endpoint_id;

	(void)context;
	if ((match & TEST_KIND_MASK) != TEST_SELF)
		return MX_RECV_CONTINUE; /* the other side is ahead of us */
	MX(mx_get_endpoint_addr(handler.test->endpoint, &own));
	MX(mx_decompose_endpoint_addr(own, &own_nic_id, &own_endpoint_id));
	MX(mx_decompose_endpoint_addr(source, &nic_id, &endpoint_id));
	CHECK_EQUAL(nic_id, own_nic_id);
	CHECK_EQUAL(endpoint_id, own_endpoint_id);
	CHECK_EQUAL(length, length_of((uint32_t)match));
	if (data && length)
		payload_check(data, length, match);
	handler.matches[0] = match;
	atomic_fetch_add(&handler.calls, 1);
	return handler.what == TAKE ? MX_RECV_FINISHED : MX_RECV_CONTINUE;
}

static void own(struct test *test)
{
	mx_endpoint_addr_t address;
	mx_request_t send, receive;
	mx_status_t status;

	MX(mx_get_endpoint_addr(test->endpoint, &address));
	MX(mx_register_unexp_handler(test->endpoint, handle_self, NULL));
	for (unsigned i = 0; i < 26; i++) {
		uint64_t match = TEST_SELF | i;

		phase("a message to ourselves of %u bytes", length_of(i));
		handler.what = i < 13 ? TAKE : LEAVE;
		atomic_store(&handler.calls, 0);
		payload_fill(buffers[0], length_of(i), match);
		send = send_to(test->endpoint, address, buffers[0], length_of(i), match, sync_of(i));
		await_calls(test, 1);
		CHECK_EQUAL(handler.matches[0], match);
		if (handler.what == TAKE) {
			CHECK(!message_waits(test, match, MX_MATCH_MASK_NONE, &status));
		} else {
			receive = receive_start(test, buffers[1], LENGTH_MAX, match, MX_MATCH_MASK_NONE);
			receive_finish(test, &receive, length_of(i), match, &status);
			payload_check(buffers[1], length_of(i), match);
		}
		send_finish(test, &send, length_of(i), match);
		CHECK_EQUAL(atomic_load(&handler.calls), 1);
	}
	MX(mx_register_unexp_handler(test->endpoint, NULL, NULL));
}

/* ---- The older function, which only hears of messages ---------------------------------------- */

static void notice(void *context, uint64_t match, int length)
{
	CHECK(context == &handler);
	if ((match & TEST_KIND_MASK) != DATA)
		return;
	CHECK_EQUAL(length, length_of((uint32_t)match));
	CHECK_EQUAL(match, handler.matches[MESSAGES] + atomic_load(&handler.calls));
	if ((uint32_t)match == 6)
		start_receive(match);
	atomic_fetch_add(&handler.calls, 1);
}

static void noticed(struct test *test, uint64_t part)
{
	mx_status_t status;

	phase("messages that the callback hears of");
	if (!test->there) {
		handler.request = NULL;
		handler.matches[MESSAGES] = match_of(part, 0);
		atomic_store(&handler.calls, 0);
		MX(mx_register_unexp_callback(test->endpoint, notice, &handler));
	}
	test_meet(test);
	if (test->there) {
		send_part(test, part, 0, 13);
	} else {
		await_calls(test, 13);
		receive_finish(test, &handler.request, length_of(6), match_of(part, 6), &status);
		payload_check(handler.buffer, length_of(6), match_of(part, 6));
		for (unsigned i = 0; i < 13; i++)
			if (i != 6)
				receive_one(test, part, i);
		CHECK_EQUAL(atomic_load(&handler.calls), 13);
		MX(mx_register_unexp_callback(test->endpoint, NULL, NULL));
	}
	test_meet(test);
}

int main(int argc, char **argv)
{
	struct test test = {0};

	test_options(&test, "mx_unexpected", argc, argv);
	handler.test = &test;
	handler.buffer = test_allocate(LENGTH_MAX);
	for (unsigned i = 0; i < MESSAGES; i++)
		buffers[i] = test_allocate(i < 2 ? LENGTH_MAX : length_of(i));
	test_pair(&test);
	taken(&test, 1, 1);
	taken(&test, 2, THREADS);
	left(&test, 3);
	received(&test, 4);
	received_and_taken(&test, 5);
	answered(&test, 6);
	expected(&test, 7);
	removed(&test, 8);
	not_closed(&test, 9);
	own(&test);
	noticed(&test, 10);
	for (unsigned i = 0; i < MESSAGES; i++)
		free(buffers[i]);
	free(handler.buffer);
	return test_pair_end(&test);
}
