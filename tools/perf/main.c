/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.c - thole-perf: read the arguments, start two pinned ranks, go through tests and sizes in rounds.
 *
 * The parent only supervises: if a rank fails it ends the other. Addresses cross by pipes, so that nothing of
 * what is measured is needed to set it up. Rank 0 prints the samples, one JSON object a line.
 */
#include "perf.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	EXIT_USAGE = 2,
	TRIAL_ITERATIONS = 8,   /* what the number of iterations of a sample is estimated from */
	ITERATIONS_MAX = 1000000,
	RATE_BYTES = 8,
	BARE_BYTES = 8,
	BARE_PART = 4,          /* a bare sample takes this part of the time of others */
	WINDOW_BYTES_MAX = 256 << 20, /* a window never has more than this under way, but at least 4 messages */
	WINDOW_MIN = 4,
};

static const char usage_text[] =
	"usage: thole-perf [option ...]\n"
	"Latency and bandwidth between two processes of this host, one JSON object a line.\n"
	"  --sizes LIST      message sizes, separated by commas, with k, m or g (default: 0 to 4m)\n"
	"  --tests LIST      of bare, latency, bandwidth, rate (default: all)\n"
	"  --rounds N        go through all tests and sizes N times (default 5)\n"
	"  --iterations N    of each sample (default: as many as --sample-ms allows)\n"
	"  --sample-ms N     how long a sample takes (default 20)\n"
	"  --window N        sends under way at once in bandwidth and rate (default 64)\n"
	"  --cores A,B       where the two processes run (default: the first two that are allowed)\n"
	"  --write           write the whole buffer before each send of the latency test\n"
	"  --patience-ms N   a wait that takes longer is an error (default 60000)\n"
	"  --option N=V      one of Thole's options; may be repeated\n";

/* ---- Arguments ------------------------------------------------------------------------------- */

static int usage(const char *what, const char *value)
{
	fprintf(stderr, "thole-perf: %s: %s\n%s", what, value, usage_text);
	return -1;
}

/* A number with an optional suffix k, m or g; *end_p is behind it. Returns 0 or -1. */
static int number_parse(const char *text, char **end_p, uint64_t *number_p)
{
	static const struct { char suffix; unsigned shift; } suffixes[] = {
		{ 'k', 10 }, { 'K', 10 }, { 'm', 20 }, { 'M', 20 }, { 'g', 30 }, { 'G', 30 },
	};

	if (*text < '0' || *text > '9')
		return -1;
	errno = 0;
	*number_p = strtoull(text, end_p, 10);
	if (errno)
		return -1;
	for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
		if (**end_p == suffixes[i].suffix && *number_p <= UINT64_MAX >> suffixes[i].shift) {
			*number_p <<= suffixes[i].shift;
			++*end_p;
			break;
		}
	}
	return 0;
}

static int whole_number(const char *name, const char *text, uint64_t min, uint64_t max, uint64_t *number_p)
{
	char *end;

	if (number_parse(text, &end, number_p) < 0 || *end || *number_p < min || *number_p > max)
		return usage(name, text);
	return 0;
}

static int sizes_parse(struct perf_plan *plan, const char *text)
{
	char *end;

	plan->size_count = 0;
	plan->size_max = 0;
	for (;; text = end + 1) {
		uint64_t size;

		if (number_parse(text, &end, &size) < 0 || size > (uint64_t)4 << 30)
			return usage("--sizes", text);
		if (plan->size_count == PERF_SIZES_MAX)
			return usage("--sizes", "too many");
		plan->sizes[plan->size_count++] = size;
		plan->size_max = size > plan->size_max ? size : plan->size_max;
		if (!*end)
			return 0;
		if (*end != ',')
			return usage("--sizes", text);
	}
}

static int tests_parse(struct perf_plan *plan, const char *text)
{
	static const struct { const char *name; unsigned test; } names[] = {
		{ "bare", PERF_BARE }, { "latency", PERF_LATENCY },
		{ "bandwidth", PERF_BANDWIDTH }, { "rate", PERF_RATE },
	};

	for (plan->tests = 0; *text; text += *text == ',') {
		size_t length = strcspn(text, ",");
		unsigned test = 0;

		for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
			if (strlen(names[i].name) == length && !strncmp(names[i].name, text, length))
				test = names[i].test;
		if (!test)
			return usage("--tests", text);
		plan->tests |= test;
		text += length;
	}
	return plan->tests ? 0 : usage("--tests", "none");
}

static int cores_parse(struct perf_plan *plan, const char *text)
{
	char *end;

	for (int i = 0; i < 2; i++, text = end + 1) {
		uint64_t core;

		if (number_parse(text, &end, &core) < 0 || core >= CPU_SETSIZE || *end != (i ? '\0' : ','))
			return usage("--cores", text);
		plan->cores[i] = (int)core;
	}
	return 0;
}

