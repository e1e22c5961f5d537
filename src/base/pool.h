/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects of one size, in chunks that never move.
 *
 * Owns the memory of all its objects. Each has an index, counted from 0 without gaps, for use
 * where a pointer cannot go (a record to a peer). The object that was put last is got next, since
 * its lines are warm. Neither get nor put touches an object's bytes, so what an owner leaves in
 * one, say a generation against stale handles, is there when it is got again; a new object is all
 * zero.
 *
 * Invariants: capacity is at most the bound, and all chunks but the last are full; each object is
 * either live or in the free list. No thread safety.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Behind each object. */
struct pool_tail {
	struct pool_tail *next_free; /* the tail itself while the object is live */
	uint32_t index;
};

struct pool {
	struct pool_tail *free; /* the first free object's tail, or NULL */
	size_t tail_offset;     /* from an object to its tail */
	size_t stride;          /* from an object to the next of its chunk */
	unsigned char **chunks;
	uint32_t chunk_shift; /* a chunk has 1 << chunk_shift objects */
	uint32_t capacity;    /* objects there are, live or free */
	uint32_t bound;       /* objects there may be */
	uint32_t live;
	uint32_t chunks_max; /* entries that the array of chunks has room for */
};

/* Objects are aligned to a cache line. They come by chunk_objects (rounded up to a power of two),
 * up to bound. Allocates nothing yet. Returns 0 or THOLE_ERR_ARGUMENT (a zero; a chunk over 1
 * GiB; a bound over 2^31). */
int pool_init(struct pool *pool, size_t object_size, uint32_t chunk_objects, uint32_t bound);

/* Free all objects, live ones too. The pool may be initialised again. */
void pool_fini(struct pool *pool);

/* Out of line part of pool_get: one more chunk. Returns 0, THOLE_ERR_AGAIN (at the bound) or
 * THOLE_ERR_MEMORY. May also be called to have objects ready before they are needed. */
int pool_grow(struct pool *pool);

static inline struct pool_tail *pool_tail_of(const struct pool *pool, const void *object)
{
	return (struct pool_tail *)(void *)((unsigned char *)(uintptr_t)object + pool->tail_offset);
}

/* An object, where there is a free one. */
static inline void *pool_get_free(struct pool *pool)
{
	struct pool_tail *tail = pool->free;

	pool->free = tail->next_free;
	tail->next_free = tail;
	pool->live++;
	return (unsigned char *)tail - pool->tail_offset;
}

/* An object, or NULL at the bound or where memory is refused. */
static inline void *pool_get(struct pool *pool)
{
	if (__builtin_expect(pool->free == NULL, 0) && pool_grow(pool) != 0)
		return NULL;
	return pool_get_free(pool);
}

/* Whether an object of this pool is got and not put. */
static inline bool pool_is_live(const struct pool *pool, const void *object)
{
	const struct pool_tail *tail = pool_tail_of(pool, object);

	return tail->next_free == tail;
}

/* Whether what is at this address is an object of this pool; it may be memory of anybody's. */
bool pool_has(const struct pool *pool, const void *object);

/* Give a live object back. */
static inline void pool_put(struct pool *pool, void *object)
{
	struct pool_tail *tail = pool_tail_of(pool, object);

	tail->next_free = pool->free;
	pool->free = tail;
	pool->live--;
}

static inline uint32_t pool_index_of(const struct pool *pool, const void *object)
{
	return pool_tail_of(pool, object)->index;
}

/* The object with an index, live or not; NULL if there is none. For an index that a peer sent,
 * ask pool_is_live as well. */
static inline void *pool_at(const struct pool *pool, uint32_t index)
{
	uint32_t within = index & ((UINT32_C(1) << pool->chunk_shift) - 1);

	if (index >= pool->capacity)
		return NULL;
	return pool->chunks[index >> pool->chunk_shift] + within * pool->stride;
}

#endif /* BASE_POOL_H */
