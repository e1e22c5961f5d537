/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cache of registrations: what is found, what goes first, what has become wrong, and random use beside a model that
 * keeps a list in order of use. The registrar is the test's: it has so much room, and words that the test changes as a
 * kernel does.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "memory/cache.h"

enum { HANDLES = 4096, ROOM = 12, IDLE = 8, BYTES = 400, REFUSED = -5 };

static struct {
	struct cache_entry made[HANDLES]; /* as they were entered; uses: 1, as long as they are there */
	uint32_t words[HANDLES];
	uint32_t next, live, room;
	int refuse;
	bool blind; /* there is no monitor */
} registrar;

static int made_enter(void *arg, struct cache_entry *entry)
{
	uint32_t handle = registrar.next;

	assert_ptr_equal(arg, &registrar);
	if (registrar.refuse)
		return registrar.refuse;
	if (registrar.live >= registrar.room)
		return CACHE_FULL;
	assert_in_range(++registrar.next, 1, HANDLES);
	registrar.live++;
	entry->handle = handle;
	if (!registrar.blind) /* else as it was given: none */
		entry->word = registrar.words + handle;
	entry->generation = registrar.words[handle];
	registrar.made[handle] = *entry;
	return 0;
}

static void made_leave(void *arg, struct cache_entry *entry)
{
	assert_ptr_equal(arg, &registrar);
	assert_int_equal(registrar.made[entry->handle].uses, 1); /* once */
	assert_int_equal(entry->uses, 0);
	registrar.made[entry->handle].uses = 0;
	registrar.live--;
}

static const struct cache_registrar calls = {.enter = made_enter, .leave = made_leave};

static void *memory;

static void cache_make(struct cache *cache, uint32_t room, uint32_t idle_max, uint64_t bytes_max)
{
	memset(&registrar, 0, sizeof(registrar));
	registrar.room = HANDLES;
	memory = malloc(cache_size(room));
	cache_init(cache, memory, room, idle_max, bytes_max);
	cache_serve(cache, &calls, &registrar);
}

static void cache_end(struct cache *cache)
{
	cache_fini(cache);
	assert_int_equal(registrar.live, 0);
	assert_int_equal(cache->bytes, 0);
	free(memory);
}

static uint64_t take(struct cache *cache, uint64_t address, uint64_t length, uint32_t access,
		     struct cache_entry **entry_p)
{
	assert_int_equal(cache_take(cache, address, length, access, entry_p), 0);
	return (*entry_p)->handle;
}

static uint64_t use(struct cache *cache, uint64_t address, uint64_t length, uint32_t access)
{
	struct cache_entry *entry;
	uint64_t handle = take(cache, address, length, access, &entry);

	cache_give(cache, entry);
	return handle;
}

static void assert_counts(const struct cache *cache, uint64_t hits, uint64_t misses, uint64_t invalidations,
			  uint64_t evictions)
{
	assert_int_equal(cache->counts.hits, hits);
	assert_int_equal(cache->counts.misses, misses);
	assert_int_equal(cache->counts.invalidations, invalidations);
	assert_int_equal(cache->counts.evictions, evictions);
}

static void found(void **state)
{
	struct cache cache;

	(void)state;
	cache_make(&cache, 8, 8, UINT64_MAX);
	assert_int_equal(use(&cache, 100, 10, 0), 0);
	assert_int_equal(use(&cache, 100, 10, 0), 0);
	assert_int_equal(use(&cache, 100, 11, 0), 1); /* neither another length */
	assert_int_equal(use(&cache, 101, 10, 0), 2); /* nor another address */
	assert_int_equal(use(&cache, 100, 10, CACHE_WRITE), 3); /* more access than it was entered with */
	assert_int_equal(use(&cache, 100, 10, CACHE_WRITE), 3);
	assert_int_equal(use(&cache, 100, 10, 0), 3); /* less does */
	assert_true(cache_has(&cache, 100, 10, 0) && cache_has(&cache, 100, 10, CACHE_WRITE));
	assert_true(cache_has(&cache, 100, 11, 0));
	assert_false(cache_has(&cache, 100, 11, CACHE_WRITE) || cache_has(&cache, 100, 12, 0));
	registrar.words[1]++; /* the mapping has changed */
	assert_false(cache_has(&cache, 100, 11, 0));
	assert_counts(&cache, 3, 4, 0, 0);
	cache_end(&cache);
}

