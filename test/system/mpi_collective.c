/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_conform: every collective, blocking and not, on several communicators, with results computed here anew.
 *
 * Rank r of a communicator contributes to rank p the bytes of pattern seed_of(r, p, ...), or numbers that follow from
 * (r, index); both sides of a check know that.
 */
#include "mpi_conform.h"

#include <stdlib.h>
#include <string.h>

/* A blocking collective, or the non-blocking one and a wait. */
#define COLLECTIVE(blocking, starting, ...) \
	do { \
		MPI_Request request_; \
		if (!nonblocking) { \
			blocking(__VA_ARGS__); \
		} else { \
			starting(__VA_ARGS__, &request_); \
			MPI_Wait(&request_, MPI_STATUS_IGNORE); \
		} \
	} while (0)

static bool nonblocking;
static MPI_Comm comm;
static int rank, size;

/* How much rank r has for the v-variants: some have nothing. */
static int share(int r, int count)
{
	return r % 3 == 1 ? 0 : count / (r % 3 + 1) + r;
}

static int shares(int count, int *counts, int *places)
{
	int total = 0;

	for (int r = 0; r < size; r++) {
		counts[r] = share(r, count);
		places[r] = total + 3 * r; /* with gaps */
		total += counts[r];
	}
	return total + 3 * size;
}

static struct area filled(int bytes, uint64_t seed)
{
	struct area area = area_make((size_t)bytes);

	fill(area.bytes, area.length, seed);
	return area;
}

static void test_bcast(int count)
{
	int root = count % size;
	struct area data = rank == root ? filled(count, seed_of(root, 0, count)) : area_make((size_t)count);

	COLLECTIVE(MPI_Bcast, MPI_Ibcast, data.bytes, count, MPI_BYTE, root, comm);
	check(data.bytes, data.length, seed_of(root, 0, count), "bcast");
	area_free(&data);
}

static void test_gather(int count)
{
	int root = (count + 1) % size;
	struct area mine = filled(count, seed_of(rank, root, count)), all = area_make((size_t)(count * size));

	COLLECTIVE(MPI_Gather, MPI_Igather, mine.bytes, count, MPI_BYTE, all.bytes, count, MPI_BYTE, root, comm);
	for (int r = 0; rank == root && r < size; r++)
		check(all.bytes + r * count, (size_t)count, seed_of(r, root, count), "gather");
	memset(all.bytes, 0, all.length);
	memcpy(all.bytes + rank * count, mine.bytes, (size_t)count);
	COLLECTIVE(MPI_Gather, MPI_Igather, rank == root ? MPI_IN_PLACE : mine.bytes, count, MPI_BYTE, all.bytes, count,
		   MPI_BYTE, root, comm);
	for (int r = 0; rank == root && r < size; r++)
		check(all.bytes + r * count, (size_t)count, seed_of(r, root, count), "gather in place");
	memset(all.bytes, 0, all.length);
	COLLECTIVE(MPI_Allgather, MPI_Iallgather, mine.bytes, count, MPI_BYTE, all.bytes, count, MPI_BYTE, comm);
	for (int r = 0; r < size; r++)
		check(all.bytes + r * count, (size_t)count, seed_of(r, root, count), "allgather");
	area_free(&mine);
	area_free(&all);
}

static void test_gatherv(int count)
{
	int *counts = malloc((size_t)size * sizeof(int)), *places = malloc((size_t)size * sizeof(int));
	int total = shares(count, counts, places), root = (count + 2) % size;
	struct area mine = filled(counts[rank], seed_of(rank, 1, count)), all = area_make((size_t)total);

	for (int way = 0; way < 2; way++) {
		memset(all.bytes, 0x33, all.length);
		if (way == 0)
			COLLECTIVE(MPI_Gatherv, MPI_Igatherv, mine.bytes, counts[rank], MPI_BYTE, all.bytes, counts,
				   places, MPI_BYTE, root, comm);
		else
			COLLECTIVE(MPI_Allgatherv, MPI_Iallgatherv, mine.bytes, counts[rank], MPI_BYTE, all.bytes,
				   counts, places, MPI_BYTE, comm);
		for (int r = 0; (way == 1 || rank == root) && r < size; r++) {
			check(all.bytes + places[r], (size_t)counts[r], seed_of(r, 1, count), "gatherv");
			check_same(all.bytes + places[r] + counts[r], 3, 0x33, "between parts of a gatherv");
		}
	}
	area_free(&mine);
	area_free(&all);
	free(counts);
	free(places);
}

