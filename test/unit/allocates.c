/* SPDX-License-Identifier: BSD-3-Clause */
/* A library's calls of malloc, realloc and free, under names that the build puts something before. */
#include <stdlib.h>

#define NAME_OF(prefix, name) prefix##_##name
#define NAME(prefix, name) NAME_OF(prefix, name)
#define SHOWN __attribute__((visibility("default")))

SHOWN void *NAME(ALLOCATES, malloc)(size_t length);
SHOWN void *NAME(ALLOCATES, realloc)(void *block, size_t length);
SHOWN void NAME(ALLOCATES, free)(void *block);

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
