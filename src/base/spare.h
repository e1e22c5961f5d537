/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spare: blocks of memory for payloads that wait, for a receive or for room.
 *
 * Owns those that were put back. The C library gives long blocks back to the kernel, and each page that is had again is
 * a fault, which costs several times what copying a page does. So some are kept, by their length's power of two; the
 * one that was put last is got next, since its lines are warm.
 *
 * Invariants: a block is got or kept, never both; the kept ones have at most SPARE_KEPT_MAX bytes. No thread safety.
 */
#ifndef BASE_SPARE_H
#define BASE_SPARE_H

#include <stddef.h>
#include <stdint.h>

enum {
	SPARE_CLASS_MIN = 12, /* up to 4 KiB the C library keeps memory itself, */
	SPARE_CLASS_MAX = 22, /* and over 4 MiB a block is too much to keep */
	SPARE_CLASSES = SPARE_CLASS_MAX - SPARE_CLASS_MIN,
	SPARE_KEPT_MAX = 8 << 20, /* bytes: windows of messages of 64 KiB to 256 KiB, of some peers */
};

struct spare;

/* All zero: nothing is kept. */
struct spares {
	struct spare *kept[SPARE_CLASSES];
	uint64_t bytes; /* of all that are kept */
};

/* A block of at least `length` bytes, aligned as malloc's; its content is anything. NULL: no memory. */
void *spare_get(struct spares *spares, uint64_t length);

/* Give a block back; NULL is none. */
void spare_put(struct spares *spares, void *block);

/* Free all that is kept. */
void spare_fini(struct spares *spares);

#endif /* BASE_SPARE_H */
