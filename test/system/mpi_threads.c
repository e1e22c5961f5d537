/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_conform: several threads in each rank, and processes that are started later.
 */
#include "mpi_conform.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 40, LONGEST = 120000, SHARED = 60, PUT_LONGEST = 3000 };
enum { CHILDREN = 2, CHILD_BYTES = 100000 };

struct worker {
	pthread_t thread;
	int number;
	MPI_Comm own;    /* this thread's communicator */
	MPI_Comm shared; /* all threads use it, with tags of their own */
};

static int round_size(int thread, int round)
{
	uint64_t state = seed_of(thread, 17, round);

	return (int)random_below(&state, round % 4 ? 2000 : LONGEST);
}

/* To the right and from the left, with a wait or by testing. */
static void round_exchange(const struct worker *worker, int round, MPI_Comm comm, int tag)
{
	int size = round_size(worker->number, round), seed = worker->number << 16 | round;
	struct area out = area_make((size_t)size), in = area_make((size_t)size);
	MPI_Request requests[2];

	fill(out.bytes, out.length, seed_of(me, right_of(1), seed));
	MPI_Irecv(in.bytes, size, MPI_BYTE, round % 2 ? left_of(1) : MPI_ANY_SOURCE, tag, comm, &requests[0]);
	MPI_Isend(out.bytes, size, MPI_BYTE, right_of(1), tag, comm, &requests[1]);
	if (round % 3) {
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	} else {
		for (int done = 0; !done;)
			MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
	}
	check(in.bytes, in.length, seed_of(left_of(1), me, seed), "message between threads");
	area_free(&out);
	area_free(&in);
}

static void *worker_run(void *arg)
{
	struct worker *worker = arg;

	for (int round = 0; round < (small ? ROUNDS / 4 : ROUNDS); round++) {
		int sum = 0, mine = me + worker->number;

		round_exchange(worker, round, worker->own, 1);
		round_exchange(worker, round, worker->shared, 100 + worker->number);
		if (round % 5 == 0) {
			MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, worker->own);
			expect(sum == ranks * (ranks - 1) / 2 + ranks * worker->number);
		}
	}
	return NULL;
}

/* Threads of one rank share what comes: each message goes to one of them, whole. */
static atomic_int taken;
static atomic_uchar seen[SHARED];

static void *taker_run(void *arg)
{
	MPI_Comm comm = *(MPI_Comm *)arg;
	struct area in = area_make(LONGEST + 4);

	while (atomic_fetch_add(&taken, 1) < SHARED) {
		MPI_Message message;
		MPI_Status status;
		int number, count;

		MPI_Mprobe(MPI_ANY_SOURCE, 77, comm, &message, &status);
		MPI_Get_count(&status, MPI_BYTE, &count);
		MPI_Mrecv(in.bytes, count, MPI_BYTE, &message, &status);
		memcpy(&number, in.bytes, sizeof(number));
		expect(number >= 0 && number < SHARED && atomic_exchange(&seen[number], 1) == 0);
		expect(count == round_size(9, number) + 4);
		check(in.bytes + 4, (size_t)count - 4, seed_of(left_of(1), me, number), "message taken by a thread");
	}
	area_free(&in);
	return NULL;
}

static void test_takers(MPI_Comm comm)
{
	struct area out[SHARED];
	MPI_Request sends[SHARED];
	pthread_t threads[THREADS];

	for (int t = 0; t < THREADS; t++)
		expect(pthread_create(&threads[t], NULL, taker_run, &comm) == 0);
	for (int i = 0; i < SHARED; i++) {
		out[i] = area_make((size_t)round_size(9, i) + 4);
		memcpy(out[i].bytes, &i, sizeof(i));
		fill(out[i].bytes + 4, out[i].length - 4, seed_of(me, right_of(1), i));
		MPI_Isend(out[i].bytes, (int)out[i].length, MPI_BYTE, right_of(1), 77, comm, &sends[i]);
	}
	MPI_Waitall(SHARED, sends, MPI_STATUSES_IGNORE);
	for (int t = 0; t < THREADS; t++)
		pthread_join(threads[t], NULL);
	for (int i = 0; i < SHARED; i++) {
		expect(atomic_load(&seen[i]) == 1);
		area_free(&out[i]);
	}
}

/* Question and answer: each thread of a rank and its partner's of the same number, none of which can go on without the
 * other. */
static void *pinger_run(void *arg)
{
	const struct worker *worker = arg;
	int partner = me ^ 1;

	for (int round = 0; round < SHARED && partner < ranks; round++) {
		struct area area = area_make((size_t)round_size(worker->number, 4 * round + 1));

		for (int turn = 0; turn < 2; turn++) {
			uint64_t seed = seed_of(turn, worker->number, round);

			if (turn == (me & 1)) {
				fill(area.bytes, area.length, seed);
				MPI_Send(area.bytes, (int)area.length, MPI_BYTE, partner, 5, worker->own);
			} else {
				MPI_Recv(area.bytes, (int)area.length, MPI_BYTE, partner, 5, worker->own,
					 MPI_STATUS_IGNORE);
				check(area.bytes, area.length, seed, "question or answer of a thread");
			}
		}
		area_free(&area);
	}
	return NULL;
}

