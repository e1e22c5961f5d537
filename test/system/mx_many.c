/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_many: several processes send to one, which tells them apart by their messages' sources, and answers them there.
 *
 *   -p how many send (4), -i which of them we are (0), -n messages of each (100)
 */
#include "mx_test.h"

#define MANY TEST_KIND(0x10)
#define ANSWER TEST_KIND(0x11)

enum {
	PROCESSES = 4,
	PROCESSES_MAX = 64,
	MESSAGES = 100,
	WINDOW = 16,
	LENGTH_MAX = 300000,
};

struct sender {
	mx_endpoint_addr_t address;
	uint64_t nic_id;
	uint32_t endpoint_id, session;
	uint32_t received;
};

static uint64_t match_of(uint32_t index, uint32_t number)
{
	return MANY | (uint64_t)index << 32 | number;
}

static uint32_t length_of(uint64_t match)
{
	static const uint32_t bounds[] = {40, 200, 6000, 50000, LENGTH_MAX};
	uint64_t state = match;
	uint32_t bound = bounds[random_next(&state) % 5];

	return (uint32_t)(random_next(&state) % bound);
}

/* ---- Sender ---------------------------------------------------------------------------------- */

static void send_all(struct test *test)
{
	mx_request_t requests[WINDOW], answer;
	uint8_t *buffers[WINDOW];
	mx_status_t status;
	uint32_t total = 0;

	for (unsigned i = 0; i < WINDOW; i++)
		buffers[i] = test_allocate(LENGTH_MAX);
	answer = receive_start(test, &total, sizeof(total), ANSWER, TEST_KIND_MASK);
	for (uint32_t i = 0; i < test->count + WINDOW; i++) {
		uint64_t match = match_of(test->index, i), former = match_of(test->index, i - WINDOW);

		phase("sending message %u", i);
		if (i >= WINDOW)
			send_finish(test, &requests[i % WINDOW], length_of(former), former);
		if (i >= test->count)
			continue;
		payload_fill(buffers[i % WINDOW], length_of(match), match);
		requests[i % WINDOW] = send_start(test, buffers[i % WINDOW], length_of(match), match, i % 5 == 2);
	}
	phase("waiting for the answer");
	receive_finish(test, &answer, sizeof(total), ANSWER | test->index, &status);
	CHECK_EQUAL(total, test->count);
	for (unsigned i = 0; i < WINDOW; i++)
		free(buffers[i]);
}

/* ---- Receiver -------------------------------------------------------------------------------- */

static void sender_identify(struct sender *sender, mx_endpoint_addr_t source)
{
	struct sender now;

	MX(mx_decompose_endpoint_addr2(source, &now.nic_id, &now.endpoint_id, &now.session));
	if (!sender->received) {
		sender->address = source;
		sender->nic_id = now.nic_id;
		sender->endpoint_id = now.endpoint_id;
		sender->session = now.session;
	}
	CHECK_EQUAL(now.nic_id, sender->nic_id);
	CHECK_EQUAL(now.endpoint_id, sender->endpoint_id);
	CHECK_EQUAL(now.session, sender->session);
}

static void take_one(struct test *test, struct sender *senders, mx_request_t *request, const uint8_t *buffer)
{
	mx_status_t status;
	uint32_t index, number;

	request_wait(test->endpoint, request, &status);
	index = (uint32_t)(status.match_info >> 32) & 0xffff;
	number = (uint32_t)status.match_info;
	CHECK(index < test->processes);
	phase("message %u of sender %u", number, index);
	CHECK_EQUAL(number, senders[index].received);
	receive_check(&status, length_of(status.match_info), match_of(index, number));
	payload_check(buffer, status.msg_length, status.match_info);
	sender_identify(&senders[index], status.source);
	senders[index].received++;
}

static void check_different(const struct test *test, const struct sender *senders)
{
	phase("telling senders apart");
	for (uint32_t i = 0; i < test->processes; i++) {
		CHECK_EQUAL(senders[i].received, test->count);
		for (uint32_t j = 0; j < i; j++)
			CHECK(senders[i].nic_id != senders[j].nic_id ||
			      senders[i].endpoint_id != senders[j].endpoint_id);
	}
}

static void receive_all(struct test *test)
{
	struct sender *senders = test_allocate(PROCESSES_MAX * sizeof(*senders));
	uint32_t total = test->processes * test->count;
	mx_request_t requests[WINDOW];
	uint8_t *buffers[WINDOW];

	memset(senders, 0, PROCESSES_MAX * sizeof(*senders));
	for (unsigned i = 0; i < WINDOW; i++)
		buffers[i] = test_allocate(LENGTH_MAX);
	phase("waiting for senders");
	for (uint32_t i = 0; i < total + WINDOW; i++) {
		if (i >= WINDOW && i - WINDOW < total)
			take_one(test, senders, &requests[i % WINDOW], buffers[i % WINDOW]);
		if (i < total)
			requests[i % WINDOW] =
				receive_start(test, buffers[i % WINDOW], LENGTH_MAX, MANY, TEST_KIND_MASK);
	}
	check_different(test, senders);
	phase("answering");
	for (uint32_t i = 0; i < test->processes; i++) {
		test->peer = senders[i].address;
		requests[0] = send_start(test, &test->count, sizeof(test->count), ANSWER | i, true);
		send_finish(test, &requests[0], sizeof(test->count), ANSWER | i);
	}
	for (unsigned i = 0; i < WINDOW; i++)
		free(buffers[i]);
	free(senders);
}

int main(int argc, char **argv)
{
	struct test test = {.count = MESSAGES, .processes = PROCESSES};

	test_options(&test, "mx_many", argc, argv);
	CHECK(test.processes <= PROCESSES_MAX && test.index < test.processes && test.count > 0);
	test_open(&test, NULL, 0);
	if (test.there) {
		test_connect(&test);
		send_all(&test);
	} else {
		test_ready(&test);
		receive_all(&test);
	}
	return test_end(&test);
}