static void invalid(void **state)
{
	struct cache_entry *first, *second;
	struct cache cache;

	(void)state;
	cache_make(&cache, 8, 8, UINT64_MAX);
	use(&cache, 100, 10, 0);
	registrar.words[0]++;
	assert_int_equal(use(&cache, 100, 10, 0), 1);
	assert_int_equal(registrar.made[0].uses, 0);
	assert_counts(&cache, 0, 2, 1, 0);

	/* In use while it becomes wrong: its user keeps it, others get a new one. */
	assert_int_equal(take(&cache, 100, 10, 0, &first), 1);
	registrar.words[1]++;
	assert_int_equal(take(&cache, 100, 10, 0, &second), 2);
	assert_int_equal(registrar.made[1].uses, 1);
	cache_give(&cache, first);
	assert_int_equal(registrar.made[1].uses, 0);
	cache_give(&cache, second);
	assert_int_equal(use(&cache, 100, 10, 0), 2);
	assert_counts(&cache, 2, 3, 2, 0);
	cache_end(&cache);
}

/* Nothing is kept of which nobody says when it has become wrong, nor shared. */
static void blind(void **state)
{
	struct cache_entry *first, *second;
	struct cache cache;

	(void)state;
	cache_make(&cache, 2, 0, UINT64_MAX);
	use(&cache, 100, 10, 0); /* the place was another's, with a monitor */
	registrar.blind = true;
	assert_int_equal(take(&cache, 100, 10, 0, &first), 1);
	assert_int_equal(take(&cache, 100, 10, 0, &second), 2);
	cache_give(&cache, first);
	cache_give(&cache, second);
	assert_int_equal(registrar.live, 0);
	assert_counts(&cache, 0, 3, 0, 1);
	cache_end(&cache);
}

static void full(void **state)
{
	struct cache_entry *entries[3], *more;
	struct cache cache;

	(void)state;
	cache_make(&cache, 3, 3, UINT64_MAX);
	for (uint64_t i = 0; i < 3; i++)
		take(&cache, i, 1, 0, &entries[i]);
	assert_int_equal(cache_take(&cache, 9, 1, 0, &more), CACHE_FULL);
	cache_give(&cache, entries[1]);
	assert_int_equal(take(&cache, 9, 1, 0, &more), 3);
	assert_int_equal(registrar.made[1].uses, 0);
	assert_counts(&cache, 0, 5, 0, 1);
	cache_give(&cache, entries[0]);
	cache_give(&cache, entries[2]);

	/* The registrar has no room: idle ones go until it has, or there are none. */
	registrar.room = 2;
	cache_give(&cache, more);
	assert_int_equal(use(&cache, 10, 1, 0), 4);
	assert_int_equal(registrar.made[0].uses + registrar.made[2].uses, 0);
	registrar.room = 0;
	assert_int_equal(cache_take(&cache, 11, 1, 0, &more), CACHE_FULL);
	assert_int_equal(registrar.live, 0);
	/* Another error is the caller's, and costs nobody's place. */
	registrar.room = 3;
	use(&cache, 12, 1, 0);
	registrar.refuse = REFUSED;
	for (int i = 0; i < 5; i++)
		assert_int_equal(cache_take(&cache, 13, 1, 0, &more), REFUSED);
	assert_int_equal(registrar.live, 1);
	registrar.refuse = 0;
	for (uint64_t i = 0; i < 3; i++)
		take(&cache, i, 1, 0, &entries[i]);
	for (uint64_t i = 0; i < 3; i++)
		cache_give(&cache, entries[i]);
	cache_end(&cache);
}

