/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_atomic.h - atomic operations on peers' regions.
 *
 * The three families (without a result, with one, with a comparison) are one function with some
 * parameters empty. Thole takes each operand in one piece; what comes in several is gathered on the
 * stack, which Thole's limit of bytes makes possible, and a result that goes to several places is
 * scattered when it is there. libfabric's numbers of types and operations are Thole's.
 */
#ifndef PROV_ATOMIC_H
#define PROV_ATOMIC_H

#include <stdbool.h>

#include "prov_compat.h"

struct prov_endpoint;

extern struct fi_ops_atomic prov_atomic_ops;

/* fi_query_atomic. */
int prov_atomic_query(struct fid_domain *domain, enum fi_datatype type, enum fi_op op, struct fi_atomic_attr *attr,
		      uint64_t flags);

/* The end of an operation with PROV_WRAPPED: its result goes where it was asked for, unless it has
 * failed. Returns the program's context. */
void *prov_atomic_scatter(void *wrapped, bool failed);

/* What an endpoint that is closed leaves of those: Thole's completes nothing then. */
void prov_atomic_drop(struct prov_endpoint *endpoint);

#endif /* PROV_ATOMIC_H */
