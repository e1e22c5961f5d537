/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_nic.h"

#include <stdio.h>
#include <string.h>

enum { NIC_DIGITS = 2 * MXI_NIC_BYTES };

bool mxi_nic_parse(const char *text, uint64_t *nic_id_p)
{
	static const char digits[] = "0123456789abcdef0123456789ABCDEF";
	uint64_t nic_id = 0;
	unsigned count = 0;
	const char *digit;

	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		text += 2;
	for (; *text; text++) {
		if (*text == ':' && count > 0 && count % 2 == 0 && text[-1] != ':')
			continue;
		digit = strchr(digits, *text);
		if (!digit || count++ == NIC_DIGITS)
			return false;
		nic_id = nic_id << 4 | (uint64_t)((digit - digits) % 16);
	}
	*nic_id_p = nic_id;
	return count == NIC_DIGITS && text[-1] != ':';
}

void mxi_nic_text(uint64_t nic_id, char text[MXI_NIC_TEXT_MAX])
{
	uint8_t mac[MXI_NIC_BYTES];

	mxi_nic_to_mac(nic_id, mac);
	snprintf(text, MXI_NIC_TEXT_MAX, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
		 mac[5]);
}

void mxi_nic_to_mac(uint64_t nic_id, uint8_t mac[MXI_NIC_BYTES])
{
	for (int i = MXI_NIC_BYTES; i-- > 0; nic_id >>= 8)
		mac[i] = (uint8_t)nic_id;
}

uint64_t mxi_nic_of_mac(const uint8_t mac[MXI_NIC_BYTES])
{
	uint64_t nic_id = 0;

	for (int i = 0; i < MXI_NIC_BYTES; i++)
		nic_id = nic_id << 8 | mac[i];
	return nic_id;
}
