/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.c - thole-perf: read the arguments; where both ranks are on this host, start and supervise them.
 *
 * The parent only supervises: if a rank fails it ends the other. Addresses cross by pipes, so that nothing of
 * what is measured is needed to set it up.
 */
#include "perf.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_USAGE = 2, RATE_BYTES = 8 };

#define SIZES_DEFAULT "0,1,8,64,256,512,1k,4k,8k,16k,32k,64k,128k,256k,512k,1m,2m,4m"

static const char usage_text[] =
	"usage: thole-perf [option ...]\n"
	"Latency and bandwidth between two processes of this host, or of two, one JSON object a line.\n"
	"  --sizes LIST      message sizes, separated by commas, with k, m or g (default: 0 to 4m)\n"
	"  --tests LIST      of bare, latency, bandwidth, rate (default: all)\n"
	"  --rounds N        go through all tests and sizes N times (default 5)\n"
	"  --iterations N    of each sample (default: as many as --sample-ms allows)\n"
	"  --sample-ms N     how long a sample takes (default 20)\n"
	"  --window N        sends under way at once in bandwidth and rate (default 64)\n"
	"  --cores A,B       where the two processes run (default: the first two that are allowed)\n"
	"  --write           write the whole buffer before each send of the latency test\n"
	"  --shared          buffers by thole_alloc: memory that the other process can map\n"
	"  --patience-ms N   a wait that takes longer is an error (default 60000)\n"
	"  --option N=V      one of Thole's options; may be repeated\n"
	"  --apis LIST       of thole, mx: what messages go through, by turns (default: thole)\n"
	"  --mx-library PATH libmyriexpress.so, for mx\n"
	"Between two hosts (bare is TCP then; the client runs on the first of the cores, the listener on the second):\n"
	"  --listen          wait for clients, and measure with each\n"
	"  --host HOST       measure with the listener on HOST\n"
	"  --port N          of the listener (default 7471; listening, 0: any that is free)\n"
	"  --bind ADDRESS    listen at this address only\n"
	"  --once            listen for one client, and end as it did\n"
	"  --network NAME    verbs or udp: what both sides use, where their own options say nothing else\n"
	"  --size-limit N    listening: the largest message that a client may ask for (default 256m)\n"
	"  --connect-ms N    how long the listener may take to answer (default 5000)\n";

static const struct perf_network networks[] = {
	{ "verbs", { "verbs=required", "shm=off" } },
	{ "udp", { "verbs=off", "shm=off", "link=udp" } },
};

/* ---- Arguments ------------------------------------------------------------------------------- */

