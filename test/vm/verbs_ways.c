/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_ways OPTIONS OPTIONS WAY [COMMAND WAY]...: two endpoints, in two processes, each with its options (words with
 * ";" between); messages of all lengths go both ways, several at once, and each byte is compared. First until the one's
 * small messages go WAY ("verbs", "udp", ...) and some more; then COMMAND is run in a shell, in the midst of messages,
 * until the new WAY is taken; and so on. "any" is every way. Prints each way that was taken, then counters.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "need.h"

enum {
	WINDOW = 8,            /* messages under way each way */
	MORE = 60,             /* rounds after a way was taken */
	LENGTH_MAX = 400000,
	OPTIONS_MAX = 16,
	PATIENCE_S = 150,
};

static struct thole_endpoint *endpoint;
static uint32_t peer;
static unsigned char *out[WINDOW], *in[WINDOW];

static void open_with(char *options)
{
	const char *strings[OPTIONS_MAX + 1] = {NULL};
	struct thole_endpoint_attr attr = {.options = strings};
	char *save = NULL;
	int n = 0;

	for (char *word = strtok_r(options, ";", &save); word && n < OPTIONS_MAX; word = strtok_r(NULL, ";", &save))
		strings[n++] = word;
	NEED(thole_endpoint_open(&attr, &endpoint) == 0);
}

static size_t length_of(uint64_t round, int number, int from)
{
	uint64_t mixed = (round * 8 + (uint64_t)number * 2 + (uint64_t)from + 1) * UINT64_C(0x9e3779b97f4a7c15);

	switch (mixed >> 61) {
	case 0: case 1: case 2: return (mixed >> 20) % 64;
	case 3: case 4: return (mixed >> 20) % 9000;
	case 5: case 6: return (mixed >> 20) % 70000;
	default: return (mixed >> 20) % LENGTH_MAX;
	}
}

static unsigned char byte_of(uint64_t round, int number, int from, size_t at)
{
	return (unsigned char)(at * 13 + (at >> 8) + round * 7 + (unsigned)number * 31 + (unsigned)from);
}

/* A window of messages each way, at once. `stop`: the one says with the last of them that there are no more. */
static int round_do(int self, int stop)
{
	struct thole_request *sends[WINDOW], *receives[WINDOW];
	int stopped = 0;

	for (int i = 0; i < WINDOW; i++)
		NEED(thole_recv(endpoint, peer, in[i], LENGTH_MAX, (uint64_t)i, UINT64_MAX, 0, NULL, &receives[i]) ==
		     0);
	for (int i = 0; i < WINDOW; i++) {
		size_t length = length_of(need_round, i, self);

		for (size_t at = 0; at < length; at++)
			out[i][at] = byte_of(need_round, i, self, at);
		NEED(thole_send(endpoint, peer, out[i], length, (uint64_t)i, (uint64_t)(stop && i == WINDOW - 1),
				THOLE_IMM, NULL, &sends[i]) == 0);
	}
	for (int i = 0; i < WINDOW; i++) {
		struct thole_completion done;
		size_t length = length_of(need_round, i, 1 - self);

		NEED(thole_wait(endpoint, receives[i], PATIENCE_S * INT64_C(1000000000), &done) == 0);
		NEED(done.status == 0 && done.length == length);
		for (size_t at = 0; at < length; at++)
			if (in[i][at] != byte_of(need_round, i, 1 - self, at))
				need(0, "the byte that was sent", (int)at);
		stopped |= done.imm != 0;
	}
	for (int i = 0; i < WINDOW; i++) {
		struct thole_completion done;

		NEED(thole_wait(endpoint, sends[i], PATIENCE_S * INT64_C(1000000000), &done) == 0 && done.status == 0);
	}
	need_round++;
	return stopped;
}

static const char *way_now(void)
{
	struct thole_peer_info info;

	NEED(thole_peer_info(endpoint, peer, &info) == 0);
	return info.records;
}

static void until_way(const char *way)
{
	time_t end = time(NULL) + PATIENCE_S;

	while (strcmp(way, "any") != 0 && strcmp(way_now(), way) != 0) {
		if (time(NULL) > end) {
			printf("still %s\n", way_now());
			NEED(0);
		}
		round_do(0, 0);
	}
	printf("%s ", way_now());
	fflush(stdout);
	for (int i = 0; i < MORE; i++)
		round_do(0, 0);
}

static void counters_print(void)
{
	static const char *const shown[] = {"verbs_messages", "network_messages", "bulk_read", "bulk_pipeline",
					    "bulk_network", "queues_made", "queues_broken", "verbs_over",
					    "bad_records", "register_refused"};
	struct thole_counter_info info;
	uint64_t values[256];
	int count = thole_counters(endpoint, values, 256);

	printf("well\n");
	for (int i = 0; i < count && thole_counter_info((unsigned)i, &info) == 0; i++)
		for (size_t k = 0; k < sizeof(shown) / sizeof(*shown); k++)
			if (strcmp(info.name, shown[k]) == 0)
				printf("%s %llu\n", info.name, (unsigned long long)values[i]);
}

static void meet(int to, int from)
{
	struct thole_address own, other;

	thole_endpoint_address(endpoint, &own);
	NEED(write(to, &own, sizeof(own)) == sizeof(own));
	NEED(read(from, &other, sizeof(other)) == sizeof(other));
	NEED(thole_peer(endpoint, &other, &peer) == 0);
}

int main(int argc, char **argv)
{
	int there[2], back[2], status = 0;
	pid_t child;

	if (argc < 4) {
		printf("usage: %s OPTIONS OPTIONS WAY [COMMAND WAY]...\n", argv[0]);
		return 2;
	}
	for (int i = 0; i < WINDOW; i++)
		NEED((out[i] = malloc(LENGTH_MAX)) && (in[i] = malloc(LENGTH_MAX)));
	NEED(pipe(there) == 0 && pipe(back) == 0);
	child = fork();
	if (child == 0) {
		open_with(argv[2]);
		meet(back[1], there[0]);
		while (!round_do(1, 0))
			;
		thole_endpoint_close(endpoint);
		return 0;
	}
	open_with(argv[1]);
	meet(there[1], back[0]);
	until_way(argv[3]);
	for (int i = 4; i + 1 < argc; i += 2) {
		NEED(system(argv[i]) == 0);
		until_way(argv[i + 1]);
	}
	round_do(0, 1);
	counters_print();
	thole_endpoint_close(endpoint);
	NEED(waitpid(child, &status, 0) == child && status == 0);
	return 0;
}
