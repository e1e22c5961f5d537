/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exposed: what is in the memory that processes expose, and what must be there.
 *
 * Of puts to a slot, one is under way at a time. A byte is of the newest one that reaches it, or 0. Only of a put that
 * failed it may be anything: its fetch may have ended while frames of others lay there (scatter.h). One with a wrong
 * key, or that was refused or canceled, has changed nothing.
 */
#ifndef THOLE_SIM_EXPOSED_H
#define THOLE_SIM_EXPOSED_H

#include "traffic.h"

/* While no put of the process of this index to `process` is under way. */
void exposed_check_slot(const struct process *process, uint32_t by);
/* All that it has exposed, while nothing is under way to it. */
void exposed_check(const struct process *process);

#endif
