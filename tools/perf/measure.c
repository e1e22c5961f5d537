/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * measure.c - what all that is timed has in common: how the two ranks meet and agree, the bare ping-pong that messages
 * are compared with, and the patterns by which they are seen to arrive unaltered. The loops that carry messages are
 * in loops.h.
 */
#include "perf.h"

#include <endian.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

enum {
	SPINS_PER_LOOK = 4096, /* spins between two looks at whether the other rank has given up */
};

int perf_complain_text(const struct perf_rank *rank, const char *what, uint64_t size, const char *why)
{
	const char *hint =
		rank->meeting ? "; TCP passes, but frames of Thole do not: is UDP open between these hosts?" : "";
	char text[1024];
	int length;

	length = snprintf(text, sizeof text, "rank %d: %s of %" PRIu64 " bytes: %s%s", rank->rank, what, size, why,
			  hint);
	fprintf(stderr, "thole-perf: %s\n", text);
	atomic_store(&rank->shared->failed, 1);
	if (rank->other && length > 0)
		perf_tell(rank, PERF_WORD_ERROR, text, strnlen(text, sizeof text));
	return -1;
}

int perf_complain(const struct perf_rank *rank, const char *what, uint64_t size, int error)
{
	char why[896];

	snprintf(why, sizeof why, "%s%s%s", thole_strerror(error), *thole_detail() ? ": " : "", thole_detail());
	return perf_complain_text(rank, what, size, why);
}

void perf_progress(const struct perf_rank *rank)
{
	for (unsigned i = 0; i < rank->api_count; i++)
		rank->apis[i]->progress(rank);
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
		perf_progress(rank);
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

/* ---- Patterns: a byte depends on its place, on who sends and on a salt -------------------------- */

static unsigned char pattern_byte(uint64_t place, int rank, unsigned salt)
{
	uint64_t mixed = (place + 1) * 0x9e3779b97f4a7c15u + (uint64_t)rank * 131u + salt * 29u;

	return (unsigned char)(mixed >> 56);
}

void perf_pattern_fill(struct perf_rank *rank, uint64_t size, unsigned salt)
{
	for (uint64_t i = 0; i < size; i++)
		rank->out_buffer[i] = pattern_byte(i, rank->rank, salt);
}

int perf_pattern_check(struct perf_rank *rank, uint64_t size, unsigned salt)
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
