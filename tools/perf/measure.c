/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * measure.c - the loops that are timed, and the check that what they carry arrives unaltered.
 *
 * Latency and bandwidth mean what they mean in the OSU benchmarks: half of the round trip of a blocking send and
 * receive, and a window of sends that one small answer ends. Both ranks run every loop with the same number
 * of iterations. Buffers keep their pattern through a timed loop and are compared after it.
 */
#include "perf.h"

#include <endian.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
	TAG_DATA = 7,
	TAG_ANSWER = 8,
	ANSWER_BYTES = 4,
	VERIFY_EXCHANGES = 3,
	INJECT_BYTES_MAX = 256, /* a blocking send of no more copies instead of waiting */
	SPINS_PER_LOOK = 4096, /* spins between two looks at whether the other rank has given up */
	LOOK_NS = 200000000,   /* the same in a wait for a message */
};

uint64_t perf_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int perf_complain(const struct perf_rank *rank, const char *what, uint64_t size, int error)
{
	const char *hint = rank->meeting ? "; TCP passes, but frames of Thole do not: is UDP open between these hosts?" : "";
	char text[1024];
	int length;

	length = snprintf(text, sizeof text, "rank %d: %s of %" PRIu64 " bytes: %s%s%s%s", rank->rank, what, size,
			  thole_strerror(error), *thole_detail() ? ": " : "", thole_detail(), hint);
	fprintf(stderr, "thole-perf: %s\n", text);
	atomic_store(&rank->shared->failed, 1);
	if (rank->other && length > 0)
		perf_tell(rank, PERF_WORD_ERROR, text, strnlen(text, sizeof text));
	return -1;
}

int perf_relax(const struct perf_rank *rank, uint64_t *spins)
{
	if (++*spins % SPINS_PER_LOOK == 0 && atomic_load(&rank->shared->failed))
		return -1;
	if (rank->one_core || *spins > 1000000)
		sched_yield();
	return 0;
}

int perf_barrier(struct perf_rank *rank)
{
	struct perf_shared *shared = rank->shared;
	uint64_t mine = atomic_fetch_add(&shared->arrived[rank->rank], 1) + 1;
	uint64_t spins = 0;

	if (rank->other) {
		if (perf_tell(rank, PERF_WORD_BARRIER, NULL, 0) < 0)
			return -1;
		return perf_hear(rank, PERF_WORD_BARRIER, NULL, 0);
	}
	while (atomic_load(&shared->arrived[!rank->rank]) < mine) {
		/* What this rank gave away may still wait for room, and only its own progress moves it. */
		if (rank->endpoint)
			thole_progress(rank->endpoint);
		if (perf_relax(rank, &spins) < 0)
			return -1;
	}
	return 0;
}

int perf_agree(struct perf_rank *rank, uint64_t *value_p)
{
	uint64_t wire = htobe64(*value_p);

	if (rank->other && rank->rank == 0)
		return perf_tell(rank, PERF_WORD_NUMBER, &wire, sizeof wire);
	if (rank->other) {
		if (perf_hear(rank, PERF_WORD_NUMBER, &wire, sizeof wire) < 0)
			return -1;
		*value_p = be64toh(wire);
		return 0;
	}
	if (rank->rank == 0)
		atomic_store(&rank->shared->agreed, *value_p);
	if (perf_barrier(rank) < 0)
		return -1;
	*value_p = atomic_load(&rank->shared->agreed);
	return perf_barrier(rank);
}

/* ---- The floor: one 8-byte word in a line of its own, to and fro ------------------------------- */

int perf_bare(struct perf_rank *rank, uint64_t iterations, uint64_t *ns_p)
{
	struct perf_shared *shared = rank->shared;
	_Atomic uint64_t *mine = rank->rank == 0 ? &shared->ping : &shared->pong;
	_Atomic uint64_t *theirs = rank->rank == 0 ? &shared->pong : &shared->ping;
	uint64_t base = atomic_load(mine); /* equal on both sides between two samples */
	uint64_t spins = 0, begin;

	if (perf_barrier(rank) < 0)
		return -1;
	begin = perf_now_ns();
	for (uint64_t i = base + 1; i <= base + iterations; i++) {
		if (rank->rank == 0)
			atomic_store_explicit(mine, i, memory_order_release);
		while (atomic_load_explicit(theirs, memory_order_acquire) != i)
			if (perf_relax(rank, &spins) < 0)
				return -1;
		spins = 0;
		if (rank->rank == 1)
			atomic_store_explicit(mine, i, memory_order_release);
	}
	*ns_p = perf_now_ns() - begin;
	return 0;
}

