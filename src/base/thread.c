/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

enum { STACK_BYTES = 256 << 10 }; /* some times what our threads use */

/* The C library takes what each thread has of its own for all libraries (TLS) from its stack, which may be more than
 * that; it says how much goes to this and to what no thread can do without. */
static size_t stack_bytes(const pthread_attr_t *attributes)
{
	size_t (*least)(const pthread_attr_t *) =
		(size_t (*)(const pthread_attr_t *))(uintptr_t)dlsym(RTLD_DEFAULT, "__pthread_get_minstack");

	return STACK_BYTES + (least ? least(attributes) : (size_t)PTHREAD_STACK_MIN);
}

void thread_signals_block(sigset_t *before_p)
{
	static const int raised[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
	sigset_t waiting;

	sigfillset(&waiting);
	for (size_t i = 0; i < sizeof(raised) / sizeof(raised[0]); i++)
		sigdelset(&waiting, raised[i]);
	pthread_sigmask(SIG_BLOCK, &waiting, before_p);
}

int thread_start(pthread_t *thread_p, const char *name, void *(*run)(void *arg), void *arg)
{
	pthread_attr_t attributes;
	sigset_t before;
	int error;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, stack_bytes(&attributes));
	thread_signals_block(&before); /* it inherits this */
	error = pthread_create(thread_p, &attributes, run, arg);
	if (error) /* a C library that does not say */
		error = pthread_create(thread_p, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (!error)
		pthread_setname_np(*thread_p, name);
	return error;
}

void thread_lock(pthread_mutex_t *mutex, sigset_t *before_p)
{
	sigset_t before;

	thread_signals_block(&before);
	pthread_mutex_lock(mutex);
	*before_p = before;
}

void thread_unlock(pthread_mutex_t *mutex, const sigset_t *before)
{
	sigset_t mine = *before;

	pthread_mutex_unlock(mutex);
	pthread_sigmask(SIG_SETMASK, &mine, NULL);
}

bool thread_has_ended(pid_t thread)
{
	return tgkill(getpid(), thread, 0) != 0 && errno == ESRCH;
}
