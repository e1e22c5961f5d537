/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_flags.h - which Thole flags an operation gets from libfabric's, and where its end is
 * reported.
 *
 * The rules are libfabric's: without FI_SELECTIVE_COMPLETION everything but an inject call makes a
 * queue entry; with it only FI_COMPLETION does. An inject call never does. They are worked out when
 * an endpoint is enabled or gets another counter, so that calls without flags have one word to
 * load.
 */
#ifndef PROV_FLAGS_H
#define PROV_FLAGS_H

#include <stdint.h>

#include "prov_endpoint.h"

/* After queues and counters are bound. */
void prov_flags_settle(struct prov_endpoint *endpoint);

/* Flags of a send, put, get or atomic; plain messages and tagged ones have the same counter. */
unsigned prov_flags_send(const struct prov_endpoint *endpoint, unsigned operation, uint64_t flags);

/* plain: THOLE_PLAIN or 0. */
unsigned prov_flags_recv(const struct prov_endpoint *endpoint, unsigned plain, uint64_t flags);

#endif /* PROV_FLAGS_H */
