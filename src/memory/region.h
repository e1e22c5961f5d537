/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * region: a vector of segments of a process's memory that is declared once, and pinned when it is used.
 *
 * Owns what of a region is pinned, and which bytes may be used because of that. Does not own the pages, how they are
 * pinned, the memory of the segments, or who may name the region.
 *
 * Declaring pins nothing and asks for no memory to be there. Who uses a region pins it run by run, from its front,
 * and may use what is pinned while the rest is not. All pins of a region go at once: when the mapping below it
 * changes, under memory pressure, or when it is forgotten. After that it is pinned again by whoever uses it next.
 * (Goglin: Decoupling Memory Pinning from the Application, sections 3.1 and 3.3.)
 *
 *     declared --pin--> pinning --last page--> pinned
 *                          |                     |
 *                          +-------> invalid <---+   the pins are gone; pinning may begin again
 *
 * A run that was pinned while the mapping changed is of the old mapping: region_add refuses it, by the generation that
 * the run was asked for in. Pages are counted segment by segment, so two segments in one page count it twice.
 *
 * Invariants: pinned <= pages; the state is what pinned says, and invalid is told from declared only by having been
 * pinned before. Pure; no thread safety.
 */
#ifndef THOLE_MEMORY_REGION_H
#define THOLE_MEMORY_REGION_H

#include <stdbool.h>
#include <stdint.h>

enum region_state { REGION_DECLARED, REGION_PINNING, REGION_PINNED, REGION_INVALID };

struct region_segment {
	uint64_t address;
	uint64_t length; /* bytes, not 0 */
	uint64_t offset; /* of its first byte in the region; region_init fills this in, and the next */
	uint64_t page;   /* number of its first page in the region */
};

struct region {
	struct region_segment *segments; /* the caller's, until region_init is called again */
	uint32_t count;
	uint32_t page_shift;
	uint32_t generation; /* how often the pins have gone */
	enum region_state state;
	uint64_t length; /* bytes */
	uint64_t pages;
	uint64_t pinned; /* pages, from the front */
};

/* Consecutive pages of one segment. */
struct region_run {
	uint64_t address; /* of the first page */
	uint64_t page;    /* its number in the region */
	uint64_t pages;
	uint32_t generation;
};

/* Bytes that lie in one page. */
struct region_piece {
	uint64_t page;   /* its number in the region */
	uint32_t within; /* where in it */
	uint32_t length;
};

/* Declare. Returns false if a segment is empty, or goes over the end of the address space. */
bool region_init(struct region *region, struct region_segment *segments, uint32_t count, uint32_t page_shift);

/* What is to be pinned next: at most so many pages. Returns false if all are. */
bool region_next(const struct region *region, uint64_t pages_max, struct region_run *run_p);

/* The first pages of a run are pinned. Returns false if that is too late, and they are of no use: the pins of the
 * region have gone since the run was asked for, or somebody else has pinned it. */
bool region_add(struct region *region, const struct region_run *run, uint64_t pages);

/* All pins go. Returns how many pages those are: the first ones. */
uint64_t region_drop(struct region *region);

/* What of [page, page + pages) lies in one segment: the run that begins with that page. */
void region_run_at(const struct region *region, uint64_t page, uint64_t pages, struct region_run *run_p);

/* Whether these bytes are the region's. */
bool region_holds(const struct region *region, uint64_t offset, uint64_t length);

/* Whether these bytes, which are the region's, may be used now. */
bool region_ready(const struct region *region, uint64_t offset, uint64_t length);

/* The bytes from an offset on, at most length, that lie in one page. offset is the region's. */
void region_piece_at(const struct region *region, uint64_t offset, uint64_t length, struct region_piece *piece_p);

#endif
