/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_stream: many messages one way, of changing lengths and kinds, in the order in which they were sent.
 *
 *   -n messages of each part (600), -L bound of their lengths, -M compare the data
 */
#include "mx_test.h"

#define STREAM TEST_KIND(0x10)
#define STREAM_MASK TEST_KIND_MASK
#define OTHER TEST_KIND(0x11)

enum {
	MESSAGES = 600,
	WINDOW = 32,   /* messages under way */
	FLOOD = 4000,  /* messages of a few bytes before the first receive */
	LENGTH_MAX = 700000,
};

struct slot {
	mx_request_t request;
	uint8_t *buffer;
	uint64_t seed;
	uint32_t length;
};

static struct slot *slots;

/* Most are short; all the ways of sending come up. */
static uint32_t length_of(const struct test *test, uint64_t seed)
{
	static const uint32_t bounds[] = {1, 33, 129, 1500, 4097, 32769, 80000, LENGTH_MAX};
	uint64_t state = seed, bound = bounds[random_next(&state) % 8];

	if (bound > test->length_max)
		bound = test->length_max;
	return (uint32_t)(random_next(&state) % (bound + 1));
}

static void slot_send(struct test *test, struct slot *slot, uint64_t match, uint64_t seed)
{
	slot->seed = seed;
	slot->length = length_of(test, seed);
	if (test->verify)
		payload_fill(slot->buffer, slot->length, seed);
	slot->request = send_start(test, slot->buffer, slot->length, match, seed % 7 == 3);
}

static void slot_sent(struct test *test, struct slot *slot, uint64_t match)
{
	send_finish(test, &slot->request, slot->length, match);
}

static void slot_receive(struct test *test, struct slot *slot, uint64_t match, uint64_t mask)
{
	slot->request = receive_start(test, slot->buffer, LENGTH_MAX, match, mask);
}

/* What it has is the message of this seed: its length says so, and its data. */
static void slot_received(struct test *test, struct slot *slot, uint64_t match, uint64_t seed)
{
	mx_status_t status;

	receive_finish(test, &slot->request, length_of(test, seed), match, &status);
	if (test->verify)
		payload_check(slot->buffer, status.msg_length, seed);
}

/* In windows: all receives are there before (late: only after) the messages. */
static void windows(struct test *test, bool late, uint64_t seeds)
{
	phase("windows to receives that are %s", late ? "late" : "early");
	for (uint32_t first = 0; first < test->count; first += WINDOW) {
		if (!test->there && late)
			test_meet(test);
		for (unsigned i = 0; i < WINDOW; i++) {
			if (test->there)
				continue;
			slot_receive(test, &slots[i], STREAM, MX_MATCH_MASK_NONE);
		}
		if (!late)
			test_meet(test);
		for (unsigned i = 0; test->there && i < WINDOW; i++)
			slot_send(test, &slots[i], STREAM, seeds + first + i);
		if (test->there && late)
			test_meet(test);
		for (unsigned i = 0; i < WINDOW; i++) {
			if (test->there)
				slot_sent(test, &slots[i], STREAM);
			else
				slot_received(test, &slots[i], STREAM, seeds + first + i);
		}
	}
	test_meet(test);
}

/* Both at their own pace, each message with information of its own, to receives that do not look at it. */
static void sliding(struct test *test, uint64_t seeds)
{
	phase("a sliding window");
	for (uint32_t i = 0; i < test->count + WINDOW; i++) {
		struct slot *slot = &slots[i % WINDOW];

		if (i >= WINDOW) {
			uint64_t former = i - WINDOW;

			if (test->there)
				slot_sent(test, slot, STREAM | former << 8);
			else
				slot_received(test, slot, STREAM | former << 8, seeds + former);
		}
		if (i < test->count) {
			if (test->there)
				slot_send(test, slot, STREAM | (uint64_t)i << 8, seeds + i);
			else
				slot_receive(test, slot, STREAM, STREAM_MASK);
		}
	}
	test_meet(test);
}

/* Two streams that are sent by turns, and received one after the other, the second first. */
static void interleaved(struct test *test, uint64_t seeds)
{
	phase("two streams by turns");
	for (unsigned i = 0; test->there && i < WINDOW; i++)
		slot_send(test, &slots[i], i % 2 ? OTHER : STREAM, seeds + i);
	test_meet(test);
	for (unsigned i = 0; test->there && i < WINDOW; i++)
		slot_sent(test, &slots[i], i % 2 ? OTHER : STREAM);
	for (unsigned stream = 2; !test->there && stream-- > 0;) {
		uint64_t match = stream ? OTHER : STREAM;

		for (unsigned i = stream; i < WINDOW; i += 2)
			slot_receive(test, &slots[i], match, MX_MATCH_MASK_NONE);
		for (unsigned i = stream; i < WINDOW; i += 2)
			slot_received(test, &slots[i], match, seeds + i);
	}
	test_meet(test);
}

/* More than any window holds, none of them waited for before all are sent. */
static void flood(struct test *test)
{
	mx_request_t *requests = test_allocate(FLOOD * sizeof(*requests));
	uint64_t *numbers = test_allocate(FLOOD * sizeof(*numbers));
	mx_status_t status;

	phase("a flood");
	for (uint64_t i = 0; test->there && i < FLOOD; i++) {
		numbers[i] = i;
		requests[i] = send_start(test, &numbers[i], sizeof(numbers[i]), OTHER, false);
	}
	test_meet(test);
	for (uint64_t i = 0; i < FLOOD; i++) {
		if (test->there) {
			send_finish(test, &requests[i], sizeof(numbers[i]), OTHER);
			continue;
		}
		requests[0] = receive_start(test, &numbers[i], sizeof(numbers[i]), OTHER, MX_MATCH_MASK_NONE);
		receive_finish(test, &requests[0], sizeof(numbers[i]), OTHER, &status);
		CHECK_EQUAL(numbers[i], i);
	}
	test_meet(test);
	free(requests);
	free(numbers);
}

int main(int argc, char **argv)
{
	struct test test = {.count = MESSAGES, .length_max = LENGTH_MAX};
	uint64_t part = UINT64_C(1) << 32;

	test_options(&test, "mx_stream", argc, argv);
	CHECK(test.length_max <= LENGTH_MAX);
	slots = test_allocate(WINDOW * sizeof(*slots));
	for (unsigned i = 0; i < WINDOW; i++)
		slots[i].buffer = test_allocate(LENGTH_MAX);
	test_pair(&test);
	windows(&test, false, part);
	windows(&test, true, 2 * part);
	sliding(&test, 3 * part);
	interleaved(&test, 4 * part);
	flood(&test);
	for (unsigned i = 0; i < WINDOW; i++)
		free(slots[i].buffer);
	free(slots);
	return test_pair_end(&test);
}
