/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_endpoint - an endpoint of MX: a Thole endpoint, opened for one thread, and a lock around both,
 * since one lock an operation is cheaper than two. The lock is let go while a program's handler
 * runs and while a thread sleeps, and never held while another is taken.
 *
 * Here are the structure and the list of all endpoints of this process. How one is opened and
 * closed is in mx_open.c.
 */
#ifndef MX_ENDPOINT_H
#define MX_ENDPOINT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/pool.h"
#include "base/wake.h"
#include "mx_entry.h"
#include "mx_extensions.h"
#include "mx_peer.h"
#include "myriexpress.h"
#include "thole.h"

enum {
	MXI_ENDPOINTS = MXI_ENDPOINT_ID_MAX + 1, /* numbers of endpoints on one board */
};

/* A message that Thole held back and has given out. It waits here while there is no memory for whom it is from. */
struct mxi_screened {
	struct thole_message *message; /* NULL: none */
	const void *data;              /* its; NULL: not all of it is here, or there is none */
	struct thole_completion about;
};

struct mx_endpoint {
	struct lock lock;                  /* of all that follows */
	bool seized;                       /* the process exits, and has taken the lock for good */
	bool in_handler;                   /* the program's handler runs: no progress */
	bool disabled;                     /* the program has switched progress off */
	uint32_t several;                  /* looks for which it counts as used by threads: none sleeps with the lock */
	struct thole_endpoint *thole;      /* opened for a single thread: `lock` is around it */
	struct pool requests;              /* union mx_request */
	struct list_node done;             /* complete requests, oldest first */
	struct list_node *done_by_context; /* the same by context id; NULL: no context ids */
	uint64_t context_mask;             /* bits of the match info that are the context id */
	unsigned context_shift;            /* where they begin */
	struct mxi_peers peers;            /* whom it knows */
	struct mxi_peer *self;             /* one of them */

	mx_unexp_handler_t handler;       /* NULL: none */
	void *handler_context;            /* the program's, for it */
	mx_matching_callback_t callback;  /* the same of mx_register_unexp_callback, instead */
	bool screening;                   /* there is either: Thole holds messages back that nobody expects */
	struct mxi_screened screened;     /* the one that they hear of next */
	mx_error_handler_t error_handler; /* NULL: the process's */

	struct mxi_entry entry;      /* in the directory: our name and key */
	uint32_t board;              /* its number */
	pid_t owner;                 /* the process that has opened it; a forked child has a copy that is none */
	bool mxoe;                   /* between hosts by MXoE frames */
	uint32_t answers;            /* of the directory, that were looked at */
	struct list_node connecting; /* requests that the directory works on, by `done` */
	struct heap timed;           /* requests with a deadline, by `limit` */
	uint32_t timeout_ms;         /* of sends and connects that are started, 0: none */

	struct wake wake;         /* of what Thole's descriptor does not show */
	uint32_t polls;           /* calls of mxi_progress_run */
	uint32_t polls_before;    /* when the progression thread last came by */
	bool leader_sleeps;       /* a thread sleeps on wake.event and Thole's */
	bool leader_woken;        /* and wake.event is readable, for it */
	unsigned followers;       /* threads that sleep until `events` changes */
	uint32_t events;          /* counts completions, and looks that found something; a futex */
	uint32_t wakeups;         /* calls of mx_wakeup */
	pthread_t handler_thread; /* while in_handler */
	struct list_node node;    /* all endpoints of the process */
};

/* Where its errors go. endpoint may be NULL, as a program's may. */
static inline mx_error_handler_t mxi_endpoint_handler(const struct mx_endpoint *endpoint)
{
	return endpoint ? endpoint->error_handler : NULL;
}

/* All open endpoints of this process, in no order, under a lock of the list's own. */
void mxi_endpoint_each(void (*visit)(struct mx_endpoint *endpoint, void *arg), void *arg);

/* It is open from now on, or no longer. A forked child has none of its parent's. */
void mxi_endpoint_enlist(struct mx_endpoint *endpoint);
void mxi_endpoint_delist(struct mx_endpoint *endpoint);

/* Thole's counters of an endpoint, by any thread. */
void mxi_endpoint_counters(struct mx_endpoint *endpoint, uint64_t *values, size_t count);

#endif /* MX_ENDPOINT_H */
