/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * crc32c: two implementations of one checksum; the instruction's is taken where the processor has it. The table holds
 * what four bits of input do, so it fits a cache line and needs no set-up.
 */
#include "transport/datagram/wire/crc32c.h"

#include <string.h>

/* table[i]: i through the polynomial 0x1edc6f41, all bits reflected. */
static const uint32_t table[16] = {
	0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
	0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

uint32_t crc32c_portable(uint32_t before, const void *bytes, size_t length)
{
	uint32_t crc = ~before;

	for (const uint8_t *at = bytes; length > 0; length--, at++) {
		crc ^= *at;
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return ~crc;
}

#if defined(__x86_64__) && !defined(__KERNEL__) /* which has none of these registers */

__attribute__((target("sse4.2"))) static uint32_t crc32c_instruction(uint32_t before, const void *bytes, size_t length)
{
	const uint8_t *at = bytes;
	uint64_t crc = ~before;

	for (; length >= 8; length -= 8, at += 8) {
		uint64_t word;

		memcpy(&word, at, sizeof(word));
		crc = __builtin_ia32_crc32di(crc, word);
	}
	for (; length > 0; length--, at++)
		crc = __builtin_ia32_crc32qi((uint32_t)crc, *at);
	return ~(uint32_t)crc;
}

uint32_t crc32c(uint32_t before, const void *bytes, size_t length)
{
	if (__builtin_cpu_supports("sse4.2"))
		return crc32c_instruction(before, bytes, length);
	return crc32c_portable(before, bytes, length);
}

#else

uint32_t crc32c(uint32_t before, const void *bytes, size_t length)
{
	return crc32c_portable(before, bytes, length);
}

#endif
