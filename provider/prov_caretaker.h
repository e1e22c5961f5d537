/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_caretaker.h - what a program was told is sent gets there, though the program does not call
 * us any more: it computes, or waits for something else, perhaps for the very peer that waits for
 * the message.
 *
 * One thread a process, as long as a domain is open that has no thread of its own. It sleeps, and
 * looks at each domain a few times a second: where no thread is inside, and something that was
 * reported complete has not reached its peer, it makes progress (thole_tend). Where all is
 * delivered, as nearly always, it does nothing, but where the kernel driver moves large messages
 * meanwhile, if only they are matched: there it makes progress for all that is under way. A domain
 * whose user is inside is left alone: the user makes progress.
 */
#ifndef PROV_CARETAKER_H
#define PROV_CARETAKER_H

#include "prov_domain.h"

/* From now on it is looked at. Where no thread can be had, or the kernel refuses membarrier, it is
 * as without. */
void prov_caretaker_add(struct prov_domain *domain);

/* Without its lock; when this returns, nobody looks at it. Also of one that was not added. */
void prov_caretaker_remove(struct prov_domain *domain);

#endif /* PROV_CARETAKER_H */
