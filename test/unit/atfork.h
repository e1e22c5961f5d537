/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A child that another thread makes just when a file registers what it does at a fork: here the registering call
 * itself makes one before and one after, so it happens each time. In the child, `atfork_use` calls what the lock
 * protects, and the child forks as well: a handler that is known twice takes its lock twice. To be included by one file
 * of a program that replaces pthread_atfork.
 */
#ifndef ATFORK_H
#define ATFORK_H

#include "unit.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ATFORK_LIMIT_S = 20 }; /* until a child is taken to hang */

static void (*atfork_use)(void); /* NULL: no child is made */

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

	atfork_use = NULL;
	if (use)
		atfork_child(use);
	error = __real_pthread_atfork(prepare, parent, child);
	if (use)
		atfork_child(use);
	atfork_use = use;
	return error;
}

/* Call it here, and in a child that is made meanwhile. */
static inline void atfork_try(void (*use)(void))
{
	atfork_use = use;
	use();
	atfork_use = NULL;
}

#endif
