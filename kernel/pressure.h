/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * pressure: which regions are unpinned first, when memory is short or a limit is reached.
 *
 * Owns the order in which regions with pins were used, each holder's and that of all, and the shrinker by which the
 * kernel asks for memory back. Least recently used goes first, so regions of transfers that move are the last; one that
 * is being pinned stays. One that is to stay (THOLE_DRIVER_KEEP) is in no order.
 */
#ifndef THOLE_KERNEL_PRESSURE_H
#define THOLE_KERNEL_PRESSURE_H

#include "pages.h"

/* A region has so many pins more, or with 0 is used again: it goes last. Under its lock. */
void pressure_used(struct pages *pages, u64 more);

/* A region has lost its pins, so many. Under its lock. */
void pressure_gone(struct pages *pages, u64 pins);

/* Unpin until so many pages are, of one holder or, with NULL, of all. Returns how many were. */
u64 pressure_relieve(struct holder *holder, u64 wanted);

int pressure_start(void);
void pressure_stop(void);

#endif
