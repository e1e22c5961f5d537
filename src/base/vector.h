/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vector: a message's memory as a list of segments, addressed by byte offset from its front; or what the program alone
 * can read and write, by functions of its own (struct thole_layout), which has no segments.
 * It owns neither. Invariant: length is the sum of the segments' lengths, or the layout's.
 */
#ifndef THOLE_BASE_VECTOR_H
#define THOLE_BASE_VECTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "base/bytes.h"

struct thole_layout;

struct vector {
	const struct iovec *segments;
	size_t count;
	uint64_t length;
};

/* A layout stands where the segments would. */
static inline struct vector vector_of_layout(const struct thole_layout *layout, uint64_t length)
{
	return (struct vector){(const struct iovec *)(const void *)layout, 0, length};
}

static inline const struct thole_layout *vector_layout(const struct vector *vector)
{
	return (const struct thole_layout *)(const void *)vector->segments;
}

static inline bool vector_has_layout(const struct vector *vector)
{
	return vector->count == 0 && vector->length > 0;
}

/* The parts of the two below for all but vectors of one segment. */
void vector_read_segments(const struct vector *vector, uint64_t offset, void *to, size_t length);
void vector_write_segments(const struct vector *vector, uint64_t offset, const void *from, size_t length);

/* Copy the first length bytes of one into another; both have as many. In order, a layout's too. */
void vector_copy(const struct vector *to, const struct vector *from, uint64_t length);

/* Copy length bytes at offset of the vector out to, or in from, contiguous memory. The range must be inside. */
static inline void vector_read(const struct vector *vector, uint64_t offset, void *to, size_t length)
{
	if (vector->count != 1)
		vector_read_segments(vector, offset, to, length);
	else if (length > 0)
		bytes_copy(to, (const char *)vector->segments->iov_base + offset, length);
}

static inline void vector_write(const struct vector *vector, uint64_t offset, const void *from, size_t length)
{
	if (vector->count != 1)
		vector_write_segments(vector, offset, from, length);
	else if (length > 0)
		bytes_copy((char *)vector->segments->iov_base + offset, from, length);
}

/* The segments that cover [offset, offset + length), at most max of them, into out. Returns how many, and in
 * *covered_p how many bytes they cover: none of a layout. */
size_t vector_slice(const struct vector *vector, uint64_t offset, uint64_t length, struct iovec *out,
		    size_t max, uint64_t *covered_p);

#endif
