/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_conform: what MPI promises, checked byte by byte, under any MPI.
 *
 *   mpiexec -n N mpi_conform [--small] [--stale-bsend] [--swap-fails] [--dynamic-hangs] [GROUP...]
 *   mpiexec -n N mpi_conform --count messages|collectives|accesses
 *
 * Rank 0 prints a line for each group, "GROUP ok CHECKS" or "GROUP absent" where the MPI says that it cannot do it,
 * and "conform ok" at the end. Owns the list of groups and the helpers; what they check is in the other files.
 * --count instead does a known number of operations, and prints how many and how many bytes in large ones: for those
 * who count below MPI, and may not find fewer.
 */
#include "mpi_conform.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int me, ranks;
bool small, stale_bsend, swap_fails, dynamic_hangs;
const char *program_path;
static atomic_ullong checks;

static const struct group {
	const char *name;
	bool (*run)(void);
	bool alone; /* only if it is asked for by name */
} groups[] = {
	{"modes", test_modes, false},
	{"order", test_order, false},
	{"wildcards", test_wildcards, false},
	{"probe", test_probe, false},
	{"cancel", test_cancel, false},
	{"truncation", test_truncation, false},
	{"types", test_types, false},
	{"collectives", test_collectives, false},
	{"nonblocking-collectives", test_nonblocking_collectives, false},
	{"onesided", test_onesided, false},
	{"threads", test_threads, false},
	{"spawn", test_spawn, true},
	{"huge", test_huge, true},
};

enum { GROUPS = sizeof(groups) / sizeof(groups[0]) };

void expect_at(bool holds, const char *file, int line, const char *what)
{
	atomic_fetch_add_explicit(&checks, 1, memory_order_relaxed);
	if (holds)
		return;
	fprintf(stderr, "rank %d of %d: %s:%d: not so: %s\n", me, ranks, file, line, what);
	fflush(stderr);
	MPI_Abort(MPI_COMM_WORLD, 1);
	abort();
}

