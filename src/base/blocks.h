/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * blocks: this process's arenas, whichever library has them: the one that was preloaded for all of the program's
 * large allocations (heap/), or else this one. A program may have several copies of this code, and its memory is in
 * one of them.
 */
#ifndef BASE_BLOCKS_H
#define BASE_BLOCKS_H

#include "base/arena.h"

/* The name of a preloaded library's function that returns its table of calls. */
#define BLOCKS_SYMBOL "thole_heap_arenas"

const struct arena_calls *blocks(void);

#endif
