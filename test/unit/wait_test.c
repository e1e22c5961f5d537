/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping where the kernel, or a container's filter, has no epoll_pwait2: as long, and ended by the same things. And
 * for whom a caller that polls is made to wait where processes share cores.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>

#include "base/clock.h"
#include "endpoint/endpoint.h"
#include "endpoint/sleep.h"
#include "endpoint/timer.h"
#include "pair.h"
#include "thole.h"
#include "transport/datagram/datagram.h"
#include "transport/datagram/mover.h"

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
int __real_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask);

int __real_getrusage(int who, struct rusage *usage);
int __wrap_getrusage(int who, struct rusage *usage);
int __wrap_sched_getcpu(void);
int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __real_timerfd_create(int clock, int flags);
int __wrap_timerfd_create(int clock, int flags);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *before);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *before);

static int refusal; /* what epoll_pwait2 fails with; 0: nothing */
static _Atomic unsigned asked, polled, timed_out; /* progress threads sleep, too */
static _Atomic unsigned timers;                   /* that were set, or taken back */
static bool timers_wanting;                       /* there is no descriptor for one */
static pthread_t program; /* has one core, all other threads have another: */
enum { PROGRAM_CORE = 3, OTHER_CORE = 5 };
static bool at_rest; /* as far as can be seen nobody has lost its core: since long ago, and that thread more often */
static struct thole_endpoint *shared; /* others are to have it while its thread yields or sleeps */

static void shared_look(void)
{
	if (!shared)
		return;
	assert_true(lock_try(&shared->lock));
	lock_leave(&shared->lock);
}

int __wrap_getrusage(int who, struct rusage *usage)
{
	int result = __real_getrusage(who, usage);

	if (at_rest && who == RUSAGE_THREAD)
		usage->ru_nivcsw = pthread_equal(pthread_self(), program) ? 1000 : 10;
	return result;
}

int __wrap_sched_getcpu(void)
{
	return pthread_equal(pthread_self(), program) ? PROGRAM_CORE : OTHER_CORE;
}

int __wrap_sched_yield(void)
{
	shared_look();
	return __real_sched_yield();
}

int __wrap_timerfd_create(int clock, int flags)
{
	if (!timers_wanting)
		return __real_timerfd_create(clock, flags);
	errno = EMFILE;
	return -1;
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *before)
{
	timers++;
	return __real_timerfd_settime(fd, flags, when, before);
}

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	long result;

	if (number != SYS_epoll_pwait2)
		return __real_syscall(number, a, b, c, d, e, f);
	asked++;
	shared_look();
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

/* Whether a call that finds nothing looks again, once in many that come soon after each other. `here`: the peer is on
 * this core, as far as is known. */
static bool looks_again(struct thole_endpoint *endpoint, struct transport_peer *peer, bool here)
{
	for (int i = 0; i < 2000; i++) {
		struct endpoint *outer = endpoint_of(endpoint);
		uint32_t before = outer->idle;

		peer->core_shared = here;
		outer->patience = (struct patience){
			.account = PATIENCE_MAX, .trust = PATIENCE_TRUST_MAX, .told_ns = clock_now_ns()};
		assert_int_equal(thole_progress(endpoint), 0);
		/* A maintenance finds out by itself that it is this very process, which counts as elsewhere. */
		if (peer->core_shared == here && outer->idle > before + 1) {
			/* Each in vain has cost one. */
			assert_int_equal(outer->patience.account + (outer->idle - before - 1), PATIENCE_MAX);
			return true;
		}
	}
	return false;
}

/* Where there are more processes than cores, only who waits for one peer, and that on another core. */
static void again__for_who_may_be_running(void **state)
{
	static const char *const options[] = {"network=off", "local_ranks=100000", "yield=never", NULL};
	const struct thole_endpoint_attr attr = {.options = options};
	struct thole_endpoint *from, *to;
	struct thole_request *request, *receive;
	struct thole_completion done;
	struct thole_address address;
	uint32_t peer;
	int number = 42;

	(void)state;
	assert_int_equal(thole_endpoint_open(&attr, &from), 0);
	assert_int_equal(thole_endpoint_open(&attr, &to), 0);
	thole_endpoint_address(from, &address);
	assert_int_equal(thole_peer(to, &address, &peer), 0);
	assert_int_equal(thole_recv(to, peer, &number, sizeof(number), 1, UINT64_MAX, 0, NULL, &receive), 0);
	assert_true(looks_again(to, &to->peers[peer]->base, false));
	assert_false(looks_again(to, &to->peers[peer]->base, true));
	assert_int_equal(thole_recv(to, THOLE_ANY, &number, sizeof(number), 2, UINT64_MAX, 0, NULL, &request), 0);
	assert_false(looks_again(to, &to->peers[peer]->base, false));
	assert_int_equal(thole_cancel(to, request), 1);
	assert_int_equal(thole_wait(to, request, -1, &done), 0);
	assert_true(looks_again(to, &to->peers[peer]->base, false));
	thole_endpoint_close(from);
	thole_endpoint_close(to);
}

/* Of calls that find nothing most are only counted, but where cores are shared one in a hundred yields: by what the
 * launcher says, or since a peer was seen on this very core. Those are few for which there is none, as the kernel had
 * given the core to others meanwhile. A loss of the core, by which a caller is made to sleep instead, is forgotten
 * between two hundreds. */
static void yields_in_hundreds(const char *ranks, bool seen)
{
	const char *const options[] = {"network=off", ranks, "look_again=0", NULL};
	struct thole_request *receive;
	unsigned once = 0;
	struct pair pair;
	uint8_t byte = 0;

	pair_open(&pair, options);
	assert_int_equal(thole_recv(pair.a, pair.a_to_b, &byte, 1, 0, 0, 0, NULL, &receive), 0);
	for (int i = 0; i < 100; i++) {
		struct endpoint *outer = endpoint_of(pair.a);
		uint64_t yields = outer->own_counters[COUNTER_YIELDS];

		outer->contention = (struct contention){0};
		for (int k = 0; k < 100; k++) {
			pair.a->base.core_shared |= seen; /* until maintenance finds that it is this very process */
			assert_int_equal(thole_progress(pair.a), 0);
		}
		once += outer->own_counters[COUNTER_YIELDS] == yields + 1;
	}
	assert_in_range(once, 80, 100);
	assert_int_equal(thole_send(pair.b, pair.b_to_a, &byte, 1, 0, 0, 0, NULL, NULL), 0);
	assert_int_equal(pair_finish(&pair, pair.a, receive, NULL), 0);
	pair_close(&pair);
}

static void yields__once_in_a_hundred(void **state)
{
	(void)state;
	yields_in_hundreds("local_ranks=100000", false);
	yields_in_hundreds("local_ranks=1", true);
}

static void *polls_a_hundred_times(void *arg)
{
	struct thole_endpoint *endpoint = arg;

	endpoint_lock(endpoint);
	endpoint_of(endpoint)->contention = (struct contention){0};
	endpoint_unlock(endpoint);
	for (int i = 0; i < 100; i++)
		assert_int_equal(thole_progress(endpoint), 0);
	return NULL;
}

