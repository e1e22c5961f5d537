/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_heap.c - memory that the MPI library allocates for windows, see prov_heap.h.
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
	    import_set("realloc", (void (*)(void))prov_heap_realloc) >= 0)
		import_set("malloc", (void (*)(void))prov_heap_malloc);
}
