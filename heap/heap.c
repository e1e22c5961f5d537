/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heap: malloc and its like for programs that thole run --shared-heap starts: allocations of option shared_heap_min
 * bytes or more come from arenas, which peers map (src/base/arena.h), all others from the next library that has these
 * functions: the C library, or an allocator that the program is linked to. madvise, since pages that are let go hold
 * zeros where memory is no file's. mmap and its like, since peers are not to use what a program has mapped over a part
 * of a block, or protected.
 *
 * Owns the functions' meaning for blocks of arenas; what is none is the next library's, all of it one library's. That
 * is looked up by the first call, when there are no threads yet. Until the constructor has run, and where an arena has
 * no room, all is the next library's; so it is where that cannot say how long its blocks are.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/options.h"

#define HEAP_API __attribute__((visibility("default")))

HEAP_API const struct arena_calls *thole_heap_arenas(void);

static size_t least = SIZE_MAX; /* bytes from which a block is of an arena */

/* Of the next library: others may want to hear of what is mapped and let go, too. NULL: not looked up yet. */
static struct {
	void *(*malloc)(size_t size);
	void *(*calloc)(size_t count, size_t size);
	void *(*realloc)(void *old, size_t size);
	void *(*memalign)(size_t alignment, size_t size);
	void *(*aligned_alloc)(size_t alignment, size_t size);
	int (*posix_memalign)(void **memory_p, size_t alignment, size_t size);
	void (*free)(void *memory);
	size_t (*usable_size)(void *memory);
	void *(*mmap)(void *address, size_t length, int rights, int flags, int fd, off_t offset);
	int (*munmap)(void *address, size_t length);
	void *(*mremap)(void *old, size_t had, size_t length, int flags, ...);
	int (*mprotect)(void *address, size_t length, int rights);
	int (*madvise)(void *address, size_t length, int advice);
} next;

static void next_find(void)
{
	*(void **)&next.mmap = dlsym(RTLD_NEXT, "mmap");
	*(void **)&next.munmap = dlsym(RTLD_NEXT, "munmap");
	*(void **)&next.mremap = dlsym(RTLD_NEXT, "mremap");
	*(void **)&next.mprotect = dlsym(RTLD_NEXT, "mprotect");
	*(void **)&next.madvise = dlsym(RTLD_NEXT, "madvise");
	*(void **)&next.malloc = dlsym(RTLD_NEXT, "malloc");
	*(void **)&next.calloc = dlsym(RTLD_NEXT, "calloc");
	*(void **)&next.realloc = dlsym(RTLD_NEXT, "realloc");
	*(void **)&next.memalign = dlsym(RTLD_NEXT, "memalign");
	*(void **)&next.aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
	*(void **)&next.posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
	*(void **)&next.free = dlsym(RTLD_NEXT, "free");
	*(void **)&next.usable_size = dlsym(RTLD_NEXT, "malloc_usable_size"); /* the last one: all are known then */
}

/* Before memory is asked for or given back. */
static void next_need(void)
{
	if (__builtin_expect(!next.usable_size, false))
		next_find();
}

/* Whether the next library's blocks have a length that it knows. */
static bool next_knows_lengths(void)
{
	Dl_info lengths, blocks;

	return dladdr((void *)(uintptr_t)next.usable_size, &lengths) && dladdr((void *)(uintptr_t)next.malloc, &blocks) &&
	       lengths.dli_fbase == blocks.dli_fbase;
}

__attribute__((constructor)) static void heap_begin(void)
{
	static struct options options;

	next_need();
	options_load(&options, NULL); /* what is wrong is not taken, and an endpoint says so */
	if (next_knows_lengths())
		least = options.shared_heap_min;
}

const struct arena_calls *thole_heap_arenas(void)
{
	return &arena_calls;
}

static void *heap_block(size_t size, size_t alignment, bool *zero_p)
{
	return size >= least ? arena_alloc(size, alignment, zero_p) : NULL;
}

HEAP_API void *malloc(size_t size)
{
	bool zero;
	void *block = heap_block(size, 1, &zero);

	next_need();
	return block ? block : next.malloc(size);
}

HEAP_API void free(void *memory)
{
	next_need();
	if (!arena_is_near(memory) || !arena_free(memory))
		next.free(memory);
}

/* jemalloc's: what its new has from aligned_alloc, by that name, its delete gives back so. free means the same there. */
HEAP_API void sdallocx(void *memory, size_t size, int flags);
HEAP_API void dallocx(void *memory, int flags);

void sdallocx(void *memory, size_t size, int flags)
{
	(void)size, (void)flags;
	free(memory);
}

void dallocx(void *memory, int flags)
{
	(void)flags;
	free(memory);
}

HEAP_API void *calloc(size_t count, size_t size)
{
	bool zero;
	size_t whole;
	void *block;

	next_need();
	if (__builtin_mul_overflow(count, size, &whole))
		return next.calloc(count, size); /* which refuses it */
	block = heap_block(whole, 1, &zero);
	if (!block)
		return next.calloc(count, size);
	return zero ? block : memset(block, 0, whole);
}

