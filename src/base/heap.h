/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A binary heap of timers, whose members know their place in it: the earliest is found at once, any is moved or
 * removed in logarithmic time.
 *
 * Owns the array of places, not the members. Invariant: no member is earlier than the one above it. No thread safety.
 */
#ifndef THOLE_BASE_HEAP_H
#define THOLE_BASE_HEAP_H

#include <stddef.h>
#include <stdint.h>

struct heap_node {
	uint64_t key;   /* smallest first */
	uint32_t place; /* counted from 1; 0: in no heap */
};

/* Keys are here as well, so that comparing touches no members, which lie scattered. */
struct heap_place {
	uint64_t key;
	struct heap_node *node;
};

struct heap {
	struct heap_place *places; /* places[1] is the earliest */
	uint32_t count;            /* members */
	uint32_t capacity;         /* of places */
};

/* Make room for this many members, so that heap_set needs no memory. Returns 0 or THOLE_ERR_MEMORY. */
int heap_reserve(struct heap *heap, uint32_t members);
void heap_fini(struct heap *heap);
/* Put a node in, or move it, to a key. There is room (heap_reserve). */
void heap_set(struct heap *heap, struct heap_node *node, uint64_t key);
/* Take a node out; nothing happens if it is in none. */
void heap_remove(struct heap *heap, struct heap_node *node);

static inline struct heap_node *heap_first(const struct heap *heap)
{
	return heap->count ? heap->places[1].node : NULL;
}

#endif
