/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_conform: put, get, accumulate and the atomics, on windows of three kinds, under each kind of synchronization.
 *
 * A window has a slot for each origin, so that all can write at once and each byte has one right value, then cells that
 * all update together.
 */
#include "mpi_conform.h"

#include <stdlib.h>
#include <string.h>

enum { CELLS = 64, KINDS = 3, TURNS = 30 };

enum kind { KIND_CREATE, KIND_ALLOCATE, KIND_DYNAMIC };
enum epoch { EPOCH_FENCE, EPOCH_LOCK, EPOCH_LOCK_ALL, EPOCH_PSCW, EPOCHS };

static struct {
	MPI_Win win;
	enum kind kind;
	uint8_t *memory;
	size_t slot;     /* bytes of one origin's slot */
	MPI_Aint *bases; /* what an offset in each rank's memory is counted from */
} window;

static size_t cells_at(void)
{
	return window.slot * (size_t)ranks;
}

static size_t window_bytes(void)
{
	return cells_at() + CELLS * sizeof(uint64_t);
}

static MPI_Aint place(int target, size_t offset)
{
	return window.bases[target] + (MPI_Aint)offset;
}

static MPI_Aint my_slot(int target)
{
	return place(target, (size_t)me * window.slot);
}

static void window_open(enum kind kind)
{
	MPI_Aint base = 0;

	window.kind = kind;
	window.slot = small ? 5000 : 300000;
	if (kind == KIND_ALLOCATE)
		MPI_Win_allocate((MPI_Aint)window_bytes(), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window.memory,
				 &window.win);
	else
		MPI_Alloc_mem((MPI_Aint)window_bytes(), MPI_INFO_NULL, &window.memory);
	memset(window.memory, 0, window_bytes());
	if (kind == KIND_CREATE)
		MPI_Win_create(window.memory, (MPI_Aint)window_bytes(), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window.win);
	if (kind == KIND_DYNAMIC) {
		MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window.win);
		MPI_Win_attach(window.win, window.memory, (MPI_Aint)window_bytes());
		MPI_Get_address(window.memory, &base);
	}
	window.bases = malloc((size_t)ranks * sizeof(MPI_Aint));
	MPI_Allgather(&base, 1, MPI_AINT, window.bases, 1, MPI_AINT, MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
}

static void window_close(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (window.kind == KIND_DYNAMIC)
		MPI_Win_detach(window.win, window.memory);
	MPI_Win_free(&window.win);
	if (window.kind != KIND_ALLOCATE)
		MPI_Free_mem(window.memory);
	free(window.bases);
}

/*
 * What a rank sees of its own window: everything that was completed before the barrier. The lock is shared, since a
 * faster rank may be in MPI_Win_lock_all already: MPICH grants locks strictly in turn, one rank's after the other's,
 * so two exclusive ones here and two such ranks can wait for each other for ever.
 */
static void window_settle(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, me, 0, window.win);
	MPI_Win_sync(window.win);
	MPI_Win_unlock(me, window.win);
}

static void epoch_begin(enum epoch epoch)
{
	MPI_Group group;

	switch (epoch) {
	case EPOCH_FENCE: MPI_Win_fence(MPI_MODE_NOPRECEDE, window.win); break;
	case EPOCH_LOCK_ALL: MPI_Win_lock_all(0, window.win); break;
	case EPOCH_PSCW:
		MPI_Win_get_group(window.win, &group);
		MPI_Win_post(group, 0, window.win);
		MPI_Win_start(group, 0, window.win);
		MPI_Group_free(&group);
		break;
	case EPOCH_LOCK:
	case EPOCHS: break;
	}
}

static void epoch_end(enum epoch epoch)
{
	switch (epoch) {
	case EPOCH_FENCE: MPI_Win_fence(MPI_MODE_NOSUCCEED, window.win); break;
	case EPOCH_LOCK_ALL: MPI_Win_unlock_all(window.win); break;
	case EPOCH_PSCW:
		MPI_Win_complete(window.win);
		MPI_Win_wait(window.win);
		break;
	case EPOCH_LOCK:
	case EPOCHS: break;
	}
}

