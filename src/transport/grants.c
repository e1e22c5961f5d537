/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/grants.h"

#include <sys/mman.h>

struct grant *grants_find(struct grants *grants, uint64_t key)
{
	struct hash_node *node = hash_table_find(&grants->by_key, key);

	return node ? container_of(node, struct grant, found) : NULL;
}

struct grant *grants_add(struct grants *grants, struct pool *pool, uint64_t key)
{
	struct grant *grant;

	if (grants->by_key.count == GRANTS_MAX)
		grants_drop(grants, pool, container_of(list_first(&grants->list), struct grant, node));
	grant = hash_table_reserve(&grants->by_key) ? pool_get(pool) : NULL;
	if (!grant)
		return NULL;
	*grant = (struct grant){.access = 0};
	hash_table_add(&grants->by_key, &grant->found, key);
	list_push_back(&grants->list, &grant->node);
	return grant;
}

static void grant_unmap(struct grants *grants, struct grant *grant)
{
	if (!grant->here.mapping)
		return;
	munmap(grant->here.mapping, grant->here.mapped);
	grant->here = (struct grant_mapping){.mapping = NULL};
	grants->mapped--;
}

bool grants_may_map(struct grants *grants)
{
	struct list_node *node = list_first(&grants->list);
	struct grant *grant;

	if (grants->mapped < GRANTS_MAPPED_MAX)
		return true;
	while (!container_of(node, struct grant, node)->here.mapping)
		node = list_next(&grants->list, node);
	grant = container_of(node, struct grant, node);
	if (grants->uses - grant->used <= GRANTS_IDLE)
		return false;
	grant_unmap(grants, grant);
	grant->uses = 0;
	return true;
}

void grants_drop(struct grants *grants, struct pool *pool, struct grant *grant)
{
	grant_unmap(grants, grant);
	hash_table_remove(&grants->by_key, &grant->found);
	list_remove(&grant->node);
	pool_put(pool, grant);
}

void grants_clear(struct grants *grants, struct pool *pool)
{
	while (!list_empty(&grants->list))
		grants_drop(grants, pool, container_of(list_first(&grants->list), struct grant, node));
	hash_table_fini(&grants->by_key);
}

bool grants_use(struct grants *grants, struct grant *grant, const struct transport_access *access)
{
	unsigned needed = access->put ? THOLE_ACCESS_PUT : THOLE_ACCESS_GET;
	uint64_t length = access->vector->length;

	if (!(grant->access & needed) || access->offset > grant->length || length > grant->length - access->offset)
		return false; /* the target says what is wrong, if something is */
	list_remove(&grant->node);
	list_push_back(&grants->list, &grant->node);
	grant->used = ++grants->uses;
	return true;
}
