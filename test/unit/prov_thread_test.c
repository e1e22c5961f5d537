/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread of a domain that makes progress by itself: when it steps in, and when it leaves the program alone. The
 * clock stands, and the program polls, if it does, in each of the thread's naps. Whether the thread has stepped in
 * shows by its being armed. */
#include "prov_objects.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "prov_watch.h"

enum { TRIES = 10000 }; /* of a millisecond: for ever, on a machine that is slow */

static int polling; /* the program does */
static struct fid_domain *own; /* that makes progress by itself */
static struct prov_domain *domain;
static struct prov_watch *watch; /* its thread's */
static struct fid_ep *ep;

int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

static int holding; /* the thread, once, where it has looked whether it is to end, until it is woken; */
static int held;    /* it is */
static int sleeps;  /* that began since */

static int failing;  /* arming does, as where the program has closed what it did not open; */
static int failures; /* it did so often, */
static int rests;    /* and the thread slept by the clock so often since */

static bool is_progress_thread(void)
{
	char name[16] = "";

	return prctl(PR_GET_NAME, name) == 0 && !strcmp(name, "thole-progress");
}

static void hold(void)
{
	struct pollfd event = {.fd = watch->wake.event, .events = POLLIN};
	uint64_t ignored;

	(void)!read(watch->wake.event, &ignored, sizeof ignored);
	store_release(&held, 1); /* partner: stop__keeps_the_thread_from_sleeping */
	poll(&event, 1, TRIES);
}

int __real_epoll_wait(int epoll, struct epoll_event *events, int count, int timeout_ms);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int count, int timeout_ms);

int __wrap_epoll_wait(int epoll, struct epoll_event *events, int count, int timeout_ms)
{
	if (load_relaxed(&held) && timeout_ms)
		add_relaxed(&sleeps, 1);
	return __real_epoll_wait(epoll, events, count, timeout_ms);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	(void)clock;
	/* partner: stop__keeps_the_thread_from_sleeping. The caretaker asks for the time as well. */
	if (is_progress_thread() && swap_acquire_release(&holding, 0))
		hold();
	*time = (struct timespec){.tv_sec = 1};
	return 0;
}

int __real_nanosleep(const struct timespec *wanted, struct timespec *left);
int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left);

int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left)
{
	if (load_acquire(&polling)) /* partner: poll_and_wake */
		add_relaxed(&domain->polls, 1);
	if (load_relaxed(&failing) && is_progress_thread())
		add_relaxed(&rests, 1);
	return __real_nanosleep(wanted, left);
}

int __real_thole_arm(struct thole_endpoint *endpoint);
int __wrap_thole_arm(struct thole_endpoint *endpoint);

int __wrap_thole_arm(struct thole_endpoint *endpoint)
{
	if (!load_relaxed(&failing))
		return __real_thole_arm(endpoint);
	store_release(&failures, load_relaxed(&failures) + 1); /* partner: thread__that_cannot_arm */
	return THOLE_ERR_SYSTEM;
}

static bool armed(void)
{
	bool is;

	prov_domain_lock(domain);
	is = watch->armed;
	prov_domain_unlock(domain);
	return is;
}

static void await_armed(void)
{
	for (int i = 0; i < TRIES && !armed(); i++)
		usleep(1000);
	assert_true(armed());
}

static int setup(void **state)
{
	(void)state;
	store_relaxed(&polling, 0);
	objects_open(&objects);
	objects.info->domain_attr->data_progress = FI_PROGRESS_AUTO;
	assert_int_equal(fi_domain(objects.fabric, objects.info, &own, NULL), 0);
	domain = container_of(own, struct prov_domain, fid);
	watch = container_of(list_first(&domain->watches), struct prov_watch, node);
	assert_int_equal(fi_endpoint(own, objects.info, &ep, NULL), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(fi_close(&ep->fid), 0);
	assert_int_equal(fi_close(&own->fid), 0);
	objects_close(&objects);
	return 0;
}

/* The program looks so often that it would find what comes, and the thread is woken. */
static void poll_and_wake(void)
{
	store_release(&polling, 1); /* partner: the thread's naps */
	add_relaxed(&domain->polls, 1);
	prov_domain_lock(domain);
	prov_watch_wake(watch);
	prov_domain_unlock(domain);
}

static void thread__leaves_a_program_alone_that_polls(void **state)
{
	(void)state;
	await_armed(); /* nobody has polled */
	poll_and_wake();
	usleep(50000);
	assert_false(armed());
	store_relaxed(&polling, 0);
	await_armed();
}

static void thread__steps_in_where_ranks_share_cores(void **state)
{
	char ranks[24];

	(void)state;
	snprintf(ranks, sizeof(ranks), "%ld", sysconf(_SC_NPROCESSORS_ONLN) + 1);
	assert_int_equal(fi_close(&ep->fid), 0);
	assert_int_equal(setenv("THOLE_LOCAL_RANKS", ranks, 1), 0);
	assert_int_equal(fi_endpoint(own, objects.info, &ep, NULL), 0);
	unsetenv("THOLE_LOCAL_RANKS");
	await_armed();
	poll_and_wake();
	await_armed();
}

/* It has the domain's lock in between, and would take a core. */
static void thread__that_cannot_arm_rests_before_it_tries_again(void **state)
{
	(void)state;
	await_armed();
	store_relaxed(&failing, 1);
	prov_domain_lock(domain);
	prov_watch_wake(watch);
	prov_domain_unlock(domain);
	for (int i = 0; i < TRIES && load_acquire(&failures) < 2; i++) /* partner: __wrap_thole_arm */
		usleep(1000);
	assert_true(load_relaxed(&failures) >= 2);
	assert_true(load_relaxed(&rests) > 0);
	store_relaxed(&failing, 0);
	await_armed();
}

/* It had just seen that it is not, and looks once more before it sleeps, in which nothing would wake it. */
static void stop__keeps_the_thread_from_sleeping(void **state)
{
	(void)state;
	await_armed();
	assert_int_equal(fi_close(&ep->fid), 0);
	store_release(&holding, 1); /* partner: __wrap_clock_gettime */
	prov_domain_lock(domain);
	prov_watch_wake(watch);
	prov_domain_unlock(domain);
	for (int i = 0; i < TRIES && !load_acquire(&held); i++) /* partner: hold */
		usleep(1000);
	assert_true(load_relaxed(&held));
	assert_int_equal(fi_close(&own->fid), 0);
	assert_int_equal(load_relaxed(&sleeps), 0);
	store_relaxed(&held, 0);
	objects_close(&objects);
}

static bool refusing; /* threads */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	return refusing ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

/* FI_EAGAIN would mean that it will be there soon. */
static void start__without_a_thread(void **state)
{
	struct fid_domain *another;

	(void)state;
	refusing = true;
	assert_int_equal(fi_domain(objects.fabric, objects.info, &another, NULL), -FI_ENOMEM);
	refusing = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(thread__leaves_a_program_alone_that_polls, setup, teardown),
		cmocka_unit_test_setup_teardown(thread__steps_in_where_ranks_share_cores, setup, teardown),
		cmocka_unit_test_setup_teardown(thread__that_cannot_arm_rests_before_it_tries_again, setup, teardown),
		cmocka_unit_test_setup_teardown(start__without_a_thread, setup, teardown),
		cmocka_unit_test_setup(stop__keeps_the_thread_from_sleeping, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
