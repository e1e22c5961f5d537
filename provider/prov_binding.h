/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_binding.h - what an endpoint reports to, and finds its peers by: binding queues, counters
 * and address vectors to it. With the domain's lock.
 */
#ifndef PROV_BINDING_H
#define PROV_BINDING_H

#include <stdbool.h>
#include <stdint.h>

#include "prov_endpoint.h"

/* One more, as fi_ep_bind has it. */
int prov_binding_add(struct prov_endpoint *endpoint, struct fid *other, uint64_t flags);

/* Whether there is any queue or counter. */
bool prov_binding_reports(const struct prov_endpoint *endpoint);

/* The end of all of them: what ends from now on is reported to nobody. */
void prov_binding_leave(struct prov_endpoint *endpoint);

#endif /* PROV_BINDING_H */
