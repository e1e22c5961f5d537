/* SPDX-License-Identifier: BSD-3-Clause */
/* mappings: what this process has mapped, to see whether any was left. */
#ifndef UNIT_MAPPINGS_H
#define UNIT_MAPPINGS_H

#include <stdio.h>
#include <string.h>

/* How often it has mapped what has this in its name; -1: the kernel does not say. */
static inline int mappings_of(const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	int count = 0;

	if (!maps)
		return -1;
	while (fgets(line, sizeof(line), maps))
		count += strstr(line, name) != NULL;
	fclose(maps);
	return count;
}

#endif
