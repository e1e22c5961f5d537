/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * crc32c: the checksum of native frames: Castagnoli's polynomial, as iSCSI and SCTP have it, since processors compute
 * it. It finds damage, not malice. Pure.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_WIRE_CRC32C_H
#define THOLE_TRANSPORT_DATAGRAM_WIRE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of what came before (0: nothing) and these bytes. */
uint32_t crc32c(uint32_t before, const void *bytes, size_t length);

/* The same where the processor has no instruction for it; here for its test. */
uint32_t crc32c_portable(uint32_t before, const void *bytes, size_t length);

#endif
