/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_counter.h - completion counters: how many operations (or bytes) have ended, and how many in
 * error. The numbers are read and set without a lock, all else is under the domain's.
 */
#ifndef PROV_COUNTER_H
#define PROV_COUNTER_H

#include <stdbool.h>
#include <stdint.h>

#include "prov_compat.h"
#include "prov_watch.h"
#include "thole.h"

struct prov_counter {
	struct fid_cntr fid;
	struct prov_domain *domain;
	uint64_t value;            /* operations, or bytes, that have ended well; atomic */
	uint64_t errors;           /* operations that have not; atomic */
	uint64_t value_read;       /* what the program was told last of value, */
	uint64_t errors_read;      /* and of errors; both atomic */
	bool bytes;                /* count bytes instead of operations */
	enum fi_wait_obj wait_obj; /* how programs may wait */
	struct prov_watch watch;   /* the endpoints that it counts for */
	unsigned users;            /* sinks of endpoints, and regions, that lead here */
};

int prov_counter_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **counter_p, void *context);

/* An operation has ended. With the domain's lock. */
void prov_counter_add(struct prov_counter *counter, const struct thole_completion *completion);

/* 0: its descriptor may be polled; -FI_EAGAIN: there is something that was not read. Takes the lock. */
int prov_counter_trywait(struct prov_counter *counter);

#endif /* PROV_COUNTER_H */
