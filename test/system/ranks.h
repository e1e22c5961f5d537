/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ranks.h - several ranks with one endpoint each, for the programs that prove the core.
 *
 * Owns their processes (or threads), the memory by which they exchange addresses and meet, and the checks. The
 * parent is no rank: it waits, and as soon as one rank fails it ends the others, by their ids. A watchdog ends what
 * hangs; nothing else depends on time. Options of the environment do not reach the endpoints but by the
 * caller's hand.
 */
#ifndef RANKS_H
#define RANKS_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "thole.h"

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: rank %d: %s (last detail: %s)\n", __FILE__,        \
				__LINE__, ranks_self, #condition, thole_detail());                 \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

#define CHECK_EQUAL(left, right)                                                                   \
	do {                                                                                       \
		long long left_value = (long long)(left), right_value = (long long)(right);        \
		if (left_value != right_value) {                                                   \
			fprintf(stderr, "%s:%d: rank %d: %s is %lld, not %s = %lld\n", __FILE__,   \
				__LINE__, ranks_self, #left, left_value, #right, right_value);     \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

enum { RANKS_MAX = 16, RANKS_WORDS = 256, RANKS_COUNTERS_MAX = 256, RANKS_SKIP = 77 /* for meson */ };

struct ranks_shared {
	struct thole_address addresses[RANKS_MAX];
	uint32_t arrived, generation; /* of the barrier */
	uint64_t words[RANKS_WORDS];  /* the test's */
};

static __thread int ranks_self = -1;
static int ranks_count;
static struct ranks_shared *ranks_shared;

static inline void *ranks_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED);
	return memory;
}

/* Until all `count` ranks are here; makes progress meanwhile. */
static inline void ranks_barrier_of(struct thole_endpoint *endpoint, int count)
{
	uint32_t generation = __atomic_load_n(&ranks_shared->generation, __ATOMIC_ACQUIRE);

	if (__atomic_add_fetch(&ranks_shared->arrived, 1, __ATOMIC_ACQ_REL) == (uint32_t)count) {
		__atomic_store_n(&ranks_shared->arrived, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&ranks_shared->generation, generation + 1, __ATOMIC_RELEASE);
		return;
	}
	while (__atomic_load_n(&ranks_shared->generation, __ATOMIC_ACQUIRE) == generation) {
		if (endpoint)
			thole_progress(endpoint);
		sched_yield();
	}
}

static inline void ranks_barrier(struct thole_endpoint *endpoint)
{
	ranks_barrier_of(endpoint, ranks_count);
}

/* Tell the others the endpoint's address, and learn theirs as peers[rank]. A barrier. */
static inline void ranks_meet(struct thole_endpoint *endpoint, uint32_t *peers)
{
	thole_endpoint_address(endpoint, &ranks_shared->addresses[ranks_self]);
	ranks_barrier(endpoint);
	for (int i = 0; i < ranks_count; i++)
		CHECK_EQUAL(thole_peer(endpoint, &ranks_shared->addresses[i], &peers[i]), 0);
	ranks_barrier(endpoint);
}

/* Tests that are run with little stack have not all of this for each call. */
__attribute__((noinline, unused)) static uint64_t ranks_counter(struct thole_endpoint *endpoint, const char *name)
{
	struct thole_counter_info info;
	uint64_t values[RANKS_COUNTERS_MAX];
	int count = thole_counters(endpoint, values, RANKS_COUNTERS_MAX);

	CHECK(count <= RANKS_COUNTERS_MAX);
	for (unsigned i = 0; thole_counter_info(i, &info) == 0; i++)
		if (strcmp(info.name, name) == 0)
			return values[i];
	CHECK(false && "no such counter");
	return 0;
}

/* The first page by which a process is known to go on is there for good, from some message on. */
static inline bool ranks_is_life(int fd)
{
	char path[32], name[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, name, sizeof(name) - 1) > 0 && strstr(name, "memfd:thole life");
}

static inline int ranks_descriptors(void)
{
	int count = 0, lives = 0;

	for (int fd = 0; fd < 1024; fd++)
		if (dup2(fd, fd) == fd) {
			count++;
			lives += ranks_is_life(fd);
		}
	return lives > 0 ? count - 1 : count;
}

static inline uint64_t ranks_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* An argument that is a whole number, of `least` at least, and nothing else: else less might be done, and be well. */
static inline uint64_t ranks_number(const char *name, const char *text, uint64_t least)
{
	uint64_t number, most = least ? INT_MAX : UINT64_MAX;
	char *end;

	errno = 0;
	number = strtoull(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !*end && !errno && number >= least && number <= most)
		return number;
	fprintf(stderr, "%s is a whole number from %llu on, and not '%s'\n", name, (unsigned long long)least, text);
	exit(2);
}

/* The bytes of a message: word number `index` of message `id`. */
static inline uint64_t ranks_word(uint64_t id, uint64_t index)
{
	uint64_t word = id ^ index * UINT64_C(0x9e3779b97f4a7c15);

	return (word ^ word >> 32) * UINT64_C(0xd6e8feb86659fd93);
}

static inline void ranks_fill(uint64_t id, uint64_t offset, void *to, size_t length)
{
	unsigned char *at = to;

	for (size_t i = 0; i < length;) {
		uint64_t word = ranks_word(id, (offset + i) / 8);
		size_t inside = (offset + i) % 8, n = 8 - inside < length - i ? 8 - inside : length - i;

		memcpy(at + i, (char *)&word + inside, n);
		i += n;
	}
}

/* Where bytes first differ from those of a message; length if nowhere. */
static inline size_t ranks_compare(uint64_t id, uint64_t offset, const void *from, size_t length)
{
	const unsigned char *at = from;

	for (size_t i = 0; i < length;) {
		uint64_t word = ranks_word(id, (offset + i) / 8);
		size_t inside = (offset + i) % 8, n = 8 - inside < length - i ? 8 - inside : length - i;

		if (memcmp(at + i, (char *)&word + inside, n) != 0)
			return i;
		i += n;
	}
	return length;
}

typedef void ranks_body(int rank);

struct ranks_thread {
	pthread_t id;
	int rank;
	ranks_body *body;
};

static inline void *ranks_thread_run(void *arg)
{
	struct ranks_thread *thread = arg;

	ranks_self = thread->rank;
	thread->body(thread->rank);
	return NULL;
}

static inline void ranks_prepare(int count)
{
	ranks_count = count;
	if (!ranks_shared)
		ranks_shared = ranks_memory(sizeof(*ranks_shared));
	memset(ranks_shared, 0, sizeof(*ranks_shared));
}

/* Run the body on each rank, as threads of this process. */
static inline void ranks_run_threads(int count, unsigned limit_s, ranks_body *body)
{
	struct ranks_thread threads[RANKS_MAX];

	ranks_prepare(count);
	alarm(limit_s);
	for (int i = 0; i < count; i++) {
		threads[i] = (struct ranks_thread){.rank = i, .body = body};
		CHECK_EQUAL(pthread_create(&threads[i].id, NULL, ranks_thread_run, &threads[i]), 0);
	}
	for (int i = 0; i < count; i++)
		pthread_join(threads[i].id, NULL);
	alarm(0);
}

/* With RANKS_NETWORKS=N rank r is on host r modulo N, in the network of that name that `ip netns add` has made. */
static inline void ranks_enter_network(int rank)
{
	const char *networks = getenv("RANKS_NETWORKS");
	char path[64], host[16];
	int fd;

	if (!networks)
		return;
	snprintf(host, sizeof(host), "%d", rank % atoi(networks));
	snprintf(path, sizeof(path), "/run/netns/%s", host);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0 && setns(fd, CLONE_NEWNET) == 0);
	close(fd);
	setenv("THOLE_HOST", host, 1);
}

