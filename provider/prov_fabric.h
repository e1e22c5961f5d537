/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_fabric.h - the outer objects: a fabric, which holds domains and event queues and knows how
 * many are open, and domains, in which everything else is opened (prov_domain.h).
 */
#ifndef PROV_FABRIC_H
#define PROV_FABRIC_H

#include "prov_compat.h"

/* By these one tells ours from other providers'. */
extern struct fi_ops prov_fabric_fid_ops;
extern struct fi_ops prov_fabric_domain_fid_ops;

int prov_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric_p, void *context);

#endif /* PROV_FABRIC_H */
