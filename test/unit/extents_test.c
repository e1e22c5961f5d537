/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extents beside a plain list of what each granule is: nobody gets what another one has, free neighbours become one,
 * and what is free is found.
 */
#include <stdbool.h>
#include <string.h>

#include "base/extents.h"
#include "unit.h"

enum { GRANULES = 400, STEPS = 20000, LENGTH_MAX = 40 };

static struct extent_tag tags[GRANULES];
static struct extents extents;
static uint8_t kinds[GRANULES]; /* enum extent_kind of each granule */
static uint32_t blocks[GRANULES], block_count;

static void fresh(void)
{
	memset(tags, 0, sizeof(tags));
	memset(kinds, EXTENT_CLEAN, sizeof(kinds));
	kinds[0] = EXTENT_USED;
	block_count = 0;
	extents_begin(&extents, tags);
}

static void expect_free(uint32_t at, uint32_t length)
{
	for (uint32_t i = at; i < at + length; i++)
		assert_int_not_equal(kinds[i], EXTENT_USED);
}

static void use(uint32_t at, uint32_t length)
{
	extents_mark(&extents, at, length, EXTENT_USED);
	memset(kinds + at, EXTENT_USED, length);
	blocks[block_count++] = at;
}

/* As an arena does: what lies behind the top is there for the asking. */
static void take(uint32_t length)
{
	enum extent_kind kind;
	uint32_t at = extents_take(&extents, length, &kind);
	bool kept = false;

	if (!at) {
		if (length > GRANULES - extents.top)
			return;
		at = extents.top;
		extents.top += length;
		use(at, length);
		return;
	}
	expect_free(at, length);
	for (uint32_t i = at; i < at + length; i++)
		kept |= kinds[i] == EXTENT_KEPT;
	if (kept)
		assert_int_equal(kind, EXTENT_KEPT); /* else its owner takes it for zeros */
	use(at, length);
}

static void give(uint32_t number, enum extent_kind kind)
{
	uint32_t at = blocks[number], length = extents_length(&extents, at);
	struct extent joined;

	blocks[number] = blocks[--block_count];
	extents_mark(&extents, at, length, EXTENT_NONE);
	memset(kinds + at, kind, length);
	joined = extents_join(&extents, (struct extent){at, length, kind});
	expect_free(joined.at, joined.length);
	assert_int_equal(kinds[joined.at - 1], EXTENT_USED);
	assert_true(joined.at + joined.length == extents.top || kinds[joined.at + joined.length] == EXTENT_USED);
	if (joined.kind == EXTENT_CLEAN && joined.at + joined.length == extents.top)
		extents.top = joined.at;
	else
		extents_add(&extents, joined);
}

/* Neighbours, lengths and what is kept, from one end to the other. */
static void expect_whole(void)
{
	uint64_t kept = 0;
	bool was_free = false;

	for (uint32_t at = 0; at < extents.top; at += extents_length(&extents, at)) {
		bool is_free = extents_kind(&extents, at) >= EXTENT_CLEAN;

		assert_false(is_free && was_free);
		assert_int_equal(is_free, kinds[at] != EXTENT_USED);
		assert_int_equal(tags[at + extents_length(&extents, at) - 1].length, extents_length(&extents, at));
		kept += extents_kind(&extents, at) == EXTENT_KEPT ? extents_length(&extents, at) : 0;
		was_free = is_free;
	}
	assert_int_equal(kept, extents.kept);
}

static void test_traffic(void **state)
{
	uint64_t seed = 4711;

	(void)state;
	fresh();
	for (int step = 0; step < STEPS; step++) {
		if (block_count == 0 || random_below(&seed, 2))
			take(1 + random_below(&seed, LENGTH_MAX));
		else
			give(random_below(&seed, block_count), random_below(&seed, 2) ? EXTENT_CLEAN : EXTENT_KEPT);
		expect_whole();
	}
	while (block_count > 0)
		give(0, EXTENT_CLEAN);
	expect_whole();
	assert_true(extents.top == 1 || extents_length(&extents, 1) == extents.top - 1);
}

/* Of two free extents of one list the one that is long enough is found, and its rest can be had. */
static void test_search(void **state)
{
	enum extent_kind kind = EXTENT_NONE;

	(void)state;
	fresh();
	take(6);
	take(1);
	take(5);
	take(1);
	give(0, EXTENT_KEPT); /* 6 at 1: the last block has its number now */
	give(2, EXTENT_KEPT); /* 5 at 8, which is first in the list */
	expect_whole();
	assert_int_equal(extents_take(&extents, 6, &kind), 1);
	assert_int_equal(kind, EXTENT_KEPT);
	assert_int_equal(extents_take(&extents, 2, &kind), 8);
	assert_int_equal(extents_take(&extents, 4, &kind), 0);
	assert_int_equal(extents_take(&extents, 3, &kind), 10);
	assert_int_equal(extents_take(&extents, 1, &kind), 0);
	assert_int_equal(extents.kept, 0);
}

static void test_stretch(void **state)
{
	(void)state;
	fresh();
	take(4);
	take(6);
	take(1);
	assert_false(extents_stretch(&extents, 1, 5)); /* what is behind is used, */
	give(1, EXTENT_KEPT);
	assert_false(extents_stretch(&extents, 1, 11)); /* or too short */
	assert_true(extents_stretch(&extents, 1, 7));
	memset(kinds + 1, EXTENT_USED, 7);
	expect_whole();
	assert_int_equal(extents.kept, 3);
	assert_true(extents_stretch(&extents, 1, 10));
	memset(kinds + 1, EXTENT_USED, 10);
	expect_whole();
	assert_int_equal(extents.kept, 0);
	assert_false(extents_stretch(&extents, 11, 2)); /* the last one: its owner moves the top */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_traffic),
		cmocka_unit_test(test_search),
		cmocka_unit_test(test_stretch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
