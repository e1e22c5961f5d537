/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arenas: blocks that are never where another is, memory that goes back, what fork means with writes on both sides,
 * programs that close descriptors which are not theirs, and limits, which are those of the C library.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/blocks.h"
#include "thole.h"
#include "unit.h"

enum { KIB = 1024, MIB = 1024 * KIB, BLOCKS = 64, STEPS = 6000 };

static char *near; /* the next random number leads beside this, once */

ssize_t __real_getrandom(void *bytes, size_t length, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t length, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t length, unsigned flags)
{
	uint64_t place = ((uintptr_t)near - (UINT64_C(1) << ARENA_PLACE_BITS)) / (UINT64_C(1) << 30) + 1;

	if (!near)
		return __real_getrandom(bytes, length, flags);
	near = NULL;
	memcpy(bytes, &place, sizeof(place));
	return sizeof(place);
}

static char *block_new(size_t length)
{
	bool zero;
	char *block = arena_alloc(length, 1, &zero);

	assert_non_null(block);
	return block;
}

static struct arena_place place_of(const void *address)
{
	struct arena_place place;

	assert_true(arena_find(address, 1, &place));
	return place;
}

/* Bytes of memory that a memfd has. */
static size_t pages_of(int fd)
{
	struct stat status;

	assert_int_equal(fstat(fd, &status), 0);
	return (size_t)status.st_blocks * 512;
}

/* ---- Blocks ---------------------------------------------------------------------------------------- */

struct held {
	unsigned char *block;
	size_t length;
	unsigned char byte;
};

static void held_check(const struct held *held)
{
	assert_int_equal(held->block[0], held->byte);
	assert_int_equal(held->block[held->length / 2], held->byte);
	assert_int_equal(held->block[held->length - 1], held->byte);
	assert_true(arena_length(held->block) >= held->length);
}

static void held_fill(struct held *held)
{
	memset(held->block, held->byte, held->length);
}

static void held_take(struct held *held, uint64_t *seed, size_t length)
{
	size_t alignment = (size_t)1 << random_next(seed) % 22;
	bool zero = false;

	held->block = arena_alloc(length, alignment, &zero);
	assert_non_null(held->block);
	assert_int_equal((uintptr_t)held->block % alignment, 0);
	for (size_t i = 0; zero && i < length; i += 64)
		assert_int_equal(held->block[i], 0);
	held->length = length;
	held->byte = (unsigned char)random_next(seed);
	held_fill(held);
}

/* Blocks come, change and go at random. None changes another, and what is said to be zeros is. */
static void blocks__do_not_touch_each_other(void **state)
{
	static struct held all[BLOCKS];
	uint64_t seed = 4711;

	(void)state;
	for (int step = 0; step < STEPS; step++) {
		struct held *held = &all[random_next(&seed) % BLOCKS];
		size_t length = 1 + random_next(&seed) % (random_next(&seed) % 16 ? 400 * KIB : 8 * MIB);

		if (!held->block) {
			held_take(held, &seed, length);
			continue;
		}
		held_check(held);
		if (random_next(&seed) % 4 == 0) {
			if (arena_resize(held->block, length)) {
				for (size_t i = 0; i < length && i < held->length; i += 512)
					assert_int_equal(held->block[i], held->byte);
				held->length = length;
				held_fill(held);
			}
			continue;
		}
		assert_true(arena_free(held->block));
		held->block = NULL;
	}
	for (int i = 0; i < BLOCKS; i++)
		if (all[i].block) {
			held_check(&all[i]);
			assert_true(arena_free(all[i].block));
			all[i].block = NULL;
		}
}

static void blocks__are_known(void **state)
{
	char *block = block_new(100 * KIB), *end = block + arena_length(block);
	struct arena_place place;
	int on_stack;

	(void)state;
	assert_int_equal(arena_length(block), 2 * ARENA_GRANULE);
	assert_int_equal(arena_length(block + 1), 0);
	assert_int_equal(arena_length(block + ARENA_GRANULE), 0);
	assert_int_equal(arena_length(&on_stack), 0);
	assert_false(arena_free(&on_stack));
	assert_false(arena_free(block + ARENA_GRANULE));
	assert_false(arena_find(&on_stack, 1, &place));
	assert_true(arena_find(block + 5, 10, &place));
	assert_true((uintptr_t)block > place.base && (uintptr_t)block < place.base + place.size);
	assert_false(arena_find(end - 1, place.size, &place));
	assert_true(arena_free(block));
	assert_false(arena_free(block));
}

static void blocks__what_is_too_much_is_refused(void **state)
{
	bool zero;

	(void)state;
	errno = EDOM;
	assert_null(arena_alloc(0, 1, &zero));
	assert_null(arena_alloc(SIZE_MAX, 1, &zero));
	assert_null(arena_alloc((size_t)1 << 46, 1, &zero));
	assert_null(arena_alloc(MIB, (size_t)1 << 40, &zero));
	assert_int_equal(errno, EDOM);
}

