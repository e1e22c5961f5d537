/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
#include "memory/area.h"

#include <stddef.h>
#include <string.h>

void area_init(struct area_table *table, struct area *areas, uint32_t room)
{
	*table = (struct area_table){.areas = areas, .room = room};
}

struct area *area_enlarge(struct area_table *table, struct area *areas, uint32_t room)
{
	struct area *old = table->areas;

	if (table->count)
		memcpy(areas, old, table->count * sizeof(*areas));
	table->areas = areas;
	table->room = room;
	return old;
}

/* The first area that ends behind an address: the one it is in, or the next one. */
static uint32_t area_find(const struct area_table *table, uint64_t address)
{
	uint32_t low = 0, high = table->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (table->areas[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static inline uint64_t lower_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void area_foresee(const struct area_table *table, uint64_t first, uint64_t end, uint32_t *areas_p, uint64_t *fresh_p)
{
	uint32_t at = area_find(table, first);
	const struct area *area = table->areas + at;

	*areas_p = at < table->count && area->first < first; /* split at its front */
	*fresh_p = 0;
	for (; first < end; area++, at++) {
		uint64_t start = at < table->count ? lower_of(area->first, end) : end;

		if (first < start) { /* a gap */
			*fresh_p += start - first;
			*areas_p += 1;
			first = start;
		}
		if (first == end)
			break;
		*areas_p += area->end > end; /* split at its end */
		first = lower_of(area->end, end);
	}
}

static void area_insert(struct area_table *table, uint32_t at, struct area area)
{
	memmove(table->areas + at + 1, table->areas + at, (table->count - at) * sizeof(area));
	table->areas[at] = area;
	table->count++;
}

/* Make two of the area that an address is inside of. */
static void area_split(struct area_table *table, uint32_t at, uint64_t address)
{
	struct area front = table->areas[at];

	front.end = address;
	area_insert(table, at, front);
	table->areas[at + 1].first = address;
}

bool area_lock(struct area_table *table, uint64_t first, uint64_t end)
{
	uint32_t more, at = area_find(table, first);
	uint64_t fresh;

	area_foresee(table, first, end, &more, &fresh);
	if (more > table->room - table->count)
		return false;
	table->locked += fresh;
	if (at < table->count && table->areas[at].first < first)
		area_split(table, at++, first);
	for (; first < end; at++) {
		uint64_t start = at < table->count ? lower_of(table->areas[at].first, end) : end;

		if (first < start) {
			area_insert(table, at, (struct area){.first = first, .end = start, .locks = 1});
		} else {
			if (table->areas[at].end > end)
				area_split(table, at, end);
			table->areas[at].locks++;
		}
		first = table->areas[at].end;
	}
	return true;
}

uint64_t area_unlock(struct area_table *table, uint64_t first, uint64_t end)
{
	uint32_t from = area_find(table, first), to = from;
	uint64_t freed = 0;

	for (; from < table->count && table->areas[from].first < end; from++) {
		struct area *area = table->areas + from;

		if (--area->locks == 0)
			freed += area->end - area->first;
		else
			table->areas[to++] = *area;
	}
	if (to < from)
		memmove(table->areas + to, table->areas + from, (table->count - from) * sizeof(*table->areas));
	table->count -= from - to;
	table->locked -= freed;
	return freed;
}

uint64_t area_locks(const struct area_table *table, uint64_t address)
{
	uint32_t at = area_find(table, address);

	return at < table->count && table->areas[at].first <= address ? table->areas[at].locks : 0;
}
