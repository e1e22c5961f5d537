/* SPDX-License-Identifier: BSD-3-Clause */
/* What the provider's tests share: a fabric and a domain of it, opened as libfabric does, but
 * without libfabric. */
#ifndef PROV_OBJECTS_H
#define PROV_OBJECTS_H

#include "unit.h"

#include <stdlib.h>

#include "prov_core.h"
#include "prov_domain.h"
#include "prov_fabric.h"
#include "prov_info.h"
#include "prov_option.h"

struct objects {
	struct fi_info *info; /* what fi_getinfo says */
	struct fid_fabric *fabric;
	struct fid_domain *domain; /* for one thread: without a lock */
};

static inline struct prov_domain *objects_domain(const struct objects *objects)
{
	return container_of(objects->domain, struct prov_domain, fid);
}

static inline void objects_open(struct objects *objects)
{
	prov_option_read();
	assert_int_equal(prov_info_get(FI_VERSION(1, 17), NULL, NULL, 0, NULL, &objects->info), 0);
	assert_int_equal(prov_fabric_open(objects->info->fabric_attr, &objects->fabric, NULL), 0);
	objects->info->domain_attr->threading = FI_THREAD_DOMAIN;
	assert_int_equal(fi_domain(objects->fabric, objects->info, &objects->domain, NULL), 0);
}

/* Nothing may be left open in them. */
static inline void objects_close(struct objects *objects)
{
	assert_int_equal(fi_close(&objects->domain->fid), 0);
	assert_int_equal(fi_close(&objects->fabric->fid), 0);
	prov_info_free(objects->info);
}

/* Those of this program, and how cmocka opens and closes them. */
static struct objects objects;

static inline int objects_setup(void **state)
{
	(void)state;
	objects_open(&objects);
	return 0;
}

static inline int objects_teardown(void **state)
{
	(void)state;
	objects_close(&objects);
	return 0;
}

#endif /* PROV_OBJECTS_H */
