/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/wake.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/registered.h"

int wake_open(struct wake *wake)
{
	struct epoll_event event = {.events = EPOLLIN};
	int error;

	wake->event = limits_own(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	wake->epoll = limits_own(epoll_create1(EPOLL_CLOEXEC));
	if (wake->event >= 0 && wake->epoll >= 0 && epoll_ctl(wake->epoll, EPOLL_CTL_ADD, wake->event, &event) == 0)
		return 0;
	error = -errno;
	if (wake->event >= 0)
		close(wake->event);
	if (wake->epoll >= 0)
		close(wake->epoll);
	*wake = WAKE_NONE;
	return error;
}

bool wake_is_whole(const struct wake *wake)
{
	return wake->epoll >= 0 && registered_for(wake->epoll, wake->event, (struct epoll_event){.events = EPOLLIN});
}

void wake_raise(const struct wake *wake)
{
	if (wake_is_whole(wake))
		eventfd_write(wake->event, 1); /* if it is full, it is readable already */
}

void wake_drop(const struct wake *wake)
{
	eventfd_t ignored;

	if (wake_is_whole(wake))
		eventfd_read(wake->event, &ignored);
}

void wake_close(struct wake *wake)
{
	if (wake_is_whole(wake)) {
		close(wake->epoll);
		close(wake->event);
	}
	*wake = WAKE_NONE;
}
