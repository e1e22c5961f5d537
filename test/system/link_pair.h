/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two hosts in one process: network namespaces joined by a veth pair, which end with the process. A link belongs to the
 * namespace in which it was opened; pair_enter says where the next calls are made.
 */
#ifndef LINK_PAIR_H
#define LINK_PAIR_H

#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAIR_SKIP = 77 };
static const char *const pair_devices[2] = {"tholeA", "tholeB"};
static int pair_namespaces[2];

static inline void pair_enter(unsigned side)
{
	if (setns(pair_namespaces[side], CLONE_NEWNET) != 0) {
		perror("setns");
		exit(1);
	}
}

/* Run a command, printf-like, in this namespace. */
static inline void pair_run(const char *format, ...)
{
	char command[512];
	va_list list;

	va_start(list, format);
	vsnprintf(command, sizeof(command), format, list);
	va_end(list);
	if (system(command) != 0) {
		fprintf(stderr, "failed: %s\n", command);
		exit(1);
	}
}

static inline int pair_namespace(void)
{
	int fd;

	if (unshare(CLONE_NEWNET) != 0)
		return -1;
	fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		pair_run("ip link set lo up");
	return fd;
}

/* Addresses 10.98.0.1 and .2, fd98::1 and ::2, MACs 02:00:00:00:98:01 and :02. Exits with 77 where there is no
 * permission. */
static inline void pair_make(unsigned mtu)
{
	if (system("ip -V >/dev/null 2>&1") != 0 || (pair_namespaces[1] = pair_namespace()) < 0 ||
	    (pair_namespaces[0] = pair_namespace()) < 0) {
		printf("skipped: needs iproute2 and the right to make network namespaces\n");
		exit(PAIR_SKIP);
	}
	pair_run(
		"ip link add %s mtu %u address 02:00:00:00:98:01 type veth peer name %s mtu %u "
		"address 02:00:00:00:98:02",
		pair_devices[0], mtu, pair_devices[1], mtu);
	pair_run("ip link set %s netns /proc/%d/fd/%d", pair_devices[1], (int)getpid(), pair_namespaces[1]);
	for (unsigned side = 0; side < 2; side++) {
		pair_enter(side);
		pair_run("sysctl -qw net.ipv6.conf.%s.accept_dad=0", pair_devices[side]);
		pair_run("ip address add 10.98.0.%u/24 dev %s", side + 1, pair_devices[side]);
		pair_run("ip address add fd98::%u/64 dev %s nodad", side + 1, pair_devices[side]);
		pair_run("ip link set %s up", pair_devices[side]);
	}
	for (unsigned side = 0; side < 2; side++) {
		pair_enter(side);
		pair_run("ip neigh replace 10.98.0.%u lladdr 02:00:00:00:98:0%u dev %s nud permanent", 2 - side,
			 2 - side, pair_devices[side]);
		pair_run("ip neigh replace fd98::%u lladdr 02:00:00:00:98:0%u dev %s nud permanent", 2 - side, 2 - side,
			 pair_devices[side]);
		/* until the kernel has given it a queue, it drops what is sent */
		pair_run("for i in $(seq 1000); do ip link show %s | grep -q 'state UP' && exit; sleep 0.01; done; "
			 "exit 1",
			 pair_devices[side]);
	}
}

#endif
