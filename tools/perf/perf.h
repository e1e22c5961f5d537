/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * perf.h - what the parts of thole-perf share: the plan, the memory that both ranks see, one rank.
 *
 * thole-perf measures latency and bandwidth between two processes without MPI, and beside them the bare
 * cache-line ping-pong, below which nothing can go on that machine. It prints one JSON object a line:
 * a sample for each test, size and round. Judging samples (best, median, tables) is left to `thole perf`.
 */
#ifndef THOLE_PERF_H
#define THOLE_PERF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "thole.h"

enum {
	PERF_SIZES_MAX = 64,    /* sizes of one run */
	PERF_OPTIONS_MAX = 64,  /* --option arguments */
	PERF_WINDOW_MAX = 1024, /* sends under way at once in the bandwidth test */
	PERF_LINE = 128,        /* bytes that two cores never share by accident: two lines, for the
	                           prefetcher that fetches them in pairs */
};

enum perf_test {
	PERF_BARE = 1 << 0,      /* the cache-line ping-pong, without Thole */
	PERF_LATENCY = 1 << 1,   /* ping-pong; half of the round trip */
	PERF_BANDWIDTH = 1 << 2, /* a window of sends, then one answer */
	PERF_RATE = 1 << 3,      /* the same with 8 bytes: messages a second */
};

struct perf_plan {
	uint64_t sizes[PERF_SIZES_MAX]; /* bytes */
	size_t size_count;
	uint64_t size_max;
	unsigned tests;         /* enum perf_test */
	unsigned rounds;        /* all tests and sizes are gone through so many times */
	unsigned window;        /* sends under way at once */
	uint64_t sample_ns;     /* how long one sample should take, at least one iteration */
	uint64_t iterations;    /* of one sample; 0: as many as sample_ns allows */
	uint64_t patience_ns;   /* a wait that takes longer is an error */
	int cores[2];           /* where the ranks run */
	bool write;             /* write the whole buffer before each send of the ping-pong */
	const char *options[PERF_OPTIONS_MAX + 1]; /* for thole_endpoint_attr */
	size_t option_count;
};

/* Memory that both ranks map. Each line of the bare test is written by one rank only. */
struct perf_shared {
	_Alignas(PERF_LINE) _Atomic uint64_t ping;         /* written by rank 0 */
	_Alignas(PERF_LINE) _Atomic uint64_t pong;         /* written by rank 1 */
	_Alignas(PERF_LINE) _Atomic uint64_t arrived[2];   /* the barrier: how often each rank came to it */
	_Alignas(PERF_LINE) _Atomic uint64_t iterations;   /* of the sample to come; rank 0 decides */
	_Atomic int failed;                                /* a rank has given up: the other must not wait */
};

struct perf_rank {
	const struct perf_plan *plan;
	struct perf_shared *shared;
	struct thole_endpoint *endpoint;
	uint32_t peer;
	int rank;
	bool one_core; /* both ranks on one core: whoever waits must yield */
	unsigned char *out; /* what is sent: size_max bytes of this rank's pattern */
	unsigned char *in;  /* what arrives */
	struct thole_request *requests[PERF_WINDOW_MAX];
};

uint64_t perf_now_ns(void);

/* Meet the other rank. Returns 0, or -1 where it has given up. */
int perf_barrier(struct perf_rank *rank);

/* One step of waiting for the other rank outside Thole. Returns -1 where it has given up. */
int perf_relax(const struct perf_rank *rank, uint64_t *spins);

/* Each sets *ns_p to a sample's whole duration, for so many iterations. Returns 0, or -1 after a message. */
int perf_bare(struct perf_rank *rank, uint64_t iterations, uint64_t *ns_p);
int perf_latency(struct perf_rank *rank, uint64_t size, uint64_t iterations, uint64_t *ns_p);
int perf_bandwidth(struct perf_rank *rank, uint64_t size, unsigned window, uint64_t iterations, uint64_t *ns_p);

/* Exchange messages of this size in both directions and compare every byte. */
int perf_verify(struct perf_rank *rank, uint64_t size);

/* Say what went wrong, on standard error; always -1. */
int perf_complain(const struct perf_rank *rank, const char *what, uint64_t size, int error);

#endif
