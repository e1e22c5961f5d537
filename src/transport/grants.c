/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/grants.h"

#include <stdlib.h>
#include <sys/mman.h>

static struct grant **grants_bucket(struct grant **buckets, uint32_t count, uint64_t key)
{
	return &buckets[(key * 0x9e3779b97f4a7c15u >> 32) % count];
}

struct grant *grants_find(struct grants *grants, uint64_t key)
{
	struct grant *grant;

	if (!grants->count)
		return NULL;
	grant = *grants_bucket(grants->buckets, grants->bucket_count, key);
	while (grant && grant->key != key)
		grant = grant->hash_next;
	return grant;
}

/* More chains than grants. Without memory for a larger table the old one does; false: there is none. */
static bool grants_reserve(struct grants *grants)
{
	uint32_t count = grants->bucket_count ? 2 * grants->bucket_count : GRANTS_BUCKETS;
	struct grant **buckets;

	if (grants->count < grants->bucket_count)
		return true;
	buckets = calloc(count, sizeof(*buckets));
	if (!buckets)
		return grants->buckets != NULL;
	for (struct list_node *node = list_first(&grants->list); node; node = list_next(&grants->list, node)) {
		struct grant *grant = container_of(node, struct grant, node);
		struct grant **bucket = grants_bucket(buckets, count, grant->key);

		grant->hash_next = *bucket;
		*bucket = grant;
	}
	free(grants->buckets);
	grants->buckets = buckets;
	grants->bucket_count = count;
	return true;
}

struct grant *grants_add(struct grants *grants, struct pool *pool, uint64_t key)
{
	struct grant *grant, **bucket;

	if (grants->count == GRANTS_MAX)
		grants_drop(grants, pool, container_of(list_first(&grants->list), struct grant, node));
	grant = grants_reserve(grants) ? pool_get(pool) : NULL;
	if (!grant)
		return NULL;
	bucket = grants_bucket(grants->buckets, grants->bucket_count, key);
	*grant = (struct grant){.key = key, .hash_next = *bucket};
	*bucket = grant;
	list_push_back(&grants->list, &grant->node);
	grants->count++;
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
	struct grant **at = grants_bucket(grants->buckets, grants->bucket_count, grant->key);

	grant_unmap(grants, grant);
	while (*at != grant)
		at = &(*at)->hash_next;
	*at = grant->hash_next;
	list_remove(&grant->node);
	grants->count--;
	pool_put(pool, grant);
}

void grants_clear(struct grants *grants, struct pool *pool)
{
	while (!list_empty(&grants->list))
		grants_drop(grants, pool, container_of(list_first(&grants->list), struct grant, node));
	free(grants->buckets);
	grants->buckets = NULL;
	grants->bucket_count = 0;
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
