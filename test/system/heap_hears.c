/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heap-hears: who wants to hear of memory that a program maps, unmaps and lets go, as Open MPI does for what it has
 * registered: behind the library that thole run --shared-heap preloads.
 */
#include "heap_hears.h"

#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

enum { LARGE = 1 << 20 };

SHOWN struct heard heard;

SHOWN void *hears_mmap(void *address, size_t length, int rights, int flags, int fd, off_t offset) __asm__("mmap");

void *hears_mmap(void *address, size_t length, int rights, int flags, int fd, off_t offset)
{
	heard = (struct heard){"mmap", address, length, flags};
	return (void *)syscall(SYS_mmap, address, length, rights, flags, fd, offset);
}

SHOWN int munmap(void *address, size_t length)
{
	heard = (struct heard){"munmap", address, length, 0};
	return (int)syscall(SYS_munmap, address, length);
}

SHOWN void *mremap(void *old, size_t had, size_t length, int flags, ...)
{
	void *place;
	va_list rest;

	va_start(rest, flags);
	place = va_arg(rest, void *);
	va_end(rest);
	heard = (struct heard){"mremap", old, had, flags};
	return (void *)syscall(SYS_mremap, old, had, length, flags, place);
}

SHOWN int mprotect(void *address, size_t length, int rights)
{
	heard = (struct heard){"mprotect", address, length, rights};
	return (int)syscall(SYS_mprotect, address, length, rights);
}

/* Who forgets a registration may allocate, and free. */
SHOWN int madvise(void *address, size_t length, int advice)
{
	if (advice == MADV_DONTNEED || advice == MADV_REMOVE) {
		void *volatile memory = malloc(LARGE);

		free(memory);
	}
	heard = (struct heard){"madvise", address, length, advice};
	return (int)syscall(SYS_madvise, address, length, advice);
}
