/* SPDX-License-Identifier: BSD-3-Clause */
/* timer: see timer.h. */
#include "endpoint/timer.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/thread.h"

enum { LOOP_COMES_NS = 1000000000 }; /* a loop that is roused comes within so long */

static void timer_ready(struct transport_owner *owner, struct watcher *watcher, uint64_t now_ns)
{
	struct endpoint *whole = container_of(watcher, struct endpoint, timer);
	uint64_t count;

	(void)owner, (void)now_ns;
	if (endpoint_wakes_another(whole))
		return;
	(void)!read(whole->timer_fd, &count, sizeof(count));
	whole->roused = false;
}

bool endpoint_timer_make(struct thole_endpoint *endpoint)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = &endpoint_of(endpoint)->timer};
	int fd;

	if (endpoint_of(endpoint)->timer_fd >= 0)
		return true;
	fd = limits_own(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	endpoint_of(endpoint)->timer.ready = timer_ready;
	if (fd < 0)
		return false;
	if (epoll_ctl(endpoint->base.wait_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
		close(fd);
		return false;
	}
	endpoint_of(endpoint)->timer_fd = fd;
	return true;
}

bool endpoint_timer(struct thole_endpoint *endpoint, uint64_t longest_ns)
{
	struct itimerspec when = {.it_value = {.tv_sec = (time_t)(longest_ns / 1000000000u),
					       .tv_nsec = (long)(longest_ns % 1000000000u)}};

	return endpoint_timer_make(endpoint) &&
	       timerfd_settime(endpoint_of(endpoint)->timer_fd, 0, &when, NULL) == 0;
}

/* Who sleeps on the descriptor need not be who has armed: it stays readable for long enough for anybody. */
static bool loop_has_ended(const struct endpoint *whole, uint64_t now_ns)
{
	return now_ns > whole->roused_ns + LOOP_COMES_NS && thread_has_ended(whole->armed_thread);
}

bool endpoint_is_rousing(struct thole_endpoint *endpoint, uint64_t now_ns)
{
	struct endpoint *whole = endpoint_of(endpoint);

	if (!endpoint_wakes_another(whole) || !whole->roused || whole->rouse_ns > now_ns)
		return false;
	if (!loop_has_ended(whole, now_ns))
		return true;
	whole->armed = false;
	endpoint_roused(endpoint);
	return false;
}

void endpoint_rouse(struct transport_owner *owner, uint64_t when_ns)
{
	struct endpoint *whole = endpoint_of(endpoint_of_owner(owner));
	uint64_t now_ns;

	if (whole->roused && whole->rouse_ns <= when_ns)
		return;
	now_ns = clock_now_ns();
	whole->roused = endpoint_timer(&whole->core, when_ns > now_ns ? when_ns - now_ns : 1);
	if (!whole->roused) /* the next one tries again */
		return;
	owner->asleep_until_ns = whole->rouse_ns = when_ns;
	whole->roused_ns = when_ns > now_ns ? when_ns : now_ns;
}

void endpoint_roused(struct thole_endpoint *endpoint)
{
	if (endpoint_of(endpoint)->roused)
		endpoint_timer(endpoint, 0);
	endpoint_of(endpoint)->roused = false;
}
