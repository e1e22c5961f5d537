/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nested locks: each way in which a new lock can lie among areas, then random locks beside a model that counts for each
 * address.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "memory/area.h"

enum { ROOM = 512, ADDRESSES = 200, LOCKS = 60 };

static struct area room[ROOM];

/* The areas are these, given as first, end, locks. */
static void assert_areas(const struct area_table *table, uint32_t count, const uint64_t (*want)[3])
{
	assert_int_equal(table->count, count);
	for (uint32_t i = 0; i < count; i++) {
		assert_int_equal(table->areas[i].first, want[i][0]);
		assert_int_equal(table->areas[i].end, want[i][1]);
		assert_int_equal(table->areas[i].locks, want[i][2]);
	}
}

#define ASSERT_AREAS(table, ...) \
	do { \
		const uint64_t want_[][3] = {__VA_ARGS__}; \
		assert_areas(table, sizeof(want_) / sizeof(*want_), want_); \
	} while (0)

static void ways_to_lie(void **state)
{
	struct area_table table;

	(void)state;
	area_init(&table, room, ROOM);
	assert_true(area_lock(&table, 10, 20));
	ASSERT_AREAS(&table, {10, 20, 1});
	assert_true(area_lock(&table, 30, 40)); /* apart */
	assert_true(area_lock(&table, 10, 20)); /* the same */
	ASSERT_AREAS(&table, {10, 20, 2}, {30, 40, 1});
	assert_true(area_lock(&table, 32, 35)); /* inside */
	ASSERT_AREAS(&table, {10, 20, 2}, {30, 32, 1}, {32, 35, 2}, {35, 40, 1});
	assert_true(area_lock(&table, 5, 12)); /* over the front */
	ASSERT_AREAS(&table, {5, 10, 1}, {10, 12, 3}, {12, 20, 2}, {30, 32, 1}, {32, 35, 2}, {35, 40, 1});
	assert_true(area_lock(&table, 38, 45)); /* over the end */
	assert_true(area_lock(&table, 15, 36)); /* over a gap */
	ASSERT_AREAS(&table, {5, 10, 1}, {10, 12, 3}, {12, 15, 2}, {15, 20, 3}, {20, 30, 1}, {30, 32, 2}, {32, 35, 3},
		     {35, 36, 2}, {36, 38, 1}, {38, 40, 2}, {40, 45, 1});
	assert_int_equal(table.locked, 40);
	assert_int_equal(area_locks(&table, 4), 0);
	assert_int_equal(area_locks(&table, 15), 3);
	assert_int_equal(area_locks(&table, 45), 0);

	/* An unlock takes whole areas, and merges none that become alike. */
	assert_int_equal(area_unlock(&table, 15, 36), 10);
	ASSERT_AREAS(&table, {5, 10, 1}, {10, 12, 3}, {12, 15, 2}, {15, 20, 2}, {30, 32, 1}, {32, 35, 2}, {35, 36, 1},
		     {36, 38, 1}, {38, 40, 2}, {40, 45, 1});
	assert_int_equal(area_unlock(&table, 10, 20), 0);
	assert_int_equal(area_unlock(&table, 5, 12), 5);
	assert_int_equal(area_unlock(&table, 30, 40), 5);
	ASSERT_AREAS(&table, {10, 12, 1}, {12, 15, 1}, {15, 20, 1}, {32, 35, 1}, {38, 40, 1}, {40, 45, 1});
	assert_int_equal(area_unlock(&table, 10, 20) + area_unlock(&table, 32, 35) + area_unlock(&table, 38, 45), 20);
	assert_int_equal(table.count, 0);
	assert_int_equal(table.locked, 0);
}

