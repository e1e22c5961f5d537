/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a process lives: who asks with its endpoint's token, and a number, is answered, and nobody else. Datagrams
 * over the loopback come in order, so that the next answer shows that what was asked before has none. And who asks does
 * so for long enough.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/endian.h"
#include "transport/datagram/liveness.h"
#include "transport/datagram/responder.h"

enum { KEY = 1, ENDPOINT = 2 };

/* At any port that is free; where its records are. */
static struct path responder_any(struct responder *responder)
{
	struct path own = {{[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};

	for (uint16_t port = 20001; port < 60000; port += 2) {
		store_be16(own.bytes + INTERFACE_ADDRESS, port);
		if (responder_open(responder, 0, &own, KEY, ENDPOINT) == 0)
			return own;
	}
	fail_msg("there is no port for a responder");
	return own;
}

static void ask(int fd, uint64_t token, uint64_t number, size_t length)
{
	uint8_t bytes[QUESTION_BYTES + 8] = {0};

	store_be64(bytes, token);
	store_be64(bytes + QUESTION_NUMBER_AT, number);
	assert_int_equal(send(fd, bytes, length, 0), length);
}

/* The next answer is of this number. */
static void must_answer(int fd, uint64_t number)
{
	uint8_t bytes[QUESTION_BYTES];

	assert_int_equal(recv(fd, bytes, sizeof(bytes), 0), ANSWER_BYTES);
	assert_true(load_be64(bytes) == number);
	assert_true(load_be64(bytes + ANSWER_PROOF_AT) == responder_proof(KEY, ENDPOINT, number));
}

static void questions__need_all_of_the_token(void **state)
{
	struct responder responder;
	struct path records = responder_any(&responder), questions;
	union socket_address name;
	uint64_t token = responder_proof(KEY, ENDPOINT, 0);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t size;

	(void)state;
	responder_path(&records, &questions);
	size = interface_sockaddr(&questions, 0, &name);
	assert_int_equal(connect(fd, &name.any, size), 0);
	for (int bit = 0; bit < 64; bit++)
		ask(fd, token ^ UINT64_C(1) << bit, 100, QUESTION_BYTES);
	ask(fd, token, 101, QUESTION_BYTES - 1);
	ask(fd, token, 102, QUESTION_BYTES + 1);
	ask(fd, token, 0, QUESTION_BYTES); /* its answer would be the token */
	ask(fd, token, 103, QUESTION_BYTES);
	must_answer(fd, 103);
	ask(fd, token, 104, QUESTION_BYTES);
	must_answer(fd, 104);
	close(fd);
	responder_close(&responder);
}

/* The number'th peer, at an address of the loopback's, and at the port of a socket that answers nobody. */
static struct path silent_peer(int fd, unsigned number)
{
	struct path records = {{[10] = 0xff, [11] = 0xff, [12] = 127, [14] = (uint8_t)(number >> 8),
				[15] = (uint8_t)(number + 1)}};
	struct sockaddr_in name;
	socklen_t size = sizeof(name);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &size), 0);
	store_be16(records.bytes + INTERFACE_ADDRESS, ntohs(name.sin_port) ^ 1);
	return records;
}

/* Each question has its time, also where more peers are to be asked than there is room for. */
static void liveness__each_question_has_its_time(void **state)
{
	static const uint8_t own[INTERFACE_ADDRESS] = {[10] = 0xff, 0xff, 127, 0, 0, 1};
	static struct liveness liveness = {.own = own};
	struct sockaddr_in any = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t now_ns = 1;
	struct path peer;

	(void)state;
	assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
	for (unsigned i = 0; i < QUESTIONS_MAX; i++) {
		peer = silent_peer(fd, i);
		assert_int_equal(liveness_ask(&liveness, &peer, KEY, ENDPOINT, now_ns), LINK_UNKNOWN);
	}
	peer = silent_peer(fd, QUESTIONS_MAX);
	assert_int_equal(liveness_ask(&liveness, &peer, KEY, ENDPOINT, now_ns), LINK_UNASKED);
	assert_int_equal(liveness_ask(&liveness, &peer, KEY, ENDPOINT, now_ns + QUESTION_NS_MIN - 1), LINK_UNASKED);
	now_ns += QUESTION_NS_MIN;
	assert_int_equal(liveness_ask(&liveness, &peer, KEY, ENDPOINT, now_ns), LINK_UNKNOWN);
	assert_int_equal(liveness.count, QUESTIONS_MAX);
	liveness_close(&liveness);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(questions__need_all_of_the_token),
		cmocka_unit_test(liveness__each_question_has_its_time),
	};

	return cmocka_run_group_tests_name("responder", tests, NULL, NULL);
}
