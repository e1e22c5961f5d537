/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stand_in: who makes progress in the program's place while it does something else: whoever calls thole_tend or
 * thole_drain, and the progress thread (option progress_thread). None of them keeps an event loop asleep.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/attendance.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/thread.h"
#include "endpoint/sleep.h"
#include "endpoint/timer.h"
#include "endpoint/turn.h"

enum {
	TEND_POLLS = 64,          /* of one thole_tend, or turn of the progress thread: others wait for no more */
	BESIDE_LOOP_NS = 1000000, /* a sleep of the progress thread beside an event loop that sleeps */
	BESIDE_LOOP_LOOKS = 10,   /* looks at which the descriptor is readable and nobody came: he does not sleep */
	THREAD_SLEEP_NS_MAX = 10000000, /* bounds how long closing waits for the thread */
};

static bool endpoint_is_tended(const struct thole_endpoint *endpoint)
{
	return !endpoint_drained(endpoint) || endpoint_moves_alone(endpoint);
}

/* What thole_tend says of it. */
static int endpoint_tending(const struct thole_endpoint *endpoint)
{
	if (!endpoint_is_tended(endpoint))
		return 0;
	return endpoint_delivers(endpoint) && !endpoint_moves_alone(endpoint) ? 2 : 1;
}

/* A turn in place of the program, also where it has armed: if it sleeps all the same, the descriptor is readable.
 * Returns whether something was found. */
static bool endpoint_replace(struct thole_endpoint *endpoint)
{
	struct endpoint *whole = endpoint_of(endpoint);
	bool armed = endpoint_is_armed(endpoint);
	uint32_t calls = whole->calls;

	endpoint_maintain(endpoint, clock_now_ns());
	for (int i = 0; i < TEND_POLLS && endpoint_poll(endpoint) > 0; i++)
		;
	if (armed) {
		whole->beside = true;
		endpoint_arm(endpoint);
		endpoint_rouse(&endpoint->base, 0);
		whole->armed_at = whole->roused ? endpoint_turns(endpoint) : 0;
	}
	return whole->calls != calls;
}

int thole_tend(struct thole_endpoint *endpoint)
{
	bool exposed;
	int tending;

	endpoint_lock(endpoint);
	exposed = endpoint->regions.count > 0; /* what peers do to these, they do without the program */
	tending = endpoint_tending(endpoint);
	if ((tending || exposed) && (!endpoint_is_armed(endpoint) || endpoint_has_started(endpoint)) &&
	    !endpoint->base.simulated) {
		bool found;

		turn_stands_in = true;
		found = endpoint_replace(endpoint);
		turn_stands_in = false;
		/* Who accesses one does so again, as a rule. */
		tending = exposed && found ? 1 : endpoint_tending(endpoint);
	}
	endpoint_leave(endpoint);
	return tending;
}

int thole_drain(struct thole_endpoint *endpoint)
{
	bool over;

	if (endpoint_is_parents(endpoint))
		return true;
	endpoint_lock(endpoint);
	over = endpoint->base.simulated || endpoint_drain(endpoint); /* there closing waits for nothing */
	endpoint_leave(endpoint);
	return over;
}

/* ---- The progress thread --------------------------------------------------------------------------- */

struct progress_thread {
	pthread_t id;
	struct thole_endpoint *endpoint;
	struct attendance attendance; /* the program's */
	uint32_t turns; /* of endpoint_turns, those that the thread has made */
	uint32_t armed_at; /* the endpoint's, at the last look, */
	uint32_t looks;    /* and at how many that was so and its descriptor readable */
	int stop;
};

/* Sleep for a while if the program polls, as long as it has a core for that. */
static bool progress_naps(struct progress_thread *thread)
{
	struct thole_endpoint *endpoint = thread->endpoint;
	uint32_t polls;
	uint64_t nap_ns;

	if (endpoint->base.oversubscribed)
		return false;
	endpoint_lock(endpoint);
	polls = endpoint_turns(endpoint) - thread->turns;
	endpoint_unlock(endpoint);
	nap_ns = attendance_nap(&thread->attendance, polls, clock_now_ns());
	if (nap_ns > 0)
		clock_sleep(nap_ns);
	return nap_ns > 0;
}

