/* SPDX-License-Identifier: BSD-3-Clause */
/* Raw endpoints on the loopback of a network namespace of the test's own: what is sent comes back. */
#include "unit.h"

#include <net/if.h>
#include <limits.h>
#include <sys/epoll.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mx_extensions.h"
#include "mx_raw.h"

enum {
	FRAME = 100,
	TYPE_AT = 16,
	TYPE_RAW = 1,
	SENDS_MAX = 1024, /* as raw.c bounds it */
	PATIENCE_MS = 10000,
	SENDS_BESIDE = 50000, /* of one thread while another fetches their events */
};

static bool has_namespace; /* else raw endpoints are not permitted here */
static mx_raw_endpoint_t raw;

/* A network of our own, with no other interface than its loopback. */
static int enter_namespace(void **state)
{
	struct ifreq request = {.ifr_name = "lo"};
	int fd;

	(void)state;
	mx_set_error_handler(MX_ERRORS_RETURN);
	if (mx_init() != MX_SUCCESS)
		return -1;
	if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
		return 0;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0)
		return -1;
	request.ifr_flags = IFF_UP;
	has_namespace = ioctl(fd, SIOCSIFFLAGS, &request) == 0;
	close(fd);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	raw = NULL;
	return has_namespace && mx_raw_open_endpoint(0, NULL, 0, &raw) != MX_SUCCESS;
}

static int teardown(void **state)
{
	(void)state;
	return raw && mx_raw_close_endpoint(raw) != MX_SUCCESS;
}

static void need_namespace(void)
{
	if (!has_namespace)
		skip(); /* needs a network namespace: root, or user namespaces */
}

/* A frame to this host's loopback, whose MAC is zeros. */
static void frame_make(uint8_t frame[FRAME], uint8_t type, uint8_t fill)
{
	memset(frame, fill, FRAME);
	memset(frame, 0, TYPE_AT);
	frame[12] = 0x86;
	frame[13] = 0xdf;
	frame[TYPE_AT] = type;
}

static void send_frame(const uint8_t frame[FRAME], uint32_t length, void *context)
{
	uint8_t copy[FRAME];

	memcpy(copy, frame, FRAME);
	assert_int_equal(mx_raw_send(raw, 0, NULL, 0, copy, length, context), MX_SUCCESS);
}

static bool readable(void)
{
	struct pollfd poller = {.fd = mx_raw_handle(raw), .events = POLLIN};

	return poll(&poller, 1, 0) == 1;
}

static void frames__come_back(void **state)
{
	uint8_t sent[FRAME], got[2 * FRAME];
	uint32_t bytes = sizeof(got), port = 9;
	mx_raw_status_t status = -1;
	void *context = NULL;

	(void)state;
	need_namespace();
	assert_false(readable());
	assert_int_equal(mx_raw_next_event(raw, &port, &context, got, &bytes, 0, &status), MX_SUCCESS);
	assert_int_equal(status, MX_RAW_NO_EVENT);
	assert_int_equal(bytes, sizeof(got));

	frame_make(sent, TYPE_RAW, 0x5a);
	send_frame(sent, FRAME, &port);
	assert_true(readable());
	assert_int_equal(mx_raw_next_event(raw, &port, &context, got, &bytes, PATIENCE_MS, &status), MX_SUCCESS);
	assert_int_equal(status, MX_RAW_SEND_COMPLETE);
	assert_ptr_equal(context, &port);
	assert_int_equal(mx_raw_next_event(raw, &port, &context, got, &bytes, PATIENCE_MS, &status), MX_SUCCESS);
	assert_int_equal(status, MX_RAW_RECV_COMPLETE);
	assert_int_equal(bytes, FRAME);
	assert_int_equal(port, 0);
	assert_memory_equal(got, sent, FRAME);
	assert_false(readable());
}

