/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * floor.c - how long a cache line takes from one core to another just now, in nanoseconds one way; what the kernel's
 * copy between processes costs.
 *
 * A virtual machine's two processors may be threads of one core in one minute and cores of
 * different chips in the next, which changes every latency by a factor; bench/run.py runs this
 * around each measurement so that only measurements of the same condition are compared. Takes two
 * CPU numbers; prints one number. With a third word it prints of process_vm_readv instead: nanoseconds of a call for a
 * byte, and GB/s of calls for a MiB; "refused" where the kernel refuses it.
 */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	TRIPS = 2000, /* of one try: a quarter of a millisecond or so, less than a scheduler's slice */
	TRIES = 15,
	LOOKS = 2000, /* more than any cache line takes: the other process has no core just now */
	COPY_MAX = 1 << 20,
	COPIES = 64, /* of one try */
};

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Returns 0 if this process runs there and nowhere else. */
static int pin(const char *text)
{
	cpu_set_t set;
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	if (end == text || *end || number >= CPU_SETSIZE)
		return -1;
	CPU_ZERO(&set);
	CPU_SET(number, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

/* A child on the second processor, and this process on the first: both before either waits for the other. The child
 * ends with this process. -1: not to be had. */
static pid_t fork_on(char **processors)
{
	pid_t parent = getpid(), child;

	if (pin(processors[1]))
		return -1;
	child = fork(); /* which stays there */
	if (child == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent))
		_exit(1);
	if (child > 0 && pin(processors[0])) {
		kill(child, SIGKILL);
		return -1;
	}
	return child;
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

/* Nanoseconds of one call that copies so many bytes from the child, the best of some tries; 0: refused. */
static double copy_ns(pid_t child, char *mine, char *theirs, size_t size)
{
	struct iovec local = { mine, size }, remote = { theirs, size };
	uint64_t best = UINT64_MAX;

	for (unsigned i = 0; i < TRIES; i++) {
		uint64_t start = clock_ns();

		for (unsigned j = 0; j < COPIES; j++) {
			if (process_vm_readv(child, &local, 1, &remote, 1, 0) != (ssize_t)size)
				return 0;
		}
		start = clock_ns() - start;
		best = start < best ? start : best;
	}
	return (double)best / COPIES;
}

/* The child has memory of its own at the same address, and waits until this process has no more to ask. */
static int measure_copy(char **argv)
{
	char *theirs = malloc(COPY_MAX), *mine = malloc(COPY_MAX), word = 0;
	double small, large;
	int up[2], down[2];
	pid_t child;

	if (!theirs || !mine || pipe(up) || pipe(down))
		return 1;
	memset(mine, 1, COPY_MAX);
	child = fork_on(argv + 1);
	if (child < 0)
		return 1;
	if (!child) {
		memset(theirs, 2, COPY_MAX);
		close(down[1]);
		return write(up[1], &word, 1) != 1 || read(down[0], &word, 1) != 0;
	}
	if (read(up[0], &word, 1) != 1)
		return 1;
	small = copy_ns(child, mine, theirs, 1);
	large = copy_ns(child, mine, theirs, COPY_MAX);
	close(down[1]);
	waitpid(child, NULL, 0);
	if (small > 0 && large > 0)
		printf("%.0f %.1f\n", small, COPY_MAX / large);
	else
		printf("refused\n");
	return 0;
}

int main(int argc, char **argv)
{
	atomic_uint *words = mmap(NULL, (TRIES + 1) * 4096, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t best = UINT64_MAX;
	pid_t child;

	if (argc == 4)
		return measure_copy(argv);
	if (argc != 3 || words == MAP_FAILED)
		return 1;
	child = fork_on(argv + 1);
	if (child < 0)
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
