/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * yields_of_mpi - who calls sched_yield while two ranks exchange messages: the MPI library, or Thole's for it: the
 * provider, or what it has for UCX.
 *
 * Defines the function, so that all calls but the kernel's own come here. Rank 0 prints how many there were of each
 * after MPI_Init.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MESSAGES = 3000 };

static long by_mpi, by_thole;

int sched_yield(void)
{
	Dl_info caller;

	if (dladdr(__builtin_return_address(0), &caller) && caller.dli_fname) {
		by_mpi += strstr(caller.dli_fname, "/libmpi") != NULL;
		by_thole += strstr(caller.dli_fname, "/libthole-fi") || strstr(caller.dli_fname, "/libucp");
	}
	return (int)syscall(SYS_sched_yield);
}

int main(int argc, char **argv)
{
	int rank, word = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	by_mpi = by_thole = 0;
	for (int i = 0; i < MESSAGES; i++) {
		if (i % 2 == rank)
			MPI_Send(&word, 1, MPI_INT, !rank, 0, MPI_COMM_WORLD);
		else
			MPI_Recv(&word, 1, MPI_INT, !rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	if (rank == 0)
		printf("mpi %ld thole %ld\n", by_mpi, by_thole);
	return MPI_Finalize();
}
