/* SPDX-License-Identifier: BSD-3-Clause */
/* Who makes progress for endpoints whose program is elsewhere: what others hear of it who wait there. And forks of a
 * program of MX: the child has a thread and a list of its own, and leaves its parent's endpoints alone; one
 * that is made amid the first use of what has locks waits for nobody. */
#include "atfork.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/atomic.h"
#include "mx_endpoint.h"

enum {
	TICKS = 7,
	BEYOND_ROOM = 300, /* messages of BYTES: more than are taken without their receiver's turns */
	BYTES = 32768,
	PATIENCE_MS = 60000,
};

static struct mx_endpoint *open_endpoint(void)
{
	mx_endpoint_t endpoint;

	return mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, 0, NULL, 0, &endpoint) == MX_SUCCESS ? endpoint : NULL;
}

/* What the thread saw last; `more` is added to what it is to see next. */
static uint32_t seen_polls(struct mx_endpoint *endpoint, uint32_t more)
{
	uint32_t before;

	lock_take(&endpoint->lock);
	before = endpoint->polls_before;
	if (more)
		endpoint->polls = before + more;
	lock_leave(&endpoint->lock);
	return before;
}

/* Until the thread has come by since this call. */
static void await_tick(struct mx_endpoint *endpoint)
{
	static const struct timespec nap = {.tv_nsec = 1000000};
	uint32_t polls = seen_polls(endpoint, TICKS) + TICKS;

	while (seen_polls(endpoint, 0) != polls)
		nanosleep(&nap, NULL);
}

static bool no_threads; /* that make progress */

int __real_thread_start(pthread_t *thread_p, const char *name, void *(*run)(void *), void *arg);
int __wrap_thread_start(pthread_t *thread_p, const char *name, void *(*run)(void *), void *arg);

int __wrap_thread_start(pthread_t *thread_p, const char *name, void *(*run)(void *), void *arg)
{
	return no_threads && strcmp(name, "thole-mx-tick") == 0 ? EAGAIN
								: __real_thread_start(thread_p, name, run, arg);
}

/* Nobody would try again: an endpoint has its thread, or it is none. */
static void open__without_threads(void **state)
{
	struct mx_endpoint *endpoint;

	(void)state;
	mx_set_error_handler(MX_ERRORS_RETURN);
	assert_int_equal(mx_init(), MX_SUCCESS);
	no_threads = true;
	assert_int_equal(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, 0, NULL, 0, &endpoint), MX_NO_RESOURCES);
	assert_non_null(strstr(thole_detail(), "cannot start the thread that makes progress"));
	no_threads = false;
	endpoint = open_endpoint();
	assert_non_null(endpoint);
	await_tick(endpoint);
	assert_int_equal(mx_close_endpoint(endpoint), MX_SUCCESS);
	assert_int_equal(mx_finalize(), MX_SUCCESS);
}

/* 0: all is well. */
static int child_looks(struct mx_endpoint *parents)
{
	uint32_t before = load_relaxed(&parents->polls_before);
	struct mx_endpoint *own = open_endpoint();

	if (!own)
		return 1;
	store_relaxed(&parents->polls, before + TICKS);
	await_tick(own);
	await_tick(own); /* all of the list was looked at in between */
	if (load_relaxed(&parents->polls_before) != before)
		return 2;
	return mx_close_endpoint(own) == MX_SUCCESS ? 0 : 3;
}

static void use_endpoint(void)
{
	struct mx_endpoint *own = open_endpoint();

	if (!own || mx_close_endpoint(own) != MX_SUCCESS)
		_exit(1);
}

/* The first in this program. */
static void fork__amid_the_first_endpoint(void **state)
{
	(void)state;
	setenv("THOLE_NETWORK", "off", 1);
	assert_int_equal(mx_init(), MX_SUCCESS);
	atfork_try(use_endpoint);
	assert_int_equal(mx_finalize(), MX_SUCCESS);
}

static void fork__child_has_its_own(void **state)
{
	struct mx_endpoint *parents;
	pid_t child;

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* it permits no threads in a child of several */
#endif
	assert_int_equal(mx_init(), MX_SUCCESS);
	parents = open_endpoint();
	assert_non_null(parents);
	await_tick(parents);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		alarm(60); /* where no thread ever comes */
		_exit(child_looks(parents));
	}
	assert_int_equal(child_status(child), 0);
	await_tick(parents);
	assert_int_equal(mx_close_endpoint(parents), MX_SUCCESS);
	assert_int_equal(mx_finalize(), MX_SUCCESS);
}

/* Where another thread is amid a call when the child is made, nobody ever leaves it there. */
static void fork__child_closes_while_its_parent_is_inside(void **state)
{
	struct mx_endpoint *parents;
	pid_t child;

	(void)state;
	assert_int_equal(mx_init(), MX_SUCCESS);
	parents = open_endpoint();
	assert_non_null(parents);
	lock_take(&parents->lock);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		alarm(ATFORK_LIMIT_S);
		_exit(mx_close_endpoint(parents) == MX_SUCCESS ? 0 : 1);
	}
	assert_int_equal(child_status(child), 0);
	lock_leave(&parents->lock);
	assert_int_equal(mx_close_endpoint(parents), MX_SUCCESS);
	assert_int_equal(mx_finalize(), MX_SUCCESS);
}

/* What is being closed may wait for another's turns. Who sleeps there looks again: what has come may be what he waits
 * for. */
static void close__wakes_those_who_wait(void **state)
{
	static char bytes[BYTES];
	mx_segment_t segment = {bytes, sizeof bytes};
	struct mx_endpoint *sleeper, *closed;
	mx_endpoint_addr_t self, address;
	mx_request_t request;
	uint32_t number;
	uint64_t nic_id;

	(void)state;
	assert_int_equal(mx_init(), MX_SUCCESS);
	sleeper = open_endpoint();
	closed = open_endpoint();
	assert_true(sleeper && closed);
	assert_int_equal(mx_get_endpoint_addr(sleeper, &self), MX_SUCCESS);
	assert_int_equal(mx_decompose_endpoint_addr(self, &nic_id, &number), MX_SUCCESS);
	assert_int_equal(mx_connect(closed, nic_id, number, 0, PATIENCE_MS, &address), MX_SUCCESS);
	for (int i = 0; i < BEYOND_ROOM; i++)
		assert_int_equal(mx_isend(closed, &segment, 1, address, 1, NULL, &request), MX_SUCCESS);
	lock_take(&sleeper->lock);
	sleeper->leader_sleeps = true; /* as a thread does in mx_probe */
	sleeper->leader_woken = false;
	lock_leave(&sleeper->lock);
	assert_int_equal(mx_close_endpoint(closed), MX_SUCCESS);
	lock_take(&sleeper->lock);
	assert_true(sleeper->leader_woken);
	sleeper->leader_sleeps = false;
	lock_leave(&sleeper->lock);
	assert_int_equal(mx_close_endpoint(sleeper), MX_SUCCESS);
	assert_int_equal(mx_finalize(), MX_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fork__amid_the_first_endpoint),
		cmocka_unit_test(fork__child_has_its_own),
		cmocka_unit_test(fork__child_closes_while_its_parent_is_inside),
		cmocka_unit_test(close__wakes_those_who_wait),
		cmocka_unit_test(open__without_threads),
	};

	return cmocka_run_group_tests_name("mx_tick", tests, NULL, NULL);
}
