/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heap-other: an allocator that a program is linked to, as to tcmalloc: behind the library that thole run --shared-heap
 * preloads. With OTHER_NAMES it has those that the C library has for its own, too; with OTHER_SILENT it has what the
 * standards ask for alone: nobody is told how long its blocks are, and there is no memalign. It knows its blocks: what
 * it is given that is none is the end.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* In front of each block. */
struct front {
	void *whole; /* the C library's block */
	size_t size;
	uintptr_t sign; /* the block's address, turned */
	size_t lie;     /* for the C library, which looks here for a length, it is one of 24 bytes */
};

enum { LIE = 0x21 };

static struct front *front_of(void *memory)
{
	struct front *front = (struct front *)memory - 1;

	if (front->sign != ~(uintptr_t)memory)
		abort();
	return front;
}

static void *other_memalign(size_t alignment, size_t size)
{
	static void *(*allocate)(size_t size);
	size_t all;
	uintptr_t place;
	void *whole;

	if (!allocate)
		*(void **)&allocate = dlsym(RTLD_NEXT, "malloc");
	if (alignment < 16)
		alignment = 16;
	if (__builtin_add_overflow(size, alignment + sizeof(struct front), &all))
		all = SIZE_MAX; /* which is refused */
	whole = allocate(all);
	if (!whole)
		return NULL;
	place = ((uintptr_t)whole + sizeof(struct front) + alignment - 1) & ~(alignment - 1);
	((struct front *)place)[-1] = (struct front){whole, size, ~place, LIE};
	return (void *)place;
}

static int other_posix_memalign(void **memory_p, size_t alignment, size_t size)
{
	void *memory;

	if (alignment < sizeof(void *) || (alignment & (alignment - 1)))
		return EINVAL;
	memory = other_memalign(alignment, size);
	if (!memory)
		return ENOMEM;
	*memory_p = memory;
	return 0;
}

static void *other_malloc(size_t size)
{
	return other_memalign(16, size);
}

static void other_free(void *memory)
{
	static void (*give)(void *memory);
	struct front *front;

	if (!memory)
		return;
	front = front_of(memory);
	if (!give)
		*(void **)&give = dlsym(RTLD_NEXT, "free");
	front->sign = 0;
	give(front->whole);
}

static void *other_calloc(size_t count, size_t size)
{
	size_t all;
	void *memory = other_malloc(__builtin_mul_overflow(count, size, &all) ? SIZE_MAX : all);

	return memory ? memset(memory, 0, all) : NULL;
}

static size_t other_size(void *memory)
{
	return memory ? front_of(memory)->size : 0;
}

static void *other_realloc(void *old, size_t size)
{
	size_t had = other_size(old);
	void *moved = size > 0 ? other_malloc(size) : NULL;

	if (size > 0 && !moved)
		return NULL;
	if (moved && old)
		memcpy(moved, old, had < size ? had : size);
	other_free(old);
	return moved;
}

static void other_free_sized(void *memory, size_t size, int flags)
{
	(void)flags;
	if (front_of(memory)->size != size)
		abort();
	other_free(memory);
}

static void other_free_plain(void *memory, int flags)
{
	(void)flags;
	other_free(memory);
}

#define OTHER_NAMED(type, name, other, ...) \
	__attribute__((visibility("default"), alias(#other))) type name(__VA_ARGS__)
#ifdef OTHER_NAMES
#define OTHER(type, name, other, ...) \
	OTHER_NAMED(type, name, other, __VA_ARGS__); \
	OTHER_NAMED(type, __libc_##name, other, __VA_ARGS__)
#else
#define OTHER OTHER_NAMED
#endif

OTHER(void *, malloc, other_malloc, size_t size);
OTHER(void *, calloc, other_calloc, size_t count, size_t size);
OTHER(void *, realloc, other_realloc, void *old, size_t size);
OTHER(void *, aligned_alloc, other_memalign, size_t alignment, size_t size);
OTHER(int, posix_memalign, other_posix_memalign, void **memory_p, size_t alignment, size_t size);
OTHER(void, free, other_free, void *memory);
OTHER_NAMED(void, sdallocx, other_free_sized, void *memory, size_t size, int flags); /* as jemalloc */
OTHER_NAMED(void, dallocx, other_free_plain, void *memory, int flags);
#ifndef OTHER_SILENT
OTHER(void *, memalign, other_memalign, size_t alignment, size_t size);
OTHER(size_t, malloc_usable_size, other_size, void *memory);
#endif
