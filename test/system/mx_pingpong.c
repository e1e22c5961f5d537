/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_pingpong: a message of each length goes there and back, as plain send and as synchronous one, to receives that
 * were there before and to ones that come too late, waited for and polled for.
 *
 *   -n rounds of each length (8; a long one has 4), -L the longest length (16 MiB), -M compare the data
 */
#include "mx_test.h"

#define PING TEST_KIND(0x10)
#define PONG TEST_KIND(0x11)

enum {
	ROUNDS = 8,
	ROUNDS_LONG = 4, /* each kind of send to each kind of receive */
	LENGTH_LONG = 1 << 17,
	LENGTH_MAX = 16 << 20,
};

static uint8_t *buffer_out, *buffer_in;

/* What a round is like; both sides know it. */
static bool round_early(unsigned round)
{
	return round & 1;
}

static bool round_sync(unsigned round)
{
	return round & 2;
}

static bool round_polls(unsigned round)
{
	return round & 4;
}

static uint64_t match_of(uint64_t kind, uint32_t length, unsigned round)
{
	return kind | (uint64_t)length << 16 | round;
}

static void finish(struct test *test, mx_request_t *request, bool polls, mx_status_t *status_p)
{
	uint32_t result = 0;

	if (!polls) {
		request_wait(test->endpoint, request, status_p);
		return;
	}
	while (!result)
		MX(mx_test(test->endpoint, request, status_p, &result));
	CHECK_EQUAL(result, 1);
}

static mx_request_t start_send(struct test *test, uint32_t length, uint64_t match, unsigned round)
{
	if (test->verify)
		payload_fill(buffer_out, length, match);
	return send_start(test, buffer_out, length, match, round_sync(round));
}

static void finish_send(struct test *test, mx_request_t *request, uint32_t length, uint64_t match, unsigned round)
{
	mx_status_t status;

	finish(test, request, round_polls(round), &status);
	send_check(&status, length, match);
}

static mx_request_t start_receive(struct test *test, uint32_t length, uint64_t match)
{
	if (test->verify)
		guard_fill(buffer_in, (size_t)length + TEST_GUARD);
	return receive_start(test, buffer_in, length, match, MX_MATCH_MASK_NONE);
}

static void finish_receive(struct test *test, mx_request_t *request, uint32_t length, uint64_t match, unsigned round)
{
	mx_status_t status;

	finish(test, request, round_polls(round), &status);
	receive_check(&status, length, match);
	if (test->verify) {
		payload_check(buffer_in, length, match);
		guard_check(buffer_in + length, TEST_GUARD);
	}
}

static void serve(struct test *test, uint32_t length, unsigned rounds)
{
	mx_request_t send, receive = NULL;

	for (unsigned round = 0; round < rounds; round++) {
		uint64_t ping = match_of(PING, length, round), pong = match_of(PONG, length, round);

		if (!receive)
			receive = start_receive(test, length, ping);
		finish_receive(test, &receive, length, ping, round);
		/* The next ping answers this pong: a receive that is posted now is there before it. */
		receive = NULL;
		if (round + 1 < rounds && round_early(round + 1))
			receive = start_receive(test, length, match_of(PING, length, round + 1));
		send = start_send(test, length, pong, round);
		finish_send(test, &send, length, pong, round);
	}
}

static void play(struct test *test, uint32_t length, unsigned rounds)
{
	mx_request_t send, receive = NULL;

	for (unsigned round = 0; round < rounds; round++) {
		uint64_t ping = match_of(PING, length, round), pong = match_of(PONG, length, round);

		if (round_early(round))
			receive = start_receive(test, length, pong);
		send = start_send(test, length, ping, round);
		finish_send(test, &send, length, ping, round);
		if (!round_early(round))
			receive = start_receive(test, length, pong);
		finish_receive(test, &receive, length, pong, round);
	}
}

static void try_length(struct test *test, uint32_t length)
{
	unsigned rounds = length >= LENGTH_LONG && test->count > ROUNDS_LONG ? ROUNDS_LONG : test->count;

	if (length > test->length_max)
		return;
	phase("messages of %u bytes", length);
	if (test->there)
		play(test, length, rounds);
	else
		serve(test, length, rounds);
}

int main(int argc, char **argv)
{
	struct test test = {.count = ROUNDS, .length_max = LENGTH_MAX};

	test_options(&test, "mx_pingpong", argc, argv);
	CHECK(test.length_max <= LENGTH_MAX);
	buffer_out = test_allocate(LENGTH_MAX + 1);
	buffer_in = test_allocate((size_t)LENGTH_MAX + TEST_GUARD + 1);
	test_pair(&test);
	try_length(&test, 0);
	try_length(&test, 1);
	for (uint32_t length = 2; length <= LENGTH_MAX; length *= 2) {
		if (length > 2)
			try_length(&test, length - 1);
		try_length(&test, length);
		if (length < LENGTH_LONG)
			try_length(&test, length + 1);
	}
	free(buffer_out);
	free(buffer_in);
	return test_pair_end(&test);
}
