/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_thread.h - automatic progress: a thread of the domain's own that sleeps until an endpoint
 * has something and then makes progress under the domain's lock.
 *
 * It stays asleep while the program polls often (base/attendance.h), unless ranks share cores.
 * It watches the endpoints as a queue does (prov_watch.h). Thole has such a thread too, but that
 * one knows nothing of the domain's lock, so it stays off.
 */
#ifndef PROV_THREAD_H
#define PROV_THREAD_H

#include "prov_domain.h"

struct prov_thread;

int prov_thread_start(struct prov_domain *domain, struct prov_thread **thread_p);

/* An endpoint more. With the domain's lock; NULL is no thread, and nothing happens. */
int prov_thread_add(struct prov_thread *thread, struct thole_endpoint *endpoint);

/* Without the lock. */
void prov_thread_stop(struct prov_thread *thread);

#endif /* PROV_THREAD_H */
