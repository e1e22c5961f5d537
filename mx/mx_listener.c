/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_listener.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/registered.h"
#include "base/thread.h"

enum {
	EVENTS = 16,    /* descriptors attended to before others may have the mutex */
	LOOK_MS = 1000, /* whether it is to end, of who cannot be woken any more: see mxi_listener_is_whole */
};

static void mxi_listener_fds_close(struct mxi_listener *listener)
{
	if (listener->epoll_fd >= 0)
		close(listener->epoll_fd);
	if (listener->timer_fd >= 0)
		close(listener->timer_fd);
	listener->epoll_fd = listener->timer_fd = -1;
}

static void mxi_listener_attend(struct mxi_listener *listener, const struct epoll_event *event)
{
	uint64_t times;

	if (event->data.fd != listener->timer_fd)
		listener->attend(event->data.fd, event->events);
	else if (read(listener->timer_fd, &times, sizeof(times)) == sizeof(times))
		listener->alarm();
}

/* Whether its descriptors are what they were. */
static bool mxi_listener_is_whole(const struct mxi_listener *listener)
{
	return registered_for(listener->epoll_fd, listener->timer_fd,
			      (struct epoll_event){.events = EPOLLIN, .data.fd = listener->timer_fd});
}

static void *mxi_listener_run(void *arg)
{
	struct mxi_listener *listener = arg;
	struct epoll_event events[EVENTS];
	bool ending = false;

	while (!ending) {
		bool whole = mxi_listener_is_whole(listener);
		int count = whole ? epoll_wait(listener->epoll_fd, events, EVENTS, LOOK_MS) : 0;

		pthread_mutex_lock(listener->mutex);
		ending = listener->ending || !whole;
		for (int i = 0; i < count && !ending; i++)
			mxi_listener_attend(listener, &events[i]);
		pthread_mutex_unlock(listener->mutex);
	}
	return NULL;
}

int mxi_listener_start(struct mxi_listener *listener)
{
	listener->alarm_ns = UINT64_MAX;
	listener->ending = false;
	listener->epoll_fd = limits_own(epoll_create1(EPOLL_CLOEXEC));
	listener->timer_fd = limits_own(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
	if (listener->epoll_fd >= 0 && listener->timer_fd >= 0 &&
	    mxi_listener_watch(listener, listener->timer_fd) == 0) {
		errno = thread_start(&listener->thread, "thole-mx", mxi_listener_run, listener);
		listener->running = errno == 0;
	}
	if (listener->running)
		return 0;
	error_set(THOLE_ERR_SYSTEM, "cannot start the thread by which MX endpoints are found: %m");
	mxi_listener_fds_close(listener);
	return THOLE_ERR_SYSTEM;
}

void mxi_listener_stop(struct mxi_listener *listener)
{
	listener->ending = true;
	mxi_listener_alarm(listener, 1); /* long ago; where there is none the thread looks by itself, soon */
	pthread_mutex_unlock(listener->mutex);
	pthread_join(listener->thread, NULL);
	pthread_mutex_lock(listener->mutex);
	mxi_listener_forget(listener);
}

void mxi_listener_forget(struct mxi_listener *listener)
{
	if (!mxi_listener_is_whole(listener)) /* what has their numbers is somebody else's */
		listener->epoll_fd = listener->timer_fd = -1;
	mxi_listener_fds_close(listener);
	listener->running = listener->ending = false;
}

int mxi_listener_watch(struct mxi_listener *listener, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(listener->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

void mxi_listener_unwatch(struct mxi_listener *listener, int fd)
{
	if (fd >= 0 && listener->epoll_fd >= 0)
		epoll_ctl(listener->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void mxi_listener_alarm(struct mxi_listener *listener, uint64_t when_ns)
{
	struct itimerspec time = {.it_value = {0}}; /* never */

	listener->alarm_ns = when_ns;
	if (when_ns != UINT64_MAX) {
		time.it_value.tv_sec = (time_t)(when_ns / 1000000000);
		time.it_value.tv_nsec = (long)(when_ns % 1000000000);
	}
	if (mxi_listener_is_whole(listener))
		timerfd_settime(listener->timer_fd, TFD_TIMER_ABSTIME, &time, NULL);
}

void mxi_listener_alarm_by(struct mxi_listener *listener, uint64_t when_ns)
{
	if (when_ns < listener->alarm_ns)
		mxi_listener_alarm(listener, when_ns);
}
