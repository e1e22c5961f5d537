/* SPDX-License-Identifier: BSD-3-Clause */
/* need: for programs in guests: what has to hold, or the program says where it does not, and what Thole said last, and
 * ends. */
#ifndef NEED_H
#define NEED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "thole.h"

#define NEED(condition) need((condition), #condition, __LINE__)

static uint64_t need_round; /* so many rounds of the program are over, if it has any */

static inline void need(bool well, const char *what, int line)
{
	if (well)
		return;
	printf("line %d: not %s", line, what);
	if (need_round)
		printf(", after %llu rounds", (unsigned long long)need_round);
	printf(": %s\n", thole_detail());
	fflush(stdout);
	_exit(1);
}

#endif
