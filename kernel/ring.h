/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * ring: places in memory that a program maps, filled by the kernel and read without a call.
 *
 * Place n modulo count is filled when its stamp, with which it begins, is n + 1. The program says how many it has read,
 * and those are filled again. Whatever it says is taken for how much is free: a wrong number costs the program what was
 * in the ring, and nobody else anything. The lock is the user's.
 */
#ifndef THOLE_KERNEL_RING_H
#define THOLE_KERNEL_RING_H

#include <asm/barrier.h>
#include <linux/compiler.h>
#include <linux/types.h>

struct ring {
	u32 *read;    /* the program's, mapped */
	void *places; /* mapped */
	u32 bytes;    /* of a place */
	u32 count;    /* of places: a power of two */
	u32 written;
	u32 seen;     /* *read as it was when it was needed last */
};

/* The next place to be filled; NULL: there is none. */
static inline void *ring_next(struct ring *ring)
{
	/* The acquire has its partner in the program, which reads before it says so. */
	if (ring->written - ring->seen >= ring->count)
		ring->seen = smp_load_acquire(ring->read);
	if (ring->written - ring->seen >= ring->count)
		return NULL;
	return ring->places + (size_t)(ring->written & (ring->count - 1)) * ring->bytes;
}

/* It is filled. */
static inline void ring_filled(struct ring *ring, u32 *stamp)
{
	smp_store_release(stamp, ++ring->written);
}

static inline bool ring_unread(const struct ring *ring)
{
	return ring->written != READ_ONCE(*ring->read);
}

#endif
