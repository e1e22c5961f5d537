/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_memory OPTIONS OPTIONS: two endpoints, in two processes, each with its options (words with ";" between).
 * Large messages go from buffers that are now and then unmapped and mapped anew at the same addresses, each byte
 * compared; then puts and gets of a region that is mapped anew between some of them. Prints the one's counters.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "need.h"
#include "thole.h"

enum { BYTES = 1 << 20, ROUNDS = 60, SHORT = 8192, ACCESSES = 40, KEY = 7 };

static struct thole_endpoint *endpoint;
static uint32_t peer;
static unsigned char *buffer;

static void open_with(char *options, int to, int from)
{
	const char *strings[16] = {NULL};
	struct thole_endpoint_attr attr = {.options = strings};
	struct thole_address own, other;
	char *save = NULL;
	int n = 0;

	for (char *word = strtok_r(options, ";", &save); word && n < 15; word = strtok_r(NULL, ";", &save))
		strings[n++] = word;
	NEED(thole_endpoint_open(&attr, &endpoint) == 0);
	thole_endpoint_address(endpoint, &own);
	NEED(write(to, &own, sizeof(own)) == sizeof(own));
	NEED(read(from, &other, sizeof(other)) == sizeof(other));
	NEED(thole_peer(endpoint, &other, &peer) == 0);
}

static void wait_for(struct thole_request *request)
{
	struct thole_completion done;

	NEED(thole_wait(endpoint, request, 100 * INT64_C(1000000000), &done) == 0 && done.status == 0);
}

static void say(void)
{
	struct thole_request *request;

	NEED(thole_send(endpoint, peer, NULL, 0, 1, 0, 0, NULL, &request) == 0);
	wait_for(request);
}

static void hear(void)
{
	struct thole_request *request;

	NEED(thole_recv(endpoint, peer, NULL, 0, 1, UINT64_MAX, 0, NULL, &request) == 0);
	wait_for(request);
}

static unsigned char byte_of(int round, size_t at)
{
	return (unsigned char)(at * 7 + (at >> 12) + (size_t)round * 31);
}

static void fill(int round, size_t bytes)
{
	for (size_t at = 0; at < bytes; at++)
		buffer[at] = byte_of(round, at);
}

static void compare(int round, size_t bytes)
{
	for (size_t at = 0; at < bytes; at++)
		if (buffer[at] != byte_of(round, at))
			need(0, "the byte that was sent", (int)at);
}

/* Other pages at the same address. */
static void map_anew(void)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | (buffer ? MAP_FIXED : 0);

	if (buffer)
		NEED(munmap(buffer, BYTES) == 0);
	buffer = mmap(buffer, BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
	NEED(buffer != MAP_FAILED);
}

static void messages(int sends)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct thole_request *request;

		if (round % 10 == 5 + sends)
			map_anew();
		if (sends) {
			fill(round, BYTES);
			NEED(thole_send(endpoint, peer, buffer, BYTES, 2, 0, 0, NULL, &request) == 0);
		} else {
			NEED(thole_recv(endpoint, peer, buffer, BYTES, 2, UINT64_MAX, 0, NULL, &request) == 0);
		}
		wait_for(request);
		if (!sends)
			compare(round, BYTES);
	}
}

static void target(void)
{
	struct thole_region *region;

	NEED(thole_expose(endpoint, buffer, SHORT, THOLE_ACCESS_PUT | THOLE_ACCESS_GET, KEY, NULL, &region) == 0);
	for (int round = 0; round < ACCESSES; round++) {
		if (round % 10 == 9)
			map_anew();
		say();
		hear();
		compare(round, SHORT);
	}
	thole_unexpose(endpoint, region);
}

static void origin(void)
{
	for (int round = 0; round < ACCESSES; round++) {
		struct iovec segment = {buffer, SHORT};
		struct thole_request *request;

		hear();
		fill(round, SHORT);
		NEED(thole_put(endpoint, peer, &segment, 1, KEY, 0, 0, 0, NULL, &request) == 0);
		wait_for(request);
		memset(buffer, 0, SHORT);
		NEED(thole_get(endpoint, peer, &segment, 1, KEY, 0, 0, NULL, &request) == 0);
		wait_for(request);
		compare(round, SHORT);
		say();
	}
}

static void counters_print(void)
{
	struct thole_counter_info info;
	uint64_t values[256];
	int count = thole_counters(endpoint, values, 256);

	for (int i = 0; i < count && thole_counter_info((unsigned)i, &info) == 0; i++)
		if (strncmp(info.name, "verbs_", 6) == 0 || strncmp(info.name, "regist", 6) == 0 ||
		    strncmp(info.name, "bulk_", 5) == 0 || strncmp(info.name, "queues_", 7) == 0 ||
		    strcmp(info.name, "bad_records") == 0)
			printf("%s %llu\n", info.name, (unsigned long long)values[i]);
}

int main(int argc, char **argv)
{
	int there[2], back[2], status = 0;
	pid_t child;

	if (argc != 3) {
		printf("usage: %s OPTIONS OPTIONS\n", argv[0]);
		return 2;
	}
	NEED(pipe(there) == 0 && pipe(back) == 0);
	child = fork();
	map_anew();
	if (child == 0) {
		open_with(argv[2], back[1], there[0]);
		messages(0);
		target();
		thole_endpoint_close(endpoint);
		return 0;
	}
	open_with(argv[1], there[1], back[0]);
	messages(1);
	origin();
	printf(" well\n");
	counters_print();
	thole_endpoint_close(endpoint);
	NEED(waitpid(child, &status, 0) == child && status == 0);
	return 0;
}