/* Of another type, for another host, of another protocol: none is seen. The last one is, and only it. */
static void frames__of_others_are_not_seen(void **state)
{
	uint8_t frame[FRAME], got[FRAME];
	uint32_t bytes;
	mx_raw_status_t status;
	void *context;

	(void)state;
	need_namespace();
	frame_make(frame, TYPE_RAW + 1, 1);
	send_frame(frame, FRAME, NULL);
	frame_make(frame, TYPE_RAW, 2);
	frame[0] = 0x02;
	send_frame(frame, FRAME, NULL);
	frame_make(frame, TYPE_RAW, 3);
	frame[13] = 0xde;
	send_frame(frame, FRAME, NULL);
	frame_make(frame, TYPE_RAW, 4);
	send_frame(frame, FRAME, NULL);
	for (int i = 0; i < 4; i++) {
		bytes = sizeof(got);
		assert_int_equal(mx_raw_next_event(raw, NULL, &context, got, &bytes, PATIENCE_MS, &status), MX_SUCCESS);
		assert_int_equal(status, MX_RAW_SEND_COMPLETE);
	}
	bytes = 20; /* a smaller buffer gets the front */
	got[20] = 0x77;
	assert_int_equal(mx_raw_next_event(raw, NULL, NULL, got, &bytes, PATIENCE_MS, &status), MX_SUCCESS);
	assert_int_equal(status, MX_RAW_RECV_COMPLETE);
	assert_int_equal(bytes, 20);
	assert_memory_equal(got, frame, 20);
	assert_int_equal(got[20], 0x77);
	assert_false(readable());
}

static void sends__are_bounded_and_in_order(void **state)
{
	uint8_t frame[FRAME], got[FRAME];
	uint32_t bytes;
	mx_raw_status_t status;
	void *context;

	(void)state;
	need_namespace();
	frame_make(frame, TYPE_RAW + 1, 0);
	for (int round = 0; round < 2; round++) {
		for (uintptr_t i = 0; i < SENDS_MAX; i++)
			send_frame(frame, FRAME, (void *)i);
		assert_int_equal(mx_raw_send(raw, 0, NULL, 0, frame, FRAME, NULL), MX_NO_RESOURCES);
		for (uintptr_t i = 0; i < SENDS_MAX; i++) {
			bytes = sizeof(got);
			assert_int_equal(mx_raw_next_event(raw, NULL, &context, got, &bytes, 0, &status), MX_SUCCESS);
			assert_int_equal(status, MX_RAW_SEND_COMPLETE);
			assert_ptr_equal(context, (void *)i);
		}
	}
	assert_false(readable());
}

static void *fetch_sends(void *arg)
{
	uint8_t got[FRAME];
	uint32_t bytes;
	mx_raw_status_t status;

	for (unsigned sends = 0; sends < SENDS_BESIDE; sends += status == MX_RAW_SEND_COMPLETE) {
		bytes = sizeof(got);
		if (mx_raw_next_event(raw, NULL, NULL, got, &bytes, 0, &status) != MX_SUCCESS)
			break;
	}
	return arg;
}

/* An event may be fetched as soon as it is there. Once all are, nothing is left that wakes anybody. */
static void sends__fetched_by_another_thread(void **state)
{
	uint8_t frame[FRAME];
	pthread_t thread;

	(void)state;
	need_namespace();
	frame_make(frame, TYPE_RAW + 1, 0);
	assert_int_equal(pthread_create(&thread, NULL, fetch_sends, NULL), 0);
	for (unsigned i = 0; i < SENDS_BESIDE; i++)
		while (mx_raw_send(raw, 0, NULL, 0, frame, FRAME, NULL) != MX_SUCCESS)
			sched_yield();
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_false(readable());
}

static void open__once_a_board(void **state)
{
	mx_param_t parameter = {.key = MX_PARAM_UNEXP_QUEUE_MAX};
	mx_raw_endpoint_t second = NULL;

	(void)state;
	need_namespace();
	assert_int_equal(mx_raw_open_endpoint(0, NULL, 0, &second), MX_BUSY);
	assert_int_equal(mx_raw_open_endpoint(1, NULL, 0, &second), MX_BOARD_UNKNOWN);
	assert_int_equal(mx_raw_open_endpoint(0, NULL, 1, &second), MX_BAD_PARAM_LIST);
	assert_int_equal(mx_raw_open_endpoint(0, &parameter, 1, &second), MX_BAD_PARAM_NAME);
	assert_null(second);
	assert_int_equal(mx_raw_close_endpoint(raw), MX_SUCCESS);
	assert_int_equal(mx_raw_open_endpoint(0, NULL, 0, &raw), MX_SUCCESS);
}

