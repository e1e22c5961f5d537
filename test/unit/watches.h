/* SPDX-License-Identifier: BSD-3-Clause */
/* Want of watches (fs.epoll.max_user_watches), where a test says so (-Wl,--wrap=epoll_ctl). For one file of a test. */
#ifndef WATCHES_H
#define WATCHES_H

#include <errno.h>
#include <sys/epoll.h>

static int refusing = -1; /* the epoll descriptor that there are no watches left for */

int __real_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);

int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event)
{
	if (epoll != refusing)
		return __real_epoll_ctl(epoll, what, fd, event);
	errno = ENOSPC;
	return -1;
}

#endif