/* What is more than all that may be kept costs nobody's place, whether the registrar takes it or not. */
static void too_long(void **state)
{
	enum { SHORT = 5 };
	struct cache_entry *more;
	struct cache cache;

	(void)state;
	cache_make(&cache, 8, 8, 100);
	for (uint64_t i = 0; i < SHORT; i++)
		use(&cache, i, 10, 0);
	registrar.refuse = CACHE_FULL;
	assert_int_equal(cache_take(&cache, 9, 101, 0, &more), CACHE_FULL);
	assert_counts(&cache, 0, SHORT + 1, 0, 0);
	registrar.refuse = 0;
	assert_int_equal(take(&cache, 9, 101, 0, &more), SHORT);
	assert_int_equal(use(&cache, 10, 50, 0), SHORT + 1); /* beside it there is as much room as before */
	for (uint64_t i = 0; i < SHORT; i++)
		assert_int_equal(use(&cache, i, 10, 0), i);
	cache_give(&cache, more);
	assert_int_equal(registrar.made[SHORT].uses, 0);
	assert_int_equal(use(&cache, 9, 100, 0), SHORT + 2); /* just as much as may be kept is kept, alone */
	assert_int_equal(use(&cache, 9, 100, 0), SHORT + 2);
	assert_counts(&cache, SHORT + 1, SHORT + 4, 0, SHORT + 1);
	cache_end(&cache);
}

static void one_place(void **state)
{
	struct cache cache;

	(void)state;
	cache_make(&cache, 1, 1, UINT64_MAX);
	for (uint64_t i = 0; i < 100; i++) {
		assert_int_equal(use(&cache, i << 12, 100 * i + 1, 0), i);
		assert_int_equal(use(&cache, i << 12, 100 * i + 1, 0), i);
	}
	cache_end(&cache);
}

/* ---- A model -------------------------------------------------------------------------------------- */

/* All that are there, those without a use in order of use, the least recently used one first. */
static struct model {
	struct model_entry {
		uint64_t address, length, handle;
		uint32_t access, uses, used_at;
		bool wrong, listed, there;
	} entries[HANDLES];
	uint32_t count, clock;
	struct cache_counts counts;
} model;

static bool model_over(const struct model_entry *entry)
{
	return registrar.words[entry->handle] != 0;
}

static void model_leave(struct model_entry *entry)
{
	entry->there = entry->listed = false;
	assert_int_equal(registrar.made[entry->handle].uses, 0);
}

static struct model_entry *model_oldest(void)
{
	struct model_entry *oldest = NULL;

	for (uint32_t i = 0; i < model.count; i++) {
		struct model_entry *entry = model.entries + i;

		if (entry->there && entry->uses == 0 && (!oldest || entry->used_at < oldest->used_at))
			oldest = entry;
	}
	return oldest;
}

static void model_sum(uint32_t *all_p, uint32_t *idle_p, uint64_t *bytes_p)
{
	*all_p = *idle_p = 0;
	*bytes_p = 0;
	for (uint32_t i = 0; i < model.count; i++) {
		const struct model_entry *entry = model.entries + i;

		*all_p += entry->there;
		*idle_p += entry->there && entry->uses == 0;
		*bytes_p += entry->there && entry->length <= BYTES ? entry->length : 0;
	}
}

static void model_evict(void)
{
	struct model_entry *oldest = model_oldest();

	assert_non_null(oldest);
	if (model_over(oldest))
		model.counts.invalidations++;
	else
		model.counts.evictions++;
	model_leave(oldest);
}

static struct model_entry *model_find(uint64_t address, uint64_t length, uint32_t access)
{
	for (uint32_t i = model.count; i-- > 0;) {
		struct model_entry *entry = model.entries + i;

		if (entry->listed && entry->address == address && entry->length == length &&
		    (entry->access & access) == access)
			return entry;
	}
	return NULL;
}

