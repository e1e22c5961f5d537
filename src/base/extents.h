/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * extents: which parts of a row of granules are used, and which are free. Pure: it knows neither addresses nor memory,
 * and takes no lock; whose granules these are, and what is to be done with their pages, is their owner's (arena.c).
 *
 * Each granule has a tag: the first and the last one of an extent say how long it is and what it is, so that neighbours
 * are found from either side (Knuth's boundary tags). Free extents are in lists by the logarithm of their length.
 *
 * What always holds: extents lie side by side up to `top`, and behind that all is free and clean. The first granule is
 * used for good, so 0 names none. Of two free neighbours one is not in a list.
 */
#ifndef BASE_EXTENTS_H
#define BASE_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

enum { EXTENTS_BINS = 32 };
#define EXTENTS_MAX (UINT32_C(1) << 30) /* granules */

/* NONE: neither used nor to be had, and in no list. KEPT: free, and has pages. */
enum extent_kind { EXTENT_NONE, EXTENT_USED, EXTENT_CLEAN, EXTENT_KEPT };

struct extent_tag {
	uint32_t kind : 2;     /* enum extent_kind; EXTENT_USED stands where an extent begins, and nowhere else */
	uint32_t length : 30;  /* granules */
	uint32_t before, next; /* in a bin, by granule; 0: none */
};

struct extent {
	uint32_t at, length;
	enum extent_kind kind;
};

struct extents {
	struct extent_tag *tags;     /* one a granule, the owner's; all zeros at first */
	uint32_t top;
	uint64_t kept;               /* granules of kept extents */
	uint32_t bins[EXTENTS_BINS];
};

void extents_begin(struct extents *extents, struct extent_tag *tags);

static inline enum extent_kind extents_kind(const struct extents *extents, uint32_t at)
{
	return (enum extent_kind)extents->tags[at].kind;
}

/* Of the extent that begins there. */
static inline uint32_t extents_length(const struct extents *extents, uint32_t at)
{
	return extents->tags[at].length;
}

/* A free extent of this length out of its list, of which the rest goes back; 0: there is none below top. It is free
 * until it is marked. */
uint32_t extents_take(struct extents *extents, uint32_t length, enum extent_kind *kind_p);
/* What is there and in no list: used, or none. */
void extents_mark(struct extents *extents, uint32_t at, uint32_t length, enum extent_kind kind);
/* With its free neighbours, which are in no list then; kept if one of them is. */
struct extent extents_join(struct extents *extents, struct extent extent);
/* Put a free one, which has no free neighbours, into its list. */
void extents_add(struct extents *extents, struct extent extent);
/* Make a used extent as long as this out of what is free behind it. False: there is not enough. */
bool extents_stretch(struct extents *extents, uint32_t at, uint32_t length);

#endif