/* Whatever a program maps where an arena may still grow to is not the memfd's: a peer would read zeros there. */
static void blocks__of_others_are_not_ours(void **state)
{
	char *block = block_new(MIB), *other;
	struct arena_place place = place_of(block), again;

	(void)state;
	other = mmap((void *)(uintptr_t)(place.base + place.size / 2), MIB, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	assert_ptr_not_equal(other, MAP_FAILED);
	assert_false(arena_find(other, 1, &again));
	assert_false(arena_find(other, MIB, &again));
	assert_false(arena_find(block + ARENA_GRANULE, place.size / 2, &again));
	assert_false(arena_free(other));
	arena_withdraw(other, MIB);
	assert_true(arena_find(block, MIB, &again)); /* that is nothing to it */
	munmap(other, MIB);
	assert_true(arena_free(block));
}

/* Another mapping of the memfd shows a block where the place says it is. */
static void blocks__are_where_their_place_says(void **state)
{
	char *block = block_new(MIB), *other;
	struct arena_place place = place_of(block);
	off_t offset = (off_t)((uintptr_t)block - place.base);

	(void)state;
	strcpy(block + 1000, "here");
	other = mmap(NULL, MIB, PROT_READ, MAP_SHARED, place.file.fd, offset);
	assert_ptr_not_equal(other, MAP_FAILED);
	assert_string_equal(other + 1000, "here");
	assert_int_not_equal(ftruncate(place.file.fd, 0), 0);
	assert_int_not_equal(fcntl(place.file.fd, F_GET_SEALS) & F_SEAL_SHRINK, 0);
	munmap(other, MIB);
	assert_true(arena_free(block));
}

/* The next blocks lie side by side in an arena of their own. */
static void arena_anew(void)
{
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	assert_int_equal(child_status(child), 0);
}

static bool is_found(const char *block)
{
	struct arena_place place;

	return arena_find(block, MIB, &place);
}

/* What a program makes of a block is nothing that peers find, up to its end: the next one there is the memfd's. */
static void altered__until_it_is_freed(void **state)
{
	const size_t page = (size_t)getpagesize();
	char *before, *block, *behind, *again;
	struct arena_place place;

	(void)state;
	arena_anew();
	before = block_new(MIB);
	block = block_new(MIB);
	behind = block_new(MIB);
	arena_alter(block + MIB - 1, 1);
	arena_alter(block, 1);
	assert_true(is_found(before) && !is_found(block) && is_found(behind));
	assert_false(arena_find(before, 2 * MIB, &place) || arena_find(block + MIB - 1, 2, &place));
	assert_false(arena_resize(block, 2 * MIB));
	assert_true(arena_resize(block, MIB / 2));
	assert_int_equal(arena_length(block), MIB);
	assert_ptr_equal(mmap(block + page, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 block + page);
	assert_int_equal(munmap(block + 2 * page, page), 0);
	assert_true(arena_free(block));
	again = block_new(MIB);
	assert_ptr_equal(again, block);
	assert_true(is_found(again));
	memset(again, 3, MIB);
	place = place_of(again);
	block = mmap(NULL, MIB, PROT_READ, MAP_SHARED, place.file.fd, (off_t)((uintptr_t)again - place.base));
	assert_ptr_not_equal(block, MAP_FAILED);
	assert_memory_equal(block, again, MIB);
	munmap(block, MIB);
	assert_true(arena_free(before) && arena_free(again) && arena_free(behind));
}

/* Of several at once, and of none. */
static void altered__what_is_touched(void **state)
{
	char *first, *second, *third;

	(void)state;
	arena_anew();
	first = block_new(MIB);
	second = block_new(MIB);
	third = block_new(MIB);
	assert_ptr_equal(second, first + MIB);
	arena_alter(third + MIB, SIZE_MAX);
	arena_alter(third, 0);
	assert_true(is_found(first) && is_found(second) && is_found(third));
	arena_alter(first + MIB - 1, 2);
	assert_true(!is_found(first) && !is_found(second) && is_found(third));
	arena_alter(second + MIB - 1, 2); /* of which one is known */
	assert_false(is_found(third));
	assert_true(arena_free(first) && arena_free(second) && arena_free(third));
}

/* A mapping of the memfd that shows the block, too. */
static char *mapped_again(const char *block, struct arena_place place)
{
	char *other = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, place.file.fd,
			   (off_t)((uintptr_t)block - place.base));

	assert_ptr_not_equal(other, MAP_FAILED);
	return other;
}

static bool holds(const char *block, size_t from, size_t to, char byte)
{
	for (size_t i = from; i < to; i++)
		if (block[i] != byte)
			return false;
	return true;
}

/* More blocks than can be told of: then peers use none of the arena, and who has registered memory of it still has what
 * the program has. */
static void altered__too_many(void **state)
{
	char *block[ALTERED_MAX + 1], *other, *again, *later;
	struct arena_header *header;
	struct arena_place place;
	size_t before;
	pid_t child;
	int fd;

	(void)state;
	arena_anew();
	other = block_new(MIB);
	place = place_of(other);
	fd = dup(place.file.fd);
	again = mapped_again(other, place);
	header = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(header, MAP_FAILED);
	for (int i = 0; i <= ALTERED_MAX; i++) {
		block[i] = block_new(MIB);
		memset(block[i], i, MIB);
	}
	for (int i = 0; i <= ALTERED_MAX; i++) {
		assert_true(is_found(other));
		arena_alter(block[i], 1);
	}
	assert_false(is_found(other));
	assert_int_equal(header->retired, 1);
	memset(other, 1, MIB);
	assert_true(holds(again, 0, MIB, 1));
	assert_false(arena_resize(other, 2 * MIB));
	later = block_new(MIB); /* in another arena */
	assert_true(is_found(later) && place_of(later).number != place.number);
	before = pages_of(fd);
	assert_true(arena_free(block[0]));
	assert_true(pages_of(fd) <= before - MIB);
	child = fork(); /* which retires both */
	if (child == 0) {
		bool well = holds(other, 0, MIB, 1) && holds(block[1], 0, MIB, 1);

		memset(other, 2, MIB);
		_exit(well ? 0 : 1);
	}
	assert_int_equal(child_status(child), 0);
	memset(other, 3, MIB);
	assert_true(holds(again, 0, MIB, 1) && !is_found(later));
	for (int i = 1; i <= ALTERED_MAX; i++) {
		assert_int_equal(block[i][MIB - 1], i);
		assert_true(arena_free(block[i]));
	}
	assert_true(arena_free(other) && arena_free(later));
	munmap(again, MIB);
	munmap(header, 4096);
	close(fd);
}

/* What the kernel says of a page: its rights as text, none where nothing is, and whether it is locked. */
static bool page_is(const char *page, const char *rights, bool locked)
{
	FILE *maps = fopen("/proc/self/smaps", "r");
	char line[512], found[8] = "", flags[8];
	bool here = false, is_locked = false;
	uintptr_t from, to;

	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %7s", &from, &to, flags) == 3 && line[0] != 'V') {
			here = (uintptr_t)page >= from && (uintptr_t)page < to;
			if (here)
				memcpy(found, flags, sizeof(found));
		}
		if (here && strncmp(line, "VmFlags:", 8) == 0)
			is_locked = strstr(line, " lo");
	}
	if (maps)
		fclose(maps);
	return strncmp(found, rights, strlen(rights)) == 0 && !*rights == !*found && is_locked == locked;
}

