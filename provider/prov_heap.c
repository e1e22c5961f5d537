/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_heap.c - memory that the MPI library allocates for windows and packed messages, see prov_heap.h.
 */
#include "prov_heap.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/blocks.h"
#include "front/import.h"

enum { ALIGNMENT = 16 }; /* malloc's */

static bool heap_is_taken; /* over, as far as that could be done */

static void *prov_heap_malloc(size_t length)
{
	bool zero;
	void *block = length >= PROV_HEAP_LEAST ? blocks()->alloc(length, ALIGNMENT, &zero) : NULL;

	return block ? block : malloc(length);
}

/* Windows are none of these: packed messages are, for which a copy by the kernel is no matter below this. */
static void *prov_heap_aligned(size_t alignment, size_t length)
{
	bool zero;

	if (length < ARENA_GRANULE || alignment < ALIGNMENT || alignment & (alignment - 1))
		return NULL;
	return blocks()->alloc(length, alignment, &zero);
}

static int prov_heap_memalign(void **block_p, size_t alignment, size_t length)
{
	void *block = prov_heap_aligned(alignment, length);

	if (!block)
		return posix_memalign(block_p, alignment, length);
	*block_p = block;
	return 0;
}

static void *prov_heap_aligned_alloc(size_t alignment, size_t length)
{
	void *block = prov_heap_aligned(alignment, length);

	return block ? block : aligned_alloc(alignment, length);
}

static void prov_heap_free(void *block)
{
	if (!arena_is_near(block) || !blocks()->free(block))
		free(block);
}

static void *prov_heap_realloc(void *block, size_t length)
{
	size_t had = arena_is_near(block) ? blocks()->length(block) : 0;
	void *other;

	if (had == 0)
		return realloc(block, length);
	if (length > 0 && blocks()->resize(block, length))
		return block;
	other = length > 0 ? prov_heap_malloc(length) : NULL;
	if (other)
		memcpy(other, block, length < had ? length : had);
	if (other || length == 0)
		prov_heap_free(block);
	return other;
}

void prov_heap_share(void)
{
	if (heap_is_taken)
		return;
	heap_is_taken = true;
	/* Who frees comes first: what was allocated before goes back by it, too. Without, nothing of ours is given. */
	if (import_set("free", (void (*)(void))prov_heap_free) > 0 &&
	    import_set("realloc", (void (*)(void))prov_heap_realloc) >= 0) {
		import_set("malloc", (void (*)(void))prov_heap_malloc);
		import_set("posix_memalign", (void (*)(void))prov_heap_memalign);
		import_set("aligned_alloc", (void (*)(void))prov_heap_aligned_alloc);
	}
}