/* How long a wait may take: whether Thole reaches another host at all shows as soon as that host has answered by TCP. */
static uint64_t patience(const struct perf_rank *rank)
{
	return rank->meeting ? rank->plan->connect_ns : rank->plan->patience_ns;
}

/* ---- Messages -------------------------------------------------------------------------------- */

static int send_start(struct perf_rank *rank, uint64_t size, uint64_t tag, struct thole_request **request_p)
{
	unsigned flags = request_p ? 0 : THOLE_INJECT | THOLE_QUIET;

	for (uint64_t begin = 0;;) {
		int error = thole_send(rank->endpoint, rank->peer, rank->out_buffer, size, tag, 0, flags, NULL,
				       request_p);

		if (error != THOLE_ERR_AGAIN)
			return error < 0 ? perf_complain(rank, "thole_send", size, error) : 0;
		/* The bound on sends under way is reached, which is no error as long as it moves. */
		if (begin == 0)
			begin = perf_now_ns();
		else if (perf_now_ns() - begin > patience(rank))
			return perf_complain(rank, "thole_send", size, THOLE_ERR_TIMEOUT);
		thole_progress(rank->endpoint);
	}
}

static int recv_start(struct perf_rank *rank, uint64_t size, uint64_t tag, struct thole_request **request_p)
{
	int error = thole_recv(rank->endpoint, rank->peer, rank->in_buffer, size, tag, UINT64_MAX, 0, NULL, request_p);

	return error < 0 ? perf_complain(rank, "thole_recv", size, error) : 0;
}

static int finish(struct perf_rank *rank, struct thole_request *request, const char *what, uint64_t size)
{
	struct thole_completion completion;
	uint64_t end = perf_now_ns() + patience(rank);
	int error;

	do {
		error = thole_wait(rank->endpoint, request, LOOK_NS, &completion);
		if (error == THOLE_ERR_TIMEOUT && rank->other && perf_left(rank))
			return -1;
	} while (error == THOLE_ERR_TIMEOUT && perf_now_ns() < end);
	if (error < 0)
		return perf_complain(rank, what, size, error);
	if (completion.status < 0)
		return perf_complain(rank, what, size, completion.status);
	if (completion.length != size)
		return perf_complain(rank, what, size, THOLE_ERR_TRUNCATED);
	return 0;
}

static int send_whole(struct perf_rank *rank, uint64_t size, uint64_t tag)
{
	struct thole_request *request;

	/* As a program would: what is small is given away, with nothing to wait for. */
	if (size <= INJECT_BYTES_MAX)
		return send_start(rank, size, tag, NULL);
	return send_start(rank, size, tag, &request) < 0 ? -1 : finish(rank, request, "a send", size);
}

static int recv_whole(struct perf_rank *rank, uint64_t size, uint64_t tag)
{
	struct thole_request *request;

	return recv_start(rank, size, tag, &request) < 0 ? -1 : finish(rank, request, "a receive", size);
}

/* ---- Patterns: a byte depends on its place, on who sends and on a salt -------------------------- */

static unsigned char pattern_byte(uint64_t place, int rank, unsigned salt)
{
	uint64_t mixed = (place + 1) * 0x9e3779b97f4a7c15u + (uint64_t)rank * 131u + salt * 29u;

	return (unsigned char)(mixed >> 56);
}

static void pattern_fill(struct perf_rank *rank, uint64_t size, unsigned salt)
{
	for (uint64_t i = 0; i < size; i++)
		rank->out_buffer[i] = pattern_byte(i, rank->rank, salt);
}