/* That one thread has lost its core more often than another, of old, is no yield of its caller's. */
static void yields__of_threads_that_take_turns(void **state)
{
	static const char *const options[] = {"network=off", "local_ranks=100000", "look_again=0", NULL};
	const struct thole_endpoint_attr attr = {.options = options, .threads = THOLE_THREAD_SAFE};
	struct thole_endpoint *endpoint;
	uint64_t *yields;
	pthread_t thread;

	(void)state;
	assert_int_equal(thole_endpoint_open(&attr, &endpoint), 0);
	yields = &endpoint_of(endpoint)->own_counters[COUNTER_YIELDS];
	at_rest = true;
	for (int i = 0; i < 50; i++) {
		polls_a_hundred_times(endpoint);
		assert_int_equal(pthread_create(&thread, NULL, polls_a_hundred_times, endpoint), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
	}
	at_rest = false;
	assert_in_range(*yields, 80, 100);
	thole_endpoint_close(endpoint);
}

static void *waits_for_ever(void *arg)
{
	struct thole_endpoint *endpoint = arg;
	struct thole_request *receive;

	thole_recv(endpoint, THOLE_ANY, NULL, 0, 1, UINT64_MAX, 0, NULL, &receive);
	thole_wait(endpoint, receive, -1, NULL);
	return NULL;
}

static void *sleeps_for_ever(void *arg)
{
	while (thole_sleep(arg, -1) == 0)
		;
	return NULL;
}

/* The one that is done, or was, is collected, and its place is empty then; empty ones are passed over. */
static void wait_any__of_those_that_are_there(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct thole_request *requests[3] = {NULL};
	struct thole_completion done;
	struct pair pair;
	uint64_t turns;
	size_t index = 7;

	(void)state;
	pair_open(&pair, options);
	assert_int_equal(thole_wait_any(pair.a, requests, 3, -1, &index, &done), THOLE_ERR_ARGUMENT);
	for (int i = 1; i < 3; i++)
		assert_int_equal(thole_recv(pair.a, THOLE_ANY, NULL, 0, (uint64_t)i, UINT64_MAX, 0, NULL, &requests[i]),
				 0);
	turns = endpoint_of(pair.a)->idle_calls;
	assert_int_equal(thole_wait_any(pair.a, requests, 3, 0, &index, &done), THOLE_ERR_TIMEOUT);
	assert_int_equal(thole_wait(pair.a, requests[1], 0, &done), THOLE_ERR_TIMEOUT);
	assert_int_equal(endpoint_of(pair.a)->idle_calls, turns + 2); /* one look each */
	assert_int_equal(thole_wait(pair.a, requests[1], 1000000, &done), THOLE_ERR_TIMEOUT);
	assert_int_equal(thole_send(pair.b, pair.b_to_a, NULL, 0, 2, 0, THOLE_INJECT | THOLE_QUIET, NULL, NULL), 0);
	pair_idle(&pair);
	assert_int_equal(thole_wait_any(pair.a, requests, 3, INT64_MAX, &index, &done), 0);
	assert_int_equal(index, 2);
	assert_int_equal(done.tag, 2);
	assert_null(requests[2]);
	assert_int_equal(thole_cancel(pair.a, requests[1]), 1);
	assert_int_equal(thole_wait_any(pair.a, requests, 3, -1, &index, &done), 0);
	assert_int_equal(index, 1);
	assert_int_equal(done.status, THOLE_ERR_CANCELED);
	assert_null(requests[1]);
	pair_close(&pair);
}

/* Other threads have the endpoint while one of them yields, or sleeps, */
static void lock__is_not_kept(void **state)
{
	static const char *const options[] = {"network=off", "spin=0", "yield=always", NULL};
	const struct thole_endpoint_attr attr = {.options = options, .threads = THOLE_THREAD_SAFE};
	struct thole_endpoint *endpoint;

	(void)state;
	refusal = 0;
	assert_int_equal(thole_endpoint_open(&attr, &endpoint), 0);
	shared = endpoint;
	asked = 0;
	assert_int_equal(thole_progress(endpoint), 0);
	assert_int_equal(thole_sleep(endpoint, 500000), THOLE_ERR_TIMEOUT);
	assert_true(asked > 0 && endpoint_of(endpoint)->own_counters[COUNTER_YIELDS] > 0);
	shared = NULL;
	thole_endpoint_close(endpoint);
}

static struct thole_request *awaited;

static void *cancels(void *arg)
{
	clock_sleep(5000000); /* it is probably waited for */
	thole_cancel(arg, awaited);
	return NULL;
}

/* or waits without either. */
static void lock__is_left_now_and_then(void **state)
{
	static const char *const options[] = {"network=off", "spin=10s", "yield=never", NULL};
	const struct thole_endpoint_attr attr = {.options = options, .threads = THOLE_THREAD_SAFE};
	struct thole_endpoint *endpoint;
	struct thole_completion done;
	pthread_t thread;

	(void)state;
	assert_int_equal(thole_endpoint_open(&attr, &endpoint), 0);
	assert_int_equal(thole_recv(endpoint, THOLE_ANY, NULL, 0, 1, UINT64_MAX, 0, NULL, &awaited), 0);
	assert_int_equal(pthread_create(&thread, NULL, cancels, endpoint), 0);
	assert_int_equal(thole_wait(endpoint, awaited, 9000000000, &done), 0);
	assert_int_equal(done.status, THOLE_ERR_CANCELED);
	assert_int_equal(pthread_join(thread, NULL), 0);
	thole_endpoint_close(endpoint);
}

static _Atomic int sleeper_state; /* 1: it is about to sleep; 2: it has */

static void *sleeps_spinning(void *arg)
{
	sleeper_state = 1;
	thole_sleep(arg, 9000000000);
	sleeper_state = 2;
	return NULL;
}

/* Also in thole_sleep, before it sleeps. */
static void lock__is_left_before_a_sleep(void **state)
{
	static const char *const options[] = {"network=off", "spin=10s", "yield=never", NULL};
	const struct thole_endpoint_attr attr = {.options = options, .threads = THOLE_THREAD_SAFE};
	struct thole_endpoint *endpoint;
	pthread_t thread;
	char value[32];

	(void)state;
	refusal = 0;
	sleeper_state = 0;
	asked = 0;
	assert_int_equal(thole_endpoint_open(&attr, &endpoint), 0);
	assert_int_equal(pthread_create(&thread, NULL, sleeps_spinning, endpoint), 0);
	while (sleeper_state == 0)
		clock_sleep(100000);
	clock_sleep(5000000); /* it probably spins */
	assert_int_equal(thole_option_get(endpoint, "spin", value, sizeof(value)), 0);
	assert_int_equal(asked, 0);
	assert_int_equal(sleeper_state, 1);
	assert_int_equal(pthread_cancel(thread), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(asked, 0); /* there it can be cancelled, too */
	thole_endpoint_close(endpoint);
}

/* A thread is cancelled while it waits, also where nothing will ever wake it, and leaves the lock. */
static void wait__is_a_point_of_cancellation(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	void *(*const runs[])(void *) = {waits_for_ever, sleeps_for_ever};
	struct thole_endpoint *endpoint;

	(void)state;
	refusal = 0; /* ppoll would be such a point, where nothing is held */
	for (int i = 0; i < 4; i++) {
		const struct thole_endpoint_attr attr = {
			.options = options, .threads = i & 2 ? THOLE_THREAD_SAFE : THOLE_THREAD_SINGLE};
		unsigned sleeps = i & 2 ? 3 : 1;
		pthread_t thread;
		void *result;

		asked = 0;
		assert_int_equal(thole_endpoint_open(&attr, &endpoint), 0);
		assert_int_equal(pthread_create(&thread, NULL, runs[i & 1], endpoint), 0);
		while (asked < sleeps)
			clock_sleep(100000);
		clock_sleep(1000000); /* it is probably asleep */
		assert_int_equal(pthread_cancel(thread), 0);
		assert_int_equal(pthread_join(thread, &result), 0);
		assert_ptr_equal(result, PTHREAD_CANCELED);
		assert_true(lock_try(&endpoint->lock));
		lock_leave(&endpoint->lock);
		thole_endpoint_close(endpoint);
	}
}

/* Who is to be closed waits for its peers, and for no longer than closing does. */
static void drain__until_all_has_arrived(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		const char *const options[] = {"network=off", i ? "close_timeout=0" : "close_timeout=3600s", NULL};
		struct pair pair;
		uint8_t byte = 0;

		pair_open(&pair, options);
		assert_int_equal(thole_drain(pair.a), 1);
		for (int k = 0; k < 1000; k++) /* more than a ring holds */
			assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 0, 0, THOLE_INJECT, NULL, NULL), 0);
		for (int k = 0; k < 100; k++)
			assert_int_equal(thole_drain(pair.a), i); /* b has read nothing */
		for (int k = 0; k < 10000 && !i; k++)
			if (!thole_drain(pair.a))
				thole_progress(pair.b);
		assert_int_equal(thole_drain(pair.a), 1);
		assert_int_equal(thole_tend(pair.a), i);
		pair_close(&pair);
	}
}

