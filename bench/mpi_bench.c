/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_bench.c - what one MPI does between ranks, in a node or on two hosts, for comparison with others.
 *
 * Owns the timed loops and the check of what arrived; knows nothing about which MPI or transport
 * it runs on: bench/run.py compiles it once with each MPI's own compiler and gives it its
 * surroundings.
 *
 * Invariants: data is checked after each round and never inside of a timed loop; every rank calls
 * every test in the same order; rank 0 prints one JSON object a line and test and size, and
 * nothing else goes to the standard output. The number of iterations is measured, not given: a
 * round takes about round_ns whatever the transport costs, so that slow peers do not take minutes
 * nor fast ones microseconds.
 *
 * Buffers are used as OSU's benchmarks use them: all sends of a window share one buffer, as do its
 * receives. That keeps the comparison with published numbers.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
	TAG_DATA = 1,
	TAG_ACK = 2,
	WINDOW_MAX = 64,
	SEVERAL = 4,
	SIZES_MAX = 64,
	ROUNDS_MAX = 1000,
	WARM_ITERATIONS = 2,
	PILOT_ITERATIONS = 4,
	ITERATIONS_MIN = 3,
	ITERATIONS_MAX = 200000,
	POLLED = 8, /* receives that a poll looks at, the first of them where it looks at one */
	FLOOR_TRIPS = 40,
	FLOOR_TRIES = 5,
	FLOOR_LOOKS = 2000, /* more than any cache line takes: the other rank has no core just now */
};

struct bench {
	int rank;
	int ranks;
	unsigned rounds;
	uint64_t round_ns;       /* how long a round of one test and size should take */
	uint64_t *send;
	uint64_t *recv;
	uint64_t seed;           /* of the pattern that this rank last sent; its partner's has the lowest
				    bit the other way round */
	uint64_t fill_ns;        /* spent on writing send buffers, both ranks, in the last kernel */
	const char *word_path;   /* a file of a page that all ranks see, for the word; NULL: they are in one node */
	atomic_ullong *word;     /* in memory of both ranks, or NULL */
	uint64_t trips;          /* round trips of that word up to now */
	size_t sizes[SIZES_MAX];
	size_t size_count;
	const char *tests;       /* names, each between commas */
};

/* Runs count iterations and returns their nanoseconds. */
typedef uint64_t kernel_fn(struct bench *bench, size_t size, unsigned count);

struct test {
	const char *name;
	const char *unit;        /* "us" a message or operation, or "GB/s" */
	kernel_fn *kernel;
	int ranks;               /* exactly so many; 0: any number from two, all of them take part */
	unsigned hops;           /* messages in a row in one iteration */
	/* for each size given; else for 8 bytes only. Of polls it is the work between two, in ns */
	int sized;
	int local;               /* rank 0 polls: nothing arrives that could be checked */
};

static uint64_t time_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t clock_ns(void)
{
	return time_ns(CLOCK_MONOTONIC);
}

/* ---- Patterns -------------------------------------------------------------------------------- */

/* Plain stores of differing words: what a program's own computation does to a buffer, which memset, with
 * its stores past the caches for large blocks, would not be. */
static void pattern_write(uint64_t *words, size_t size, uint64_t seed)
{
	size_t count = size / sizeof(*words);
	uint64_t tail = seed + count;

	for (size_t i = 0; i < count; i++)
		words[i] = seed + i;
	memcpy(words + count, &tail, size % sizeof(*words));
}

static int pattern_holds(const uint64_t *words, size_t size, uint64_t seed)
{
	size_t count = size / sizeof(*words);
	uint64_t tail = seed + count;

	for (size_t i = 0; i < count; i++) {
		if (words[i] != seed + i)
			return 0;
	}
	return memcmp(words + count, &tail, size % sizeof(*words)) == 0;
}

/* ---- Kernels --------------------------------------------------------------------------------- */

static int partner(const struct bench *bench)
{
	int half = bench->ranks / 2;

	return bench->rank < half ? bench->rank + half : bench->rank - half;
}

static void message_send(const struct bench *bench, size_t size)
{
	MPI_Send(bench->send, (int)size, MPI_BYTE, partner(bench), TAG_DATA, MPI_COMM_WORLD);
}

