/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_truncate: messages that are longer than the buffer: of each length, to buffers that hold all but one byte, half,
 * one byte or nothing, that were there before or came later, from another process and from ourselves.
 */
#include "mx_test.h"

#define DATA TEST_KIND(0x10)
#define NEXT TEST_KIND(0x11)

static uint8_t *buffer_out, *buffer_in;

/* The front is there, and nothing behind it. */
static void check_truncated(const mx_status_t *status, uint32_t room, uint32_t length, uint64_t match)
{
	CHECK_CODE(status, MX_STATUS_TRUNCATED);
	CHECK_EQUAL(status->match_info, match);
	CHECK_EQUAL(status->msg_length, length);
	CHECK_EQUAL(status->xfer_length, room);
	payload_check(buffer_in, room, match);
	guard_check(buffer_in + room, (size_t)length - room + TEST_GUARD);
}

static mx_request_t post(struct test *test, uint32_t room, uint32_t length, uint64_t match)
{
	guard_fill(buffer_in, (size_t)length + TEST_GUARD);
	return receive_start(test, buffer_in, room, match, MX_MATCH_MASK_NONE);
}

/* What comes behind a truncated message is whole. */
static void receive_next(struct test *test, uint32_t length)
{
	uint64_t match = NEXT | length;
	mx_request_t request = receive_start(test, buffer_in, length, match, MX_MATCH_MASK_NONE);
	mx_status_t status;

	receive_finish(test, &request, length, match, &status);
	payload_check(buffer_in, length, match);
}

static void try_pair(struct test *test, uint32_t room, uint32_t length, bool sync, bool early)
{
	uint64_t match = DATA | (uint64_t)length << 2 | (uint64_t)sync << 1 | early;
	mx_request_t request, next;
	mx_status_t status;

	phase("%u of %u bytes to a receive that is %s, %s", room, length, early ? "early" : "late",
	      sync ? "issend" : "isend");
	if (test->there) {
		if (early)
			test_meet(test);
		payload_fill(buffer_out, length, match);
		request = send_start(test, buffer_out, length, match, sync);
		if (!early)
			test_meet(test);
		send_finish_cut(test, &request, length, room, sync, match);
		payload_fill(buffer_out, length, NEXT | length);
		next = send_start(test, buffer_out, length, NEXT | length, false);
		send_finish(test, &next, length, NEXT | length);
		return;
	}
	if (early)
		request = post(test, room, length, match);
	test_meet(test);
	if (!early)
		request = post(test, room, length, match);
	request_wait(test->endpoint, &request, &status);
	check_truncated(&status, room, length, match);
	receive_next(test, length);
}

static void try_self(struct test *test, uint32_t room, uint32_t length, bool early)
{
	uint64_t match = TEST_SELF | (uint64_t)length << 1 | early;
	mx_endpoint_addr_t own;
	mx_request_t send, receive;
	mx_status_t status;

	phase("%u of %u bytes to ourselves", room, length);
	MX(mx_get_endpoint_addr(test->endpoint, &own));
	payload_fill(buffer_out, length, match);
	if (early)
		receive = post(test, room, length, match);
	send = send_to(test->endpoint, own, buffer_out, length, match, false);
	if (!early)
		receive = post(test, room, length, match);
	request_wait(test->endpoint, &receive, &status);
	check_truncated(&status, room, length, match);
	request_wait(test->endpoint, &send, &status);
	send_check(&status, length, match);
}

int main(int argc, char **argv)
{
	struct test test = {0};

	test_options(&test, "mx_truncate", argc, argv);
	buffer_out = test_allocate(TEST_LENGTH_MAX);
	buffer_in = test_allocate((size_t)TEST_LENGTH_MAX + TEST_GUARD);
	test_pair(&test);
	for (unsigned i = 1; i < TEST_LENGTHS; i++) {
		uint32_t length = test_lengths[i], rooms[] = {length - 1, length / 2, 1, 0};

		for (unsigned j = 0; j < 4; j++) {
			if (rooms[j] >= length)
				continue;
			for (unsigned how = 0; how < 4; how++)
				try_pair(&test, rooms[j], length, how & 1, how & 2);
			try_self(&test, rooms[j], length, false);
			try_self(&test, rooms[j], length, true);
		}
	}
	free(buffer_out);
	free(buffer_in);
	return test_pair_end(&test);
}
