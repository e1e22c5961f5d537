/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * declared: which memory of an endpoint a program has declared, by address.
 *
 * Owns the table of segments; not the regions, which the driver has, nor their ids. So a transfer finds that its memory
 * lies in a region that there is, and needs none of its own. Declaring is rare, so the table is an array in order.
 *
 * Always: segments are in order of their addresses. They may overlap. Pure; no thread safety.
 */
#ifndef THOLE_MEMORY_DECLARED_H
#define THOLE_MEMORY_DECLARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct declared_segment {
	uint64_t address;
	uint64_t length;
	uint64_t offset; /* of its first byte in its region */
	uint32_t id;     /* of the region */
	bool written;    /* the region may be written to */
};

struct declared {
	struct declared_segment *segments;
	uint32_t count, capacity;
};

/* What is memory of a region that was declared. */
struct declared_place {
	uint32_t id;
	uint64_t offset; /* in the region */
};

/* The segments of a region. Returns false, and has changed nothing, where there is no memory. */
bool declared_add(struct declared *declared, const struct iovec *segments, size_t count, uint32_t id, bool written);
/* All segments of a region. */
void declared_remove(struct declared *declared, uint32_t id);
void declared_fini(struct declared *declared);

/* Whether one segment has these bytes; written: of a region that may be written to. Looks at DECLARED_LOOK segments,
 * the nearest ones that begin at or below the address: what lies below more of them may be missed, which costs a region
 * of the transfer's own. */
enum { DECLARED_LOOK = 4 };
bool declared_find(const struct declared *declared, uint64_t address, uint64_t length, bool written,
		   struct declared_place *place_p);

#endif
