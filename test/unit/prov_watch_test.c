/* SPDX-License-Identifier: BSD-3-Clause */
/* Watches: whose endpoints are listed, and which events make their descriptor readable. */
#include "prov_objects.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "descriptors.h"
#include "prov_endpoint.h"
#include "prov_watch.h"
#include "watches.h"

static bool pending; /* something is to be handled, so nobody may sleep */

int __real_thole_arm(struct thole_endpoint *endpoint);
int __wrap_thole_arm(struct thole_endpoint *endpoint);

int __wrap_thole_arm(struct thole_endpoint *endpoint)
{
	return pending ? THOLE_ERR_AGAIN : __real_thole_arm(endpoint);
}

static struct fid_ep *ep;
static struct thole_endpoint *thole;
static struct prov_watch watch;

static int setup(void **state)
{
	(void)state;
	objects_open(&objects);
	assert_int_equal(fi_endpoint(objects.domain, objects.info, &ep, NULL), 0);
	thole = prov_endpoint_of(ep)->thole;
	memset(&watch, 0, sizeof watch);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	prov_watch_close(&watch);
	assert_int_equal(fi_close(&ep->fid), 0);
	objects_close(&objects);
	return 0;
}

static bool readable(void)
{
	struct pollfd fd = {.fd = watch.wake.epoll, .events = POLLIN};

	return poll(&fd, 1, 0) == 1;
}

static void endpoints__are_listed_once(void **state)
{
	(void)state;
	assert_int_equal(prov_watch_open(&watch, objects_domain(&objects), FI_WAIT_NONE), 0);
	assert_int_equal(watch.wake.epoll, -1);
	assert_int_equal(prov_watch_add(&watch, thole), 0);
	assert_int_equal(prov_watch_add(&watch, thole), 0);
	assert_int_equal(watch.count, 1);
	prov_watch_forget(objects_domain(&objects), thole);
	assert_int_equal(watch.count, 0);
	prov_watch_forget(objects_domain(&objects), thole);
	assert_int_equal(watch.count, 0);
}

static void note__wakes_who_may_sleep(void **state)
{
	(void)state;
	assert_int_equal(prov_watch_open(&watch, objects_domain(&objects), FI_WAIT_FD), 0);
	prov_watch_note(&watch); /* nobody sleeps */
	assert_false(readable());
	assert_int_equal(prov_watch_arm(&watch), 0);
	prov_watch_note(&watch);
	assert_true(readable() && !watch.armed);
	assert_int_equal(prov_watch_sleep(&watch, -1, PTHREAD_CANCEL_ENABLE), 0);
	assert_int_equal(prov_watch_arm(&watch), 0); /* and what woke before does so no more */
	assert_false(readable());
	watch.signaled = true;
	assert_int_equal(prov_watch_arm(&watch), -FI_EAGAIN);
}

/* A slice that is over ends one sleep, also where the next one is in a call. */
static void slice__is_over_once(void **state)
{
	struct pollfd fd = {.events = POLLIN};

	(void)state;
	assert_int_equal(prov_watch_open(&watch, objects_domain(&objects), FI_WAIT_FD), 0);
	fd.fd = watch.wake.epoll;
	assert_int_equal(prov_watch_arm(&watch), 0);
	assert_int_equal(prov_watch_slice(&watch), 0);
	assert_int_equal(poll(&fd, 1, 10000), 1);
	for (int i = 0; i < 1000 && readable(); i++)
		assert_int_equal(prov_watch_arm(&watch), 0);
	assert_false(readable());
	assert_int_equal(poll(&fd, 1, 10000), 1); /* whoever sleeps there meanwhile */
}

/* The descriptors come when somebody wants to sleep, for endpoints that were there before too. */
static void message__wakes(void **state)
{
	struct thole_address address;
	uint32_t peer;

	(void)state;
	assert_int_equal(prov_watch_open(&watch, objects_domain(&objects), FI_WAIT_UNSPEC), 0);
	assert_int_equal(prov_watch_add(&watch, thole), 0);
	assert_int_equal(prov_watch_arm(&watch), 0);
	assert_true(watch.wake.epoll >= 0);
	thole_endpoint_address(thole, &address);
	assert_int_equal(thole_peer(thole, &address, &peer), 0);
	assert_int_equal(
		thole_send(thole, peer, NULL, 0, 0, 0, THOLE_INJECT | THOLE_QUIET, NULL, NULL), 0);
	assert_true(readable() || prov_watch_arm(&watch) == -FI_EAGAIN);
}

