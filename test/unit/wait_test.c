/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping where the kernel, or a container's filter, has no epoll_pwait2: as long, and ended by the same things.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>

#include "thole.h"

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
int __real_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask);

static int refusal; /* what epoll_pwait2 fails with; 0: nothing */
static unsigned asked, polled, timed_out;

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	long result;

	if (number != SYS_epoll_pwait2)
		return __real_syscall(number, a, b, c, d, e, f);
	asked++;
	if (refusal) {
		errno = refusal;
		return -1;
	}
	result = __real_syscall(number, a, b, c, d, e, f);
	timed_out += result == 0;
	return result;
}

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	int result = __real_ppoll(fds, count, timeout, mask);

	polled++;
	timed_out += result == 0;
	return result;
}

static struct thole_endpoint *opened(void)
{
	static const char *const options[] = {"network=off", "spin=0", NULL};
	const struct thole_endpoint_attr attr = {.options = options};
	struct thole_endpoint *endpoint = NULL;

	assert_int_equal(thole_endpoint_open(&attr, &endpoint), 0);
	asked = polled = timed_out = 0;
	return endpoint;
}

/* Each sleep lasts to its end, so there are few: whoever does not sleep would come round thousands of times. */
static void sleeps_to_the_end(struct thole_endpoint *endpoint)
{
	enum { SLEEP_NS = 20000000, FEW = 20 };
	struct timespec before, after;

	clock_gettime(CLOCK_MONOTONIC, &before);
	assert_int_equal(thole_sleep(endpoint, SLEEP_NS), THOLE_ERR_TIMEOUT);
	clock_gettime(CLOCK_MONOTONIC, &after);
	assert_true((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec >= SLEEP_NS);
	assert_in_range(asked, 1, FEW);
	assert_in_range(timed_out, 1, asked);
}

static void sleep__by_number(void **state)
{
	struct thole_endpoint *endpoint = opened();

	(void)state;
	refusal = 0;
	sleeps_to_the_end(endpoint);
	assert_int_equal(polled, 0);
	thole_endpoint_close(endpoint);
}

static void sleep__without_the_call(void **state)
{
	static const int refusals[] = {ENOSYS, EPERM};

	(void)state;
	for (unsigned i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		struct thole_endpoint *endpoint = opened();

		refusal = refusals[i];
		sleeps_to_the_end(endpoint);
		assert_int_equal(polled, asked);
		thole_endpoint_close(endpoint);
	}
}

/* What arrives ends the sleep either way. */
static void sleep__ends_with_a_message(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct thole_endpoint *from = opened(), *to = opened();
		struct thole_request *send = NULL, *receive = NULL;
		struct thole_completion done;
		struct thole_address address;
		uint32_t peer;
		int number = 42, got = 0;

		refusal = i ? ENOSYS : 0;
		thole_endpoint_address(to, &address);
		assert_int_equal(thole_peer(from, &address, &peer), 0);
		assert_int_equal(thole_recv(to, THOLE_ANY, &got, sizeof(got), 1, UINT64_MAX, 0, NULL, &receive), 0);
		assert_int_equal(thole_send(from, peer, &number, sizeof(number), 1, 0, 0, NULL, &send), 0);
		while (thole_test(to, receive, &done) == 0) {
			thole_progress(from);
			assert_true(thole_sleep(to, -1) >= 0);
		}
		assert_int_equal(got, 42);
		assert_int_equal(thole_wait(from, send, -1, &done), 0);
		thole_endpoint_close(from);
		thole_endpoint_close(to);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sleep__by_number),
		cmocka_unit_test(sleep__without_the_call),
		cmocka_unit_test(sleep__ends_with_a_message),
	};

	return cmocka_run_group_tests_name("wait", tests, NULL, NULL);
}