static void arguments__are_checked(void **state)
{
	uint8_t frame[FRAME];
	uint32_t bytes = FRAME, ports = 0;
	mx_line_speed_t speed = MX_SPEED_2G;
	mx_raw_status_t status;

	(void)state;
	need_namespace();
	frame_make(frame, TYPE_RAW, 0);
	assert_int_equal(mx_raw_send(raw, 0, NULL, 0, NULL, FRAME, NULL), MX_BAD_SEG_MEM);
	assert_int_equal(mx_raw_send(raw, 0, NULL, 0, frame, TYPE_AT, NULL), MX_BAD_SEG_CNT);
	assert_int_equal(mx_raw_send(raw, 0, NULL, 0, frame, 1 << 20, NULL), MX_BAD_SEG_CNT);
	assert_int_equal(mx_raw_next_event(raw, NULL, NULL, NULL, &bytes, 0, &status), MX_BAD_SEG_MEM);
	assert_int_equal(mx_raw_num_ports(raw, &ports), MX_SUCCESS);
	assert_int_equal(ports, 1);
	assert_int_equal(mx_raw_line_speed(raw, &speed), MX_SUCCESS);
	assert_int_equal(speed, MX_SPEED_OPEN_MX);
	assert_int_equal(mx_raw_set_route_begin(raw), MX_SUCCESS);
	assert_int_equal(mx_raw_set_route_begin(NULL), MX_BAD_ENDPOINT);
	assert_int_equal(mx_raw_handle(NULL), MX__INVALID_HANDLE);
}

#define opened(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

/* The handle is readable as long as there are events, those of sends, too. */
static int waited_ms;

int __real_epoll_wait(int epoll, struct epoll_event *events, int count, int timeout_ms);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int count, int timeout_ms);

int __wrap_epoll_wait(int epoll, struct epoll_event *events, int count, int timeout_ms)
{
	if (timeout_ms >= 0 && timeout_ms < INT_MAX - 1)
		return __real_epoll_wait(epoll, events, count, timeout_ms);
	waited_ms = timeout_ms;
	return 0;
}

/* Not for ever, which the kernel has negative numbers for. */
static void wait__as_long_as_there_is(void **state)
{
	uint8_t buffer[FRAME];
	uint32_t bytes = FRAME;
	mx_raw_status_t status;

	(void)state;
	need_namespace();
	for (uint32_t more = 0; more < 3; more++) {
		assert_int_equal(mx_raw_next_event(raw, NULL, NULL, buffer, &bytes, (uint32_t)INT_MAX - 1 + more,
						   &status),
				 MX_SUCCESS);
		assert_int_equal(status, MX_RAW_NO_EVENT);
		assert_int_equal(waited_ms, more ? INT_MAX : INT_MAX - 1);
	}
}

static void handle__tells_of_sends(void **state)
{
	struct pollfd look = {.events = POLLIN};
	uint8_t frame[FRAME], buffer[FRAME];
	mx_raw_status_t status;
	uint32_t bytes = FRAME;

	(void)state;
	need_namespace();
	look.fd = mx_raw_handle(raw);
	frame_make(frame, TYPE_RAW + 1, 1); /* which does not come back */
	assert_int_equal(poll(&look, 1, 0), 0);
	for (int i = 0; i < 2; i++)
		send_frame(frame, FRAME, NULL);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(poll(&look, 1, 0), 1);
		assert_int_equal(mx_raw_next_event(raw, NULL, NULL, buffer, &bytes, 0, &status), MX_SUCCESS);
		assert_int_equal(status, MX_RAW_SEND_COMPLETE);
	}
	assert_int_equal(poll(&look, 1, 0), 0);
}

/* A child that lives on does not keep the board from whoever comes next. */
static void claim__is_not_inherited(void **state)
{
	int ends[2]; /* the child's and its parent's */
	pid_t child;
	char byte;

	(void)state;
	need_namespace();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	if ((child = fork()) == 0) {
		close(ends[1]);
		_exit(write(ends[0], "", 1) == 1 && read(ends[0], &byte, 1) == 0 ? 0 : 1);
	}
	assert_int_equal(read(ends[1], &byte, 1), 1); /* it is there */
	assert_int_equal(mx_raw_close_endpoint(raw), MX_SUCCESS);
	raw = NULL;
	assert_int_equal(mx_raw_open_endpoint(0, NULL, 0, &raw), MX_SUCCESS);
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(child_status(child), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		opened(frames__come_back),
		opened(wait__as_long_as_there_is),
		opened(handle__tells_of_sends),
		opened(frames__of_others_are_not_seen),
		opened(sends__are_bounded_and_in_order),
		opened(sends__fetched_by_another_thread),
		opened(open__once_a_board),
		opened(claim__is_not_inherited),
		opened(arguments__are_checked),
	};

	return cmocka_run_group_tests(tests, enter_namespace, NULL);
}
