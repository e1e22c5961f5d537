/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is concluded of a silent peer. Its process is this test, which has its sockets at an address of the loopback's
 * and answers as it likes; its host is the kernel. Time is the test's. What the kernel knows of a connection's age is
 * replaced.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/endian.h"
#include "descriptors.h"
#include "transport/datagram/liveness.h"
#include "transport/datagram/responder.h"

enum { KEY = 1, ENDPOINT = 2, DIAL_S = 30 /* that a connection of the loopback takes at most */ };

static const uint64_t fresh_ns = QUESTION_FRESH_MS * UINT64_C(1000000);

static bool stale; /* no host was heard of for long */

int __real_getsockopt(int fd, int level, int option, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *size)
{
	int status = __real_getsockopt(fd, level, option, value, size);

	if (status == 0 && level == IPPROTO_TCP && option == TCP_INFO)
		((struct tcp_info *)value)->tcpi_last_ack_recv = stale ? QUESTION_FRESH_MS : 0;
	return status;
}

/* ---- The peer ------------------------------------------------------------------------------------- */

struct peer {
	struct path records;
	int questions, listener; /* -1: it has none */
	struct sockaddr_in asker;
};

static int bound(int type, const struct path *path)
{
	union socket_address name;
	socklen_t size = interface_sockaddr(path, 0, &name);
	int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	if (bind(fd, &name.any, size) == 0 && (type != SOCK_STREAM || listen(fd, 8) == 0))
		return fd;
	close(fd);
	return -1;
}

/* At an address that no other test of this machine has, at ports that are free. */
static void peer_open(struct peer *peer)
{
	static uint8_t last;
	struct path questions;
	pid_t pid = getpid();

	*peer = (struct peer){.records = {{[10] = 0xff, [11] = 0xff, [12] = 127, [13] = (uint8_t)(1 + pid % 250),
					   [14] = (uint8_t)(pid >> 8), [15] = ++last}}};
	for (uint16_t port = 20001; port < 60000; port += 2) {
		store_be16(peer->records.bytes + INTERFACE_ADDRESS, port);
		responder_path(&peer->records, &questions);
		peer->questions = bound(SOCK_DGRAM, &questions);
		peer->listener = bound(SOCK_STREAM, &peer->records);
		if (peer->questions >= 0 && peer->listener >= 0)
			return;
		close(peer->questions);
		close(peer->listener);
	}
	fail_msg("there are no ports for a peer");
}

static void peer_close(struct peer *peer)
{
	close(peer->questions);
	close(peer->listener);
}

/* Returns how many questions have come, with the number of the last. */
static unsigned peer_asked(struct peer *peer, uint64_t *number_p)
{
	uint8_t bytes[2 * QUESTION_BYTES];
	socklen_t size = sizeof(peer->asker);
	ssize_t length;
	unsigned count = 0;

	while ((length = recvfrom(peer->questions, bytes, sizeof(bytes), 0, (struct sockaddr *)&peer->asker,
				  &size)) >= 0) {
		assert_int_equal(length, QUESTION_BYTES);
		assert_true(load_be64(bytes) == responder_proof(KEY, ENDPOINT, 0));
		*number_p = load_be64(bytes + QUESTION_NUMBER_AT);
		assert_true(*number_p != 0);
		count++;
	}
	return count;
}

static void peer_answers(struct peer *peer, uint64_t number, uint64_t proof, size_t length)
{
	uint8_t bytes[2 * ANSWER_BYTES] = {0};

	store_be64(bytes, number);
	store_be64(bytes + ANSWER_PROOF_AT, proof);
	assert_int_equal(sendto(peer->questions, bytes, length, 0, (struct sockaddr *)&peer->asker,
				sizeof(peer->asker)), length);
}

static void peer_answers_right(struct peer *peer, uint64_t number)
{
	peer_answers(peer, number, responder_proof(KEY, ENDPOINT, number), ANSWER_BYTES);
}

/* Let go who has connected. Returns how many have. */
static unsigned peer_lets_go(struct peer *peer)
{
	struct linger linger = {.l_onoff = 1};
	unsigned count = 0;

	for (int fd; (fd = accept(peer->listener, NULL, NULL)) >= 0; count++) {
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
		close(fd);
	}
	return count;
}

