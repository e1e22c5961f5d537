/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sequence: numbers of record frames. They are 32 bits here, whatever the codec has on the wire. A frame's place in
 * the order of a connection is its sequence number and, where a codec's fragments share one, the fragment's number.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_SEQUENCE_H
#define THOLE_TRANSPORT_DATAGRAM_SEQUENCE_H

#include "transport/datagram/wire/codec.h"

enum { SEQUENCE_FIRST = 1 }; /* of a connection */

static inline int32_t sequence_after(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b);
}

/* What of a sequence number is on the wire, but for an epoch. */
static inline uint32_t sequence_narrow(const struct codec *codec, uint32_t sequence)
{
	return codec->sequence_bits < 32 ? sequence & ((1u << codec->sequence_bits) - 1) : sequence;
}

/* The number next to `near` whose low bits are on the wire. */
static inline uint32_t sequence_widen(const struct codec *codec, uint32_t wire, uint32_t near)
{
	unsigned unused = 32 - codec->sequence_bits;

	return near + (uint32_t)((int32_t)((wire - near) << unused) >> unused);
}

#endif
