/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks that a fork takes: a child that is made amid the first use of one finds it free, and so does its parent. What a
 * fork closes is closed in the child alone.
 */
#include "atfork.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/forked.h"
#include "pair.h"
#include "thole.h"
#include "transport/datagram/responder.h"

static void add_one(void)
{
	int fds[1] = {dup(0)};
	struct forked forked = {0};

	forked_add(&forked, fds, 1);
	forked_remove(&forked);
	forked_close(&fds[0]);
}

static void allocate_one(void)
{
	void *block;

	assert_int_equal(thole_alloc(100, &block), 0);
	thole_free(block);
}

static void responder_any(struct responder *responder)
{
	struct path own;

	for (uint16_t port = 20001; port < 60000; port += 2) {
		memset(&own, 0, sizeof(own));
		own.bytes[10] = own.bytes[11] = 0xff;
		own.bytes[12] = 127;
		own.bytes[15] = 1;
		own.bytes[INTERFACE_ADDRESS] = (uint8_t)(port >> 8);
		own.bytes[INTERFACE_ADDRESS + 1] = (uint8_t)port;
		if (responder_open(responder, 0, &own, 1, 2) == 0)
			return;
	}
	fail_msg("there is no port for a responder");
}

static void answer_one(void)
{
	struct responder responder;

	responder_any(&responder);
	responder_close(&responder);
}

/* Of this process's life its peer is told, too. */
static void exchange_one(void)
{
	enum { LENGTH = 1 << 20 };
	uint8_t *from = pair_filled(1, LENGTH), *to = calloc(1, LENGTH);
	struct thole_request *receive, *send;
	struct pair pair;

	pair_open(&pair, (const char *const[]){"network=off", "bulk=one-copy", NULL});
	assert_int_equal(thole_recv(pair.b, pair.b_to_a, to, LENGTH, 1, UINT64_MAX, 0, NULL, &receive), 0);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, from, LENGTH, 1, 0, 0, NULL, &send), 0);
	assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
	assert_int_equal(pair_finish(&pair, pair.a, send, NULL), 0);
	pair_check(1, to, LENGTH);
	pair_close(&pair);
	free(from);
	free(to);
}

static unsigned threads(void)
{
	DIR *folder = opendir("/proc/self/task");
	unsigned count = 0;

	assert_non_null(folder);
	for (const struct dirent *entry; (entry = readdir(folder));)
		count += entry->d_name[0] != '.';
	closedir(folder);
	return count;
}

/* Its parent's thread answers for nobody of its own, and is not there. */
static void test_child_answers_by_itself(void **state)
{
	struct responder parents, childs;
	pid_t pid;

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* it permits no threads in a child of several */
#endif
	responder_any(&parents);
	if ((pid = fork()) == 0) {
		unsigned before = threads();

		alarm(ATFORK_LIMIT_S);
		responder_any(&childs);
		_exit(threads() == before + 1 ? 0 : 1);
	}
	assert_int_equal(child_status(pid), 0);
	responder_close(&parents);
}

static void test_first_use(void **state)
{
	(void)state;
	atfork_try(add_one);
	atfork_try(allocate_one);
	atfork_try(answer_one);
	atfork_try(exchange_one);
}

static void test_closed_in_the_child_alone(void **state)
{
	int fds[2] = {dup(0), -1}, one = fds[0];
	struct forked forked = {0};
	pid_t pid;

	(void)state;
	forked_add(&forked, fds, 2);
	if ((pid = fork()) == 0)
		_exit(fds[0] == -1 && fcntl(one, F_GETFD) < 0 ? 0 : 1);
	assert_int_equal(child_status(pid), 0);
	assert_int_equal(fds[0], one);
	assert_true(fcntl(one, F_GETFD) >= 0);
	forked_remove(&forked);
	forked_close(&fds[0]);
	assert_true(fcntl(one, F_GETFD) < 0);
}

/* The descriptor of a name that begins so; -1: there is none. */
static int descriptor_of(const char *name)
{
	DIR *folder = opendir("/proc/self/fd");
	int found = -1;

	assert_non_null(folder);
	for (const struct dirent *entry; (entry = readdir(folder));) {
		char to[64] = "";

		if (readlinkat(dirfd(folder), entry->d_name, to, sizeof(to) - 1) > 0 && strstr(to, name) == to)
			found = atoi(entry->d_name);
	}
	closedir(folder);
	return found;
}

/* Where endpoints were, a program that has none any more may close what it did not open, and have files of its own
 * there. */
static void test_files_of_the_program_stay(void **state)
{
	int life, own = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct stat was, is;
	pid_t pid;

	(void)state;
	exchange_one();
	life = descriptor_of("/memfd:thole life");
	assert_true(life >= 0);
	if ((pid = fork()) == 0) /* it has none of its parent's */
		_exit(fcntl(life, F_GETFD) < 0 ? 0 : 1);
	assert_int_equal(child_status(pid), 0);
	assert_int_equal(dup2(own, life), life);
	if ((pid = fork()) == 0)
		_exit(fcntl(life, F_GETFD) >= 0 ? 0 : 1);
	assert_int_equal(child_status(pid), 0);
	exchange_one(); /* nor do peers get it */
	assert_true(descriptor_of("/memfd:thole life") >= 0);
	assert_int_equal(fstat(own, &was), 0);
	assert_int_equal(fstat(life, &is), 0);
	assert_int_equal(is.st_rdev, was.st_rdev);
	close(own);
	close(life);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_use),
		cmocka_unit_test(test_child_answers_by_itself),
		cmocka_unit_test(test_closed_in_the_child_alone),
		cmocka_unit_test(test_files_of_the_program_stay),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