static void cores_default(struct perf_plan *plan)
{
	cpu_set_t allowed;
	int found = 0;

	plan->cores[0] = plan->cores[1] = 0;
	if (sched_getaffinity(0, sizeof allowed, &allowed) < 0)
		return;
	for (unsigned core = 0; core < CPU_SETSIZE && found < 2; core++)
		if (CPU_ISSET(core, &allowed))
			plan->cores[found++] = (int)core;
	if (found == 1)
		plan->cores[1] = plan->cores[0];
}

static int arguments_parse(struct perf_plan *plan, int argc, char **argv)
{
	enum { SIZES = 1, TESTS, ROUNDS, ITERATIONS, SAMPLE, WINDOW, CORES, WRITE, PATIENCE, OPTION, HELP };
	static const struct option known[] = {
		{ "sizes", required_argument, NULL, SIZES },
		{ "tests", required_argument, NULL, TESTS },
		{ "rounds", required_argument, NULL, ROUNDS },
		{ "iterations", required_argument, NULL, ITERATIONS },
		{ "sample-ms", required_argument, NULL, SAMPLE },
		{ "window", required_argument, NULL, WINDOW },
		{ "cores", required_argument, NULL, CORES },
		{ "write", no_argument, NULL, WRITE },
		{ "patience-ms", required_argument, NULL, PATIENCE },
		{ "option", required_argument, NULL, OPTION },
		{ "help", no_argument, NULL, HELP },
		{ NULL, 0, NULL, 0 },
	};
	uint64_t number = 0;
	int error = 0, which;

	while (!error && (which = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (which) {
		case SIZES: error = sizes_parse(plan, optarg); break;
		case TESTS: error = tests_parse(plan, optarg); break;
		case CORES: error = cores_parse(plan, optarg); break;
		case WRITE: plan->write = true; break;
		case ROUNDS:
			error = whole_number("--rounds", optarg, 1, 10000, &number);
			plan->rounds = (unsigned)number;
			break;
		case ITERATIONS:
			error = whole_number("--iterations", optarg, 1, ITERATIONS_MAX, &plan->iterations);
			break;
		case SAMPLE:
			error = whole_number("--sample-ms", optarg, 1, 60000, &number);
			plan->sample_ns = number * 1000000;
			break;
		case WINDOW:
			error = whole_number("--window", optarg, 1, PERF_WINDOW_MAX, &number);
			plan->window = (unsigned)number;
			break;
		case PATIENCE:
			error = whole_number("--patience-ms", optarg, 1, 86400000, &number);
			plan->patience_ns = number * 1000000;
			break;
		case OPTION:
			if (plan->option_count == PERF_OPTIONS_MAX)
				return usage("--option", "too many");
			plan->options[plan->option_count++] = optarg;
			break;
		case HELP:
			fputs(usage_text, stdout);
			exit(EXIT_SUCCESS);
		default:
			fputs(usage_text, stderr);
			return -1;
		}
	}
	if (!error && optind < argc)
		return usage("not an option", argv[optind]);
	return error;
}

/* ---- One rank -------------------------------------------------------------------------------- */

static int run_sample(struct perf_rank *rank, enum perf_test test, uint64_t size, unsigned window,
		      uint64_t iterations, uint64_t *ns_p)
{
	switch (test) {
	case PERF_BARE: return perf_bare(rank, iterations, ns_p);
	case PERF_LATENCY: return perf_latency(rank, size, iterations, ns_p);
	default: return perf_bandwidth(rank, size, window, iterations, ns_p);
	}
}

/* Rank 0 decides how many iterations make a sample, from a short trial that both run. */
static int iterations_agree(struct perf_rank *rank, enum perf_test test, uint64_t size, unsigned window,
			    uint64_t *iterations_p)
{
	const struct perf_plan *plan = rank->plan;
	uint64_t trial = test == PERF_BARE ? 1024 : size >= 1 << 20 ? 1 : TRIAL_ITERATIONS;
	uint64_t ns, wanted;

	if (plan->iterations) {
		*iterations_p = plan->iterations;
		return 0;
	}
	if (run_sample(rank, test, size, window, trial, &ns) < 0)
		return -1;
	if (rank->rank == 0) {
		wanted = plan->sample_ns / (test == PERF_BARE ? BARE_PART : 1) * trial / (ns ? ns : 1);
		wanted = wanted < 1 ? 1 : wanted > ITERATIONS_MAX ? ITERATIONS_MAX : wanted;
		atomic_store(&rank->shared->iterations, wanted);
	}
	if (perf_barrier(rank) < 0)
		return -1;
	*iterations_p = atomic_load(&rank->shared->iterations);
	return perf_barrier(rank);
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

static int measure_round(struct perf_rank *rank, unsigned round)
{
	const struct perf_plan *plan = rank->plan;

	for (size_t i = 0; i < plan->size_count; i++) {
		/* Just before each size: virtual cores move closer and apart while this runs. */
		if (plan->tests & PERF_BARE && measure(rank, PERF_BARE, "bare", BARE_BYTES, round) < 0)
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

static int address_swap(struct perf_rank *rank, int in, int out)
{
	struct thole_address mine, theirs;

	thole_endpoint_address(rank->endpoint, &mine);
	if (write(out, &mine, sizeof mine) != sizeof mine || read(in, &theirs, sizeof theirs) != sizeof theirs)
		return -1;
	return thole_peer(rank->endpoint, &theirs, &rank->peer);
}

static int rank_run(struct perf_rank *rank, int in, int out)
{
	const struct perf_plan *plan = rank->plan;
	bool messages = plan->tests & ~(unsigned)PERF_BARE;
	int error = 0;

	if (messages) {
		struct thole_endpoint_attr attr = { .threads = THOLE_THREAD_SINGLE, .options = plan->options };

		error = thole_endpoint_open(&attr, &rank->endpoint);
		if (error < 0)
			return perf_complain(rank, "thole_endpoint_open, for messages", plan->size_max, error);
		rank->out = buffer_make(plan->size_max);
		rank->in = buffer_make(plan->size_max);
		if (!rank->out || !rank->in)
			return perf_complain(rank, "the buffers", plan->size_max, THOLE_ERR_MEMORY);
		error = address_swap(rank, in, out);
		if (error < 0)
			return perf_complain(rank, "the swap of addresses, for messages", plan->size_max, error);
	}
	for (unsigned round = 0; !error && round < plan->rounds; round++)
		error = measure_round(rank, round);
	/* Both are through before either closes: closing first would look like a death to the other. */
	if (!error)
		error = perf_barrier(rank);
	if (!error && messages && rank->rank == 0)
		counters_print(rank);
	thole_endpoint_close(rank->endpoint);
	return error;
}

/* The body of a child process; does not return. */
static void rank_main(const struct perf_plan *plan, struct perf_shared *shared, int number, pid_t parent,
		      int in, int out)
{
	static struct perf_rank rank;
	cpu_set_t cores;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_FAILURE); /* the parent ended before the line above */
	rank.plan = plan;
	rank.shared = shared;
	rank.rank = number;
	rank.one_core = plan->cores[0] == plan->cores[1];
	CPU_ZERO(&cores);
	CPU_SET((size_t)plan->cores[number], &cores);
	if (sched_setaffinity(0, sizeof cores, &cores) < 0) {
		fprintf(stderr, "thole-perf: core %d cannot be used: %s\n", plan->cores[number], strerror(errno));
		atomic_store(&shared->failed, 1);
		_exit(EXIT_USAGE);
	}
	_exit(rank_run(&rank, in, out) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* ---- The parent ------------------------------------------------------------------------------ */

static int supervise(struct perf_shared *shared, const pid_t *ranks)
{
	bool running[2] = { true, true };
	int result = EXIT_SUCCESS;

	for (int left = 2; left > 0; left--) {
		int status, which;
		pid_t ended = wait(&status);

		if (ended < 0)
			return EXIT_FAILURE;
		which = ended == ranks[1];
		running[which] = false;
		if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS)
			continue;
		if (WIFSIGNALED(status) && !atomic_load(&shared->failed))
			fprintf(stderr, "thole-perf: rank %d was ended by signal %d\n", which, WTERMSIG(status));
		if (result == EXIT_SUCCESS)
			result = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
		atomic_store(&shared->failed, 1);
		if (running[!which])
			kill(ranks[!which], SIGKILL);
	}
	return result;
}

int main(int argc, char **argv)
{
	static struct perf_plan plan = {
		.tests = PERF_BARE | PERF_LATENCY | PERF_BANDWIDTH | PERF_RATE,
		.rounds = 5,
		.window = 64,
		.sample_ns = 20000000,
		.patience_ns = 60000000000u,
	};
	struct perf_shared *shared;
	pid_t ranks[2], parent = getpid();
	int pipes[2][2]; /* pipes[i]: what rank i reads */

	cores_default(&plan);
	if (sizes_parse(&plan, "0,1,8,64,256,512,1k,4k,8k,16k,32k,64k,128k,256k,512k,1m,2m,4m") < 0 ||
	    arguments_parse(&plan, argc, argv) < 0)
		return EXIT_USAGE;
	if (plan.tests & PERF_RATE && plan.size_max < RATE_BYTES)
		plan.size_max = RATE_BYTES;
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || pipe(pipes[0]) < 0 || pipe(pipes[1]) < 0) {
		perror("thole-perf");
		return EXIT_FAILURE;
	}
	printf("{\"type\": \"host\", \"version\": \"%s\", \"cores\": [%d, %d]}\n", thole_version(), plan.cores[0],
	       plan.cores[1]);
	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		ranks[i] = fork();
		if (ranks[i] < 0) {
			perror("thole-perf: fork");
			if (i == 1)
				kill(ranks[0], SIGKILL);
			return EXIT_FAILURE;
		}
		if (ranks[i] == 0)
			rank_main(&plan, shared, i, parent, pipes[i][0], pipes[!i][1]);
	}
	return supervise(shared, ranks);
}
