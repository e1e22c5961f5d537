/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rank.c - what one of the two ranks goes through: it opens its endpoint, finds the other, and measures by rounds.
 *
 * Both ranks take the same steps in the same order. Rank 0 prints, one JSON object a line.
 */
#include "perf.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	TRIAL_ITERATIONS = 8,   /* what the number of iterations of a sample is estimated from */
	RATE_BYTES = 8,
	BARE_BYTES = 8,
	BARE_PART = 4,          /* a bare sample takes this part of the time of others */
	WINDOW_BYTES_MAX = 256 << 20, /* a window never has more than this under way, but at least 4 messages */
	WINDOW_MIN = 4,
	REST_ITERATIONS = 64,   /* small messages, until the smoothed round trip has forgotten the large ones */
	MEET_BYTES = 8,         /* of the messages that show whether Thole reaches the other host */
};

static int run_sample(struct perf_rank *rank, enum perf_test test, uint64_t size, unsigned window,
		      uint64_t iterations, uint64_t *ns_p)
{
	switch (test) {
	case PERF_BARE:
		return rank->other ? perf_tcp(rank, size, iterations, ns_p) : perf_bare(rank, iterations, ns_p);
	case PERF_LATENCY: return perf_latency(rank, size, iterations, ns_p);
	default: return perf_bandwidth(rank, size, window, iterations, ns_p);
	}
}

/* So many that the estimate means something, and so few that a slow network has them through soon. */
static uint64_t trial_iterations(const struct perf_rank *rank, enum perf_test test, uint64_t size, unsigned window)
{
	if (rank->other)
		return size * window >= 1 << 20 ? 1 : window > 1 ? TRIAL_ITERATIONS : 2 * TRIAL_ITERATIONS;
	return test == PERF_BARE ? 1024 : size >= 1 << 20 ? 1 : TRIAL_ITERATIONS;
}

/* Rank 0 decides how many iterations make a sample, from a short trial that both run. */
static int iterations_agree(struct perf_rank *rank, enum perf_test test, uint64_t size, unsigned window,
			    uint64_t *iterations_p)
{
	const struct perf_plan *plan = rank->plan;
	uint64_t trial = trial_iterations(rank, test, size, window);
	uint64_t ns, wanted;

	if (plan->iterations) {
		*iterations_p = plan->iterations;
		return 0;
	}
	if (run_sample(rank, test, size, window, trial, &ns) < 0)
		return -1;
	wanted = plan->sample_ns / (test == PERF_BARE ? BARE_PART : 1) * trial / (ns ? ns : 1);
	*iterations_p = wanted < 1 ? 1 : wanted > PERF_ITERATIONS_MAX ? PERF_ITERATIONS_MAX : wanted;
	return perf_agree(rank, iterations_p);
}

static int measure(struct perf_rank *rank, enum perf_test test, const char *name, uint64_t size, unsigned round)
{
	const struct perf_plan *plan = rank->plan;
	unsigned window = test & (PERF_BANDWIDTH | PERF_RATE) ? plan->window : 1;
	uint64_t iterations, ns;

	while (window > WINDOW_MIN && window * size > WINDOW_BYTES_MAX)
		window /= 2;
	if (iterations_agree(rank, test, size, window, &iterations) < 0)
		return -1;
	if (run_sample(rank, test, size, window, iterations, &ns) < 0)
		return -1;
	if (rank->rank == 0) {
		printf("{\"type\": \"sample\", \"test\": \"%s\", \"size\": %" PRIu64 ", \"round\": %u, "
		       "\"iterations\": %" PRIu64 ", \"window\": %u, \"ns\": %" PRIu64 "}\n",
		       name, size, round, iterations, window, ns);
		fflush(stdout);
	}
	return 0;
}

/* What stands beside a latency: on one host a cache line, between two TCP with messages of the same size. */
static int measure_beside(struct perf_rank *rank, uint64_t size, unsigned round)
{
	if (rank->other)
		return measure(rank, PERF_BARE, "tcp", size, round);
	return measure(rank, PERF_BARE, "bare", BARE_BYTES, round);
}

static int measure_round(struct perf_rank *rank, unsigned round)
{
	const struct perf_plan *plan = rank->plan;

	for (size_t i = 0; i < plan->size_count; i++) {
		/* Just before each size: virtual cores move closer and apart while this runs. */
		if (plan->tests & PERF_BARE && measure_beside(rank, plan->sizes[i], round) < 0)
			return -1;
		if (rank->endpoint && round == 0 && perf_verify(rank, plan->sizes[i]) < 0)
			return -1;
		if (plan->tests & PERF_LATENCY &&
		    measure(rank, PERF_LATENCY, "latency", plan->sizes[i], round) < 0)
			return -1;
		/* No bandwidth of nothing. */
		if (plan->tests & PERF_BANDWIDTH && plan->sizes[i] > 0 &&
		    measure(rank, PERF_BANDWIDTH, "bandwidth", plan->sizes[i], round) < 0)
			return -1;
	}
	if (plan->tests & PERF_RATE && measure(rank, PERF_RATE, "rate", RATE_BYTES, round) < 0)
		return -1;
	return 0;
}

static void counters_print(struct perf_rank *rank)
{
	struct thole_counter_info info;
	uint64_t values[256];
	int count = thole_counters(rank->endpoint, values, sizeof values / sizeof values[0]);

	printf("{\"type\": \"counters\"");
	for (unsigned i = 0; (int)i < count && i < sizeof values / sizeof values[0]; i++)
		if (thole_counter_info(i, &info) == 0)
			printf(", \"%s\": %" PRIu64, info.name, values[i]);
	printf("}\n");
	fflush(stdout);
}

