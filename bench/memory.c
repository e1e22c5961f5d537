/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c - what memory an endpoint needs that talks to 63 peers of its node, above what it needs
 * for one.
 *
 * Starts 64 processes with an endpoint each. The first exchanges small messages with one of them,
 * looks at its own /proc/self/smaps_rollup, exchanges them with all the others, and looks again.
 * Prints one JSON object, in bytes: the growth of the resident set (Rss: every page that is mapped
 * and present, shared or not), its private and shared parts, of the proportional set (Pss: a page
 * that n processes map counts as an n-th), and of the number of open descriptors. Only the
 * difference counts, so what the C library takes does not.
 *
 * Addresses go through memory that the processes inherit; everything else is thole.h.
 */
#include <dirent.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "thole.h"

enum {
	ENDPOINTS = 64,
	SIZE_MIN = 8,
	SIZE_MAX_SMALL = 1024,
	TRIPS = 200, /* of each size: 400 KiB each way, enough to go round any ring of small messages */
};

static const int64_t patience_ns = 20000000000;

/* What the processes share. */
struct board {
	struct thole_address addresses[ENDPOINTS];
	atomic_int ready;   /* endpoints that have put their address here */
	atomic_int failed;  /* a process has given up */
	atomic_int over;    /* the first process has seen enough */
};

struct usage {
	long rss, pss, private, shared, descriptors;
};

__attribute__((format(printf, 1, 2), noreturn))
static void die(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fprintf(stderr, "memory: ");
	vfprintf(stderr, format, arguments);
	fprintf(stderr, "\n");
	va_end(arguments);
	exit(1);
}

static void must(int error, const char *what)
{
	if (error < 0)
		die("%s: %s (%s)", what, thole_strerror(error), thole_detail());
}

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static void finish(struct thole_endpoint *endpoint, struct thole_request *request, const char *what)
{
	struct thole_completion completion;

	must(thole_wait(endpoint, request, patience_ns, &completion), what);
	must(completion.status, what);
}

static void pass(struct thole_endpoint *endpoint, uint32_t peer, const char *data, size_t size)
{
	struct thole_request *request;

	must(thole_send(endpoint, peer, data, size, size, 0, 0, NULL, &request), "send");
	finish(endpoint, request, "send");
}

static void take(struct thole_endpoint *endpoint, uint32_t peer, char *data, size_t size)
{
	struct thole_request *request;

	must(thole_recv(endpoint, peer, data, size, size, UINT64_MAX, 0, NULL, &request), "receive");
	finish(endpoint, request, "receive");
}

/* Back and forth in all sizes; the first of the two to speak checks what comes back. */
static void talk(struct thole_endpoint *endpoint, uint32_t peer, int first)
{
	char out[SIZE_MAX_SMALL], in[SIZE_MAX_SMALL];

	for (size_t size = SIZE_MIN; size <= SIZE_MAX_SMALL; size *= 2) {
		for (int i = 0; i < TRIPS; i++) {
			memset(out, i, size);
			if (first) {
				pass(endpoint, peer, out, size);
				take(endpoint, peer, in, size);
				if (memcmp(in, out, size) != 0)
					die("the answer of %zu bytes differs", size);
			} else {
				take(endpoint, peer, in, size);
				pass(endpoint, peer, in, size);
			}
		}
	}
}

static long count_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	long count = 0;

	if (!folder)
		return 0;
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static struct usage look(void)
{
	struct usage usage = { .descriptors = count_descriptors() };
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	long kilobytes;

	if (!file)
		die("no /proc/self/smaps_rollup");
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Rss: %ld", &kilobytes) == 1)
			usage.rss += kilobytes << 10;
		else if (sscanf(line, "Pss: %ld", &kilobytes) == 1)
			usage.pss += kilobytes << 10;
		else if (sscanf(line, "Private_Clean: %ld", &kilobytes) == 1 ||
			 sscanf(line, "Private_Dirty: %ld", &kilobytes) == 1)
			usage.private += kilobytes << 10;
		else if (sscanf(line, "Shared_Clean: %ld", &kilobytes) == 1 ||
			 sscanf(line, "Shared_Dirty: %ld", &kilobytes) == 1)
			usage.shared += kilobytes << 10;
	}
	fclose(file);
	return usage;
}

static void report(const struct usage *one, const struct usage *all)
{
	printf("{\"endpoints\": %d, \"rss_growth\": %ld, \"pss_growth\": %ld, \"private_growth\": %ld, "
	       "\"shared_growth\": %ld, \"descriptors_growth\": %ld, \"rss\": %ld, \"pss\": %ld}\n",
	       ENDPOINTS, all->rss - one->rss, all->pss - one->pss, all->private - one->private,
	       all->shared - one->shared, all->descriptors - one->descriptors, all->rss, all->pss);
}

static void answer(struct thole_endpoint *endpoint, struct board *board, uint32_t peer)
{
	talk(endpoint, peer, 0);
	/* The endpoint stays: it and its memory are part of what the first process sees. */
	while (!atomic_load(&board->over)) {
		thole_progress(endpoint);
		nap();
	}
}

static void ask(struct thole_endpoint *endpoint, struct board *board)
{
	struct usage one = { 0 }, all;
	uint32_t peer;

	look(); /* the first look itself makes the C library allocate */
	for (int i = 1; i < ENDPOINTS; i++) {
		must(thole_peer(endpoint, &board->addresses[i], &peer), "peer");
		talk(endpoint, peer, 1);
		if (i == 1)
			one = look();
	}
	all = look();
	atomic_store(&board->over, 1);
	report(&one, &all);
}

static void serve(struct board *board, int number)
{
	struct thole_endpoint *endpoint;
	uint32_t peer;

	must(thole_endpoint_open(NULL, &endpoint), "open");
	thole_endpoint_address(endpoint, &board->addresses[number]);
	atomic_fetch_add(&board->ready, 1);
	while (atomic_load(&board->ready) < ENDPOINTS) {
		if (atomic_load(&board->failed))
			die("process %d: another one has failed", number);
		nap();
	}
	if (number == 0) {
		ask(endpoint, board);
	} else {
		must(thole_peer(endpoint, &board->addresses[0], &peer), "peer");
		answer(endpoint, board, peer);
	}
	thole_endpoint_close(endpoint);
}

/* All children end within a time whatever happens: they wait with a limit, and they die with this process. */
static int reap(struct board *board)
{
	int failed = 0, status;

	for (int i = 0; i < ENDPOINTS; i++) {
		if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status)) {
			failed = 1;
			atomic_store(&board->failed, 1);
			atomic_store(&board->over, 1);
		}
	}
	return failed;
}

int main(void)
{
	struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (board == MAP_FAILED)
		die("no memory");
	for (int i = 0; i < ENDPOINTS; i++) {
		pid_t child = fork();

		if (child < 0)
			die("cannot start process %d", i);
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			serve(board, i);
			exit(0);
		}
	}
	return reap(board);
}
