/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hash_table: members found by numbers of 64 bits, some of which may be equal; the newest of these first.
 *
 * Owns the chains, not the members. Invariant: there are at least as many chains as members, unless there was no memory
 * for more. No thread safety.
 */
#ifndef THOLE_BASE_HASH_TABLE_H
#define THOLE_BASE_HASH_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	HASH_CHAINS_LOG = 4, /* of the first table; it doubles where there are more members */
	HASH_CHAINS = 1 << HASH_CHAINS_LOG,
};

struct hash_node {
	struct hash_node *next; /* of its chain */
	uint64_t key;
};

struct hash_table {
	struct hash_node **chains;
	uint32_t chain_count; /* a power of 2; 0: there have been no members */
	uint32_t shift;       /* 64 less its logarithm */
	uint32_t count;       /* members */
};

/* Room for one more, so that hash_table_add needs no memory. Without memory for more chains the old ones do; false:
 * there are none. */
bool hash_table_reserve(struct hash_table *table);
/* There is room (hash_table_reserve). */
void hash_table_add(struct hash_table *table, struct hash_node *node, uint64_t key);
/* It is a member. */
void hash_table_remove(struct hash_table *table, struct hash_node *node);
/* Its members are their owners'. */
void hash_table_fini(struct hash_table *table);

/* Keys may have their first or their last bits in common: all bits count in the first ones of the product. */
static inline struct hash_node **hash_table_chain(const struct hash_table *table, uint64_t key)
{
	return &table->chains[key * 0x9e3779b97f4a7c15u >> table->shift];
}

/* The next member with that key: node itself, or one behind it. NULL: there is none. */
static inline struct hash_node *hash_node_with(struct hash_node *node, uint64_t key)
{
	while (node && node->key != key)
		node = node->next;
	return node;
}

static inline struct hash_node *hash_table_find(const struct hash_table *table, uint64_t key)
{
	return table->count ? hash_node_with(*hash_table_chain(table, key), key) : NULL;
}

/* Another with the same key. */
static inline struct hash_node *hash_node_next(const struct hash_node *node)
{
	return hash_node_with(node->next, node->key);
}

#endif
