/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory/declared.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* The first segment that begins behind an address. */
static uint32_t segment_behind(const struct declared *declared, uint64_t address)
{
	uint32_t low = 0, high = declared->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (declared->segments[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void segment_insert(struct declared *declared, struct declared_segment segment)
{
	uint32_t at = segment_behind(declared, segment.address);
	struct declared_segment *place = declared->segments + at;

	memmove(place + 1, place, (declared->count - at) * sizeof(*place));
	*place = segment;
	declared->count++;
}

bool declared_add(struct declared *declared, const struct iovec *segments, size_t count, uint32_t id, bool written)
{
	uint64_t offset = 0;
	void *more = array_reserve(declared->segments, &declared->capacity, declared->count + (uint32_t)count,
				   sizeof(*declared->segments));

	if (!more)
		return false;
	declared->segments = more;
	for (size_t i = 0; i < count; i++) {
		uint64_t address = (uintptr_t)segments[i].iov_base, length = segments[i].iov_len;

		segment_insert(declared, (struct declared_segment){address, length, offset, id, written});
		offset += length;
	}
	return true;
}

void declared_remove(struct declared *declared, uint32_t id)
{
	uint32_t to = 0;

	for (uint32_t from = 0; from < declared->count; from++)
		if (declared->segments[from].id != id)
			declared->segments[to++] = declared->segments[from];
	declared->count = to;
}

void declared_fini(struct declared *declared)
{
	free(declared->segments);
	*declared = (struct declared){0};
}

bool declared_find(const struct declared *declared, uint64_t address, uint64_t length, bool written,
		   struct declared_place *place_p)
{
	uint32_t at = segment_behind(declared, address);

	for (uint32_t looks = 0; at > 0 && looks < DECLARED_LOOK; looks++) {
		const struct declared_segment *segment = declared->segments + --at;
		uint64_t into = address - segment->address;

		if (into <= segment->length && length <= segment->length - into && (segment->written || !written)) {
			*place_p = (struct declared_place){segment->id, segment->offset + into};
			return true;
		}
	}
	return false;
}