/* Who stood still gave nobody a chance: such a pause is no more than a part of the time that there is. */
static void drain__does_not_end_by_a_pause(void **state)
{
	static const char *const options[] = {"network=off", "close_timeout=2ms", NULL};
	struct pair pair;
	uint8_t byte = 0;

	(void)state;
	pair_open(&pair, options);
	for (int k = 0; k < 1000; k++) /* more than a ring holds */
		assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 0, 0, THOLE_INJECT, NULL, NULL), 0);
	assert_int_equal(thole_drain(pair.a), 0);
	for (int k = 1; k <= DRAIN_PAUSES; k++) {
		clock_sleep_through(4000000);
		assert_int_equal(thole_drain(pair.a), k == DRAIN_PAUSES);
	}
	pair_close(&pair);
}

/* What was reported complete and waits for room at its peer is what there is to see to, and nothing else. */
static void tend__what_was_sent(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct thole_request *receive;
	struct pair pair;
	uint8_t byte = 0;

	(void)state;
	pair_open(&pair, options);
	assert_int_equal(thole_tend(pair.a), 0);
	for (int i = 0; i < 1000; i++) /* more than a ring holds */
		assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 0, 0, THOLE_INJECT, NULL, NULL), 0);
	assert_int_equal(thole_tend(pair.a), 1); /* b has read nothing */
	for (int i = 0; i < 1000 && thole_tend(pair.a); i++)
		for (int k = 0; k < 100; k++)
			thole_progress(pair.b);
	assert_int_equal(thole_tend(pair.a), 0);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(thole_recv(pair.b, pair.b_to_a, &byte, 1, 0, 0, 0, NULL, &receive), 0);
		assert_int_equal(thole_wait(pair.b, receive, -1, NULL), 0);
	}
	pair_close(&pair);
}

/* The core on which a's peer takes its program to wait: 0 says that it is not known. */
static uint32_t core_of(const struct pair *pair)
{
	const struct shm_peer *link;
	uint32_t core;

	endpoint_lock(pair->a);
	link = pair->a->peers[pair->a_to_b]->base.link;
	core = load_relaxed(&link->in.segment->core);
	endpoint_unlock(pair->a);
	return core;
}

static void connected(struct pair *pair, const char *const *options)
{
	struct thole_request *receive;
	uint8_t byte = 0;

	pair_open(pair, options);
	assert_int_equal(thole_recv(pair->a, pair->a_to_b, &byte, 1, 0, 0, 0, NULL, &receive), 0);
	assert_int_equal(thole_send(pair->b, pair->b_to_a, &byte, 1, 0, 0, THOLE_INJECT, NULL, NULL), 0);
	assert_int_equal(pair_finish(pair, pair->a, receive, NULL), 0);
}

static void *tends_once(void *arg)
{
	thole_tend(arg);
	return NULL;
}

/* Peers are told the core on which the program waits, not that of who looks after its endpoint meanwhile. */
static void tend__by_a_thread_on_another_core(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct thole_region *region;
	struct pair pair;
	pthread_t thread;
	uint64_t since_ns;
	uint8_t byte = 0;

	(void)state;
	connected(&pair, options);
	pair_idle(&pair);
	assert_int_equal(thole_expose(pair.a, &byte, 1, THOLE_ACCESS_PUT, 0, NULL, &region), 0);
	assert_int_equal(core_of(&pair), PROGRAM_CORE + 1);
	since_ns = clock_now_ns();
	assert_int_equal(pthread_create(&thread, NULL, tends_once, pair.a), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(endpoint_of(pair.a)->cadence.maintained_ns >= since_ns);
	assert_int_equal(core_of(&pair), PROGRAM_CORE + 1);
	thole_unexpose(pair.a, region);
	pair_close(&pair);
}

/* Nor that of the progress thread, of which nobody waits for anything. */
static void thread__says_no_core(void **state)
{
	static const char *const options[] = {"network=off", "progress_thread=on", NULL};
	struct pair pair;
	uint64_t since_ns, maintained_ns;

	(void)state;
	connected(&pair, options);
	for (int i = 0; i < 3; i++) {
		since_ns = clock_now_ns();
		do {
			endpoint_lock(pair.a);
			maintained_ns = endpoint_of(pair.a)->cadence.maintained_ns;
			endpoint_unlock(pair.a);
		} while (maintained_ns < since_ns);
		assert_int_not_equal(core_of(&pair), OTHER_CORE + 1);
	}
	pair_close(&pair);
}

/* An event loop that sleeps on the descriptor is woken by what comes, so it is left to it. */
static void tend__not_while_a_loop_sleeps(void **state)
{
	static const char *const options[] = {"shm=off", "job_key=1", "interface=lo", NULL};
	struct thole_completion completion;
	struct pair pair;
	uint8_t byte = 0;

	(void)state;
	pair_open(&pair, options);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, &byte, 1, 0, 0, THOLE_INJECT, NULL, NULL), 0);
	while (thole_arm(pair.a) != 0)
		;
	for (int i = 0; i < 1000; i++) {
		thole_progress(pair.b); /* its answer waits at a's socket */
		assert_int_equal(thole_tend(pair.a), 1);
	}
	assert_int_equal(thole_probe(pair.b, THOLE_ANY, 0, 0, 0, &completion), 0);
	while (thole_progress(pair.a) == 0)
		;
	while (thole_tend(pair.a))
		thole_progress(pair.b);
	assert_int_equal(thole_probe(pair.b, THOLE_ANY, 0, 0, 0, &completion), 1);
	pair_close(&pair);
}

