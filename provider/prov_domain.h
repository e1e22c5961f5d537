/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_domain.h - a domain: the lock of all that is opened in it, and the lists by which this knows
 * of each other.
 *
 * The lock (front/charge.h) guards everything that belongs to the domain: endpoints and what Thole keeps for them,
 * address vectors, queues, counters, regions. Where only one thread uses a domain (FI_THREAD_DOMAIN) it costs this
 * thread next to nothing. How domains are opened is in prov_fabric.c.
 */
#ifndef PROV_DOMAIN_H
#define PROV_DOMAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "front/charge.h"
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
	struct prov_fabric *fabric; /* that it was opened in */
	struct prov_eq *eq;         /* bound to it, NULL: none; nothing is ever reported there */
	struct prov_thread *thread; /* makes progress for FI_PROGRESS_AUTO, else NULL */
	uint32_t api_version;       /* of libfabric, that the program was written for */
	bool posted;                /* a message, since a queue was read */
	uint32_t polls;             /* by the program, modulo 2^32; written with the lock */
	bool rma_event;             /* peers' accesses to regions are counted */
	struct charge charge;       /* its lock, and the open endpoints, by slot */
	struct list_node regions;   /* all that are open, for endpoints that come later */
	struct list_node watches;   /* all that are open, for endpoints that go */
	unsigned users;             /* objects opened in the domain */
};

static inline void prov_domain_lock(struct prov_domain *domain)
{
	charge_enter(&domain->charge);
}

/* For who would only make progress, which the holder makes anyway. */
static inline bool prov_domain_poll(struct prov_domain *domain)
{
	return charge_poll(&domain->charge);
}

/* With the lock: the program looks for itself (prov_thread.h). */
static inline void prov_domain_polled(struct prov_domain *domain)
{
	store_relaxed(&domain->polls, domain->polls + 1);
}

static inline void prov_domain_unlock(struct prov_domain *domain)
{
	charge_leave(&domain->charge);
}

/* An object more in the domain, or one less: afterwards the domain may be gone. */
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

/* If not, who used it last has left the lock, too. */
static inline bool prov_domain_is_used(struct prov_domain *domain)
{
	bool used;

	prov_domain_lock(domain);
	used = domain->users > 0;
	prov_domain_unlock(domain);
	return used;
}

#endif /* PROV_DOMAIN_H */