/* ---- Who asks ------------------------------------------------------------------------------------- */

static struct liveness liveness;

static void asker_open(void)
{
	static const uint8_t own[INTERFACE_ADDRESS] = {[10] = 0xff, 0xff, 127, 0, 0, 1};

	stale = false;
	memset(&liveness, 0, sizeof(liveness));
	liveness.own = own;
}

static enum link_liveness ask(const struct peer *peer, uint64_t now_ns)
{
	return liveness_ask(&liveness, &peer->records, KEY, ENDPOINT, now_ns);
}

/* Until the connection to its host is made. */
static void ask_until_held(const struct peer *peer, uint64_t now_ns)
{
	for (time_t end = time(NULL) + DIAL_S; time(NULL) < end;)
		if (ask(peer, now_ns) == LINK_HELD)
			return;
	fail_msg("a host that has the port does not hold it");
}

/* ---- The process ---------------------------------------------------------------------------------- */

/* Only who knows the key can answer, and only this question. */
static void process__answers_with_a_proof(void **state)
{
	struct peer peer;
	uint64_t number = 0, now_ns = 1;
	uint64_t right;

	(void)state;
	asker_open();
	peer_open(&peer);
	assert_int_equal(ask(&peer, now_ns), LINK_UNKNOWN);
	assert_int_equal(peer_asked(&peer, &number), 1);
	right = responder_proof(KEY, ENDPOINT, number);
	peer_answers(&peer, number, right ^ 1, ANSWER_BYTES);
	peer_answers(&peer, number ^ 1, right, ANSWER_BYTES);
	peer_answers(&peer, number ^ 1, responder_proof(KEY, ENDPOINT, number ^ 1), ANSWER_BYTES);
	peer_answers(&peer, number, responder_proof(KEY, ENDPOINT + 1, number), ANSWER_BYTES);
	peer_answers(&peer, number, right, ANSWER_BYTES - 1);
	peer_answers(&peer, number, right, ANSWER_BYTES + 1);
	assert_int_not_equal(ask(&peer, ++now_ns), LINK_ALIVE);
	peer_answers_right(&peer, number);
	assert_int_equal(ask(&peer, ++now_ns), LINK_ALIVE);
	assert_int_equal(liveness.count, 0); /* the next silence has another question */
	assert_int_equal(ask(&peer, ++now_ns), LINK_UNKNOWN);
	assert_int_equal(peer_asked(&peer, &right), 1);
	assert_true(right != number);
	liveness_close(&liveness);
	peer_close(&peer);
}

/* A datagram may be lost: it is said again, now and then. */
static void process__is_asked_now_and_then(void **state)
{
	struct peer peer;
	uint64_t first, number;

	(void)state;
	asker_open();
	peer_open(&peer);
	ask(&peer, 1);
	assert_int_equal(peer_asked(&peer, &first), 1);
	for (uint64_t i = 1; i < 10; i++)
		ask(&peer, 1 + i * (QUESTION_AGAIN_NS / 10));
	assert_int_equal(peer_asked(&peer, &number), 0);
	ask(&peer, 1 + QUESTION_AGAIN_NS);
	assert_int_equal(peer_asked(&peer, &number), 1);
	assert_true(number == first); /* so that an answer to either will do */
	peer_answers_right(&peer, first);
	assert_int_equal(ask(&peer, 2 + QUESTION_AGAIN_NS), LINK_ALIVE);
	liveness_close(&liveness);
	peer_close(&peer);
}

/* Its host refuses the datagram: nobody has the port. */
static void process__is_not_there(void **state)
{
	struct peer peer;

	(void)state;
	asker_open();
	peer_open(&peer);
	close(peer.questions);
	peer.questions = -1;
	assert_int_equal(ask(&peer, 1), LINK_UNKNOWN);
	assert_int_equal(ask(&peer, 2), LINK_GONE);
	assert_int_equal(liveness.count, 0);
	peer_close(&peer);
}

/* ---- Its host --------------------------------------------------------------------------------------- */

