/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * caretaker.h - what a program was told is sent gets there, and peers can access what it exposes, though the program
 * does not call us any more: it computes, or waits for something else, perhaps for the very peer that waits for the
 * message.
 *
 * One thread in each library that this is linked into, as long as there is a charge. It sleeps, and looks at each
 * charge a few times a second: where no thread is inside, and something that was reported complete has not reached its
 * peer, it makes progress (thole_tend). Where all is delivered, as nearly always, it does nothing, but where regions
 * are exposed, since peers may access these and wait for an answer, and where the kernel driver moves large messages
 * meanwhile, if only they are matched: there it makes progress for all that is under way. Where the user is inside, it
 * leaves the charge alone: the user makes progress.
 */
#ifndef FRONT_CARETAKER_H
#define FRONT_CARETAKER_H

#include "charge.h"

/* From now on the caretaker knows it: a forked child has it with its locks free, whoever had them, and `inherited`.
 * tend: it is looked at, too. Returns whether it is: where no thread can be had, or the kernel refuses membarrier, it
 * is as without, until one can, as the next charge is added or caretaker_again is called. */
bool caretaker_add(struct charge *charge, bool tend);

/* Those that wait for a thread: perhaps there is one now. */
void caretaker_again(void);

/* More than one thread may come from now on. Without its lock, and while nobody has it. */
void caretaker_share(struct charge *charge);

/* Without its lock; when this returns, nobody looks at it. */
void caretaker_remove(struct charge *charge);

#endif /* FRONT_CARETAKER_H */
