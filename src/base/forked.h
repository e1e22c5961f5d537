/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forked: descriptors that a forked child must not keep. What others learn of a process from the kernel, that a socket
 * is there or gone, has to be true of the process which opened it: a child that lives on with a copy would speak for
 * the dead. An endpoint is of no use in a child anyway.
 *
 * Owns the list of them. In a child, each is closed and its place has -1, before fork returns there. A child that is
 * made by the bare system call keeps them.
 */
#ifndef THOLE_BASE_FORKED_H
#define THOLE_BASE_FORKED_H

#include "base/list.h"

/* Handlers of fork are registered when the library is loaded, while no lock of its can be held. Forks take the last one
 * first, so the lock that is taken inside of others has this priority, the others none. */
enum { FORKED_FIRST = 101 };

struct forked {
	struct list_node node;
	int *fds;
	unsigned count;
};

/* From now on, of these places: what each has at the time of a fork, but -1. */
void forked_add(struct forked *forked, int *fds, unsigned count);
/* Also of one that was never added and is all zeros. */
void forked_remove(struct forked *forked);
/* Close a descriptor in one of these places, which has -1 from before on: another thread may be forking. */
void forked_close(int *fd);

#endif
