/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is known of a peer's regions: found by its key however much it is, and the longest unused goes first.
 *
 * calloc is replaced (by the linker's --wrap) so that memory can be refused.
 */
#include "unit.h"

#include <stdbool.h>
#include <sys/mman.h>

#include "transport/grants.h"

enum { FEW = 12 }; /* in one chain; of random keys there are no more */

static struct pool pool;
static struct grants grants;
static bool refusing;

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
	return refusing ? NULL : __real_calloc(count, size);
}

static int setup(void **state)
{
	(void)state;
	refusing = false;
	grants_init(&grants);
	return pool_init(&pool, sizeof(struct grant), 16, GRANTS_ALL_MAX);
}

static int teardown(void **state)
{
	(void)state;
	grants_clear(&grants, &pool);
	assert_int_equal(pool.live, 0);
	assert_int_equal(grants.by_key.count, 0);
	assert_null(grants_find(&grants, 1));
	pool_fini(&pool);
	return 0;
}

static uint64_t key_of(uint64_t number)
{
	return random_next(&number);
}

static void add(uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++)
		assert_non_null(grants_add(&grants, &pool, key_of(i)));
}

static bool is_known(uint64_t number)
{
	const struct grant *grant = grants_find(&grants, key_of(number));

	assert_true(!grant || grant->found.key == key_of(number));
	return grant;
}

static uint32_t longest_chain(void)
{
	uint32_t longest = 0;

	for (uint32_t i = 0; i < grants.by_key.chain_count; i++) {
		uint32_t length = 0;

		for (const struct hash_node *node = grants.by_key.chains[i]; node; node = node->next)
			length++;
		longest = length > longest ? length : longest;
	}
	return longest;
}

static void grants__are_found(void **state)
{
	(void)state;
	assert_false(is_known(0));
	for (uint64_t i = 0; i < GRANTS_MAX; i++) {
		add(i, i + 1);
		assert_true(is_known(i) && is_known(i / 2) && !is_known(i + 1));
	}
	for (uint64_t i = 0; i < GRANTS_MAX; i++)
		assert_true(is_known(i));
	assert_in_range(longest_chain(), 1, FEW);
}

static void grants__of_no_use_make_place(void **state)
{
	const struct vector vector = {.length = 1};
	const struct transport_access access = {.put = true, .vector = &vector};
	struct grant *grant;

	(void)state;
	add(0, GRANTS_MAX);
	grant = grants_find(&grants, key_of(0));
	grant->access = THOLE_ACCESS_PUT;
	grant->length = 1;
	assert_true(grants_use(&grants, grant, &access));
	add(GRANTS_MAX, GRANTS_MAX + 2);
	assert_int_equal(grants.by_key.count, GRANTS_MAX);
	assert_true(is_known(0) && !is_known(1) && !is_known(2) && is_known(3) && is_known(GRANTS_MAX + 1));
}

static void grants__are_dropped(void **state)
{
	(void)state;
	add(0, GRANTS_MAX);
	for (uint64_t i = 0; i < GRANTS_MAX; i += 2)
		grants_drop(&grants, &pool, grants_find(&grants, key_of(i)));
	for (uint64_t i = 0; i < GRANTS_MAX; i++)
		assert_int_equal(is_known(i), i % 2);
	grants_clear(&grants, &pool);
	assert_false(is_known(1));
	add(1, 2);
	assert_true(is_known(1));
}

static void map(struct grant *grant)
{
	grant->here.mapped = 4096;
	grant->here.mapping = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(grant->here.mapping, MAP_FAILED);
	grants_mapped(&grants);
}

/* What is mapped and not used for long makes place for the mapping of what is. */
static void grants__mapped_make_place(void **state)
{
	const struct vector vector = {.length = 1};
	const struct transport_access access = {.put = true, .vector = &vector};
	struct grant *grant;

	(void)state;
	add(0, GRANTS_MAPPED_MAX + 2);
	for (uint64_t i = 1; i <= GRANTS_MAPPED_MAX; i++) {
		assert_true(grants_may_map(&grants));
		map(grants_find(&grants, key_of(i)));
	}
	grant = grants_find(&grants, key_of(GRANTS_MAPPED_MAX + 1));
	grant->access = THOLE_ACCESS_PUT;
	grant->length = 1;
	for (int i = 0; i <= GRANTS_IDLE; i++) {
		assert_false(grants_may_map(&grants));
		assert_true(grants_use(&grants, grant, &access));
	}
	assert_true(grants_may_map(&grants));
	assert_int_equal(grants.mapped, GRANTS_MAPPED_MAX - 1);
	assert_null(grants_find(&grants, key_of(1))->here.mapping);
	assert_non_null(grants_find(&grants, key_of(2))->here.mapping);
	map(grant);
	assert_true(grants_use(&grants, grant, &access));
}

static void grants__without_memory(void **state)
{
	(void)state;
	refusing = true;
	assert_null(grants_add(&grants, &pool, key_of(0)));
	assert_int_equal(grants.by_key.count, 0);
	refusing = false;
	add(0, HASH_CHAINS);
	refusing = true; /* for a larger table; the pool has its memory otherwise */
	add(HASH_CHAINS, GRANTS_MAX);
	assert_int_equal(grants.by_key.chain_count, HASH_CHAINS);
	for (uint64_t i = 0; i < GRANTS_MAX; i++)
		assert_true(is_known(i));
	refusing = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(grants__are_found, setup, teardown),
		cmocka_unit_test_setup_teardown(grants__of_no_use_make_place, setup, teardown),
		cmocka_unit_test_setup_teardown(grants__are_dropped, setup, teardown),
		cmocka_unit_test_setup_teardown(grants__mapped_make_place, setup, teardown),
		cmocka_unit_test_setup_teardown(grants__without_memory, setup, teardown),
	};

	return cmocka_run_group_tests_name("grants", tests, NULL, NULL);
}
