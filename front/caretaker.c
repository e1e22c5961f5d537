/* SPDX-License-Identifier: BSD-3-Clause */
/* Nothing is called with the lock held that could take another one, so it may be held around a
 * fork. A child has no caretaker until it opens something of its own. */
#include "caretaker.h"

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
	struct charge *visited; /* it is in this one, or wants to be; NULL: none. It stays until this is over */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list_node charges = {&charges, &charges}; /* that are tended, */
static struct list_node others = {&others, &others};    /* and those that are not */
static struct caretaker *current; /* there is one while there are any of the former */
static bool begun, able;
static sigset_t forking; /* signals of who has the lock around a fork */

/* ---- Looking ------------------------------------------------------------------------------------------- */

static bool caretaker_visit(struct charge *charge)
{
	return charge->safe ? lock_try(&charge->lock) : biased_visit(&charge->biased);
}

static void caretaker_part(struct charge *charge)
{
	if (charge->safe)
		lock_leave(&charge->lock);
	else
		biased_part(&charge->biased);
}

/* Whether something waits here to be looked at soon, as far as can be seen: where a thread is inside, it sees to it. */
static bool caretaker_tend(struct charge *charge)
{
	bool owes = false;

	if (!caretaker_visit(charge))
		return false;
	for (size_t i = 0; i < charge->endpoint_count; i++)
		if (charge->endpoints[i] && thole_tend(charge->endpoints[i]) == 1)
			owes = true;
	caretaker_part(charge);
	return owes;
}

/* Look at all once. With the lock, but not around a visit. */
static bool caretaker_look(struct caretaker *self)
{
	bool owes = false;

	for (struct list_node *node = list_first(&charges); node; node = list_next(&charges, node)) {
		self->visited = container_of(node, struct charge, node);
		pthread_mutex_unlock(&lock);
		owes |= caretaker_tend(self->visited);
		pthread_mutex_lock(&lock);
		self->visited = NULL;
		pthread_cond_broadcast(&self->left);
	}
	return owes;
}

static void caretaker_sleep(struct caretaker *self, int pause_ms)
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

static void *caretaker_run(void *arg)
{
	struct caretaker *self = arg;
	int pause_ms = PAUSE_MS_MIN;

	pthread_mutex_lock(&lock);
	while (!self->stop) {
		if (caretaker_look(self))
			pause_ms = PAUSE_MS_MIN;
		else
			pause_ms = 2 * pause_ms < PAUSE_MS_MAX ? 2 * pause_ms : PAUSE_MS_MAX;
		if (!self->stop)
			caretaker_sleep(self, pause_ms);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* ---- Coming and going ---------------------------------------------------------------------------------- */

static void caretaker_fork(void)
{
	thread_lock(&lock, &forking);
}

static void caretaker_parent(void)
{
	thread_unlock(&lock, &forking);
}

static void caretaker_inherit(struct list_node *list)
{
	struct list_node *node;

	while ((node = list_first(list))) {
		struct charge *charge = container_of(node, struct charge, node);

		charge->lock = (struct lock){0};
		charge->biased = (struct biased){0};
		charge->endpoint_count = 0;
		charge->tended = charge->waits = false;
		charge->inherited = true;
		list_remove(node);
	}
}

/* Who was inside is a thread of the parent's, which still has it, and so is the caretaker: the child is not kept out.
 * It can close what it has, and no more: what that thread was amid may be half done. */
static void caretaker_child(void)
{
	caretaker_inherit(&charges);
	caretaker_inherit(&others);
	current = NULL;
	able = false; /* membarrier is prepared once a process */
	thread_unlock(&lock, &forking);
}

static void caretaker_free(struct caretaker *self)
{
	pthread_cond_destroy(&self->stopped);
	pthread_cond_destroy(&self->left);
	free(self);
}

static struct caretaker *caretaker_start(void)
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
	if (thread_start(&self->thread, "thole-caretaker", caretaker_run, self) == 0)
		return self;
	caretaker_free(self);
	return NULL;
}

/* When the library is loaded: a child that is made while the lock is held has to find it free. */
__attribute__((constructor)) static void caretaker_begin(void)
{
	begun = pthread_atfork(caretaker_fork, caretaker_parent, caretaker_child) == 0;
}

/* Whether there is who looks at charges, or can be. With the lock. */
static bool caretaker_is_here(void)
{
	if (!able)
		able = begun && biased_prepare();
	if (able && !current)
		current = caretaker_start();
	return current;
}

/* Those that wait for it are looked at from now on, if they can be. With the lock. */
static void caretaker_try(void)
{
	for (struct list_node *node = list_first(&others), *next; node; node = next) {
		struct charge *charge = container_of(node, struct charge, node);

		next = list_next(&others, node);
		if (!charge->waits)
			continue;
		if (!caretaker_is_here())
			return;
		charge->waits = false;
		charge->tended = true;
		list_remove(node);
		list_push_back(&charges, node);
	}
}

bool caretaker_add(struct charge *charge, bool tend)
{
	sigset_t signals;
	bool tended;

	thread_lock(&lock, &signals);
	charge->waits = tend;
	list_push_back(&others, &charge->node);
	caretaker_try();
	tended = charge->tended;
	thread_unlock(&lock, &signals);
	return tended;
}

void caretaker_again(void)
{
	sigset_t signals;

	thread_lock(&lock, &signals);
	caretaker_try();
	thread_unlock(&lock, &signals);
}

/* Until the caretaker is in another one, or in none; with the lock. */
static void caretaker_await(const struct charge *charge)
{
	while (charge->tended && current->visited == charge)
		pthread_cond_wait(&current->left, &lock);
}

void caretaker_share(struct charge *charge)
{
	sigset_t signals;

	thread_lock(&lock, &signals);
	caretaker_await(charge);
	charge->safe = true;
	thread_unlock(&lock, &signals);
}

void caretaker_remove(struct charge *charge)
{
	struct caretaker *last = NULL;
	sigset_t signals;

	thread_lock(&lock, &signals);
	caretaker_await(charge);
	list_remove(&charge->node);
	if (charge->tended && list_empty(&charges)) {
		last = current;
		last->stop = true;
		pthread_cond_signal(&last->stopped);
		current = NULL;
	}
	charge->tended = false;
	thread_unlock(&lock, &signals);
	if (!last)
		return;
	pthread_join(last->thread, NULL);
	caretaker_free(last);
}
