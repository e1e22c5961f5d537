/* SPDX-License-Identifier: BSD-3-Clause */
/* alarm: see alarm.h. */
#include "transport/datagram/alarm.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"

int alarm_open(struct alarm *alarm)
{
	char remedy[LIMITS_REMEDY_MAX];

	alarm->set = false;
	alarm->fd = limits_own(epoll_create1(EPOLL_CLOEXEC));
	return alarm->fd >= 0 ? 0
			      : error_set(THOLE_ERR_SYSTEM, "cannot make an epoll descriptor: %m%s",
					  limits_remedy(errno, remedy));
}

void alarm_close(struct alarm *alarm)
{
	if (alarm->fd >= 0)
		close(alarm->fd);
	alarm->fd = -1;
}

enum alarm_state alarm_set(struct alarm *alarm, const int *sockets, unsigned count)
{
	struct epoll_event event = {.events = EPOLLIN};
	bool watched = alarm->set;

	alarm->set = true;
	for (unsigned i = 0; i < count && !watched; i++)
		if (sockets[i] >= 0 && epoll_ctl(alarm->fd, EPOLL_CTL_ADD, sockets[i], &event) != 0) {
			alarm_clear(alarm, sockets, i);
			return ALARM_REFUSED;
		}
	return epoll_wait(alarm->fd, &event, 1, 0) > 0 ? ALARM_RINGS : ALARM_SET;
}

void alarm_clear(struct alarm *alarm, const int *sockets, unsigned count)
{
	for (unsigned i = 0; i < count && alarm->set; i++)
		if (sockets[i] >= 0)
			epoll_ctl(alarm->fd, EPOLL_CTL_DEL, sockets[i], NULL);
	alarm->set = false;
}
