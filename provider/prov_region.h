/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_region.h - memory regions: what peers may read and write, under keys that the user chooses.
 *
 * A region belongs to the domain, an exposure to one Thole endpoint; so a region is exposed on
 * every endpoint of the domain, on those too that are opened later. Regions that peers have no
 * access to are not exposed at all: Thole needs no registration of local buffers. Under the
 * domain's lock.
 */
#ifndef PROV_REGION_H
#define PROV_REGION_H

#include <stddef.h>

#include "base/list.h"
#include "prov_compat.h"
#include "prov_counter.h"
#include "prov_domain.h"
#include "thole.h"

struct prov_region {
	struct fid_mr fid;
	struct prov_domain *domain;
	struct list_node node;         /* of the domain's regions */
	void *base;                    /* the program's memory */
	size_t length;                 /* bytes */
	unsigned access;               /* enum thole_access; 0: not for peers */
	struct thole_region **exposed; /* by endpoint slot; NULL where not exposed */
	size_t exposed_count;          /* slots there */
	struct prov_counter *counter;  /* counts peers' writes, or NULL */
};

extern struct fi_ops_mr prov_region_ops;

/* A new endpoint in a slot: give it all regions of the domain. */
int prov_region_expose_all(struct prov_domain *domain, struct thole_endpoint *endpoint, size_t slot);

/* An endpoint leaves its slot; its exposures end with it. */
void prov_region_unexpose_all(struct prov_domain *domain, struct thole_endpoint *endpoint, size_t slot);

#endif /* PROV_REGION_H */
