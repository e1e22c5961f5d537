/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver_overlap: two ranks of two hosts send each other a large message and then compute without a call; with the
 * driver it is there when they have computed.
 *
 *   thole-driver-overlap [--bytes N] [--thread] [--drivers 0|1|2] [--none] [--covered] [--codec C]
 *                        [--option NAME=VALUE ...] [--row NAME]
 *
 * --drivers: how many of the ranks have the driver; with 2 the bytes have to come while nobody calls. --thread: RTS are
 * matched by the progress thread; without it a rank begins to compute when the driver has its message. --none: what is
 * between them is not the driver's, such as IPv6, so it moves nothing. --covered: the same, since the last rank asks
 * for tags over everything, which the driver does not make. --codec: of MXoE, by interfaces in two networks (ranks.h).
 * Prints what was measured, which means nothing in a guest but for the ratio. --row: in a guest whose clock goes by the
 * instruction, only what a byte of both messages costs both ranks, all that they and the kernel do, as "row NAME VALUE"
 * for bench/driver.py.
 */
#include <getopt.h>

#include "../../bench/instructions.h"
#include "../system/ranks.h"

enum { OPTIONS_MAX = 16, LIMIT_S = 240, MESSAGES = 2 };

static struct {
	size_t bytes;
	int drivers;
	bool thread, none, covered;
	const char *codec, *row;
	double each_ns; /* an instruction, for the row */
	const char *options[OPTIONS_MAX];
	int option_count;
} config = {.bytes = 16 << 20, .drivers = 2};

static struct thole_endpoint *open_endpoint(int rank)
{
	char host[32], thread[32], codec[32];
	const char *strings[OPTIONS_MAX + 8];
	struct thole_endpoint_attr attr = {.options = strings};
	struct thole_endpoint *endpoint;
	int n = 0;

	snprintf(host, sizeof(host), "host=host%d", rank);
	snprintf(thread, sizeof(thread), "progress_thread=%s", config.thread ? "on" : "off");
	strings[n++] = host;
	strings[n++] = thread;
	strings[n++] = rank < config.drivers ? "driver=auto" : "driver=off";
	if (config.codec) {
		snprintf(codec, sizeof(codec), "codec=%s", config.codec);
		strings[n++] = codec;
	} else {
		strings[n++] = "link=udp";
	}
	strings[n++] = "peer_timeout=60s";
	if (config.covered && rank == 1)
		strings[n++] = "integrity=full";
	for (int i = 0; i < config.option_count; i++)
		strings[n++] = config.options[i];
	strings[n] = NULL;
	CHECK_EQUAL(thole_endpoint_open(&attr, &endpoint), 0);
	return endpoint;
}

/* Both ranks' messages, in both directions. */
static void start(struct thole_endpoint *endpoint, uint32_t peer, char *in, const char *out, uint64_t tag,
		  struct thole_request **requests)
{
	CHECK_EQUAL(thole_recv(endpoint, peer, in, config.bytes, tag, UINT64_MAX, 0, NULL, &requests[0]), 0);
	CHECK_EQUAL(thole_send(endpoint, peer, out, config.bytes, tag, 0, 0, NULL, &requests[1]), 0);
}

static void finish(struct thole_endpoint *endpoint, struct thole_request **requests)
{
	for (int i = 0; i < MESSAGES; i++) {
		struct thole_completion completion;

		CHECK_EQUAL(thole_wait(endpoint, requests[i], -1, &completion), 0);
		CHECK_EQUAL(completion.status, 0);
	}
}

static void meet_without_calls(unsigned which)
{
	__atomic_fetch_add(&ranks_shared->words[which], 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&ranks_shared->words[which], __ATOMIC_ACQUIRE) < 2)
		sched_yield();
}

/* Without a call, until the last word is there and all before it; reading it is all that the program does. */
static void compute(const char *in, uint64_t id)
{
	uint64_t last = ranks_word(id, config.bytes / 8 - 1);

	while (__atomic_load_n((const uint64_t *)(const void *)(in + config.bytes - 8), __ATOMIC_ACQUIRE) != last)
		;
	while (ranks_compare(id, 0, in, config.bytes) < config.bytes)
		;
}

