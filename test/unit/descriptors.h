/* SPDX-License-Identifier: BSD-3-Clause */
/* descriptors: how many this process has, to see whether any was left open. */
#ifndef UNIT_DESCRIPTORS_H
#define UNIT_DESCRIPTORS_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DESCRIPTORS_MAX = 1024 };

/* Those of what has this in its name. */
static inline int descriptors_of(const char *part)
{
	int count = 0;

	for (int fd = 0; fd < DESCRIPTORS_MAX; fd++) {
		char path[32], name[64] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		count += readlink(path, name, sizeof(name) - 1) > 0 && strstr(name, part);
	}
	return count;
}

/* But the one by which a process's end is known, which stays until then (life.c). */
static inline int descriptors_open(void)
{
	return descriptors_of("") - descriptors_of("memfd:thole life");
}

#endif
