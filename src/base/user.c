/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/user.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/host.h"
#include "base/limits.h"

enum {
	USER_OVERFLOW = 65534, /* where the system does not tell which number it is */
	PEER_PIDFD = 77,       /* SO_PEERPIDFD, of Linux 6.5; older headers do not have it */
};

/* Whether each user of the system has a number here, as in the first user namespace. */
static bool user_map_is_whole(void)
{
	char text[4096]; /* a longer one has gaps */
	const char *at = text;
	unsigned count;
	uint64_t sum = 0;
	int length;

	host_read("/proc/self/uid_map", text, sizeof(text));
	for (; sscanf(at, "%*u %*u %u%n", &count, &length) == 1; at += length)
		sum += count;
	return sum == UINT32_MAX;
}

/* The number of those without one: asked for once, since each connection and each notice needs it. */
static uid_t user_overflow(void)
{
	static uint64_t known; /* and one more; 0: not yet */
	uint64_t overflow = load_relaxed(&known);
	unsigned told;
	char text[16];

	if (overflow == 0) {
		host_read("/proc/sys/kernel/overflowuid", text, sizeof(text));
		overflow = (uint64_t)(sscanf(text, "%u", &told) == 1 ? told : USER_OVERFLOW) + 1;
		store_relaxed(&known, overflow);
	}
	return (uid_t)(overflow - 1);
}

bool user_is_several(uid_t uid)
{
	return uid == user_overflow() && !user_map_is_whole();
}

/* Whether this process may send signals to that one: for that the kernel compares the users themselves. A process id
 * may be another process's by now, a pidfd not. */
static bool user_is_signalled(pid_t pid, int socket)
{
	socklen_t size = sizeof(int);
	long error;
	int pidfd;

	if (socket >= 0 && getsockopt(socket, SOL_SOCKET, PEER_PIDFD, &pidfd, &size) == 0) {
		error = syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0);
		close(pidfd);
		return error == 0;
	}
	if (socket >= 0 && errno != ENOPROTOOPT && !limits_caused(errno))
		return false; /* that process has ended */
	return pid > 0 && kill(pid, 0) == 0;
}

bool user_is_same(uid_t told, uid_t own, pid_t pid, int socket)
{
	return told == own && (!user_is_several(told) || user_is_signalled(pid, socket));
}
