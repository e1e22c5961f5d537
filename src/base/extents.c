/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/extents.h"

enum { LOOKS_MAX = 32 }; /* extents of a bin that are tried: the next bin's are all long enough */

static uint32_t extent_bin(uint32_t length)
{
	return 31u - (uint32_t)__builtin_clz(length);
}

void extents_mark(struct extents *extents, uint32_t at, uint32_t length, enum extent_kind kind)
{
	struct extent_tag *first = &extents->tags[at], *last = &extents->tags[at + length - 1];

	last->kind = kind == EXTENT_USED ? EXTENT_NONE : (uint32_t)kind & 3;
	first->kind = (uint32_t)kind & 3;
	first->length = last->length = length & (EXTENTS_MAX - 1);
}

void extents_begin(struct extents *extents, struct extent_tag *tags)
{
	*extents = (struct extents){.tags = tags, .top = 1};
	extents_mark(extents, 0, 1, EXTENT_USED);
}

void extents_add(struct extents *extents, struct extent extent)
{
	uint32_t *head = &extents->bins[extent_bin(extent.length)];

	extents_mark(extents, extent.at, extent.length, extent.kind);
	extents->tags[extent.at].before = 0;
	extents->tags[extent.at].next = *head;
	if (*head)
		extents->tags[*head].before = extent.at;
	*head = extent.at;
	if (extent.kind == EXTENT_KEPT)
		extents->kept += extent.length;
}

static void extent_remove(struct extents *extents, uint32_t at)
{
	struct extent_tag *tag = &extents->tags[at];

	if (tag->before)
		extents->tags[tag->before].next = tag->next;
	else
		extents->bins[extent_bin(tag->length)] = tag->next;
	if (tag->next)
		extents->tags[tag->next].before = tag->before;
	if (tag->kind == EXTENT_KEPT)
		extents->kept -= tag->length;
}

struct extent extents_join(struct extents *extents, struct extent extent)
{
	const struct extent_tag *tags = extents->tags;

	if (extent.at > 1 && tags[extent.at - 1].kind >= EXTENT_CLEAN) {
		uint32_t before = tags[extent.at - 1].length;

		extent.kind = tags[extent.at - 1].kind == EXTENT_KEPT ? EXTENT_KEPT : extent.kind;
		extent_remove(extents, extent.at - before);
		extent.at -= before;
		extent.length += before;
	}
	if (extent.at + extent.length < extents->top && tags[extent.at + extent.length].kind >= EXTENT_CLEAN) {
		uint32_t after = extent.at + extent.length;

		extent.kind = tags[after].kind == EXTENT_KEPT ? EXTENT_KEPT : extent.kind;
		extent_remove(extents, after);
		extent.length += tags[after].length;
	}
	return extent;
}

/* The first extent that is long enough; 0: none. */
static uint32_t extent_search(const struct extents *extents, uint32_t length)
{
	uint32_t bin = extent_bin(length), looks = 0;

	for (uint32_t at = extents->bins[bin]; at && looks < LOOKS_MAX; at = extents->tags[at].next, looks++)
		if (extents->tags[at].length >= length)
			return at;
	while (++bin < EXTENTS_BINS)
		if (extents->bins[bin])
			return extents->bins[bin];
	return 0;
}

/* The first `length` granules of a free extent out of its list; the rest goes back. */
static enum extent_kind extent_split(struct extents *extents, uint32_t at, uint32_t length)
{
	struct extent rest = {at + length, extents->tags[at].length - length, extents_kind(extents, at)};

	extent_remove(extents, at);
	if (rest.length > 0)
		extents_add(extents, rest);
	return rest.kind;
}

uint32_t extents_take(struct extents *extents, uint32_t length, enum extent_kind *kind_p)
{
	uint32_t at = extent_search(extents, length);

	if (at)
		*kind_p = extent_split(extents, at, length);
	return at;
}

bool extents_stretch(struct extents *extents, uint32_t at, uint32_t length)
{
	uint32_t after = at + extents->tags[at].length, more = length - extents->tags[at].length;

	if (after >= extents->top || extents->tags[after].kind < EXTENT_CLEAN || extents->tags[after].length < more)
		return false;
	(void)extent_split(extents, after, more);
	extents_mark(extents, at, length, EXTENT_USED);
	return true;
}
