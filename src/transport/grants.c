/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/grants.h"

#include <sys/mman.h>

struct grant *grants_find(struct grants *grants, uint64_t key)
{
	for (struct list_node *node = list_first(&grants->list); node; node = list_next(&grants->list, node))
		if (container_of(node, struct grant, node)->key == key)
			return container_of(node, struct grant, node);
	return NULL;
}

struct grant *grants_add(struct grants *grants, struct pool *pool, uint64_t key)
{
	struct grant *grant;

	if (grants->count == GRANTS_MAX)
		grants_drop(grants, pool, container_of(list_first(&grants->list), struct grant, node));
	grant = pool_get(pool);
	if (!grant)
		return NULL;
	*grant = (struct grant){.key = key};
	list_push_back(&grants->list, &grant->node);
	grants->count++;
	return grant;
}

void grants_drop(struct grants *grants, struct pool *pool, struct grant *grant)
{
	if (grant->here.mapping)
		munmap(grant->here.mapping, grant->here.mapped);
	list_remove(&grant->node);
	grants->count--;
	pool_put(pool, grant);
}

void grants_clear(struct grants *grants, struct pool *pool)
{
	while (!list_empty(&grants->list))
		grants_drop(grants, pool, container_of(list_first(&grants->list), struct grant, node));
}

bool grants_use(struct grants *grants, struct grant *grant, const struct transport_access *access)
{
	unsigned needed = access->put ? THOLE_ACCESS_PUT : THOLE_ACCESS_GET;
	uint64_t length = access->vector->length;

	if (!(grant->access & needed) || access->offset > grant->length || length > grant->length - access->offset)
		return false; /* the target says what is wrong, if something is */
	list_remove(&grant->node);
	list_push_back(&grants->list, &grant->node);
	return true;
}
