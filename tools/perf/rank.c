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

/* What a sample is of. */
struct subject {
	const struct perf_api *api; /* NULL: no messages */
	enum perf_test test;
	const char *name;           /* of the test */
	uint64_t size;
	unsigned window;
};

static int run_sample(struct perf_rank *rank, const struct subject *subject, uint64_t iterations, uint64_t *ns_p)
{
	switch (subject->test) {
	case PERF_BARE:
		return rank->other ? perf_tcp(rank, subject->size, iterations, ns_p)
				   : perf_bare(rank, iterations, ns_p);
	case PERF_LATENCY: return subject->api->latency(rank, subject->size, iterations, ns_p);
	default: return subject->api->bandwidth(rank, subject->size, subject->window, iterations, ns_p);
	}
}

/* So many that the estimate means something, and so few that a slow network has them through soon. */
static uint64_t trial_iterations(const struct perf_rank *rank, const struct subject *subject)
{
	uint64_t size = subject->size;
	unsigned window = subject->window;

	if (rank->other)
		return size * window >= 1 << 20 ? 1 : window > 1 ? TRIAL_ITERATIONS : 2 * TRIAL_ITERATIONS;
	return subject->test == PERF_BARE ? 1024 : size >= 1 << 20 ? 1 : TRIAL_ITERATIONS;
}

/* Rank 0 decides how many iterations make a sample, from a short trial that both run. It is the same number for all
 * that are compared, by the fastest of them: what was interrupted has taken longer than it does. */
static int iterations_agree(struct perf_rank *rank, struct subject *subject, const struct perf_api *const *apis,
			    unsigned count, uint64_t *iterations_p)
{
	const struct perf_plan *plan = rank->plan;
	uint64_t trial = trial_iterations(rank, subject);
	uint64_t fastest = UINT64_MAX, ns, wanted;

	if (plan->iterations) {
		*iterations_p = plan->iterations;
		return 0;
	}
	for (unsigned i = 0; i < count; i++) {
		subject->api = apis[i];
		if (run_sample(rank, subject, trial, &ns) < 0)
			return -1;
		fastest = ns < fastest ? ns : fastest;
	}
	wanted = plan->sample_ns / (subject->test == PERF_BARE ? BARE_PART : 1) * trial / (fastest ? fastest : 1);
	*iterations_p = wanted < 1 ? 1 : wanted > PERF_ITERATIONS_MAX ? PERF_ITERATIONS_MAX : wanted;
	return perf_agree(rank, iterations_p);
}

static void sample_print(const struct subject *subject, unsigned round, uint64_t iterations, uint64_t ns)
{
	printf("{\"type\": \"sample\", \"test\": \"%s\", ", subject->name);
	if (subject->api)
		printf("\"api\": \"%s\", ", subject->api->name);
	printf("\"size\": %" PRIu64 ", \"round\": %u, \"iterations\": %" PRIu64 ", \"window\": %u, \"ns\": %" PRIu64
	       "}\n",
	       subject->size, round, iterations, subject->window, ns);
	fflush(stdout);
}

/* A sample of each, one right after the other. Who is first changes with each round, so that being first is no
 * advantage. */
static int measure(struct perf_rank *rank, const struct perf_api *const *apis, unsigned count, struct subject subject,
		   unsigned round)
{
	uint64_t iterations, ns;

	subject.window = subject.test & (PERF_BANDWIDTH | PERF_RATE) ? rank->plan->window : 1;
	while (subject.window > WINDOW_MIN && subject.window * subject.size > WINDOW_BYTES_MAX)
		subject.window /= 2;
	if (iterations_agree(rank, &subject, apis, count, &iterations) < 0)
		return -1;
	for (unsigned i = 0; i < count; i++) {
		subject.api = apis[(i + round) % count];
		if (run_sample(rank, &subject, iterations, &ns) < 0)
			return -1;
		if (rank->rank == 0)
			sample_print(&subject, round, iterations, ns);
	}
	return 0;
}

/* What stands beside a latency: on one host a cache line, between two TCP with messages of the same size. */
static int measure_beside(struct perf_rank *rank, uint64_t size, unsigned round)
{
	static const struct perf_api *const none[] = { NULL };
	struct subject subject = { .test = PERF_BARE, .name = rank->other ? "tcp" : "bare",
				   .size = rank->other ? size : BARE_BYTES };

	return measure(rank, none, 1, subject, round);
}

static int measure_messages(struct perf_rank *rank, enum perf_test test, const char *name, uint64_t size,
			    unsigned round)
{
	struct subject subject = { .test = test, .name = name, .size = size };

	return rank->plan->tests & test ? measure(rank, rank->apis, rank->api_count, subject, round) : 0;
}

