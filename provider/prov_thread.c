/* SPDX-License-Identifier: BSD-3-Clause */
#include "prov_thread.h"

#include <stdlib.h>

#include "base/attendance.h"
#include "base/clock.h"
#include "base/thread.h"
#include "front/job.h"
#include "prov_watch.h"

enum { PAUSE_NS = 1000000 }; /* between two turns where it cannot sleep until something comes */

struct prov_thread {
	struct attendance attendance; /* the program's; */
	int steps_in; /* of no account where ranks share cores: who polls may have lost its own */
	struct prov_watch watch; /* the endpoints that it progresses */
	pthread_t thread;
	int stop; /* it is to end */
};

/* Sleep for a while if the program looks for itself. */
static bool prov_thread_naps(struct prov_thread *thread)
{
	uint32_t polls = load_relaxed(&thread->watch.domain->polls);
	uint64_t nap_ns = attendance_nap(&thread->attendance, polls, clock_now_ns());

	if (nap_ns > 0)
		clock_sleep(nap_ns);
	return nap_ns > 0;
}

static void *prov_thread_run(void *arg)
{
	struct prov_thread *thread = arg;
	struct prov_domain *domain = thread->watch.domain;

	while (!load_acquire(&thread->stop)) { /* partner: prov_thread_stop */
		int error;

		if (!load_relaxed(&thread->steps_in) && prov_thread_naps(thread))
			continue;
		prov_domain_lock(domain);
		prov_watch_progress(&thread->watch);
		error = prov_watch_arm(&thread->watch);
		prov_domain_unlock(domain);
		/* It may have been told to end meanwhile, and arming took that wake-up. Partner: prov_thread_stop. */
		if (!error && !load_acquire(&thread->stop))
			prov_watch_sleep(&thread->watch, -1, PTHREAD_CANCEL_DISABLE);
		else if (error && error != -FI_EAGAIN) /* as where the program has closed what it did not open */
			clock_sleep(PAUSE_NS);
	}
	return NULL;
}

int prov_thread_start(struct prov_domain *domain, struct prov_thread **thread_p)
{
	struct prov_thread *thread = calloc(1, sizeof *thread);
	int error;

	if (!thread)
		return -FI_ENOMEM;
	error = prov_watch_open(&thread->watch, domain, FI_WAIT_FD);
	if (error)
		goto free;
	if (thread_start(&thread->thread, "thole-progress", prov_thread_run, thread)) {
		error = -FI_ENOMEM; /* there are too many: FI_EAGAIN would say that it works if it is done again */
		goto close;
	}
	*thread_p = thread;
	return 0;
close:
	prov_watch_close(&thread->watch);
free:
	free(thread);
	return error;
}

int prov_thread_add(struct prov_thread *thread, struct thole_endpoint *endpoint)
{
	int error = thread ? prov_watch_add(&thread->watch, endpoint) : 0;

	if (!thread)
		return error;
	if (job_oversubscribed(endpoint))
		store_relaxed(&thread->steps_in, 1);
	prov_watch_wake(&thread->watch); /* so that it arms the new endpoint before it sleeps again */
	return error;
}

void prov_thread_stop(struct prov_thread *thread)
{
	if (!thread)
		return;
	if (!thread->watch.domain->charge.inherited) { /* else it is the parent's */
		store_release(&thread->stop, 1); /* partner: the thread */
		prov_domain_lock(thread->watch.domain);
		prov_watch_wake(&thread->watch);
		prov_domain_unlock(thread->watch.domain);
		pthread_join(thread->thread, NULL);
	}
	prov_watch_close(&thread->watch);
	free(thread);
}
