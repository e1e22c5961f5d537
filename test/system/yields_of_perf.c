/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * yields_of_perf - preloaded into thole-perf: how often it looks whether something has come by a connection, in vain,
 * and how often it calls sched_yield. A process that looked adds a line to the file that YIELDS names as it exits.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static long looks, yields;

int sched_yield(void)
{
	yields++;
	return (int)syscall(SYS_sched_yield);
}

ssize_t recv(int fd, void *bytes, size_t length, int flags)
{
	ssize_t count = syscall(SYS_recvfrom, fd, bytes, length, flags, NULL, NULL);

	looks += flags & MSG_DONTWAIT && count < 0;
	return count;
}

__attribute__((destructor)) static void say(void)
{
	FILE *file = looks ? fopen(getenv("YIELDS"), "a") : NULL;

	if (file) {
		fprintf(file, "%ld %ld\n", looks, yields);
		fclose(file);
	}
}
