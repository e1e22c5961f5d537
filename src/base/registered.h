/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * registered: whether an epoll's descriptor and one that is registered there are what they were. A program may have
 * closed what it did not open (closefrom), and have files of its own by these numbers; only two that were registered
 * with each other take a change of that.
 */
#ifndef THOLE_BASE_REGISTERED_H
#define THOLE_BASE_REGISTERED_H

#include <errno.h>
#include <stdbool.h>
#include <sys/epoll.h>

/* If so, the event is what the one is registered for from now on. Errors that say nothing of that are as good. */
static inline bool registered_for(int epoll_fd, int fd, struct epoll_event event)
{
	return epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event) == 0 ||
	       (errno != EBADF && errno != EINVAL && errno != ENOENT && errno != EPERM);
}

#endif
