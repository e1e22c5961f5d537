/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_poll.h - poll sets: which of several queues and counters have something. libfabric 2
 * deprecates them; programs written before still use them.
 */
#ifndef PROV_POLL_H
#define PROV_POLL_H

#include "prov_compat.h"

int prov_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **poll_p);

#endif /* PROV_POLL_H */
