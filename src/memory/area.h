/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * area: locks on ranges of addresses, which nest.
 *
 * Owns how many locks each address has; not what a lock means, nor the memory of the table, which the caller gives and
 * enlarges. Addresses are in units of the caller's, pages for one who pins pages.
 *
 * An area is a range whose addresses have equally many locks. A new lock splits the areas at its ends, counts one more
 * for those inside, and makes new ones in gaps. Areas are never merged: so each lock spans whole areas until it is
 * taken back, and an unlock splits nothing, needs no memory and cannot fail. (Seifert, Worringer, Rehm: Using Arbitrary
 * Memory Regions for SCI Communication, figure 2.)
 *
 * Invariants: areas are in order of addresses, do not overlap, are not empty and have at least one lock. Pure; no
 * thread safety.
 */
#ifndef THOLE_MEMORY_AREA_H
#define THOLE_MEMORY_AREA_H

#include <stdbool.h>
#include <stdint.h>

struct area {
	uint64_t first;
	uint64_t end; /* the first address behind it */
	uint64_t locks;
};

struct area_table {
	struct area *areas;
	uint32_t count;
	uint32_t room;
	uint64_t locked; /* addresses that have a lock */
};

/* No locks yet; areas has room for so many. */
void area_init(struct area_table *table, struct area *areas, uint32_t room);

/* Move to memory that has more room. Returns the old memory, which is the caller's again. */
struct area *area_enlarge(struct area_table *table, struct area *areas, uint32_t room);

/* How many areas a lock of [first, end) would add, and how many addresses it would be the first lock of. */
void area_foresee(const struct area_table *table, uint64_t first, uint64_t end, uint32_t *areas_p, uint64_t *fresh_p);

/* Lock [first, end), which is not empty. Returns false, and has changed nothing, where there is no room. */
bool area_lock(struct area_table *table, uint64_t first, uint64_t end);

/* Take back one lock of exactly [first, end). Returns how many addresses have none any more. */
uint64_t area_unlock(struct area_table *table, uint64_t first, uint64_t end);

/* How many locks an address has. */
uint64_t area_locks(const struct area_table *table, uint64_t address);

#endif