static void test_pingers(struct worker *workers)
{
	for (int t = 0; t < THREADS; t++)
		expect(pthread_create(&workers[t].thread, NULL, pinger_run, &workers[t]) == 0);
	for (int t = 0; t < THREADS; t++)
		pthread_join(workers[t].thread, NULL);
}

/* Each thread writes to the right and reads back, all by one window: every flush waits beside the others' puts. */
static MPI_Win window;

static void *putter_run(void *arg)
{
	const struct worker *worker = arg;
	MPI_Aint place = (MPI_Aint)worker->number * PUT_LONGEST;

	for (int round = 1; round <= SHARED; round++) {
		size_t size = round % 3 ? sizeof(uint64_t) : PUT_LONGEST;
		uint64_t seed = seed_of(me, worker->number, round);
		struct area out = area_make(size), in = area_make(size);

		fill(out.bytes, size, seed);
		MPI_Put(out.bytes, (int)size, MPI_BYTE, right_of(1), place, (int)size, MPI_BYTE, window);
		MPI_Win_flush(right_of(1), window);
		if (round % 4 == 0) {
			MPI_Get(in.bytes, (int)size, MPI_BYTE, right_of(1), place, (int)size, MPI_BYTE, window);
			MPI_Win_flush(right_of(1), window);
			check(in.bytes, size, seed, "what a thread has put");
		}
		area_free(&out);
		area_free(&in);
	}
	return NULL;
}

static void test_putters(struct worker *workers)
{
	/* Not of MPI_Win_allocate: ranks of a node would store to that by themselves. */
	static uint8_t memory[THREADS * PUT_LONGEST];

	MPI_Win_create(memory, sizeof(memory), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
	MPI_Win_lock_all(0, window);
	for (int t = 0; t < THREADS; t++)
		expect(pthread_create(&workers[t].thread, NULL, putter_run, &workers[t]) == 0);
	for (int t = 0; t < THREADS; t++)
		pthread_join(workers[t].thread, NULL);
	MPI_Win_unlock_all(window);
	MPI_Win_free(&window);
}

bool test_threads(void)
{
	struct worker workers[THREADS];
	MPI_Comm shared;
	int provided;

	MPI_Query_thread(&provided);
	if (provided < MPI_THREAD_MULTIPLE)
		return false;
	MPI_Comm_dup(MPI_COMM_WORLD, &shared);
	for (int t = 0; t < THREADS; t++) {
		workers[t].number = t;
		workers[t].shared = shared;
		MPI_Comm_dup(MPI_COMM_WORLD, &workers[t].own);
	}
	for (int t = 0; t < THREADS; t++)
		expect(pthread_create(&workers[t].thread, NULL, worker_run, &workers[t]) == 0);
	for (int t = 0; t < THREADS; t++)
		pthread_join(workers[t].thread, NULL);
	test_takers(shared);
	test_pingers(workers);
	test_putters(workers);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int t = 0; t < THREADS; t++)
		MPI_Comm_free(&workers[t].own);
	MPI_Comm_free(&shared);
	return true;
}

/* ---- Spawn --------------------------------------------------------------------------------------- */

/* Parents and children in one communicator: a ring of messages and a sum. */
static void family_talk(MPI_Comm family)
{
	int rank, size, sum, next, before;
	struct area out = area_make(CHILD_BYTES), in = area_make(CHILD_BYTES);

	MPI_Comm_rank(family, &rank);
	MPI_Comm_size(family, &size);
	next = (rank + 1) % size;
	before = (rank - 1 + size) % size;
	for (int round = 0; round < 10; round++) {
		fill(out.bytes, CHILD_BYTES, seed_of(rank, next, round));
		MPI_Sendrecv(out.bytes, CHILD_BYTES, MPI_BYTE, next, 1, in.bytes, CHILD_BYTES, MPI_BYTE, before, 1,
			     family, MPI_STATUS_IGNORE);
		check(in.bytes, CHILD_BYTES, seed_of(before, rank, round), "message in the family");
	}
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, family);
	expect(sum == size * (size - 1) / 2);
	area_free(&out);
	area_free(&in);
}

void spawned_child(MPI_Comm parent)
{
	MPI_Comm family;

	MPI_Intercomm_merge(parent, 1, &family);
	family_talk(family);
	MPI_Comm_free(&family);
	MPI_Comm_disconnect(&parent);
}

bool test_spawn(void)
{
	MPI_Comm children, family;
	char path[4096];
	int size;

	strncpy(path, program_path, sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	MPI_Comm_spawn(path, MPI_ARGV_NULL, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
	MPI_Comm_remote_size(children, &size);
	expect(size == CHILDREN);
	MPI_Intercomm_merge(children, 0, &family);
	family_talk(family);
	MPI_Comm_free(&family);
	MPI_Comm_disconnect(&children);
	return true;
}