/* What a program lets go of such a block holds zeros where it is the memfd's, whatever its rights; its own file that it
 * has mapped there is as it was. */
static void altered__pages_let_go(void **state)
{
	char *block = block_new(MIB), byte = 'x', read_back = 0;
	size_t page = (size_t)getpagesize();
	int file = memfd_create("other", MFD_CLOEXEC);

	(void)state;
	assert_int_equal(ftruncate(file, (off_t)page), 0);
	assert_int_equal(pwrite(file, &byte, 1, 0), 1);
	memset(block, 1, MIB);
	arena_alter(block, 8 * page);
	assert_int_equal(mprotect(block + page, page, PROT_NONE), 0);
	assert_ptr_equal(mmap(block + 3 * page, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0),
			 block + 3 * page);
	assert_ptr_equal(mmap(block + 5 * page, page, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), block + 5 * page);
	block[5 * page] = 2;
	assert_true(arena_clear(block, 8 * page));
	assert_true(page_is(block + page, "---", false));
	assert_int_equal(mprotect(block + page, page, PROT_READ), 0);
	assert_int_equal(pread(file, &read_back, 1, 0), 1);
	assert_int_equal(read_back, 'x');
	assert_int_equal(block[3 * page], 'x');
	assert_true(holds(block, 0, 3 * page, 0) && holds(block, 4 * page, 8 * page, 0));
	assert_true(holds(block, 8 * page, MIB, 1));
	assert_true(arena_free(block));
	close(file);
}

static void freed__goes_back_to_the_kernel(void **state)
{
	char *small = block_new(MIB), *large = block_new(80 * MIB), *few[40];
	struct arena_place place = place_of(large);
	size_t before = pages_of(place.file.fd);

	(void)state;
	memset(large, 1, 80 * MIB);
	assert_true(pages_of(place.file.fd) >= before + 80 * MIB);
	assert_true(arena_free(large));
	assert_true(pages_of(place.file.fd) <= before);
	for (int i = 0; i < 2; i++) /* which become one when they are free */
		memset(few[i] = block_new(20 * MIB), 1, 20 * MIB);
	assert_true(arena_free(few[0]) && arena_free(few[1]));
	assert_true(pages_of(place.file.fd) >= before + 40 * MIB);
	for (int i = 0; i < 40; i++)
		memset(few[i] = block_new(4 * MIB), 1, 4 * MIB);
	for (int i = 0; i < 40; i += 2) /* none beside another */
		assert_true(arena_free(few[i]));
	assert_true(pages_of(place.file.fd) <= before + (80 + 64) * MIB);
	for (int i = 1; i < 40; i += 2)
		assert_true(arena_free(few[i]));
	assert_true(arena_free(small));
	assert_true(pages_of(place.file.fd) <= before + 64 * MIB);
}

static void alloc__short_and_long(void **state)
{
	void *small, *large;
	struct arena_place place;

	(void)state;
	assert_int_equal(thole_alloc(100, &small), 0);
	assert_int_equal(thole_alloc(MIB, &large), 0);
	assert_int_equal((uintptr_t)small % 64, 0);
	assert_int_equal((uintptr_t)large % 64, 0);
	assert_false(blocks()->find(small, 100, &place));
	assert_true(blocks()->find(large, MIB, &place));
	memset(small, 1, 100);
	memset(large, 1, MIB);
	thole_free(small);
	thole_free(large);
	assert_int_equal(arena_length(large), 0);
	thole_free(NULL);
	assert_int_equal(thole_alloc(0, &small), 0);
	thole_free(small);
	assert_int_equal(thole_alloc(SIZE_MAX / 2, &large), THOLE_ERR_MEMORY);
}

static bool cancelled_freed;

/* free is no point of cancellation: a thread that is cancelled ends behind it, and blocks go on. */
static void *free_cancelled(void *block)
{
	pthread_cancel(pthread_self());
	cancelled_freed = arena_free(block);
	pthread_testcancel();
	return NULL;
}

static void free__of_a_cancelled_thread(void **state)
{
	char *block = block_new(64 * MIB);
	pthread_t thread;
	void *result;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, free_cancelled, block), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_true(cancelled_freed);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_true(arena_free(block_new(MIB)));
}

/* ---- Fork ------------------------------------------------------------------------------------------ */

struct shared {
	pthread_barrier_t barrier;
};

static struct shared *meeting(void)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t attr;

	assert_ptr_not_equal(shared, MAP_FAILED);
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->barrier, &attr, 2);
	return shared;
}

/* Where this process has a file of that name; -1: nowhere. */
static int descriptor_of(const char *name)
{
	for (int fd = 0; fd < 2048; fd++) {
		char path[32], target[64] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, target, sizeof(target) - 1) > 0 && strstr(target, name))
			return fd;
	}
	return -1;
}

static bool has_descriptor(const char *name)
{
	return descriptor_of(name) >= 0;
}

/* Both write on, each where the other does and where it does not, and neither sees the other's. */
static void fork__each_has_its_own(void **state)
{
	char *block = block_new(8 * MIB), *after;
	struct shared *shared = meeting();
	pid_t child;

	(void)state;
	memset(block, 1, 8 * MIB);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		bool well = holds(block, 0, 8 * MIB, 1);

		memset(block + MIB, 2, 2 * MIB);
		pthread_barrier_wait(&shared->barrier); /* both have written */
		pthread_barrier_wait(&shared->barrier); /* the parent has looked */
		well &= holds(block, 0, MIB, 1) && holds(block, MIB, 3 * MIB, 2) && holds(block, 3 * MIB, 8 * MIB, 1);
		errno = EDOM; /* which free keeps, though there is no memfd here to take pages from */
		well &= arena_free(block) && errno == EDOM && !has_descriptor("memfd:thole-children");
		block = block_new(8 * MIB); /* one of the child's own */
		well &= holds(block, 0, 8 * MIB, 0) && arena_free(block);
		_exit(well ? 0 : 1);
	}
	memset(block + 2 * MIB, 3, 2 * MIB);
	after = block_new(MIB);
	memset(after, 4, MIB);
	pthread_barrier_wait(&shared->barrier);
	assert_true(holds(block, 0, 2 * MIB, 1) && holds(block, 2 * MIB, 4 * MIB, 3) &&
		    holds(block, 4 * MIB, 8 * MIB, 1));
	pthread_barrier_wait(&shared->barrier);
	assert_int_equal(child_status(child), 0);
	assert_true(holds(block, 0, 2 * MIB, 1) && holds(block, 2 * MIB, 4 * MIB, 3) &&
		    holds(block, 4 * MIB, 8 * MIB, 1) && holds(after, 0, MIB, 4));
	assert_true(arena_free(block));
	assert_true(arena_free(after));
}

