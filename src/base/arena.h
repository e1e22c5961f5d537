/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arena: blocks of this process's memory that other processes can be given to map.
 *
 * Owns one memfd at a time, the arena that new blocks come from, and those of earlier times in which blocks still are.
 * What lies at an address of an arena lies at the same distance from its beginning in the memfd, for as long as the
 * arena is not retired. So who maps it once sees every block that is in it, or will be, and there is nothing to be
 * told when one is freed: what can be read at an address is what its owner has there.
 *
 * Does not own who may map it (transport/shm/attach.c hands descriptors out), nor which allocations come from here
 * (thole_alloc, and the library that thole run --shared-heap preloads).
 *
 * Fork: the child must have copies. Just before, the arena is retired and its memory becomes private mappings of the
 * same memfd, with the rights that the program has given each. From then on nobody writes to the memfd, parent and
 * child see it as it was, and each copies what it writes. New blocks come from a new arena. A child that is made
 * without fork handlers (the bare system call) does not have the blocks at all; nor has a child those of which the
 * program has made something else, where the kernel does not tell what is mapped where.
 *
 * What always holds: the memfd is sealed against changes of its size, so whoever maps it does not fault. All of it is
 * lent by the C library's rules: what cannot be had here is NULL, and to be had there. Each descriptor is looked at
 * before it is used (own_file.h); once it is another's, nothing new comes from here, and a child of fork goes without
 * the blocks.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/altered.h"
#include "base/own_file.h"

enum {
	ARENA_GRANULE = 64 * 1024, /* blocks are whole granules, of address space; memory is taken by the page */
	ARENAS_MAX = 8,            /* arenas at a time: one, and those that have ended (forks, altered blocks) */
	ARENA_VERSION = 4,
};

#define ARENA_MAGIC UINT64_C(0x74686f6c65617231) /* "tholear1" */

/* An arena is where the highest bit of an address is this one, and has at most so many bytes of address space. There
 * neither the kernel puts programs, heaps, libraries and stacks of its own accord, nor sanitizers their shadows, but
 * for the thread sanitizer: it leaves programs little else than what lies below 2^39. */
#ifdef __SANITIZE_THREAD__
enum { ARENA_PLACE_BITS = 38 };
#define ARENA_SIZE_MAX (UINT64_C(1) << 33)
#else
enum { ARENA_PLACE_BITS = 45 };
#define ARENA_SIZE_MAX (UINT64_C(1) << 40)
#endif

/* The first page of each arena, of which the rest of its first granule is unused. */
struct arena_header {
	uint64_t magic;
	uint32_t version;
	uint32_t retired; /* nothing here is for peers: its owner's memory may be another; never taken back */
	uint64_t end;     /* bytes of it that its owner has mapped: behind them may be something else */
	struct altered altered; /* with more than can be listed it is not for peers */
};

/* An arena as it is told to others. */
struct arena_place {
	uint64_t number; /* of all arenas that this process had */
	uint64_t base;   /* its address in this process */
	uint64_t size;   /* of the memfd, which lies at base, as far as its header says */
	struct own_file file; /* of the arena's own; as long as it is not retired */
};

/* A block of at least length bytes; alignment is a power of two. *zero_p: it holds zeros. NULL: there is none to be
 * had, since a limit forbids it (RLIMIT_AS, FSIZE, DATA; overcommit), or too much is retired. */
void *arena_alloc(size_t length, size_t alignment, bool *zero_p);
/* Whether it was a block, which is now free. */
bool arena_free(void *block);
/* Give a block another length where it lies. False: it is not possible there. */
bool arena_resize(void *block, size_t length);
/* Let whole pages of one block go, so that they hold zeros. False: they are not such. */
bool arena_clear(void *address, size_t length);
/* Bytes of a block; 0: it is none. */
size_t arena_length(const void *block);
/* Who calls is about to map, unmap or protect this memory: blocks of which that is a part are no more for peers until
 * they are freed. */
void arena_alter(void *address, size_t length);
/* Where other processes find this memory, if they can. */
bool arena_find(const void *address, size_t length, struct arena_place *place_p);
/* Whether want of memory would be a signal at the first touch of a page: where the kernel accounts strictly. Then
 * there is no arena, and nobody's is to be mapped. */
bool arena_may_signal(void);
/* Nobody but this process changes [address, address + length) any more, and nobody is to read it elsewhere. */
void arena_withdraw(void *address, size_t length);

/* These functions as a table, by which a library finds those of another (blocks.c). */
struct arena_calls {
	uint32_t version; /* ARENA_VERSION */
	void *(*alloc)(size_t length, size_t alignment, bool *zero_p);
	bool (*free)(void *block);
	bool (*resize)(void *block, size_t length);
	size_t (*length)(const void *block);
	bool (*find)(const void *address, size_t length, struct arena_place *place_p);
	void (*withdraw)(void *address, size_t length);
};

extern const struct arena_calls arena_calls;

/* Whether an address may be in an arena: false for nearly all that are not. */
static inline bool arena_is_near(const void *address)
{
	return (uintptr_t)address >> ARENA_PLACE_BITS == 1;
}

#endif