static void no_room(void **state)
{
	struct area_table table;
	struct area *more = calloc(5, sizeof(*more));
	struct area few[3];

	(void)state;
	assert_non_null(more);
	area_init(&table, few, 3);
	assert_true(area_lock(&table, 10, 20));
	assert_true(area_lock(&table, 30, 40));
	assert_false(area_lock(&table, 12, 14)); /* wants two more */
	assert_false(area_lock(&table, 15, 30));
	ASSERT_AREAS(&table, {10, 20, 1}, {30, 40, 1});
	assert_int_equal(table.locked, 20);
	assert_true(area_lock(&table, 20, 40)); /* wants one: the gap */
	ASSERT_AREAS(&table, {10, 20, 1}, {20, 30, 1}, {30, 40, 2});
	assert_true(area_lock(&table, 10, 40)); /* wants none */
	assert_ptr_equal(area_enlarge(&table, more, 5), few);
	memset(few, 0xee, sizeof(few));
	assert_true(area_lock(&table, 12, 14));
	ASSERT_AREAS(&table, {10, 12, 2}, {12, 14, 3}, {14, 20, 2}, {20, 30, 2}, {30, 40, 3});
	free(more);
}

/* ---- Beside a model -------------------------------------------------------------------------- */

struct lock {
	uint64_t first, end;
};

struct model {
	struct area_table table;
	unsigned counts[ADDRESSES];
	bool edges[ADDRESSES + 1]; /* where an area would begin, if there are locks */
	struct lock locks[LOCKS];
	unsigned count;
};

static unsigned model_locked(const struct model *model)
{
	unsigned locked = 0;

	for (unsigned i = 0; i < ADDRESSES; i++)
		locked += model->counts[i] != 0;
	return locked;
}

/* The areas are those between edges, where there are locks. */
static void model_compare(struct model *model)
{
	const struct area_table *table = &model->table;
	uint32_t areas = 0;

	for (unsigned i = 0; i < ADDRESSES; i++) {
		assert_int_equal(area_locks(table, i), model->counts[i]);
		if (model->counts[i] == 0)
			model->edges[i] = true;
		areas += model->counts[i] && model->edges[i];
	}
	assert_int_equal(table->count, areas);
	assert_int_equal(table->locked, model_locked(model));
	for (uint32_t i = 0; i < table->count; i++) {
		assert_true(table->areas[i].first < table->areas[i].end);
		assert_true(i == 0 || table->areas[i - 1].end <= table->areas[i].first);
	}
}

static void model_lock(struct model *model, uint64_t *random)
{
	uint64_t first = random_below(random, ADDRESSES), longest = random_below(random, 2) ? 8 : ADDRESSES;
	uint64_t length = 1 + random_below(random, longest), end = first + length;
	uint32_t more, before = model->table.count, locked = model_locked(model);
	uint64_t fresh;

	end = end < ADDRESSES ? end : ADDRESSES;
	area_foresee(&model->table, first, end, &more, &fresh);
	assert_true(area_lock(&model->table, first, end));
	assert_int_equal(model->table.count, before + more);
	for (uint64_t i = first; i < end; i++) {
		if (model->counts[i]++ == 0 && i > first)
			model->edges[i] = model->counts[i - 1] > 1; /* else both are of one new area */
	}
	model->edges[first] = model->edges[end] = true;
	assert_int_equal(model_locked(model), locked + fresh);
	model->locks[model->count++] = (struct lock){.first = first, .end = end};
}

static void model_unlock(struct model *model, uint64_t *random)
{
	unsigned at = random_below(random, model->count), locked = model_locked(model);
	struct lock lock = model->locks[at];

	model->locks[at] = model->locks[--model->count];
	for (uint64_t i = lock.first; i < lock.end; i++)
		model->counts[i]--;
	assert_int_equal(area_unlock(&model->table, lock.first, lock.end), locked - model_locked(model));
	for (uint64_t i = lock.first; i < lock.end; i++) /* what is behind a gap begins anew */
		model->edges[i + 1] |= model->counts[i] == 0;
}

static void random_locks(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct model model = {.count = 0};
		uint64_t random = seed;

		area_init(&model.table, room, ROOM);
		for (unsigned step = 0; step < 300; step++) {
			if (model.count == 0 || (model.count < LOCKS && random_below(&random, 2)))
				model_lock(&model, &random);
			else
				model_unlock(&model, &random);
			model_compare(&model);
		}
		while (model.count)
			model_unlock(&model, &random);
		assert_int_equal(model.table.count, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ways_to_lie),
		cmocka_unit_test(no_room),
		cmocka_unit_test(random_locks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
