/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs: the transport by remote DMA, as endpoints see it: calls of a card. Endpoints open an adapter of their host;
 * the simulator attaches its own, with or without links beside it.
 */
#ifndef THOLE_TRANSPORT_VERBS_VERBS_H
#define THOLE_TRANSPORT_VERBS_VERBS_H

#include "transport/verbs/card.h"

/* Give an endpoint of endpoint_create an adapter, which is the endpoint's from now on. setup NULL: as usual. Errors:
 * MEMORY, UNSUPPORTED. */
int verbs_attach(struct transport_owner *owner, struct nic *nic, const struct card_setup *setup,
		 const struct card_carrier *carrier, void *carrier_arg);

/* Hellos go by the connections of the datagram transport; nobody watches memory. */
extern const struct card_carrier verbs_carrier;

#endif
