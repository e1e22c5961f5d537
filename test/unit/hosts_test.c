/* SPDX-License-Identifier: BSD-3-Clause */
/* Who speaks mxoe on an interface: one host, which a test plays at the other end of a pair of sockets. */
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "thole.h"
#include "transport/datagram/links.h"

static int ends[2];     /* the search's and the host's */
static time_t away_s;   /* so long the searching thread has had no core by now */

int __wrap_interface_choose(const char *name, struct interface *interface);
int __wrap_link_raw_socket(int type, bool native, int *fd_p);
int __wrap_bind(int fd, const struct sockaddr *name, socklen_t size);
int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
ssize_t __wrap_sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t size);

int __wrap_interface_choose(const char *name, struct interface *interface)
{
	(void)name;
	*interface = (struct interface){.name = "made", .index = 1, .ethernet = true, .up = true, .running = true};
	return 0;
}

int __wrap_link_raw_socket(int type, bool native, int *fd_p)
{
	(void)type, (void)native;
	*fd_p = ends[0];
	return 0;
}

int __wrap_bind(int fd, const struct sockaddr *name, socklen_t size)
{
	(void)fd, (void)name, (void)size;
	return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	int error = __real_clock_gettime(clock, time);

	time->tv_sec += away_s;
	return error;
}

/* The host answers what it is asked at once. */
ssize_t __wrap_sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t size)
{
	struct packet packet, reply = {.type = PACKET_REPLY, .host = {.name_length = 5, .name = "host7"}};
	uint8_t frame[PACKET_HEAD_MAX] = {0};

	(void)fd, (void)flags, (void)to, (void)size;
	if (codec_mxoe.decode(&packet, bytes, length) == 0 && packet.type == PACKET_QUERY) {
		reply.host.magic = packet.host.magic;
		(void)codec_mxoe.encode(&reply, frame);
		assert_int_equal(send(ends[1], frame, sizeof(frame), 0), sizeof(frame));
		away_s++;
	}
	return (ssize_t)length;
}

/* What it was told in time is there, though it looks at the clock only then. */
static void host__is_found_by_who_had_no_core_meanwhile(void **state)
{
	enum { WAIT_NS = 300000000 };
	struct thole_mxoe_host host;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
	assert_int_equal(send(ends[1], "noise", 5, 0), 5); /* which was here before */
	assert_int_equal(thole_mxoe_hosts("made", "00:00:00:00:00:00", WAIT_NS, &host, 1), 1); /* a socket's has none */
	assert_string_equal(host.name, "host7");
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(host__is_found_by_who_had_no_core_meanwhile),
	};

	return cmocka_run_group_tests_name("hosts", tests, NULL, NULL);
}
