/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * altered: the blocks of an arena of which their owner has made something else than memory of it. Pure: it knows
 * neither addresses nor memory.
 *
 * There are two such lists of an arena: one in its header, where peers look and may write, and the owner's own, which
 * it goes by. The owner stores both; whoever else reads one does so a word at a time.
 */
#ifndef BASE_ALTERED_H
#define BASE_ALTERED_H

#include <stdbool.h>
#include <stdint.h>

enum { ALTERED_MAX = 64 }; /* of one arena */

struct altered {
	uint64_t end;                 /* so many of the next may be something */
	uint64_t blocks[ALTERED_MAX]; /* granules: where it begins << 32 | how many it has; 0: none */
};

/* Granules of an arena. */
struct altered_part {
	uint64_t begin, end;
};

/* Whether this very block is in it. */
bool altered_is(const struct altered *altered, uint32_t at, uint32_t length);
/* Whether some of these granules are of a block in it. */
bool altered_has(const struct altered *altered, uint64_t begin, uint64_t end);
/* What the first block that has any of [begin, end) has of that, or behind it; nothing, at the end: there is none. */
struct altered_part altered_first(const struct altered *altered, uint64_t begin, uint64_t end);
/* In the owner's list and in the one that others see, if there is that. False: there is no room. */
bool altered_add(struct altered *own, struct altered *shown, uint32_t at, uint32_t length);
void altered_remove(struct altered *own, struct altered *shown, uint32_t at, uint32_t length);

#endif