static void model_take(const struct cache_entry *taken, int status, uint64_t address, uint64_t length, uint32_t access)
{
	struct model_entry *entry = model_find(address, length, access);
	uint32_t all, idle;
	uint64_t bytes;

	if (entry && !model_over(entry)) {
		model.counts.hits++;
		entry->uses++;
		assert_int_equal(status, 0);
		assert_int_equal(taken->handle, entry->handle);
		return;
	}
	if (entry) {
		model.counts.invalidations++;
		entry->listed = false;
		if (entry->uses == 0)
			model_leave(entry);
	}
	model.counts.misses++;
	for (model_sum(&all, &idle, &bytes); all == ROOM || (idle && bytes + length > BYTES && length <= BYTES);
	     model_sum(&all, &idle, &bytes)) {
		if (idle == 0) {
			assert_int_equal(status, CACHE_FULL);
			return;
		}
		model_evict();
	}
	assert_int_equal(status, 0);
	entry = model.entries + model.count++;
	*entry = (struct model_entry){address, length, taken->handle, access, 1, 0, false, length <= BYTES, true};
	assert_int_equal(registrar.made[taken->handle].address, address);
	assert_int_equal(registrar.made[taken->handle].length, length);
	assert_int_equal(registrar.made[taken->handle].access, access);
}

static void model_give(uint64_t handle)
{
	struct model_entry *entry = model.entries;
	uint32_t all, idle;
	uint64_t bytes;

	while (!entry->there || entry->handle != handle)
		entry++;
	if (--entry->uses)
		return;
	entry->used_at = ++model.clock;
	if (!entry->listed)
		model_leave(entry);
	model_sum(&all, &idle, &bytes);
	if (idle > IDLE)
		model_evict();
}

static void model_compare(const struct cache *cache)
{
	uint32_t all, idle;
	uint64_t bytes;

	model_sum(&all, &idle, &bytes);
	assert_int_equal(all, registrar.live);
	assert_int_equal(idle, cache->idle_count);
	assert_int_equal(bytes, cache->bytes);
	assert_memory_equal(&model.counts, &cache->counts, sizeof(model.counts));
}

static void history(uint64_t seed)
{
	struct cache_entry *used[ROOM + 40];
	uint32_t count = 0;
	struct cache cache;

	memset(&model, 0, sizeof(model));
	cache_make(&cache, ROOM, IDLE, BYTES);
	for (int step = 0; step < 1500; step++) {
		uint32_t what = random_below(&seed, 100), recent = registrar.next < 24 ? registrar.next : 24;
		uint64_t address = 1000 * random_below(&seed, 5);
		uint64_t length = random_below(&seed, 12) ? 20 + 30 * random_below(&seed, 3) : BYTES + 1;
		uint32_t access = random_below(&seed, 4) == 0 ? CACHE_WRITE : 0;

		if (what < 50 && count < ROOM + 40) {
			struct cache_entry *entry = NULL;
			int status = cache_take(&cache, address, length, access, &entry);

			model_take(entry, status, address, length, access);
			if (status == 0)
				used[count++] = entry;
		} else if (what < 85 && count > 0) {
			uint32_t at = random_below(&seed, count);
			uint64_t handle = used[at]->handle;

			cache_give(&cache, used[at]);
			used[at] = used[--count];
			model_give(handle);
		} else if (recent) {
			registrar.words[registrar.next - 1 - random_below(&seed, recent)]++; /* the mapping changes */
		}
		model_compare(&cache);
	}
	while (count)
		cache_give(&cache, used[--count]);
	cache_end(&cache);
}

static void random_histories(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++)
		history(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(found), cmocka_unit_test(invalid),          cmocka_unit_test(blind),
		cmocka_unit_test(full),  cmocka_unit_test(too_long),         cmocka_unit_test(one_place),
		cmocka_unit_test(random_histories),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