static unsigned char *buffer_make(uint64_t size)
{
	size_t length = size < 4096 ? 4096 : size;
	void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static int address_swap(struct perf_rank *rank)
{
	struct thole_address mine, theirs;

	thole_endpoint_address(rank->endpoint, &mine);
	if (rank->other) {
		if (perf_tell(rank, PERF_WORD_ADDRESS, &mine, sizeof mine) < 0 ||
		    perf_hear(rank, PERF_WORD_ADDRESS, &theirs, sizeof theirs) < 0)
			return THOLE_ERR_PEER;
	} else if (write(rank->out, &mine, sizeof mine) != sizeof mine ||
		   read(rank->in, &theirs, sizeof theirs) != sizeof theirs) {
		return THOLE_ERR_PEER;
	}
	return thole_peer(rank->endpoint, &theirs, &rank->peer);
}

/* ---- Between hosts: how the other one is reached -------------------------------------------------- */

struct way { /* crosses as it is, so without padding */
	char transport[16], records[16], bulk[16];
	uint64_t rtt_ns, frames_sent, retransmitted, frame_max;
};

static void way_find(struct perf_rank *rank, struct way *way)
{
	struct thole_peer_info info;

	memset(way, 0, sizeof *way);
	if (thole_peer_info(rank->endpoint, rank->peer, &info) < 0)
		return;
	snprintf(way->transport, sizeof way->transport, "%s", info.transport);
	snprintf(way->records, sizeof way->records, "%s", info.records);
	snprintf(way->bulk, sizeof way->bulk, "%s", info.bulk);
	way->rtt_ns = htobe64(info.rtt_ns);
	way->frames_sent = htobe64(info.frames_sent);
	way->retransmitted = htobe64(info.retransmitted);
	way->frame_max = htobe64(info.frame_max);
}

/* A word of another host's, made harmless for JSON. */
static const char *word_clean(char *word, size_t size)
{
	word[size - 1] = '\0';
	for (char *c = word; *c; c++)
		if ((*c < 'a' || *c > 'z') && *c != '-')
			*c = '-';
	return word;
}

static void way_print(struct way *way, const char *side)
{
	printf("{\"type\": \"way\", \"side\": \"%s\", \"transport\": \"%s\", \"records\": \"%s\", "
	       "\"bulk\": \"%s\", \"rtt_ns\": %" PRIu64 ", \"frames_sent\": %" PRIu64 ", \"retransmitted\": %"
	       PRIu64 ", \"frame_max\": %" PRIu64 "}\n",
	       side, word_clean(way->transport, sizeof way->transport),
	       word_clean(way->records, sizeof way->records), word_clean(way->bulk, sizeof way->bulk),
	       be64toh(way->rtt_ns), be64toh(way->frames_sent), be64toh(way->retransmitted),
	       be64toh(way->frame_max));
	fflush(stdout);
}

/* Rank 0 prints how either side reached the other, and what was sent again; the round trip is that of a line at rest. */
static int ways_print(struct perf_rank *rank)
{
	struct way way;
	uint64_t ns;

	if (perf_latency(rank, MEET_BYTES, REST_ITERATIONS, &ns) < 0)
		return -1;
	way_find(rank, &way);
	if (rank->rank == 1)
		return perf_tell(rank, PERF_WORD_INFO, &way, sizeof way);
	way_print(&way, "here");
	if (perf_hear(rank, PERF_WORD_INFO, &way, sizeof way) < 0)
		return -1;
	way_print(&way, "there");
	return 0;
}

/* ---- The whole of it ----------------------------------------------------------------------------- */

static int buffers_begin(struct perf_rank *rank)
{
	rank->out_buffer = buffer_make(rank->plan->size_max);
	rank->in_buffer = buffer_make(rank->plan->size_max);
	if (rank->out_buffer && rank->in_buffer)
		return 0;
	return perf_complain(rank, "the buffers", rank->plan->size_max, THOLE_ERR_MEMORY);
}

static int messages_begin(struct perf_rank *rank)
{
	const struct perf_plan *plan = rank->plan;
	struct thole_endpoint_attr attr = { .threads = THOLE_THREAD_SINGLE, .options = plan->options };
	int error = thole_endpoint_open(&attr, &rank->endpoint);

	if (error < 0)
		return perf_complain(rank, "thole_endpoint_open, for messages", plan->size_max, error);
	error = address_swap(rank);
	if (error < 0)
		return perf_complain(rank, "the swap of addresses, for messages", plan->size_max, error);
	if (!rank->other)
		return 0;
	rank->meeting = true;
	error = perf_verify(rank, MEET_BYTES);
	rank->meeting = false;
	return error;
}

int perf_rank_run(struct perf_rank *rank)
{
	const struct perf_plan *plan = rank->plan;
	bool messages = plan->tests & ~(unsigned)PERF_BARE;
	int error = buffers_begin(rank);

	if (!error && messages)
		error = messages_begin(rank);
	for (unsigned round = 0; !error && round < plan->rounds; round++)
		error = measure_round(rank, round);
	if (!error && messages && rank->rank == 0)
		counters_print(rank);
	if (!error && messages && rank->other)
		error = ways_print(rank);
	/* Both are through before either closes: closing first would look like a death to the other. */
	if (!error)
		error = perf_barrier(rank);
	thole_endpoint_close(rank->endpoint);
	return error;
}

int perf_pin(const struct perf_rank *rank, int core)
{
	cpu_set_t cores;

	CPU_ZERO(&cores);
	CPU_SET((size_t)core, &cores);
	if (sched_setaffinity(0, sizeof cores, &cores) == 0)
		return 0;
	fprintf(stderr, "thole-perf: core %d cannot be used: %s\n", core, strerror(errno));
	atomic_store(&rank->shared->failed, 1);
	return -1;
}
