/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters: what counts, what does not, and how a wait for them ends. The clock and what sleeps are replaced (by the
 * linker's --wrap): a thing happens as a wait reads the time, and a wait that sleeps is seen. */
#include "prov_objects.h"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>

#include "prov_counter.h"

static struct prov_counter *waited;            /* what is waited for; NULL: the clock is the real one */
static void (*happens)(struct prov_counter *); /* between a wait's look and its sleep: as it reads the time again */
static unsigned readings, sleeps;

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

/* A second passes with each reading, so nobody spins. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	if (!waited)
		return __real_clock_gettime(clock, time);
	*time = (struct timespec){.tv_sec = ++readings};
	if (readings == 2 && happens)
		happens(waited);
	return 0;
}

int __wrap_epoll_wait(int epoll, struct epoll_event *events, int count, int timeout_ms);

int __wrap_epoll_wait(int epoll, struct epoll_event *events, int count, int timeout_ms)
{
	(void)epoll, (void)events, (void)count, (void)timeout_ms;
	sleeps++;
	return 0;
}

static int wait_while(struct prov_counter *counter, void (*what)(struct prov_counter *), uint64_t threshold)
{
	int error;

	waited = counter;
	happens = what;
	readings = sleeps = 0;
	error = fi_cntr_wait(&counter->fid, threshold, 5000);
	waited = NULL;
	return error;
}

static struct prov_counter *counter_open(enum fi_cntr_events events, enum fi_wait_obj wait_obj)
{
	struct fi_cntr_attr attr = {.events = events, .wait_obj = wait_obj};
	struct fid_cntr *fid;

	assert_int_equal(fi_cntr_open(objects.domain, &attr, &fid, NULL), 0);
	return container_of(fid, struct prov_counter, fid);
}

static void counter__counts_ends(void **state)
{
	struct prov_counter *counter = counter_open(FI_CNTR_EVENTS_COMP, FI_WAIT_UNSPEC);
	struct thole_completion well = {.length = 100},
				badly = {.length = 50, .status = THOLE_ERR_PEER};

	(void)state;
	for (int i = 0; i < 3; i++)
		prov_counter_add(counter, &well);
	prov_counter_add(counter, &badly);
	assert_true(fi_cntr_read(&counter->fid) == 3 && fi_cntr_readerr(&counter->fid) == 1);
	assert_int_equal(fi_cntr_add(&counter->fid, 10), 0);
	assert_int_equal(fi_cntr_adderr(&counter->fid, 20), 0);
	assert_true(fi_cntr_read(&counter->fid) == 13 && fi_cntr_readerr(&counter->fid) == 21);
	assert_int_equal(fi_cntr_set(&counter->fid, 4), 0);
	assert_int_equal(fi_cntr_seterr(&counter->fid, 5), 0);
	assert_true(fi_cntr_read(&counter->fid) == 4 && fi_cntr_readerr(&counter->fid) == 5);
	assert_int_equal(fi_close(&counter->fid.fid), 0);
}

static void counter__counts_bytes(void **state)
{
	struct prov_counter *counter =
		counter_open((enum fi_cntr_events)PROV_CNTR_EVENTS_BYTES, FI_WAIT_UNSPEC);
	struct thole_completion well = {.length = 100},
				badly = {.length = 50, .status = THOLE_ERR_PEER};

	(void)state;
	prov_counter_add(counter, &well);
	prov_counter_add(counter, &well);
	prov_counter_add(counter, &badly);
	assert_true(fi_cntr_read(&counter->fid) == 200 && fi_cntr_readerr(&counter->fid) == 1);
	assert_int_equal(fi_close(&counter->fid.fid), 0);
}

static void wait__without_a_descriptor(void **state)
{
	struct prov_counter *counter = counter_open(FI_CNTR_EVENTS_COMP, FI_WAIT_UNSPEC);
	struct rlimit before, none;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(fi_cntr_wait(&counter->fid, 1, -1), -FI_EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(fi_cntr_wait(&counter->fid, 1, 1), -FI_ETIMEDOUT);
	assert_int_equal(fi_close(&counter->fid.fid), 0);
}

static void wait__ends_as_it_should(void **state)
{
	struct prov_counter *counter = counter_open(FI_CNTR_EVENTS_COMP, FI_WAIT_FD);
	struct thole_completion badly = {.status = THOLE_ERR_PEER};
	int fd = -1;

	(void)state;
	assert_int_equal(fi_cntr_add(&counter->fid, 2), 0);
	assert_int_equal(fi_cntr_wait(&counter->fid, 2, 0), 0);
	assert_int_equal(fi_cntr_wait(&counter->fid, 3, 1), -FI_ETIMEDOUT);
	assert_int_equal(fi_control(&counter->fid.fid, FI_GETWAIT, &fd), 0);
	assert_true(fd >= 0);
	assert_int_equal(prov_counter_trywait(counter), 0);
	assert_true(counter->watch.armed);
	prov_counter_add(counter, &badly); /* wakes who sleeps on the descriptor */
	assert_false(counter->watch.armed);
	assert_int_equal(fi_close(&counter->fid.fid), 0);
}

