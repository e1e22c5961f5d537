/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * cache: registrations of memory that were used, kept for the next use of the same memory.
 *
 * Owns which registrations there are, who is the next to go, and whether one is still right. Does not own what a
 * registration is (a region of the driver, a card's): the registrar's calls make and end it; nor the memory of the
 * cache, which the caller gives.
 *
 * A registration is found by exactly its address and length. It is right as long as its generation word is what it was
 * before it was made: a word that the kernel changes when the mapping of the memory changes (a monitor). So nobody
 * has to see the program's calls of free and munmap. What has no word is not kept, since nobody could say when it has
 * become wrong. (Goglin: Decoupling Memory Pinning from the Application, sections 2.2 and 3.2.)
 *
 * Those that nobody uses go when there are too many of them, or their bytes too many, and when the registrar has no
 * room: least recently used first. One that is in use stays; if it becomes wrong meanwhile, it is found no more, and
 * goes with its last use. One that by itself has too many bytes is not kept, and nobody goes for it.
 *
 * Invariants: an entry is free, or entered; of the entered ones those without a use are idle and in order of use;
 * what can be found has a word. Pure; no thread safety.
 */
#ifndef THOLE_MEMORY_CACHE_H
#define THOLE_MEMORY_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CACHE_WRITE = 1, /* bit of access: the memory is written to; the registrar may have more bits */
	CACHE_FULL = 1   /* a status: no room for another one */
};

struct cache_entry {
	uint64_t address;
	uint64_t length;
	uint32_t access;     /* bits */
	uint32_t uses;
	/* The registrar's, filled in by enter: */
	uint64_t handle;
	const uint32_t *word; /* NULL: no monitor */
	uint32_t generation;  /* what *word was before anything was found out of the memory */

	bool listed;          /* it can be found */
	struct cache_entry *next;           /* of its chain, or of the free ones */
	struct cache_entry *older, *newer;  /* in a ring with the idle ones, if it is one */
};

struct cache_registrar {
	/* Register what entry says. Returns 0; a negative error; or CACHE_FULL: perhaps it can if another one goes. */
	int (*enter)(void *arg, struct cache_entry *entry);
	void (*leave)(void *arg, struct cache_entry *entry);
};

struct cache_counts {
	uint64_t hits;
	uint64_t misses;        /* registrations asked for that were not there, or wrong */
	uint64_t invalidations; /* registrations that were found to be wrong */
	uint64_t evictions;     /* right ones that had to go */
};

struct cache {
	const struct cache_registrar *registrar;
	void *arg;             /* its */
	struct cache_entry *entries;
	struct cache_entry **chains;
	struct cache_entry *free;
	struct cache_entry idle; /* newer: the least recently used one; older: the last one */
	uint32_t room;
	uint32_t shift;        /* of hashes, to chains */
	uint32_t idle_count, idle_max;
	uint64_t bytes, bytes_max; /* of all that are entered and may be kept */
	struct cache_counts counts;
};

/* How many bytes a cache of so many entries needs; room is 1 to 2^24. */
size_t cache_size(uint32_t room);

/* memory: cache_size(room) bytes, aligned as malloc does. Of the room entries at most idle_max are kept without a use,
 * and idle ones go while all have more than bytes_max, but for those that have more by themselves. */
void cache_init(struct cache *cache, void *memory, uint32_t room, uint32_t idle_max, uint64_t bytes_max);
/* Whose registrations they are; once, before the first use. */
void cache_serve(struct cache *cache, const struct cache_registrar *registrar, void *arg);
/* All idle ones go; none is in use. */
void cache_fini(struct cache *cache);

/* A registration of [address, address + length) with at least these bits of access, to be used until cache_give.
 * Returns 0; an error of the registrar's; or CACHE_FULL: all are in use, try again when one is given back, or it is too
 * long. */
int cache_take(struct cache *cache, uint64_t address, uint64_t length, uint32_t access, struct cache_entry **entry_p);
void cache_give(struct cache *cache, struct cache_entry *entry);

/* Whether cache_take would find it. */
bool cache_has(struct cache *cache, uint64_t address, uint64_t length, uint32_t access);

#endif
