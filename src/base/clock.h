/* SPDX-License-Identifier: BSD-3-Clause */
/* clock: the one place that reads times, and sleeps for one. Pure parts get times as arguments instead. */
#ifndef THOLE_BASE_CLOCK_H
#define THOLE_BASE_CLOCK_H

#include <errno.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t clock_read_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_now_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}

/* What one reading takes: a few tens of nanoseconds, where it is no system call. */
static inline uint64_t clock_cost_ns(void)
{
	enum { READINGS = 16, TRIES = 4 };
	uint64_t least_ns = UINT64_MAX;

	for (int i = 0; i < TRIES; i++) {
		uint64_t start_ns = clock_now_ns(), end_ns = start_ns;

		for (int k = 0; k < READINGS; k++)
			end_ns = clock_now_ns();
		if (end_ns - start_ns < least_ns)
			least_ns = end_ns - start_ns;
	}
	return least_ns / READINGS;
}

/* Sleep for so long, or until a signal comes. */
static inline void clock_sleep(uint64_t ns)
{
	const struct timespec pause = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};

	nanosleep(&pause, NULL);
}

/* The same, however many signals are handled meanwhile. */
static inline void clock_sleep_through(uint64_t ns)
{
	struct timespec left = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};

	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		;
}

/* How long the calling thread has run: a system call. */
static inline uint64_t clock_thread_ns(void)
{
	return clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}

#endif
