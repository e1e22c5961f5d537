/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heap-hooks: a program under the library that thole run --shared-heap preloads, and a library that hears of its
 * memory, of allocations and of other: all that it maps anew, protects, lets go and unmaps.
 */
#include <stdint.h>
#include <sys/mman.h>

#include "base/arena.h"
#include "heap_hears.h"
#include "ranks.h"

enum { LARGE = 1 << 20 };

static void hears(const char *call, const void *address, size_t length, int how)
{
	CHECK(heard.call && strcmp(heard.call, call) == 0);
	CHECK(heard.address == address && heard.length == length && heard.how == how);
	heard.call = NULL;
}

static void all_is_heard(char *memory, size_t page)
{
	const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;

	CHECK_EQUAL(mprotect(memory, page, PROT_NONE), 0);
	hears("mprotect", memory, page, PROT_NONE);
	CHECK(mmap(memory, page, PROT_READ | PROT_WRITE, kind, -1, 0) == memory);
	hears("mmap", memory, page, kind);
	CHECK(mremap(memory, page, page, MREMAP_MAYMOVE) == memory);
	hears("mremap", memory, page, MREMAP_MAYMOVE);
	CHECK_EQUAL(munmap(memory, page), 0);
	hears("munmap", memory, page, 0);
}

/* MADV_FREE takes pages of an allocation at once, which nobody else knows of that word. */
static void what_is_let_go_is_heard(char *memory, size_t page, int advice, int told)
{
	memset(memory, 1, 2 * page);
	CHECK_EQUAL(madvise(memory, page, advice), 0);
	hears("madvise", memory, page, told);
	CHECK(memory[page] == 1);
	CHECK(told != MADV_DONTNEED || (memory[0] == 0 && memory[page - 1] == 0));
}

int main(void)
{
	const size_t page = (size_t)getpagesize();
	char *other = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *block = malloc(LARGE);

	CHECK(arena_is_near(block) && other != MAP_FAILED);
	what_is_let_go_is_heard(block, page, MADV_DONTNEED, MADV_DONTNEED);
	what_is_let_go_is_heard(block, page, MADV_FREE, MADV_DONTNEED);
	what_is_let_go_is_heard(other, page, MADV_DONTNEED, MADV_DONTNEED);
	what_is_let_go_is_heard(other, page, MADV_FREE, MADV_FREE);
	all_is_heard(block + 4 * page, page);
	all_is_heard(other + 4 * page, page);
	what_is_let_go_is_heard(block, page, MADV_DONTNEED, MADV_DONTNEED);
	free(block);
	return 0;
}
