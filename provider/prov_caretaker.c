/* SPDX-License-Identifier: BSD-3-Clause */
/* Nothing is called with the lock held that could take another one, so it may be held around a
 * fork. A child has no caretaker until it opens a domain of its own. */
#include "prov_caretaker.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/thread.h"

enum {
	PAUSE_MS_MIN = 10,  /* between two looks, while something waits here, */
	PAUSE_MS_MAX = 100, /* and when nothing has for long */
};

/* The thread. It ends when `stop` is set; who sets it waits for that, and frees this. */
struct caretaker {
	pthread_t thread;
	pthread_cond_t stopped; /* `stop` is set */
	pthread_cond_t left;    /* `visited` is another one */
	bool stop;
	bool inside;                 /* it is in */
	struct prov_domain *visited; /* this one, or wants to be; NULL: none. It stays until this is over */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list_node domains = {&domains, &domains};
static struct caretaker *current; /* there is one while there are domains */
static bool begun, able;

/* ---- Looking ------------------------------------------------------------------------------------------- */

static bool prov_caretaker_visit(struct prov_domain *domain)
{
	return domain->safe ? lock_try(&domain->lock) : biased_visit(&domain->biased);
}

static void prov_caretaker_part(struct prov_domain *domain)
{
	if (domain->safe)
		lock_leave(&domain->lock);
	else
		biased_part(&domain->biased);
}

/* Whether something waits here to be looked at soon, as far as can be seen: where a thread is inside, it sees to it. */
static bool prov_caretaker_tend(struct caretaker *self, struct prov_domain *domain)
{
	bool owes = false;

	if (!prov_caretaker_visit(domain))
		return false;
	store_relaxed(&self->inside, true);
	for (size_t i = 0; i < domain->endpoint_count; i++)
		if (domain->endpoints[i] && thole_tend(domain->endpoints[i]) == 1)
			owes = true;
	store_relaxed(&self->inside, false);
	prov_caretaker_part(domain);
	return owes;
}

/* Look at all once. With the lock, but not around a visit. */
static bool prov_caretaker_look(struct caretaker *self)
{
	bool owes = false;

	for (struct list_node *node = list_first(&domains); node; node = list_next(&domains, node)) {
		self->visited = container_of(node, struct prov_domain, tended_node);
		pthread_mutex_unlock(&lock);
		owes |= prov_caretaker_tend(self, self->visited);
		pthread_mutex_lock(&lock);
		self->visited = NULL;
		pthread_cond_broadcast(&self->left);
	}
	return owes;
}

static void prov_caretaker_sleep(struct caretaker *self, int pause_ms)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += pause_ms * 1000000L;
	if (end.tv_nsec >= 1000000000L) {
		end.tv_sec++;
		end.tv_nsec -= 1000000000L;
	}
	pthread_cond_timedwait(&self->stopped, &lock, &end);
}

static void *prov_caretaker_run(void *arg)
{
	struct caretaker *self = arg;
	int pause_ms = PAUSE_MS_MIN;

	pthread_mutex_lock(&lock);
	while (!self->stop) {
		if (prov_caretaker_look(self))
			pause_ms = PAUSE_MS_MIN;
		else
			pause_ms = 2 * pause_ms < PAUSE_MS_MAX ? 2 * pause_ms : PAUSE_MS_MAX;
		if (!self->stop)
			prov_caretaker_sleep(self, pause_ms);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* ---- Coming and going ---------------------------------------------------------------------------------- */

static void prov_caretaker_lock(void)
{
	pthread_mutex_lock(&lock);
}

static void prov_caretaker_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/* What the thread was is the parent's, which still has it; where it was inside, the child is not kept out. */
static void prov_caretaker_child(void)
{
	struct list_node *node;

	if (current && current->visited && (!current->visited->safe || current->inside))
		prov_caretaker_part(current->visited);
	while ((node = list_first(&domains))) {
		container_of(node, struct prov_domain, tended_node)->tended = false;
		list_remove(node);
	}
	current = NULL;
	able = false; /* membarrier is prepared once a process */
	prov_caretaker_unlock();
}

static void prov_caretaker_free(struct caretaker *self)
{
	pthread_cond_destroy(&self->stopped);
	pthread_cond_destroy(&self->left);
	free(self);
}

static struct caretaker *prov_caretaker_start(void)
{
	struct caretaker *self = calloc(1, sizeof *self);
	pthread_condattr_t attr;

	if (!self)
		return NULL;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&self->stopped, &attr);
	pthread_condattr_destroy(&attr);
	pthread_cond_init(&self->left, NULL);
	if (thread_start(&self->thread, "thole-caretaker", prov_caretaker_run, self) == 0)
		return self;
	prov_caretaker_free(self);
	return NULL;
}

/* When the provider is loaded: a child that is made while the lock is held has to find it free. */
__attribute__((constructor)) static void prov_caretaker_begin(void)
{
	begun = pthread_atfork(prov_caretaker_lock, prov_caretaker_unlock, prov_caretaker_child) == 0;
}

void prov_caretaker_add(struct prov_domain *domain)
{
	prov_caretaker_lock();
	if (!able)
		able = begun && biased_prepare();
	if (able && !current)
		current = prov_caretaker_start();
	if (current) {
		domain->tended = true;
		list_push_back(&domains, &domain->tended_node);
	}
	prov_caretaker_unlock();
}

void prov_caretaker_remove(struct prov_domain *domain)
{
	struct caretaker *last = NULL;

	prov_caretaker_lock();
	while (domain->tended && current->visited == domain)
		pthread_cond_wait(&current->left, &lock);
	if (domain->tended) {
		domain->tended = false;
		list_remove(&domain->tended_node);
		if (list_empty(&domains)) {
			last = current;
			last->stop = true;
			pthread_cond_signal(&last->stopped);
			current = NULL;
		}
	}
	prov_caretaker_unlock();
	if (!last)
		return;
	pthread_join(last->thread, NULL);
	prov_caretaker_free(last);
}
