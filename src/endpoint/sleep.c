/* SPDX-License-Identifier: BSD-3-Clause */
#include "endpoint/sleep.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "endpoint/timer.h"
#include "endpoint/turn.h"

enum {
	ARM_NS_MIN = 1000000,       /* sleeps shorter than this are not worth a timer in somebody else's event loop */
	LOOP_SLEEP_NS = 1000000,    /* longest sleep of an event loop after others have polled */
	LOOPS_NS = 1000000000,      /* so long after two threads' loops have armed by turns both may sleep */
	THREADS_SLEEP_NS = 1000000, /* longest sleep beside other threads: one may take what another is waiting for */
};

int thole_fd(struct thole_endpoint *endpoint)
{
	return endpoint->base.wait_fd;
}

/* Another number after operations that a peer has to hear of. */
static uint64_t endpoint_starts(const struct thole_endpoint *endpoint)
{
	const uint64_t *counters = endpoint->base.counters;

	return counters[COUNTER_SENT_EAGER] + counters[COUNTER_SENT_RENDEZVOUS] + counters[COUNTER_PUTS] +
	       counters[COUNTER_GETS] + counters[COUNTER_ATOMICS];
}

bool endpoint_has_started(const struct thole_endpoint *endpoint)
{
	return endpoint_of(endpoint)->armed_starts != endpoint_starts(endpoint);
}

/* Whether another thread's loop may sleep on the same descriptor. Who of them looked first would have the wake-up for
 * himself, so all come every LOOP_SLEEP_NS, and none takes back what is to wake the others. */
static bool endpoint_rouses_loops(struct thole_endpoint *endpoint)
{
	struct endpoint *whole = endpoint_of(endpoint);
	bool another = endpoint_wakes_another(whole);
	uint64_t now_ns;

	if (whole->loops_until_ns == 0 && !another)
		return false;
	now_ns = clock_now_ns();
	if (another)
		whole->loops_until_ns = now_ns + LOOPS_NS;
	else if (now_ns >= whole->loops_until_ns)
		whole->loops_until_ns = 0;
	if (whole->loops_until_ns == 0)
		return false;
	if (whole->roused && whole->rouse_ns <= now_ns)
		endpoint_roused(endpoint);
	endpoint_rouse(&endpoint->base, now_ns + LOOP_SLEEP_NS);
	return true;
}

int thole_arm(struct thole_endpoint *endpoint)
{
	struct endpoint *whole = endpoint_of(endpoint);
	uint64_t longest;
	bool loops;

	endpoint_lock(endpoint);
	longest = endpoint_arm(endpoint);
	loops = endpoint_rouses_loops(endpoint);
	if (!loops)
		endpoint_roused(endpoint);
	if (whole->beside || !list_empty(&endpoint->queue))
		longest = 0; /* what that came to is not known to the caller, or not fetched */
	whole->beside = false;
	/* A sleep that has to end in time cannot be left to somebody else's event loop, but for a timer of ours in
	 * it; nor one that another thread's call may end. */
	if ((endpoint->safe && !endpoint_timer_make(endpoint)) ||
	    (longest != UINT64_MAX && (longest < ARM_NS_MIN || !(loops || endpoint_timer(endpoint, longest))))) {
		endpoint_disarm(endpoint);
		endpoint_progress(endpoint);
		longest = 0;
	}
	if (longest == 0 && endpoint_wakes_another(whole)) { /* whose loop it stays */
		endpoint_leave(endpoint);
		return THOLE_ERR_AGAIN;
	}
	whole->armed_at = longest > 0 ? endpoint_turns(endpoint) : 0;
	whole->armed_starts = endpoint_starts(endpoint);
	whole->armed_calls = whole->calls;
	whole->armed_by = pthread_self();
	whole->armed = endpoint->safe && longest > 0;
	if (whole->armed)
		whole->armed_thread = gettid();
	endpoint->loop_awaits = longest > 0;
	endpoint_unlock(endpoint);
	return longest > 0 ? 0 : THOLE_ERR_AGAIN;
}

/* Its loop comes at once where something was found, perhaps for it. Else soon: whoever polls goes on doing so, mostly,
 * and then it need not. What is set for it stays until it comes, so that others' next calls cost nothing. */
void endpoint_left(struct thole_endpoint *endpoint)
{
	struct endpoint *whole = endpoint_of(endpoint);
	bool found = whole->calls != whole->armed_calls;

	if (pthread_equal(whole->armed_by, pthread_self())) {
		whole->armed = false;
	} else if (found) {
		whole->armed_calls = whole->calls;
		endpoint_rouse(&endpoint->base, 0);
	} else if (whole->armed_at != 0 && !endpoint_is_armed(endpoint)) {
		endpoint_rouse(&endpoint->base, clock_now_ns() + LOOP_SLEEP_NS);
		whole->armed_at = 0;
	}
}

/* The call has no function before glibc 2.35, so it goes by its number, and whoever is not kept can be cancelled in it
 * as in the C library's own; where the kernel (before 5.11) or a container's filter has no such call, ppoll does the
 * same for 0.2 us more. */
void descriptor_sleep(int fd, uint64_t longest_ns)
{
	const int64_t kernel_time[2] = {(int64_t)(longest_ns / 1000000000u), (int64_t)(longest_ns % 1000000000u)};
	const struct timespec timeout = {.tv_sec = (time_t)kernel_time[0], .tv_nsec = (long)kernel_time[1]};
	bool endless = longest_ns > INT64_MAX / 2;
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	struct epoll_event event;
	bool refused;
	int type;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	refused = syscall(SYS_epoll_pwait2, fd, &event, 1, endless ? NULL : kernel_time, NULL, 0) < 0 &&
		  (errno == ENOSYS || errno == EPERM);
	pthread_setcanceltype(type, NULL);
	if (refused)
		ppoll(&polled, 1, endless ? NULL : &timeout, NULL);
}

void endpoint_sleep(struct thole_endpoint *endpoint, uint64_t now_ns, uint64_t deadline_ns)
{
	uint64_t longest = endpoint_arm(endpoint);
	struct endpoint *whole = endpoint_of(endpoint);

	if (endpoint->safe && longest > THREADS_SLEEP_NS)
		longest = THREADS_SLEEP_NS;
	if (longest > 0 && !whole->thread && !endpoint_is_rousing(endpoint, now_ns)) {
		if (deadline_ns - now_ns < longest)
			longest = deadline_ns - now_ns;
		endpoint_count(endpoint, COUNTER_SLEEPS);
		endpoint_leave(endpoint);
		descriptor_sleep(endpoint->base.wait_fd, longest);
		endpoint_lock(endpoint);
	} else if (longest > 0) {
		/* The progress thread sleeps on the same descriptor, and what it handles does not end this sleep; or
		 * it is readable for somebody else. */
		endpoint_leave(endpoint);
		clock_sleep(BESIDE_THREAD_NS);
		endpoint_lock(endpoint);
	}
	endpoint_disarm(endpoint);
	endpoint_maintain(endpoint, clock_now_ns());
}
