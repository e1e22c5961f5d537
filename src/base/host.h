/* SPDX-License-Identifier: BSD-3-Clause */
/* host: which host this is, what it has for us, and how busy it is. */
#ifndef THOLE_BASE_HOST_H
#define THOLE_BASE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Equal for processes that can reach each other's Unix sockets: of one boot of a kernel and one network namespace. */
uint64_t host_id(void);
/* The same of a host that its user has named. */
uint64_t host_named(const char *name);
/* The front of a file, as a string. Returns its length, 0 if it cannot be read. */
size_t host_read(const char *path, char *text, size_t size);
/* How many threads of all processes run or would run now if they had a core, the caller's own among them. 0: the system
 * does not tell. Takes two microseconds. */
uint32_t host_runnable(void);
/* Bytes of memory that this host has, or fewer where a control group of this process may not have so much. 0: the
 * system does not tell. */
uint64_t host_memory(void);
/* How many processors it has for this process and those beside it: fewer than are there where a control group has
 * fewer, or not so much time. What a single process is bound to is another matter. */
uint64_t host_processors(void);
/* Whether a job has more processes on this host, `ranks` as far as its launcher says how many, than that has cores. */
bool host_oversubscribed(uint64_t ranks);

#endif
