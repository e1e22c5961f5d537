/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a message costs, in instructions, all that the machine does for it: for a guest of one processor whose clock
 * goes by the instruction (instructions.h). Two ranks act by turns. Who gives the turn away yields some times before,
 * so that threads of the kernel have done the adapters' work, and nobody polls in vain; what this takes is in the
 * numbers, and by itself in the row "turns". mpi_turns NAME SIZE... prints lines "row NAME_SIZE VALUE": medians.
 */
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "instructions.h"

enum { YIELDS = 20, BEFORE = 96, MESSAGES = 192, ROWS = 5, NOTHING = -1, TAG = 7 };

static int rank;
static int give_fd, take_fd;
static char buffer[1 << 20];

static void need(int well)
{
	if (!well)
		exit(1);
}

static void turns_open(void)
{
	static const char *const names[] = {"/tmp/turn-0", "/tmp/turn-1"};

	mkfifo(names[rank], 0600);
	MPI_Barrier(MPI_COMM_WORLD);
	take_fd = open(names[rank], O_RDWR);
	give_fd = open(names[!rank], O_RDWR);
	need(take_fd >= 0 && give_fd >= 0);
}

static void turn_give(void)
{
	for (int i = 0; i < YIELDS; i++)
		sched_yield();
	need(write(give_fd, "", 1) == 1);
}

static void turn_take(void)
{
	char byte;

	need(read(take_fd, &byte, 1) == 1);
}

/* How long an instruction takes, while the other rank sleeps. */
static double measure_ns(void)
{
	double instruction_ns = 0;

	if (rank == 1) {
		turn_take();
	} else {
		sleep(1); /* of the guest's: until the other one does */
		instruction_ns = instructions_each_ns();
		turn_give();
	}
	return instruction_ns;
}

static void messages(int count, int size)
{
	for (int i = 0; i < count; i++) {
		if (rank == 1)
			turn_take();
		if (size != NOTHING && rank == 0)
			MPI_Send(buffer, size, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
		else if (size != NOTHING)
			MPI_Recv(buffer, size, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		turn_give();
		if (rank == 0)
			turn_take();
	}
}

static int compare(const void *one, const void *other)
{
	double difference = *(const double *)one - *(const double *)other;

	return (difference > 0) - (difference < 0);
}

/* By the clock of rank 0, whose turn it is before and after. */
static double median_of(int size, double instruction_ns)
{
	double rows[ROWS];

	messages(BEFORE, size);
	for (int i = 0; i < ROWS; i++) {
		uint64_t start = clock_now_ns();

		messages(MESSAGES, size);
		rows[i] = (double)(clock_now_ns() - start) / instruction_ns / MESSAGES;
	}
	qsort(rows, ROWS, sizeof(*rows), compare);
	return rows[ROWS / 2];
}

int main(int argc, char **argv)
{
	double instruction_ns;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	turns_open();
	instruction_ns = measure_ns();
	for (int i = 1; i < argc; i++) {
		int size = i == 1 ? NOTHING : atoi(argv[i]);
		double value;

		need(size <= (int)sizeof(buffer));
		MPI_Barrier(MPI_COMM_WORLD);
		value = median_of(size, instruction_ns);
		if (rank == 0)
			printf("row %s_%s %.0f\n", argv[1], i == 1 ? "turns" : argv[i], value);
	}
	MPI_Finalize();
	return 0;
}