static inline pid_t ranks_fork(int rank, unsigned limit_s, ranks_body *body)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(limit_s);
	ranks_self = rank;
	ranks_enter_network(rank);
	body(rank);
	fflush(NULL);
	exit(0); /* for the sanitizers' last words */
}

/* Start ranks as processes, for ranks_wait. */
static inline void ranks_start(pid_t *pids, int count, unsigned limit_s, ranks_body *body)
{
	ranks_prepare(count);
	for (int i = 0; i < count; i++)
		pids[i] = ranks_fork(i, limit_s, body);
}

static inline void ranks_end(const pid_t *pids, int count)
{
	for (int i = 0; i < count; i++)
		if (pids[i])
			kill(pids[i], SIGKILL);
}

/*
 * Wait for all; `expected` has a bit for each rank that may be killed by SIGKILL. The first to end in any other way
 * but well ends the others. Returns RANKS_SKIP if it exited with that, or else how many failed.
 */
static inline int ranks_wait(pid_t *pids, int count, uint32_t expected)
{
	int failures = 0, left = count, status;
	bool skipped = false;

	while (left > 0) {
		pid_t pid = wait(&status);
		int rank = 0;

		CHECK(pid > 0);
		while (rank < count && pids[rank] != pid)
			rank++;
		if (rank == count)
			continue;
		pids[rank] = 0;
		left--;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			continue;
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && (expected >> rank & 1))
			continue;
		if (failures++ == 0) {
			skipped = WIFEXITED(status) && WEXITSTATUS(status) == RANKS_SKIP;
			if (!skipped)
				fprintf(stderr, "rank %d %s %d%s\n", rank,
					WIFEXITED(status) ? "exited with" : "was ended by signal",
					WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
					WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? ": it hung" : "");
			ranks_end(pids, count);
			expected = ~0u;
		}
	}
	return skipped ? RANKS_SKIP : failures;
}

/* Run the body on each rank, as processes. Returns as ranks_wait does. */
static inline int ranks_run(int count, unsigned limit_s, ranks_body *body)
{
	pid_t pids[RANKS_MAX];

	ranks_start(pids, count, limit_s, body);
	return ranks_wait(pids, count, 0);
}

/* The status of a request, once it has ended. */
static inline int ranks_finish(struct thole_endpoint *endpoint, struct thole_request *request)
{
	struct thole_completion completion;

	CHECK_EQUAL(thole_wait(endpoint, request, -1, &completion), 0);
	return completion.status;
}

#endif /* RANKS_H */
