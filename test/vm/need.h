/* SPDX-License-Identifier: BSD-3-Clause */
/* need: for programs in guests: what has to hold, or the program says where it does not, and what Thole said last, and
 * ends. */
#ifndef NEED_H
#define NEED_H

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "thole.h"

#define NEED(condition) need((condition), #condition, __LINE__)

static inline void need(bool well, const char *what, int line)
{
	if (well)
		return;
	printf("line %d: not %s: %s\n", line, what, thole_detail());
	fflush(stdout);
	_exit(1);
}

#endif