/* Whether who has armed sleeps, or is about to. Else it was woken by something else, and computes. */
static bool progress_is_attended(struct progress_thread *thread)
{
	struct thole_endpoint *endpoint = thread->endpoint;
	struct pollfd polled = {.fd = endpoint->base.wait_fd, .events = POLLIN};

	if (endpoint_has_started(endpoint))
		return false;
	if (thread->armed_at != endpoint_of(endpoint)->armed_at)
		thread->looks = 0;
	thread->armed_at = endpoint_of(endpoint)->armed_at;
	if (thread->looks < BESIDE_LOOP_LOOKS && poll(&polled, 1, 0) == 1)
		thread->looks++;
	return thread->looks < BESIDE_LOOP_LOOKS;
}

static void *progress_run(void *arg)
{
	struct progress_thread *thread = arg;
	struct thole_endpoint *endpoint = thread->endpoint;

	turn_stands_in = true;
	while (!load_acquire(&thread->stop)) {
		uint64_t longest;
		uint32_t turns;
		bool found = false, rousing;
		int n = 1;

		if (progress_naps(thread))
			continue;
		endpoint_lock(endpoint);
		if (endpoint_is_armed(endpoint)) {
			turns = endpoint_turns(endpoint);
			if (!progress_is_attended(thread)) {
				found = endpoint_replace(endpoint);
				thread->armed_at = endpoint_of(endpoint)->armed_at;
			}
			thread->turns += endpoint_turns(endpoint) - turns;
			endpoint_leave(endpoint);
			clock_sleep(found ? BESIDE_THREAD_NS : BESIDE_LOOP_NS);
			continue;
		}
		endpoint_of(endpoint)->beside = true;
		turns = endpoint_turns(endpoint);
		for (int i = 0; i < TEND_POLLS && n > 0; i++)
			n = endpoint_progress(endpoint);
		thread->turns += endpoint_turns(endpoint) - turns;
		if (n > 0) {
			endpoint_leave(endpoint);
			continue;
		}
		longest = endpoint_arm(endpoint);
		rousing = endpoint_is_rousing(endpoint, clock_now_ns());
		endpoint_leave(endpoint);
		if (longest > THREAD_SLEEP_NS_MAX)
			longest = THREAD_SLEEP_NS_MAX;
		if (longest > 0 && rousing)
			clock_sleep(BESIDE_LOOP_NS);
		else if (longest > 0)
			descriptor_sleep(endpoint->base.wait_fd, longest);
		endpoint_lock(endpoint);
		if (!endpoint_is_armed(endpoint)) { /* else it has armed since */
			endpoint_of(endpoint)->beside = true;
			endpoint_disarm(endpoint);
			endpoint_maintain(endpoint, clock_now_ns());
		}
		endpoint_leave(endpoint);
	}
	return NULL;
}

int progress_thread_start(struct thole_endpoint *endpoint)
{
	struct progress_thread *thread = calloc(1, sizeof(*thread));
	char remedy[LIMITS_REMEDY_MAX];

	if (!thread)
		return error_set(THOLE_ERR_MEMORY, "no memory for the progress thread");
	thread->endpoint = endpoint;
	endpoint_of(endpoint)->thread = thread;
	errno = thread_start(&thread->id, "thole-progress", progress_run, thread);
	if (errno) {
		free(thread);
		endpoint_of(endpoint)->thread = NULL;
		return error_set(THOLE_ERR_SYSTEM, "cannot start the progress thread: %m%s",
				 limits_remedy(errno, remedy));
	}
	return 0;
}

void progress_thread_stop(struct thole_endpoint *endpoint)
{
	if (!endpoint_of(endpoint)->thread)
		return;
	store_release(&endpoint_of(endpoint)->thread->stop, 1);
	pthread_join(endpoint_of(endpoint)->thread->id, NULL);
	free(endpoint_of(endpoint)->thread);
	endpoint_of(endpoint)->thread = NULL;
}
