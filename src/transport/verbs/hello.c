/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/hello.h"

#include <string.h>

#include "base/endian.h"

/*
 * Big-endian: 0 version, 1 flags, 2 share, 4 bays, 6 byte order of records (1: big), 7 length of name, 8 round,
 * 12 mate, 16 frame_max, 20 bay, 24 landing_key, 28 zero, 32 landing, 40 expected, 48 name. More bytes are for later
 * versions.
 */
enum { HELLO_HEAD = 48, HELLO_BIG = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ };

_Static_assert((int)HELLO_HEAD + (int)NIC_NAME_MAX <= (int)HELLO_MAX, "every name has room");

uint32_t hello_encode(const struct hello *hello, uint8_t bytes[HELLO_MAX])
{
	memset(bytes, 0, HELLO_HEAD);
	bytes[0] = HELLO_VERSION;
	bytes[1] = hello->flags;
	store_be16(bytes + 2, hello->share);
	store_be16(bytes + 4, hello->bays);
	bytes[6] = HELLO_BIG;
	bytes[7] = hello->name.length;
	store_be32(bytes + 8, hello->round);
	store_be32(bytes + 12, hello->mate);
	store_be32(bytes + 16, hello->frame_max);
	store_be32(bytes + 20, hello->bay);
	store_be32(bytes + 24, hello->landing_key);
	store_be64(bytes + 32, hello->landing);
	store_be64(bytes + 40, hello->expected);
	memcpy(bytes + HELLO_HEAD, hello->name.bytes, hello->name.length);
	return HELLO_HEAD + hello->name.length;
}

bool hello_decode(const uint8_t *bytes, uint32_t length, struct hello *hello_p)
{
	if (length < HELLO_HEAD || length > HELLO_MAX || bytes[0] != HELLO_VERSION || bytes[6] != HELLO_BIG ||
	    bytes[7] > NIC_NAME_MAX || length < HELLO_HEAD + (uint32_t)bytes[7])
		return false;
	*hello_p = (struct hello){
		.flags = bytes[1],
		.share = load_be16(bytes + 2),
		.bays = load_be16(bytes + 4),
		.round = load_be32(bytes + 8),
		.mate = load_be32(bytes + 12),
		.frame_max = load_be32(bytes + 16),
		.bay = load_be32(bytes + 20),
		.landing_key = load_be32(bytes + 24),
		.landing = load_be64(bytes + 32),
		.expected = load_be64(bytes + 40),
		.name.length = bytes[7],
	};
	memcpy(hello_p->name.bytes, bytes + HELLO_HEAD, bytes[7]);
	return (hello_p->name.length > 0) == !(hello_p->flags & (HELLO_CLOSED | HELLO_ENDED | HELLO_LOST));
}
