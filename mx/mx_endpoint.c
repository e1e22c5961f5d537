/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_endpoint.h"

#include <sched.h>
#include <time.h>

enum {
	SEIZE_TRIES = 1000, /* some milliseconds */
	SEIZE_LIST_S = 1,
};

static pthread_mutex_t endpoints_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct list_node endpoints = {&endpoints, &endpoints};

/* Those in the list are the parent's, whose threads may have been amid it. The mutex is held while endpoints are
 * polled, which takes other locks, so a fork cannot wait for it. */
static void mxi_endpoint_fork_child(void)
{
	static const pthread_mutex_t nobody_has = PTHREAD_MUTEX_INITIALIZER;

	endpoints_mutex = nobody_has;
	list_init(&endpoints);
}

__attribute__((constructor)) static void mxi_endpoint_begin(void) /* see forked.h */
{
	pthread_atfork(NULL, NULL, mxi_endpoint_fork_child);
}

void mxi_endpoint_each(void (*visit)(struct mx_endpoint *endpoint, void *arg), void *arg)
{
	pthread_mutex_lock(&endpoints_mutex);
	for (struct list_node *node = list_first(&endpoints); node; node = list_next(&endpoints, node))
		visit(container_of(node, struct mx_endpoint, node), arg);
	pthread_mutex_unlock(&endpoints_mutex);
}

void mxi_endpoint_counters(struct mx_endpoint *endpoint, uint64_t *values, size_t count)
{
	lock_take(&endpoint->lock);
	thole_counters(endpoint->thole, values, count);
	lock_leave(&endpoint->lock);
}

void mxi_endpoint_enlist(struct mx_endpoint *endpoint)
{
	pthread_mutex_lock(&endpoints_mutex);
	list_push_back(&endpoints, &endpoint->node);
	pthread_mutex_unlock(&endpoints_mutex);
}

void mxi_endpoint_delist(struct mx_endpoint *endpoint)
{
	pthread_mutex_lock(&endpoints_mutex);
	list_unlink(&endpoint->node);
	pthread_mutex_unlock(&endpoints_mutex);
}

/* The lock for good; false: a thread is in a call that does not end, or this one ends inside of
 * one. */
static bool mxi_endpoint_seize(struct mx_endpoint *endpoint)
{
	for (int tries = 0; tries < SEIZE_TRIES; tries++) {
		if (lock_try(&endpoint->lock))
			return true;
		sched_yield();
	}
	return false;
}

/* The list, for good. Where somebody visits it for so long, perhaps this thread, whose handler ends the program, it
 * does not change meanwhile either. */
static void mxi_endpoint_seize_list(void)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until); /* the other one may be set back meanwhile */
	until.tv_sec += SEIZE_LIST_S;
	pthread_mutex_clocklock(&endpoints_mutex, CLOCK_MONOTONIC, &until);
}

/* A step of draining all that is seized, which may be waiting for each other. Whether that is over. */
static bool mxi_endpoint_drain_step(void)
{
	bool over = true;

	for (struct list_node *node = list_first(&endpoints); node; node = list_next(&endpoints, node)) {
		struct mx_endpoint *endpoint = container_of(node, struct mx_endpoint, node);

		if (endpoint->seized && !thole_drain(endpoint->thole))
			over = false;
	}
	return over;
}

/* Programs of MX end without closing, and what they were told is sent has to arrive. Whoever still
 * calls, and whoever opens or closes, stays in that call until the process is gone. */
__attribute__((destructor)) static void mxi_endpoint_drain(void)
{
	mxi_endpoint_seize_list();
	for (struct list_node *node = list_first(&endpoints); node; node = list_next(&endpoints, node)) {
		struct mx_endpoint *endpoint = container_of(node, struct mx_endpoint, node);

		endpoint->seized = mxi_endpoint_seize(endpoint);
	}
	while (!mxi_endpoint_drain_step())
		continue;
	for (struct list_node *node = list_first(&endpoints); node; node = list_next(&endpoints, node)) {
		struct mx_endpoint *endpoint = container_of(node, struct mx_endpoint, node);

		if (endpoint->seized)
			thole_endpoint_close(endpoint->thole);
	}
}
