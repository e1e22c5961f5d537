/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * yield.h - calls of sched_yield that MPICH makes and nobody needs.
 *
 * MPICH waits in a loop that looks once and then gives its core away, found or not: at least one system call for each
 * message that it waits for, which takes longer than the message. Where nobody else wants the core it does nothing;
 * where somebody does, a rank that has found what it waited for gets to use it only after everybody else's turn. With
 * the option mpi_yield=spare the MPI library's calls come here, and most of them stay here.
 *
 * What always holds: where others run when it yields, it yields, having found nothing; and once a second thread has
 * looked for completions each call is made, since that thread may wait for a lock that the first one takes again at
 * once.
 */
#ifndef FRONT_YIELD_H
#define FRONT_YIELD_H

#include <stdbool.h>

#include "thole.h"

/* Take over the calls of the MPI library of this process, if it makes any. Any number of times. shared: ranks share
 * cores, so that there is always one that has a use for a core. */
void yield_spare(bool shared);

/* Where the options of an endpoint, which is open, want that. */
void yield_spare_if_told(struct thole_endpoint *endpoint);

/* What they come to; as sched_yield. */
int yield_sparing(void);

extern bool yield_spared; /* calls have been taken over */
extern bool yield_found;  /* the looker has found something, and has not come to yield since */

void yield_looks(void);

/* The calling thread looks for completions. */
static inline void yield_look(void)
{
	if (__builtin_expect(yield_spared, 0))
		yield_looks();
}

/* It has found something. */
static inline void yield_finds(void)
{
	if (__builtin_expect(yield_spared, 0))
		__atomic_store_n(&yield_found, true, __ATOMIC_RELAXED);
}

#endif
