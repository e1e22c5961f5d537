/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_domain.h - a domain: the lock of all that is opened in it, and the lists by which this knows
 * of each other.
 *
 * The lock guards everything that belongs to the domain: endpoints and what Thole keeps for them,
 * address vectors, queues, counters, regions. Where only one thread uses a domain
 * (FI_THREAD_DOMAIN) it is one that costs this thread next to nothing (base/biased.h), for the
 * sake of the caretaker (prov_caretaker.h). So Thole's endpoints are always opened for a single
 * thread: one lock taken once an operation is cheaper than Thole's, a queue's and an address
 * vector's. Nobody sleeps with the lock held. How domains are opened is in prov_fabric.c.
 */
#ifndef PROV_DOMAIN_H
#define PROV_DOMAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/biased.h"
#include "base/list.h"
#include "base/lock.h"
#include "prov_compat.h"
#include "thole.h"

enum {
	PROV_CONTEXTS = 1024,   /* operations that a user should keep under way; no limit of ours */
	PROV_SEGMENTS_MAX = 64, /* iov_limit; MPIs size arrays of theirs by it */
	PROV_INJECT_MAX = 4096, /* bytes of an inject call; one eager message holds them */
};

struct prov_eq;
struct prov_fabric;
struct prov_thread;

struct prov_domain {
	struct fid_domain fid;
	struct prov_fabric *fabric;        /* that it was opened in */
	struct prov_eq *eq;                /* bound to it, NULL: none; nothing is ever reported there */
	struct prov_thread *thread;        /* makes progress for FI_PROGRESS_AUTO, else NULL */
	uint32_t api_version;              /* of libfabric, that the program was written for */
	struct lock lock;                  /* taken where `safe`, */
	struct biased biased;              /* and this elsewhere */
	bool safe;                         /* more than one thread may come: take the lock */
	bool tended;                       /* the caretaker knows it */
	bool posted;                       /* a message, since a queue was read */
	bool rma_event;                    /* peers' accesses to regions are counted */
	struct thole_endpoint **endpoints; /* the open ones, by slot; NULL: the slot is free */
	size_t endpoint_count;             /* slots, free ones too */
	struct list_node regions;          /* all that are open, for endpoints that come later */
	struct list_node watches;          /* all that are open, for endpoints that go */
	unsigned users;                    /* objects opened in the domain */
	struct list_node tended_node;      /* among the caretaker's */
};

static inline void prov_domain_lock(struct prov_domain *domain)
{
	if (__builtin_expect(domain->safe, 0))
		lock_take(&domain->lock);
	else
		biased_enter(&domain->biased);
}

/* For who would only make progress, which the holder makes anyway. */
static inline bool prov_domain_poll(struct prov_domain *domain)
{
	if (__builtin_expect(domain->safe, 0))
		return lock_poll(&domain->lock);
	biased_enter(&domain->biased);
	return true;
}

static inline void prov_domain_unlock(struct prov_domain *domain)
{
	if (__builtin_expect(domain->safe, 0))
		lock_leave(&domain->lock);
	else
		biased_leave(&domain->biased);
}

/* An object more in the domain, or one less. */
static inline void prov_domain_enter(struct prov_domain *domain)
{
	prov_domain_lock(domain);
	domain->users++;
	prov_domain_unlock(domain);
}

static inline void prov_domain_leave(struct prov_domain *domain)
{
	prov_domain_lock(domain);
	domain->users--;
	prov_domain_unlock(domain);
}

#endif /* PROV_DOMAIN_H */