/* Whether it is locked then: sanitizers say that it is, and do nothing. */
static bool page_lock(char *memory, size_t page)
{
	assert_int_equal(mlock(memory, page), 0);
	return page_is(memory, "rw-", true);
}

/* A page each that is closed, to be read, to be run, another's, the memfd's from elsewhere, not there, and locked, if
 * there are locks: the result. */
static bool made_of_block(char *block, size_t page)
{
	struct arena_place place = place_of(block);
	off_t elsewhere = (off_t)((uintptr_t)block - place.base + 20 * page);

	memset(block, 1, MIB);
	memset(block + 20 * page, 3, page);
	assert_int_equal(mprotect(block, page, PROT_NONE), 0);
	assert_int_equal(mprotect(block + 2 * page, page, PROT_READ), 0);
	assert_int_equal(mprotect(block + 4 * page, page, PROT_READ | PROT_EXEC), 0);
	assert_ptr_equal(mmap(block + 8 * page, page, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), block + 8 * page);
	memset(block + 8 * page, 2, page);
	assert_ptr_equal(mmap(block + 10 * page, page, PROT_READ, MAP_SHARED | MAP_FIXED, place.file.fd, elsewhere),
			 block + 10 * page);
	assert_int_equal(munmap(block + 12 * page, page), 0);
	return page_lock(block + 6 * page, page);
}

static bool made_is_kept(const char *block, size_t page, bool locked)
{
	return page_is(block, "---", false) && page_is(block + page, "rw-", false) &&
	       page_is(block + 2 * page, "r--", false) && page_is(block + 4 * page, "r-x", false) &&
	       page_is(block + 6 * page, "rw-", locked) && page_is(block + 12 * page, "", false) &&
	       holds(block, page, 8 * page, 1) && holds(block, 8 * page, 9 * page, 2) &&
	       holds(block, 9 * page, 10 * page, 1) && holds(block, 10 * page, 11 * page, 3) &&
	       page_is(block + 10 * page, "r--s", false) &&
	       holds(block, 13 * page, 20 * page, 1) && holds(block, 20 * page, 21 * page, 3) &&
	       holds(block, 21 * page, MIB, 1);
}

static void fork__keeps_what_was_made_of_a_block(void **state)
{
	char *block = block_new(MIB), *behind = block_new(MIB);
	size_t page = (size_t)getpagesize();
	bool locks;
	pid_t child;

	(void)state;
	memset(behind, 1, MIB);
	locks = made_of_block(block, page);
	assert_true(made_is_kept(block, page, locks));
	child = fork();
	if (child == 0) { /* which has no locks of its parent's */
		bool well = made_is_kept(block, page, false) && holds(behind, 0, MIB, 1);

		memset(block + page, 4, page);
		memset(behind, 4, MIB);
		_exit(well ? 0 : 1);
	}
	assert_int_equal(child_status(child), 0);
	assert_true(made_is_kept(block, page, locks));
	assert_true(holds(behind, 0, MIB, 1));
	assert_true(arena_free(block));
	assert_true(arena_free(behind));
}

/* What is let go afterwards holds zeros, has the rights that it had, and is not what is locked. */
static void fork__pages_let_go_keep_their_rights(void **state)
{
	char *block = block_new(MIB);
	size_t page = (size_t)getpagesize();
	bool locks;
	pid_t child;

	(void)state;
	memset(block, 1, MIB);
	assert_int_equal(mprotect(block + 2 * page, page, PROT_READ), 0);
	locks = page_lock(block + 6 * page, page);
	child = fork();
	if (child == 0)
		_exit(0);
	assert_int_equal(child_status(child), 0);
	assert_true(arena_clear(block + page, 3 * page));
	assert_true(page_is(block + 2 * page, "r--", false) && page_is(block + 3 * page, "rw-", false));
	assert_true(holds(block, 0, page, 1) && holds(block, page, 4 * page, 0) && holds(block, 4 * page, MIB, 1));
	assert_int_equal(arena_clear(block + 6 * page, page), !locks);
	assert_true(page_is(block + 6 * page, "rw-", locks) && holds(block, 6 * page, 7 * page, locks));
	assert_true(holds(block, 4 * page, 6 * page, 1) && holds(block, 7 * page, MIB, 1));
	assert_true(arena_free(block));
}

/* The child is told of by the parent's blocks as little as by its own later ones. */
static void fork__ends_sharing(void **state)
{
	char *block = block_new(MIB);
	struct arena_place place = place_of(block), found;
	struct arena_header *header = mmap(NULL, 4096, PROT_READ, MAP_SHARED, place.file.fd, 0);
	pid_t child;

	(void)state;
	assert_ptr_not_equal(header, MAP_FAILED);
	assert_int_equal(header->magic, ARENA_MAGIC);
	assert_int_equal(header->retired, 0);
	child = fork();
	if (child == 0)
		_exit(arena_find(block, 1, &found) ? 1 : 0);
	assert_int_equal(child_status(child), 0);
	assert_int_equal(header->retired, 1);
	assert_false(arena_find(block, 1, &found));
	assert_true(arena_free(block));
	block = block_new(MIB);
	assert_true(place_of(block).number > place.number);
	assert_true(arena_free(block));
	munmap(header, 4096);
}

/* While a child lives it has what the parent frees, and then nobody has. */
static void fork__freed_in_the_parent(void **state)
{
	char *freed = block_new(32 * MIB), *kept = block_new(MIB), *last = block_new(MIB);
	int fd = dup(place_of(freed).file.fd);
	struct shared *shared = meeting();
	pid_t child;

	(void)state;
	memset(freed, 1, 32 * MIB);
	child = fork();
	if (child == 0) {
		pthread_barrier_wait(&shared->barrier);
		_exit(holds(freed, 0, 32 * MIB, 1) ? 0 : 1);
	}
	assert_true(arena_free(freed));
	pthread_barrier_wait(&shared->barrier);
	assert_int_equal(child_status(child), 0);
	assert_true(pages_of(fd) >= 32 * MIB);
	assert_true(arena_free(last));
	assert_true(pages_of(fd) < MIB);
	assert_true(arena_free(kept));
	close(fd);
}

