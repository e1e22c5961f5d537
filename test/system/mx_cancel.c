/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_cancel: a receive that is taken back before a message came, and one that is not; what cannot be taken back.
 */
#include "mx_test.h"

#define DATA TEST_KIND(0x10)

enum { ORDERED = 5, NIC_NOBODY = 0x42 };

static uint8_t *buffer;

static uint32_t cancel(struct test *test, mx_request_t *request)
{
	uint32_t result = 2;

	MX(mx_cancel(test->endpoint, request, &result));
	CHECK(result <= 1);
	if (result)
		CHECK(*request == NULL);
	else
		CHECK(*request != NULL);
	return result;
}

/* Receiver: a receive that a message was sent for later gets nothing, and is not heard of again. */
static void before(struct test *test, uint32_t length)
{
	uint64_t match = DATA | length;
	mx_request_t request;
	mx_status_t status;

	phase("canceling before a message of %u bytes", length);
	if (test->there) {
		test_meet(test);
		payload_fill(buffer, length, match);
		request = send_start(test, buffer, length, match, false);
		test_meet(test);
		send_finish(test, &request, length, match);
		return;
	}
	guard_fill(buffer, (size_t)length + TEST_GUARD);
	request = receive_start(test, buffer, length, match, MX_MATCH_MASK_NONE);
	CHECK_EQUAL(cancel(test, &request), 1);
	test_meet(test);
	test_meet(test);
	none_complete(test, match, MX_MATCH_MASK_NONE);
	guard_check(buffer, (size_t)length + TEST_GUARD);
	CHECK(message_waits(test, match, MX_MATCH_MASK_NONE, &status));
	CHECK_EQUAL(status.msg_length, length);
	request = receive_start(test, buffer, length, match, MX_MATCH_MASK_NONE);
	receive_finish(test, &request, length, match, &status);
	payload_check(buffer, length, match);
	guard_check(buffer + length, TEST_GUARD);
}

/* Receiver: a receive that a message has matched stays, and completes. */
static void after(struct test *test, uint32_t length)
{
	uint64_t match = DATA | 1 << 24 | length;
	mx_request_t request;
	mx_status_t status;

	phase("canceling after a message of %u bytes", length);
	if (test->there) {
		payload_fill(buffer, length, match);
		test_meet(test);
		request = send_start(test, buffer, length, match, false);
		test_meet(test);
		send_finish(test, &request, length, match);
		return;
	}
	guard_fill(buffer, (size_t)length + TEST_GUARD);
	request = receive_start(test, buffer, length, match, MX_MATCH_MASK_NONE);
	test_meet(test);
	test_meet(test);
	CHECK_EQUAL(cancel(test, &request), 0);
	receive_finish(test, &request, length, match, &status);
	payload_check(buffer, length, match);
	guard_check(buffer + length, TEST_GUARD);
}

/* Receiver: of several equal receives every second is taken back; the others keep their order. */
static void in_between(struct test *test)
{
	mx_request_t requests[2 * ORDERED];
	uint64_t numbers[2 * ORDERED], match = DATA | 2 << 24;
	mx_status_t status;

	phase("canceling every second");
	for (unsigned i = 0; !test->there && i < 2 * ORDERED; i++) {
		numbers[i] = UINT64_MAX;
		requests[i] = receive_start(test, &numbers[i], sizeof(numbers[i]), match, MX_MATCH_MASK_NONE);
	}
	for (unsigned i = 1; !test->there && i < 2 * ORDERED; i += 2)
		CHECK_EQUAL(cancel(test, &requests[i]), 1);
	test_meet(test);
	for (unsigned i = 0; i < 2 * ORDERED; i += 2) {
		if (!test->there) {
			receive_finish(test, &requests[i], sizeof(*numbers), match, &status);
			CHECK_EQUAL(numbers[i], i);
			CHECK_EQUAL(numbers[i + 1], UINT64_MAX);
			continue;
		}
		numbers[i] = i;
		requests[i] = send_start(test, &numbers[i], sizeof(numbers[i]), match, false);
		send_finish(test, &requests[i], sizeof(numbers[i]), match);
	}
	test_meet(test);
}

/* A send goes on as if nothing had been said. */
static void of_a_send(struct test *test, uint32_t length)
{
	uint64_t match = DATA | 3 << 24 | length;
	mx_request_t request, same;
	mx_status_t status;
	uint32_t result = 2;

	phase("canceling a send of %u bytes", length);
	if (test->there) {
		payload_fill(buffer, length, match);
		request = same = send_start(test, buffer, length, match, true);
		CHECK_RETURN(mx_cancel(test->endpoint, &request, &result), MX_CANCEL_NOT_SUPPORTED);
		CHECK(request == same);
		test_meet(test);
		CHECK_RETURN(mx_cancel(test->endpoint, &request, &result), MX_CANCEL_NOT_SUPPORTED);
		CHECK(request == same);
		send_finish(test, &request, length, match);
		return;
	}
	test_meet(test);
	request = receive_start(test, buffer, length, match, MX_MATCH_MASK_NONE);
	receive_finish(test, &request, length, match, &status);
	payload_check(buffer, length, match);
}

/* Nobody has this NIC id, so that it is looked for until we give up. It may be known at once that it is not there. */
static void of_a_connect(struct test *test)
{
	uint64_t match = DATA | 4 << 24;
	mx_request_t request;
	mx_status_t status;
	mx_return_t error;

	phase("canceling a connect");
	error = mx_iconnect(test->endpoint, NIC_NOBODY, 0, TEST_KEY, match, NULL, &request);
	if (error != MX_SUCCESS) {
		CHECK_RETURN(error, MX_NIC_NOT_FOUND);
		return;
	}
	if (cancel(test, &request)) {
		none_complete(test, match, MX_MATCH_MASK_NONE);
		return;
	}
	request_wait(test->endpoint, &request, &status);
	CHECK(status.code != MX_STATUS_SUCCESS);
}

int main(int argc, char **argv)
{
	struct test test = {0};

	test_options(&test, "mx_cancel", argc, argv);
	buffer = test_allocate((size_t)TEST_LENGTH_MAX + TEST_GUARD);
	test_pair(&test);
	for (unsigned i = 0; i < TEST_LENGTHS; i++) {
		before(&test, test_lengths[i]);
		after(&test, test_lengths[i]);
		of_a_send(&test, test_lengths[i]);
	}
	in_between(&test);
	of_a_connect(&test);
	free(buffer);
	return test_pair_end(&test);
}
