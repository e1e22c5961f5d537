/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_av.h - address vectors: fi_addr_t is an index into a table of Thole addresses.
 *
 * Every endpoint that is bound to a vector keeps two maps, from fi_addr_t to Thole's peer and back,
 * so that no operation looks at an address. Insertions, removals and bindings keep them up to date,
 * all under the domain's lock. The same address may be inserted twice; a receive's source is then
 * the entry that came first.
 */
#ifndef PROV_AV_H
#define PROV_AV_H

#include <stdbool.h>
#include <stddef.h>

#include "prov_compat.h"
#include "prov_endpoint.h"
#include "thole.h"

struct prov_av {
	struct fid_av fid;
	struct prov_domain *domain;
	struct prov_eq *eq;               /* NULL: none is bound */
	bool asynchronous;                /* FI_EVENT: insertions report to eq */
	struct thole_address *addresses;  /* by fi_addr_t; a free one has an empty text */
	size_t count;                     /* entries, free ones too */
	uint32_t capacity;                /* and how many there is room for */
	size_t free_count;                /* how many below count are free, */
	size_t free_from;                 /* none of them below this */
	struct prov_endpoint **endpoints; /* bound to it */
	size_t endpoint_count;
};

int prov_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av_p, void *context);

/* With the domain's lock: an endpoint is bound; it learns what is there already. */
int prov_av_attach(struct prov_av *av, struct prov_endpoint *endpoint);
void prov_av_detach(struct prov_av *av, struct prov_endpoint *endpoint);

#endif /* PROV_AV_H */
