/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heap-malloc: a program under the library that thole run --shared-heap preloads. Large allocations are of arenas, all
 * functions mean what they mean without it, a child of fork has copies, and a program that is run has nothing.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/blocks.h"
#include "base/random.h"
#include "ranks.h"

enum { SMALL = 1000, LARGE = 1 << 20, LEAST = 128 << 10, THREADS = 4, SLOTS = 64, STEPS = 20000 };

extern char **environ;

/* Whether it is of an arena, as the kernel sees it. */
static bool is_shared(const void *memory)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	bool found = false;

	CHECK(maps);
	while (fgets(line, sizeof(line), maps)) {
		uintptr_t from, to;

		if (strstr(line, "memfd:thole-heap") && sscanf(line, "%lx-%lx", &from, &to) == 2)
			found |= (uintptr_t)memory >= from && (uintptr_t)memory < to;
	}
	fclose(maps);
	return found;
}

static bool holds(const void *memory, size_t from, size_t to, int byte)
{
	for (size_t i = from; i < to; i++)
		if (((const unsigned char *)memory)[i] != byte)
			return false;
	return true;
}

static void each_function(void)
{
	struct arena_place place;
	void *memory[8] = {malloc(LARGE), calloc(LARGE / 8, 8), aligned_alloc(4096, LARGE), memalign(1 << 20, LARGE),
			   valloc(LARGE), pvalloc(LARGE + 1), realloc(NULL, LARGE), NULL};

	CHECK_EQUAL(posix_memalign(&memory[7], 64, LARGE), 0);
	CHECK(holds(memory[1], 0, LARGE, 0));
	CHECK_EQUAL((uintptr_t)memory[3] % (1 << 20), 0);
	CHECK_EQUAL((uintptr_t)memory[4] % 4096, 0);
	for (int i = 0; i < 8; i++) {
		CHECK(is_shared(memory[i]));
		CHECK(malloc_usable_size(memory[i]) >= LARGE);
		memset(memory[i], i + 1, malloc_usable_size(memory[i]));
	}
	for (int i = 0; i < 8; i++) {
		CHECK(holds(memory[i], 0, LARGE, i + 1));
		free(memory[i]);
	}
	memory[0] = calloc(1, LARGE); /* where something was */
	CHECK(holds(memory[0], 0, LARGE, 0));
	free(memory[0]);
	memory[0] = malloc(LEAST - 1);
	memory[1] = malloc(LEAST);
	CHECK(!is_shared(memory[0]) && is_shared(memory[1]));
	CHECK(blocks()->find(memory[1], LEAST, &place)); /* as an endpoint finds it */
	free(memory[0]);
	free(memory[1]);
	memory[0] = pvalloc(1); /* pages, of which each is whole */
	CHECK(malloc_usable_size(memory[0]) >= 4096);
	free(memory[0]);
	free(NULL);
	CHECK_EQUAL(malloc_usable_size(NULL), 0);
}

/* jemalloc gives objects of C++ aligned_alloc's memory, and takes it back by functions of its own. */
static void given_back(void)
{
	static const size_t lengths[] = {SMALL, LARGE};
	void (*sized)(void *memory, size_t length, int flags);
	void (*plain)(void *memory, int flags);

	*(void **)&sized = dlsym(RTLD_DEFAULT, "sdallocx");
	*(void **)&plain = dlsym(RTLD_DEFAULT, "dallocx");
	CHECK(sized && plain);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		sized(aligned_alloc(64, lengths[i]), lengths[i], 0);
		plain(malloc(lengths[i]), 0);
	}
}

/* From the C library to an arena, on in it, and back. */
static void realloc_keeps(void)
{
	static const size_t lengths[] = {SMALL, LARGE, 3 * LARGE, 70 * LARGE, 2 * LARGE,
					 LEAST, SMALL, 2 * LARGE, LARGE};
	size_t had = 0;
	char *memory = NULL, *other = NULL;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		size_t length = lengths[i];

		memory = i % 2 ? realloc(memory, length) : reallocarray(memory, length / 8, 8);
		CHECK(memory);
		CHECK(holds(memory, 0, had < length ? had : length, 0x55));
		CHECK_EQUAL(is_shared(memory), length >= LEAST);
		memset(memory, 0x55, length);
		had = length;
		free(other);
		other = malloc(LARGE); /* in the way */
	}
	free(other);
	CHECK(!realloc(memory, 0));
}