/* A child's child has copies of its own, and the first child may be gone. */
static void fork__twice(void **state)
{
	char *block = block_new(4 * MIB);
	struct shared *shared = meeting();
	pid_t child;

	(void)state;
	memset(block, 1, 4 * MIB);
	child = fork();
	if (child == 0) {
		memset(block, 2, 2 * MIB);
		if (fork() > 0)
			_exit(0);
		pthread_barrier_wait(&shared->barrier);
		if (!holds(block, 0, 2 * MIB, 2) || !holds(block, 2 * MIB, 4 * MIB, 1))
			_exit(1); /* the parent waits for ever */
		pthread_barrier_wait(&shared->barrier);
		_exit(0);
	}
	assert_int_equal(child_status(child), 0);
	assert_true(arena_free(block));
	block = block_new(4 * MIB);
	pthread_barrier_wait(&shared->barrier);
	pthread_barrier_wait(&shared->barrier);
	assert_true(arena_free(block));
}

/* More untouched memory than there is: whoever may have it may fork with it. */
static void fork__beside_much_address_space(void **state)
{
	enum { MANY = 16 };
	struct sysinfo info;
	size_t length, all = 0;
	char *many[MANY];
	int count = 0;
	bool zero;
	pid_t child;

	(void)state;
	assert_int_equal(sysinfo(&info), 0);
	length = info.totalram / 4 * info.mem_unit;
	while (count < MANY && all <= (info.totalram + info.totalswap) * info.mem_unit) {
		many[count] = arena_alloc(length, 1, &zero);
		if (!many[count])
			break; /* an arena has not that much */
		many[count++][0] = 42;
		all += length;
	}
	child = fork();
	if (child == 0) {
		bool well = true;

		for (int i = 0; i < count; i++)
			well &= many[i][0] == 42;
		_exit(well ? 0 : 1);
	}
	assert_int_equal(child_status(child), 0);
	for (int i = 0; i < count; i++)
		assert_true(arena_free(many[i]));
}

/* As many as there are places for, each with a block that stays: then there are none, and the blocks go on. */
static void fork__again_and_again(void **state)
{
	char *blocks_[ARENAS_MAX + 3];
	bool zero;

	(void)state;
	for (int i = 0; i < ARENAS_MAX + 3; i++) {
		pid_t child;

		blocks_[i] = arena_alloc(MIB, 1, &zero);
		assert_int_equal(blocks_[i] != NULL, i < ARENAS_MAX);
		if (blocks_[i])
			memset(blocks_[i], i + 1, MIB);
		child = fork();
		if (child == 0)
			_exit(0);
		assert_int_equal(child_status(child), 0);
	}
	for (int i = 0; i < ARENAS_MAX; i++) {
		assert_true(holds(blocks_[i], 0, MIB, (char)(i + 1)));
		assert_true(arena_free(blocks_[i]));
	}
	assert_true(arena_free(block_new(MIB)));
}

/* What was free before needs no place afterwards, and two arenas never have one range. */
static void fork__with_nothing_but_free_blocks(void **state)
{
	char *kept, *block;
	struct arena_place first, second;
	pid_t child;

	(void)state;
	for (int i = 0; i < 2 * ARENAS_MAX; i++) {
		block = block_new(MIB);
		memset(block, 1, MIB);
		assert_true(arena_free(block));
		child = fork();
		if (child == 0)
			_exit(0);
		assert_int_equal(child_status(child), 0);
	}
	kept = block_new(MIB);
	first = place_of(kept);
	near = (char *)(uintptr_t)first.base;
	child = fork();
	if (child == 0)
		_exit(0);
	assert_int_equal(child_status(child), 0);
	block = block_new(MIB);
	second = place_of(block);
	assert_null(near); /* it was tried */
	assert_true(second.base >= first.base + first.size || first.base >= second.base + second.size);
	assert_true(arena_free(kept));
	assert_true(arena_free(block));
}

/* Others write while the address space is copied: what they had written before is there in both. */
static struct {
	char *block;
	bool stop;
	uint64_t count;
} writing;

