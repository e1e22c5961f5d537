/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thread: how threads of our own are started in somebody else's program, and how those of the program that wait here
 * can be cancelled.
 *
 * Functions of the C library that are points of cancellation are called with locks held, which would be taken for ever
 * from then on. So who waits with a lock is kept, but for places where it holds none.
 *
 * Locks that handlers of fork take, too, are taken by thread_lock: a handler of a signal may fork, which would wait for
 * the thread that it has interrupted. Threads of our own, which take no signals, need no more than the mutex.
 */
#ifndef THOLE_BASE_THREAD_H
#define THOLE_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* Signals wait from now on, but for what a thread raises by itself (SIGSEGV, seccomp's SIGSYS): that does not wait, the
 * kernel would end the process instead of calling a handler, on which the program may depend. What was blocked before
 * is in *before_p. */
void thread_signals_block(sigset_t *before_p);

/* Start one that takes no signals but those, which are for the program's threads, and has a small stack. Returns 0 or
 * an errno. */
int thread_start(pthread_t *thread_p, const char *name, void *(*run)(void *arg), void *arg);

/* Whether the thread of this process that gettid named so has ended. */
bool thread_has_ended(pid_t thread);

/* Take a lock; signals wait from then on until thread_unlock, with what this stores in *before_p. That is stored with
 * the lock, and so may be the lock's own: who forks leaves it there. */
void thread_lock(pthread_mutex_t *mutex, sigset_t *before_p);
void thread_unlock(pthread_mutex_t *mutex, const sigset_t *before);

/* From now on the calling thread is not cancelled, until thread_release with what this returns. */
static inline int thread_keep(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void thread_release(int before)
{
	pthread_setcancelstate(before, NULL);
}

/* One that is kept holds no lock here: it may be cancelled now. */
static inline void thread_test(int before)
{
	thread_release(before);
	pthread_testcancel();
	thread_keep();
}

#endif