static void refusals(void)
{
	/* The compiler knows what it does to errno. */
	int (*volatile by_result)(void **, size_t, size_t) = posix_memalign;
	volatile size_t most = SIZE_MAX;
	void *memory = &memory;

	errno = 0;
	CHECK(!malloc(most) && errno == ENOMEM);
	CHECK(!calloc(most / 2, 4) && errno == ENOMEM);
	CHECK(!reallocarray(NULL, most / 2, 4) && errno == ENOMEM);
	CHECK(!reallocarray(NULL, most / 16 + 1, 16) && errno == ENOMEM); /* of which 0 would be left */
	CHECK(!pvalloc(most));
	errno = 77;
	CHECK_EQUAL(by_result(&memory, 64, most), ENOMEM);
	CHECK(memory == &memory && errno == 77); /* so it says, and nowhere else */
	CHECK(!malloc((size_t)1 << 46));
	CHECK_EQUAL(posix_memalign(&memory, 24, LARGE), EINVAL);
	CHECK_EQUAL(posix_memalign(&memory, 2, LARGE), EINVAL);
	CHECK(memory == &memory);
	memory = malloc(LARGE);
	CHECK(!realloc(memory, most)); /* it is there still */
	CHECK(is_shared(memory));
	free(memory);
}

static void *thread_main(void *arg)
{
	static void *slots[SLOTS];
	uint64_t random = (uintptr_t)arg;

	for (int step = 0; step < STEPS; step++) {
		size_t length = 8 + random_below(&random, random_below(&random, 8) ? 4096 : 2 * LARGE);
		uint64_t *memory = random_below(&random, 2) ? malloc(length) : calloc(1, length), *old;

		CHECK(memory);
		memory[0] = (uintptr_t)memory;
		old = __atomic_exchange_n(&slots[random_below(&random, SLOTS)], memory, __ATOMIC_ACQ_REL);
		CHECK(!old || old[0] == (uintptr_t)old);
		free(old); /* another thread's, as a rule */
	}
	return NULL;
}

static void threads(void)
{
	pthread_t thread[THREADS];

	for (int i = 0; i < THREADS; i++)
		CHECK_EQUAL(pthread_create(&thread[i], NULL, thread_main, (void *)(uintptr_t)(i + 1)), 0);
	for (int i = 0; i < THREADS; i++) {
		if (i == 1) { /* beside those that allocate */
			pid_t child = fork();
			int status;

			if (child == 0) {
				void *memory = malloc(LARGE);

				memset(memory, 1, LARGE);
				free(memory);
				_exit(0);
			}
			CHECK_EQUAL(waitpid(child, &status, 0), child);
			CHECK_EQUAL(status, 0);
		}
		pthread_join(thread[i], NULL);
	}
}

static void fork_copies(void)
{
	char *memory = malloc(8 * LARGE);
	int to_parent[2], to_child[2], status;
	pid_t child;
	char byte;

	memset(memory, 1, 8 * LARGE);
	CHECK_EQUAL(pipe(to_parent) | pipe(to_child), 0);
	child = fork();
	if (child == 0) {
		bool well = holds(memory, 0, 8 * LARGE, 1);

		memset(memory, 2, 3 * LARGE);
		well &= write(to_parent[1], "", 1) == 1 && read(to_child[0], &byte, 1) == 1;
		well &= holds(memory, 0, 3 * LARGE, 2) && holds(memory, 3 * LARGE, 8 * LARGE, 1);
		memory = realloc(memory, 20 * LARGE);
		well &= holds(memory, 0, 3 * LARGE, 2) && holds(memory, 3 * LARGE, 8 * LARGE, 1);
		free(memory);
		_exit(well ? 0 : 1);
	}
	memset(memory + 2 * LARGE, 3, 3 * LARGE);
	CHECK(read(to_parent[0], &byte, 1) == 1);
	CHECK(holds(memory, 0, 2 * LARGE, 1) && holds(memory, 2 * LARGE, 5 * LARGE, 3) &&
	      holds(memory, 5 * LARGE, 8 * LARGE, 1));
	CHECK(write(to_child[1], "", 1) == 1);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	CHECK(holds(memory, 0, 2 * LARGE, 1) && holds(memory, 2 * LARGE, 5 * LARGE, 3) &&
	      holds(memory, 5 * LARGE, 8 * LARGE, 1));
	free(memory);
}

