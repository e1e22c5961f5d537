/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pools: indexes, bounds, and that objects keep their place and their bytes.
 *
 * memalign and realloc are replaced (by the linker's --wrap) so that memory can be refused.
 */
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "thole.h"

void *__real_memalign(size_t alignment, size_t size);
void *__wrap_memalign(size_t alignment, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static bool refuse_chunk, refuse_array;

void *__wrap_memalign(size_t alignment, size_t size)
{
	return refuse_chunk ? NULL : __real_memalign(alignment, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
	return refuse_array ? NULL : __real_realloc(memory, size);
}

static int memory_allow(void **state)
{
	(void)state;
	refuse_chunk = false;
	refuse_array = false;
	return 0;
}

static void init__refuses_what_cannot_be(void **state)
{
	struct pool pool;

	(void)state;
	assert_int_equal(pool_init(&pool, 0, 8, 8), THOLE_ERR_ARGUMENT);
	assert_int_equal(pool_init(&pool, 8, 0, 8), THOLE_ERR_ARGUMENT);
	assert_int_equal(pool_init(&pool, 8, 8, 0), THOLE_ERR_ARGUMENT);
	assert_int_equal(pool_init(&pool, SIZE_MAX, 8, 8), THOLE_ERR_ARGUMENT);
	assert_int_equal(pool_init(&pool, 8, 8, UINT32_MAX), THOLE_ERR_ARGUMENT);
	assert_int_equal(pool_init(&pool, 1024, 1 << 20, 1 << 20), THOLE_ERR_ARGUMENT);
	assert_int_equal(pool_init(&pool, 8, UINT32_MAX, 8), THOLE_ERR_ARGUMENT);
}

static void get__objects_are_apart_aligned_and_zero(void **state)
{
	enum { SIZE = 100, COUNT = 1000 };
	static unsigned char *objects[COUNT];
	struct pool pool;

	(void)state;
	assert_int_equal(pool_init(&pool, SIZE, 10, COUNT),
			 0); /* chunks of 16; the last one is cut */
	for (unsigned i = 0; i < COUNT; i++) {
		objects[i] = pool_get(&pool);
		assert_non_null(objects[i]);
		assert_int_equal((uintptr_t)objects[i] % 64, 0);
		assert_int_equal(pool_index_of(&pool, objects[i]), i);
		for (unsigned byte = 0; byte < SIZE; byte++)
			assert_int_equal(objects[i][byte], 0);
		memset(objects[i], (int)(i % 255) + 1, SIZE);
	}
	assert_null(pool_get(&pool));
	assert_int_equal(pool_grow(&pool), THOLE_ERR_AGAIN);
	assert_int_equal(pool.live, COUNT);
	for (unsigned i = 0; i < COUNT; i++) {
		assert_ptr_equal(pool_at(&pool, i), objects[i]); /* growing has moved none */
		assert_int_equal(pool_index_of(&pool, objects[i]), i);
		for (unsigned byte = 0; byte < SIZE; byte++)
			assert_int_equal(objects[i][byte], i % 255 + 1);
	}
	assert_null(pool_at(&pool, COUNT));
	assert_null(pool_at(&pool, UINT32_MAX));
	pool_fini(&pool);
	assert_null(pool_at(&pool, 0));
}

static void has__its_own_alone(void **state)
{
	enum { COUNT = 20 };
	unsigned char *objects[COUNT], other[8];
	struct pool pool;

	(void)state;
	assert_int_equal(pool_init(&pool, 8, 8, COUNT), 0);
	assert_false(pool_has(&pool, other));
	for (int i = 0; i < COUNT; i++)
		assert_non_null(objects[i] = pool_get(&pool));
	for (int i = 0; i < COUNT; i++)
		assert_true(pool_has(&pool, objects[i]));
	pool_put(&pool, objects[0]);
	assert_true(pool_has(&pool, objects[0])); /* free or not */
	assert_false(pool_has(&pool, other));
	assert_false(pool_has(&pool, NULL));
	assert_false(pool_has(&pool, objects[COUNT - 1] + pool.stride)); /* the last chunk is not whole */
	pool_fini(&pool);
}

static void put__last_is_first_and_bytes_stay(void **state)
{
	struct pool pool;
	uint64_t *first, *second, *third;

	(void)state;
	assert_int_equal(pool_init(&pool, sizeof(uint64_t), 4, 4), 0);
	assert_null(pool_at(&pool, 0)); /* nothing is there before it is needed */
	first = pool_get(&pool);
	second = pool_get(&pool);
	third = pool_get(&pool);
	*first = 1;
	*second = 2;
	assert_true(pool_is_live(&pool, first));
	pool_put(&pool, first);
	pool_put(&pool, second);
	assert_false(pool_is_live(&pool, first));
	assert_false(pool_is_live(&pool, second));
	assert_true(pool_is_live(&pool, third));
	assert_false(pool_is_live(&pool, pool_at(&pool, 3))); /* never got */
	assert_int_equal(pool.live, 1);
	assert_ptr_equal(pool_get(&pool), second);
	assert_ptr_equal(pool_get(&pool), first);
	assert_int_equal(*first, 1);
	assert_int_equal(*second, 2);
	assert_true(pool_is_live(&pool, first));
	assert_non_null(pool_get(&pool));
	assert_null(pool_get(&pool));
	pool_fini(&pool);
}

static void get__memory_refused(void **state)
{
	struct pool pool;

	(void)state;
	assert_int_equal(pool_init(&pool, 64, 2, 100), 0);
	refuse_array = true;
	assert_null(pool_get(&pool));
	assert_int_equal(pool_grow(&pool), THOLE_ERR_MEMORY);
	refuse_array = false;
	refuse_chunk = true;
	assert_null(pool_get(&pool));
	assert_int_equal(pool_grow(&pool), THOLE_ERR_MEMORY);
	refuse_chunk = false;
	assert_non_null(pool_get(&pool));
	assert_non_null(pool_get(&pool));
	refuse_chunk = true;
	assert_null(pool_get(&pool));
	assert_int_equal(pool.live, 2);
	refuse_chunk = false;
	assert_non_null(pool_get(&pool));
	assert_int_equal(pool.live, 3);
	pool_fini(&pool);
}

/* Gets and puts at random, against a table of who is live. */
static void pool__random_use(void **state)
{
	enum { BOUND = 300 };
	void *objects[BOUND];
	unsigned count = 0;
	uint64_t random = 5;
	struct pool pool;

	(void)state;
	assert_int_equal(pool_init(&pool, 24, 32, BOUND), 0);
	for (unsigned step = 0; step < 20000; step++) {
		if (random_below(&random, 2) && count < BOUND) {
			void *object = pool_get(&pool);

			assert_non_null(object);
			for (unsigned i = 0; i < count && step % 64 == 0; i++)
				assert_ptr_not_equal(objects[i], object);
			objects[count++] = object;
		} else if (count > 0) {
			unsigned at = random_below(&random, count);

			assert_true(pool_is_live(&pool, objects[at]));
			pool_put(&pool, objects[at]);
			assert_false(pool_is_live(&pool, objects[at]));
			objects[at] = objects[--count];
		}
		assert_int_equal(pool.live, count);
	}
	pool_fini(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(init__refuses_what_cannot_be),
		cmocka_unit_test(get__objects_are_apart_aligned_and_zero),
		cmocka_unit_test(has__its_own_alone),
		cmocka_unit_test(put__last_is_first_and_bytes_stay),
		cmocka_unit_test_teardown(get__memory_refused, memory_allow),
		cmocka_unit_test(pool__random_use),
	};

	return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
