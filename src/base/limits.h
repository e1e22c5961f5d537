/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limits: those of the process (setrlimit) that many ranks on one host come to, and what is done before they are
 * reached; memory that is there before it is written to.
 *
 * Owns no limit but the soft one of descriptors, which it raises when it has to. Whatever is refused in spite of that
 * has errno, and limits_remedy says what to do.
 */
#ifndef THOLE_BASE_LIMITS_H
#define THOLE_BASE_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

enum { LIMITS_REMEDY_MAX = 128 };

/* A descriptor that was just made, or -1, and that stays for longer than the call: by a number that is none of the
 * standard streams'. A program that was started without one of them, or has closed it, writes there all the same: what
 * it prints would be in our memory or go to a peer. Returns the descriptor; -1 and errno: no other number is left. What
 * the functions below return is such a one. Thread-safe. */
int limits_own(int fd);

/* The same where it is one of a connection, of which there may be thousands. Beyond half of the soft limit it gets a
 * number that the program could not have had, and the soft limit is raised as far as the hard one permits: what the
 * program opens still finds room, and numbers that select() can take. Returns the descriptor, by its new number if
 * there is one. Thread-safe. */
int limits_descriptor(int fd);

/* The same where it is one that the program knows nothing of, not even that it has called the library (the heap's): at
 * once not among those that select() can take, where the soft limit permits. */
int limits_unnoticed(int fd);

/* Whether a file may be so long; if not, errno is EFBIG. Going on would end in SIGXFSZ. */
bool limits_file(uint64_t size);

/* Memory for this part of a file in memory, from now on: 0, or -1 and errno. Until 6.10 kernels end that for any
 * signal which a thread does not block, and begin anew each time, so that a program with a fast timer might never get
 * there. */
int limits_allocate(int fd, uint64_t from, uint64_t length);

/* Whether an error of the kernel comes from want of memory or descriptors: the same may succeed at another time. */
bool limits_caused(int error);

/* What helps against an error of the kernel that comes from a limit, as the end of a sentence: "" where none does.
 * EAGAIN is that of a process or thread that was to begin. */
const char *limits_remedy(int error, char text[LIMITS_REMEDY_MAX]);

#endif
