/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_completion.h - what Thole reports becomes a queue entry, a count, or both.
 *
 * Called by Thole from inside any call on the endpoint, so under the domain's lock; it must not
 * call Thole. The way of every message has one branch for everything unusual.
 */
#ifndef PROV_COMPLETION_H
#define PROV_COMPLETION_H

#include "prov_endpoint.h"
#include "thole.h"

/* arg: the struct prov_endpoint. */
thole_complete_fn prov_completion_take;

/* A report of our own (a peek): always an entry, never a count. */
void prov_completion_report(struct prov_endpoint *endpoint, const struct thole_completion *completion);

#endif /* PROV_COMPLETION_H */