static void *write_on(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&writing.stop, __ATOMIC_ACQUIRE)) {
		uint64_t count = writing.count + 1;

		for (size_t i = 0; i < MIB; i += 4096)
			*(volatile uint64_t *)(writing.block + i) = count;
		__atomic_store_n(&writing.count, count, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void fork__beside_a_writing_thread(void **state)
{
	pthread_t thread;

	(void)state;
	writing.block = block_new(MIB);
	assert_int_equal(pthread_create(&thread, NULL, write_on, NULL), 0);
	for (int turn = 0; turn < 100; turn++) {
		uint64_t before = __atomic_load_n(&writing.count, __ATOMIC_ACQUIRE);
		pid_t child = fork();

		if (child == 0) {
			for (size_t i = 0; i < MIB; i += 4096)
				if (*(uint64_t *)(writing.block + i) < before)
					_exit(1);
			_exit(0);
		}
		assert_int_equal(child_status(child), 0);
	}
	__atomic_store_n(&writing.stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	for (size_t i = 0; i < MIB; i += 4096)
		assert_int_equal(*(uint64_t *)(writing.block + i), writing.count);
	assert_true(arena_free(writing.block));
}

/* A child has threads of its own, which use arenas in turn. One of them forks, as its parent did. */
static void *take_and_give(void *arg)
{
	(void)arg;
	for (int i = 0; i < 100; i++)
		if (!arena_free(block_new(MIB)))
			_exit(1);
	return NULL;
}

static void *fork_in_turn(void *arg)
{
	pid_t child = fork();

	if (child == 0) {
		take_and_give(NULL);
		_exit(0);
	}
	return child_status(child) == 0 ? arg : NULL;
}

static void fork__a_child_has_threads(void **state)
{
	char *block = block_new(MIB);
	pid_t child = fork();

	(void)state;
	if (child == 0) {
		void *(*const runs[])(void *) = {take_and_give, take_and_give, fork_in_turn};
		pthread_t threads[3];
		void *well = NULL;

		take_and_give(NULL);
		for (int i = 0; i < 3; i++)
			if (pthread_create(&threads[i], NULL, runs[i], block) != 0)
				_exit(2);
		for (int i = 0; i < 3; i++)
			pthread_join(threads[i], &well);
		exit(well ? 0 : 3);
	}
	assert_int_equal(child_status(child), 0);
	assert_true(arena_free(block));
}

/* Handlers of others run while the arenas' own have the lock. */
static struct {
	bool on;
	char *kept;
	int told; /* that there is no block to be had, and how long one is */
} handler;

static void handler_allocates(void)
{
	bool zero;

	if (!handler.on)
		return;
	handler.told += arena_alloc(MIB, 1, &zero) == NULL;
	handler.told += arena_length(handler.kept) == MIB;
}

static int forks_within; /* so many more forks are made before the next one is */

static void handler_forks_too(void)
{
	pid_t child;

	if (forks_within == 0)
		return;
	forks_within--;
	child = fork();
	if (child == 0)
		_exit(0);
	assert_int_equal(child_status(child), 0);
}

__attribute__((constructor(101))) static void handlers_register(void)
{
	pthread_atfork(handler_allocates, handler_allocates, handler_allocates);
	pthread_atfork(handler_forks_too, NULL, NULL);
}

static void fork__beside_handlers_that_allocate(void **state)
{
	pid_t child;

	(void)state;
	handler.kept = block_new(MIB);
	handler.on = true;
	child = fork();
	handler.on = false;
	if (child == 0)
		_exit(handler.told);
	assert_int_equal(handler.told, 4); /* before and after */
	assert_int_equal(child_status(child), 4 << 8);
	assert_true(arena_free(handler.kept));
}

/* The fork around them goes on as if they had not been. */
static void fork__beside_handlers_that_fork(void **state)
{
	char *block = block_new(MIB);
	pid_t child;
	bool zero;

	(void)state;
	memset(block, 1, MIB);
	forks_within = 2;
	child = fork();
	if (child == 0) {
		memset(block, 2, MIB);
		_exit(arena_alloc(MIB, 1, &zero) ? 0 : 1);
	}
	assert_int_equal(child_status(child), 0);
	assert_int_equal(forks_within, 0);
	assert_true(holds(block, 0, MIB, 1));
	assert_true(arena_free(block));
}

static bool interrupted; /* the next hole that is punched is, by a signal */
static bool returns;     /* the child of its handler, when it is told to */
static int told[2];
static pid_t fork_of_handler;

static void handler_forks(int signal)
{
	char byte;

	(void)signal;
	fork_of_handler = fork();
	if (fork_of_handler != 0)
		return;
	if (!returns)
		_exit(0);
	if (read(told[0], &byte, 1) != 1)
		_exit(2);
}

/* The C library's, in its place. */
int fallocate(int fd, int mode, off_t from, off_t length)
{
	if (interrupted) {
		interrupted = false;
		raise(SIGUSR1);
	}
	return (int)syscall(SYS_fallocate, fd, mode, from, length);
}

/* Nor does what it has interrupted go on in the child as if the memory were its own: the parent uses that again. */
static void fork__by_a_handler_that_returns(void **state)
{
	char *block = block_new(80 * MIB);
	bool zero;

	(void)state;
	assert_int_equal(pipe(told), 0);
	signal(SIGUSR1, handler_forks);
	interrupted = returns = true;
	arena_free(block);
	returns = false;
	signal(SIGUSR1, SIG_DFL);
	if (fork_of_handler == 0)
		_exit(arena_alloc(MIB, 1, &zero) == NULL ? 0 : 1);
	assert_true(fork_of_handler > 0);
	assert_ptr_equal(block_new(80 * MIB), block);
	memset(block, 1, 80 * MIB);
	assert_int_equal(write(told[1], "", 1), 1);
	assert_int_equal(child_status(fork_of_handler), 0);
	assert_true(holds(block, 0, 80 * MIB, 1));
	assert_true(arena_free(block));
	close(told[0]);
	close(told[1]);
}

/* A handler may fork wherever it is called, and its child may run another program. */
static void fork__by_a_handler_amid_a_free(void **state)
{
	char *block = block_new(80 * MIB), *kept = block_new(MIB);
	pid_t child;

	(void)state;
	memset(kept, 1, MIB);
	signal(SIGUSR1, handler_forks);
	interrupted = true;
	assert_true(arena_free(block));
	assert_false(interrupted);
	signal(SIGUSR1, SIG_DFL);
	assert_true(fork_of_handler > 0);
	assert_int_equal(child_status(fork_of_handler), 0);
	child = fork(); /* others are as they were */
	if (child == 0)
		_exit(holds(kept, 0, MIB, 1) ? 0 : 1);
	assert_int_equal(child_status(child), 0);
	assert_true(holds(kept, 0, MIB, 1));
	assert_true(arena_free(kept));
}

/* Without fork handlers a child has no blocks: it cannot change its parent's. */
static void fork__by_the_bare_call(void **state)
{
	char *block = block_new(MIB);
	struct arena_place found;
	pid_t child;
	int status;

	(void)state;
	memset(block, 1, MIB);
	child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL);
		*(volatile char *)block = 2;
		_exit(0);
	}
	status = child_status(child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	assert_true(holds(block, 0, MIB, 1));
	assert_true(arena_find(block, 1, &found));
	assert_true(arena_free(block));
}

/* Who runs another program at once costs nothing: blocks stay shared. */
static void spawn__leaves_blocks_shared(void **state)
{
	char *block = block_new(MIB), *const arguments[] = {(char *)"true", NULL};
	struct arena_place found;
	pid_t child;

	(void)state;
	assert_int_equal(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, NULL), 0);
	assert_int_equal(child_status(child), 0);
	assert_true(arena_find(block, 1, &found));
	assert_true(arena_free(block));
}

static void withdraw__is_for_good(void **state)
{
	char *block = block_new(MIB), *other;
	struct arena_place place = place_of(block);
	int fd = dup(place.file.fd);

	(void)state;
	memset(block, 1, MIB);
	other = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)((uintptr_t)block - place.base));
	assert_ptr_not_equal(other, MAP_FAILED);
	arena_withdraw(block + 100, MIB / 2);
	memset(other, 2, MIB);
	assert_true(holds(block, 0, MIB / 2, 1));
	assert_false(arena_find(block, 1, &place));
	assert_true(arena_free(block));
	munmap(other, MIB);
	close(fd);
}

