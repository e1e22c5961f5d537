/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thole-sim: run whole endpoints over a simulated network.
 *
 *   thole-sim [--scenario NAME] [--seed FIRST] [--seeds COUNT] [--twice] [--trace] [--size N] [--list] [--codec NAME]
 *             [--integrity MODE] [--links 3] [--moves] [--adapter MODEL|any [--beside]]
 *
 * A seed says all that happens. --twice runs each one again and compares the hashes of the two histories. What fails is
 * printed with the command that runs it again. A child does the work, so that a crash, too, is told with its seed.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mover.h"
#include "scenario.h"
#include "transport/datagram/mac.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define INSTRUMENTED true
#else
#define INSTRUMENTED false
#endif

enum { LIMIT_S = 300 }; /* of the real world, for one seed */

static struct {
	const struct scenario *scenario;
	uint64_t first, count, size;
	uint32_t links;
	bool trace, twice, verbose, moves, any_nic, beside;
	const struct codec *codec;
	const struct nic_model *nic;
	uint64_t integrity;
	const char *program;
} config = {.scenario = scenarios, .first = 1, .count = 1};

/* What the parent hears of the child. */
struct board {
	uint64_t seed;
	uint64_t hash, twin, events, carried, lost, overrun, ops, ended_badly, bytes;
	struct mover_counts movers;
};

static struct board *board;

static const char *const integrities[] = {"auto", "off", "head", "full"}; /* enum option_integrity */

static void say_replay(FILE *to, uint64_t seed)
{
	fprintf(to, "%s --scenario %s --seed %llu", config.program, config.scenario->name, (unsigned long long)seed);
	if (config.codec)
		fprintf(to, " --codec %s", config.codec->name);
	if (config.integrity)
		fprintf(to, " --integrity %s", integrities[config.integrity]);
	if (config.size)
		fprintf(to, " --size %llu", (unsigned long long)config.size);
	if (config.links)
		fprintf(to, " --links %u", config.links);
	if (config.moves)
		fprintf(to, " --moves");
	if (config.nic)
		fprintf(to, " --adapter %s%s", config.any_nic ? "any" : config.nic->name,
			config.beside ? " --beside" : "");
	fprintf(to, " --trace\n");
}

static bool run_seed(uint64_t seed, uint64_t *hash_p)
{
	static struct simulation simulation;
	bool failed;

	simulation = (struct simulation){.codec = config.codec, .integrity = config.integrity,
					  .size = (uint32_t)config.size,
					  .links = config.links, .moves = config.moves, .nic = config.nic,
					  .any_nic = config.any_nic, .beside = config.beside,
					  .instrumented = INSTRUMENTED};
	world_init(&simulation.world, seed, config.trace);
	config.scenario->run(&simulation);
	*hash_p = simulation.world.hash;
	board->events += simulation.world.events;
	board->carried += simulation.network.carried;
	board->lost += simulation.network.lost;
	board->overrun += simulation.network.overrun;
	board->ops += simulation.traffic.op_count;
	board->ended_badly += simulation.traffic.failed;
	board->bytes += simulation.traffic.bytes;
	board->movers = sim_mover_counts;
	traffic_fini(&simulation.traffic); /* adapters say what is left of those that are closed by it */
	failed = simulation.world.failed;
	if (failed) {
		fprintf(stderr, "FAILED at %.3f us: %s\n  ", (double)(simulation.world.now_ns - SECOND) / 1000,
			simulation.world.failure);
		say_replay(stderr, seed);
	} else if (simulation.note[0] || config.verbose) {
		printf("%s %llu: %s hash %016llx\n", config.scenario->name, (unsigned long long)seed, simulation.note,
		       (unsigned long long)*hash_p);
	}
	if (simulation.nic)
		carrier_fini(&simulation.carrier);
	network_fini(&simulation.network);
	world_fini(&simulation.world);
	return !failed;
}

/* The same again. Where adapters' words are frames, too, these name addresses in memory: then it begins from the same
 * heap, before the first. */
static bool run_twin(uint64_t seed, uint64_t *hash_p)
{
	pid_t twin;
	int status;

	if (!config.beside)
		return run_seed(seed, hash_p);
	twin = fork();
	if (twin == 0)
		_exit(run_seed(seed, &board->twin) ? 0 : 1);
	if (twin < 0 || waitpid(twin, &status, 0) != twin || status != 0)
		return false;
	*hash_p = board->twin;
	return true;
}

static int run_all(void)
{
	int status = 0;

	for (uint64_t i = 0; i < config.count; i++) {
		uint64_t seed = config.first + i, hash, again = 0;
		bool alike;

		board->seed = seed;
		alarm(LIMIT_S);
		alike = !config.twice || run_twin(seed, &again);
		if (!run_seed(seed, &hash)) {
			status = 1;
			continue;
		}
		board->hash = random_mix(board->hash ^ hash);
		if (config.twice && (!alike || again != hash)) {
			fprintf(stderr, "FAILED: the same seed has two histories, %016llx and %016llx\n  ",
				(unsigned long long)hash, (unsigned long long)again);
			say_replay(stderr, seed);
			status = 1;
		}
	}
	return status;
}

static void list_scenarios(void)
{
	for (const struct scenario *scenario = scenarios; scenario->name; scenario++)
		printf("%-12s %s\n", scenario->name, scenario->help);
}

static const struct scenario *scenario_find(const char *name)
{
	const struct scenario *scenario = scenarios;

	while (scenario->name && strcmp(scenario->name, name) != 0)
		scenario++;
	return scenario->name ? scenario : NULL;
}