static unsigned no_reports(struct mover *mover, const struct mover_reports *reports, struct engine *engine)
{
	(void)mover;
	(void)reports;
	(void)engine;
	return 0;
}

/* Where something moves large messages while the program computes, they are matched meanwhile: so is whatever is
 * awaited. Elsewhere that waits for a call. */
static void tend__what_moves_by_itself(void **state)
{
	static const char *const options[] = {"shm=off", "job_key=1", "interface=lo", "driver=off", NULL};
	static const struct mover_calls calls = {.poll = no_reports};
	struct mover mover = {.calls = &calls, .least = UINT64_MAX};
	static char room[1 << 16];
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	assert_int_equal(thole_recv(pair.b, THOLE_ANY, room, sizeof(room), 9, UINT64_MAX, THOLE_MULTI, NULL, NULL), 0);
	for (int moves = -1; moves < 2; moves++) { /* first they connect */
		struct link *link = datagram_of(&pair.b->base)->engine.links[0];
		struct thole_request *send, *receive;
		struct thole_completion done;
		uint8_t byte = 0;

		link->mover = moves > 0 ? &mover : NULL;
		while (thole_tend(pair.b))
			thole_progress(pair.a);
		assert_int_equal(thole_tend(pair.b), 0); /* a buffer for small ones says nothing of large ones */
		assert_int_equal(thole_recv(pair.b, pair.b_to_a, &byte, 1, 0, 0, 0, NULL, &receive), 0);
		assert_int_equal(thole_tend(pair.b), moves > 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, "x", 1, 0, 0, 0, NULL, &send), 0);
		for (int i = 0; i < 1000 && receive->state != REQUEST_DONE; i++) {
			thole_progress(pair.a);
			thole_tend(pair.b);
		}
		if (moves >= 0)
			assert_int_equal(receive->state == REQUEST_DONE, moves);
		while (thole_test(pair.b, receive, &done) == 0)
			thole_progress(pair.a);
		while (thole_test(pair.a, send, &done) == 0)
			thole_progress(pair.b);
		assert_int_equal(byte, 'x');
		link->mover = NULL;
	}
	pair_close(&pair);
}

/* Whatever was started since, a loop that has armed was not told what it waits for. */
static void arm__and_start(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	static char bytes[1 << 20];
	uint64_t one = 1;
	const struct iovec segment = {bytes, 8};
	const struct thole_atomic atomic = {
		.op = THOLE_SUM, .type = THOLE_UINT64, .count = 1, .operand = &one, .key = 5};
	struct thole_region *region;
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	assert_int_equal(thole_expose(pair.a, bytes, sizeof(bytes),
				      THOLE_ACCESS_PUT | THOLE_ACCESS_GET | THOLE_ACCESS_ATOMIC, 5, NULL, &region), 0);
	for (int i = 0; i < 5; i++) {
		struct thole_request *request = NULL;

		while (thole_arm(pair.b) != 0)
			pair_progress(&pair, 1);
		assert_false(endpoint_has_started(pair.b));
		if (i < 2)
			assert_int_equal(thole_send(pair.b, pair.b_to_a, bytes, i ? sizeof(bytes) : 8, 1, 0, 0, NULL,
						    &request), 0);
		else if (i == 2)
			assert_int_equal(thole_put(pair.b, pair.b_to_a, &segment, 1, 5, 0, 0, 0, NULL, &request), 0);
		else if (i == 3)
			assert_int_equal(thole_get(pair.b, pair.b_to_a, &segment, 1, 5, 0, 0, NULL, &request), 0);
		else
			assert_int_equal(thole_atomic(pair.b, pair.b_to_a, &atomic, 0, NULL, &request), 0);
		assert_true(endpoint_has_started(pair.b));
		if (i < 2)
			assert_int_equal(thole_recv(pair.a, THOLE_ANY, bytes, sizeof(bytes), 1, 0, 0, NULL, NULL), 0);
		assert_int_equal(pair_finish(&pair, pair.b, request, NULL), 0);
	}
	thole_unexpose(pair.a, region);
	pair_close(&pair);
}

/* What one transport has to see to keeps an endpoint awake, though the next one has nothing. */
static void arm__of_several_transports(void **state)
{
	static const char *const options[] = {"job_key=1", "interface=lo", NULL};
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	for (int i = 0; i < 2; i++) {
		while (thole_arm(pair.a) != 0)
			pair_progress(&pair, 1);
		assert_int_equal(thole_send(pair.b, pair.b_to_a, "x", 1, 1, 0,
					    THOLE_INJECT | THOLE_QUIET, NULL, NULL), 0);
		if (i) /* they are connected */
			assert_int_equal(thole_arm(pair.a), THOLE_ERR_AGAIN);
		pair_idle(&pair);
	}
	pair_close(&pair);
}

enum { TALKERS = 40, TALKS_MAX = 100000 };

static int talkers[TALKERS];
static unsigned talks;

static void talker_ready(struct transport_owner *owner, struct watcher *watcher, uint64_t now_ns)
{
	(void)owner, (void)watcher, (void)now_ns;
	if (++talks == TALKS_MAX) /* for ever */
		for (int i = 0; i < TALKERS; i++)
			close(talkers[i]);
}

/* To whom each call brings something, descriptors are looked at all the same: others want to connect. */
static void busy__looks_at_descriptors(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	static char room[1 << 20];
	struct watcher watcher = {.ready = talker_ready};
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = &watcher};
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	assert_int_equal(thole_recv(pair.a, THOLE_ANY, room, sizeof(room), 1, UINT64_MAX, THOLE_MULTI, NULL, NULL), 0);
	for (int i = 0; i < 2; i++) { /* the first one connects */
		assert_int_equal(thole_send(pair.b, pair.b_to_a, "x", 1, 1, 0,
					    THOLE_INJECT | THOLE_QUIET, NULL, NULL), 0);
		pair_idle(&pair);
	}
	talks = 0;
	talkers[0] = eventfd(1, EFD_CLOEXEC);
	assert_int_equal(epoll_ctl(pair.a->base.wait_fd, EPOLL_CTL_ADD, talkers[0], &event), 0);
	for (int i = 0; i < 5000; i++) {
		assert_int_equal(thole_send(pair.b, pair.b_to_a, "x", 1, 1, 0,
					    THOLE_INJECT | THOLE_QUIET, NULL, NULL), 0);
		assert_int_equal(thole_progress(pair.a), 1);
	}
	assert_in_range(talks, 1, 5000);
	close(talkers[0]);
	pair_close(&pair);
}

/* Of descriptors that are always ready each call handles some, and ends. */