/* Whose endpoint is forgotten hears nothing of it any more. */
static void message__of_an_endpoint_that_is_forgotten(void **state)
{
	struct thole_address address;
	uint32_t peer;

	(void)state;
	assert_int_equal(prov_watch_open(&watch, objects_domain(&objects), FI_WAIT_FD), 0);
	assert_int_equal(prov_watch_add(&watch, thole), 0);
	assert_int_equal(prov_watch_arm(&watch), 0);
	prov_watch_forget(objects_domain(&objects), thole);
	thole_endpoint_address(thole, &address);
	assert_int_equal(thole_peer(thole, &address, &peer), 0);
	assert_int_equal(thole_send(thole, peer, NULL, 0, 0, 0, THOLE_INJECT | THOLE_QUIET, NULL, NULL), 0);
	assert_false(readable());
}

static void send_to_itself(void)
{
	struct thole_address address;
	uint32_t peer;

	thole_endpoint_address(thole, &address);
	assert_int_equal(thole_peer(thole, &address, &peer), 0);
	assert_int_equal(thole_send(thole, peer, NULL, 0, 0, 0, THOLE_INJECT | THOLE_QUIET, NULL, NULL), 0);
}

/* Endpoints may be bound after the descriptor was asked for. */
static void message__to_an_endpoint_that_came_later_wakes(void **state)
{
	(void)state;
	assert_int_equal(prov_watch_open(&watch, objects_domain(&objects), FI_WAIT_FD), 0);
	assert_int_equal(prov_watch_add(&watch, thole), 0);
	assert_int_equal(prov_watch_arm(&watch), 0);
	send_to_itself();
	assert_true(readable());
}

/* An endpoint that there was no watch left for is in none: it can be added again, and wakes then. */
static void message__to_an_endpoint_that_could_not_be_watched_wakes(void **state)
{
	(void)state;
	assert_int_equal(prov_watch_open(&watch, objects_domain(&objects), FI_WAIT_FD), 0);
	refusing = watch.wake.epoll;
	for (int i = 0; i < 2; i++)
		assert_int_equal(prov_watch_add(&watch, thole), -ENOSPC);
	refusing = -1;
	assert_int_equal(watch.count, 0);
	assert_int_equal(prov_watch_add(&watch, thole), 0);
	assert_int_equal(prov_watch_arm(&watch), 0);
	send_to_itself();
	assert_true(readable());
}

/* Whoever went to sleep on it would have to be woken by the next one. */
static void message__that_waits_is_not_slept_over(void **state)
{
	(void)state;
	assert_int_equal(prov_watch_open(&watch, objects_domain(&objects), FI_WAIT_FD), 0);
	assert_int_equal(prov_watch_add(&watch, thole), 0);
	pending = true;
	assert_int_equal(prov_watch_arm(&watch), -FI_EAGAIN);
	pending = false;
	assert_int_equal(prov_watch_arm(&watch), 0);
}

static void close__leaves_no_descriptor(void **state)
{
	int before = descriptors_open();

	(void)state;
	assert_int_equal(prov_watch_open(&watch, objects_domain(&objects), FI_WAIT_FD), 0);
	assert_int_equal(prov_watch_slice(&watch), 0);
	assert_int_equal(descriptors_open(), before + 3);
	prov_watch_close(&watch);
	assert_int_equal(descriptors_open(), before);
	memset(&watch, 0, sizeof watch);
	assert_int_equal(prov_watch_open(&watch, objects_domain(&objects), FI_WAIT_NONE), 0); /* for teardown */
}

/* It has closed what it did not open, and has a file of its own there. */
static int own_file(int fd)
{
	int own = memfd_create("own", MFD_CLOEXEC);

	assert_int_equal(write(own, "12345678", 8), 8);
	assert_int_equal(lseek(own, 0, SEEK_SET), 0);
	assert_int_equal(dup2(own, fd), fd);
	return own;
}

static void wake__leaves_files_of_the_programs_alone(void **state)
{
	int files[3], fds[3];

	(void)state;
	assert_int_equal(prov_watch_open(&watch, objects_domain(&objects), FI_WAIT_FD), 0);
	assert_int_equal(prov_watch_add(&watch, thole), 0);
	assert_int_equal(prov_watch_arm(&watch), 0);
	assert_int_equal(prov_watch_slice(&watch), 0);
	memcpy(fds, (int[]){watch.wake.epoll, watch.wake.event, watch.timer}, sizeof fds);
	for (int i = 0; i < 3; i++)
		files[i] = own_file(fds[i]);
	prov_watch_note(&watch);
	assert_int_equal(prov_watch_arm(&watch), 0);
	prov_watch_note(&watch); /* by descriptors that it has made anew */
	assert_true(readable());
	for (int i = 0; i < 3; i++) {
		assert_int_equal(lseek(files[i], 0, SEEK_CUR), 0);
		assert_int_equal(lseek(files[i], 0, SEEK_END), 8);
		close(files[i]);
		close(fds[i]);
	}
}

/* An epoll of the program's, which has the number of one of ours, and a descriptor of Thole's, which it sleeps on. */
static int own_epoll(int fd)
{
	struct epoll_event event = {.events = EPOLLIN};
	int own = epoll_create1(EPOLL_CLOEXEC);

	assert_int_equal(epoll_ctl(own, EPOLL_CTL_ADD, thole_fd(thole), &event), 0);
	assert_int_equal(dup2(own, fd), fd);
	return own;
}

