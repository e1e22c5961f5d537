/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/* endian: big-endian numbers at any address, as the network has them. */
#ifndef THOLE_BASE_ENDIAN_H
#define THOLE_BASE_ENDIAN_H

#include <stdint.h>
#include <string.h>

static inline uint16_t load_be16(const uint8_t *from)
{
	uint16_t value;

	memcpy(&value, from, sizeof(value));
	return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? value : __builtin_bswap16(value);
}

static inline uint32_t load_be32(const uint8_t *from)
{
	uint32_t value;

	memcpy(&value, from, sizeof(value));
	return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? value : __builtin_bswap32(value);
}

static inline uint64_t load_be64(const uint8_t *from)
{
	uint64_t value;

	memcpy(&value, from, sizeof(value));
	return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? value : __builtin_bswap64(value);
}

static inline void store_be16(uint8_t *to, uint16_t value)
{
	value = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? value : __builtin_bswap16(value);
	memcpy(to, &value, sizeof(value));
}

static inline void store_be32(uint8_t *to, uint32_t value)
{
	value = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? value : __builtin_bswap32(value);
	memcpy(to, &value, sizeof(value));
}

static inline void store_be64(uint8_t *to, uint64_t value)
{
	value = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? value : __builtin_bswap64(value);
	memcpy(to, &value, sizeof(value));
}

/* The same in little-endian, for what is defined so. */
static inline uint64_t load_le64(const uint8_t *from)
{
	uint64_t value;

	memcpy(&value, from, sizeof(value));
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? value : __builtin_bswap64(value);
}

#endif
