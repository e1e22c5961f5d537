/* SPDX-License-Identifier: BSD-3-Clause */
/* mx_nic - what MX calls a NIC id: a MAC as a number, its first byte highest, as 0x0060dd47abcd.
 * Its writings. */
#ifndef MX_NIC_H
#define MX_NIC_H

#include <stdbool.h>
#include <stdint.h>

enum {
	MXI_NIC_BYTES = 6,
	MXI_NIC_TEXT_MAX = sizeof("00:00:00:00:00:00"),
};

/* Read "02:83:00:00:00:01", "0x028300000001" or "028300000001". False if it is none of them. */
bool mxi_nic_parse(const char *text, uint64_t *nic_id_p);

/* As the first of these. */
void mxi_nic_text(uint64_t nic_id, char text[MXI_NIC_TEXT_MAX]);

void mxi_nic_to_mac(uint64_t nic_id, uint8_t mac[MXI_NIC_BYTES]);
uint64_t mxi_nic_of_mac(const uint8_t mac[MXI_NIC_BYTES]);

#endif /* MX_NIC_H */
