/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heap-other: an allocator that a program is linked to, as to jemalloc: behind the library that thole run --shared-heap
 * preloads. No block is of it, so none is to be given to it, and it is asked of none.
 */
#include <stdlib.h>

#define OTHER(type, name, ...) \
	__attribute__((visibility("default"))) type name(__VA_ARGS__); \
	type name(__VA_ARGS__) \
	{ \
		abort(); \
	}

OTHER(void *, malloc, size_t size)
OTHER(void *, calloc, size_t count, size_t size)
OTHER(void *, realloc, void *old, size_t size)
OTHER(void, free, void *memory)
OTHER(size_t, malloc_usable_size, void *memory)
