/* SPDX-License-Identifier: BSD-3-Clause */
/* An endpoint as a whole: what it is opened with, what it says of itself, and that nothing is left of it. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "descriptors.h"
#include "endpoint/timer.h"
#include "pair.h"
#include "thole.h"

static void close__leaves_no_descriptor(void **state)
{
	static const char *const options[] = {"job_key=1", "interface=lo", NULL};
	int before = 0;

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct thole_endpoint *endpoint = pair_endpoint(NULL, NULL, options);

		assert_true(endpoint_timer(endpoint, 1000000));
		thole_endpoint_close(endpoint);
		if (i == 0) /* what the process has for good is there from the first one on */
			before = descriptors_open();
		assert_int_equal(descriptors_open(), before);
	}
}

/* Opening fails after some of it was opened: at the adapter, which there is none of that name. */
static void open__that_fails_leaves_no_descriptor(void **state)
{
	static const char *const options[] = {"job_key=1", "interface=lo", "verbs=required", "verbs_device=none", NULL};
	static const struct thole_endpoint_attr attr = {.options = options};
	struct thole_endpoint *endpoint;
	int before = 0;

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_true(thole_endpoint_open(&attr, &endpoint) < 0);
		if (i == 0)
			before = descriptors_open();
		assert_int_equal(descriptors_open(), before);
	}
}

/* No call has failed: the sentence stays that of the last one that did. There is no adapter of that name anywhere. */
static void open__says_nothing_of_what_it_does_without(void **state)
{
	static const char *const options[] = {"job_key=1", "interface=lo", "verbs_device=none", NULL};
	struct thole_endpoint *endpoint;
	struct thole_capability capability;
	uint64_t number;

	(void)state;
	endpoint = pair_endpoint(NULL, NULL, options);
	assert_int_equal(thole_option_number(endpoint, "none", &number), THOLE_ERR_NOT_FOUND);
	assert_non_null(strstr(thole_detail(), "is no option"));
	thole_endpoint_close(endpoint);
	endpoint = pair_endpoint(NULL, NULL, options);
	assert_non_null(strstr(thole_detail(), "is no option"));
	for (unsigned i = 0; i < 100 && thole_capability(i, &capability) == 0; i++)
		assert_non_null(strstr(thole_detail(), "is no option"));
	thole_endpoint_close(endpoint);
}

static volatile sig_atomic_t children_heard;

static void child_heard(int signal)
{
	children_heard += signal == SIGCHLD;
}

int __real_waitpid(pid_t pid, int *status, int options);
int __wrap_waitpid(pid_t pid, int *status, int options);

static int interrupted; /* so many waits for a child are, by a signal */

int __wrap_waitpid(pid_t pid, int *status, int options)
{
	if (interrupted == 0)
		return __real_waitpid(pid, status, options);
	interrupted--;
	errno = EINTR;
	return -1;
}

/* What asks the kernel by a child leaves none, and the program hears of none. */
static void capability__has_no_children(void **state)
{
	struct thole_capability capability;

	(void)state;
	signal(SIGCHLD, child_heard);
	for (unsigned i = 0; thole_capability(i, &capability) == 0; i++)
		interrupted = 3;
	interrupted = 0;
	assert_int_equal(__real_waitpid(-1, NULL, WNOHANG | __WALL), -1);
	assert_int_equal(errno, ECHILD);
	assert_int_equal(children_heard, 0);
	signal(SIGCHLD, SIG_DFL);
}

/* Peers cannot know how tags are hashed, though they have the same program. */
static void match__is_salted_anew(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct match *a, *b;
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	for (int queue = 0; queue < MATCH_QUEUES; queue++) {
		a = &pair.a->match[queue];
		b = &pair.b->match[queue];
		assert_true(a->salt != b->salt && a->factor != b->factor);
		assert_true(a->factor & b->factor & 1);
	}
	pair_close(&pair);
}

/* A program of one thread has two of them with a progress thread. */
static void threads__of_a_progress_thread_take_a_lock(void **state)
{
	static const char *const options[] = {"network=off", "progress_thread=on", NULL};
	struct thole_endpoint *endpoint = pair_endpoint(NULL, NULL, options);

	(void)state;
	endpoint_lock(endpoint);
	assert_false(lock_try(&endpoint->lock));
	endpoint_unlock(endpoint);
	thole_endpoint_close(endpoint);
}