/* Also what the program may not write to itself. */
static void withdraw__of_what_is_protected(void **state)
{
	char *block = block_new(MIB), *other;
	size_t page = (size_t)getpagesize();
	struct arena_place place = place_of(block);
	int fd = dup(place.file.fd);

	(void)state;
	memset(block, 1, MIB);
	other = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)((uintptr_t)block - place.base));
	assert_ptr_not_equal(other, MAP_FAILED);
	assert_int_equal(mprotect(block + page, page, PROT_READ), 0);
	assert_int_equal(mprotect(block + 3 * page, page, PROT_NONE), 0);
	arena_withdraw(block, MIB);
	memset(other, 2, MIB);
	assert_true(page_is(block + page, "r--", false) && page_is(block + 3 * page, "---", false));
	assert_int_equal(mprotect(block, 4 * page, PROT_READ), 0);
	assert_true(holds(block, 0, MIB, 1));
	assert_true(arena_free(block));
	munmap(other, MIB);
	close(fd);
}

/* What a program has freed meanwhile, in the middle or at the end, is not touched. */
static void withdraw__of_what_was_freed(void **state)
{
	char *block = block_new(MIB), *freed = block_new(64 * MIB), *last = block_new(MIB);

	(void)state;
	memset(block, 1, MIB);
	memset(last, 2, MIB);
	assert_true(arena_free(freed));
	arena_withdraw(block, SIZE_MAX);
	arena_withdraw(freed, 64 * MIB);
	assert_true(holds(block, 0, MIB, 1) && holds(last, 0, MIB, 2));
	assert_true(arena_free(last));
	arena_withdraw(last, MIB);
	assert_true(arena_free(block));
}

/* ---- Descriptors that a program takes for its own -------------------------------------------------- */

enum { OTHERS = 8 * MIB, OTHERS_SIZE = 1 << 30 };

/* The program's own file where a memfd was: bytes, and a hole. */
static bool other_at(int fd)
{
	int other = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char *bytes = malloc(OTHERS);
	bool well = other >= 0 && bytes && fd >= 0;

	well = well && memset(bytes, 'x', OTHERS) && write(other, bytes, OTHERS) == OTHERS &&
	       ftruncate(other, OTHERS_SIZE) == 0 && dup2(other, fd) == fd && close(other) == 0;
	free(bytes);
	return well;
}

/* Whether it is there, as long and as full as it was. */
static bool other_is_untouched(int fd)
{
	struct stat status;
	char *bytes = malloc(OTHERS);
	bool well = bytes && fstat(fd, &status) == 0 && status.st_size == OTHERS_SIZE &&
		    status.st_blocks * 512 == OTHERS && fcntl(fd, F_GET_SEALS) == 0 &&
		    pread(fd, bytes, OTHERS, 0) == OTHERS && holds(bytes, 0, OTHERS, 'x');

	free(bytes);
	return well;
}

/* Each in a process of its own, which then has no arena any more. */
static void alone(bool (*test)(void))
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0)
		_exit(test() ? 0 : 1);
	assert_int_equal(child_status(child), 0);
}

static bool freed_into_other(void)
{
	char *kept = block_new(MIB), *large = block_new(80 * MIB);
	int fd = place_of(kept).file.fd;
	struct arena_place place;
	bool zero, well;

	memset(kept, 1, MIB);
	memset(large, 2, 80 * MIB);
	well = other_at(fd) && arena_free(large) && other_is_untouched(fd); /* which would have lost pages */
	well &= !arena_alloc(MIB, 1, &zero) && !arena_find(kept, MIB, &place) && holds(kept, 0, MIB, 1);
	return well && arena_free(kept) && arena_length(kept) == 0 && other_is_untouched(fd);
}

static bool mapped_of_other(void)
{
	char *kept = block_new(MIB), *more;
	int fd = place_of(kept).file.fd;
	bool zero, well = other_at(fd);

	more = arena_alloc(80 * MIB, 1, &zero);
	if (more)
		memset(more, 3, 80 * MIB);
	return well && !more && !arena_resize(kept, 80 * MIB) && other_is_untouched(fd) && arena_free(kept);
}

static bool forked_over_other(void)
{
	char *kept = block_new(MIB);
	int fd = place_of(kept).file.fd, status;
	bool well = other_at(fd);
	pid_t child;

	memset(kept, 1, MIB);
	child = fork();
	if (child == 0)
		_exit(other_is_untouched(fd) ? 0 : 1); /* not closed either */
	well &= waitpid(child, &status, 0) == child && status == 0;
	return well && holds(kept, 0, MIB, 1) && other_is_untouched(fd) && arena_free(kept) && other_is_untouched(fd);
}

/* The page that tells whether there are children. */
static bool sealed_other(void)
{
	char *block = block_new(MIB);
	int out[2], fd, status;
	pid_t child;
	bool well;
	char byte;

	memset(block, 1, MIB);
	if (pipe(out) != 0)
		return false;
	child = fork();
	if (child == 0) {
		close(out[1]);
		_exit(read(out[0], &byte, 1) == 0 && holds(block, 0, MIB, 1) ? 0 : 1);
	}
	fd = descriptor_of("memfd:thole-children");
	well = other_at(fd) && arena_free(block) && other_is_untouched(fd);
	close(out[1]);
	return well && waitpid(child, &status, 0) == child && status == 0;
}