HEAP_API void *realloc(void *old, size_t size)
{
	size_t had = arena_length(old);
	bool zero;
	void *moved;

	next_need();
	if (!had) {
		/* What the next library has that is as long is there because an arena had no room. */
		if (old && (size < least || next.usable_size(old) >= least))
			return next.realloc(old, size);
		moved = heap_block(size, 1, &zero);
		if (!moved)
			return next.realloc(old, size);
		had = old ? next.usable_size(old) : 0;
	} else if (size >= least && arena_resize(old, size)) {
		return old;
	} else {
		moved = size > 0 ? malloc(size) : NULL;
		if (!moved && size > 0)
			return NULL;
	}
	if (moved && had > 0)
		memcpy(moved, old, had < size ? had : size);
	free(old);
	return moved;
}

HEAP_API void *reallocarray(void *old, size_t count, size_t size)
{
	size_t whole;

	if (!__builtin_mul_overflow(count, size, &whole))
		return realloc(old, whole);
	errno = ENOMEM;
	return NULL;
}

static void *heap_aligned(size_t alignment, size_t size)
{
	bool zero;

	return alignment && !(alignment & (alignment - 1)) ? heap_block(size, alignment, &zero) : NULL;
}

/* Of these three each is the next library's own: one that has what the standards ask for has no memalign. */
HEAP_API void *memalign(size_t alignment, size_t size)
{
	void *block = heap_aligned(alignment, size);

	next_need();
	return block ? block : next.memalign(alignment, size);
}

HEAP_API void *aligned_alloc(size_t alignment, size_t size)
{
	void *block = heap_aligned(alignment, size);

	next_need();
	return block ? block : next.aligned_alloc(alignment, size);
}

HEAP_API int posix_memalign(void **memory_p, size_t alignment, size_t size)
{
	int error = errno, refused;
	void *block = alignment >= sizeof(void *) ? heap_aligned(alignment, size) : NULL;

	if (block) {
		*memory_p = block;
		return 0;
	}
	next_need();
	refused = next.posix_memalign(memory_p, alignment, size);
	errno = error;
	return refused;
}

HEAP_API void *valloc(size_t size)
{
	return memalign((size_t)getpagesize(), size);
}

HEAP_API void *pvalloc(size_t size)
{
	size_t page = (size_t)getpagesize(), whole;

	if (!__builtin_add_overflow(size, page - 1, &whole))
		return memalign(page, whole & ~(page - 1));
	errno = ENOMEM;
	return NULL;
}

HEAP_API size_t malloc_usable_size(void *memory)
{
	size_t length = arena_length(memory);

	next_need();
	return length ? length : next.usable_size(memory);
}

/* ---- Memory of blocks that becomes something else -------------------------------------------------- */

/* Both are one in the C library, and either may be what the headers call mmap. */
HEAP_API void *heap_mmap(void *address, size_t length, int rights, int flags, int fd, off_t offset) __asm__("mmap");
HEAP_API void *heap_mmap64(void *address, size_t length, int rights, int flags, int fd, off_t offset)
	__asm__("mmap64") __attribute__((alias("mmap")));

void *heap_mmap(void *address, size_t length, int rights, int flags, int fd, off_t offset)
{
	if (flags & MAP_FIXED)
		arena_alter(address, length);
	return next.mmap ? next.mmap(address, length, rights, flags, fd, offset)
			 : (void *)syscall(SYS_mmap, address, length, rights, flags, fd, offset);
}

HEAP_API int munmap(void *address, size_t length)
{
	arena_alter(address, length);
	return next.munmap ? next.munmap(address, length) : (int)syscall(SYS_munmap, address, length);
}

HEAP_API void *mremap(void *old, size_t had, size_t length, int flags, ...)
{
	void *place = NULL;
	va_list rest;

	va_start(rest, flags);
	if (flags & MREMAP_FIXED)
		place = va_arg(rest, void *);
	va_end(rest);
	arena_alter(old, had);
	arena_alter(place, length);
	return next.mremap ? next.mremap(old, had, length, flags, place)
			   : (void *)syscall(SYS_mremap, old, had, length, flags, place);
}

/* What may be read and written is for peers as well. */
HEAP_API int mprotect(void *address, size_t length, int rights)
{
	if ((rights & (PROT_READ | PROT_WRITE)) != (PROT_READ | PROT_WRITE))
		arena_alter(address, length);
	return next.mprotect ? next.mprotect(address, length, rights)
			     : (int)syscall(SYS_mprotect, address, length, rights);
}

static int heap_advise(void *address, size_t length, int advice)
{
	return next.madvise ? next.madvise(address, length, advice)
			    : (int)syscall(SYS_madvise, address, length, advice);
}

/* Who wants to hear that pages go hears so before, by the word that all know; of a memfd it takes none. */
HEAP_API int madvise(void *address, size_t length, int advice)
{
	int error = errno;

	if ((advice == MADV_DONTNEED || advice == MADV_FREE) && arena_is_near(address)) {
		(void)heap_advise(address, length, MADV_DONTNEED);
		errno = error;
		if (arena_clear(address, length))
			return 0;
	}
	return heap_advise(address, length, advice);
}
