/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_ep.h - libfabric's endpoints: opening, binding, enabling, options, cancelling and closing.
 * One is one Thole endpoint; what it shares with others (queues, vectors, regions) belongs to the
 * domain.
 *
 * The Thole endpoint is open from the start, so that its name can be asked for and regions exposed;
 * operations are possible once it is enabled, because only then it is known where completions go.
 */
#ifndef PROV_EP_H
#define PROV_EP_H

#include "prov_compat.h"

int prov_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep_p, void *context);

#endif /* PROV_EP_H */