static void events__never_end(void **state)
{
	struct watcher watcher = {.ready = talker_ready};
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = &watcher};
	struct thole_endpoint *endpoint = opened();

	(void)state;
	talks = 0;
	for (int i = 0; i < TALKERS; i++) {
		talkers[i] = eventfd(1, EFD_CLOEXEC);
		assert_int_equal(epoll_ctl(endpoint->base.wait_fd, EPOLL_CTL_ADD, talkers[i], &event), 0);
	}
	assert_int_equal(thole_sleep(endpoint, 1000000000), 0);
	assert_in_range(talks, TALKERS, TALKS_MAX - 1);
	for (int i = 0; i < TALKERS; i++)
		close(talkers[i]);
	thole_endpoint_close(endpoint);
}

static uint32_t turns_of(struct thole_endpoint *endpoint)
{
	uint32_t turns;

	endpoint_lock(endpoint);
	turns = endpoint_of(endpoint)->calls + endpoint_of(endpoint)->idle_calls;
	endpoint_unlock(endpoint);
	return turns;
}

/* The progress thread leaves what comes to an event loop that sleeps, and what it did before is looked at first. */
static void arm__beside_the_progress_thread(void **state)
{
	static const char *const options[] = {"network=off", "progress_thread=on", NULL};
	struct thole_endpoint *endpoint = pair_endpoint(NULL, NULL, options);
	uint32_t turns;

	(void)state;
	for (int i = 0; i < 3; i++) {
		while (thole_arm(endpoint) != 0)
			clock_sleep(100000);
		turns = turns_of(endpoint);
		clock_sleep(50000000);
		assert_int_equal(turns_of(endpoint), turns);
		thole_progress(endpoint);
		turns = turns_of(endpoint);
		while (turns_of(endpoint) == turns)
			clock_sleep(100000);
		assert_int_equal(thole_arm(endpoint), THOLE_ERR_AGAIN);
	}
	thole_endpoint_close(endpoint);
}

/* What is sent after arming, and finds no room, leaves all the same: by the thread, or by who tends. */
static void send_armed(const char *const *options, bool tends)
{
	enum { COUNT = 20000 };
	static const char *const alone[] = {"network=off", NULL};
	struct pollfd poller = {.events = POLLIN};
	struct thole_completion done;
	struct pair pair;

	pair.a = pair_endpoint(NULL, NULL, alone);
	pair.b = pair_endpoint(NULL, NULL, options);
	pair.b_to_a = pair_peer(pair.b, pair.a);
	for (uint64_t i = 0; i <= COUNT; i++) {
		while (i == 1 && thole_arm(pair.b) != 0)
			thole_progress(pair.b);
		assert_int_equal(thole_send(pair.b, pair.b_to_a, &i, sizeof(i), i, 0, THOLE_INJECT | THOLE_QUIET, NULL,
					    NULL), 0);
	}
	for (uint64_t i = 0; i <= COUNT; i++) {
		int found = 0;

		for (int turn = 0; turn < PAIR_TURNS_MAX && !found; turn++) {
			found = thole_probe(pair.a, THOLE_ANY, i, UINT64_MAX, THOLE_DISCARD, &done);
			if (!found && tends)
				thole_tend(pair.b);
			else if (!found)
				clock_sleep(20000);
		}
		assert_true(found);
	}
	poller.fd = thole_fd(pair.b);
	assert_int_equal(poll(&poller, 1, 10000), 1); /* if it sleeps there after all */
	thole_endpoint_close(pair.b);
	thole_endpoint_close(pair.a);
}

static void arm__and_send_beside_the_progress_thread(void **state)
{
	static const char *const options[] = {"network=off", "progress_thread=on", "sends_max=32768", NULL};

	(void)state;
	send_armed(options, false);
}

static void arm__and_send_beside_who_tends(void **state)
{
	static const char *const options[] = {"network=off", "sends_max=32768", NULL};

	(void)state;
	send_armed(options, true);
}

/* A peer that always has one more message keeps nobody out for long, nor the endpoint from closing. */

enum { CHATS_MAX = 4000000 };

static unsigned chats, chats_max;

static void chat(void *arg, const struct thole_completion *completion)
{
	const struct pair *pair = arg;

	(void)completion;
	if (add_relaxed(&chats, 1) + 1 < load_relaxed(&chats_max))
		thole_send(pair->a, pair->a_to_b, NULL, 0, 1, 0, THOLE_QUIET, NULL, NULL);
}

static void thread__lets_others_in(void **state)
{
	static const char *const alone[] = {"network=off", NULL};
	static const char *const options[] = {"network=off", "progress_thread=on", NULL};
	/* the program sends once, then the thread */
	const struct thole_endpoint_attr both = {.options = alone, .threads = THOLE_THREAD_SAFE};
	static char room[1 << 20];
	struct pair pair;
	uint64_t value;

	(void)state;
	chats = 0;
	chats_max = CHATS_MAX;
	assert_int_equal(thole_endpoint_open(&both, &pair.a), 0);
	pair.b = pair_endpoint(chat, &pair, options);
	pair.a_to_b = pair_peer(pair.a, pair.b);
	assert_int_equal(thole_recv(pair.b, THOLE_ANY, room, sizeof(room), 1, UINT64_MAX, THOLE_MULTI, NULL, NULL), 0);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, NULL, 0, 1, 0, THOLE_QUIET, NULL, NULL), 0);
	while (load_relaxed(&chats) == 0)
		clock_sleep(100000);
	thole_counters(pair.b, &value, 1);
	assert_in_range(load_relaxed(&chats), 1, CHATS_MAX - 1);
	store_relaxed(&chats_max, 0);
	thole_endpoint_close(pair.b);
	thole_endpoint_close(pair.a);
}

/* A program that has armed may be woken by something else, and compute. The thread steps in, and who sleeps on the
 * descriptor after all is told. */
static void arm__and_compute_beside_the_progress_thread(void **state)
{
	static const char *const alone[] = {"network=off", NULL};
	static const char *const options[] = {"network=off", "progress_thread=on", NULL};
	static char from[1 << 20], to[sizeof(from)];
	struct pollfd poller = {.events = POLLIN};
	struct thole_request *send, *receive;
	struct thole_completion done;
	struct pair pair;

	(void)state;
	pair.a = pair_endpoint(NULL, NULL, alone);
	pair.b = pair_endpoint(NULL, NULL, options);
	pair.a_to_b = pair_peer(pair.a, pair.b);
	poller.fd = thole_fd(pair.b);
	for (int i = 0; i < 3; i++) {
		from[0] = (char)i;
		assert_int_equal(thole_recv(pair.b, THOLE_ANY, to, sizeof(to), 1, UINT64_MAX, 0, NULL, &receive), 0);
		while (thole_arm(pair.b) != 0)
			thole_progress(pair.b);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, from, sizeof(from), 1, 0, 0, NULL, &send), 0);
		assert_int_equal(thole_wait(pair.a, send, 10000000000, &done), 0);
		assert_int_equal(poll(&poller, 1, 10000), 1);
		assert_int_equal(thole_wait(pair.b, receive, -1, &done), 0);
		assert_int_equal(to[0], i);
	}
	thole_endpoint_close(pair.b);
	thole_endpoint_close(pair.a);
}

