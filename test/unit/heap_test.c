/* SPDX-License-Identifier: BSD-3-Clause */
/* Heaps, against a search through all members. */
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/heap.h"
#include "thole.h"

enum { MEMBERS = 200 };

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

static bool refuse;

void *__wrap_realloc(void *old, size_t size)
{
	return refuse ? NULL : __real_realloc(old, size);
}

/* The heap's promises: each member knows its place, none is earlier than the one above it, and `count` are in. */
static void check(const struct heap *heap, const struct heap_node *members, uint32_t count)
{
	uint32_t in = 0;

	assert_int_equal(heap->count, count);
	for (uint32_t i = 1; i <= heap->count; i++) {
		assert_int_equal(heap->places[i].node->place, i);
		assert_int_equal(heap->places[i].node->key, heap->places[i].key);
		assert_true(i == 1 || heap->places[i / 2].key <= heap->places[i].key);
	}
	for (int i = 0; i < MEMBERS; i++)
		in += members[i].place > 0;
	assert_int_equal(in, count);
}

static void first__is_the_earliest(void **state)
{
	struct heap_node members[MEMBERS] = {{0}};
	struct heap heap = {0};
	uint64_t random = 1;
	uint32_t count = 0;

	(void)state;
	assert_null(heap_first(&heap));
	assert_int_equal(heap_reserve(&heap, MEMBERS), 0);
	for (int i = 0; i < 30000; i++) {
		struct heap_node *member = &members[random_below(&random, MEMBERS)];
		uint64_t earliest = UINT64_MAX;

		/* Few different keys, so that many are equal; more in than out half of the time. */
		if (random_below(&random, 100) < (i / 3000 % 2 ? 30u : 70u)) {
			count += member->place == 0;
			heap_set(&heap, member,
				 random_below(&random, 2) ? random_below(&random, 50) : random_next(&random));
		} else {
			count -= member->place != 0;
			heap_remove(&heap, member);
			assert_int_equal(member->place, 0);
		}
		check(&heap, members, count);
		for (int k = 0; k < MEMBERS; k++)
			if (members[k].place && members[k].key < earliest)
				earliest = members[k].key;
		if (count)
			assert_int_equal(heap_first(&heap)->key, earliest);
		else
			assert_null(heap_first(&heap));
	}
	heap_fini(&heap);
	assert_null(heap_first(&heap));
}

static void removed__in_order(void **state)
{
	struct heap_node members[MEMBERS] = {{0}};
	struct heap heap = {0};
	uint64_t random = 2, before = 0;

	(void)state;
	assert_int_equal(heap_reserve(&heap, MEMBERS), 0);
	for (int i = 0; i < MEMBERS; i++)
		heap_set(&heap, &members[i], random_next(&random));
	for (int i = 0; i < MEMBERS; i++) {
		struct heap_node *first = heap_first(&heap);

		assert_true(first->key >= before);
		before = first->key;
		heap_remove(&heap, first);
	}
	assert_int_equal(heap.count, 0);
	heap_fini(&heap);
}

/* Room grows and members stay; refused memory changes nothing. */
static void reserve__grows(void **state)
{
	struct heap_node members[MEMBERS] = {{0}};
	struct heap heap = {0};

	(void)state;
	for (uint32_t i = 0; i < MEMBERS; i++) {
		if (i + 1 >= heap.capacity) { /* one place is not used */
			refuse = true;
			assert_int_equal(heap_reserve(&heap, i + 1), THOLE_ERR_MEMORY);
			refuse = false;
			check(&heap, members, i);
		}
		assert_int_equal(heap_reserve(&heap, i + 1), 0);
		assert_true(heap.capacity > i + 1);
		heap_set(&heap, &members[i], MEMBERS - i);
	}
	check(&heap, members, MEMBERS);
	assert_int_equal(heap_first(&heap)->key, 1);
	refuse = true;
	assert_int_equal(heap_reserve(&heap, heap.capacity - 1), 0); /* needs no memory */
	refuse = false;
	heap_fini(&heap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first__is_the_earliest),
		cmocka_unit_test(removed__in_order),
		cmocka_unit_test(reserve__grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
