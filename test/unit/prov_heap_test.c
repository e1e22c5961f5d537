/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Large blocks of the MPI library are from an arena, all others from where they were, and each goes back to where it
 * came from; other libraries notice nothing.
 *
 * mpi_malloc and its like are calls by a library that is called as MPICH's, other_malloc those of another MPI's.
 */
#include "prov_objects.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "prov_heap.h"

void *mpi_malloc(size_t length);
void *mpi_realloc(void *block, size_t length);
void mpi_free(void *block);
int mpi_memalign(void **block_p, size_t alignment, size_t length);
void *mpi_aligned_alloc(size_t alignment, size_t length);
void *other_malloc(size_t length);
void other_free(void *block);

enum { LEAST = PROV_HEAP_LEAST, LARGE = 70 * LEAST, BYTE = 0x5a };

static void *filled(void *block, size_t length)
{
	assert_non_null(block);
	return memset(block, BYTE, length);
}

static bool is_filled(const unsigned char *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (bytes[i] != BYTE)
			return false;
	return true;
}

static bool is_shared(const void *block)
{
	struct arena_place place;

	return arena_find(block, 1, &place);
}

/* As an MPI does whose user has these options. */
static void share(void)
{
	struct fid_ep *ep;

	assert_int_equal(setenv("THOLE_MPI_MEMORY", "shared", 1), 0);
	objects_open(&objects);
	assert_int_equal(fi_endpoint(objects.domain, objects.info, &ep, NULL), 0);
	assert_int_equal(fi_close(&ep->fid), 0);
	objects_close(&objects);
}

/* The first test: nothing is taken over yet. */
static void *early;

static void heap__as_it_was(void **state)
{
	(void)state;
	early = filled(mpi_malloc(LARGE), LARGE);
	assert_false(is_shared(early));
}

static const char *refused; /* a function whose place in the table is sealed; NULL: all may be written */

int __real_import_set(const char *name, void (*function)(void));
int __wrap_import_set(const char *name, void (*function)(void));

int __wrap_import_set(const char *name, void (*function)(void))
{
	return refused && !strcmp(refused, name) ? -1 : __real_import_set(name, function);
}

/* Who cannot take a block back gives none. In a child: it is done once a process. */
static void heap__that_could_not_take_back(void **state)
{
	static const char *const names[] = {"free", "realloc"};

	(void)state;
	for (int i = 0; i < 2; i++) {
		pid_t child = fork();

		assert_true(child >= 0);
		if (child == 0) {
			refused = names[i];
			prov_heap_share();
			_exit(is_shared(mpi_malloc(LARGE)));
		}
		assert_int_equal(child_status(child), 0);
	}
}

static void heap__shares_large_blocks(void **state)
{
	void *block, *others;

	(void)state;
	share();
	share(); /* as another endpoint does */
	block = filled(mpi_malloc(LARGE), LARGE);
	assert_true(is_shared(block));
	assert_int_equal((uintptr_t)block % 16, 0);
	mpi_free(block);
	assert_false(is_shared(block) && arena_length(block));
	block = mpi_malloc(LEAST);
	assert_true(is_shared(block));
	mpi_free(block);
	block = mpi_malloc(LEAST - 1);
	assert_false(is_shared(block));
	mpi_free(block);
	mpi_free(NULL);
	others = other_malloc(LARGE);
	assert_false(is_shared(others));
	other_free(others);
}

static void heap__takes_back_what_is_from_before(void **state)
{
	(void)state;
	early = mpi_realloc(early, LARGE + 1);
	assert_false(is_shared(early));
	assert_true(is_filled(early, LARGE));
	mpi_free(early);
}

static void heap__gives_blocks_another_length(void **state)
{
	unsigned char *first = filled(mpi_malloc(LARGE), LARGE), *behind = mpi_malloc(LARGE);
	unsigned char *block = mpi_realloc(first, 100 * LARGE); /* there is something behind it: it moves */

	(void)state;
	assert_true(is_shared(block));
	assert_ptr_not_equal(block, first);
	assert_int_equal(arena_length(first), 0);
	assert_true(is_filled(block, LARGE));
	filled(block, 100 * LARGE);
	block = mpi_realloc(block, LEAST);
	assert_true(is_filled(block, LEAST));
	block = mpi_realloc(block, 10);
	assert_true(is_filled(block, 10));
	mpi_free(mpi_realloc(block, 0)); /* free, or as little as there can be */
	mpi_free(behind);
	block = mpi_realloc(NULL, LARGE);
	assert_non_null(block);
	mpi_free(block);
}

/* As large as a granule they are shared; else, and with an alignment that there is not, they are what they were. */
static void heap__shares_packed_messages(void **state)
{
	static const size_t alignments[] = {16, 64, 4096, 1 << 21};
	void *block;

	(void)state;
	for (size_t i = 0; i < sizeof alignments / sizeof alignments[0]; i++) {
		assert_int_equal(mpi_memalign(&block, alignments[i], LARGE), 0);
		assert_true(is_shared(filled(block, LARGE)));
		assert_int_equal((uintptr_t)block % alignments[i], 0);
		mpi_free(block);
		assert_int_equal(arena_length(block), 0);
		block = filled(mpi_aligned_alloc(alignments[i], 32 * ARENA_GRANULE), 32 * ARENA_GRANULE);
		assert_true(is_shared(block));
		assert_int_equal((uintptr_t)block % alignments[i], 0);
		mpi_free(mpi_realloc(block, LARGE));
	}
	assert_int_equal(mpi_memalign(&block, 64, ARENA_GRANULE - 1), 0);
	assert_false(is_shared(filled(block, ARENA_GRANULE - 1)));
	mpi_free(block);
	assert_int_equal(mpi_memalign(&block, 48, LARGE), EINVAL);
	assert_int_equal(mpi_memalign(&block, 8, LARGE), 0);
	mpi_free(filled(block, LARGE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(heap__as_it_was),
		cmocka_unit_test(heap__that_could_not_take_back),
		cmocka_unit_test(heap__shares_large_blocks),
		cmocka_unit_test(heap__takes_back_what_is_from_before),
		cmocka_unit_test(heap__gives_blocks_another_length),
		cmocka_unit_test(heap__shares_packed_messages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
