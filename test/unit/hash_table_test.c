/* SPDX-License-Identifier: BSD-3-Clause */
/* Hash tables, against a search through all members. */
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/hash_table.h"

enum { MEMBERS = 1000, KEYS = 300, CHAIN_MAX = 16 };

struct member {
	struct hash_node node;
	uint64_t since; /* when it was added; 0: it is none */
};

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

static bool refusing;

void *__wrap_calloc(size_t count, size_t size)
{
	return refusing ? NULL : __real_calloc(count, size);
}

static uint32_t longest_chain(const struct hash_table *table)
{
	uint32_t longest = 0, all = 0;

	for (uint32_t i = 0; i < table->chain_count; i++) {
		uint32_t length = 0;

		for (const struct hash_node *node = table->chains[i]; node; node = node->next)
			length++;
		all += length;
		longest = length > longest ? length : longest;
	}
	assert_int_equal(all, table->count);
	return longest;
}

/* All members with a key are found, the newest first. */
static void check(const struct hash_table *table, const struct member *members, uint64_t key)
{
	struct hash_node *node = hash_table_find(table, key);
	uint64_t before = UINT64_MAX;
	uint32_t found = 0;

	for (; node; node = hash_node_next(node), found++) {
		const struct member *member = (const struct member *)node;

		assert_int_equal(node->key, key);
		assert_true(member->since && member->since < before);
		before = member->since;
	}
	for (int i = 0; i < MEMBERS; i++)
		found -= members[i].since && members[i].node.key == key;
	assert_int_equal(found, 0);
}

static void members__are_found(void **state)
{
	static struct member members[MEMBERS];
	struct hash_table table = {0};
	uint64_t random = 1;

	(void)state;
	check(&table, members, 0);
	for (uint64_t now = 1; now <= 30000; now++) {
		struct member *member = &members[random_below(&random, MEMBERS)];

		if (member->since) {
			hash_table_remove(&table, &member->node);
			member->since = 0;
		} else {
			assert_true(hash_table_reserve(&table));
			hash_table_add(&table, &member->node, random_below(&random, KEYS));
			member->since = now;
		}
		assert_true(table.chain_count >= table.count);
		check(&table, members, random_below(&random, KEYS));
	}
	longest_chain(&table);
	hash_table_fini(&table);
}

/* Whatever bits they have in common. */
static void chains__are_short(void **state)
{
	static struct hash_node nodes[MEMBERS];

	(void)state;
	for (unsigned shift = 0; shift <= 48; shift += 16) {
		struct hash_table table = {0};

		for (uint64_t i = 0; i < MEMBERS; i++) {
			assert_true(hash_table_reserve(&table));
			hash_table_add(&table, &nodes[i], i << shift);
		}
		assert_in_range(longest_chain(&table), 1, CHAIN_MAX);
		hash_table_fini(&table);
	}
}

static void memory__is_not_there(void **state)
{
	static struct hash_node nodes[MEMBERS];
	struct hash_table table = {0};

	(void)state;
	refusing = true;
	assert_false(hash_table_reserve(&table));
	refusing = false;
	assert_true(hash_table_reserve(&table));
	refusing = true;
	for (uint64_t i = 0; i < MEMBERS; i++) {
		assert_true(hash_table_reserve(&table));
		hash_table_add(&table, &nodes[i], i);
	}
	refusing = false;
	assert_int_equal(table.chain_count, HASH_CHAINS);
	for (uint64_t i = 0; i < MEMBERS; i++)
		assert_ptr_equal(hash_table_find(&table, i), &nodes[i]);
	hash_table_fini(&table);
	assert_null(hash_table_find(&table, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members__are_found),
		cmocka_unit_test(chains__are_short),
		cmocka_unit_test(memory__is_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
