/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_wakeup: it ends each kind of wait, on its endpoint and no other, and what was waited for can be waited for again.
 * Runs alone.
 *
 *   -n rounds (20)
 */
#include "mx_test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define NEVER TEST_KIND(0x10)
#define MESSAGE TEST_KIND(0x11)

enum { ROUNDS = 20, IDLE_WAKEUPS = 1000, SLEEPERS = 12, LOOKS = 20000, FILES = 64 };

enum kind { WAIT_RECEIVE, WAIT_SEND, WAIT_ANY, PEEK, PROBE, KINDS };

static const char *const names[KINDS] = {"mx_wait for a receive", "mx_wait for a send", "mx_wait_any", "mx_peek",
					 "mx_probe"};

struct waiter {
	mx_endpoint_t endpoint;
	enum kind kind;
	mx_request_t request; /* of the first two */
	mx_status_t status;
	uint32_t result;
	atomic_bool started, ended;
	pid_t id; /* once it has started */
	pthread_t thread;
};

static void *wait_for_ever(void *arg)
{
	struct waiter *waiter = arg;
	mx_endpoint_t endpoint = waiter->endpoint;
	mx_request_t found;

	waiter->result = 2;
	waiter->id = gettid();
	atomic_store(&waiter->started, true);
	switch (waiter->kind) {
	case WAIT_RECEIVE:
	case WAIT_SEND:
		MX(mx_wait(endpoint, &waiter->request, MX_INFINITE, &waiter->status, &waiter->result));
		break;
	case WAIT_ANY:
		MX(mx_wait_any(endpoint, MX_INFINITE, 0, 0, &waiter->status, &waiter->result));
		break;
	case PEEK:
		MX(mx_peek(endpoint, MX_INFINITE, &found, &waiter->result));
		break;
	case PROBE:
		MX(mx_probe(endpoint, MX_INFINITE, MESSAGE, TEST_KIND_MASK, &waiter->status, &waiter->result));
		break;
	case KINDS:
		break;
	}
	atomic_store(&waiter->ended, true);
	return NULL;
}

static void waiter_start(struct waiter *waiter, mx_endpoint_t endpoint, enum kind kind, mx_request_t request)
{
	waiter->endpoint = endpoint;
	waiter->kind = kind;
	waiter->request = request;
	atomic_init(&waiter->started, false);
	atomic_init(&waiter->ended, false);
	CHECK_EQUAL(pthread_create(&waiter->thread, NULL, wait_for_ever, waiter), 0);
}

/* Only who waits already is woken: so we do it until it has happened. */
static void waiter_wake(struct waiter *waiter)
{
	while (!atomic_load(&waiter->ended)) {
		MX(mx_wakeup(waiter->endpoint));
		sched_yield();
	}
	pthread_join(waiter->thread, NULL);
	CHECK_EQUAL(waiter->result, 0);
}

static mx_request_t never_received(struct test *test)
{
	return receive_start(test, NULL, 0, NEVER, MX_MATCH_MASK_NONE);
}

/* A send that nobody receives for now. */
static mx_request_t never_matched(struct test *test)
{
	return send_start(test, NULL, 0, NEVER | 1, true);
}

static void each_kind(struct test *test, mx_request_t receive, mx_request_t send)
{
	struct waiter waiter;

	for (enum kind kind = 0; kind < KINDS; kind++) {
		phase("waking %s", names[kind]);
		waiter_start(&waiter, test->endpoint, kind, kind == WAIT_RECEIVE ? receive : send);
		waiter_wake(&waiter);
		CHECK(waiter.request != NULL);
	}
}

static void *cancelled_while_it_waits(void *arg)
{
	mx_endpoint_t endpoint = arg;
	mx_status_t status;
	uint32_t result;

	pthread_cancel(pthread_self());
	MX(mx_wait_any(endpoint, 20, 0, 0, &status, &result));
	pthread_testcancel();
	return NULL;
}

/* A thread that is cancelled in a wait leaves nothing that others would wait for. */
static void cancelled(struct test *test)
{
	pthread_t thread;

	phase("cancelling");
	CHECK_EQUAL(pthread_create(&thread, NULL, cancelled_while_it_waits, test->endpoint), 0);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	MX(mx_progress(test->endpoint));
}

static void all_kinds(struct test *test, mx_request_t receive, mx_request_t send)
{
	struct waiter waiters[2 * KINDS];

	phase("waking all kinds");
	for (unsigned i = 0; i < 2 * KINDS; i++)
		waiter_start(&waiters[i], test->endpoint, i % KINDS, i % KINDS == WAIT_RECEIVE ? receive : send);
	for (unsigned i = 0; i < 2 * KINDS; i++)
		waiter_wake(&waiters[i]);
}

static bool sleeps(const struct waiter *waiter)
{
	char path[64], state = '?';
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)waiter->id);
	file = fopen(path, "r");
	CHECK(file != NULL);
	CHECK_EQUAL(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
	fclose(file);
	return state == 'S';
}

static void all_sleep(const struct waiter *waiters)
{
	static const struct timespec pause = {.tv_nsec = 1000000};
	unsigned asleep = 0;

	for (unsigned look = 0; look < LOOKS && asleep < SLEEPERS; look++) {
		nanosleep(&pause, NULL);
		for (asleep = 0; asleep < SLEEPERS && sleeps(&waiters[asleep]); asleep++)
			continue;
	}
	CHECK_EQUAL(asleep, SLEEPERS);
}

