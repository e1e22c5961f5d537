/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crowd.c - what 8 bytes take between two processes, alone and beside peers that are connected and say nothing.
 *
 * Three processes: two that play ping-pong, each on a core of its own, and a crowd with many endpoints. The two play,
 * then each endpoint of the crowd exchanges a message with both and falls silent, then they play again. Takes the two
 * CPU numbers; prints one JSON object a line: where the partner and the crowd are (remote: their endpoints believe that
 * they are on another host, and use UDP over the loopback interface), how many they are, and microseconds one way,
 * median and best of the rounds.
 *
 * Addresses go through memory that the processes inherit; everything else is thole.h.
 */
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "thole.h"

enum {
	LOCALS = 63,
	REMOTES = 1000,
	ROUNDS = 41,
	TRIPS = 2000,
	TAG_PLAY = 1,
	TAG_MEET = 2,
	PLAYERS = 2,
};

static const double settle_us = 20000;
static const int64_t patience_ns = 30000000000;

/* What one comparison is of. */
struct setting {
	int partner_remote;
	int crowd_remote;
	int crowd;
};

/* What the processes share. */
struct board {
	struct thole_address addresses[PLAYERS];
	atomic_int ready;   /* players that have put their address here */
	atomic_int stage;   /* 1: the crowd may speak; 2: it has spoken; 3: all is over */
	atomic_int failed;
};

struct timing {
	double median_us;
	double best_us;
};

static struct board *board;

__attribute__((format(printf, 1, 2), noreturn))
static void die(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fprintf(stderr, "crowd: ");
	vfprintf(stderr, format, arguments);
	fprintf(stderr, "\n");
	va_end(arguments);
	atomic_store(&board->failed, 1);
	exit(1);
}

static void must(int error, const char *what)
{
	if (error < 0)
		die("%s: %s (%s)", what, thole_strerror(error), thole_detail());
}

