/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_address.h - an endpoint's address as programs have it in libfabric's calls: the text of Thole's, without what
 * all begin with and without an end. So it has 48 bytes, for which LCI has room, and not 56. Where a program gives or
 * gets text, it is Thole's.
 */
#ifndef PROV_ADDRESS_H
#define PROV_ADDRESS_H

#include <stdbool.h>

#include "thole.h"

enum { PROV_ADDRESS_BYTES = 48 };

struct prov_address {
	char text[PROV_ADDRESS_BYTES]; /* zeros behind it where it is shorter, as it is with another codec */
};

/* False: there is no such address. */
bool prov_address_of(const struct thole_address *whole, struct prov_address *address_p);
bool prov_address_read(const char *text, struct prov_address *address_p);

/* Whether it is an endpoint's is not seen here: thole_peer tells. */
void prov_address_whole(const struct prov_address *address, struct thole_address *whole_p);

#endif /* PROV_ADDRESS_H */
