/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/heap.h"

#include <stdlib.h>

#include "thole.h"

int heap_reserve(struct heap *heap, uint32_t capacity)
{
	uint32_t grown = heap->capacity ? heap->capacity : 16;
	struct heap_node **nodes;

	if (capacity <= heap->capacity)
		return 0;
	while (grown < capacity)
		grown *= 2;
	nodes = realloc(heap->nodes, ((size_t)grown + 1) * sizeof(struct heap_node *));
	if (!nodes)
		return THOLE_ERR_MEMORY;
	heap->nodes = nodes;
	heap->capacity = grown;
	return 0;
}

void heap_fini(struct heap *heap)
{
	free(heap->nodes);
	*heap = (struct heap){0};
}

static void heap_place(struct heap *heap, struct heap_node *node, uint32_t place)
{
	heap->nodes[place] = node;
	node->place = place;
}

/* Move a node that has a free place up or down to where it belongs. */
static void heap_settle(struct heap *heap, struct heap_node *node, uint32_t place)
{
	while (place > 1 && heap->nodes[place / 2]->key > node->key) {
		heap_place(heap, heap->nodes[place / 2], place);
		place /= 2;
	}
	for (uint32_t child; (child = 2 * place) <= heap->count; place = child) {
		if (child < heap->count && heap->nodes[child + 1]->key < heap->nodes[child]->key)
			child++;
		if (heap->nodes[child]->key >= node->key)
			break;
		heap_place(heap, heap->nodes[child], place);
	}
	heap_place(heap, node, place);
}

void heap_set(struct heap *heap, struct heap_node *node, uint64_t key)
{
	node->key = key;
	heap_settle(heap, node, node->place ? node->place : ++heap->count);
}

void heap_remove(struct heap *heap, struct heap_node *node)
{
	uint32_t place = node->place;
	struct heap_node *last;

	if (!place)
		return;
	node->place = 0;
	last = heap->nodes[heap->count--];
	if (last != node)
		heap_settle(heap, last, place);
}
