/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time as instructions, for guests whose clock goes by the instruction (test/vm/guest.py, counted): a loop of known
 * length tells how much time one takes.
 */
#ifndef BENCH_INSTRUCTIONS_H
#define BENCH_INSTRUCTIONS_H

#include <stdint.h>

#include "base/clock.h"

/* How long one takes: two instructions a turn. */
static inline double instructions_each_ns(void)
{
	uint64_t turns = 5000000, start = clock_now_ns();

#if defined(__x86_64__)
	__asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(turns));
#else
	while (turns-- > 0)
		__asm__ volatile("" : "+r"(turns));
#endif
	return (double)(clock_now_ns() - start) / 1e7;
}

#endif
