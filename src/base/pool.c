/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The allocation of pool.h's chunks; the fast path is in the header.
 */
#include "base/pool.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "thole.h"

enum { POOL_LINE = 64 };
#define POOL_CHUNK_BYTES_MAX ((size_t)1 << 30)
#define POOL_BOUND_MAX ((uint32_t)1 << 31) /* so that adding a chunk to an index cannot wrap */

static size_t round_up(size_t value, size_t unit)
{
	return (value + unit - 1) / unit * unit;
}

int pool_init(struct pool *pool, size_t object_size, uint32_t chunk_objects, uint32_t bound)
{
	uint32_t shift = 0;

	memset(pool, 0, sizeof(*pool));
	if (object_size == 0 || object_size > POOL_CHUNK_BYTES_MAX || chunk_objects == 0 ||
	    bound == 0 || bound > POOL_BOUND_MAX)
		return THOLE_ERR_ARGUMENT;
	while (shift < 30 && (UINT32_C(1) << shift) < chunk_objects)
		shift++;
	pool->tail_offset = round_up(object_size, _Alignof(struct pool_tail));
	pool->stride = round_up(pool->tail_offset + sizeof(struct pool_tail), POOL_LINE);
	pool->chunk_shift = shift;
	pool->bound = bound;
	if (pool->stride > POOL_CHUNK_BYTES_MAX >> shift)
		return THOLE_ERR_ARGUMENT;
	return 0;
}

void pool_fini(struct pool *pool)
{
	uint32_t chunk_objects = UINT32_C(1) << pool->chunk_shift;

	for (uint32_t first = 0; first < pool->capacity; first += chunk_objects)
		free(pool->chunks[first >> pool->chunk_shift]);
	free(pool->chunks);
	memset(pool, 0, sizeof(*pool));
}

/* Make room in the array of chunks for number count. */
static int chunks_reserve(struct pool *pool, uint32_t count)
{
	unsigned char **chunks = array_reserve(pool->chunks, &pool->chunks_max, count, sizeof(*chunks));

	if (!chunks)
		return THOLE_ERR_MEMORY;
	pool->chunks = chunks;
	return 0;
}

int pool_grow(struct pool *pool)
{
	uint32_t chunk_objects = UINT32_C(1) << pool->chunk_shift;
	uint32_t number = pool->capacity >> pool->chunk_shift;
	uint32_t count = pool->bound - pool->capacity;
	unsigned char *chunk;

	if (count == 0)
		return THOLE_ERR_AGAIN;
	if (count > chunk_objects)
		count = chunk_objects;
	if (chunks_reserve(pool, number + 1) != 0)
		return THOLE_ERR_MEMORY;
	chunk = memalign(POOL_LINE, count * pool->stride);
	if (!chunk)
		return THOLE_ERR_MEMORY;
	memset(chunk, 0, count * pool->stride);
	pool->chunks[number] = chunk;
	/* From the last to the first, so that indexes are got in rising order. */
	for (uint32_t i = count; i-- > 0;) {
		struct pool_tail *tail = pool_tail_of(pool, chunk + i * pool->stride);

		tail->index = pool->capacity + i;
		tail->next_free = pool->free;
		pool->free = tail;
	}
	pool->capacity += count;
	return 0;
}

bool pool_has(const struct pool *pool, const void *object)
{
	uint32_t chunk_objects = UINT32_C(1) << pool->chunk_shift;

	for (uint32_t first = 0; first < pool->capacity; first += chunk_objects) {
		uint32_t count = pool->capacity - first < chunk_objects ? pool->capacity - first : chunk_objects;

		if ((uintptr_t)object - (uintptr_t)pool->chunks[first >> pool->chunk_shift] < count * pool->stride)
			return true;
	}
	return false;
}
