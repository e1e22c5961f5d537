/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mac: the way to make long tags (guard.h): AES-128-GCM without anything encrypted, of OpenSSL's libcrypto, which is
 * loaded when it is asked for first and never else. A host without it works, but for integrity=full.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_MAC_H
#define THOLE_TRANSPORT_DATAGRAM_MAC_H

#include "transport/datagram/guard.h"

/* The same at each call. NULL: it cannot be had, and mac_trouble says why. */
const struct mac *mac_libcrypto(void);
const char *mac_trouble(void);

#endif
