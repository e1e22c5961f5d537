/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_cq.h - completion queues.
 *
 * A ring of a power of two of slots, entered by prov_completion_take and by peeks, taken by reads.
 * It doubles when it is full, so nothing is lost while there is memory. Errors stand in it in their
 * order, and stop a read that gets to them until fi_cq_readerr has taken them. A read makes
 * progress only if it finds the ring empty: what is there was asked for first. What ends meanwhile
 * goes to the reader's own memory, while there is room and nothing waits in the ring. Under the
 * domain's lock.
 */
#ifndef PROV_CQ_H
#define PROV_CQ_H

#include <stdbool.h>
#include <stddef.h>

#include "base/atomic.h"
#include "prov_compat.h"
#include "prov_watch.h"

struct prov_cq_slot {
	struct fi_cq_tagged_entry entry; /* of success */
	struct fi_cq_err_entry *error;   /* not NULL: the operation failed, and entry is not used. The slot's own */
	fi_addr_t source;                /* FI_ADDR_NOTAVAIL: not known, or not asked for */
};

struct prov_cq {
	struct fid_cq fid;
	struct prov_domain *domain;
	struct prov_cq_slot *slots; /* its own */
	size_t mask;                /* one less than there are slots, a power of two */
	size_t head, tail;          /* count entries taken and entered since the queue was opened */
	size_t entry_size;          /* of the format; every format is the front of fi_cq_tagged_entry */
	/* for the next error: a peek that finds nothing makes one each time. NULL: none */
	struct fi_cq_err_entry *spare;
	enum fi_wait_obj wait_obj; /* how programs may wait */
	bool overrun;              /* memory for a larger ring ran out */
	bool draining;             /* the last read took something */
	/* While a read makes progress: entries that the ring is passed by with, and where they go. Else 0. */
	size_t room;
	struct fi_cq_tagged_entry *to;
	fi_addr_t *sources; /* NULL: the reader does not ask */
	struct prov_watch watch;   /* the endpoints that report here */
	unsigned users;            /* sinks of endpoints that lead here */
};

int prov_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq_p, void *context);

/* The out of line part of prov_cq_slot: twice as many slots. -FI_ENOMEM: as before, and the queue
 * is overrun. */
int prov_cq_grow(struct prov_cq *cq);

/* Enter an error; a copy is made. */
void prov_cq_push_error(struct prov_cq *cq, const struct fi_cq_err_entry *error);

/* 0: its descriptor may be polled; -FI_EAGAIN: there is something already. Takes the lock. */
int prov_cq_trywait(struct prov_cq *cq);

/* The next free slot of a queue, or NULL if memory for it has run out. */
static inline struct prov_cq_slot *prov_cq_slot(struct prov_cq *cq)
{
	if (__builtin_expect(cq->tail - cq->head > cq->mask, 0) && prov_cq_grow(cq))
		return NULL;
	return &cq->slots[cq->tail & cq->mask];
}

/* One more has been entered (&cq->tail) or taken (&cq->head). */
static inline void prov_cq_count(size_t *counter)
{
	store_relaxed(counter, *counter + 1);
}

/* The entry of a success from such a source, which is the caller's to fill in at once; NULL if memory has run out. */
static inline struct fi_cq_tagged_entry *prov_cq_enter(struct prov_cq *cq, fi_addr_t source)
{
	struct prov_cq_slot *slot;

	if (__builtin_expect(cq->room > 0, 1)) {
		cq->room--;
		if (cq->sources)
			*cq->sources++ = source;
		return cq->to++;
	}
	slot = prov_cq_slot(cq);
	if (__builtin_expect(!slot, 0))
		return NULL;
	slot->error = NULL;
	slot->source = source;
	prov_cq_count(&cq->tail);
	return &slot->entry;
}

/* Whether there is nothing to read, for who does not hold the lock: a guess that may be old. */
static inline bool prov_cq_empty(const struct prov_cq *cq)
{
	return load_relaxed(&cq->head) == load_relaxed(&cq->tail);
}

#endif /* PROV_CQ_H */