/* Waiters whom something has woken that was not for them go back to sleep, rather than keep each other awake. */
static void asleep_again(struct test *test)
{
	struct waiter waiters[SLEEPERS];
	mx_request_t receive, send;
	mx_status_t status;

	phase("sleeping again");
	for (unsigned i = 0; i < SLEEPERS; i++)
		waiter_start(&waiters[i], test->endpoint, PROBE, NULL);
	for (unsigned i = 0; i < SLEEPERS; i++)
		while (!atomic_load(&waiters[i].started))
			sched_yield();
	for (unsigned i = 0; i < ROUNDS; i++) {
		all_sleep(waiters);
		receive = receive_start(test, NULL, 0, NEVER | 2, MX_MATCH_MASK_NONE);
		send = send_start(test, NULL, 0, NEVER | 2, false);
		receive_finish(test, &receive, 0, NEVER | 2, &status);
		send_finish(test, &send, 0, NEVER | 2);
	}
	all_sleep(waiters);
	for (unsigned i = 0; i < SLEEPERS; i++)
		waiter_wake(&waiters[i]);
}

/* Whoever does not wait yet is not woken later. */
static void early(struct test *test)
{
	mx_request_t receive, send;
	mx_status_t status;

	phase("waking nobody");
	for (unsigned i = 0; i < IDLE_WAKEUPS; i++)
		MX(mx_wakeup(test->endpoint));
	receive = receive_start(test, NULL, 0, MESSAGE, MX_MATCH_MASK_NONE);
	send = send_start(test, NULL, 0, MESSAGE, false);
	receive_finish(test, &receive, 0, MESSAGE, &status);
	send_finish(test, &send, 0, MESSAGE);
}

/* A wait on another endpoint goes on, and gets what it waits for. */
static void other_endpoint(struct test *test)
{
	struct test other = {.endpoint = NULL};
	struct waiter waiter;
	mx_request_t receive, send;

	phase("waking another endpoint");
	MX(mx_open_endpoint(test->board, MX_ANY_ENDPOINT, test->key, NULL, 0, &other.endpoint));
	MX(mx_get_endpoint_addr(other.endpoint, &other.peer));
	receive = receive_start(&other, NULL, 0, MESSAGE, MX_MATCH_MASK_NONE);
	waiter_start(&waiter, other.endpoint, WAIT_RECEIVE, receive);
	while (!atomic_load(&waiter.started))
		sched_yield();
	for (unsigned i = 0; i < IDLE_WAKEUPS; i++)
		MX(mx_wakeup(test->endpoint));
	send = send_start(&other, NULL, 0, MESSAGE, false);
	pthread_join(waiter.thread, NULL);
	CHECK_EQUAL(waiter.result, 1);
	receive_check(&waiter.status, 0, MESSAGE);
	send_finish(&other, &send, 0, MESSAGE);
	MX(mx_close_endpoint(other.endpoint));
}

/* What was waited for in vain is as it was. */
static void finish(struct test *test, mx_request_t *receive, mx_request_t *send)
{
	mx_request_t sent = send_start(test, NULL, 0, NEVER, false);
	mx_request_t received = receive_start(test, NULL, 0, NEVER | 1, MX_MATCH_MASK_NONE);
	mx_status_t status;

	phase("ending what was waited for");
	receive_finish(test, receive, 0, NEVER, &status);
	receive_finish(test, &received, 0, NEVER | 1, &status);
	send_finish(test, send, 0, NEVER | 1);
	send_finish(test, &sent, 0, NEVER);
}

/* A program that has closed what it did not open, and has files of its own by those numbers now, is woken as before,
 * and has in them what it had. */
__attribute__((unused)) static void descriptors_closed(struct test *test)
{
	static const struct timespec pause = {.tv_nsec = 10000000};
	struct waiter waiter;
	int files[FILES];

	phase("waking after closefrom");
	closefrom(STDERR_FILENO + 1);
	for (unsigned i = 0; i < FILES; i++) {
		files[i] = memfd_create("a file of the program's", MFD_CLOEXEC);
		CHECK(files[i] >= 0);
	}
	for (unsigned i = 0; i < test->count; i++) {
		waiter_start(&waiter, test->endpoint, PEEK, NULL);
		while (!atomic_load(&waiter.started))
			sched_yield();
		nanosleep(&pause, NULL); /* it mostly waits by now, which is enough, as there are some rounds */
		waiter_wake(&waiter);
	}
	for (unsigned i = 0; i < FILES; i++) {
		CHECK_EQUAL(lseek(files[i], 0, SEEK_END), 0);
		close(files[i]);
	}
}

int main(int argc, char **argv)
{
	struct test test = {.count = ROUNDS};
	mx_request_t receive, send;

	test_options(&test, "mx_wakeup", argc, argv);
	test_alone(&test, NULL, 0);
	receive = never_received(&test);
	send = never_matched(&test);
	for (unsigned i = 0; i < test.count; i++) {
		each_kind(&test, receive, send);
		all_kinds(&test, receive, send);
		early(&test);
		other_endpoint(&test);
	}
	asleep_again(&test);
	cancelled(&test);
	finish(&test, &receive, &send);
#ifndef __SANITIZE_THREAD__ /* to it the number of a descriptor is memory, and a file of the program's there a race */
	descriptors_closed(&test);
#endif
	return test_end(&test);
}