static void message_recv(const struct bench *bench, size_t size)
{
	MPI_Recv(bench->recv, (int)size, MPI_BYTE, partner(bench), TAG_DATA, MPI_COMM_WORLD,
		 MPI_STATUS_IGNORE);
}

/* From the first rank's start to the last one's end: where more ranks than cores run, some may be done
 * before others have begun, and each by its own clock would seem fast. All are on one machine's clock. */
static uint64_t span_ns(const struct bench *bench, uint64_t start)
{
	uint64_t edges[2] = { UINT64_MAX - start, clock_ns() }, outer[2];

	if (bench->ranks == 2)
		return edges[1] - start;
	MPI_Allreduce(edges, outer, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
	return outer[1] - (UINT64_MAX - outer[0]);
}

static uint64_t kernel_latency(struct bench *bench, size_t size, unsigned count)
{
	uint64_t start = clock_ns();

	if (bench->rank < bench->ranks / 2) {
		for (unsigned i = 0; i < count; i++) {
			message_send(bench, size);
			message_recv(bench, size);
		}
	} else {
		for (unsigned i = 0; i < count; i++) {
			message_recv(bench, size);
			message_send(bench, size);
		}
	}
	return span_ns(bench, start);
}

static uint64_t fill(struct bench *bench, size_t size)
{
	uint64_t start = clock_ns();

	bench->seed += 2;
	pattern_write(bench->send, size, bench->seed);
	return clock_ns() - start;
}

/* A ping-pong whose replies are written after the message has come, as by a program that computes. The
 * time of the writing is taken out of the result: each rank writes while the other waits for it. */
static uint64_t kernel_touched(struct bench *bench, size_t size, unsigned count)
{
	uint64_t start = clock_ns();
	uint64_t mine = 0, sum = 0, elapsed;

	for (unsigned i = 0; i < count; i++) {
		if (bench->rank == 0) {
			mine += fill(bench, size);
			message_send(bench, size);
			message_recv(bench, size);
		} else {
			message_recv(bench, size);
			mine += fill(bench, size);
			message_send(bench, size);
		}
	}
	elapsed = clock_ns() - start;
	MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	bench->fill_ns = sum;
	return elapsed > sum ? elapsed - sum : 1;
}

/* Both send at once, and receive: what neighbours in a grid do. */
static uint64_t kernel_exchange(struct bench *bench, size_t size, unsigned count)
{
	uint64_t start = clock_ns();

	for (unsigned i = 0; i < count; i++)
		MPI_Sendrecv(bench->send, (int)size, MPI_BYTE, partner(bench), TAG_DATA,
			     bench->recv, (int)size, MPI_BYTE, partner(bench), TAG_DATA,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	return span_ns(bench, start);
}

/* The same of several messages each way, all posted before one is waited for. */
static uint64_t kernel_several(struct bench *bench, size_t size, unsigned count)
{
	MPI_Request requests[2 * SEVERAL];
	uint64_t start = clock_ns();

	for (unsigned i = 0; i < count; i++) {
		for (int j = 0; j < SEVERAL; j++)
			MPI_Irecv(bench->recv, (int)size, MPI_BYTE, partner(bench), TAG_DATA, MPI_COMM_WORLD,
				  &requests[j]);
		for (int j = 0; j < SEVERAL; j++)
			MPI_Isend(bench->send, (int)size, MPI_BYTE, partner(bench), TAG_DATA, MPI_COMM_WORLD,
				  &requests[SEVERAL + j]);
		MPI_Waitall(2 * SEVERAL, requests, MPI_STATUSES_IGNORE);
	}
	return span_ns(bench, start);
}

/* Messages under way: 64, but at most 8 MiB of them, but at least four. */
static unsigned window(size_t size)
{
	const size_t bytes = (size_t)8 << 20;
	size_t count = size ? bytes / size : WINDOW_MAX;

	return count > WINDOW_MAX ? WINDOW_MAX : count < 4 ? 4 : (unsigned)count;
}

static uint64_t kernel_bandwidth(struct bench *bench, size_t size, unsigned count)
{
	MPI_Request requests[WINDOW_MAX];
	unsigned width = window(size);
	int ack = 0;
	uint64_t start = clock_ns();

	for (unsigned i = 0; i < count; i++) {
		for (unsigned j = 0; j < width; j++) {
			if (bench->rank == 0)
				MPI_Isend(bench->send, (int)size, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD,
					  &requests[j]);
			else
				MPI_Irecv(bench->recv, (int)size, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD,
					  &requests[j]);
		}
		MPI_Waitall((int)width, requests, MPI_STATUSES_IGNORE);
		if (bench->rank == 0)
			MPI_Recv(&ack, 1, MPI_INT, 1, TAG_ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		else
			MPI_Send(&ack, 1, MPI_INT, 0, TAG_ACK, MPI_COMM_WORLD);
	}
	return clock_ns() - start;
}

static uint64_t kernel_allreduce(struct bench *bench, size_t size, unsigned count)
{
	double mine = bench->rank + 1, sum = 0;
	double expected = 0.5 * bench->ranks * (bench->ranks + 1);
	uint64_t start = clock_ns(), elapsed;

	(void)size;
	for (unsigned i = 0; i < count; i++)
		MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	elapsed = span_ns(bench, start);
	if (sum < expected || sum > expected) {
		fprintf(stderr, "mpi_bench: allreduce gave %g, not %g\n", sum, expected);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	return elapsed;
}

/* ---- Polls ----------------------------------------------------------------------------------- */

/* Computing that takes about so many nanoseconds. The first call finds out how many turns one takes. */
static void work(size_t ns)
{
	static double turns_ns;
	static volatile uint64_t sink;

	if (turns_ns <= 0) {
		const unsigned many = 1u << 20;
		uint64_t start = clock_ns();

		for (unsigned i = 0; i < many; i++)
			sink += i;
		turns_ns = many / (double)(clock_ns() - start + 1);
	}
	for (unsigned i = (unsigned)((double)ns * turns_ns); i > 0; i--)
		sink += i;
}

/* What count turns of that work take, at their best so far: what is measured beside it must not look faster for a
 * disturbance. */
static uint64_t work_alone(size_t ns, unsigned count)
{
	static size_t last = SIZE_MAX;
	static double best;
	uint64_t start = clock_ns();
	double turn;

	for (unsigned i = 0; i < count; i++)
		work(ns);
	turn = (double)(clock_ns() - start) / count;
	best = last != ns || turn < best ? turn : best;
	last = ns;
	return (uint64_t)(best * count);
}

/* What polls of rank 0 take beyond the work between them; rank 1 waits meanwhile. */
typedef void poll_fn(MPI_Request *requests, int *flag);

static void poll_test(MPI_Request *requests, int *flag)
{
	MPI_Test(requests, flag, MPI_STATUS_IGNORE);
}

static void poll_testany(MPI_Request *requests, int *flag)
{
	int index;

	MPI_Testany(POLLED, requests, &index, flag, MPI_STATUS_IGNORE);
}

static void poll_iprobe(MPI_Request *requests, int *flag)
{
	(void)requests;
	MPI_Iprobe(1, TAG_ACK, MPI_COMM_WORLD, flag, MPI_STATUS_IGNORE);
}

static uint64_t polls_run(size_t work_ns, unsigned count, poll_fn *poll)
{
	MPI_Request requests[POLLED];
	char bytes[POLLED];
	uint64_t start, plain;
	int flag, found = 0;

	for (int i = 0; i < POLLED; i++)
		MPI_Irecv(&bytes[i], 1, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, &requests[i]);
	plain = work_alone(work_ns, count);
	start = clock_ns();
	for (unsigned i = 0; i < count; i++) {
		poll(requests, &flag);
		found |= flag;
		work(work_ns);
	}
	start = clock_ns() - start;
	MPI_Send(&flag, 1, MPI_INT, 1, TAG_ACK, MPI_COMM_WORLD);
	MPI_Waitall(POLLED, requests, MPI_STATUSES_IGNORE);
	if (found) {
		fprintf(stderr, "mpi_bench: a poll found what nobody has sent\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	return start > plain ? start - plain : 1;
}

static uint64_t polls(struct bench *bench, size_t work_ns, unsigned count, poll_fn *poll)
{
	char byte = 1;
	int mark;

	if (bench->rank == 0)
		return polls_run(work_ns, count, poll);
	MPI_Recv(&mark, 1, MPI_INT, 0, TAG_ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int i = 0; i < POLLED; i++)
		MPI_Send(&byte, 1, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD);
	return 1;
}

static uint64_t kernel_test(struct bench *bench, size_t work_ns, unsigned count)
{
	return polls(bench, work_ns, count, poll_test);
}

static uint64_t kernel_testany(struct bench *bench, size_t work_ns, unsigned count)
{
	return polls(bench, work_ns, count, poll_testany);
}

static uint64_t kernel_iprobe(struct bench *bench, size_t work_ns, unsigned count)
{
	return polls(bench, work_ns, count, poll_iprobe);
}

/* Messages that are waited for by MPI_Waitany, with work after each on both sides: what one takes beyond the work. */
static uint64_t kernel_waitany(struct bench *bench, size_t work_ns, unsigned count)
{
	MPI_Request requests[POLLED];
	char bytes[POLLED];
	uint64_t start, plain = work_alone(work_ns, count);
	int index;

	for (int i = 0; bench->rank == 0 && i < POLLED; i++)
		MPI_Irecv(&bytes[i], 1, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, &requests[i]);
	MPI_Sendrecv(&index, 1, MPI_INT, 1 - bench->rank, TAG_ACK, &index, 1, MPI_INT, 1 - bench->rank, TAG_ACK,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	start = clock_ns();
	for (unsigned i = 0; i < count + POLLED; i++) {
		if (bench->rank == 1)
			MPI_Send(&bytes[0], 1, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD);
		else
			MPI_Waitany(POLLED, requests, &index, MPI_STATUS_IGNORE);
		if (bench->rank == 0 && i < count)
			MPI_Irecv(&bytes[index], 1, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, &requests[index]);
		if (i < count)
			work(work_ns);
	}
	start = clock_ns() - start;
	return start > plain ? start - plain : 1;
}

/* ---- The floor ------------------------------------------------------------------------------- */

/* A word that two ranks share without their MPI: a file without a name, found by its descriptor. */
static void word_share(struct bench *bench)
{
	int where[2] = { getpid(), -1 }, fd;
	void *page;
	char path[64];

	if (bench->ranks != 2 || sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return;
	if (bench->rank == 0 && !bench->word_path) {
		where[1] = memfd_create("mpi_bench", MFD_CLOEXEC);
		if (where[1] >= 0 && ftruncate(where[1], 4096))
			where[1] = -1;
	}
	MPI_Bcast(where, 2, MPI_INT, 0, MPI_COMM_WORLD);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", where[0], where[1]);
	fd = open(bench->word_path ? bench->word_path : path, O_RDWR | O_CLOEXEC);
	page = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	fd = page != MAP_FAILED;
	MPI_Allreduce(&fd, where, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	bench->word = where[0] ? page : NULL;
}

/* Nanoseconds of a cache line one way, the best of some tries; 0 if that is not known. The cores of a
 * virtual machine may be threads of one core now and of different chips a second later. Who waits long looks into MPI
 * as well: the other may still be in there, waiting for what the network has lost and only we can send again. */
static double floor_ns(struct bench *bench)
{
	uint64_t best = UINT64_MAX;
	int there;

	if (!bench->word)
		return 0;
	for (unsigned try = 0; try < FLOOR_TRIES; try++) {
		uint64_t start = clock_ns(), elapsed;

		for (unsigned i = 0; i < FLOOR_TRIPS; i++, bench->trips++) {
			uint64_t mine = 2 * bench->trips + (uint64_t)bench->rank;

			for (unsigned looks = 0; atomic_load_explicit(bench->word, memory_order_acquire) != mine;) {
				if (++looks > FLOOR_LOOKS) {
					MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there,
						   MPI_STATUS_IGNORE);
					sched_yield();
				}
			}
			atomic_store_explicit(bench->word, mine + 1, memory_order_release);
		}
		elapsed = clock_ns() - start;
		best = elapsed < best ? elapsed : best;
	}
	return (double)best / (2.0 * FLOOR_TRIPS);
}

static const struct test tests[] = {
	{ "latency", "us", kernel_latency, 2, 2, 1, 0 },
	{ "touched", "us", kernel_touched, 2, 2, 1, 0 },
	{ "exchange", "us", kernel_exchange, 2, 1, 1, 0 },
	{ "several", "us", kernel_several, 2, 1, 1, 0 },
	{ "bandwidth", "GB/s", kernel_bandwidth, 2, 1, 1, 0 },
	{ "allreduce", "us", kernel_allreduce, 0, 1, 0, 0 },
	{ "pairwise", "us", kernel_latency, 0, 2, 0, 0 },
	{ "wide allreduce", "us", kernel_allreduce, 0, 1, 0, 0 }, /* the same, a core for each rank */
	{ "wide pairwise", "us", kernel_latency, 0, 2, 1, 0 },
	{ "busy allreduce", "us", kernel_allreduce, 0, 1, 0, 0 }, /* where others compute */
	{ "busy pairwise", "us", kernel_latency, 0, 2, 0, 0 },
	{ "test", "us", kernel_test, 2, 1, 1, 1 },
	{ "testany", "us", kernel_testany, 2, 1, 1, 1 },
	{ "iprobe", "us", kernel_iprobe, 2, 1, 1, 1 },
	{ "waitany", "us", kernel_waitany, 2, 1, 1, 1 },
};

enum { TEST_COUNT = sizeof(tests) / sizeof(tests[0]) };

/* ---- Measuring ------------------------------------------------------------------------------- */

static void prepare(struct bench *bench, size_t size, unsigned round)
{
	uint64_t upper = bench->rank < bench->ranks / 2 ? 0 : 1;

	bench->seed = ((uint64_t)round << 40) + ((uint64_t)size << 8 & 0xffffff00u) + upper;
	pattern_write(bench->send, size, bench->seed);
	memset(bench->recv, 0, size);
}

static void check(const struct bench *bench, const struct test *test, size_t size)
{
	if (test->local || test->kernel == kernel_allreduce || (test->kernel == kernel_bandwidth && bench->rank == 0))
		return;
	if (!pattern_holds(bench->recv, size, bench->seed ^ 1)) {
		fprintf(stderr, "mpi_bench: %s of %zu bytes: rank %d received wrong data\n", test->name,
			size, bench->rank);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

/* In the test's unit, from the nanoseconds of an iteration. */
static double convert(const struct test *test, size_t size, double ns)
{
	if (test->kernel == kernel_bandwidth)
		return (double)size * window(size) / ns;
	return ns / test->hops / 1000;
}

static unsigned iterations(struct bench *bench, const struct test *test, size_t size)
{
	uint64_t elapsed, wanted;
	unsigned count = PILOT_ITERATIONS;

	/* The first runs connect, fault pages in and find their paths. Doubling until they take a tenth
	 * of a round makes the clock's own cost and one interruption harmless. */
	test->kernel(bench, size, WARM_ITERATIONS);
	for (;;) {
		elapsed = test->kernel(bench, size, count) + 1;
		wanted = bench->round_ns * count / elapsed;
		if (elapsed * 10 > bench->round_ns)
			count |= 1u << 31;
		MPI_Bcast(&count, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
		if (count >> 31)
			break;
		count *= 2;
	}
	if (wanted > ITERATIONS_MAX)
		wanted = ITERATIONS_MAX;
	count = wanted < ITERATIONS_MIN ? ITERATIONS_MIN : (unsigned)wanted;
	MPI_Bcast(&count, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
	return count;
}

static long preemptions(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_SELF, &usage) ? 0 : usage.ru_nivcsw;
}

static void print_samples(const char *name, const double *samples, unsigned count)
{
	printf(", \"%s\": [", name);
	for (unsigned i = 0; i < count; i++)
		printf("%s%.6g", i ? ", " : "", samples[i]);
	printf("]");
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

/* What a test's rounds gave. */
struct taken {
	double samples[ROUNDS_MAX];
	double fills[ROUNDS_MAX];
	double floors[ROUNDS_MAX];
	double cpu[2][ROUNDS_MAX]; /* seconds of CPU per GB: the sender's, the receiver's */
	long preempted;
};

static void report(const struct bench *bench, const struct test *test, size_t size, unsigned count,
		   const struct taken *taken)
{
	double sorted[ROUNDS_MAX];
	int bandwidth = test->kernel == kernel_bandwidth;

	memcpy(sorted, taken->samples, bench->rounds * sizeof(sorted[0]));
	qsort(sorted, bench->rounds, sizeof(sorted[0]), compare);
	printf("{\"test\": \"%s\", \"ranks\": %d, \"size\": %zu, \"unit\": \"%s\", \"iterations\": %u, "
	       "\"median\": %.6g, \"best\": %.6g, \"preempted\": %ld", test->name, bench->ranks, size,
	       test->unit, count, sorted[bench->rounds / 2], sorted[bandwidth ? bench->rounds - 1 : 0],
	       taken->preempted);
	print_samples("samples", taken->samples, bench->rounds);
	if (bench->word)
		print_samples("floors", taken->floors, bench->rounds);
	if (test->kernel == kernel_touched)
		print_samples("fills", taken->fills, bench->rounds);
	if (bandwidth) {
		print_samples("cpu_send", taken->cpu[0], bench->rounds);
		print_samples("cpu_recv", taken->cpu[1], bench->rounds);
	}
	printf("}\n");
	fflush(stdout);
}

/* What both ranks of a stream spent of their processors, for each GB that they moved. */
static void share_cpu(struct bench *bench, struct taken *taken, unsigned round, uint64_t spent_ns, double bytes)
{
	uint64_t both[2] = { 0, 0 };

	if (bench->ranks != 2)
		return;
	MPI_Gather(&spent_ns, 1, MPI_UINT64_T, both, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
	for (unsigned side = 0; side < 2; side++)
		taken->cpu[side][round] = bytes > 0 ? (double)both[side] / bytes : 0;
}

static void measure(struct bench *bench, const struct test *test, size_t size)
{
	struct taken taken;
	unsigned count;
	double after;

	prepare(bench, size, 0);
	count = iterations(bench, test, size);
	taken.preempted = preemptions();
	for (unsigned round = 0; round < bench->rounds; round++) {
		uint64_t elapsed, spent;

		prepare(bench, size, round + 1);
		MPI_Barrier(MPI_COMM_WORLD);
		taken.floors[round] = floor_ns(bench);
		test->kernel(bench, size, WARM_ITERATIONS);
		spent = time_ns(CLOCK_PROCESS_CPUTIME_ID);
		elapsed = test->kernel(bench, size, count);
		spent = time_ns(CLOCK_PROCESS_CPUTIME_ID) - spent;
		after = floor_ns(bench);
		/* A machine that changed meanwhile counts as what it was worse. */
		taken.floors[round] = after > taken.floors[round] ? after : taken.floors[round];
		taken.fills[round] = (double)bench->fill_ns / count / test->hops / 1000;
		taken.samples[round] = convert(test, size, (double)elapsed / count);
		share_cpu(bench, &taken, round, spent, (double)size * window(size) * count);
		check(bench, test, size);
	}
	taken.preempted = preemptions() - taken.preempted;
	if (bench->rank == 0)
		report(bench, test, size, count, &taken);
}

/* ---- Command line ---------------------------------------------------------------------------- */

static int fail(const struct bench *bench, const char *what, const char *value)
{
	if (bench->rank == 0)
		fprintf(stderr, "mpi_bench: %s: %s\n"
			"usage: mpi_bench [--tests a,b] [--sizes 8,4k,1m] [--rounds n] [--round-ms n] [--word file]\n",
			what, value);
	return -1;
}

static int parse_size(const char **text, size_t *size_p)
{
	char *end;
	unsigned long long value = strtoull(*text, &end, 10);

	if (end == *text || value > INT32_MAX)
		return -1;
	if (*end == 'k' || *end == 'K')
		value <<= 10, end++;
	else if (*end == 'm' || *end == 'M')
		value <<= 20, end++;
	if (*end == ',')
		end++;
	else if (*end)
		return -1;
	if (value > INT32_MAX)
		return -1;
	*text = end;
	*size_p = (size_t)value;
	return 0;
}

static int parse_sizes(struct bench *bench, const char *text)
{
	bench->size_count = 0;
	while (*text) {
		if (bench->size_count == SIZES_MAX ||
		    parse_size(&text, &bench->sizes[bench->size_count++]))
			return fail(bench, "bad sizes", text);
	}
	return 0;
}

static int parse_number(struct bench *bench, const char *text, unsigned long max, unsigned long *value_p)
{
	char *end;

	*value_p = strtoul(text, &end, 10);
	if (end == text || *end || *value_p == 0 || *value_p > max)
		return fail(bench, "bad number", text);
	return 0;
}

static int parse(struct bench *bench, int argc, char **argv)
{
	unsigned long value;

	for (int i = 1; i < argc; i += 2) {
		const char *name = argv[i], *text = argv[i + 1];

		if (!text)
			return fail(bench, "no value for", name);
		if (strcmp(name, "--tests") == 0) {
			bench->tests = text;
		} else if (strcmp(name, "--sizes") == 0) {
			if (parse_sizes(bench, text))
				return -1;
		} else if (strcmp(name, "--rounds") == 0) {
			if (parse_number(bench, text, ROUNDS_MAX, &value))
				return -1;
			bench->rounds = (unsigned)value;
		} else if (strcmp(name, "--round-ms") == 0) {
			if (parse_number(bench, text, 10000, &value))
				return -1;
			bench->round_ns = value * 1000000u;
		} else if (strcmp(name, "--word") == 0) {
			bench->word_path = text;
		} else {
			return fail(bench, "unknown option", name);
		}
	}
	return 0;
}

static int wanted(const struct bench *bench, const struct test *test)
{
	size_t length = strlen(test->name);

	for (const char *at = bench->tests; (at = strstr(at, test->name)); at += length) {
		if ((at == bench->tests || at[-1] == ',') && (at[length] == ',' || !at[length]))
			return 1;
	}
	return 0;
}

/* Each name is one of a test's. */
static int check_tests(const struct bench *bench)
{
	for (const char *at = bench->tests, *end; at; at = *end ? end + 1 : NULL) {
		size_t i = 0, length;

		end = strchrnul(at, ',');
		length = (size_t)(end - at);
		while (i < TEST_COUNT && (strlen(tests[i].name) != length || strncmp(tests[i].name, at, length) != 0))
			i++;
		if (i == TEST_COUNT)
			return fail(bench, "unknown test in", bench->tests);
	}
	return 0;
}

static int allocate(struct bench *bench)
{
	size_t most = sizeof(uint64_t);

	for (size_t i = 0; i < bench->size_count; i++)
		most = bench->sizes[i] > most ? bench->sizes[i] : most;
	most = (most + 8191) & ~(size_t)4095;
	bench->send = aligned_alloc(4096, most);
	bench->recv = aligned_alloc(4096, most);
	if (!bench->send || !bench->recv)
		return fail(bench, "no memory for buffers of the largest size", "");
	memset(bench->send, 0, most);
	memset(bench->recv, 0, most);
	return 0;
}

static int run(struct bench *bench)
{
	for (size_t i = 0; i < TEST_COUNT; i++) {
		const struct test *test = &tests[i];

		if (!wanted(bench, test))
			continue;
		if (bench->ranks % 2 || (test->ranks && test->ranks != bench->ranks))
			return fail(bench, "wrong number of ranks for", test->name);
		if (!test->sized)
			measure(bench, test, sizeof(uint64_t));
		for (size_t j = 0; test->sized && j < bench->size_count; j++)
			measure(bench, test, bench->sizes[j]);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct bench bench = {
		.rounds = 25,
		.round_ns = 3000000,
		.tests = "latency,touched,bandwidth",
		.sizes = { 0, 8, 64, 512, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216 },
		.size_count = 11,
	};
	int status = 1;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &bench.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &bench.ranks);
	if (parse(&bench, argc, argv) == 0 && check_tests(&bench) == 0 && allocate(&bench) == 0) {
		word_share(&bench);
		status = run(&bench) != 0;
	}
	free(bench.send);
	free(bench.recv);
	MPI_Finalize();
	return status;
}