/* A receive of another thread's takes what has come, and that is to be fetched, which nobody else would do. */
static void arm__and_receive(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	static char from[1 << 20], to[sizeof(from)];
	struct thole_request *send, *receive;
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, from, sizeof(from), 1, 0, 0, NULL, &send), 0);
	pair_idle(&pair);
	while (thole_arm(pair.b) != 0)
		thole_progress(pair.b);
	assert_false(pair_readable(pair.b));
	assert_int_equal(thole_recv(pair.b, pair.b_to_a, to, sizeof(to), 1, UINT64_MAX, 0, NULL, &receive), 0);
	assert_true(pair_readable(pair.b));
	assert_int_equal(pair_finish(&pair, pair.b, receive, NULL), 0);
	assert_int_equal(pair_finish(&pair, pair.a, send, NULL), 0);
	pair_close(&pair);
}

struct other {
	struct thole_endpoint *endpoint;
	struct thole_request *receive; /* NULL: one look, which finds nothing */
};

static void *other_run(void *arg)
{
	struct other *other = arg;

	if (other->receive)
		assert_int_equal(thole_wait(other->endpoint, other->receive, -1, NULL), 0);
	else
		assert_int_equal(thole_progress(other->endpoint), 0);
	return NULL;
}

/* Another thread that has looked meanwhile may have taken the wake-up, or what it was for. The loop's own thread, once
 * it is awake, rouses nobody. */
static void arm__and_others_look(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	const struct thole_endpoint_attr safe = {.options = options, .threads = THOLE_THREAD_SAFE};
	char bytes[2] = {0};

	(void)state;
	for (int finds = 0; finds < 2; finds++) {
		struct pair pair;
		struct other other = {0};
		struct pollfd poller = {.events = POLLIN};
		pthread_t thread;

		pair.a = pair_endpoint(NULL, NULL, options);
		assert_int_equal(thole_endpoint_open(&safe, &pair.b), 0);
		pair.a_to_b = pair_peer(pair.a, pair.b);
		pair.b_to_a = pair_peer(pair.b, pair.a);
		other.endpoint = pair.b;
		poller.fd = thole_fd(pair.b);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, bytes, 1, 0, 0, 0, NULL, NULL), 0);
		pair_idle(&pair);
		if (finds)
			assert_int_equal(thole_recv(pair.b, pair.b_to_a, bytes, 1, 1, UINT64_MAX, 0, NULL,
						    &other.receive), 0);
		while (thole_arm(pair.b) != 0)
			thole_progress(pair.b);
		assert_false(pair_readable(pair.b));
		assert_int_equal(pthread_create(&thread, NULL, other_run, &other), 0);
		if (finds)
			assert_int_equal(thole_send(pair.a, pair.a_to_b, bytes, 1, 1, 0, 0, NULL, NULL), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_true(endpoint_of(pair.b)->roused);
		assert_int_equal(pair.b->base.asleep_until_ns == 0, finds); /* at once */
		assert_int_equal(poll(&poller, 1, 10000), 1);
		while (thole_arm(pair.b) != 0)
			thole_progress(pair.b);
		thole_progress(pair.b);
		other.receive = NULL;
		assert_int_equal(pthread_create(&thread, NULL, other_run, &other), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_false(endpoint_of(pair.b)->roused);
		pair_close(&pair);
	}
}

/* A send that looks whether there is more room, since that gets little, takes notice of whatever has come, and no
 * descriptor shows that any more. */
static void arm__and_send_with_little_room(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	static const struct iovec nothing = {NULL, 0};

	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		struct pair pair;

		pair_open(&pair, options);
		assert_int_equal(thole_send(pair.b, pair.b_to_a, NULL, 0, 0, 0, THOLE_QUIET, NULL, NULL), 0);
		pair_idle(&pair);
		while (thole_arm(pair.b) != 0)
			thole_progress(pair.b);
		assert_int_not_equal(pair.b->base.asleep_until_ns, 0);
		pair.b->base.tight = true;
		if (whole)
			assert_int_equal(thole_send(pair.b, pair.b_to_a, NULL, 0, 0, 0, THOLE_QUIET, NULL, NULL), 0);
		else
			assert_int_equal(thole_sendv(pair.b, pair.b_to_a, &nothing, 1, 0, 0, THOLE_QUIET, NULL, NULL),
					 0);
		assert_false(pair.b->base.tight); /* it has looked */
		assert_int_equal(pair.b->base.asleep_until_ns, 0);
		assert_true(endpoint_of(pair.b)->roused);
		pair_close(&pair);
	}
}

/* In a thread of its own, which ends. */
static void other_does(void *(*run)(void *arg), void *arg)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, run, arg), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* An endpoint that threads share, on whose descriptor an event loop of this thread's is about to sleep. */
static void loop_open(struct pair *pair, const char *const *options)
{
	static const char *const alone[] = {"network=off", NULL};
	const struct thole_endpoint_attr safe = {.options = options, .threads = THOLE_THREAD_SAFE};

	pair->a = pair_endpoint(NULL, NULL, alone);
	assert_int_equal(thole_endpoint_open(&safe, &pair->b), 0);
	pair->a_to_b = pair_peer(pair->a, pair->b);
	pair->b_to_a = pair_peer(pair->b, pair->a);
	assert_int_equal(thole_send(pair->a, pair->a_to_b, NULL, 0, 0, 0, 0, NULL, NULL), 0);
	pair_idle(pair); /* they are connected */
}

static void loop_arm(struct thole_endpoint *endpoint)
{
	while (thole_arm(endpoint) != 0)
		thole_progress(endpoint);
	assert_false(pair_readable(endpoint));
}

static bool loop_wakes(struct thole_endpoint *endpoint)
{
	struct pollfd poller = {.fd = thole_fd(endpoint), .events = POLLIN};

	return poll(&poller, 1, 1000) == 1;
}

static void *looks(void *arg)
{
	thole_progress(arg);
	return NULL;
}

/* Of two times at which a sleep is to end the earlier one stays; and what is due is not set again. */
static void rouse__the_earlier_stays(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	enum { LATER_NS = 1000000000 };
	struct pair pair;

	(void)state;
	loop_open(&pair, options);
	for (int i = 0; i < 2; i++) {
		loop_arm(pair.b);
		if (i)
			endpoint_rouse(&pair.b->base, clock_now_ns() + 3600ull * LATER_NS);
		other_does(looks, pair.b);
		timers = 0;
		endpoint_rouse(&pair.b->base, clock_now_ns() + 3600ull * LATER_NS);
		assert_int_equal(timers, 0);
		assert_true(loop_wakes(pair.b));
	}
	loop_arm(pair.b);
	endpoint_rouse(&pair.b->base, clock_now_ns() + 3600ull * LATER_NS);
	timers = 0;
	for (uint64_t i = 0; i < 3; i++) {
		struct other other = {.endpoint = pair.b};

		assert_int_equal(thole_recv(pair.b, pair.b_to_a, NULL, 0, 7, UINT64_MAX, 0, NULL, &other.receive), 0);
		assert_int_equal(thole_send(pair.a, pair.a_to_b, NULL, 0, 7, 0, 0, NULL, NULL), 0);
		other_does(other_run, &other);
		assert_int_equal(timers, 1);
	}
	assert_true(loop_wakes(pair.b));
	pair_close(&pair);
}