uint64_t next_random(uint64_t *state)
{
	uint64_t word = *state += UINT64_C(0x9e3779b97f4a7c15);

	word = (word ^ word >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	word = (word ^ word >> 27) * UINT64_C(0x94d049bb133111eb);
	return word ^ word >> 31;
}

uint64_t random_below(uint64_t *state, uint64_t limit)
{
	return next_random(state) % limit;
}

uint64_t seed_of(int from, int to, int number)
{
	uint64_t state = (uint64_t)from << 48 ^ (uint64_t)to << 32 ^ (uint64_t)(uint32_t)number;

	return next_random(&state);
}

static inline uint64_t pattern_word(uint64_t seed, size_t index)
{
	uint64_t word = (seed + index) * UINT64_C(0x9e3779b97f4a7c15);

	return word ^ word >> 29;
}

void fill(void *buffer, size_t length, uint64_t seed)
{
	uint8_t *bytes = buffer;
	size_t at = 0;

	for (; at < length; at += 8) {
		uint64_t word = pattern_word(seed, at / 8);

		memcpy(bytes + at, &word, length - at < 8 ? length - at : 8);
	}
}

void check(const void *buffer, size_t length, uint64_t seed, const char *what)
{
	const uint8_t *bytes = buffer;

	atomic_fetch_add_explicit(&checks, 1, memory_order_relaxed);
	for (size_t at = 0; at < length; at += 8) {
		uint64_t word = pattern_word(seed, at / 8);
		size_t part = length - at < 8 ? length - at : 8;

		if (memcmp(bytes + at, &word, part) == 0)
			continue;
		fprintf(stderr, "rank %d of %d: %s: of %zu bytes, those from %zu are wrong\n", me, ranks, what, length,
			at);
		fflush(stderr);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

void check_same(const void *buffer, size_t length, uint8_t value, const char *what)
{
	const uint8_t *bytes = buffer;

	for (size_t at = 0; at < length; at++)
		if (bytes[at] != value)
			expect_at(false, what, (int)at, "a byte was written that belongs to nobody");
}

struct area area_make(size_t length)
{
	uint8_t *memory = malloc(length + 2 * GUARD);

	expect(memory != NULL);
	memset(memory, 0xa5, GUARD);
	memset(memory + GUARD, 0x5a, length);
	memset(memory + GUARD + length, 0xa5, GUARD);
	return (struct area){memory + GUARD, length};
}

void area_free(struct area *area)
{
	check_same(area->bytes - GUARD, GUARD, 0xa5, "guard before a buffer");
	check_same(area->bytes + area->length, GUARD, 0xa5, "guard behind a buffer");
	free(area->bytes - GUARD);
	area->bytes = NULL;
}

static bool wanted(const struct group *group, int count, char **names)
{
	for (int i = 0; i < count; i++)
		if (strcmp(names[i], group->name) == 0)
			return true;
	return count == 0 && !group->alone;
}

static void group_run(const struct group *group)
{
	unsigned long long before = atomic_load(&checks), mine, all;
	int able = group->run(), all_able;

	mine = atomic_load(&checks) - before;
	MPI_Reduce(&mine, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	MPI_Allreduce(&able, &all_able, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (me == 0 && all_able)
		printf("%s ok %llu\n", group->name, all);
	else if (me == 0)
		printf("%s absent\n", group->name);
	fflush(stdout);
}

/* ---- Known amounts ------------------------------------------------------------------------------- */

enum { COUNT_ROUNDS = 120, COUNT_BYTES = 2 << 20, COUNT_LARGE = 300000 };

static long long counted, counted_large; /* messages or operations; bytes of those that are large */

static void count_messages(void)
{
	static const int sizes[] = {1, 100, 5000, 40000, COUNT_LARGE, COUNT_BYTES};
	struct area out = area_make(COUNT_BYTES), in = area_make(COUNT_BYTES);

	for (int round = 0; round < COUNT_ROUNDS; round++) {
		for (int shift = 1; shift < ranks; shift++) {
			int size = sizes[(round + shift) % 6];

			fill(out.bytes, (size_t)size, seed_of(me, right_of(shift), round));
			MPI_Sendrecv(out.bytes, size, MPI_BYTE, right_of(shift), round, in.bytes, size, MPI_BYTE,
				     left_of(shift), round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			check(in.bytes, (size_t)size, seed_of(left_of(shift), me, round), "counted message");
			counted++;
			counted_large += size >= COUNT_LARGE ? size : 0;
		}
	}
	area_free(&out);
	area_free(&in);
}

/* A sum that all get needs a message from each rank at least; what each has for all, the large bytes into each. */
static void count_collectives(void)
{
	struct area mine = area_make(COUNT_LARGE), all = area_make((size_t)COUNT_LARGE * (size_t)ranks);

	for (int round = 0; round < COUNT_ROUNDS; round++) {
		int sum;

		MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		expect(sum == ranks * (ranks - 1) / 2);
		counted++;
		if (round % 10)
			continue;
		fill(mine.bytes, COUNT_LARGE, seed_of(me, 1, round));
		MPI_Allgather(mine.bytes, COUNT_LARGE, MPI_BYTE, all.bytes, COUNT_LARGE, MPI_BYTE, MPI_COMM_WORLD);
		for (int r = 0; r < ranks; r++)
			check(all.bytes + (size_t)r * COUNT_LARGE, COUNT_LARGE, seed_of(r, 1, round), "counted gather");
		counted++;
		counted_large += (long long)COUNT_LARGE * (ranks - 1);
	}
	area_free(&mine);
	area_free(&all);
}

static void count_accesses(void)
{
	int64_t *memory, one = 1, got, target = right_of(1);
	MPI_Win win;

	MPI_Alloc_mem(64, MPI_INFO_NULL, &memory);
	memset(memory, 0, 64);
	MPI_Win_create(memory, 64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock_all(0, win);
	for (int64_t round = 0; round < COUNT_ROUNDS; round++) {
		MPI_Put(&round, 1, MPI_INT64_T, (int)target, 0, 1, MPI_INT64_T, win);
		MPI_Win_flush((int)target, win);
		MPI_Get(&got, 1, MPI_INT64_T, (int)target, 0, 1, MPI_INT64_T, win);
		MPI_Win_flush((int)target, win);
		expect(got == round);
		MPI_Fetch_and_op(&one, &got, MPI_INT64_T, (int)target, 1, MPI_SUM, win);
		MPI_Win_flush((int)target, win);
		expect(got == round);
		counted += 3;
	}
	MPI_Win_unlock_all(win);
	MPI_Win_free(&win);
	MPI_Free_mem(memory);
}

static void count_run(const char *what)
{
	long long mine[2], all[2];

	if (strcmp(what, "messages") == 0)
		count_messages();
	else if (strcmp(what, "collectives") == 0)
		count_collectives();
	else
		count_accesses();
	mine[0] = counted;
	mine[1] = counted_large;
	MPI_Reduce(mine, all, 2, MPI_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (me == 0)
		printf("counted %lld operations, %lld large bytes\n", all[0], all[1]);
}

int main(int argc, char **argv)
{
	int first = 1, provided;
	const char *count = NULL;
	MPI_Comm parent;

	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	program_path = argv[0];
	for (; first < argc && strncmp(argv[first], "--", 2) == 0; first++) {
		small = small || strcmp(argv[first], "--small") == 0;
		stale_bsend = stale_bsend || strcmp(argv[first], "--stale-bsend") == 0;
		swap_fails = swap_fails || strcmp(argv[first], "--swap-fails") == 0;
		dynamic_hangs = dynamic_hangs || strcmp(argv[first], "--dynamic-hangs") == 0;
		if (strcmp(argv[first], "--count") == 0 && first + 1 < argc)
			count = argv[++first];
	}
	MPI_Comm_get_parent(&parent);
	if (parent != MPI_COMM_NULL) {
		spawned_child(parent);
	} else if (count) {
		count_run(count);
	} else {
		for (int i = 0; i < GROUPS; i++)
			if (wanted(&groups[i], argc - first, argv + first))
				group_run(&groups[i]);
		if (me == 0)
			printf("conform ok\n");
	}
	MPI_Finalize();
	return 0;
}