static int pattern_check(struct perf_rank *rank, uint64_t size, unsigned salt)
{
	for (uint64_t i = 0; i < size; i++) {
		if (rank->in_buffer[i] != pattern_byte(i, !rank->rank, salt)) {
			char what[64];

			snprintf(what, sizeof what, "byte %" PRIu64 " is wrong in a message", i);
			return perf_complain(rank, what, size, THOLE_ERR_PROTOCOL);
		}
	}
	return 0;
}

int perf_verify(struct perf_rank *rank, uint64_t size)
{
	for (unsigned salt = 1; salt <= VERIFY_EXCHANGES; salt++) {
		pattern_fill(rank, size, salt);
		memset(rank->in_buffer, 0xa5, size);
		/* By turns, so that each exchange has both an early and a late receive. */
		if (rank->rank == (int)(salt & 1)) {
			if (send_whole(rank, size, TAG_DATA) < 0 || recv_whole(rank, size, TAG_DATA) < 0)
				return -1;
		} else {
			if (recv_whole(rank, size, TAG_DATA) < 0 || send_whole(rank, size, TAG_DATA) < 0)
				return -1;
		}
		if (pattern_check(rank, size, salt) < 0)
			return -1;
	}
	return 0;
}

/* ---- The timed loops ------------------------------------------------------------------------- */

int perf_latency(struct perf_rank *rank, uint64_t size, uint64_t iterations, uint64_t *ns_p)
{
	bool write = rank->plan->write;
	uint64_t begin;

	pattern_fill(rank, size, 0);
	memset(rank->in_buffer, 0, size);
	if (perf_barrier(rank) < 0)
		return -1;
	begin = perf_now_ns();
	for (uint64_t i = 0; i < iterations; i++) {
		if (rank->rank == 1 && recv_whole(rank, size, TAG_DATA) < 0)
			return -1;
		if (write)
			memset(rank->out_buffer, (int)(i & 0xff), size);
		if (send_whole(rank, size, TAG_DATA) < 0)
			return -1;
		if (rank->rank == 0 && recv_whole(rank, size, TAG_DATA) < 0)
			return -1;
	}
	*ns_p = perf_now_ns() - begin;
	if (!write)
		return pattern_check(rank, size, 0);
	for (uint64_t i = 0; i < size; i++)
		if (rank->in_buffer[i] != (unsigned char)((iterations - 1) & 0xff))
			return perf_complain(rank, "the last message", size, THOLE_ERR_PROTOCOL);
	return 0;
}

static int window_send(struct perf_rank *rank, uint64_t size, unsigned window)
{
	for (unsigned i = 0; i < window; i++)
		if (send_start(rank, size, TAG_DATA, &rank->requests[i]) < 0)
			return -1;
	for (unsigned i = 0; i < window; i++)
		if (finish(rank, rank->requests[i], "a send", size) < 0)
			return -1;
	return recv_whole(rank, ANSWER_BYTES, TAG_ANSWER);
}

static int window_recv(struct perf_rank *rank, uint64_t size, unsigned window)
{
	for (unsigned i = 0; i < window; i++)
		if (recv_start(rank, size, TAG_DATA, &rank->requests[i]) < 0)
			return -1;
	for (unsigned i = 0; i < window; i++)
		if (finish(rank, rank->requests[i], "a receive", size) < 0)
			return -1;
	return send_whole(rank, ANSWER_BYTES, TAG_ANSWER);
}

int perf_bandwidth(struct perf_rank *rank, uint64_t size, unsigned window, uint64_t iterations, uint64_t *ns_p)
{
	uint64_t filled = size > ANSWER_BYTES ? size : ANSWER_BYTES;
	uint64_t begin;

	pattern_fill(rank, filled, 0);
	memset(rank->in_buffer, 0, filled);
	if (perf_barrier(rank) < 0)
		return -1;
	begin = perf_now_ns();
	for (uint64_t i = 0; i < iterations; i++) {
		int error = rank->rank == 0 ? window_send(rank, size, window) : window_recv(rank, size, window);

		if (error < 0)
			return -1;
	}
	*ns_p = perf_now_ns() - begin;
	return pattern_check(rank, rank->rank == 0 ? ANSWER_BYTES : size, 0);
}