static void *sends_nothing(void *arg)
{
	const struct pair *pair = arg;

	assert_int_equal(thole_send(pair->b, pair->b_to_a, NULL, 0, 0, 0, 0, NULL, NULL), 0);
	return NULL;
}

/* What another thread completes wakes a loop also where descriptors have run out since it armed; and without one for
 * that it does not sleep. */
static void rouse__has_its_timer_before_the_sleep(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct pair pair;

	(void)state;
	loop_open(&pair, options);
	timers_wanting = true;
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(thole_arm(pair.b), THOLE_ERR_AGAIN);
		thole_progress(pair.b);
	}
	timers_wanting = false;
	loop_arm(pair.b);
	timers_wanting = true;
	other_does(sends_nothing, &pair);
	timers_wanting = false;
	assert_true(loop_wakes(pair.b));
	pair_close(&pair);
}

/* Who could not be roused is so by what comes next. */
static void rouse__is_tried_again(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	loop_arm(pair.a);
	timers_wanting = true;
	transport_rouse(&pair.a->base, 0);
	timers_wanting = false;
	assert_false(endpoint_of(pair.a)->roused);
	transport_rouse(&pair.a->base, 0);
	assert_true(endpoint_of(pair.a)->roused);
	assert_true(loop_wakes(pair.a));
	pair_close(&pair);
}

static int timers_there(void **state)
{
	(void)state;
	timers_wanting = false;
	return 0;
}

static void *waits_shortly(void *arg)
{
	struct thole_request *receive;

	assert_int_equal(thole_recv(arg, THOLE_ANY, NULL, 0, 8, UINT64_MAX, 0, NULL, &receive), 0);
	assert_int_equal(thole_wait(arg, receive, 20000000, NULL), THOLE_ERR_TIMEOUT);
	assert_int_equal(thole_cancel(arg, receive), 1);
	return NULL;
}

/* What rouses a loop is there until it comes, however often others look; and they sleep all the same. */
static void arm__and_others_wait(void **state)
{
	static const char *const options[] = {"network=off", "spin=0", NULL};
	struct pair pair;

	(void)state;
	refusal = 0;
	loop_open(&pair, options);
	loop_arm(pair.b);
	other_does(looks, pair.b);
	assert_true(loop_wakes(pair.b));
	asked = 0;
	other_does(waits_shortly, pair.b);
	assert_true(pair_readable(pair.b));
	assert_in_range(asked, 0, 20); /* it cannot on the descriptor */
	while (thole_arm(pair.b) != 0)
		thole_progress(pair.b);
	assert_false(pair_readable(pair.b));
	pair_close(&pair);
}

/* So it is beside the progress thread, which looks, too, once another thread has, and finds things; nor does it come
 * round all the time until the loop has. */
static void arm__and_others_look_beside_the_progress_thread(void **state)
{
	static const char *const options[] = {"network=off", "progress_thread=on", NULL};
	uint64_t rouse_ns = UINT64_MAX;
	uint32_t calls;
	struct pair pair;

	(void)state;
	refusal = 0;
	loop_open(&pair, options);
	loop_arm(pair.b);
	calls = endpoint_of(pair.b)->calls;
	other_does(looks, pair.b);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, NULL, 0, 7, 0, 0, NULL, NULL), 0);
	for (int i = 0; i < 10000 && rouse_ns != 0; i++) {
		endpoint_lock(pair.b);
		if (endpoint_of(pair.b)->calls != calls) {
			assert_true(endpoint_of(pair.b)->roused);
			rouse_ns = endpoint_of(pair.b)->rouse_ns;
			i = 10000;
		}
		endpoint_unlock(pair.b);
		clock_sleep(100000);
	}
	assert_int_equal(rouse_ns, 0);
	assert_true(loop_wakes(pair.b));
	asked = 0;
	clock_sleep(50000000);
	assert_in_range(asked, 0, 20);
	assert_true(loop_wakes(pair.b));
	pair_close(&pair);
}

static void *tends(void *arg)
{
	assert_int_equal(thole_tend(arg), 1);
	return NULL;
}

static void *drains(void *arg)
{
	assert_int_equal(thole_drain(arg), 0);
	return NULL;
}

/* Who tends or drains looks as well. */
static void arm__and_others_tend(void **state)
{
	static const char *const options[] = {"network=off", NULL};

	(void)state;
	for (int drained = 0; drained < 2; drained++) {
		struct pair pair;

		loop_open(&pair, options);
		loop_arm(pair.b);
		for (int i = 0; i < 1000; i++) /* more than a ring holds */
			assert_int_equal(thole_send(pair.b, pair.b_to_a, NULL, 0, 0, 0, THOLE_INJECT | THOLE_QUIET,
						    NULL, NULL), 0);
		endpoint_roused(pair.b); /* it was, for these */
		if (!drained)
			endpoint_progress(pair.b); /* as in a call of another thread's that has not ended */
		other_does(drained ? drains : tends, pair.b);
		assert_true(endpoint_of(pair.b)->roused);
		assert_true(loop_wakes(pair.b));
		pair_close(&pair);
	}
}

static void *arms(void *arg)
{
	while (thole_arm(arg) != 0)
		thole_progress(arg);
	return NULL;
}

static void *arms_in_vain(void *arg)
{
	assert_int_equal(thole_arm(arg), THOLE_ERR_AGAIN);
	return NULL;
}

/* Where several threads run loops on one descriptor, none takes back what is to wake another's; once one is alone again
 * nothing wakes it. */
static void arm__of_several_threads(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	struct pair pair;

	(void)state;
	loop_open(&pair, options);
	loop_arm(pair.b);
	other_does(looks, pair.b);
	for (int i = 0; i < 5; i++) {
		other_does(arms, pair.b);
		assert_true(loop_wakes(pair.b));
	}
	thole_progress(pair.b);
	other_does(arms, pair.b);
	assert_true(loop_wakes(pair.b));
	for (int i = 0; i < 5; i++) {
		uint64_t before_ns = endpoint_of(pair.b)->rouse_ns;

		arms(pair.b);
		assert_true(endpoint_of(pair.b)->rouse_ns > before_ns); /* and they sleep until then */
		assert_true(loop_wakes(pair.b));
	}
	arms(pair.b);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, NULL, 0, 0, 0, 0, NULL, NULL), 0);
	other_does(arms_in_vain, pair.b); /* which takes it */
	other_does(waits_shortly, pair.b);
	assert_true(loop_wakes(pair.b));
	endpoint_of(pair.b)->loops_until_ns = 1; /* that was long ago */
	arms(pair.b);
	assert_false(endpoint_of(pair.b)->roused);
	assert_false(pair_readable(pair.b));
	pair_close(&pair);
}

static void *receives(void *arg)
{
	assert_int_equal(thole_recv(arg, THOLE_ANY, NULL, 0, 7, UINT64_MAX, 0, NULL, NULL), 0);
	return NULL;
}

static void *sends(void *arg)
{
	assert_int_equal(thole_send(arg, 0, NULL, 0, 0, 0, 0, NULL, NULL), 0);
	return NULL;
}

