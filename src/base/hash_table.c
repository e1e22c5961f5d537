/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/hash_table.h"

#include <stdlib.h>

static void hash_table_link(struct hash_table *table, struct hash_node *node)
{
	struct hash_node **chain = hash_table_chain(table, node->key);

	node->next = *chain;
	*chain = node;
}

/* All members, those of a chain in the order that they had in it. */
static void hash_table_move(struct hash_table *from, struct hash_table *to)
{
	for (uint32_t i = 0; i < from->chain_count; i++) {
		struct hash_node *node, *turned = NULL;

		while ((node = from->chains[i])) {
			from->chains[i] = node->next;
			node->next = turned;
			turned = node;
		}
		while ((node = turned)) {
			turned = node->next;
			hash_table_link(to, node);
		}
	}
}

bool hash_table_reserve(struct hash_table *table)
{
	struct hash_table larger = {.count = table->count};

	if (table->count < table->chain_count)
		return true;
	larger.shift = table->chains ? table->shift - 1 : 64 - HASH_CHAINS_LOG;
	larger.chain_count = (uint32_t)1 << (64 - larger.shift);
	larger.chains = calloc(larger.chain_count, sizeof(struct hash_node *));
	if (!larger.chains)
		return table->chains != NULL;
	hash_table_move(table, &larger);
	free(table->chains);
	*table = larger;
	return true;
}

void hash_table_add(struct hash_table *table, struct hash_node *node, uint64_t key)
{
	node->key = key;
	hash_table_link(table, node);
	table->count++;
}

void hash_table_remove(struct hash_table *table, struct hash_node *node)
{
	struct hash_node **at = hash_table_chain(table, node->key);

	while (*at != node)
		at = &(*at)->next;
	*at = node->next;
	table->count--;
}

void hash_table_fini(struct hash_table *table)
{
	free(table->chains);
	*table = (struct hash_table){.count = 0};
}