static void target_begin(enum epoch epoch, int target)
{
	if (epoch == EPOCH_LOCK)
		MPI_Win_lock(target % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0, window.win);
}

static void target_end(enum epoch epoch, int target)
{
	if (epoch == EPOCH_LOCK)
		MPI_Win_unlock(target, window.win);
	else if (epoch == EPOCH_LOCK_ALL)
		MPI_Win_flush(target, window.win);
}

/* ---- Put and get --------------------------------------------------------------------------------- */

static void test_put(enum epoch epoch, size_t length, int number)
{
	struct area out = area_make(length * (size_t)ranks);

	memset(window.memory, 0x66, cells_at());
	window_settle();
	epoch_begin(epoch);
	for (int target = 0; target < ranks; target++) {
		uint8_t *from = out.bytes + (size_t)target * length;

		fill(from, length, seed_of(me, target, number));
		target_begin(epoch, target);
		MPI_Put(from, (int)length, MPI_BYTE, target, my_slot(target), (int)length, MPI_BYTE, window.win);
		target_end(epoch, target);
	}
	epoch_end(epoch);
	window_settle();
	for (int origin = 0; origin < ranks; origin++) {
		const uint8_t *slot = window.memory + (size_t)origin * window.slot;

		check(slot, length, seed_of(origin, me, number), "what was put");
		check_same(slot + length, window.slot - length, 0x66, "behind what was put");
	}
	MPI_Barrier(MPI_COMM_WORLD);
	epoch_begin(epoch);
	for (int target = 0; target < ranks; target++) {
		target_begin(epoch, target);
		MPI_Get(out.bytes + (size_t)target * length, (int)length, MPI_BYTE, target, my_slot(target),
			(int)length, MPI_BYTE, window.win);
		target_end(epoch, target);
	}
	epoch_end(epoch);
	for (int target = 0; target < ranks; target++)
		check(out.bytes + (size_t)target * length, length, seed_of(me, target, number), "what was got");
	area_free(&out);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Every second group of four bytes, at both ends. */
static void test_strided(enum epoch epoch)
{
	enum { GROUPS = 500, SPAN = GROUPS * 8 };
	struct area out = area_make(SPAN), in = area_make(SPAN), want = area_make(SPAN);
	int target = right_of(1);
	MPI_Datatype raw, type;

	MPI_Type_vector(GROUPS, 4, 8, MPI_BYTE, &raw);
	MPI_Type_create_resized(raw, 0, SPAN, &type);
	MPI_Type_commit(&type);
	memset(window.memory, 0x66, cells_at());
	window_settle();
	fill(out.bytes, SPAN, seed_of(me, target, 3));
	epoch_begin(epoch);
	target_begin(epoch, target);
	MPI_Put(out.bytes, 1, type, target, my_slot(target), 1, type, window.win);
	target_end(epoch, target);
	epoch_end(epoch);
	window_settle();
	fill(want.bytes, SPAN, seed_of(left_of(1), me, 3));
	for (size_t i = 0; i < SPAN; i++)
		if (i % 8 >= 4)
			want.bytes[i] = 0x66;
	expect(memcmp(window.memory + (size_t)left_of(1) * window.slot, want.bytes, SPAN) == 0);
	MPI_Barrier(MPI_COMM_WORLD);
	epoch_begin(epoch);
	target_begin(epoch, target);
	MPI_Get(in.bytes, 1, type, target, my_slot(target), 1, type, window.win);
	target_end(epoch, target);
	epoch_end(epoch);
	for (size_t i = 0; i < SPAN; i++)
		expect(in.bytes[i] == (i % 8 < 4 ? out.bytes[i] : 0x5a));
	MPI_Type_free(&raw);
	MPI_Type_free(&type);
	area_free(&out);
	area_free(&in);
	area_free(&want);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- Accumulate ---------------------------------------------------------------------------------- */

/* All add to all slots of rank 0's area at once; the sums are known. */
static void test_accumulate(enum epoch epoch, int count)
{
	int64_t *mine = malloc((size_t)count * 8), *before = malloc((size_t)count * 8);
	const int64_t *slot = (const int64_t *)(const void *)window.memory;

	memset(window.memory, 0, cells_at());
	window_settle();
	for (int i = 0; i < count; i++)
		mine[i] = (me + 1) * 1000 + i;
	epoch_begin(epoch);
	for (int target = 0; target < ranks; target++) {
		target_begin(epoch, target);
		MPI_Accumulate(mine, count, MPI_INT64_T, target, place(target, 0), count, MPI_INT64_T, MPI_SUM,
			       window.win);
		target_end(epoch, target);
	}
	epoch_end(epoch);
	window_settle();
	for (int i = 0; i < count; i++)
		expect(slot[i] == (int64_t)ranks * (ranks + 1) / 2 * 1000 + (int64_t)ranks * i);
	MPI_Barrier(MPI_COMM_WORLD);
	epoch_begin(epoch);
	for (int target = 0; target < ranks; target++) {
		target_begin(epoch, target);
		MPI_Get_accumulate(mine, count, MPI_INT64_T, before, count, MPI_INT64_T, target, place(target, 0),
				   count, MPI_INT64_T, MPI_MAX, window.win);
		target_end(epoch, target);
		if (epoch == EPOCH_LOCK || epoch == EPOCH_LOCK_ALL)
			for (int i = 0; i < count; i++) /* the sum is at least the largest term */
				expect(before[i] == (int64_t)ranks * (ranks + 1) / 2 * 1000 + (int64_t)ranks * i);
	}
	epoch_end(epoch);
	window_settle();
	for (int i = 0; i < count; i++)
		expect(slot[i] == (int64_t)ranks * (ranks + 1) / 2 * 1000 + (int64_t)ranks * i);
	free(mine);
	free(before);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Other types and operations, one origin to a slot: what was there is combined once. */
static void test_operations(void)
{
	static const double start[] = {1.5, -2.0, 8.25}, mine[] = {2.0, -3.0, 0.5};
	static const uint16_t bits = 0x0ff0, mask = 0x3c3c;
	double found[3];
	uint16_t word = 0;
	int target = right_of(1);

	MPI_Win_lock_all(0, window.win);
	MPI_Accumulate(start, 3, MPI_DOUBLE, target, my_slot(target), 3, MPI_DOUBLE, MPI_REPLACE, window.win);
	MPI_Accumulate(mine, 3, MPI_DOUBLE, target, my_slot(target), 3, MPI_DOUBLE, MPI_PROD, window.win);
	MPI_Get_accumulate(NULL, 0, MPI_DOUBLE, found, 3, MPI_DOUBLE, target, my_slot(target), 3, MPI_DOUBLE, MPI_NO_OP,
			   window.win);
	MPI_Win_flush(target, window.win);
	expect(found[0] == 3.0 && found[1] == 6.0 && found[2] == 4.125);
	MPI_Accumulate(&bits, 1, MPI_UINT16_T, target, my_slot(target), 1, MPI_UINT16_T, MPI_REPLACE, window.win);
	MPI_Accumulate(&mask, 1, MPI_UINT16_T, target, my_slot(target), 1, MPI_UINT16_T, MPI_BXOR, window.win);
	MPI_Win_flush(target, window.win);
	MPI_Get(&word, 1, MPI_UINT16_T, target, my_slot(target), 1, MPI_UINT16_T, window.win);
	MPI_Win_flush_local(target, window.win);
	expect(word == (bits ^ mask));
	MPI_Win_unlock_all(window.win);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* Operations with requests of their own. */
static void test_requests(void)
{
	struct area out = area_make(3000), in = area_make(3000);
	int64_t one = 1;
	MPI_Request requests[2];
	int target = right_of(1);

	fill(out.bytes, 3000, seed_of(me, target, 6));
	memset(window.memory + cells_at(), 0, CELLS * 8);
	window_settle();
	MPI_Win_lock_all(0, window.win);
	MPI_Rput(out.bytes, 3000, MPI_BYTE, target, my_slot(target), 3000, MPI_BYTE, window.win, &requests[0]);
	MPI_Raccumulate(&one, 1, MPI_INT64_T, target, place(target, cells_at()), 1, MPI_INT64_T, MPI_SUM, window.win,
			&requests[1]);
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	MPI_Win_flush_all(window.win);
	MPI_Rget(in.bytes, 3000, MPI_BYTE, target, my_slot(target), 3000, MPI_BYTE, window.win, &requests[0]);
	MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
	check(in.bytes, 3000, seed_of(me, target, 6), "rput and rget");
	MPI_Win_unlock_all(window.win);
	window_settle();
	expect(*(int64_t *)(void *)(window.memory + cells_at()) == 1);
	area_free(&out);
	area_free(&in);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- Atomics ------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
	int64_t first = *(const int64_t *)a, second = *(const int64_t *)b;

	return first < second ? -1 : first > second;
}

/* Everyone draws numbers from one counter: each is drawn once. */
static void test_tickets(int owner)
{
	int64_t drawn[TURNS], *all = malloc((size_t)(ranks * TURNS) * 8), one = 1;

	memset(window.memory + cells_at(), 0, CELLS * 8);
	window_settle();
	MPI_Win_lock_all(0, window.win);
	for (int i = 0; i < TURNS; i++) {
		MPI_Fetch_and_op(&one, &drawn[i], MPI_INT64_T, owner, place(owner, cells_at()), MPI_SUM, window.win);
		MPI_Win_flush(owner, window.win);
		expect(i == 0 || drawn[i] > drawn[i - 1]);
	}
	MPI_Win_unlock_all(window.win);
	MPI_Gather(drawn, TURNS, MPI_INT64_T, all, TURNS, MPI_INT64_T, 0, MPI_COMM_WORLD);
	if (me == 0) {
		qsort(all, (size_t)(ranks * TURNS), 8, ascending);
		for (int i = 0; i < ranks * TURNS; i++)
			expect(all[i] == i);
	}
	free(all);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* A lock made of compare-and-swap guards a number that is read, changed and written back. */
static void test_swap(int turns)
{
	int others = swap_fails ? 1 : 0, mine = me < others ? 0 : turns;
	int64_t free_ = 0, taken = me + 1, found = -1, value;
	MPI_Aint lock = place(0, cells_at() + 8), number = place(0, cells_at() + 16);

	memset(window.memory + cells_at(), 0, CELLS * 8);
	window_settle();
	MPI_Win_lock_all(0, window.win);
	for (int i = 0; i < mine; i++) {
		do {
			MPI_Compare_and_swap(&taken, &free_, &found, MPI_INT64_T, 0, lock, window.win);
			MPI_Win_flush(0, window.win);
		} while (found != 0);
		MPI_Get(&value, 1, MPI_INT64_T, 0, number, 1, MPI_INT64_T, window.win);
		MPI_Win_flush(0, window.win);
		value++;
		MPI_Put(&value, 1, MPI_INT64_T, 0, number, 1, MPI_INT64_T, window.win);
		MPI_Win_flush(0, window.win);
		MPI_Compare_and_swap(&free_, &taken, &found, MPI_INT64_T, 0, lock, window.win);
		MPI_Win_flush(0, window.win);
		expect(found == taken);
	}
	MPI_Win_unlock_all(window.win);
	window_settle();
	if (me == 0)
		expect(((int64_t *)(void *)(window.memory + cells_at()))[2] == (int64_t)(ranks - others) * turns);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* The same with MPI's own exclusive lock. */
static void test_exclusive(int turns)
{
	MPI_Aint number = place(0, cells_at() + 24);
	int64_t value;

	memset(window.memory + cells_at(), 0, CELLS * 8);
	window_settle();
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < turns; i++) {
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window.win);
		MPI_Get(&value, 1, MPI_INT64_T, 0, number, 1, MPI_INT64_T, window.win);
		MPI_Win_flush(0, window.win);
		value++;
		MPI_Put(&value, 1, MPI_INT64_T, 0, number, 1, MPI_INT64_T, window.win);
		MPI_Win_unlock(0, window.win);
	}
	window_settle();
	if (me == 0)
		expect(((int64_t *)(void *)(window.memory + cells_at()))[3] == (int64_t)ranks * turns);
	MPI_Barrier(MPI_COMM_WORLD);
}

/* What moves between two synchronizations. `brief` leaves out accumulates, which take by far the longest where each is
 * a lock, a read, a write and an unlock by the network. */
static void test_epoch(enum epoch epoch, bool brief)
{
	static const size_t lengths[] = {0, 1, 8, 63, 1000, 4999, 70001, 300000};

	for (int i = 0; i < 8 && lengths[i] <= window.slot; i++)
		test_put(epoch, lengths[i], i);
	test_strided(epoch);
	test_accumulate(epoch, 100);
	if (brief)
		return;
	test_accumulate(epoch, 1);
	test_accumulate(epoch, small ? 600 : 5000);
}

/* With --small only the first kind has each epoch, and each length of accumulates. */
static void test_window(enum kind kind)
{
	bool brief = small && kind != KIND_CREATE;

	window_open(kind);
	for (enum epoch epoch = 0; epoch < EPOCHS; epoch++)
		if (!brief || epoch % 2 == (unsigned)kind % 2)
			test_epoch(epoch, brief);
	test_operations();
	test_requests();
	for (int owner = 0; owner < ranks; owner += small ? 5 : 1)
		test_tickets(owner);
	if (kind == KIND_CREATE || !swap_fails)
		test_swap(small ? 3 : TURNS);
	test_exclusive(small ? 3 : TURNS);
	window_close();
}

/* Processors have no atomics for pairs, so MPIs send them as messages: one of middle length, and a long one behind it.
 * Each rank of an odd number has the one below it for a target, which only waits. So often, since Thole learns by which
 * way they go fastest. */
static void test_pairs(void)
{
	enum { MIDDLE = 1300, LONG = 13000, ALL = MIDDLE + LONG };
	struct pair {
		int value, number;
	};
	struct pair *mine = malloc(ALL * sizeof(*mine)), *memory = calloc(ALL, sizeof(*memory));
	MPI_Win win;

	MPI_Win_create(memory, ALL * sizeof(*memory), sizeof(*memory), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	for (int round = 1; round <= 100; round++) {
		for (int i = 0; i < ALL; i++)
			mine[i] = (struct pair){round, i};
		MPI_Win_fence(0, win);
		if (me % 2) {
			MPI_Accumulate(mine, MIDDLE, MPI_2INT, me - 1, 0, MIDDLE, MPI_2INT, MPI_MAXLOC, win);
			MPI_Accumulate(mine + MIDDLE, LONG, MPI_2INT, me - 1, MIDDLE, LONG, MPI_2INT, MPI_MAXLOC, win);
		}
		MPI_Win_fence(0, win);
		for (int i = 0; i < ALL && me % 2 == 0 && me + 1 < ranks; i++)
			expect(memory[i].value == round && memory[i].number == i);
	}
	MPI_Win_free(&win);
	free(mine);
	free(memory);
}

bool test_onesided(void)
{
	test_pairs();
	for (int kind = 0; kind < KINDS; kind++) {
		if (kind != KIND_DYNAMIC || !dynamic_hangs)
			test_window((enum kind)kind);
	}
	return true;
}