static bool integrity_find(const char *name)
{
	for (config.integrity = OPTION_INTEGRITY_OFF; config.integrity <= OPTION_INTEGRITY_FULL; config.integrity++)
		if (strcmp(name, integrities[config.integrity]) == 0)
			return config.integrity != OPTION_INTEGRITY_FULL || mac_libcrypto();
	return false;
}

/* A whole number from 1 on, and nothing behind it: else nothing might be run, and be well. */
static bool argument_number(const char *option, const char *text, uint64_t most, uint64_t *number_p)
{
	char *end;

	errno = 0;
	*number_p = strtoull(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !*end && !errno && *number_p >= 1 && *number_p <= most)
		return true;
	fprintf(stderr, "--%s is a whole number from 1 to %llu\n", option, (unsigned long long)most);
	return false;
}

/* Returns -1 to go on, else the status to exit with. */
static int arguments(int argc, char **argv)
{
	static const struct option words[] = {
		{"scenario", required_argument, NULL, 's'}, {"seed", required_argument, NULL, 'f'},
		{"seeds", required_argument, NULL, 'n'},    {"size", required_argument, NULL, 'z'},
		{"twice", no_argument, NULL, '2'},	    {"trace", no_argument, NULL, 't'},
		{"codec", required_argument, NULL, 'c'},    {"integrity", required_argument, NULL, 'i'},
		{"list", no_argument, NULL, 'l'},	    {"verbose", no_argument, NULL, 'v'},
		{"links", required_argument, NULL, 'k'},    {"moves", no_argument, NULL, 'm'},
		{"beside", no_argument, NULL, 'b'},	    {"adapter", required_argument, NULL, 'a'},
		{NULL, 0, NULL, 0}};
	int option;

	config.program = argv[0];
	while ((option = getopt_long(argc, argv, "", words, NULL)) != -1) {
		switch (option) {
		case 's':
			config.scenario = scenario_find(optarg);
			if (!config.scenario) {
				fprintf(stderr, "there is no scenario %s; --list names them\n", optarg);
				return 2;
			}
			break;
		case 'c':
			config.codec = strcmp(optarg, "mxoe") == 0 ? &codec_mxoe : &codec_mxoe_jumbo;
			if (strcmp(optarg, config.codec->name) != 0) {
				fprintf(stderr, "--codec is mxoe or mxoe-jumbo\n");
				return 2;
			}
			break;
		case 'i':
			if (!integrity_find(optarg)) {
				fprintf(stderr, "--integrity is off, head, or full where libcrypto is\n");
				return 2;
			}
			break;
		case 'f':
			if (!argument_number("seed", optarg, UINT64_MAX, &config.first))
				return 2;
			break;
		case 'n':
			if (!argument_number("seeds", optarg, UINT64_MAX, &config.count))
				return 2;
			break;
		case 'k':
			config.links = 3;
			if (strcmp(optarg, "3") != 0) {
				fprintf(stderr, "--links is 3; without it there are one or two\n");
				return 2;
			}
			break;
		case 'm':
			config.moves = true;
			break;
		case 'a':
			config.any_nic = strcmp(optarg, "any") == 0;
			config.nic = config.any_nic ? nic_models : nic_model_find(optarg);
			if (!config.nic) {
				fprintf(stderr, "there is no adapter %s: see sim/nic_models.c\n", optarg);
				return 2;
			}
			break;
		case 'b':
			config.beside = true;
			break;
		case 'z':
			if (!argument_number("size", optarg, UINT32_MAX, &config.size))
				return 2;
			break;
		case '2':
			config.twice = true;
			break;
		case 't':
			config.trace = true;
			break;
		case 'v':
			config.verbose = true;
			break;
		case 'l':
			list_scenarios();
			return 0;
		default:
			return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "%s belongs to no option\n", argv[optind]);
		return 2;
	}
	if (config.scenario->engine && config.nic && !config.beside) {
		fprintf(stderr, "%s needs links, which --adapter leaves out; --beside has both\n",
			config.scenario->name);
		return 2;
	}
	return -1;
}

int main(int argc, char **argv)
{
	int status = arguments(argc, argv);
	pid_t child;

	if (status >= 0)
		return status;
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED)
		return 2;
	fflush(stdout);
	child = fork();
	if (child < 0)
		return 2;
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		exit(run_all());
	}
	if (waitpid(child, &status, 0) != child)
		return 2;
	if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) {
		fprintf(stderr, "FAILED: %s %d\n  ", WIFSIGNALED(status) ? "signal" : "status",
			WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		say_replay(stderr, board->seed);
		return 1;
	}
	printf("%s, %llu seeds from %llu: %llu events, %llu frames (%llu lost, of these %llu for want of room), %llu "
	       "operations (%llu ended in an error), %llu bytes compared, hash %016llx: %s\n",
	       config.scenario->name, (unsigned long long)config.count, (unsigned long long)config.first,
	       (unsigned long long)board->events, (unsigned long long)board->carried, (unsigned long long)board->lost,
	       (unsigned long long)board->overrun, (unsigned long long)board->ops,
	       (unsigned long long)board->ended_badly, (unsigned long long)board->bytes,
	       (unsigned long long)board->hash, WEXITSTATUS(status) ? "FAILED" : "ok");
	if (config.moves)
		printf("by movers: %llu bytes fetched, %llu served, %llu frames dropped for pages that were not there, "
		       "%llu pages pinned\n",
		       (unsigned long long)board->movers.fetched, (unsigned long long)board->movers.served,
		       (unsigned long long)board->movers.overlap_miss, (unsigned long long)board->movers.pins);
	return WEXITSTATUS(status);
}
