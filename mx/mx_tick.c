/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_tick.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/thread.h"
#include "mx_endpoint.h"
#include "mx_progress.h"

enum {
	TICK_MS = 50, /* some times what a lost frame takes to be sent again */
	MS = 1000000, /* ns */
	SECOND = 1000 * MS,
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t left; /* the last user has */
static unsigned users;
static bool running;

static void mxi_tick_endpoint(struct mx_endpoint *endpoint, void *arg)
{
	(void)arg;
	if (!lock_try(&endpoint->lock))
		return; /* somebody is looking */
	if (endpoint->polls == endpoint->polls_before && !endpoint->leader_sleeps && endpoint->followers == 0)
		mxi_progress_beside(endpoint);
	endpoint->polls_before = endpoint->polls;
	lock_leave(&endpoint->lock);
}

static void mxi_tick_wait(void)
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
static void *mxi_tick_run(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&mutex);
	while (users > 0) {
		mxi_tick_wait();
		mxi_endpoint_each(mxi_tick_endpoint, NULL);
	}
	running = false;
	pthread_mutex_unlock(&mutex);
	return NULL;
}

static void mxi_tick_init(void)
{
	pthread_condattr_t clock;

	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&left, &clock);
	pthread_condattr_destroy(&clock);
}

/* The thread is the parent's, which may have been amid anything, and so are its users. */
static void mxi_tick_fork_child(void)
{
	static const pthread_mutex_t nobody_has = PTHREAD_MUTEX_INITIALIZER;

	mutex = nobody_has;
	users = 0;
	running = false;
	mxi_tick_init();
}

__attribute__((constructor)) static void mxi_tick_begin(void) /* see forked.h */
{
	mxi_tick_init();
	pthread_atfork(NULL, NULL, mxi_tick_fork_child);
}

static mx_return_t mxi_tick_start(void)
{
	char remedy[LIMITS_REMEDY_MAX];
	pthread_t thread;

	errno = thread_start(&thread, "thole-mx-tick", mxi_tick_run, NULL);
	if (errno != 0)
		return (mx_return_t)error_set(MX_NO_RESOURCES,
					      "cannot start the thread that makes progress while the program "
					      "computes: %m%s",
					      limits_remedy(errno, remedy));
	pthread_detach(thread);
	running = true;
	return MX_SUCCESS;
}

mx_return_t mxi_tick_join(void)
{
	mx_return_t code = MX_SUCCESS;

	pthread_mutex_lock(&mutex);
	users++; /* first: one that starts looks whether there are any */
	if (!running)
		code = mxi_tick_start();
	if (code != MX_SUCCESS)
		users--;
	pthread_mutex_unlock(&mutex);
	return code;
}

void mxi_tick_leave(void)
{
	pthread_mutex_lock(&mutex);
	if (--users == 0 && running)
		pthread_cond_signal(&left);
	pthread_mutex_unlock(&mutex);
}
