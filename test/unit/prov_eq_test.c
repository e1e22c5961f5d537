/* SPDX-License-Identifier: BSD-3-Clause */
/* Event queues: order, errors in their place, peeking, and that its users keep it open. */
#include "prov_objects.h"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "prov_eq.h"

static bool refuse; /* memory */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
	return refuse ? NULL : __real_calloc(count, size);
}

static struct fid_eq *fid;
static struct prov_eq *eq;

static void queue_open(void)
{
	struct fi_eq_attr attr = {.wait_obj = FI_WAIT_FD};

	assert_int_equal(fi_eq_open(objects.fabric, &attr, &fid, NULL), 0);
	eq = container_of(fid, struct prov_eq, fid);
}

static int setup(void **state)
{
	(void)state;
	objects_open(&objects);
	queue_open();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(fi_close(&fid->fid), 0);
	objects_close(&objects);
	return 0;
}

static void events__come_in_order(void **state)
{
	uint32_t number = 0;
	char text[8];

	(void)state;
	assert_int_equal(fi_eq_read(fid, &number, text, sizeof text, 0), -FI_EAGAIN);
	assert_int_equal(prov_eq_trywait(eq), 0);
	assert_int_equal(fi_eq_write(fid, 11, "abc", 4, 0), 4);
	assert_int_equal(fi_eq_write(fid, 12, NULL, 0, 0), 0);
	assert_int_equal(prov_eq_trywait(eq), -FI_EAGAIN);
	assert_int_equal(fi_eq_read(fid, &number, text, 3, 0), -FI_ETOOSMALL);
	assert_int_equal(fi_eq_read(fid, &number, text, sizeof text, FI_PEEK), 4);
	assert_int_equal(fi_eq_read(fid, &number, text, sizeof text, 0), 4);
	assert_int_equal(number, 11);
	assert_string_equal(text, "abc");
	assert_int_equal(fi_eq_sread(fid, &number, text, sizeof text, -1, 0), 0);
	assert_int_equal(number, 12);
	assert_int_equal(prov_eq_trywait(eq), 0);
	assert_int_equal(fi_eq_sread(fid, &number, text, sizeof text, 1, 0), -FI_EAGAIN);
}

