/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spare blocks: what was put is had again, by its class and within bounds; memory that is refused.
 *
 * malloc is replaced (by the linker's --wrap), so that its calls can be counted and refused.
 */
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/spare.h"

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

static unsigned allocations;
static bool refused;

void *__wrap_malloc(size_t size)
{
	allocations++;
	return refused ? NULL : __real_malloc(size);
}

/* A block that can be written to its end; whether it was allocated for this. */
static bool got(struct spares *spares, uint64_t length, void **block_p)
{
	unsigned before = allocations;

	*block_p = spare_get(spares, length);
	assert_non_null(*block_p);
	assert_int_equal((uintptr_t)*block_p % _Alignof(max_align_t), 0);
	memset(*block_p, 0x5a, length);
	return allocations > before;
}

static void get__what_was_put_last(void **state)
{
	struct spares spares = {0};
	void *first, *second, *again;

	(void)state;
	assert_true(got(&spares, 100000, &first));
	assert_true(got(&spares, 70000, &second));
	spare_put(&spares, first);
	spare_put(&spares, second);
	assert_false(got(&spares, 131072, &again));
	assert_ptr_equal(again, second);
	assert_false(got(&spares, 65537, &again));
	assert_ptr_equal(again, first);
	assert_true(got(&spares, 65537, &again));
	assert_int_equal(spares.bytes, 0);
	spare_put(&spares, first);
	spare_put(&spares, second);
	spare_put(&spares, again);
	spare_fini(&spares);
	assert_int_equal(spares.bytes, 0);
	assert_true(got(&spares, 65537, &again));
	spare_put(&spares, again);
	spare_fini(&spares);
}

/* Each length has blocks of its power of two, and no others. */
static void get__by_class(void **state)
{
	struct spares spares = {0};
	void *block;

	(void)state;
	for (uint64_t whole = 8192; whole <= 1 << SPARE_CLASS_MAX; whole *= 2) {
		assert_true(got(&spares, whole / 2 + 1, &block));
		spare_put(&spares, block);
		assert_int_equal(spares.bytes, whole);
		assert_true(got(&spares, whole + 1, &block));
		spare_put(&spares, block);
		assert_false(got(&spares, whole, &block));
		spare_put(&spares, block);
		spare_fini(&spares);
	}
}

/* Short ones are the C library's, and so are those that are too long to be kept, and what is beyond the bound. */
static void put__what_is_kept(void **state)
{
	static const uint64_t lengths[] = {0, 1, 4096, (1 << SPARE_CLASS_MAX) + 1};
	enum { BLOCK = 1 << 20, KEPT = SPARE_KEPT_MAX / BLOCK };
	void *blocks[KEPT + 2], *block;
	struct spares spares = {0};

	(void)state;
	spare_put(&spares, NULL);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		assert_true(got(&spares, lengths[i], &block));
		spare_put(&spares, block);
		assert_int_equal(spares.bytes, 0);
	}
	for (int i = 0; i < KEPT + 2; i++)
		assert_true(got(&spares, BLOCK, &blocks[i]));
	for (int i = 0; i < KEPT + 2; i++)
		spare_put(&spares, blocks[i]);
	assert_int_equal(spares.bytes, SPARE_KEPT_MAX);
	for (int i = 0; i < KEPT + 2; i++)
		assert_int_equal(got(&spares, BLOCK, &blocks[i]), i >= KEPT);
	for (int i = 0; i < KEPT + 2; i++)
		spare_put(&spares, blocks[i]);
	spare_fini(&spares);
}

static void get__refused(void **state)
{
	struct spares spares = {0};

	(void)state;
	refused = true;
	assert_null(spare_get(&spares, 10));
	assert_null(spare_get(&spares, 10000));
	refused = false;
	assert_null(spare_get(&spares, UINT64_MAX));
	assert_null(spare_get(&spares, UINT64_MAX - sizeof(max_align_t)));
	spare_fini(&spares);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(get__what_was_put_last),
		cmocka_unit_test(get__by_class),
		cmocka_unit_test(put__what_is_kept),
		cmocka_unit_test(get__refused),
	};

	return cmocka_run_group_tests_name("spare", tests, NULL, NULL);
}
