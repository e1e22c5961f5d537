/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loops.h - the loops that are timed, written once, and compiled into each API's file of their own: no call through a
 * pointer stands between them and what they measure.
 *
 * Latency and bandwidth mean what they mean in the OSU benchmarks: half of the round trip of a blocking send and
 * receive, and a window of sends that one small answer ends. Both ranks run every loop with the same number
 * of iterations. Buffers keep their pattern through a timed loop and are compared after it.
 *
 * Who includes this has defined, as static functions that return 0, or -1 after a message:
 *
 *   struct ticket                                       an operation under way
 *   loop_send_start(rank, size, tag, ticket)            out of out_buffer
 *   loop_recv_start(rank, size, tag, ticket)            into in_buffer
 *   loop_finish(rank, ticket, what, size)               wait for either; `what` is for the message
 *   loop_send_whole(rank, size, tag)                    start, and wait as a program would
 */
#ifndef THOLE_PERF_LOOPS_H
#define THOLE_PERF_LOOPS_H

#include <string.h>

#include "perf.h"

enum {
	TAG_DATA = 7,
	TAG_ANSWER = 8,
	ANSWER_BYTES = 4,
	VERIFY_EXCHANGES = 3,
};

static struct ticket tickets[PERF_WINDOW_MAX];

static int loop_recv_whole(struct perf_rank *rank, uint64_t size, uint64_t tag)
{
	struct ticket ticket;

	return loop_recv_start(rank, size, tag, &ticket) < 0 ? -1 : loop_finish(rank, &ticket, "a receive", size);
}

static int loop_verify(struct perf_rank *rank, uint64_t size)
{
	for (unsigned salt = 1; salt <= VERIFY_EXCHANGES; salt++) {
		perf_pattern_fill(rank, size, salt);
		memset(rank->in_buffer, 0xa5, size);
		/* By turns, so that each exchange has both an early and a late receive. */
		if (rank->rank == (int)(salt & 1)) {
			if (loop_send_whole(rank, size, TAG_DATA) < 0 || loop_recv_whole(rank, size, TAG_DATA) < 0)
				return -1;
		} else {
			if (loop_recv_whole(rank, size, TAG_DATA) < 0 || loop_send_whole(rank, size, TAG_DATA) < 0)
				return -1;
		}
		if (perf_pattern_check(rank, size, salt) < 0)
			return -1;
	}
	return 0;
}

static int loop_latency(struct perf_rank *rank, uint64_t size, uint64_t iterations, uint64_t *ns_p)
{
	bool write = rank->plan->write;
	uint64_t begin;

	perf_pattern_fill(rank, size, 0);
	memset(rank->in_buffer, 0, size);
	if (perf_barrier(rank) < 0)
		return -1;
	begin = perf_now_ns();
	for (uint64_t i = 0; i < iterations; i++) {
		if (rank->rank == 1 && loop_recv_whole(rank, size, TAG_DATA) < 0)
			return -1;
		if (write)
			memset(rank->out_buffer, (int)(i & 0xff), size);
		if (loop_send_whole(rank, size, TAG_DATA) < 0)
			return -1;
		if (rank->rank == 0 && loop_recv_whole(rank, size, TAG_DATA) < 0)
			return -1;
	}
	*ns_p = perf_now_ns() - begin;
	if (!write)
		return perf_pattern_check(rank, size, 0);
	for (uint64_t i = 0; i < size; i++)
		if (rank->in_buffer[i] != (unsigned char)((iterations - 1) & 0xff))
			return perf_complain(rank, "the last message", size, THOLE_ERR_PROTOCOL);
	return 0;
}

static int loop_window_send(struct perf_rank *rank, uint64_t size, unsigned window)
{
	for (unsigned i = 0; i < window; i++)
		if (loop_send_start(rank, size, TAG_DATA, &tickets[i]) < 0)
			return -1;
	for (unsigned i = 0; i < window; i++)
		if (loop_finish(rank, &tickets[i], "a send", size) < 0)
			return -1;
	return loop_recv_whole(rank, ANSWER_BYTES, TAG_ANSWER);
}

static int loop_window_recv(struct perf_rank *rank, uint64_t size, unsigned window)
{
	for (unsigned i = 0; i < window; i++)
		if (loop_recv_start(rank, size, TAG_DATA, &tickets[i]) < 0)
			return -1;
	for (unsigned i = 0; i < window; i++)
		if (loop_finish(rank, &tickets[i], "a receive", size) < 0)
			return -1;
	return loop_send_whole(rank, ANSWER_BYTES, TAG_ANSWER);
}

static int loop_bandwidth(struct perf_rank *rank, uint64_t size, unsigned window, uint64_t iterations, uint64_t *ns_p)
{
	uint64_t filled = size > ANSWER_BYTES ? size : ANSWER_BYTES;
	uint64_t begin;

	perf_pattern_fill(rank, filled, 0);
	memset(rank->in_buffer, 0, filled);
	if (perf_barrier(rank) < 0)
		return -1;
	begin = perf_now_ns();
	for (uint64_t i = 0; i < iterations; i++) {
		int error = rank->rank == 0 ? loop_window_send(rank, size, window)
					    : loop_window_recv(rank, size, window);

		if (error < 0)
			return -1;
	}
	*ns_p = perf_now_ns() - begin;
	return perf_pattern_check(rank, rank->rank == 0 ? ANSWER_BYTES : size, 0);
}

#endif
