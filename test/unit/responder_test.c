/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a process lives: who asks with its endpoint's token, and a number, is answered, and nobody else. Datagrams
 * over the loopback come in order, so that the next answer shows that what was asked before has none.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/endian.h"
#include "base/error.h"
#include "descriptors.h"
#include "transport/datagram/responder.h"

enum { KEY = 1, ENDPOINT = 2 };

static int bind_refuses, watch_refuses; /* with this errno; 0: it does not */

int __real_bind(int fd, const struct sockaddr *name, socklen_t size);
int __wrap_bind(int fd, const struct sockaddr *name, socklen_t size);
int __wrap_bind(int fd, const struct sockaddr *name, socklen_t size)
{
	errno = bind_refuses;
	return bind_refuses ? -1 : __real_bind(fd, name, size);
}

/* Of the sockets of a responder; the thread's own eventfd is none. */
int __real_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event)
{
	int type;
	socklen_t size = sizeof(type);

	if (!watch_refuses || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0)
		return __real_epoll_ctl(epoll, what, fd, event);
	errno = watch_refuses;
	return -1;
}

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
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), nothing = 0;
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
	/* Nor without the filter: a datagram may come before that is there. */
	assert_int_equal(setsockopt(responder.fds[RESPONDER_QUESTIONS], SOL_SOCKET, SO_DETACH_FILTER, &nothing,
				    sizeof(nothing)), 0);
	ask(fd, token, 105, QUESTION_BYTES - 1);
	ask(fd, token, 0, QUESTION_BYTES);
	ask(fd, token, 106, QUESTION_BYTES);
	must_answer(fd, 106);
	close(fd);
	responder_close(&responder);
}

/* Who connects has his answer by that, and nothing of it is left in the kernel: no state of a connection that was
 * closed in good order. */
static void connections__are_reset(void **state)
{
	struct responder responder;
	struct path records = responder_any(&responder);
	union socket_address name;
	socklen_t size = interface_sockaddr(&records, 0, &name);
	char byte;

	(void)state;
	for (int i = 0; i < 2 * RESPONDER_ACCEPTS; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		assert_int_equal(connect(fd, &name.any, size), 0);
		assert_int_equal(recv(fd, &byte, 1, 0), -1);
		assert_int_equal(errno, ECONNRESET);
		close(fd);
	}
	responder_close(&responder);
}

/* The thread looks at those that are there, and goes with the last. */
static void close__leaves_the_others(void **state)
{
	struct responder first, second;
	struct path records, questions;
	union socket_address name;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t size;

	(void)state;
	(void)responder_any(&first);
	records = responder_any(&second);
	responder_path(&records, &questions);
	size = interface_sockaddr(&questions, 0, &name);
	assert_int_equal(connect(fd, &name.any, size), 0);
	ask(fd, responder_proof(KEY, ENDPOINT, 0), 2, QUESTION_BYTES);
	must_answer(fd, 2);
	responder_close(&first);
	assert_true(list_empty(&first.node));
	memset(&first, 0xff, sizeof(first));
	ask(fd, responder_proof(KEY, ENDPOINT, 0), 1, QUESTION_BYTES);
	must_answer(fd, 1);
	responder_close(&second);
	assert_true(list_empty(&second.node));
	close(fd);
}

/* Whoever stops a process, as batch systems do, and lets it go on interrupts the thread's sleep. */
static void stop__is_survived(void **state)
{
	struct responder responder;
	struct path records = responder_any(&responder), questions;
	union socket_address name;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), status;
	pid_t parent = getpid(), child = fork();
	socklen_t size;

	(void)state;
	if (child == 0) {
		char path[32], line[512] = "";

		snprintf(path, sizeof(path), "/proc/%d/stat", parent);
		kill(parent, SIGSTOP);
		while (!strstr(line, ") T ")) { /* all of its threads */
			int stat = open(path, O_RDONLY | O_CLOEXEC);
			ssize_t length = read(stat, line, sizeof(line) - 1);

			line[length > 0 ? length : 0] = '\0';
			close(stat);
		}
		kill(parent, SIGCONT);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	responder_path(&records, &questions);
	size = interface_sockaddr(&questions, 0, &name);
	assert_int_equal(connect(fd, &name.any, size), 0);
	ask(fd, responder_proof(KEY, ENDPOINT, 0), 1, QUESTION_BYTES);
	must_answer(fd, 1);
	close(fd);
	responder_close(&responder);
}

