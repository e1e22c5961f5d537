/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A child that another thread makes just when a file registers what it does at a fork: here the registering call
 * itself makes it, so it happens each time. In the child, `atfork_use` calls what the lock protects. To be included by
 * one file of a program that replaces pthread_atfork.
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

int __wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	void (*use)(void) = atfork_use;
	pid_t pid;
	int status;

	atfork_use = NULL;
	if (use && (pid = fork()) == 0) {
		alarm(ATFORK_LIMIT_S);
		use();
		_exit(0);
	}
	if (use && (waitpid(pid, &status, 0) != pid || !WIFEXITED(status)))
		fail_msg("a child waits for who is not there");
	return __real_pthread_atfork(prepare, parent, child);
}

/* Call it here, and in a child that is made meanwhile. */
static inline void atfork_try(void (*use)(void))
{
	atfork_use = use;
	use();
	atfork_use = NULL;
}

#endif