static bool is_watched(int epoll)
{
	struct epoll_event event = {.events = EPOLLIN};

	return epoll_ctl(epoll, EPOLL_CTL_MOD, thole_fd(thole), &event) == 0;
}

static void endpoints__leave_an_epoll_of_the_programs_alone(void **state)
{
	int epoll, event, own, fd = -1;

	(void)state;
	assert_int_equal(prov_watch_open(&watch, objects_domain(&objects), FI_WAIT_FD), 0);
	epoll = watch.wake.epoll;
	event = watch.wake.event;
	own = own_epoll(epoll);
	assert_int_equal(epoll_ctl(own, EPOLL_CTL_DEL, thole_fd(thole), NULL), 0);
	assert_int_equal(prov_watch_add(&watch, thole), 0);
	assert_false(is_watched(own));
	close(own);
	own = own_epoll(epoll);
	prov_watch_forget(objects_domain(&objects), thole);
	assert_true(is_watched(own));
	assert_int_equal(prov_watch_add(&watch, thole), 0);
	assert_int_equal(prov_watch_control(&watch, FI_WAIT_FD, FI_GETWAIT, &fd), 0);
	assert_int_not_equal(fd, epoll); /* but one that is made anew, and has all endpoints */
	assert_int_equal(fd, watch.wake.epoll);
	assert_true(is_watched(fd));
	close(own);
	close(epoll);
	close(event);
}

static void close__leaves_files_of_the_programs_open(void **state)
{
	int epoll, event, timer, files[2];

	(void)state;
	assert_int_equal(prov_watch_open(&watch, objects_domain(&objects), FI_WAIT_FD), 0);
	assert_int_equal(prov_watch_slice(&watch), 0);
	epoll = watch.wake.epoll;
	event = watch.wake.event;
	timer = watch.timer;
	files[0] = own_file(epoll);
	files[1] = own_file(timer);
	prov_watch_close(&watch);
	assert_int_equal(close(epoll), 0);
	assert_int_equal(close(timer), 0);
	close(event);
	close(files[0]);
	close(files[1]);
	memset(&watch, 0, sizeof watch);
	assert_int_equal(prov_watch_open(&watch, objects_domain(&objects), FI_WAIT_NONE), 0); /* for teardown */
}

static void control__gives_the_descriptor_to_who_asked_for_one(void **state)
{
	enum fi_wait_obj wait_obj = FI_WAIT_NONE;
	int fd = -1;

	(void)state;
	assert_int_equal(prov_watch_open(&watch, objects_domain(&objects), FI_WAIT_MUTEX_COND),
			 -FI_ENOSYS);
	assert_int_equal(prov_watch_open(&watch, objects_domain(&objects), FI_WAIT_FD), 0);
	assert_int_equal(prov_watch_control(&watch, FI_WAIT_FD, FI_GETWAIT, &fd), 0);
	assert_int_equal(fd, watch.wake.epoll);
	assert_int_equal(prov_watch_control(&watch, FI_WAIT_UNSPEC, FI_GETWAIT, &fd), -FI_ENODATA);
	assert_int_equal(prov_watch_control(&watch, FI_WAIT_UNSPEC, FI_GETWAITOBJ, &wait_obj), 0);
	assert_int_equal(wait_obj, FI_WAIT_UNSPEC);
	assert_int_equal(prov_watch_control(&watch, FI_WAIT_FD, FI_ENABLE, NULL), -FI_ENOSYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(endpoints__are_listed_once, setup, teardown),
		cmocka_unit_test_setup_teardown(note__wakes_who_may_sleep, setup, teardown),
		cmocka_unit_test_setup_teardown(slice__is_over_once, setup, teardown),
		cmocka_unit_test_setup_teardown(message__wakes, setup, teardown),
		cmocka_unit_test_setup_teardown(message__of_an_endpoint_that_is_forgotten, setup, teardown),
		cmocka_unit_test_setup_teardown(message__to_an_endpoint_that_came_later_wakes, setup, teardown),
		cmocka_unit_test_setup_teardown(message__to_an_endpoint_that_could_not_be_watched_wakes, setup,
						teardown),
		cmocka_unit_test_setup_teardown(message__that_waits_is_not_slept_over, setup, teardown),
		cmocka_unit_test_setup_teardown(close__leaves_no_descriptor, setup, teardown),
		cmocka_unit_test_setup_teardown(wake__leaves_files_of_the_programs_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(endpoints__leave_an_epoll_of_the_programs_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(close__leaves_files_of_the_programs_open, setup, teardown),
		cmocka_unit_test_setup_teardown(control__gives_the_descriptor_to_who_asked_for_one,
						setup, teardown),
	};

	return cmocka_run_group_tests_name("prov_watch", tests, NULL, NULL);
}