/* The descriptor tells of events as long as there are any. */
static void descriptor__is_readable_until_the_last(void **state)
{
	struct pollfd poller = {.events = POLLIN};
	uint32_t number;

	(void)state;
	assert_int_equal(fi_control(&fid->fid, FI_GETWAIT, &poller.fd), 0);
	assert_int_equal(poll(&poller, 1, 0), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(prov_eq_post(eq, 1, NULL, 0), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(poll(&poller, 1, 0), 1);
		assert_int_equal(fi_eq_read(fid, &number, NULL, 0, 0), 0);
	}
	assert_int_equal(poll(&poller, 1, 0), 0);
}

static void close__in_a_child_takes_nothing(void **state)
{
	struct pollfd poller = {.events = POLLIN};
	uint32_t number;
	pid_t child;

	(void)state;
	assert_int_equal(fi_control(&fid->fid, FI_GETWAIT, &poller.fd), 0);
	assert_int_equal(prov_eq_post(eq, 1, NULL, 0), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(fi_close(&fid->fid) != 0);
	assert_int_equal(child_status(child), 0);
	assert_int_equal(poll(&poller, 1, 0), 1);
	assert_int_equal(fi_eq_read(fid, &number, NULL, 0, 0), 0);
}

/* A program that closes what it did not open, and has a file of its own there. It may ask for the descriptor again. */
static void descriptor__that_is_the_programs_is_left_alone(void **state)
{
	struct pollfd poller = {.events = POLLIN};
	int ends[2], epoll = eq->wake.epoll, own, fd;
	uint32_t number;
	char text[8];
	ssize_t left;

	(void)state;
	assert_int_equal(fi_control(&fid->fid, FI_GETWAIT, &own), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(dup2(ends[0], own), own);
	assert_int_equal(write(ends[1], "12345678", 8), 8);
	assert_int_equal(prov_eq_post(eq, 1, NULL, 0), 0);
	assert_int_equal(read(ends[1], text, sizeof text), -1);
	assert_int_equal(fi_eq_read(fid, &number, NULL, 0, 0), 0);
	assert_int_equal(recv(own, text, sizeof text, MSG_PEEK), sizeof text);
	assert_int_equal(prov_eq_post(eq, 2, NULL, 0), 0);
	assert_int_equal(fi_control(&fid->fid, FI_GETWAIT, &poller.fd), 0);
	assert_int_not_equal(poller.fd, own);
	assert_int_equal(poll(&poller, 1, 0), 1); /* for what came before it was asked for */
	assert_int_equal(fi_eq_read(fid, &number, NULL, 0, 0), 0);
	assert_int_equal(poll(&poller, 1, 0), 0);
	close(epoll);
	epoll = eq->wake.epoll;
	fd = poller.fd;
	assert_int_equal(dup2(ends[0], fd), fd);
	assert_int_equal(fi_eq_sread(fid, &number, NULL, 0, 1, 0), -FI_EAGAIN);
	assert_int_not_equal(eq->wake.event, fd); /* another one again, by which it has slept */
	close(epoll);
	epoll = eq->wake.epoll;
	poller.fd = eq->wake.event;
	assert_int_equal(dup2(ends[0], poller.fd), poller.fd);
	assert_int_equal(fi_close(&fid->fid), 0);
	left = read(poller.fd, text, sizeof text);
	close(epoll);
	close(poller.fd);
	close(fd);
	close(own);
	close(ends[0]);
	close(ends[1]);
	queue_open();
	assert_int_equal(left, sizeof text);
}

static void *cancelled(void *arg)
{
	uint32_t number;

	pthread_cancel(pthread_self());
	do
		*(ssize_t *)arg = fi_eq_sread(fid, &number, NULL, 0, -1, 0);
	while (*(ssize_t *)arg == 0);
	return NULL;
}

/* A thread that is cancelled while it waits leaves the lock, and has taken an event or not. */
static void sread__is_a_point_of_cancellation(void **state)
{
	ssize_t taken = -1;
	pthread_t thread;
	void *result;

	(void)state;
	assert_int_equal(prov_eq_post(eq, 1, NULL, 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, cancelled, &taken), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_true(lock_try(&eq->lock));
	lock_leave(&eq->lock);
	assert_int_equal(prov_eq_trywait(eq), taken == 0 ? 0 : -FI_EAGAIN);
}

static void error__stops_reads_until_it_is_taken(void **state)
{
	struct fi_eq_err_entry error = {.err = FI_EINVAL, .data = 3}, taken = {0};
	uint32_t number;

	(void)state;
	assert_int_equal(prov_eq_post(eq, 1, NULL, 0), 0);
	assert_int_equal(prov_eq_post_error(eq, &error), 0);
	assert_int_equal(prov_eq_post(eq, 2, NULL, 0), 0);
	assert_int_equal(fi_eq_readerr(fid, &taken, 0), -FI_EAGAIN); /* not its turn */
	assert_int_equal(fi_eq_read(fid, &number, NULL, 0, 0), 0);
	assert_int_equal(fi_eq_read(fid, &number, NULL, 0, 0), -FI_EAVAIL);
	assert_int_equal(fi_eq_readerr(fid, &taken, FI_PEEK), sizeof taken);
	assert_int_equal(fi_eq_readerr(fid, &taken, 0), sizeof taken);
	assert_true(taken.err == FI_EINVAL && taken.data == 3);
	assert_int_equal(fi_eq_read(fid, &number, NULL, 0, 0), 0);
	assert_int_equal(number, 2);
}

static void post__without_memory(void **state)
{
	struct fi_eq_err_entry error = {0};

	(void)state;
	refuse = true;
	assert_int_equal(prov_eq_post(eq, 1, NULL, 0), -FI_ENOMEM);
	assert_int_equal(prov_eq_post_error(eq, &error), -FI_ENOMEM);
	refuse = false;
	assert_int_equal(prov_eq_trywait(eq), 0);
}

static void close__waits_for_its_users(void **state)
{
	(void)state;
	assert_int_equal(fi_domain_bind(objects.domain, &fid->fid, 0), 0);
	assert_int_equal(fi_close(&fid->fid), -FI_EBUSY);
	assert_int_equal(fi_close(&objects.domain->fid), 0);
	assert_int_equal(fi_close(&objects.fabric->fid), -FI_EBUSY); /* the queue is open */
	assert_int_equal(fi_domain(objects.fabric, objects.info, &objects.domain, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events__come_in_order),
		cmocka_unit_test(descriptor__is_readable_until_the_last),
		cmocka_unit_test(close__in_a_child_takes_nothing),
		cmocka_unit_test(descriptor__that_is_the_programs_is_left_alone),
		cmocka_unit_test(sread__is_a_point_of_cancellation),
		cmocka_unit_test(error__stops_reads_until_it_is_taken),
		cmocka_unit_test(post__without_memory),
		cmocka_unit_test(close__waits_for_its_users),
	};

	return cmocka_run_group_tests_name("prov_eq", tests, setup, teardown);
}
