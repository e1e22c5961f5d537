/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy: memcpy for payloads. The C library changes to the `rep movsb` instruction from a few KiB on, which on several
 * processors is five times slower where source and destination are not aligned alike (measured on Zen 3: 4000 bytes
 * 0.54 us one way through a ring, 4096 bytes 1.86 us). Steps below that size keep to its vector loops.
 */
#ifndef THOLE_BASE_COPY_H
#define THOLE_BASE_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { COPY_STEP = 2048 };

static inline void copy_bytes(void *to, const void *from, size_t length)
{
	char *out = to;
	const char *in = from;

	if ((((uintptr_t)to ^ (uintptr_t)from) & 63) == 0) {
		memcpy(to, from, length);
		return;
	}
	for (; length > COPY_STEP; length -= COPY_STEP, out += COPY_STEP, in += COPY_STEP)
		memcpy(out, in, COPY_STEP);
	memcpy(out, in, length);
}

/* A few bytes, most often 8, without a call. */
static inline void copy_few(void *to, const void *from, size_t length)
{
	char *out = to;
	const char *in = from;
	uint64_t first[2], last[2];
	uint32_t front, back;

	if (__builtin_expect(length == 8, 1)) {
		memcpy(out, in, 8);
	} else if (length > 16) {
		for (; length > 32; length -= 16, out += 16, in += 16)
			memcpy(out, in, 16);
		memcpy(first, in, 16);
		memcpy(last, in + length - 16, 16);
		memcpy(out, first, 16);
		memcpy(out + length - 16, last, 16);
	} else if (length > 8) {
		memcpy(first, in, 8);
		memcpy(last, in + length - 8, 8);
		memcpy(out, first, 8);
		memcpy(out + length - 8, last, 8);
	} else if (length >= 4) {
		memcpy(&front, in, 4);
		memcpy(&back, in + length - 4, 4);
		memcpy(out, &front, 4);
		memcpy(out + length - 4, &back, 4);
	} else {
		for (; length > 0; length--)
			*out++ = *in++;
	}
}

#endif