/* Pages that are let go hold zeros, and others what they did; before a fork, after it, and in the child. */
static void pages_let_go(char *memory, size_t page, int advice)
{
	memset(memory, 1, LARGE);
	errno = EDOM;
	CHECK_EQUAL(madvise(memory + page, 3 * page - 1, advice), 0);
	CHECK_EQUAL(errno, EDOM);
	CHECK(holds(memory, 0, page, 1) && holds(memory, page, 4 * page, 0) && holds(memory, 4 * page, LARGE, 1));
	memset(memory + page, 2, page);
	CHECK(holds(memory, page, 2 * page, 2) && holds(memory, 2 * page, 4 * page, 0));
}

static void advice_let_go(void)
{
	size_t page = (size_t)getpagesize();
	char *first = malloc(LARGE), *memory = malloc(LARGE), *behind = malloc(LARGE);
	pid_t child;
	int status;

	CHECK(is_shared(memory));
	pages_let_go(memory, page, MADV_DONTNEED);
	pages_let_go(memory, page, MADV_FREE);
	memset(first, 3, LARGE);
	memset(behind, 3, LARGE);
	/* As the kernel has it: nothing at all, and nothing that is not whole pages. */
	CHECK_EQUAL(madvise(memory, 0, MADV_DONTNEED), 0);
	CHECK(madvise(memory + 1, page, MADV_DONTNEED) == -1 && errno == EINVAL);
	CHECK(madvise(memory, SIZE_MAX, MADV_DONTNEED) == -1 && errno == EINVAL);
	CHECK(madvise(memory, page, -1) == -1 && errno == EINVAL);
	CHECK_EQUAL(madvise(memory, LARGE, MADV_WILLNEED), 0);
	CHECK(holds(memory, 0, page, 1));
	child = fork();
	if (child == 0) {
		pages_let_go(memory, page, MADV_DONTNEED);
		CHECK_EQUAL(madvise(memory, LARGE, MADV_DONTNEED), 0);
		CHECK(holds(memory, 0, LARGE, 0) && holds(first, 0, LARGE, 3) && holds(behind, 0, LARGE, 3));
		free(memory);
		_exit(0);
	}
	CHECK(holds(memory, 0, page, 1));
	pages_let_go(memory, page, MADV_DONTNEED);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	CHECK(holds(first, 0, LARGE, 3) && holds(behind, 0, LARGE, 3));
	free(first);
	free(memory);
	free(behind);
	memory = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* nothing of ours */
	pages_let_go(memory, page, MADV_DONTNEED);
	munmap(memory, LARGE);
}

static bool is_for_peers(const void *memory)
{
	struct arena_place place;

	return blocks()->find(memory, LARGE, &place);
}

