/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/thread.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <unistd.h>

enum { STACK_BYTES = 256 << 10 }; /* some times what our threads use */

int thread_start(pthread_t *thread_p, const char *name, void *(*run)(void *arg), void *arg)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int error;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes,
				  STACK_BYTES > PTHREAD_STACK_MIN ? (size_t)STACK_BYTES : (size_t)PTHREAD_STACK_MIN);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* it inherits this */
	error = pthread_create(thread_p, &attributes, run, arg);
	if (error) /* libraries with much memory of each thread's own take it from the stack */
		error = pthread_create(thread_p, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (!error)
		pthread_setname_np(*thread_p, name);
	return error;
}

bool thread_has_ended(pid_t thread)
{
	return tgkill(getpid(), thread, 0) != 0 && errno == ESRCH;
}
