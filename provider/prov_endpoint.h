/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_endpoint.h - an endpoint as the operations on it see it: Thole's endpoint, who is behind an
 * fi_addr_t, which flags calls have, and where what ends is reported. How it is opened, bound and
 * closed is in prov_ep.c and prov_binding.c.
 */
#ifndef PROV_ENDPOINT_H
#define PROV_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "prov_compat.h"
#include "prov_domain.h"
#include "prov_map.h"
#include "thole.h"

struct prov_av;
struct prov_counter;
struct prov_cq;
struct prov_eq;

/* What happens when an operation of one kind ends: one row of an endpoint's table. */
struct prov_sink {
	struct prov_cq *cq;           /* NULL: none is bound */
	struct prov_counter *counter; /* NULL: none is bound */
	uint64_t flags;               /* of the queue entry */
	uint64_t imm_flag;            /* added where the sender gave immediate data */
};

enum prov_user_flags {
	PROV_SILENT = 1U << THOLE_USER_SHIFT,         /* count it, but make no queue entry of success */
	PROV_WRAPPED = 1U << (THOLE_USER_SHIFT + 1),  /* the context is a struct prov_scatter */
	PROV_SINKS = 2 * (THOLE_OP_REMOTE_ATOMIC_FETCH + 1) /* rows */
};

/* A message that a peek with FI_CLAIM has taken out of matching. */
struct prov_claim {
	void *context;                      /* the program's, by which it is asked for */
	struct thole_message *message;      /* out of matching until it is received or dropped */
	struct thole_completion completion; /* what was said of it */
};

struct prov_endpoint {
	struct fid_ep fid;
	struct thole_endpoint *thole; /* its own */
	struct prov_domain *domain;
	struct prov_map *peers;             /* fi_addr_t to Thole's peer */
	struct prov_map *sources;           /* Thole's peer to fi_addr_t */
	struct prov_map *entries;           /* Thole's peer to how many of fi_addr_t are its */
	unsigned inject_flags;              /* of thole_send for the inject calls */
	unsigned send_flags;                /* for the calls that take no flags */
	unsigned recv_flags;                /* likewise, of tagged receives */
	unsigned plain_recv_flags;          /* likewise, of plain ones */
	bool directed;                      /* receives look at their source address */
	bool wants_source;                  /* completions say their source */
	bool enabled;                       /* operations are possible */
	struct prov_sink sinks[PROV_SINKS]; /* by prov_endpoint_sink */

	struct prov_av *av;              /* NULL: none is bound yet */
	uint64_t caps;                   /* libfabric's capabilities, as it was opened */
	uint64_t tx_flags, rx_flags;     /* default operation flags */
	bool tx_selective, rx_selective; /* only FI_COMPLETION makes queue entries */
	size_t multi_min;                /* FI_OPT_MIN_MULTI_RECV, bytes */
	struct prov_eq *eq;              /* NULL: none is bound; nothing is ever reported there */
	struct list_node scatters;       /* of results under way that go to several places (prov_atomic.c) */
	struct prov_claim *claims;       /* in no order */
	size_t claim_count;
	bool peeked;    /* the last peek was told that there is nothing, without a look */
	unsigned looks; /* in vain, for one source, modulo 2^32 */
};

static inline struct prov_endpoint *prov_endpoint_of(struct fid_ep *fid)
{
	return container_of(fid, struct prov_endpoint, fid);
}

/* The row of an operation's end: messages have two, for plain ones and tagged ones. */
static inline struct prov_sink *prov_endpoint_sink(struct prov_endpoint *endpoint, unsigned operation, unsigned flags)
{
	return &endpoint->sinks[operation * 2 + !!(flags & THOLE_PLAIN)];
}

/* The flag of an operation whose success nobody is to see in a queue. What makes no entry need not
 * be reported to us at all, unless a counter counts it. */
static inline unsigned prov_endpoint_silence(const struct prov_endpoint *endpoint, unsigned operation, unsigned flags)
{
	return endpoint->sinks[operation * 2 + !!(flags & THOLE_PLAIN)].counter ? (unsigned)PROV_SILENT
										: (unsigned)THOLE_QUIET;
}

#endif /* PROV_ENDPOINT_H */
