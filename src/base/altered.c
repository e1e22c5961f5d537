/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/altered.h"

#include <stddef.h>

#include "base/atomic.h"

static uint64_t altered_pack(uint32_t at, uint32_t length)
{
	return (uint64_t)at << 32 | length;
}

static struct altered_part altered_part(uint64_t packed)
{
	return (struct altered_part){packed >> 32, (packed >> 32) + (uint32_t)packed};
}

/* Where that is; ALTERED_MAX: nowhere. */
static uint64_t altered_find(const struct altered *altered, uint64_t packed)
{
	uint64_t i = 0;

	while (i < ALTERED_MAX && altered->blocks[i] != packed)
		i++;
	return i;
}

bool altered_is(const struct altered *altered, uint32_t at, uint32_t length)
{
	return altered_find(altered, altered_pack(at, length)) < ALTERED_MAX;
}

struct altered_part altered_first(const struct altered *altered, uint64_t begin, uint64_t end)
{
	struct altered_part first = {end, end};
	uint64_t count = load_relaxed(&altered->end);

	for (uint64_t i = 0; i < count && i < ALTERED_MAX; i++) {
		struct altered_part part = altered_part(load_relaxed(&altered->blocks[i]));

		if (part.begin < part.end && part.end > begin && part.begin < first.begin)
			first = (struct altered_part){part.begin > begin ? part.begin : begin, part.end};
	}
	return first;
}

bool altered_has(const struct altered *altered, uint64_t begin, uint64_t end)
{
	return altered_first(altered, begin, end).begin < end;
}

static void altered_set(struct altered *own, struct altered *shown, uint64_t i, uint64_t packed)
{
	own->blocks[i] = packed;
	if (i >= own->end)
		own->end = i + 1;
	if (!shown)
		return;
	store_relaxed(&shown->blocks[i], packed);
	store_relaxed(&shown->end, own->end);
}

bool altered_add(struct altered *own, struct altered *shown, uint32_t at, uint32_t length)
{
	uint64_t i = altered_find(own, 0);

	if (altered_is(own, at, length))
		return true;
	if (i == ALTERED_MAX)
		return false;
	altered_set(own, shown, i, altered_pack(at, length));
	return true;
}

void altered_remove(struct altered *own, struct altered *shown, uint32_t at, uint32_t length)
{
	uint64_t i = altered_find(own, altered_pack(at, length));

	if (i < ALTERED_MAX)
		altered_set(own, shown, i, 0);
}
