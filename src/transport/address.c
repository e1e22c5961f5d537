/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/endian.h"
#include "base/error.h"

static const char prefix[] = "t1-";
static const char mxoe_prefix[] = "mxoe:";
static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

#define MXOE_MARK (UINT64_C(0x6d) << 56) /* in an endpoint's id: the rest is a MAC and a number */

enum { PREFIX = sizeof(prefix) - 1, BYTES = 36, DIGITS = BYTES / 3 * 4 };

_Static_assert(PREFIX + DIGITS < THOLE_ADDRESS_MAX, "an address with its NUL fits");
_Static_assert(sizeof(struct address_parts) >= BYTES, "the parts are packed by hand");

void address_mxoe(const uint8_t mac[6], uint8_t number, struct address_parts *parts_p)
{
	uint64_t bits = 0;

	for (int i = 0; i < 6; i++)
		bits = bits << 8 | mac[i];
	*parts_p = (struct address_parts){
		.host = (bits ^ MXOE_MARK) * 0x9e3779b97f4a7c15u, /* no host's own number is likely to be this */
		.endpoint = MXOE_MARK | bits << 8 | number,
		.network = {[0] = ADDRESS_MXOE, [4] = number},
	};
	memcpy(parts_p->network + 8, mac, 6);
}

/* Two hexadecimal digits, or -1. */
static int mxoe_byte(const char *text)
{
	static const char hexadecimal[] = "0123456789abcdef0123456789ABCDEF";
	int value = 0;

	for (int i = 0; i < 2; i++) {
		const char *digit = text[i] ? strchr(hexadecimal, text[i]) : NULL;

		if (!digit)
			return -1;
		value = value << 4 | (int)((digit - hexadecimal) & 15);
	}
	return value;
}

/* A number of one to three digits, or -1. */
static int address_mxoe_number(const char *text)
{
	int value = 0;

	if (*text == '\0')
		return -1;
	for (int i = 0; text[i]; i++) {
		if (text[i] < '0' || text[i] > '9' || i == 3)
			return -1;
		value = 10 * value + (text[i] - '0');
	}
	return value <= UINT8_MAX ? value : -1;
}

/* False: it is no such text. */
static bool mxoe_parse(const struct thole_address *address, struct address_parts *parts_p)
{
	const char *at = address->text + sizeof(mxoe_prefix) - 1;
	uint8_t mac[6];
	int number;

	if (memcmp(address->text, mxoe_prefix, sizeof(mxoe_prefix) - 1) != 0)
		return false;
	for (int i = 0; i < 6; i++, at += 3) {
		int byte = mxoe_byte(at);

		if (byte < 0 || at[2] != (i < 5 ? ':' : '/'))
			return false;
		mac[i] = (uint8_t)byte;
	}
	number = address_mxoe_number(at);
	if (number < 0)
		return false;
	address_mxoe(mac, (uint8_t)number, parts_p);
	return true;
}

static void mxoe_format(const struct address_parts *parts, struct thole_address *address_p)
{
	const uint8_t *mac = parts->network + 8;

	snprintf(address_p->text, sizeof(address_p->text), "%s%02x:%02x:%02x:%02x:%02x:%02x/%u", mxoe_prefix, mac[0],
		 mac[1], mac[2], mac[3], mac[4], mac[5], parts->network[4]);
}

void address_format(const struct address_parts *parts, struct thole_address *address_p)
{
	uint8_t bytes[BYTES];
	char *out = address_p->text;

	memset(address_p, 0, sizeof(*address_p));
	if (parts->network[0] == ADDRESS_MXOE) {
		mxoe_format(parts, address_p);
		return;
	}
	store_be64(bytes, parts->host);
	store_be64(bytes + 8, parts->endpoint);
	memcpy(bytes + 16, parts->network, sizeof(parts->network));
	memcpy(out, prefix, PREFIX);
	out += PREFIX;
	for (int i = 0; i < BYTES; i += 3) {
		uint32_t group = (uint32_t)bytes[i] << 16 | (uint32_t)bytes[i + 1] << 8 | bytes[i + 2];

		for (int shift = 18; shift >= 0; shift -= 6)
			*out++ = digits[group >> shift & 63];
	}
}

int address_parse(const struct thole_address *address, struct address_parts *parts_p)
{
	static const char none[THOLE_ADDRESS_MAX - PREFIX - DIGITS];
	const char *text = address->text;
	uint8_t bytes[BYTES];

	if (mxoe_parse(address, parts_p))
		return 0;
	if (memcmp(text, prefix, PREFIX) != 0 ||
	    memcmp(text + PREFIX + DIGITS, none, sizeof(none)) != 0)
		goto malformed;
	for (int i = 0; i < DIGITS; i += 4) {
		uint32_t group = 0;

		for (int k = 0; k < 4; k++) {
			char c = text[PREFIX + i + k];
			const char *digit = c ? strchr(digits, c) : NULL;

			if (!digit)
				goto malformed;
			group = group << 6 | (uint32_t)(digit - digits);
		}
		for (int k = 0; k < 3; k++)
			bytes[i / 4 * 3 + k] = (uint8_t)(group >> (16 - 8 * k));
	}
	parts_p->host = load_be64(bytes);
	parts_p->endpoint = load_be64(bytes + 8);
	memcpy(parts_p->network, bytes + 16, sizeof(parts_p->network));
	if (parts_p->network[0] == ADDRESS_MXOE) /* has a text of its own, and only that */
		goto malformed;
	return 0;
malformed:
	return error_set(THOLE_ERR_ADDRESS,
			 "\"%.*s\" is not a Thole address: take it from thole_endpoint_address%s",
			 THOLE_ADDRESS_MAX, text,
			 strnlen(text, THOLE_ADDRESS_MAX) == PREFIX + DIGITS ? ", and fill the rest with zeros" : "");
}

void thole_mxoe_address(const uint8_t mac[6], uint8_t number, struct thole_address *address_p)
{
	struct address_parts parts;

	address_mxoe(mac, number, &parts);
	address_format(&parts, address_p);
}

int thole_mxoe_parts(const struct thole_address *address, uint8_t mac_p[6], uint8_t *number_p)
{
	struct address_parts parts;

	if (!mxoe_parse(address, &parts))
		return error_set(THOLE_ERR_ADDRESS,
				 "\"%.*s\" does not name an endpoint as MXoE does: \"mxoe:MAC/NUMBER\"",
				 THOLE_ADDRESS_MAX, address->text);
	memcpy(mac_p, parts.network + 8, 6);
	*number_p = parts.network[4];
	return 0;
}

void address_place(const struct address_parts *parts, char text[ADDRESS_PLACE_MAX])
{
	const uint8_t *network = parts->network;
	char address[INET6_ADDRSTRLEN];

	text[0] = '\0';
	if (network[0] == ADDRESS_IPV4)
		snprintf(text, ADDRESS_PLACE_MAX, "%u.%u.%u.%u:%u", network[4], network[5], network[6], network[7],
			 load_be16(network + 2));
	else if (network[0] == ADDRESS_IPV6 && inet_ntop(AF_INET6, network + 4, address, sizeof(address)))
		snprintf(text, ADDRESS_PLACE_MAX, "[%s]:%u", address, load_be16(network + 2));
}

bool address_is_inside(const struct address_parts *parts)
{
	static const uint8_t loopback[16] = {[15] = 1};

	return parts->network[0] == ADDRESS_IPV4   ? parts->network[4] == 127
	       : parts->network[0] == ADDRESS_IPV6 ? memcmp(parts->network + 4, loopback, sizeof(loopback)) == 0
						   : false;
}
