/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * children: whether forked children of this process may still have what it had when it forked. Who shares a memfd with
 * them copy on write gives nothing of it back while one needs it.
 *
 * Owns a memfd of one page, which is mapped while a fork copies the address space, and then no more: as long as a child
 * has not ended or run another program, it has that mapping, and so the memfd cannot be sealed against writing.
 *
 * For one caller at a time, who is the same one from children_come to children_came.
 */
#ifndef BASE_CHILDREN_H
#define BASE_CHILDREN_H

#include <stdbool.h>

/* A fork begins. */
void children_come(void);
/* It is done, in the parent. Also where none had begun. */
void children_came(void);
/* In the child: it is none of its own. What says that it is there stays mapped. */
void children_none(void);
/* Whether there is one, as far as is known without asking. */
bool children_expected(void);
/* Whether all have gone. */
bool children_are_gone(void);

#endif