static int verify_each(struct perf_rank *rank, uint64_t size)
{
	for (unsigned i = 0; i < rank->api_count; i++)
		if (rank->apis[i]->verify(rank, size) < 0)
			return -1;
	return 0;
}

static int measure_round(struct perf_rank *rank, unsigned round)
{
	const struct perf_plan *plan = rank->plan;

	for (size_t i = 0; i < plan->size_count; i++) {
		/* Just before each size: virtual cores move closer and apart while this runs. */
		if (plan->tests & PERF_BARE && measure_beside(rank, plan->sizes[i], round) < 0)
			return -1;
		if (round == 0 && verify_each(rank, plan->sizes[i]) < 0)
			return -1;
		if (measure_messages(rank, PERF_LATENCY, "latency", plan->sizes[i], round) < 0)
			return -1;
		/* No bandwidth of nothing. */
		if (plan->sizes[i] > 0 &&
		    measure_messages(rank, PERF_BANDWIDTH, "bandwidth", plan->sizes[i], round) < 0)
			return -1;
	}
	return measure_messages(rank, PERF_RATE, "rate", RATE_BYTES, round);
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

static unsigned char *buffer_make(uint64_t size, bool shared)
{
	size_t length = size < 4096 ? 4096 : size;
	void *memory;

	if (shared)
		return thole_alloc(length, &memory) == 0 ? memset(memory, 0, length) : NULL;
	memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

int perf_swap(struct perf_rank *rank, const void *mine, void *theirs, size_t length)
{
	if (rank->other)
		return perf_tell(rank, PERF_WORD_ADDRESS, mine, length) < 0 ? -1 :
		       perf_hear(rank, PERF_WORD_ADDRESS, theirs, length);
	if (write(rank->out, mine, length) != (ssize_t)length || read(rank->in, theirs, length) != (ssize_t)length)
		return -1;
	return 0;
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

/* Rank 0 prints how either side reached the other, and what was sent again; the round trip is that of a line at
 * rest. */
static int ways_print(struct perf_rank *rank)
{
	struct way way;
	uint64_t ns;

	if (perf_api_thole.latency(rank, MEET_BYTES, REST_ITERATIONS, &ns) < 0)
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
	rank->out_buffer = buffer_make(rank->plan->size_max, rank->plan->shared);
	rank->in_buffer = buffer_make(rank->plan->size_max, rank->plan->shared);
	if (rank->out_buffer && rank->in_buffer)
		return 0;
	return perf_complain(rank, "the buffers", rank->plan->size_max, THOLE_ERR_MEMORY);
}

static int api_begin(struct perf_rank *rank, const struct perf_api *api)
{
	int error = api->open(rank);

	rank->apis[rank->api_count++] = api; /* to be closed in any case */
	if (error || !rank->other)
		return error;
	rank->meeting = true;
	error = api->verify(rank, MEET_BYTES);
	rank->meeting = false;
	return error;
}

/* MX first: with frames of MXoE its endpoint wants a number of its own, Thole's takes any that is left. Nobody goes on
 * before the other has connected, for which he may need our progress. */
static int messages_begin(struct perf_rank *rank)
{
	if (rank->plan->apis & PERF_API_MX && (api_begin(rank, &perf_api_mx) < 0 || perf_barrier(rank) < 0))
		return -1;
	if (rank->plan->apis & PERF_API_THOLE && api_begin(rank, &perf_api_thole) < 0)
		return -1;
	return 0;
}

static void messages_end(struct perf_rank *rank)
{
	while (rank->api_count) {
		rank->api_count--;
		rank->apis[rank->api_count]->close(rank);
	}
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
	if (!error && rank->endpoint && rank->rank == 0)
		counters_print(rank);
	if (!error && rank->endpoint && rank->other)
		error = ways_print(rank);
	/* Both are through before either closes: closing first would look like a death to the other. */
	if (!error)
		error = perf_barrier(rank);
	messages_end(rank);
	return error;
}

int perf_pin(const struct perf_rank *rank, int core)
{
	cpu_set_t cores[PERF_CORES_MAX / CPU_SETSIZE];

	CPU_ZERO_S(sizeof cores, cores);
	CPU_SET_S((size_t)core, sizeof cores, cores);
	if (sched_setaffinity(0, sizeof cores, cores) == 0)
		return 0;
	fprintf(stderr,
		"thole-perf: --cores: this process cannot run on core %d: %s; `thole info host` names those that "
		"it may use\n",
		core, strerror(errno));
	atomic_store(&rank->shared->failed, 1);
	return -1;
}
