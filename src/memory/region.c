/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
#include "memory/region.h"

#include <stddef.h>

static uint64_t page_of(const struct region *region, uint64_t address)
{
	return address >> region->page_shift;
}

static uint64_t pages_of(const struct region *region, const struct region_segment *segment)
{
	return page_of(region, segment->address + (segment->length - 1)) - page_of(region, segment->address) + 1;
}

bool region_init(struct region *region, struct region_segment *segments, uint32_t count, uint32_t page_shift)
{
	*region = (struct region){.segments = segments, .count = count, .page_shift = page_shift};
	for (uint32_t i = 0; i < count; i++) {
		struct region_segment *segment = segments + i;

		if (segment->length == 0 || segment->address > UINT64_MAX - segment->length ||
		    region->length > UINT64_MAX - segment->length)
			return false;
		segment->offset = region->length;
		segment->page = region->pages;
		region->length += segment->length;
		region->pages += pages_of(region, segment);
	}
	return count > 0;
}

/* The segment that has a page of the region. */
static const struct region_segment *segment_of_page(const struct region *region, uint64_t page)
{
	uint32_t low = 0, high = region->count;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (region->segments[middle].page <= page)
			low = middle;
		else
			high = middle;
	}
	return region->segments + low;
}

static const struct region_segment *segment_of_byte(const struct region *region, uint64_t offset)
{
	uint32_t low = 0, high = region->count;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (region->segments[middle].offset <= offset)
			low = middle;
		else
			high = middle;
	}
	return region->segments + low;
}

void region_run_at(const struct region *region, uint64_t page, uint64_t pages, struct region_run *run_p)
{
	const struct region_segment *segment = segment_of_page(region, page);
	uint64_t left = segment->page + pages_of(region, segment) - page;

	*run_p = (struct region_run){
		.address = (page_of(region, segment->address) + (page - segment->page)) << region->page_shift,
		.page = page,
		.pages = pages < left ? pages : left,
		.generation = region->generation,
	};
}

bool region_next(const struct region *region, uint64_t pages_max, struct region_run *run_p)
{
	if (region->pinned == region->pages)
		return false;
	region_run_at(region, region->pinned, pages_max, run_p);
	return true;
}

bool region_add(struct region *region, const struct region_run *run, uint64_t pages)
{
	if (run->generation != region->generation || run->page != region->pinned)
		return false;
	region->pinned += pages;
	region->state = region->pinned == region->pages ? REGION_PINNED : REGION_PINNING;
	return true;
}

uint64_t region_drop(struct region *region)
{
	uint64_t pages = region->pinned;

	region->generation++;
	region->pinned = 0;
	if (pages)
		region->state = REGION_INVALID;
	return pages;
}

bool region_holds(const struct region *region, uint64_t offset, uint64_t length)
{
	return offset <= region->length && length <= region->length - offset;
}

bool region_ready(const struct region *region, uint64_t offset, uint64_t length)
{
	struct region_piece last;

	if (length == 0)
		return true;
	region_piece_at(region, offset + (length - 1), 1, &last);
	return last.page < region->pinned;
}

void region_piece_at(const struct region *region, uint64_t offset, uint64_t length, struct region_piece *piece_p)
{
	const struct region_segment *segment = segment_of_byte(region, offset);
	uint64_t into = offset - segment->offset, address = segment->address + into;
	uint64_t size = UINT64_C(1) << region->page_shift;
	uint64_t within = address & (size - 1), left = segment->length - into;

	if (left > size - within)
		left = size - within;
	*piece_p = (struct region_piece){
		.page = segment->page + page_of(region, address) - page_of(region, segment->address),
		.within = (uint32_t)within,
		.length = (uint32_t)(length < left ? length : left),
	};
}
