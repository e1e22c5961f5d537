/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/heap.h"

#include <stdlib.h>

#include "base/array.h"
#include "thole.h"

int heap_reserve(struct heap *heap, uint32_t members)
{
	struct heap_place *places =
		array_reserve(heap->places, &heap->capacity, members + 1, sizeof(*places)); /* places[0] is not used */

	if (!places)
		return THOLE_ERR_MEMORY;
	heap->places = places;
	return 0;
}

void heap_fini(struct heap *heap)
{
	free(heap->places);
	*heap = (struct heap){0};
}

static void heap_put(struct heap *heap, struct heap_place at, uint32_t place)
{
	heap->places[place] = at;
	at.node->place = place;
}

/* Move a node that has a free place up or down to where it belongs. */
static void heap_settle(struct heap *heap, struct heap_node *node, uint32_t place)
{
	struct heap_place *places = heap->places;

	while (place > 1 && places[place / 2].key > node->key) {
		heap_put(heap, places[place / 2], place);
		place /= 2;
	}
	for (uint32_t child; (child = 2 * place) <= heap->count; place = child) {
		if (child < heap->count && places[child + 1].key < places[child].key)
			child++;
		if (places[child].key >= node->key)
			break;
		heap_put(heap, places[child], place);
	}
	heap_put(heap, (struct heap_place){node->key, node}, place);
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
	last = heap->places[heap->count--].node;
	if (last != node)
		heap_settle(heap, last, place);
}