/* What a program maps, unmaps or protects of a block is not what peers would find there; the next block is. */
static void block_altered(void)
{
	enum { WAYS = 7 };
	size_t page = (size_t)getpagesize();

	for (int way = 0; way < WAYS; way++) {
		char *before = malloc(LARGE), *memory = malloc(LARGE), *at = memory + 4 * page, *other;

		memset(memory, 1, LARGE);
		CHECK(is_for_peers(memory));
		CHECK_EQUAL(mprotect(at, page, PROT_READ | PROT_WRITE), 0); /* as it is */
		other = mmap(at, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* elsewhere */
		CHECK(other != MAP_FAILED && other != at && is_for_peers(memory));
		if (way == 0) {
			CHECK(mmap(at, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
		} else if (way == 1) {
			void *(*volatile plain)(void *, size_t, int, int, int, off_t) =
				(void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_DEFAULT, "mmap");

			CHECK(plain(at, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
		} else if (way == 2) {
			CHECK_EQUAL(munmap(at, page), 0);
		} else if (way == 3) {
			CHECK(mremap(other, page, page, MREMAP_FIXED | MREMAP_MAYMOVE, at) == at);
		} else if (way == 4) {
			CHECK(mremap(at, page, page, MREMAP_FIXED | MREMAP_MAYMOVE, other) == other);
		} else {
			CHECK_EQUAL(mprotect(at, page, way == 5 ? PROT_READ : PROT_NONE), 0);
		}
		CHECK(!is_for_peers(memory) && is_for_peers(before));
		CHECK(holds(memory, 0, 4 * page, 1) && holds(memory, 5 * page, LARGE, 1));
		free(memory);
		memory = malloc(LARGE);
		CHECK(is_shared(memory) && is_for_peers(memory));
		memset(memory, 2, LARGE);
		free(memory);
		free(before);
		if (way != 3)
			munmap(other, page);
	}
}

/* Descriptors of arenas. */
static int arenas_open(void)
{
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *entry;
	int count = 0;

	CHECK(folder);
	while ((entry = readdir(folder))) {
		char path[300], target[100] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		if (readlink(path, target, sizeof(target) - 1) > 0)
			count += strstr(target, "memfd:thole") != NULL;
	}
	closedir(folder);
	return count;
}

static void exec_has_nothing(char *self)
{
	char *arguments[] = {self, (char *)"run", NULL};
	void *memory = malloc(LARGE);
	pid_t child;
	int status;

	CHECK(arenas_open() > 0);
	CHECK_EQUAL(posix_spawn(&child, self, NULL, NULL, arguments, environ), 0);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	CHECK(is_shared(memory));
	free(memory);
}

/* A program that closes all that it has not opened, and has a file of its own there later. The last: nothing is of an
 * arena any more. */
static void descriptor_of_another(void)
{
	enum { BYTES = 8 * LARGE, SIZE = 256 * LARGE };
	char *kept = malloc(LARGE), *large = malloc(80 * LARGE), *bytes = malloc(BYTES), path[64], target[100];
	int other = memfd_create("other", MFD_CLOEXEC), put = 0, status;
	struct stat before, after;
	pid_t child;

	memset(kept, 1, LARGE);
	memset(large, 2, 80 * LARGE);
	memset(bytes, 'x', BYTES);
	CHECK(is_shared(kept) && is_shared(large));
	CHECK_EQUAL(write(other, bytes, BYTES), BYTES);
	CHECK_EQUAL(ftruncate(other, SIZE), 0);
	CHECK_EQUAL(fstat(other, &before), 0);
	for (int fd = 0; fd < 2048; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		memset(target, 0, sizeof(target));
		if (readlink(path, target, sizeof(target) - 1) > 0 && strstr(target, "memfd:thole"))
			put += dup2(other, fd) == fd;
	}
	CHECK(put > 0 && arenas_open() == 0);
	free(large);
	large = malloc(64 * LARGE);
	CHECK(large && !is_shared(large));
	memset(large, 3, 64 * LARGE);
	free(large);
	kept = realloc(kept, 100 * LARGE);
	CHECK(kept && holds(kept, 0, LARGE, 1));
	memset(kept, 4, 100 * LARGE);
	child = fork();
	if (child == 0) {
		free(kept);
		_exit(holds(bytes, 0, BYTES, 'x') ? 0 : 1);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	free(kept);
	CHECK_EQUAL(fstat(other, &after), 0);
	CHECK_EQUAL(after.st_blocks, before.st_blocks);
	memset(bytes, 0, BYTES);
	CHECK_EQUAL(pread(other, bytes, BYTES, 0), BYTES);
	CHECK(holds(bytes, 0, BYTES, 'x'));
	free(bytes);
}

int main(int count, char **arguments)
{
	if (count > 1)
		return arenas_open();
	each_function();
	given_back();
	realloc_keeps();
	refusals();
	fork_copies();
	advice_let_go();
	block_altered();
	exec_has_nothing(arguments[0]);
	threads();
	descriptor_of_another();
	return 0;
}
