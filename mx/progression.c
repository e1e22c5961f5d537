/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progression: a thread that looks after endpoints whose program is elsewhere, as MX has one.
 *
 * A program that computes, or waits at another endpoint, makes no calls at this one, and its peers wait: for a large message that they
 * are to have, for a frame that was lost. So every TICK_MS each endpoint that nobody has looked at since the last time is progressed,
 * once. Who uses an endpoint never waits for this thread, nor does it run a program's handler: what nobody expects waits for a
 * call of the program's.
 *
 * There as long as there are endpoints. Lock order: `mutex`, that of the list of endpoints, an endpoint's (which is only tried).
 */
#include "base/thread.h"
#include "internal.h"

#include <time.h>


enum {
	TICK_MS = 50,      /* some times what a lost frame takes to be sent again */
	MS = 1000000,      /* ns */
	SECOND = 1000 * MS,
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_cond_t left; /* the last user has */
static unsigned users;
static bool running;

static void endpoint_tick(struct mx_endpoint *endpoint, void *arg)
{
	(void)arg;
	if (!lock_try(&endpoint->lock))
		return; /* somebody is looking */
	if (endpoint->looks == endpoint->looks_before && !endpoint->leader_sleeps && endpoint->followers == 0 &&
	    !endpoint->in_handler && !endpoint->disabled)
		thole_poll(endpoint->thole, NULL, 0);
	endpoint->looks_before = endpoint->looks;
	lock_leave(&endpoint->lock);
}

static void tick_wait(void)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += TICK_MS * MS;
	until.tv_sec += until.tv_nsec / SECOND;
	until.tv_nsec %= SECOND;
	while (users > 0 && pthread_cond_timedwait(&left, &mutex, &until) == 0)
		continue;
}

/* It ends by itself, and who comes meanwhile finds it running still. */
static void *progression_run(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&mutex);
	while (users > 0) {
		tick_wait();
		mxi_endpoint_each(endpoint_tick, NULL);
	}
	running = false;
	pthread_mutex_unlock(&mutex);
	return NULL;
}

static void progression_init(void)
{
	pthread_condattr_t clock;

	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&left, &clock);
	pthread_condattr_destroy(&clock);
}

static bool progression_start(void)
{
	pthread_t thread;

	pthread_once(&once, progression_init);
	return thread_start(&thread, "thole-mx-tick", progression_run, NULL) == 0 && pthread_detach(thread) == 0;
}

void mxi_progression_join(void)
{
	pthread_mutex_lock(&mutex);
	users++;
	if (!running)
		running = progression_start();
	pthread_mutex_unlock(&mutex);
}

void mxi_progression_leave(void)
{
	pthread_mutex_lock(&mutex);
	if (--users == 0 && running)
		pthread_cond_signal(&left);
	pthread_mutex_unlock(&mutex);
}
