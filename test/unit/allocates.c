/* SPDX-License-Identifier: BSD-3-Clause */
/* A library's calls of malloc and its like, under names that the build puts something before. */
#include <stdlib.h>

#define NAME_OF(prefix, name) prefix##_##name
#define NAME(prefix, name) NAME_OF(prefix, name)
#define SHOWN __attribute__((visibility("default")))

SHOWN void *NAME(ALLOCATES, malloc)(size_t length);
SHOWN void *NAME(ALLOCATES, realloc)(void *block, size_t length);
SHOWN void NAME(ALLOCATES, free)(void *block);
SHOWN int NAME(ALLOCATES, memalign)(void **block_p, size_t alignment, size_t length);
SHOWN void *NAME(ALLOCATES, aligned_alloc)(size_t alignment, size_t length);

void *NAME(ALLOCATES, malloc)(size_t length)
{
	return malloc(length);
}

void *NAME(ALLOCATES, realloc)(void *block, size_t length)
{
	return realloc(block, length);
}

void NAME(ALLOCATES, free)(void *block)
{
	free(block);
}

int NAME(ALLOCATES, memalign)(void **block_p, size_t alignment, size_t length)
{
	return posix_memalign(block_p, alignment, length);
}

void *NAME(ALLOCATES, aligned_alloc)(size_t alignment, size_t length)
{
	return aligned_alloc(alignment, length);
}
