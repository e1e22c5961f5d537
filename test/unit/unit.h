/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What unit tests share: cmocka with the headers that it wants first, random numbers
 * from a seed, and what became of a child.
 */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/wait.h>

#include "base/random.h"

/* Of one that was made by fork, when it has ended; 0: with 0, which is to say that all is well. */
static inline int child_status(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

#endif /* UNIT_H */