static void await(atomic_int *word, int least)
{
	while (atomic_load(word) < least) {
		if (atomic_load(&board->failed))
			exit(1);
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
}

static struct thole_completion finish(struct thole_endpoint *endpoint, struct thole_request *request,
				      const char *what)
{
	struct thole_completion completion;

	must(thole_wait(endpoint, request, patience_ns, &completion), what);
	must(completion.status, what);
	return completion;
}

static void pass(struct thole_endpoint *endpoint, uint32_t peer, uint64_t tag, uint64_t word)
{
	struct thole_request *request;

	must(thole_send(endpoint, peer, &word, sizeof(word), tag, 0, 0, NULL, &request), "send");
	finish(endpoint, request, "send");
}

static uint64_t take(struct thole_endpoint *endpoint, uint32_t peer, uint64_t tag, uint32_t *source_p)
{
	struct thole_request *request;
	uint64_t word;

	must(thole_recv(endpoint, peer, &word, sizeof(word), tag, UINT64_MAX, 0, NULL, &request), "receive");
	*source_p = finish(endpoint, request, "receive").peer;
	return word;
}

static struct thole_endpoint *open_endpoint(int remote)
{
	static const char *const here[] = { "interface=lo", "link=udp", "host=here", NULL };
	static const char *const there[] = { "interface=lo", "link=udp", "host=there", NULL };
	struct thole_endpoint_attr attr = { .options = remote ? there : here };
	struct thole_endpoint *endpoint;

	must(thole_endpoint_open(&attr, &endpoint), "open");
	return endpoint;
}

static int ascending(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* The one who leads sends trips' numbers down to zero, which ends the game for the one who follows. */
static struct timing lead(struct thole_endpoint *endpoint, uint32_t peer)
{
	double taken[ROUNDS];
	uint32_t source;

	for (int round = 0; round < ROUNDS; round++) {
		double start = now_us();

		for (uint64_t left = TRIPS; left > 0; left--) {
			pass(endpoint, peer, TAG_PLAY, left - 1 + (round + 1 < ROUNDS));
			take(endpoint, peer, TAG_PLAY, &source);
		}
		taken[round] = (now_us() - start) / (2.0 * TRIPS);
	}
	qsort(taken, ROUNDS, sizeof(taken[0]), ascending);
	return (struct timing){ taken[ROUNDS / 2], taken[0] };
}

static void follow(struct thole_endpoint *endpoint, uint32_t peer)
{
	uint64_t word;
	uint32_t source;

	do {
		word = take(endpoint, peer, TAG_PLAY, &source);
		pass(endpoint, peer, TAG_PLAY, word);
	} while (word);
}

static void meet(struct thole_endpoint *endpoint, int crowd)
{
	uint32_t source;

	for (int i = 0; i < crowd; i++) {
		uint64_t word = take(endpoint, THOLE_ANY, TAG_MEET, &source);

		pass(endpoint, source, TAG_MEET, word);
	}
}

static void report(const struct setting *setting, struct timing alone, struct timing beside)
{
	printf("{\"partner\": \"%s\", \"crowd\": \"%s\", \"peers\": %d, \"alone_us\": %.4f, \"alone_best_us\": %.4f, "
	       "\"beside_us\": %.4f, \"beside_best_us\": %.4f}\n", setting->partner_remote ? "remote" : "local",
	       setting->crowd_remote ? "remote" : "local", setting->crowd, alone.median_us, alone.best_us,
	       beside.median_us, beside.best_us);
	fflush(stdout);
}

/* number 0 leads. */
static void play(const struct setting *setting, int number, int cpu)
{
	struct thole_endpoint *endpoint;
	struct timing alone, beside;
	cpu_set_t set;
	uint32_t peer;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("CPU %d cannot be used", cpu);
	endpoint = open_endpoint(number && setting->partner_remote);
	thole_endpoint_address(endpoint, &board->addresses[number]);
	atomic_fetch_add(&board->ready, 1);
	await(&board->ready, PLAYERS);
	must(thole_peer(endpoint, &board->addresses[1 - number], &peer), "peer");
	if (number) {
		follow(endpoint, peer);
		meet(endpoint, setting->crowd);
		follow(endpoint, peer);
	} else {
		alone = lead(endpoint, peer);
		atomic_store(&board->stage, 1);
		meet(endpoint, setting->crowd);
		await(&board->stage, 2);
		beside = lead(endpoint, peer);
		report(setting, alone, beside);
		atomic_store(&board->stage, 3);
	}
	await(&board->stage, 3);
	thole_endpoint_close(endpoint);
}

/* What they still owe goes out: acknowledgements, without which players would send again. */
static void settle(struct thole_endpoint **endpoints, int count)
{
	double start = now_us();

	while (now_us() - start < settle_us) {
		for (int i = 0; i < count; i++)
			thole_progress(endpoints[i]);
	}
}

/* Its endpoints stay until the end: connections of those that are closed would end. */
static void gather(const struct setting *setting)
{
	struct thole_endpoint *endpoints[REMOTES];
	struct rlimit limit;
	uint32_t peer;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	await(&board->stage, 1);
	for (int i = 0; i < setting->crowd; i++) {
		struct thole_endpoint *endpoint = endpoints[i] = open_endpoint(setting->crowd_remote);

		for (int player = 0; player < PLAYERS; player++) {
			must(thole_peer(endpoint, &board->addresses[player], &peer), "peer");
			pass(endpoint, peer, TAG_MEET, (uint64_t)i);
			take(endpoint, peer, TAG_MEET, &peer);
		}
	}
	settle(endpoints, setting->crowd);
	atomic_store(&board->stage, 2);
	await(&board->stage, 3);
}

static int measure(const struct setting *setting, const int *cpus)
{
	int failed = 0, status;

	memset(board, 0, sizeof(*board));
	for (int i = 0; i <= PLAYERS; i++) {
		pid_t child = fork();

		if (child < 0)
			die("cannot start process %d", i);
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (i < PLAYERS)
				play(setting, i, cpus[i]);
			else
				gather(setting);
			_exit(0);
		}
	}
	for (int i = 0; i <= PLAYERS; i++) {
		if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status)) {
			failed = 1;
			atomic_store(&board->failed, 1);
		}
	}
	return failed;
}

int main(int argc, char **argv)
{
	static const struct setting settings[] = {
		{ 0, 0, LOCALS },
		{ 0, 1, REMOTES },
		{ 1, 1, REMOTES },
	};
	int cpus[PLAYERS];

	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (argc != 1 + PLAYERS || board == MAP_FAILED) {
		fprintf(stderr, "usage: thole-crowd CPU CPU\n");
		return 2;
	}
	for (int i = 0; i < PLAYERS; i++)
		cpus[i] = atoi(argv[1 + i]);
	for (unsigned i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		if (measure(&settings[i], cpus))
			return 1;
	}
	return 0;
}
