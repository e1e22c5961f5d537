/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bytes: memcpy for payloads. The C library changes to the `rep movsb` instruction from a few KiB on. Where source and
 * destination are not aligned alike, that is five to twenty times slower than vectors on some processors and the
 * fastest way on others, so it is measured once; see bytes.c.
 */
#ifndef THOLE_BASE_BYTES_H
#define THOLE_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
	BYTES_FEW = 64,
	BYTES_STEP = 2048, /* below the length from which the C library changes */
	/* A copy so long is one instruction where the processor has it fast: the C library comes to it by a detour, and
	 * takes other ways from some length on. */
	BYTES_MOVE_MIN = 8 * 1024,
	BYTES_MOVE_MAX = 64 * 1024,
	BYTES_OVER_MIN = 1024, /* so is a shorter one where each line has to come from another core first */
};

/* Whether the C library is slow with long copies between addresses that are not aligned alike (within 64 bytes), or
 * whose destination is less than 64 bytes ahead of the source as seen within a page. Vectors, or steps, are not. */
extern bool bytes_slow_unlike, bytes_slow_ahead;
/* Whether the processor has vectors of 32 bytes. */
extern bool bytes_in_vectors;

/* Find that out, and whether `rep movsb` is fast, once in a process: some ten microseconds. */
void bytes_learn(void);

/* More than BYTES_STEP. */
void bytes_copy_long(void *to, const void *from, size_t length);

/* More than BYTES_STEP, at most BYTES_TAKE_MAX. Where the processor has vectors, the lines of `from`, which another
 * core has written, are fetched as if to be written: of use where this core writes them next, else harm. */
enum { BYTES_TAKE_MAX = 8 * 1024 };
void bytes_take(void *to, const void *from, size_t length);

/* To where another core was the last to read; of use from BYTES_OVER_MIN on. */
void bytes_copy_over(void *to, const void *from, size_t length);

/* Past the caches, to memory: another core that reads it next fetches it from there. `to` begins a line. Only where
 * BYTES_CAN_PASS is it other than bytes_copy. What is stored after it is seen after it. */
#ifdef __x86_64__
enum { BYTES_CAN_PASS = 1 };
#else
enum { BYTES_CAN_PASS = 0 };
#endif
void bytes_copy_past(void *to, const void *from, size_t length);

/* The first and the last part of length bytes, which may overlap: both are read before they are written. */
#define BYTES_COPY_ENDS(type, to, from, length) \
	do { \
		type head_, tail_; \
\
		memcpy(&head_, (from), sizeof(type)); \
		memcpy(&tail_, (const char *)(from) + (length) - sizeof(type), sizeof(type)); \
		memcpy((to), &head_, sizeof(type)); \
		memcpy((char *)(to) + (length) - sizeof(type), &tail_, sizeof(type)); \
	} while (0)

/* At most BYTES_FEW, of none the places may be NULL. A call takes longer than the copy. */
static inline void bytes_copy_few(void *to, const void *from, size_t length)
{
	typedef uint8_t vector __attribute__((vector_size(16)));
	char *at = to;
	const char *source = from;

	if (length - 8 <= 8) {
		BYTES_COPY_ENDS(uint64_t, at, source, length);
	} else if (length > 32) {
		BYTES_COPY_ENDS(vector, at, source, 32);
		BYTES_COPY_ENDS(vector, at + length - 32, source + length - 32, 32);
	} else if (length > 16) {
		BYTES_COPY_ENDS(vector, at, source, length);
	} else if (length >= 4) {
		BYTES_COPY_ENDS(uint32_t, at, source, length);
	} else if (length > 0) {
		char middle = source[length / 2], last = source[length - 1];

		at[0] = source[0];
		at[length / 2] = middle;
		at[length - 1] = last;
	}
}

static inline void bytes_copy(void *to, const void *from, size_t length)
{
	if (length <= BYTES_FEW)
		bytes_copy_few(to, from, length);
	else if (length > BYTES_STEP)
		bytes_copy_long(to, from, length);
	else
		memcpy(to, from, length);
}

#endif