static void body(int rank)
{
	struct thole_endpoint *endpoint = open_endpoint(rank);
	struct thole_request *requests[MESSAGES];
	char *in = ranks_memory(config.bytes), *out = ranks_memory(config.bytes);
	uint64_t start_ns, alone_ns, compute_ns, wait_ns;
	bool both_move = config.drivers == 2 && !config.none;
	uint32_t peers[2];

	ranks_fill((uint64_t)rank, 0, out, config.bytes);
	ranks_meet(endpoint, peers);
	start(endpoint, peers[!rank], in, out, 1, requests);
	finish(endpoint, requests); /* they know each other, and memory is touched */
	ranks_barrier(endpoint);
	start_ns = ranks_now_ns();
	start(endpoint, peers[!rank], in, out, 2, requests);
	finish(endpoint, requests);
	alone_ns = ranks_now_ns() - start_ns;
	if (config.row && rank == 0)
		printf("row %s %.4f\n", config.row,
		       (double)alone_ns / config.each_ns / (double)(MESSAGES * config.bytes));
	CHECK_EQUAL(ranks_compare((uint64_t)!rank, 0, in, config.bytes), config.bytes);
	if (config.row) {
		ranks_barrier(endpoint);
		thole_endpoint_close(endpoint);
		return;
	}
	memset(in, 0, config.bytes);
	ranks_fill((uint64_t)rank + 2, 0, out, config.bytes);
	ranks_barrier(endpoint);

	start(endpoint, peers[!rank], in, out, 3, requests);
	if (!config.thread) /* a window and a fetch each time, of three */
		while (both_move && ranks_counter(endpoint, "bulk_handed_over") < 6)
			thole_progress(endpoint);
	start_ns = ranks_now_ns();
	if (both_move)
		compute(in, (uint64_t)!rank + 2);
	compute_ns = ranks_now_ns() - start_ns;
	meet_without_calls(0);
	start_ns = ranks_now_ns();
	finish(endpoint, requests);
	wait_ns = ranks_now_ns() - start_ns;
	CHECK_EQUAL(ranks_compare((uint64_t)!rank + 2, 0, in, config.bytes), config.bytes);
	/* A loaded machine loses its packets, and then the engine asks by another link for a while. */
	if (config.none)
		CHECK_EQUAL(ranks_counter(endpoint, "bulk_handed_over"), 0);
	else if (rank < config.drivers && !config.thread)
		CHECK(ranks_counter(endpoint, "bulk_handed_over") > 0);
	printf("rank %d: alone %.1f ms, there after %.1f ms of computing, wait %.1f ms; overlap_miss %llu, taken back "
	       "%llu\n",
	       rank,
	       (double)alone_ns / 1e6, (double)compute_ns / 1e6, (double)wait_ns / 1e6,
	       (unsigned long long)ranks_counter(endpoint, "overlap_miss"),
	       (unsigned long long)ranks_counter(endpoint, "bulk_taken_back"));
	ranks_barrier(endpoint);
	thole_endpoint_close(endpoint);
}

int main(int argc, char **argv)
{
	static const struct option words[] = {{"bytes", required_argument, NULL, 'b'},
					      {"thread", no_argument, NULL, 't'},
					      {"none", no_argument, NULL, 'n'},
					      {"covered", no_argument, NULL, 'c'},
					      {"drivers", required_argument, NULL, 'd'},
					      {"codec", required_argument, NULL, 'x'},
					      {"row", required_argument, NULL, 'r'},
					      {"option", required_argument, NULL, 'o'},
					      {NULL, 0, NULL, 0}};
	int option;

	while ((option = getopt_long(argc, argv, "", words, NULL)) != -1) {
		if (option == 'b')
			config.bytes = strtoull(optarg, NULL, 0);
		else if (option == 't')
			config.thread = true;
		else if (option == 'n')
			config.none = true;
		else if (option == 'c')
			config.covered = config.none = true;
		else if (option == 'x')
			config.codec = optarg;
		else if (option == 'r')
			config.row = optarg;
		else if (option == 'd')
			config.drivers = atoi(optarg);
		else if (option == 'o' && config.option_count < OPTIONS_MAX)
			config.options[config.option_count++] = optarg;
		else
			return 2;
	}
	if (config.row) /* before there are others who take of the time */
		config.each_ns = instructions_each_ns();
	return ranks_run(2, LIMIT_S, body);
}
