/* SPDX-License-Identifier: BSD-3-Clause */
/* clock: the one place that reads the time. Pure parts get time as an argument instead. */
#ifndef THOLE_BASE_CLOCK_H
#define THOLE_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