/* The process says nothing, and its host has the port: as long as a connection shows so. */
static void host__holds_the_port(void **state)
{
	struct peer peer;
	uint64_t now_ns = 1;

	(void)state;
	asker_open();
	peer_open(&peer);
	assert_int_equal(ask(&peer, now_ns), LINK_UNKNOWN);
	ask_until_held(&peer, ++now_ns);
	stale = true; /* what kept it alive was not answered */
	now_ns += fresh_ns - 1;
	assert_int_equal(ask(&peer, now_ns), LINK_HELD);
	assert_int_equal(ask(&peer, ++now_ns), LINK_UNKNOWN);
	stale = false;
	assert_int_equal(ask(&peer, ++now_ns), LINK_HELD);
	assert_int_equal(peer_lets_go(&peer), 1); /* one connection, for all of this */
	liveness_close(&liveness);
	peer_close(&peer);
}

/* A connection that is let go was looked at there. */
static void host__lets_go(void **state)
{
	struct peer peer;
	uint64_t now_ns = 1;

	(void)state;
	asker_open();
	peer_open(&peer);
	ask(&peer, now_ns);
	ask_until_held(&peer, ++now_ns);
	assert_int_equal(peer_lets_go(&peer), 1);
	now_ns += 2 * fresh_ns; /* what was known before is old */
	assert_int_equal(ask(&peer, now_ns), LINK_HELD);
	assert_int_equal(peer_lets_go(&peer), 0);
	assert_int_equal(ask(&peer, now_ns + 1), LINK_HELD);
	ask_until_held(&peer, now_ns + 2 * fresh_ns);
	assert_int_equal(peer_lets_go(&peer), 1); /* made anew */
	liveness_close(&liveness);
	peer_close(&peer);
}

/* Nobody has the port of the records any more. */
static void host__refuses(void **state)
{
	struct peer peer;
	enum link_liveness verdict = LINK_UNKNOWN;

	(void)state;
	asker_open();
	peer_open(&peer);
	close(peer.listener);
	peer.listener = -1;
	assert_int_equal(ask(&peer, 1), LINK_UNKNOWN); /* the process has time to answer first */
	for (time_t end = time(NULL) + DIAL_S; time(NULL) < end && verdict == LINK_UNKNOWN;)
		verdict = ask(&peer, 2);
	assert_int_equal(verdict, LINK_GONE);
	assert_int_equal(liveness.count, 0);
	peer_close(&peer);
}

/* ---- Questions -------------------------------------------------------------------------------------- */

/* What is asked no more has no descriptors, and other questions go on. */
static void questions__that_are_forgotten(void **state)
{
	struct peer first, second;
	uint64_t number, now_ns = 1;
	int before;

	(void)state;
	asker_open();
	peer_open(&first);
	peer_open(&second);
	before = descriptors_open();
	ask(&first, now_ns);
	ask(&second, now_ns);
	assert_int_equal(peer_asked(&second, &number), 1);
	ask_until_held(&first, ++now_ns);
	assert_int_equal(peer_lets_go(&second), 0);
	assert_int_equal(descriptors_open(), before + 3); /* two datagram sockets, a connection */
	liveness_forget(&liveness, &first.records);
	assert_int_equal(descriptors_open(), before + 1);
	peer_answers_right(&second, number);
	assert_int_equal(ask(&second, ++now_ns), LINK_ALIVE);
	assert_int_equal(descriptors_open(), before);
	liveness_forget(&liveness, &second.records); /* asked no more */
	ask(&first, ++now_ns);
	ask_until_held(&first, ++now_ns);
	ask(&second, ++now_ns);
	liveness_close(&liveness);
	assert_int_equal(descriptors_open(), before);
	peer_close(&first);
	peer_close(&second);
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
static void questions__each_has_its_time(void **state)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t now_ns = 1;
	struct path peer;

	(void)state;
	asker_open();
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
		cmocka_unit_test(process__answers_with_a_proof),
		cmocka_unit_test(process__is_asked_now_and_then),
		cmocka_unit_test(process__is_not_there),
		cmocka_unit_test(host__holds_the_port),
		cmocka_unit_test(host__lets_go),
		cmocka_unit_test(host__refuses),
		cmocka_unit_test(questions__that_are_forgotten),
		cmocka_unit_test(questions__each_has_its_time),
	};

	return cmocka_run_group_tests_name("liveness", tests, NULL, NULL);
}
