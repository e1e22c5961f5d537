/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * floor.c - how long a cache line takes from one core to another just now, in nanoseconds one way.
 *
 * A virtual machine's two processors may be threads of one core in one minute and cores of
 * different chips in the next, which changes every latency by a factor; bench/run.py runs this
 * around each measurement so that only measurements of the same condition are compared. Takes two
 * CPU numbers; prints one number.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	TRIPS = 2000, /* of one try: a quarter of a millisecond or so, less than a scheduler's slice */
	TRIES = 15,
	LOOKS = 2000, /* more than any cache line takes: the other process has no core just now */
};

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int pin(const char *text)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)atoi(text), &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

/* One side writes odd values, the other even ones, each after it has seen the other's. */
static void play(atomic_uint *word, unsigned mine)
{
	for (unsigned i = 0; i < TRIPS; i++) {
		unsigned looks = 0;

		while (atomic_load_explicit(word, memory_order_acquire) != 2 * i + mine) {
			if (++looks > LOOKS)
				sched_yield();
		}
		atomic_store_explicit(word, 2 * i + mine + 1, memory_order_release);
	}
}

int main(int argc, char **argv)
{
	atomic_uint *words = mmap(NULL, (TRIES + 1) * 4096, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t best = UINT64_MAX;
	pid_t child;

	if (argc != 3 || words == MAP_FAILED)
		return 1;
	child = fork();
	if (child < 0 || pin(argv[child ? 1 : 2]))
		return 1;
	for (unsigned i = 0; i < TRIES; i++) {
		atomic_uint *word = words + i * 1024;
		uint64_t start;

		if (!child) {
			play(word, 1);
			continue;
		}
		start = clock_ns();
		play(word, 0);
		start = clock_ns() - start;
		/* The first try waits for the other process to start. */
		if (i && start < best)
			best = start;
	}
	if (!child)
		return 0;
	waitpid(child, NULL, 0);
	printf("%.1f\n", (double)best / (2.0 * TRIPS));
	return 0;
}