static void test_scatter(int count)
{
	int *counts = malloc((size_t)size * sizeof(int)), *places = malloc((size_t)size * sizeof(int));
	int total = shares(count, counts, places), root = (count + 3) % size;
	struct area all = area_make((size_t)(count * size)), mine = area_make((size_t)count);
	struct area parts = area_make((size_t)total), part = area_make((size_t)counts[rank]);

	for (int r = 0; r < size; r++) {
		fill(all.bytes + r * count, (size_t)count, seed_of(root, r, count));
		fill(parts.bytes + places[r], (size_t)counts[r], seed_of(root, r, count + 1));
	}
	COLLECTIVE(MPI_Scatter, MPI_Iscatter, all.bytes, count, MPI_BYTE, mine.bytes, count, MPI_BYTE, root, comm);
	check(mine.bytes, mine.length, seed_of(root, rank, count), "scatter");
	COLLECTIVE(MPI_Scatterv, MPI_Iscatterv, parts.bytes, counts, places, MPI_BYTE, part.bytes, counts[rank],
		   MPI_BYTE, root, comm);
	check(part.bytes, part.length, seed_of(root, rank, count + 1), "scatterv");
	area_free(&all);
	area_free(&mine);
	area_free(&parts);
	area_free(&part);
	free(counts);
	free(places);
}

static void test_alltoall(int count)
{
	struct area out = area_make((size_t)(count * size)), in = area_make((size_t)(count * size));

	for (int r = 0; r < size; r++)
		fill(out.bytes + r * count, (size_t)count, seed_of(rank, r, count));
	COLLECTIVE(MPI_Alltoall, MPI_Ialltoall, out.bytes, count, MPI_BYTE, in.bytes, count, MPI_BYTE, comm);
	for (int r = 0; r < size; r++)
		check(in.bytes + r * count, (size_t)count, seed_of(r, rank, count), "alltoall");
	COLLECTIVE(MPI_Alltoall, MPI_Ialltoall, MPI_IN_PLACE, 0, MPI_BYTE, out.bytes, count, MPI_BYTE, comm);
	for (int r = 0; r < size; r++)
		check(out.bytes + r * count, (size_t)count, seed_of(r, rank, count), "alltoall in place");
	area_free(&out);
	area_free(&in);
}

/* What rank a sends to rank b depends on both, and both know it. */
static int pair_share(int a, int b, int count)
{
	return (a + b) % 4 == 0 ? 0 : count / ((a + 2 * b) % 3 + 1);
}

static void test_alltoallv(int count)
{
	enum { ROWS = 4 };
	int *table = malloc(ROWS * (size_t)size * sizeof(int)), out_total = 0, in_total = 0;
	int *out_counts = table, *out_places = table + size, *in_counts = table + 2 * size,
	    *in_places = table + 3 * size;
	MPI_Datatype *types = malloc((size_t)size * sizeof(MPI_Datatype));
	struct area out, in;

	for (int r = 0; r < size; r++) {
		out_counts[r] = pair_share(rank, r, count);
		in_counts[r] = pair_share(r, rank, count);
		out_places[r] = out_total;
		in_places[r] = in_total;
		out_total += out_counts[r] + 5;
		in_total += in_counts[r] + 7;
		types[r] = MPI_BYTE;
	}
	out = area_make((size_t)out_total);
	in = area_make((size_t)in_total);
	for (int r = 0; r < size; r++)
		fill(out.bytes + out_places[r], (size_t)out_counts[r], seed_of(rank, r, count));
	for (int way = 0; way < 2; way++) {
		memset(in.bytes, 0x44, in.length);
		if (way == 0)
			COLLECTIVE(MPI_Alltoallv, MPI_Ialltoallv, out.bytes, out_counts, out_places, MPI_BYTE, in.bytes,
				   in_counts, in_places, MPI_BYTE, comm);
		else
			COLLECTIVE(MPI_Alltoallw, MPI_Ialltoallw, out.bytes, out_counts, out_places, types, in.bytes,
				   in_counts, in_places, types, comm);
		for (int r = 0; r < size; r++) {
			check(in.bytes + in_places[r], (size_t)in_counts[r], seed_of(r, rank, count), "alltoallv or w");
			check_same(in.bytes + in_places[r] + in_counts[r], 7, 0x44, "between parts of an alltoallv");
		}
	}
	area_free(&out);
	area_free(&in);
	free(table);
	free(types);
}

/* ---- Reductions ---------------------------------------------------------------------------------- */

static int term(int r, int index)
{
	return (r + 1) * 7 + index % 1000;
}

