/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is of one's own user: by its number, and in a user namespace in which all have the same, by the kernel's word. */
#include "unit.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/user.h"
#include "descriptors.h"

enum { SKIPPED = 77, OTHER = 1000, PEER_PIDFD = 77 };

static void user__has_a_number(void **state)
{
	uid_t own = geteuid();

	(void)state;
	if (user_is_several(own))
		skip();
	assert_true(user_is_same(own, own, 0, -1));
	assert_false(user_is_same(own + 1, own, getpid(), -1));
}

/* A connection of a process that has ended since. */
static int socket_of_the_dead(void)
{
	struct sockaddr address = {.sa_family = AF_UNIX};
	socklen_t size = sizeof(address.sa_family); /* the kernel names it, */
	struct sockaddr_storage name;
	socklen_t length = sizeof(name);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0), fd;
	pid_t child;

	if (bind(listener, &address, size) != 0 || listen(listener, 1) != 0 ||
	    getsockname(listener, (struct sockaddr *)&name, &length) != 0) /* and says how */
		return -1;
	child = fork();
	if (child == 0)
		_exit(connect(socket(AF_UNIX, SOCK_SEQPACKET, 0), (struct sockaddr *)&name, length) != 0);
	if (waitpid(child, NULL, 0) != child)
		return -1;
	fd = accept(listener, NULL, NULL);
	close(listener);
	return fd;
}

static bool pidfd_is_known(int socket)
{
	socklen_t size = sizeof(int);
	int pidfd;

	if (getsockopt(socket, SOL_SOCKET, PEER_PIDFD, &pidfd, &size) != 0)
		return errno != ENOPROTOOPT;
	close(pidfd);
	return true;
}

/* Where no user has a number: the line that is wrong, or 0. socket: to the parent, which is of the same user. */
static int unmapped_look(int socket)
{
	uid_t own = geteuid();
	int dead, before;

	if (!user_is_several(own))
		return __LINE__;
	if (user_is_several(own + 1))
		return __LINE__;
	if (!user_is_same(own, own, getppid(), -1))
		return __LINE__;
	if (user_is_same(own, own, 1, -1)) /* root's */
		return __LINE__;
	if (user_is_same(own, own, 0, -1)) /* anybody of another PID namespace */
		return __LINE__;
	if (user_is_same(own + 1, own, getppid(), -1))
		return __LINE__;
	dead = socket_of_the_dead();
	if (dead < 0)
		return __LINE__;
	before = descriptors_of("");
	if (!user_is_same(own, own, getppid(), socket))
		return __LINE__;
	if (pidfd_is_known(socket) && user_is_same(own, own, getppid(), dead)) /* whose id another has by now */
		return __LINE__;
	return descriptors_of("") == before ? 0 : __LINE__;
}

static void user__has_none(void **state)
{
	int pair[2], lines[2], line = 0;
	pid_t child;

	(void)state;
	assert_int_equal(pipe(lines), 0);
	child = fork();
	if (child == 0) {
		if ((geteuid() == 0 && setuid(OTHER) != 0) || kill(1, 0) == 0 ||
		    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0)
			_exit(SKIPPED);
		child = fork();
		if (child == 0) {
			if (unshare(CLONE_NEWUSER) != 0)
				_exit(SKIPPED);
			line = unmapped_look(pair[0]);
			_exit(write(lines[1], &line, sizeof(line)) != sizeof(line));
		}
		_exit(WEXITSTATUS(child_status(child)));
	}
	close(lines[1]);
	if (WEXITSTATUS(child_status(child)) == SKIPPED)
		skip();
	assert_int_equal(read(lines[0], &line, sizeof(line)), sizeof(line));
	close(lines[0]);
	assert_int_equal(line, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(user__has_a_number),
		cmocka_unit_test(user__has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