/* A program that reads, and only then gets ready to sleep, would sleep on what was counted in between. */
static void trywait__looks_at_what_was_not_read(void **state)
{
	struct prov_counter *counter = counter_open(FI_CNTR_EVENTS_COMP, FI_WAIT_FD);
	struct thole_completion well = {.length = 100}, badly = {.status = THOLE_ERR_PEER};

	(void)state;
	assert_int_equal(fi_cntr_read(&counter->fid), 0);
	assert_int_equal(prov_counter_trywait(counter), 0);
	prov_counter_add(counter, &well);
	assert_int_equal(prov_counter_trywait(counter), -FI_EAGAIN);
	assert_int_equal(fi_cntr_read(&counter->fid), 1);
	assert_int_equal(prov_counter_trywait(counter), 0);
	prov_counter_add(counter, &badly);
	assert_int_equal(fi_cntr_read(&counter->fid), 1);
	assert_int_equal(prov_counter_trywait(counter), -FI_EAGAIN);
	assert_int_equal(fi_cntr_readerr(&counter->fid), 1);
	assert_int_equal(prov_counter_trywait(counter), 0);
	prov_counter_add(counter, &badly);
	assert_int_equal(prov_counter_trywait(counter), -FI_EAGAIN);
	assert_int_equal(fi_cntr_read(&counter->fid), 1);
	assert_int_equal(prov_counter_trywait(counter), 0); /* who does not ask for errors is told once */
	assert_int_equal(fi_close(&counter->fid.fid), 0);
}

static void counts_one(struct prov_counter *counter)
{
	struct thole_completion well = {.length = 100};

	prov_counter_add(counter, &well);
}

static void counts_an_error(struct prov_counter *counter)
{
	struct thole_completion badly = {.status = THOLE_ERR_PEER};

	prov_counter_add(counter, &badly);
}

/* What is counted after a wait has looked, and before it is ready to be woken, would be slept over. */
static void wait__does_not_sleep_over_what_was_just_counted(void **state)
{
	struct prov_counter *counter = counter_open(FI_CNTR_EVENTS_COMP, FI_WAIT_FD);

	(void)state;
	assert_int_equal(wait_while(counter, counts_one, 1), 0);
	assert_int_equal(sleeps, 0);
	assert_int_equal(wait_while(counter, NULL, 9), -FI_ETIMEDOUT);
	assert_true(sleeps > 0);
	assert_int_equal(fi_close(&counter->fid.fid), 0);
}

/* Of what has failed no more comes, so who waits for it would wait for ever. */
static void wait__ends_with_an_error(void **state)
{
	struct prov_counter *counter = counter_open(FI_CNTR_EVENTS_COMP, FI_WAIT_FD);

	(void)state;
	assert_int_equal(wait_while(counter, counts_an_error, 1), -FI_EAVAIL);
	assert_int_equal(sleeps, 0);
	/* An error from before it does not end it. */
	assert_int_equal(wait_while(counter, counts_one, 1), 0);
	assert_int_equal(fi_close(&counter->fid.fid), 0);
}

/* However the program changes the number, who sleeps until it changes hears of it. */
static void change__by_the_program_wakes(void **state)
{
	struct prov_counter *counter = counter_open(FI_CNTR_EVENTS_COMP, FI_WAIT_FD);
	int (*const calls[])(struct fid_cntr *, uint64_t) = {counter->fid.ops->add, counter->fid.ops->set,
							     counter->fid.ops->adderr, counter->fid.ops->seterr};

	(void)state;
	for (uint64_t i = 0; i < 4; i++) {
		fi_cntr_read(&counter->fid);
		fi_cntr_readerr(&counter->fid);
		assert_int_equal(prov_counter_trywait(counter), 0);
		assert_true(counter->watch.armed);
		assert_int_equal(calls[i](&counter->fid, 7 + i), 0);
		assert_false(counter->watch.armed);
	}
	assert_int_equal(fi_close(&counter->fid.fid), 0);
}

static void close__waits_for_its_users(void **state)
{
	struct prov_counter *counter = counter_open(FI_CNTR_EVENTS_COMP, FI_WAIT_NONE);

	(void)state;
	counter->users = 1;
	assert_int_equal(fi_close(&counter->fid.fid), -FI_EBUSY);
	assert_int_equal(fi_close(&objects.domain->fid), -FI_EBUSY); /* nor is the domain empty */
	counter->users = 0;
	assert_int_equal(fi_close(&counter->fid.fid), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counter__counts_ends),
		cmocka_unit_test(counter__counts_bytes),
		cmocka_unit_test(wait__without_a_descriptor),
		cmocka_unit_test(wait__ends_as_it_should),
		cmocka_unit_test(trywait__looks_at_what_was_not_read),
		cmocka_unit_test(wait__does_not_sleep_over_what_was_just_counted),
		cmocka_unit_test(wait__ends_with_an_error),
		cmocka_unit_test(change__by_the_program_wakes),
		cmocka_unit_test(close__waits_for_its_users),
	};

	return cmocka_run_group_tests_name("prov_counter", tests, objects_setup, objects_teardown);
}
