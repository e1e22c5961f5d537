/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Children that are made while another thread uses what a lock protects. What a file does at a fork it has to register
 * when it is loaded: so that is asked for first. If it did so at its first use, a child could be made just then; here
 * the registering call itself makes one before and one after, so it happens each time. Children use what the lock
 * protects, and fork as well: a handler that is known twice takes its lock twice. And the handler of a signal forks,
 * which comes whenever the thread has just taken a lock. To be included by one file of a program that replaces
 * pthread_atfork and pthread_mutex_lock.
 */
#ifndef ATFORK_H
#define ATFORK_H

#include "unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"

enum {
	ATFORK_LIMIT_S = 20, /* until a child is taken to hang */
	ATFORK_CHILDREN = 40,
};

static void (*atfork_use)(void); /* NULL: no child is made by who registers */
static int atfork_registered;
static bool atfork_over;

int __real_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
int __wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));

static void atfork_child(void (*use)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid > 0) {
		if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
			fail_msg("a child waits for who is not there");
		return;
	}
	alarm(ATFORK_LIMIT_S);
	use();
	pid = fork();
	if (pid == 0)
		_exit(0);
	_exit(waitpid(pid, &status, 0) == pid ? status : 1);
}

int __wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	void (*use)(void) = atfork_use;
	int error;

	atfork_registered++;
	atfork_use = NULL;
	if (use)
		atfork_child(use);
	error = __real_pthread_atfork(prepare, parent, child);
	if (use)
		atfork_child(use);
	atfork_use = use;
	return error;
}

static void *atfork_uses(void *arg)
{
	void (*const *use)(void) = arg;

	while (!load_acquire(&atfork_over)) /* partner: atfork_try */
		(*use)();
	return NULL;
}

static pthread_t atfork_interrupted; /* the thread to which the signal comes; 0: it does not */
static volatile sig_atomic_t atfork_handled;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	int error = __real_pthread_mutex_lock(mutex);

	if (load_relaxed(&atfork_interrupted) == pthread_self())
		raise(SIGUSR1);
	return error;
}

static void atfork_handler(int signal)
{
	pid_t pid;

	(void)signal;
	store_relaxed(&atfork_interrupted, 0); /* or fork itself would bring the next one */
	pid = fork();
	if (pid == 0)
		_exit(0);
	atfork_handled += child_status(pid) == 0;
	store_relaxed(&atfork_interrupted, pthread_self());
}

static inline void atfork_interrupt(void (*use)(void))
{
	signal(SIGUSR1, atfork_handler);
	alarm(ATFORK_LIMIT_S);
	store_relaxed(&atfork_interrupted, pthread_self());
	use();
	store_relaxed(&atfork_interrupted, 0);
	alarm(0);
	signal(SIGUSR1, SIG_DFL);
	assert_true(atfork_handled > 0);
}

/* Call it here, and in children that are made meanwhile. */
static inline void atfork_try(void (*use)(void))
{
	pthread_t thread;

	assert_true(atfork_registered > 0);
	atfork_use = use;
	use();
	atfork_use = NULL;
	atfork_interrupt(use);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return; /* a child finds the locks of the one's allocator taken; the other permits it no thread */
#endif
	store_release(&atfork_over, false);
	assert_int_equal(pthread_create(&thread, NULL, atfork_uses, &use), 0);
	for (int i = 0; i < ATFORK_CHILDREN; i++)
		atfork_child(use);
	store_release(&atfork_over, true); /* partner: atfork_uses */
	pthread_join(thread, NULL);
}

#endif