/* What is wrong, as one sentence that says what is allowed. Always -1. */
static int __attribute__((format(printf, 1, 2))) refuse(const char *format, ...)
{
	va_list arguments;

	fputs("thole-perf: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
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
		return refuse("%s '%s' is not a whole number from %" PRIu64 " to %" PRIu64, name, text, min, max);
	return 0;
}

static int sizes_parse(struct perf_plan *plan, const char *text)
{
	const char *whole = text;
	char *end;

	plan->size_count = 0;
	plan->size_max = 0;
	for (;; text = end + 1) {
		uint64_t size;

		if (number_parse(text, &end, &size) < 0 || size > (uint64_t)4 << 30 || (*end && *end != ','))
			return refuse("--sizes '%s': '%.*s' is not a size: bytes, or with k, m or g; 4g at most", whole,
				      (int)strcspn(text, ","), text);
		if (plan->size_count == PERF_SIZES_MAX)
			return refuse("--sizes '%s': %d sizes at most", whole, PERF_SIZES_MAX);
		plan->sizes[plan->size_count++] = size;
		plan->size_max = size > plan->size_max ? size : plan->size_max;
		if (!*end)
			return 0;
	}
}

struct name_bit {
	const char *name;
	unsigned bit;
};

/* Names separated by commas, as the bits that a table ended by NULL has for them. */
static int names_parse(const char *argument, const struct name_bit *names, const char *text, unsigned *bits_p)
{
	for (*bits_p = 0; *text; text += *text == ',') {
		size_t length = strcspn(text, ",");
		unsigned bit = 0;

		for (const struct name_bit *each = names; each->name; each++)
			if (strlen(each->name) == length && !strncmp(each->name, text, length))
				bit = each->bit;
		if (!bit)
			return refuse("%s: there is no '%.*s'; see thole-perf --help", argument, (int)length, text);
		*bits_p |= bit;
		text += length;
	}
	return *bits_p ? 0 : refuse("%s names nothing; see thole-perf --help", argument);
}

static int tests_parse(struct perf_plan *plan, const char *text)
{
	static const struct name_bit names[] = {
		{ "bare", PERF_BARE }, { "latency", PERF_LATENCY },
		{ "bandwidth", PERF_BANDWIDTH }, { "rate", PERF_RATE }, { NULL, 0 },
	};

	return names_parse("--tests", names, text, &plan->tests);
}

static int apis_parse(struct perf_plan *plan, const char *text)
{
	static const struct name_bit names[] = { { "thole", PERF_API_THOLE }, { "mx", PERF_API_MX }, { NULL, 0 } };

	return names_parse("--apis", names, text, &plan->apis);
}

static int network_parse(struct perf_plan *plan, const char *text)
{
	for (unsigned i = 0; i < sizeof networks / sizeof networks[0]; i++)
		if (strcmp(networks[i].name, text) == 0) {
			plan->network = &networks[i];
			return 0;
		}
	return refuse("--network '%s' is not verbs or udp", text);
}

static int cores_parse(struct perf_plan *plan, const char *text)
{
	const char *whole = text;
	char *end;

	for (int i = 0; i < 2; i++, text = end + 1) {
		uint64_t core;

		if (number_parse(text, &end, &core) < 0 || core >= PERF_CORES_MAX || *end != (i ? '\0' : ','))
			return refuse(
				"--cores '%s' is not A,B: the numbers, from 0 to %d, of the cores of the two processes",
				whole, PERF_CORES_MAX - 1);
		plan->cores[i] = (int)core;
	}
	return 0;
}

static void cores_default(struct perf_plan *plan)
{
	cpu_set_t allowed[PERF_CORES_MAX / CPU_SETSIZE];
	int found = 0;

	plan->cores[0] = plan->cores[1] = 0;
	if (sched_getaffinity(0, sizeof allowed, allowed) < 0)
		return;
	for (unsigned core = 0; core < PERF_CORES_MAX && found < 2; core++)
		if (CPU_ISSET_S(core, sizeof allowed, allowed))
			plan->cores[found++] = (int)core;
	if (found == 1)
		plan->cores[1] = plan->cores[0];
}

static int text_parse(const char *name, const char *text, const char **text_p)
{
	*text_p = text;
	return *text ? 0 : refuse("%s names nothing", name);
}

/* In the order of the table below, whose values these are. */
enum argument {
	SIZES, TESTS, ROUNDS, ITERATIONS, SAMPLE, WINDOW, WRITE, SHARED, PATIENCE, APIS, NETWORK,
	PLAN_ARGUMENTS, /* those before are what a client may set of a listener's plan */
	CORES = PLAN_ARGUMENTS, OPTION, LISTEN, HOST, PORT, BIND, ONCE, SIZE_LIMIT, CONNECT, MX_LIBRARY, HELP,
};

static const struct option known[] = {
	[SIZES] = { "sizes", required_argument, NULL, SIZES },
	[TESTS] = { "tests", required_argument, NULL, TESTS },
	[ROUNDS] = { "rounds", required_argument, NULL, ROUNDS },
	[ITERATIONS] = { "iterations", required_argument, NULL, ITERATIONS },
	[SAMPLE] = { "sample-ms", required_argument, NULL, SAMPLE },
	[WINDOW] = { "window", required_argument, NULL, WINDOW },
	[WRITE] = { "write", no_argument, NULL, WRITE },
	[SHARED] = { "shared", no_argument, NULL, SHARED },
	[PATIENCE] = { "patience-ms", required_argument, NULL, PATIENCE },
	[APIS] = { "apis", required_argument, NULL, APIS },
	[NETWORK] = { "network", required_argument, NULL, NETWORK },
	[CORES] = { "cores", required_argument, NULL, CORES },
	[OPTION] = { "option", required_argument, NULL, OPTION },
	[LISTEN] = { "listen", no_argument, NULL, LISTEN },
	[HOST] = { "host", required_argument, NULL, HOST },
	[PORT] = { "port", required_argument, NULL, PORT },
	[BIND] = { "bind", required_argument, NULL, BIND },
	[ONCE] = { "once", no_argument, NULL, ONCE },
	[SIZE_LIMIT] = { "size-limit", required_argument, NULL, SIZE_LIMIT },
	[CONNECT] = { "connect-ms", required_argument, NULL, CONNECT },
	[MX_LIBRARY] = { "mx-library", required_argument, NULL, MX_LIBRARY },
	[HELP] = { "help", no_argument, NULL, HELP },
	{ NULL, 0, NULL, 0 },
};

static int argument_take(struct perf_plan *plan, enum argument which, const char *text)
{
	uint64_t number = 0;
	int error = 0;

	switch (which) {
	case SIZES: return sizes_parse(plan, text);
	case TESTS: return tests_parse(plan, text);
	case APIS: return apis_parse(plan, text);
	case NETWORK: return network_parse(plan, text);
	case CORES: return cores_parse(plan, text);
	case WRITE: plan->write = true; return 0;
	case SHARED: plan->shared = true; return 0;
	case LISTEN: plan->listen = true; return 0;
	case ONCE: plan->once = true; return 0;
	case HOST: return text_parse("--host", text, &plan->host);
	case BIND: return text_parse("--bind", text, &plan->bind);
	case MX_LIBRARY: return text_parse("--mx-library", text, &plan->mx_library);
	case ITERATIONS: return whole_number("--iterations", text, 1, PERF_ITERATIONS_MAX, &plan->iterations);
	case SIZE_LIMIT: return whole_number("--size-limit", text, 1, (uint64_t)4 << 30, &plan->size_limit);
	case ROUNDS:
		error = whole_number("--rounds", text, 1, 10000, &number);
		plan->rounds = (unsigned)number;
		return error;
	case SAMPLE:
		error = whole_number("--sample-ms", text, 1, 60000, &number);
		plan->sample_ns = number * 1000000;
		return error;
	case WINDOW:
		error = whole_number("--window", text, 1, PERF_WINDOW_MAX, &number);
		plan->window = (unsigned)number;
		return error;
	case PATIENCE:
		error = whole_number("--patience-ms", text, 1, 86400000, &number);
		plan->patience_ns = number * 1000000;
		return error;
	case CONNECT:
		error = whole_number("--connect-ms", text, 1, 86400000, &number);
		plan->connect_ns = number * 1000000;
		return error;
	case PORT:
		error = whole_number("--port", text, 0, 65535, &number);
		plan->port = (unsigned)number;
		return error;
	case OPTION:
		if (plan->option_count == PERF_OPTIONS_MAX - 1) /* one is left for the job key */
			return refuse("--option: %d options at most", PERF_OPTIONS_MAX - 1);
		plan->options[plan->option_count++] = text;
		return 0;
	default:
		return -1;
	}
}

int perf_plan_set(struct perf_plan *plan, const char *name, const char *value)
{
	for (int which = 0; which < PLAN_ARGUMENTS; which++)
		if (strcmp(known[which].name, name) == 0)
			return argument_take(plan, (enum argument)which, value);
	return -1;
}

static int arguments_parse(struct perf_plan *plan, int argc, char **argv)
{
	int which;

	while ((which = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (which == HELP) {
			fputs(usage_text, stdout);
			exit(EXIT_SUCCESS);
		}
		if (which == '?') {
			fputs(usage_text, stderr);
			return -1;
		}
		if (argument_take(plan, (enum argument)which, optarg) < 0)
			return -1;
	}
	if (optind < argc)
		return refuse("'%s' is not an option; see thole-perf --help", argv[optind]);
	if (plan->listen && plan->host)
		return refuse("--listen and --host exclude each other");
	if (plan->apis & PERF_API_MX && !plan->mx_library)
		return refuse("--apis mx needs --mx-library");
	return 0;
}

/* ---- Two ranks on this host ------------------------------------------------------------------- */

/* The body of a child process; does not return. */
static void rank_main(const struct perf_plan *plan, struct perf_shared *shared, int number, pid_t parent,
		      int in, int out)
{
	static struct perf_rank rank;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_FAILURE); /* the parent ended before the line above */
	rank.plan = plan;
	rank.shared = shared;
	rank.rank = number;
	rank.one_core = plan->cores[0] == plan->cores[1];
	rank.in = in;
	rank.out = out;
	if (perf_pin(&rank, plan->cores[number]) < 0)
		_exit(EXIT_USAGE);
	_exit(perf_rank_run(&rank) < 0 ? EXIT_FAILURE : EXIT_SUCCESS);
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

static int run_here(const struct perf_plan *plan)
{
	struct perf_shared *shared;
	pid_t ranks[2], parent = getpid();
	int pipes[2][2]; /* pipes[i]: what rank i reads */

	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || pipe(pipes[0]) < 0 || pipe(pipes[1]) < 0) {
		perror("thole-perf");
		return EXIT_FAILURE;
	}
	printf("{\"type\": \"host\", \"version\": \"%s\", \"cores\": [%d, %d]}\n", thole_version(), plan->cores[0],
	       plan->cores[1]);
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
			rank_main(plan, shared, i, parent, pipes[i][0], pipes[!i][1]);
	}
	return supervise(shared, ranks);
}

int main(int argc, char **argv)
{
	static struct perf_plan plan = {
		.tests = PERF_BARE | PERF_LATENCY | PERF_BANDWIDTH | PERF_RATE,
		.apis = PERF_API_THOLE,
		.rounds = 5,
		.window = 64,
		.sample_ns = 20000000,
		.patience_ns = 60000000000u,
		.port = PERF_PORT,
		.connect_ns = 5000000000u,
		.size_limit = 256 << 20,
	};

	cores_default(&plan);
	if (sizes_parse(&plan, SIZES_DEFAULT) < 0 || arguments_parse(&plan, argc, argv) < 0)
		return EXIT_USAGE;
	if (plan.tests & PERF_RATE && plan.size_max < RATE_BYTES)
		plan.size_max = RATE_BYTES;
	if (plan.listen)
		return perf_listen(&plan);
	return plan.host ? perf_connect(&plan) : run_here(&plan);
}