/* The kernel does not tell what is mapped where then: what was made of a block is left as it is. */
static bool forked_without_descriptor(void)
{
	char *block = block_new(MIB), *behind = block_new(MIB), *again = mapped_again(block, place_of(block));
	size_t page = (size_t)getpagesize();
	struct rlimit before;
	int status = -1;
	bool well = true;
	pid_t child;

	memset(block, 1, MIB);
	memset(behind, 1, MIB);
	arena_alter(block, 4 * page);
	if (mmap(block, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != block ||
	    mprotect(block + 2 * page, page, PROT_READ) != 0 || getrlimit(RLIMIT_NOFILE, &before) != 0)
		return false;
	memset(block, 2, page);
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, before.rlim_max});
	child = fork();
	if (child == 0) {
		well = holds(behind, 0, MIB, 1);
		memset(behind, 3, MIB);
		_exit(well ? 0 : 1);
	}
	well &= waitpid(child, &status, 0) == child && status == 0;
	arena_withdraw(block, 2 * MIB);
	setrlimit(RLIMIT_NOFILE, &before);
	arena_withdraw(block, MIB); /* which can be told of now */
	memset(again, 4, MIB);
	return well && holds(block, 0, page, 2) && page_is(block + 2 * page, "r--", false) &&
	       holds(block, page, MIB, 1) && holds(behind, 0, MIB, 1) && arena_free(block) && arena_free(behind);
}

static void descriptor__is_not_to_be_had(void **state)
{
	(void)state;
	alone(forked_without_descriptor);
}

static void descriptor__is_another_files(void **state)
{
	(void)state;
	alone(freed_into_other);
	alone(mapped_of_other);
	alone(forked_over_other);
	alone(sealed_other);
}

/* ---- Limits ---------------------------------------------------------------------------------------- */

/* In a child, under a limit that is set before there is an arena. NULL is no signal. */
static bool works_under(__rlimit_resource_t what, rlim_t limit)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		bool zero;

		if (setrlimit(what, &(struct rlimit){limit, limit}) != 0)
			_exit(2);
		_exit(arena_alloc(MIB, 1, &zero) ? 0 : 1);
	}
	status = child_status(child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
	return status == 0;
}

static void limits__are_the_c_librarys(void **state)
{
	(void)state;
	assert_true(works_under(RLIMIT_CORE, 0));
	assert_false(works_under(RLIMIT_FSIZE, 1 << 20));
	assert_false(works_under(RLIMIT_DATA, (rlim_t)1 << 40));
	assert_false(works_under(RLIMIT_AS, 1 << 20));
	assert_false(works_under(RLIMIT_NOFILE, 0));
}

/* RLIMIT_AS counts what is allocated, and no more than that. */
static void limits__address_space(void **state)
{
	pid_t child = fork();

	(void)state;
	if (child == 0) {
		char *block = block_new(MIB), line[64] = "";
		int fd = open("/proc/self/statm", O_RDONLY);
		rlim_t limit;
		bool zero;

		if (read(fd, line, sizeof(line) - 1) <= 0)
			_exit(2);
		limit = (rlim_t)strtoull(line, NULL, 10) * (rlim_t)getpagesize() + 32 * MIB;
		setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit});
		if (arena_alloc(64 * MIB, 1, &zero) || !(block = arena_alloc(16 * MIB, 1, &zero)))
			_exit(3);
		memset(block, 1, 16 * MIB);
		_exit(0);
	}
	assert_int_equal(child_status(child), 0);
}

/* Private memory counts as data. A limit that was lowered since does not keep a child from its blocks. */
static bool forked_under_less_data(void)
{
	char *block = block_new(8 * MIB);
	struct rlimit before, after, less;
	int status;
	pid_t child;

	memset(block, 1, 8 * MIB);
	if (getrlimit(RLIMIT_DATA, &before) != 0)
		return false;
	less = (struct rlimit){MIB, before.rlim_max};
	setrlimit(RLIMIT_DATA, &less);
	child = fork();
	if (child == 0)
		_exit(holds(block, 0, 8 * MIB, 1) ? 0 : 1);
	getrlimit(RLIMIT_DATA, &after);
	setrlimit(RLIMIT_DATA, &before);
	return waitpid(child, &status, 0) == child && status == 0 && after.rlim_cur == less.rlim_cur &&
	       after.rlim_max == less.rlim_max && holds(block, 0, 8 * MIB, 1) && arena_free(block);
}

static void limits__lowered_since(void **state)
{
	(void)state;
	alone(forked_under_less_data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks__do_not_touch_each_other),
		cmocka_unit_test(blocks__are_known),
		cmocka_unit_test(blocks__what_is_too_much_is_refused),
		cmocka_unit_test(blocks__of_others_are_not_ours),
		cmocka_unit_test(blocks__are_where_their_place_says),
		cmocka_unit_test(altered__until_it_is_freed),
		cmocka_unit_test(altered__what_is_touched),
		cmocka_unit_test(altered__too_many),
		cmocka_unit_test(altered__pages_let_go),
		cmocka_unit_test(freed__goes_back_to_the_kernel),
		cmocka_unit_test(alloc__short_and_long),
		cmocka_unit_test(free__of_a_cancelled_thread),
		cmocka_unit_test(fork__each_has_its_own),
		cmocka_unit_test(fork__keeps_what_was_made_of_a_block),
		cmocka_unit_test(fork__pages_let_go_keep_their_rights),
		cmocka_unit_test(fork__ends_sharing),
		cmocka_unit_test(fork__freed_in_the_parent),
		cmocka_unit_test(fork__twice),
		cmocka_unit_test(fork__beside_much_address_space),
		cmocka_unit_test(fork__again_and_again),
		cmocka_unit_test(fork__with_nothing_but_free_blocks),
		cmocka_unit_test(fork__beside_a_writing_thread),
		cmocka_unit_test(fork__a_child_has_threads),
		cmocka_unit_test(fork__beside_handlers_that_allocate),
		cmocka_unit_test(fork__beside_handlers_that_fork),
		cmocka_unit_test(fork__by_a_handler_amid_a_free),
		cmocka_unit_test(fork__by_a_handler_that_returns),
		cmocka_unit_test(fork__by_the_bare_call),
		cmocka_unit_test(spawn__leaves_blocks_shared),
		cmocka_unit_test(withdraw__is_for_good),
		cmocka_unit_test(withdraw__of_what_is_protected),
		cmocka_unit_test(withdraw__of_what_was_freed),
		cmocka_unit_test(descriptor__is_another_files),
		cmocka_unit_test(descriptor__is_not_to_be_had),
		cmocka_unit_test(limits__are_the_c_librarys),
		cmocka_unit_test(limits__address_space),
		cmocka_unit_test(limits__lowered_since),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
