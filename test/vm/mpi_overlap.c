/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_overlap: two ranks send each other a large message and compute without a call of MPI: how much of it is there
 * when they have computed, and how long they wait for the rest. Who has all computes no longer. Under any MPI.
 *
 *   mpiexec -n 2 mpi_overlap [MIB [SECONDS]]
 *
 * Each rank prints "here N of M pages, alone S computed S waited S": the transfer alone, and with work.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

static int me;
static size_t pages;
static uint8_t *in, *out;

/* Unlike 0 in each page, and another value in each. */
static uint8_t value(int rank, int round, size_t page)
{
	return (uint8_t)(1 + (page * 7 + (size_t)rank * 31 + (size_t)round * 13) % 255);
}

static void start(int round, MPI_Request *requests)
{
	for (size_t page = 0; page < pages; page++)
		memset(out + page * PAGE, value(me, round, page), PAGE);
	memset(in, 0, pages * PAGE);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Irecv(in, (int)(pages * PAGE), MPI_BYTE, 1 - me, round, MPI_COMM_WORLD, &requests[0]);
	MPI_Isend(out, (int)(pages * PAGE), MPI_BYTE, 1 - me, round, MPI_COMM_WORLD, &requests[1]);
}

static size_t pages_here(int round)
{
	size_t here = 0;

	for (size_t page = 0; page < pages; page++)
		here += in[page * PAGE + PAGE - 1] == value(1 - me, round, page);
	return here;
}

static void check(int round)
{
	for (size_t page = 0; page < pages; page++)
		for (size_t at = 0; at < PAGE; at++)
			if (in[page * PAGE + at] != value(1 - me, round, page)) {
				fprintf(stderr, "page %zu of round %d is wrong\n", page, round);
				MPI_Abort(MPI_COMM_WORLD, 1);
			}
}

/* For so long, or until all is here; returns how long that was. */
static double compute(int round, double seconds)
{
	double start = MPI_Wtime();
	volatile double sum = 0;

	while (MPI_Wtime() < start + seconds && pages_here(round) < pages)
		for (int i = 0; i < 10000; i++)
			sum = sum + 1.0 / (i + 1);
	return MPI_Wtime() - start;
}

int main(int count, char **words)
{
	double seconds = count > 2 ? atof(words[2]) : 2;
	double alone = 0, computed = 0;
	MPI_Request requests[2];

	MPI_Init(&count, &words);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	pages = (size_t)(count > 1 ? atoi(words[1]) : 16) << 20 >> 12;
	in = malloc(pages * PAGE);
	out = malloc(pages * PAGE);
	for (int round = 0; round < 4; round++) { /* the first two of them warm up */
		double start_s, waited;
		size_t here;

		start(round, requests);
		if (round % 2 == 1)
			computed = compute(round, seconds);
		here = pages_here(round);
		start_s = MPI_Wtime();
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
		waited = MPI_Wtime() - start_s;
		check(round);
		if (round == 2)
			alone = waited;
		if (round == 3)
			printf("here %zu of %zu pages, alone %.3f computed %.3f waited %.3f\n", here, pages, alone,
			       computed, waited);
	}
	MPI_Finalize();
	return 0;
}
