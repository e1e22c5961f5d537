/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_connecting - from a NIC id, an endpoint id and a key to an endpoint address: connects that are
 * under way.
 *
 * The directory finds endpoints of this host, and those of other hosts whose frames are Thole's
 * own. With MXoE a place on another host is found by its name alone, and its own library, whatever
 * it is, judges the key. Under the endpoint's lock.
 */
#ifndef MX_CONNECTING_H
#define MX_CONNECTING_H

#include <stdbool.h>
#include <stdint.h>

#include "mx_request.h"

/* Begin; it may be done on return. */
void mxi_connecting_start(struct mx_endpoint *endpoint, union mx_request *request, uint64_t nic_id,
			  uint32_t endpoint_id, uint32_t key, uint32_t timeout_ms);
/* What the directory has answered. */
void mxi_connecting_answers(struct mx_endpoint *endpoint);
/* Give up one that the directory works on; false: it is too late. */
bool mxi_connecting_cancel(union mx_request *request);
/* Thole's completion of one. */
void mxi_connecting_completed(struct mx_endpoint *endpoint, union mx_request *request, int status);

#endif /* MX_CONNECTING_H */
