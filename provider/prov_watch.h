/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_watch.h - the endpoints that a queue, counter or thread lives on, and how to sleep until one
 * of them has something.
 *
 * A sleeper polls an epoll descriptor that holds every endpoint's descriptor and one event
 * descriptor. The latter is for what no endpoint's descriptor shows: a completion that another
 * thread's call, or the caller's own send, has entered since, and fi_cq_signal. `armed` is set
 * before sleeping and cleared by the first who writes the event; one write too many only costs a
 * sleeper a look around. Sleeps are cut into slices, so that whatever a descriptor does not show (a
 * peer's death noticed by a timer; what comes after another thread's progress has taken that which
 * would have woken the sleeper) is found soon enough. Programs that sleep on the descriptor by
 * themselves find it readable after a slice. An endpoint that closes leaves all watches
 * of its domain, whoever has added it: a queue or counter that it is bound to, or a region's
 * counter. Under the domain's lock, but for opening, closing, control and the sleep itself.
 */
#ifndef PROV_WATCH_H
#define PROV_WATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/wake.h"
#include "prov_compat.h"
#include "prov_domain.h"
#include "thole.h"

struct prov_watch {
	struct prov_domain *domain;
	struct list_node node;             /* among its domain's */
	struct thole_endpoint **endpoints; /* the array is its own; NULL: none yet */
	size_t count;                      /* of endpoints */
	/* Its epoll has the endpoints, too; it is raised for what happens without their descriptors noticing. None
	 * until somebody wants to sleep. */
	struct wake wake;
	int timer;     /* a timerfd, for a program that sleeps on the descriptor itself; -1: none has so far */
	bool armed;    /* somebody may be asleep: the next completion raises it */
	bool signaled; /* somebody asked for a sleeper to be woken */
};

/* Where wait_obj is FI_WAIT_FD with its descriptors. -FI_ENOSYS: no such way to wait. */
int prov_watch_open(struct prov_watch *watch, struct prov_domain *domain, enum fi_wait_obj wait_obj);
void prov_watch_close(struct prov_watch *watch);

/* Once, however often it is added. */
int prov_watch_add(struct prov_watch *watch, struct thole_endpoint *endpoint);
/* The endpoint closes: it is in no watch of the domain's any more. */
void prov_watch_forget(struct prov_domain *domain, struct thole_endpoint *endpoint);

/* With the domain's lock: get ready to sleep. -FI_EAGAIN: do not, there is something to do. */
int prov_watch_arm(struct prov_watch *watch);

/* With the lock: the program is to sleep on the descriptor, which is readable after a slice at the latest. */
int prov_watch_slice(struct prov_watch *watch);

/* Without the lock: sleep until something may have happened, at most for timeout_ms (negative: a
 * slice). The thread may be cancelled meanwhile, as it could before thread_keep had said so. */
int prov_watch_sleep(struct prov_watch *watch, int timeout_ms, int cancellable);

void prov_watch_wake(struct prov_watch *watch);

/* fi_control of a queue or counter. */
int prov_watch_control(struct prov_watch *watch, enum fi_wait_obj wait_obj, int command, void *arg);

/* A look at each endpoint, without a second one where it finds nothing. */
static inline void prov_watch_poll(const struct prov_watch *watch)
{
	for (size_t i = 0; i < watch->count; i++)
		thole_poll(watch->endpoints[i], NULL, 0);
}

/* For a caller who may wait. */
static inline void prov_watch_progress(const struct prov_watch *watch)
{
	for (size_t i = 0; i < watch->count; i++)
		charge_progress(&watch->domain->charge, watch->endpoints[i]);
}

/* Say that something was entered, to whoever may be asleep. */
static inline void prov_watch_note(struct prov_watch *watch)
{
	if (__builtin_expect(watch->armed, 0))
		prov_watch_wake(watch);
}

#endif /* PROV_WATCH_H */
