/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wake: an eventfd by which a thread is woken that sleeps on descriptors, and an epoll that this is registered with.
 * Owns both. What else is registered with the epoll, and who sleeps on which of the two, is its user's. No lock.
 *
 * What always holds: a program may have closed what it did not open (closefrom) and have files of its own by these
 * numbers, so neither is written, read or closed unless both are what they were (registered.h).
 */
#ifndef THOLE_BASE_WAKE_H
#define THOLE_BASE_WAKE_H

#include <stdbool.h>

struct wake {
	int event; /* readable once it was raised; */
	int epoll; /* and so is this; both -1: there are none */
};

#define WAKE_NONE ((struct wake){-1, -1})

/* Make both. A negative errno: they could not be made. */
int wake_open(struct wake *wake);
/* Whether they are there, and what they were. A system call. */
bool wake_is_whole(const struct wake *wake);
void wake_raise(const struct wake *wake);
/* It is not readable any more. */
void wake_drop(const struct wake *wake);
/* What is left is not read: a forked child would read it for its parent, too. */
void wake_close(struct wake *wake);

#endif
