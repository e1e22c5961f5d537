/* SPDX-License-Identifier: BSD-3-Clause */
#include "prov_address.h"

#include <string.h>

static const char prefix[] = "t1-"; /* of all addresses of the native codec: transport/address.h */

enum { PREFIX = sizeof prefix - 1 };

bool prov_address_of(const struct thole_address *whole, struct prov_address *address_p)
{
	const char *text = whole->text + (strncmp(whole->text, prefix, PREFIX) ? 0 : PREFIX);
	size_t length = strnlen(text, PROV_ADDRESS_BYTES + 1);

	memset(address_p, 0, sizeof *address_p);
	if (length > PROV_ADDRESS_BYTES)
		return false;
	memcpy(address_p->text, text, length);
	return true;
}

/* A program may have made a text of the bytes that it has. */
bool prov_address_read(const char *text, struct prov_address *address_p)
{
	struct thole_address whole = {0};
	size_t length = strlen(text);

	if (length >= sizeof whole.text)
		return false;
	memcpy(whole.text, text, length);
	return prov_address_of(&whole, address_p);
}

void prov_address_whole(const struct prov_address *address, struct thole_address *whole_p)
{
	char *to = whole_p->text;

	memset(whole_p, 0, sizeof *whole_p);
	if (address->text[PROV_ADDRESS_BYTES - 1]) {
		memcpy(to, prefix, PREFIX);
		to += PREFIX;
	}
	memcpy(to, address->text, PROV_ADDRESS_BYTES);
}
