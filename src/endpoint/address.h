/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * address: an endpoint's name, in parts and as printable text ("t1-" and base64url of 36 bytes). The space
 * behind the two ids is for the links of other transports; until one fills it, it is zero.
 */
#ifndef THOLE_ENDPOINT_ADDRESS_H
#define THOLE_ENDPOINT_ADDRESS_H

#include <stdint.h>

#include "thole.h"

struct address_parts {
	uint64_t host;       /* equal for processes that can share memory: kernel boot and network namespace */
	uint64_t endpoint;   /* random: unique over hosts and time */
	uint8_t network[20]; /* zero */
};

void address_format(const struct address_parts *parts, struct thole_address *address_p);
/* Errors: THOLE_ERR_ADDRESS. */
int address_parse(const struct thole_address *address, struct address_parts *parts_p);

#endif
