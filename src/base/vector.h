/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vector: a message's memory as a list of segments, addressed by byte offset from its front.
 * It does not own the segments. Invariant: length is the sum of the segments' lengths.
 */
#ifndef THOLE_BASE_VECTOR_H
#define THOLE_BASE_VECTOR_H

#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "base/bytes.h"

struct vector {
	const struct iovec *segments;
	size_t count;
	uint64_t length;
};

/* The parts of the two below for vectors of several segments. */
void vector_read_segments(const struct vector *vector, uint64_t offset, void *to, size_t length);
void vector_write_segments(const struct vector *vector, uint64_t offset, const void *from, size_t length);

/* Copy the first length bytes of one into another; both have as many. */
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
 * *covered_p how many bytes they cover. */
size_t vector_slice(const struct vector *vector, uint64_t offset, uint64_t length, struct iovec *out,
		    size_t max, uint64_t *covered_p);

#endif
