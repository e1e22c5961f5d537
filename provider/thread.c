/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thread.c - automatic progress: a thread of the domain's own that sleeps until an endpoint has
 * something and then makes progress under the domain's lock.
 *
 * It watches the endpoints as a queue does (watch.c). Thole has such a thread too, but that one
 * knows nothing of the domain's lock, so it stays off.
 */
#include <signal.h>
#include <stdlib.h>

#include "provider.h"

struct prov_thread {
	struct prov_watch watch;
	pthread_t thread;
	atomic_bool stop;
};

static void *thread_run(void *arg)
{
	struct prov_thread *thread = arg;
	struct prov_domain *domain = thread->watch.domain;

	while (!atomic_load(&thread->stop)) {
		int error;

		prov_domain_lock(domain);
		prov_watch_progress(&thread->watch);
		error = prov_watch_arm(&thread->watch);
		prov_domain_unlock(domain);
		if (!error)
			prov_watch_sleep(&thread->watch, -1);
	}
	return NULL;
}

int prov_thread_start(struct prov_domain *domain, struct prov_thread **thread_p)
{
	struct prov_thread *thread = calloc(1, sizeof *thread);
	sigset_t all, before;
	int error;

	if (!thread)
		return -FI_ENOMEM;
	error = prov_watch_open(&thread->watch, domain, FI_WAIT_FD);
	if (error)
		goto free;
	sigfillset(&all); /* the program's signals are for its own threads */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = -pthread_create(&thread->thread, NULL, thread_run, thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		goto close;
	*thread_p = thread;
	return 0;
close:
	prov_watch_close(&thread->watch);
free:
	free(thread);
	return error;
}

/* With the domain's lock. The thread is woken, so that it arms the new endpoint before it sleeps
 * again. */
int prov_thread_add(struct prov_thread *thread, struct prov_endpoint *endpoint)
{
	int error = thread ? prov_watch_add(&thread->watch, endpoint) : 0;

	if (thread)
		prov_watch_wake(&thread->watch);
	return error;
}

void prov_thread_remove(struct prov_thread *thread, struct prov_endpoint *endpoint)
{
	if (thread)
		prov_watch_remove(&thread->watch, endpoint);
}

void prov_thread_stop(struct prov_thread *thread)
{
	if (!thread)
		return;
	atomic_store(&thread->stop, true);
	prov_watch_wake(&thread->watch);
	pthread_join(thread->thread, NULL);
	prov_watch_close(&thread->watch);
	free(thread);
}
