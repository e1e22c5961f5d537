/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * maps: what is mapped where in this process, as the kernel tells it (/proc/self/maps).
 *
 * Allocates nothing and keeps nothing, so that it can be asked amid a fork. What it tells may have changed since, but
 * for what the caller knows nobody to change.
 */
#ifndef BASE_MAPS_H
#define BASE_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct mapping {
	uintptr_t begin, end;
	int rights;      /* PROT_* */
	bool shared;
	uint64_t offset; /* of begin, in the file */
	dev_t device;
	ino_t inode;     /* 0: no file's */
};

typedef void (*mapping_visit)(void *arg, const struct mapping *mapping);

/* Visit what is mapped in [begin, end), in order, cut to that. What has been visited may be mapped anew at once. False:
 * it cannot be read (there is no /proc, or no descriptor), and nothing was visited. */
bool maps_walk(uintptr_t begin, uintptr_t end, mapping_visit visit, void *arg);

/* Whether all of these are mapped, be it memory of a kind that the kernel does not copy. A system call for each. */
bool maps_have(const struct iovec *segments, size_t count);

#endif