static void *sends_by_name(void *arg)
{
	struct thole_request *request;

	assert_int_equal(thole_send(arg, 0, NULL, 0, 0, 0, 0, NULL, &request), 0);
	return NULL;
}

static void *withdraws(void *arg)
{
	assert_int_equal(thole_cancel_context(arg, arg), 1);
	return NULL;
}

/* Whether who waits sleeps on the descriptor now, in another thread or in this one. */
static bool sleeps_undisturbed(struct thole_endpoint *endpoint, bool other)
{
	asked = 0;
	if (other)
		other_does(waits_shortly, endpoint);
	else
		waits_shortly(endpoint);
	return asked > 0;
}

/* A loop whose thread has ended does not come: once it could have, others sleep on the descriptor again. That of one
 * that lives is waited for. */
static void arm__and_end(void **state)
{
	static const char *const options[] = {"network=off", "spin=0", NULL};

	(void)state;
	refusal = 0;
	for (int ends = 0; ends < 2; ends++) {
		struct pair pair;

		loop_open(&pair, options);
		if (ends)
			other_does(arms, pair.b);
		else
			loop_arm(pair.b);
		if (ends)
			looks(pair.b);
		else
			other_does(looks, pair.b);
		assert_true(loop_wakes(pair.b));
		assert_false(sleeps_undisturbed(pair.b, !ends));
		assert_true(pair_readable(pair.b));
		endpoint_of(pair.b)->roused_ns = 1; /* that was long ago */
		assert_int_equal(sleeps_undisturbed(pair.b, !ends), ends);
		assert_int_equal(pair_readable(pair.b), !ends);
		pair_close(&pair);
	}
}

/* A call of another thread's that completes at once looks at nothing, and leaves the loop a completion: it wakes. What
 * the loop finds itself sets no timer. */
static void arm__and_others_complete(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	void *(*const ways[])(void *arg) = {receives, sends, withdraws};
	struct thole_completion done;
	struct thole_request *named;
	struct pair pair;

	(void)state;
	loop_open(&pair, options);
	assert_int_equal(pair.b_to_a, 0);
	assert_int_equal(thole_send(pair.b, pair.b_to_a, NULL, 0, 0, 0, THOLE_QUIET, NULL, NULL), 0);
	pair_idle(&pair); /* connected both ways */
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		if (ways[i] == receives)
			assert_int_equal(thole_send(pair.a, pair.a_to_b, NULL, 0, 7, 0, THOLE_QUIET, NULL, NULL), 0);
		else if (ways[i] == withdraws)
			assert_int_equal(thole_recv(pair.b, THOLE_ANY, NULL, 0, 9, UINT64_MAX, 0, pair.b, NULL), 0);
		pair_idle(&pair);
		loop_arm(pair.b);
		other_does(ways[i], pair.b);
		assert_true(loop_wakes(pair.b));
		assert_int_equal(thole_poll(pair.b, &done, 1), 1);
	}
	loop_arm(pair.b);
	other_does(sends_by_name, pair.b);
	assert_true(loop_wakes(pair.b));
	assert_int_equal(thole_peek(pair.b, &named), 1);
	assert_int_equal(thole_test(pair.b, named, &done), 1);
	receives(pair.b);
	loop_arm(pair.b);
	assert_int_equal(thole_send(pair.a, pair.a_to_b, NULL, 0, 7, 0, THOLE_QUIET, NULL, NULL), 0);
	assert_true(loop_wakes(pair.b));
	timers = 0;
	while (thole_poll(pair.b, &done, 1) == 0)
		;
	assert_int_equal(timers, 0);
	pair_close(&pair);
}

/* Who has not fetched what is complete is told before he sleeps, but only in an event loop: who waits for something by
 * name sleeps. */
static void arm__with_completions(void **state)
{
	struct thole_endpoint *endpoint = opened();
	struct thole_completion done;

	(void)state;
	refusal = 0;
	assert_int_equal(thole_recv(endpoint, THOLE_ANY, NULL, 0, 9, UINT64_MAX, 0, endpoint, NULL), 0);
	while (thole_arm(endpoint) != 0)
		thole_progress(endpoint);
	assert_int_equal(thole_cancel_context(endpoint, endpoint), 1);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(thole_arm(endpoint), THOLE_ERR_AGAIN);
		thole_progress(endpoint);
	}
	asked = polled = timed_out = 0;
	sleeps_to_the_end(endpoint);
	assert_int_equal(thole_poll(endpoint, &done, 1), 1);
	while (thole_arm(endpoint) != 0)
		thole_progress(endpoint);
	thole_endpoint_close(endpoint);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sleep__by_number),
		cmocka_unit_test(sleep__without_the_call),
		cmocka_unit_test(sleep__ends_with_a_message),
		cmocka_unit_test(events__never_end),
		cmocka_unit_test(busy__looks_at_descriptors),
		cmocka_unit_test(arm__and_start),
		cmocka_unit_test(arm__of_several_transports),
		cmocka_unit_test(arm__beside_the_progress_thread),
		cmocka_unit_test(arm__and_compute_beside_the_progress_thread),
		cmocka_unit_test(arm__and_send_beside_the_progress_thread),
		cmocka_unit_test(arm__and_send_beside_who_tends),
		cmocka_unit_test(arm__and_receive),
		cmocka_unit_test(arm__and_others_look),
		cmocka_unit_test(arm__and_send_with_little_room),
		cmocka_unit_test(rouse__the_earlier_stays),
		cmocka_unit_test_teardown(rouse__has_its_timer_before_the_sleep, timers_there),
		cmocka_unit_test_teardown(rouse__is_tried_again, timers_there),
		cmocka_unit_test(arm__and_others_wait),
		cmocka_unit_test(arm__and_others_look_beside_the_progress_thread),
		cmocka_unit_test(arm__and_others_tend),
		cmocka_unit_test(arm__of_several_threads),
		cmocka_unit_test(arm__and_end),
		cmocka_unit_test(arm__and_others_complete),
		cmocka_unit_test(arm__with_completions),
		cmocka_unit_test(thread__lets_others_in),
		cmocka_unit_test(again__for_who_may_be_running),
		cmocka_unit_test(yields__once_in_a_hundred),
		cmocka_unit_test(yields__of_threads_that_take_turns),
		cmocka_unit_test(wait_any__of_those_that_are_there),
		cmocka_unit_test(lock__is_not_kept),
		cmocka_unit_test(lock__is_left_now_and_then),
		cmocka_unit_test(lock__is_left_before_a_sleep),
		cmocka_unit_test(wait__is_a_point_of_cancellation),
		cmocka_unit_test(drain__until_all_has_arrived),
		cmocka_unit_test(drain__does_not_end_by_a_pause),
		cmocka_unit_test(tend__what_was_sent),
		cmocka_unit_test(tend__by_a_thread_on_another_core),
		cmocka_unit_test(thread__says_no_core),
		cmocka_unit_test(tend__not_while_a_loop_sleeps),
		cmocka_unit_test(tend__what_moves_by_itself),
	};

	program = pthread_self();
	return cmocka_run_group_tests_name("wait", tests, NULL, NULL);
}