/* (a, b) after (c, d) is (a c, b c + d): maps x -> a x + b one after the other, which do not commute. */
static void compose(void *in, void *inout, int *length, MPI_Datatype *type)
{
	const uint32_t *first = in;
	uint32_t *second = inout;

	(void)type;
	for (int i = 0; i < *length; i++, first += 2, second += 2) {
		second[1] = first[1] * second[0] + second[1];
		second[0] *= first[0];
	}
}

static void composed(int from, int to, int index, uint32_t result[2])
{
	MPI_Datatype none = MPI_DATATYPE_NULL;

	result[0] = 1;
	result[1] = 0;
	for (int r = from; r <= to; r++) {
		uint32_t next[2] = {(uint32_t)(2 * r + 3), (uint32_t)(index + r)};

		compose(result, next, &(int){1}, &none);
		memcpy(result, next, sizeof(next));
	}
}

static void test_reduce(int count)
{
	int root = count % size, n = count / 4, *mine = malloc(((size_t)n + 1) * sizeof(int));
	int *result = malloc(((size_t)n + 1) * sizeof(int)), sum = size * (size + 1) / 2 * 7;

	for (int i = 0; i < n; i++)
		mine[i] = term(rank, i);
	COLLECTIVE(MPI_Reduce, MPI_Ireduce, mine, result, n, MPI_INT, MPI_SUM, root, comm);
	for (int i = 0; rank == root && i < n; i++)
		expect(result[i] == sum + size * (i % 1000));
	COLLECTIVE(MPI_Allreduce, MPI_Iallreduce, mine, result, n, MPI_INT, MPI_MAX, comm);
	for (int i = 0; i < n; i++)
		expect(result[i] == term(size - 1, i));
	COLLECTIVE(MPI_Scan, MPI_Iscan, mine, result, n, MPI_INT, MPI_SUM, comm);
	for (int i = 0; i < n; i++)
		expect(result[i] == (rank + 1) * (rank + 2) / 2 * 7 + (rank + 1) * (i % 1000));
	COLLECTIVE(MPI_Exscan, MPI_Iexscan, mine, result, n, MPI_INT, MPI_MIN, comm);
	for (int i = 0; rank > 0 && i < n; i++)
		expect(result[i] == term(0, i));
	COLLECTIVE(MPI_Allreduce, MPI_Iallreduce, MPI_IN_PLACE, mine, n, MPI_INT, MPI_SUM, comm);
	for (int i = 0; i < n; i++)
		expect(mine[i] == sum + size * (i % 1000));
	free(mine);
	free(result);
}

static void test_reduce_ordered(int count)
{
	int n = count / 8, root = (count + 1) % size;
	uint32_t *mine = malloc(((size_t)n + 1) * 8), *result = malloc(((size_t)n + 1) * 8), want[2];
	MPI_Datatype pair;
	MPI_Op op;

	MPI_Type_contiguous(2, MPI_UINT32_T, &pair);
	MPI_Type_commit(&pair);
	MPI_Op_create(compose, 0, &op);
	for (int i = 0; i < n; i++) {
		mine[2 * i] = (uint32_t)(2 * rank + 3);
		mine[2 * i + 1] = (uint32_t)(i + rank);
	}
	COLLECTIVE(MPI_Reduce, MPI_Ireduce, mine, result, n, pair, op, root, comm);
	for (int i = 0; rank == root && i < n; i++) {
		composed(0, size - 1, i, want);
		expect(memcmp(result + 2 * i, want, 8) == 0);
	}
	COLLECTIVE(MPI_Scan, MPI_Iscan, mine, result, n, pair, op, comm);
	for (int i = 0; i < n; i++) {
		composed(0, rank, i, want);
		expect(memcmp(result + 2 * i, want, 8) == 0);
	}
	MPI_Op_free(&op);
	MPI_Type_free(&pair);
	free(mine);
	free(result);
}

static void test_reduce_scatter(int count)
{
	int *counts = malloc((size_t)size * sizeof(int)), total = 0, mine_at = 0, n = count / 4;
	double *mine, *result;

	for (int r = 0; r < size; r++) {
		counts[r] = share(r, n);
		mine_at += r < rank ? counts[r] : 0;
		total += counts[r];
	}
	total = total > n * size ? total : n * size;
	mine = malloc(((size_t)total + 1) * sizeof(double));
	result = malloc(((size_t)(counts[rank] > n ? counts[rank] : n) + 1) * sizeof(double));
	for (int i = 0; i < total; i++)
		mine[i] = term(rank, i);
	COLLECTIVE(MPI_Reduce_scatter, MPI_Ireduce_scatter, mine, result, counts, MPI_DOUBLE, MPI_MAX, comm);
	for (int i = 0; i < counts[rank]; i++)
		expect(result[i] == term(size - 1, mine_at + i));
	COLLECTIVE(MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, mine, result, n, MPI_DOUBLE, MPI_MIN, comm);
	for (int i = 0; i < n; i++)
		expect(result[i] == term(0, rank * n + i));
	free(mine);
	free(result);
	free(counts);
}

