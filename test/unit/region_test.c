/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Regions: which pages they have, how they become pinned and invalid, then random vectors beside a model that looks
 * at each byte.
 */
#include "unit.h"

#include <string.h>

#include "memory/region.h"

enum { SHIFT = 4, PAGE = 1 << SHIFT, SEGMENTS = 6, BYTES = 4096 };

static void refused(void **state)
{
	struct region_segment empty[] = {{.address = 64, .length = 0}};
	struct region_segment beyond[] = {
		{.address = UINT64_MAX - 10, .length = 10},
		{.address = 0, .length = UINT64_MAX},
	};
	struct region region;

	(void)state;
	assert_false(region_init(&region, empty, 1, SHIFT));
	assert_false(region_init(&region, beyond, 0, SHIFT));
	assert_true(region_init(&region, beyond, 1, SHIFT)); /* to the last byte but one */
	assert_false(region_init(&region, beyond, 2, SHIFT)); /* longer than a number says */
	beyond[0].length++;
	assert_false(region_init(&region, beyond, 1, SHIFT));
}

static void life(void **state)
{
	/* 3 pages, of which the first and the last are cut; 1 page. */
	struct region_segment segments[] = {
		{.address = 5 * PAGE + 3, .length = 2 * PAGE},
		{.address = PAGE, .length = PAGE},
	};
	struct region region;
	struct region_run run, old;

	(void)state;
	assert_true(region_init(&region, segments, 2, SHIFT));
	assert_int_equal(region.pages, 4);
	assert_int_equal(region.length, 3 * PAGE);
	assert_int_equal(region.state, REGION_DECLARED);
	assert_true(region_ready(&region, 0, 0)); /* nothing takes no page */
	assert_int_equal(region_drop(&region), 0); /* nothing pinned: it stays as it was declared */
	assert_int_equal(region.state, REGION_DECLARED);

	assert_true(region_next(&region, 2, &run));
	assert_int_equal(run.address, 5 * PAGE);
	assert_int_equal(run.pages, 2);
	old = run;
	assert_true(region_add(&region, &run, 1)); /* the kernel gave fewer */
	assert_int_equal(region.state, REGION_PINNING);
	assert_false(region_add(&region, &old, 2)); /* pinned by somebody else meanwhile */
	assert_true(region_ready(&region, 0, PAGE - 3));
	assert_false(region_ready(&region, 0, PAGE - 2));

	assert_true(region_next(&region, 100, &run)); /* not into the next segment */
	assert_int_equal(run.page, 1);
	assert_int_equal(run.pages, 2);
	assert_int_equal(region_drop(&region), 1);
	assert_int_equal(region.state, REGION_INVALID);
	assert_false(region_ready(&region, 0, 1));
	assert_false(region_add(&region, &run, 2)); /* of the mapping that was */
	assert_true(region_next(&region, 2, &run));
	assert_int_equal(region_drop(&region), 0);
	assert_false(region_add(&region, &run, 2)); /* it changed before the first page was pinned */
	assert_int_equal(region.state, REGION_INVALID);

	while (region_next(&region, 100, &run))
		assert_true(region_add(&region, &run, run.pages));
	assert_int_equal(run.address, PAGE);
	assert_int_equal(region.state, REGION_PINNED);
	assert_true(region_ready(&region, 0, region.length));
	assert_int_equal(region_drop(&region), 4);
	assert_true(region_next(&region, 1, &run)); /* and once more */
	assert_int_equal(run.page, 0);
}

/* Each byte's address, its page's number, looked up by walking. */
static void pieces_compare(const struct region *region)
{
	uint64_t offset = 0, page = 0;

	for (uint32_t i = 0; i < region->count; i++) {
		const struct region_segment *segment = region->segments + i;

		for (uint64_t at = segment->address; at < segment->address + segment->length; at++, offset++) {
			uint64_t in_page = PAGE - at % PAGE, in_segment = segment->address + segment->length - at;
			uint64_t most = in_page < in_segment ? in_page : in_segment;
			struct region_piece piece;

			if (at != segment->address && at % PAGE == 0)
				page++;
			region_piece_at(region, offset, 5, &piece);
			assert_int_equal(piece.page, page);
			assert_int_equal(piece.within, at % PAGE);
			assert_int_equal(piece.length, most < 5 ? most : 5);
			region_piece_at(region, offset, BYTES, &piece);
			assert_int_equal(piece.length, most);
			assert_int_equal(region_ready(region, offset, 1), page < region->pinned);
		}
		page++;
	}
	assert_int_equal(page, region->pages);
	assert_int_equal(offset, region->length);
	assert_true(region_holds(region, offset, 0));
	assert_true(region_holds(region, 0, offset));
	assert_false(region_holds(region, 1, offset));
	assert_false(region_holds(region, offset + 1, 0));
	assert_false(region_holds(region, 1, UINT64_MAX));
}

static void random_vectors(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 500; seed++) {
		struct region_segment segments[SEGMENTS];
		struct region region;
		struct region_run run;
		uint64_t random = seed, pinned = 0;
		uint32_t count = 1 + random_below(&random, SEGMENTS);

		memset(segments, 0xee, sizeof(segments));
		for (uint32_t i = 0; i < count; i++) {
			segments[i].address = random_below(&random, BYTES);
			segments[i].length = 1 + random_below(&random, 6 * PAGE);
		}
		assert_true(region_init(&region, segments, count, SHIFT));
		pieces_compare(&region);
		while (region_next(&region, 1 + random_below(&random, 3), &run)) {
			assert_int_equal(run.page, pinned);
			assert_true(run.address % PAGE == 0 && run.pages > 0);
			pinned += run.pages;
			assert_true(region_add(&region, &run, run.pages));
			assert_int_equal(region.pinned, pinned);
			if (random_below(&random, 4) == 0)
				pieces_compare(&region);
			if (random_below(&random, 32) == 0) {
				assert_int_equal(region_drop(&region), pinned);
				pinned = 0;
			}
		}
		assert_int_equal(region.pinned, region.pages);
		pieces_compare(&region);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused),
		cmocka_unit_test(life),
		cmocka_unit_test(random_vectors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
