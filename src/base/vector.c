/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/vector.h"

#include "thole.h"

#define PIECE_MAX 4096 /* bytes of a layout copied a turn; only bounds the stack */

/* Find the segment that holds offset; *inside_p is the offset in it. Segments of no length are passed over. */
static size_t vector_find(const struct vector *vector, uint64_t offset, uint64_t *inside_p)
{
	size_t i = 0;

	while (i < vector->count && offset >= vector->segments[i].iov_len)
		offset -= vector->segments[i++].iov_len;
	*inside_p = offset;
	return i;
}

size_t vector_slice(const struct vector *vector, uint64_t offset, uint64_t length, struct iovec *out,
		    size_t max, uint64_t *covered_p)
{
	uint64_t inside, covered = 0;
	size_t n = 0;

	for (size_t i = vector_find(vector, offset, &inside);
	     i < vector->count && n < max && covered < length; i++, inside = 0) {
		uint64_t piece = vector->segments[i].iov_len - inside;

		if (piece == 0)
			continue;
		if (piece > length - covered)
			piece = length - covered;
		/* As a number: in a vector of a peer's it may be any. */
		out[n].iov_base = (void *)((uintptr_t)vector->segments[i].iov_base + inside);
		out[n++].iov_len = piece;
		covered += piece;
	}
	*covered_p = covered;
	return n;
}

enum { SLICE_SEGMENTS = 16 }; /* segments looked at a turn; only bounds the stack */

void vector_read_segments(const struct vector *vector, uint64_t offset, void *to, size_t length)
{
	struct iovec slice[SLICE_SEGMENTS];
	char *at = to;

	if (vector_has_layout(vector) && length > 0) {
		vector_layout(vector)->pack(vector_layout(vector)->state, offset, to, length);
		return;
	}
	while (length > 0) {
		uint64_t covered;
		size_t n = vector_slice(vector, offset, length, slice, SLICE_SEGMENTS, &covered);

		if (n == 0)
			return;
		for (size_t i = 0; i < n; at += slice[i++].iov_len)
			bytes_copy(at, slice[i].iov_base, slice[i].iov_len);
		offset += covered;
		length -= covered;
	}
}

void vector_write_segments(const struct vector *vector, uint64_t offset, const void *from, size_t length)
{
	struct iovec slice[SLICE_SEGMENTS];
	const char *at = from;

	if (vector_has_layout(vector) && length > 0) {
		vector_layout(vector)->unpack(vector_layout(vector)->state, offset, from, length);
		return;
	}
	while (length > 0) {
		uint64_t covered;
		size_t n = vector_slice(vector, offset, length, slice, SLICE_SEGMENTS, &covered);

		if (n == 0)
			return;
		for (size_t i = 0; i < n; at += slice[i++].iov_len)
			bytes_copy(slice[i].iov_base, at, slice[i].iov_len);
		offset += covered;
		length -= covered;
	}
}

static void vector_copy_layout(const struct vector *to, const struct vector *from, uint64_t length)
{
	char piece[PIECE_MAX];

	for (uint64_t offset = 0; offset < length; offset += PIECE_MAX) {
		size_t part = length - offset < PIECE_MAX ? (size_t)(length - offset) : PIECE_MAX;

		vector_read(from, offset, piece, part);
		vector_write(to, offset, piece, part);
	}
}

void vector_copy(const struct vector *to, const struct vector *from, uint64_t length)
{
	uint64_t offset = 0;

	if (vector_has_layout(from)) {
		vector_copy_layout(to, from, length);
		return;
	}
	for (size_t i = 0; i < from->count && offset < length; i++) {
		uint64_t piece = from->segments[i].iov_len;

		if (piece > length - offset)
			piece = length - offset;
		vector_write(to, offset, from->segments[i].iov_base, piece);
		offset += piece;
	}
}
