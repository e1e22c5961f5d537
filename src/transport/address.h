/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * address: an endpoint's name, in parts and as text. The text is "t1-" and 36 bytes in base64url: the host's id, the
 * endpoint's, and 20 bytes that say where it is in the network, for one kind of links. With ADDRESS_MXOE it is
 * "mxoe:52:54:00:12:34:01/1", which people write too. For each endpoint address_format writes one text only. Of the 20
 * bytes, whose numbers are big-endian:
 *
 *   byte  0      enum address_kind
 *         1      enum address_flags
 *         2, 3   IPv4, IPv6: UDP port of records
 *         4..    IPv4: 4 bytes address; IPv6: 16 bytes address; mxoe: 1 byte endpoint number
 *         8..13  IPv4, Ethernet, mxoe: MAC of the interface; zero: none
 */
#ifndef THOLE_TRANSPORT_ADDRESS_H
#define THOLE_TRANSPORT_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "thole.h"

enum address_kind {
	ADDRESS_NONE,     /* in no network: all zero */
	ADDRESS_IPV4,
	ADDRESS_IPV6,
	ADDRESS_MXOE,     /* raw Ethernet frames of the mxoe codec */
	ADDRESS_ETHERNET, /* raw Ethernet frames of the native codec, and no IP */
};

enum { ADDRESS_PLACE_MAX = 64 }; /* bytes, the NUL included */

enum address_flags {
	ADDRESS_CARD = 1 << 0, /* it has an adapter for remote DMA, too */
};

struct address_parts {
	uint64_t host;       /* equal for processes that can share memory: kernel boot and network namespace */
	uint64_t endpoint;   /* random, so unique over hosts and time; with ADDRESS_MXOE made of the other parts */
	uint8_t network[20]; /* as above */
};

/* The parts of an endpoint that MX and Open-MX name by the MAC of its interface and a number: they follow from these
 * alone, so that whoever hears of it finds the same. */
void address_mxoe(const uint8_t mac[6], uint8_t number, struct address_parts *parts_p);
void address_format(const struct address_parts *parts, struct thole_address *address_p);
/* Errors: THOLE_ERR_ADDRESS. With ADDRESS_MXOE capital letters and leading zeros are accepted too. */
int address_parse(const struct thole_address *address, struct address_parts *parts_p);
/* The IP address and port that it is reached at, as people write them: 10.0.0.1:4711, [fd98::1]:4711; "": by none. */
void address_place(const struct address_parts *parts, char text[ADDRESS_PLACE_MAX]);
/* Whether that is the loopback's, by which no other host reaches it. */
bool address_is_inside(const struct address_parts *parts);

#endif