/* A program that has closed what it did not open, and has files of its own there, closes its endpoints all the same,
 * and the files stay as they were. */
static void close__of_closed_descriptors(void **state)
{
	enum { LIMIT_S = 20, FILES = 40, COPIES_FROM = 200 };
	struct responder responder;
	struct stat status;
	pid_t child;

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* it permits no threads in a child of several */
#endif
	if ((child = fork()) == 0) {
		int copies[FILES]; /* of what is closed along with the responder */

		alarm(LIMIT_S);
		(void)responder_any(&responder);
		closefrom(3);
		for (int i = 0; i < FILES; i++)
			copies[i] = fcntl(memfd_create("own", MFD_CLOEXEC), F_DUPFD_CLOEXEC, COPIES_FROM);
		responder_close(&responder);
		for (int i = 0; i < FILES; i++)
			if (fstat(copies[i], &status) != 0 || status.st_size > 0)
				_exit(2);
		_exit(0);
	}
	assert_int_equal(child_status(child), 0);
}

/* What it opens then has a thread that answers, and is not closed along with what was there before. */
static void open__after_closed_descriptors(void **state)
{
	enum { LIMIT_S = 20 };
	struct responder first, second;
	struct path records, questions;
	union socket_address name;
	socklen_t size;
	pid_t child;
	int fd;

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* it permits no threads in a child of several */
#endif
	if ((child = fork()) == 0) {
		alarm(LIMIT_S);
		(void)responder_any(&first);
		closefrom(3);
		records = responder_any(&second);
		responder_close(&first);
		responder_path(&records, &questions);
		size = interface_sockaddr(&questions, 0, &name);
		fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(fd, &name.any, size), 0);
		ask(fd, responder_proof(KEY, ENDPOINT, 0), 1, QUESTION_BYTES);
		must_answer(fd, 1);
		responder_close(&second);
		_exit(0);
	}
	assert_int_equal(child_status(child), 0);
}

/* A port that is taken, or a privileged one, is no reason to give up: there are others. All else says what it was. */
static void open__says_what_it_was(void **state)
{
	static const struct {
		int *refuses, error, status;
	} cases[] = {
		{&bind_refuses, EADDRINUSE, THOLE_ERR_BUSY},
		{&bind_refuses, EACCES, THOLE_ERR_BUSY},
		{&bind_refuses, EADDRNOTAVAIL, THOLE_ERR_SYSTEM},
		{&watch_refuses, ENOSPC, THOLE_ERR_SYSTEM},
	};
	struct responder responder;
	const struct path own = responder_any(&responder);

	(void)state;
	responder_close(&responder);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int before = descriptors_open();

		*cases[i].refuses = cases[i].error;
		assert_int_equal(responder_open(&responder, 0, &own, KEY, ENDPOINT), cases[i].status);
		*cases[i].refuses = 0;
		if (!strstr(thole_detail(), strerror(cases[i].error)))
			fail_msg("\"%s\" does not say \"%s\"", thole_detail(), strerror(cases[i].error));
		assert_false(responder.running);
		assert_int_equal(descriptors_open(), before);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(questions__need_all_of_the_token),
		cmocka_unit_test(connections__are_reset),
		cmocka_unit_test(close__leaves_the_others),
		cmocka_unit_test(stop__is_survived),
		cmocka_unit_test(close__of_closed_descriptors),
		cmocka_unit_test(open__after_closed_descriptors),
		cmocka_unit_test(open__says_what_it_was),
	};

	return cmocka_run_group_tests_name("responder", tests, NULL, NULL);
}
