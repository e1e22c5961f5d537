/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
#include "memory/cache.h"

#include <string.h>

static uint32_t chains_log2(uint32_t room)
{
	uint32_t log2 = 1;

	while (UINT32_C(1) << log2 < room)
		log2++;
	return log2;
}

size_t cache_size(uint32_t room)
{
	return room * sizeof(struct cache_entry) + (sizeof(struct cache_entry *) << chains_log2(room));
}

void cache_init(struct cache *cache, void *memory, uint32_t room, uint32_t idle_max, uint64_t bytes_max)
{
	memset(memory, 0, cache_size(room));
	*cache = (struct cache){
		.entries = memory,
		.room = room,
		.shift = 64 - chains_log2(room),
		.idle_max = idle_max,
		.bytes_max = bytes_max,
	};
	cache->chains = (struct cache_entry **)(void *)(cache->entries + room);
	cache->idle.older = cache->idle.newer = &cache->idle;
	for (uint32_t i = room; i-- > 0;) {
		cache->entries[i].next = cache->free;
		cache->free = cache->entries + i;
	}
}

void cache_serve(struct cache *cache, const struct cache_registrar *registrar, void *arg)
{
	cache->registrar = registrar;
	cache->arg = arg;
}

static struct cache_entry **chain_of(struct cache *cache, uint64_t address, uint64_t length)
{
	return cache->chains + ((address ^ length << 40) * UINT64_C(0x9e3779b97f4a7c15) >> cache->shift);
}

static void entry_list(struct cache *cache, struct cache_entry *entry)
{
	struct cache_entry **chain = chain_of(cache, entry->address, entry->length);

	entry->listed = true;
	entry->next = *chain;
	*chain = entry;
}

static void entry_unlist(struct cache *cache, struct cache_entry *entry)
{
	struct cache_entry **at = chain_of(cache, entry->address, entry->length);

	while (*at != entry)
		at = &(*at)->next;
	*at = entry->next;
	entry->listed = false;
}

static void idle_add(struct cache *cache, struct cache_entry *entry)
{
	struct cache_entry *head = &cache->idle;

	entry->newer = head;
	entry->older = head->older;
	entry->older->newer = entry;
	head->older = entry;
	cache->idle_count++;
}

static void idle_remove(struct cache *cache, struct cache_entry *entry)
{
	entry->older->newer = entry->newer;
	entry->newer->older = entry->older;
	cache->idle_count--;
}

static bool entry_right(const struct cache_entry *entry)
{
	/* Partner: the driver's notifier, which is done before the call that changes the mapping returns. */
	return __atomic_load_n(entry->word, __ATOMIC_ACQUIRE) == entry->generation;
}

/* Whether so long a one may be kept. If not, nothing goes for it, be it that the registrar refuses it, or that it takes
 * it since its bytes do not count. */
static bool cache_keeps(const struct cache *cache, uint64_t length)
{
	return length <= cache->bytes_max;
}

/* One that is neither idle nor listed goes. */
static void entry_leave(struct cache *cache, struct cache_entry *entry)
{
	cache->registrar->leave(cache->arg, entry);
	if (cache_keeps(cache, entry->length))
		cache->bytes -= entry->length;
	entry->next = cache->free;
	cache->free = entry;
}

/* A listed one is found no more, and goes unless it is in use. */
static void entry_drop(struct cache *cache, struct cache_entry *entry)
{
	entry_unlist(cache, entry);
	if (entry->uses)
		return;
	idle_remove(cache, entry);
	entry_leave(cache, entry);
}

/* The least recently used one goes. Returns false if there is none. */
static bool cache_evict(struct cache *cache)
{
	struct cache_entry *entry = cache->idle.newer;

	if (entry == &cache->idle)
		return false;
	if (entry_right(entry))
		cache->counts.evictions++;
	else
		cache->counts.invalidations++;
	entry_drop(cache, entry);
	return true;
}

void cache_fini(struct cache *cache)
{
	while (cache->idle_count)
		entry_drop(cache, cache->idle.newer);
}

static int cache_enter(struct cache *cache, uint64_t address, uint64_t length, uint32_t access,
		       struct cache_entry **entry_p)
{
	bool keeps = cache_keeps(cache, length);
	struct cache_entry *entry;
	int status;

	while (!cache->free || (keeps && cache->idle_count && cache->bytes + length > cache->bytes_max))
		if (!cache_evict(cache))
			return CACHE_FULL;
	entry = cache->free;
	cache->free = entry->next;
	*entry = (struct cache_entry){.address = address, .length = length, .access = access, .uses = 1};
	do
		status = cache->registrar->enter(cache->arg, entry);
	while (status == CACHE_FULL && keeps && cache_evict(cache));
	if (status) {
		entry->next = cache->free;
		cache->free = entry;
		return status;
	}
	if (keeps)
		cache->bytes += length;
	if (keeps && entry->word)
		entry_list(cache, entry);
	*entry_p = entry;
	return 0;
}

static struct cache_entry *cache_find(struct cache *cache, uint64_t address, uint64_t length, uint32_t access)
{
	struct cache_entry *entry = *chain_of(cache, address, length);

	while (entry && (entry->address != address || entry->length != length || (access & ~entry->access)))
		entry = entry->next;
	return entry;
}

bool cache_has(struct cache *cache, uint64_t address, uint64_t length, uint32_t access)
{
	const struct cache_entry *entry = cache_find(cache, address, length, access);

	return entry && entry_right(entry);
}

int cache_take(struct cache *cache, uint64_t address, uint64_t length, uint32_t access, struct cache_entry **entry_p)
{
	struct cache_entry *entry = cache_find(cache, address, length, access);

	if (entry && entry_right(entry)) {
		if (entry->uses++ == 0)
			idle_remove(cache, entry);
		cache->counts.hits++;
		*entry_p = entry;
		return 0;
	}
	if (entry) {
		cache->counts.invalidations++;
		entry_drop(cache, entry);
	}
	cache->counts.misses++;
	return cache_enter(cache, address, length, access, entry_p);
}

void cache_give(struct cache *cache, struct cache_entry *entry)
{
	if (--entry->uses)
		return;
	if (!entry->listed) {
		entry_leave(cache, entry);
		return;
	}
	idle_add(cache, entry);
	if (cache->idle_count > cache->idle_max)
		cache_evict(cache);
}
