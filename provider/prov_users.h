/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_users.h - how many objects use one that its user wants to close, and that is then busy. For
 * those of different domains, whose locks differ; what a domain has is counted under its lock.
 */
#ifndef PROV_USERS_H
#define PROV_USERS_H

#include <stdbool.h>

#include "base/atomic.h"

struct prov_users {
	int count;
};

static inline void prov_users_add(struct prov_users *users)
{
	add_acquire_release(&users->count, 1);
}

/* What was done with the object before is done for whoever finds it unused. */
static inline void prov_users_drop(struct prov_users *users)
{
	add_acquire_release(&users->count, -1); /* partner: prov_users_any */
}

static inline bool prov_users_any(struct prov_users *users)
{
	return load_acquire(&users->count) > 0; /* partner: prov_users_drop */
}

#endif /* PROV_USERS_H */