static void test_barrier(void)
{
	/* Nobody leaves before the last has come: everyone's message is there after it. */
	int found = 0, token = rank;

	for (int round = 0; round < 5; round++) {
		MPI_Request request;
		MPI_Status status;

		MPI_Isend(&token, 1, MPI_INT, (rank + 1) % size, round, comm, &request);
		if (nonblocking) {
			MPI_Request barrier;

			MPI_Ibarrier(comm, &barrier);
			for (int done = 0; !done;)
				MPI_Test(&barrier, &done, MPI_STATUS_IGNORE);
		} else {
			MPI_Barrier(comm);
		}
		MPI_Recv(&found, 1, MPI_INT, MPI_ANY_SOURCE, round, comm, &status);
		expect(found == (rank - 1 + size) % size && status.MPI_SOURCE == found);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
}

/* Several at once on one communicator, with messages of one's own between them. */
static void test_overlap(int count)
{
	enum { AT_ONCE = 6 };
	struct area data[AT_ONCE], all[AT_ONCE], out = filled(count, seed_of(rank, 7, count)),
						 in = area_make((size_t)count);
	MPI_Request requests[2 * AT_ONCE + 2];

	for (int i = 0; i < AT_ONCE; i++) {
		data[i] = rank == i % size ? filled(count, seed_of(i, 8, count)) : area_make((size_t)count);
		all[i] = area_make((size_t)(count * size));
		MPI_Ibcast(data[i].bytes, count, MPI_BYTE, i % size, comm, &requests[2 * i]);
		MPI_Iallgather(out.bytes, count, MPI_BYTE, all[i].bytes, count, MPI_BYTE, comm, &requests[2 * i + 1]);
	}
	MPI_Irecv(in.bytes, count, MPI_BYTE, (rank + size - 1) % size, 3, comm, &requests[2 * AT_ONCE]);
	MPI_Isend(out.bytes, count, MPI_BYTE, (rank + 1) % size, 3, comm, &requests[2 * AT_ONCE + 1]);
	MPI_Waitall(2 * AT_ONCE + 2, requests, MPI_STATUSES_IGNORE);
	check(in.bytes, in.length, seed_of((rank + size - 1) % size, 7, count), "message beside collectives");
	for (int i = 0; i < AT_ONCE; i++) {
		check(data[i].bytes, data[i].length, seed_of(i, 8, count), "one of several ibcasts");
		for (int r = 0; r < size; r++)
			check(all[i].bytes + r * count, (size_t)count, seed_of(r, 7, count),
			      "one of several iallgathers");
		area_free(&data[i]);
		area_free(&all[i]);
	}
	area_free(&out);
	area_free(&in);
}

static void test_on(MPI_Comm which)
{
	static const int counts[] = {0, 1, 9, 100, 4000, 30000, 100000, 400000};

	comm = which;
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	test_barrier();
	for (int i = 0; i < (small ? 6 : 8); i++) {
		if (counts[i] * size > 4000000)
			continue;
		test_bcast(counts[i]);
		test_gather(counts[i]);
		test_gatherv(counts[i]);
		test_scatter(counts[i]);
		test_alltoall(counts[i]);
		test_alltoallv(counts[i]);
		test_reduce(counts[i]);
		test_reduce_ordered(counts[i]);
		test_reduce_scatter(counts[i]);
		if (nonblocking)
			test_overlap(counts[i]);
	}
}

static bool test_all(bool starting)
{
	MPI_Comm backwards, half;

	nonblocking = starting;
	MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &backwards);
	MPI_Comm_split(MPI_COMM_WORLD, me % 2, me, &half);
	test_on(MPI_COMM_WORLD);
	test_on(backwards);
	test_on(half);
	MPI_Comm_free(&backwards);
	MPI_Comm_free(&half);
	return true;
}

bool test_collectives(void)
{
	return test_all(false);
}

bool test_nonblocking_collectives(void)
{
	return test_all(true);
}