static void counters__as_many_as_there_is_room_for(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct thole_endpoint *endpoint = pair_endpoint(NULL, NULL, options);
	uint64_t values[COUNTER_COUNT + 2];

	(void)state;
	memset(values, 0xee, sizeof(values));
	assert_int_equal(thole_counters(endpoint, values, 1), COUNTER_COUNT);
	assert_true(values[0] != UINT64_C(0xeeeeeeeeeeeeeeee) && values[1] == UINT64_C(0xeeeeeeeeeeeeeeee));
	assert_int_equal(thole_counters(endpoint, values, COUNTER_COUNT + 2), COUNTER_COUNT);
	assert_true(values[COUNTER_COUNT - 1] != UINT64_C(0xeeeeeeeeeeeeeeee));
	assert_true(values[COUNTER_COUNT] == UINT64_C(0xeeeeeeeeeeeeeeee));
	thole_endpoint_close(endpoint);
}

/* What only opening looks at would be said to have changed. */
static void option_set__of_an_open_endpoint(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct thole_endpoint *endpoint = pair_endpoint(NULL, NULL, options);
	char value[32];

	(void)state;
	assert_int_equal(thole_option_set(endpoint, "shm", "off"), THOLE_ERR_BUSY);
	assert_int_equal(thole_option_get(endpoint, "shm", value, sizeof(value)), 0);
	assert_string_equal(value, "on");
	assert_int_equal(thole_option_set(endpoint, "close_timeout", "7s"), 0);
	assert_int_equal(thole_option_get(endpoint, "close_timeout", value, sizeof(value)), 0);
	assert_string_equal(value, "7s");
	thole_endpoint_close(endpoint);
}

/* What looks once makes progress first, and takes no more than there is room for. */
static void polls__look_once(void **state)
{
	enum { COUNT = 4 };
	static const char *const options[] = {"network=off", NULL};
	struct thole_completion done[COUNT + 1];
	struct thole_request *receive, *found;
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	for (uint64_t tag = 0; tag <= COUNT + 2; tag++) {
		assert_int_equal(thole_send(pair.b, pair.b_to_a, NULL, 0, tag, 0,
					    THOLE_INJECT | THOLE_QUIET, NULL, NULL), 0);
		if (tag == 0) { /* they connect */
			pair_idle(&pair);
			assert_int_equal(thole_probe(pair.a, THOLE_ANY, 0, UINT64_MAX, THOLE_DISCARD, done), 1);
		} else if (tag <= COUNT) { /* completions in a queue */
			assert_int_equal(thole_recv(pair.a, THOLE_ANY, NULL, 0, tag, UINT64_MAX, 0, NULL, NULL), 0);
		} else {
			assert_int_equal(thole_recv(pair.a, THOLE_ANY, NULL, 0, tag, UINT64_MAX, 0, NULL, &receive), 0);
		}
		if (tag == COUNT) {
			memset(done, 0xee, sizeof(done));
			assert_int_equal(thole_poll(pair.a, done, 1), 1);
			assert_int_equal(done[0].tag, 1);
			assert_int_equal(done[1].tag, UINT64_C(0xeeeeeeeeeeeeeeee));
			assert_int_equal(thole_poll(pair.a, done, COUNT), COUNT - 1);
		} else if (tag == COUNT + 1) {
			assert_int_equal(thole_test(pair.a, receive, done), 1);
		} else if (tag == COUNT + 2) {
			assert_int_equal(thole_peek(pair.a, &found), 1);
			assert_ptr_equal(found, receive);
			assert_int_equal(thole_test(pair.a, receive, done), 1);
		}
	}
	assert_int_equal(thole_send(pair.b, pair.b_to_a, NULL, 0, 7, 0, THOLE_INJECT | THOLE_QUIET, NULL, NULL), 0);
	assert_int_equal(thole_probe(pair.a, THOLE_ANY, 7, UINT64_MAX, THOLE_DISCARD, done), 1);
	assert_int_equal(thole_probe(pair.a, THOLE_ANY, 7, UINT64_MAX, THOLE_DISCARD, done), 0);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(close__leaves_no_descriptor),
		cmocka_unit_test(open__that_fails_leaves_no_descriptor),
		cmocka_unit_test(open__says_nothing_of_what_it_does_without),
		cmocka_unit_test(capability__has_no_children),
		cmocka_unit_test(match__is_salted_anew),
		cmocka_unit_test(threads__of_a_progress_thread_take_a_lock),
		cmocka_unit_test(counters__as_many_as_there_is_room_for),
		cmocka_unit_test(polls__look_once),
		cmocka_unit_test(option_set__of_an_open_endpoint),
	};

	return cmocka_run_group_tests_name("endpoint", tests, NULL, NULL);
}
