/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "thole.h"

size_t host_read(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd >= 0 ? read(fd, text, size - 1) : 0;

	if (fd >= 0)
		close(fd);
	text[length > 0 ? length : 0] = '\0';
	return length > 0 ? (size_t)length : 0;
}

uint32_t host_runnable(void)
{
	uint32_t runnable;
	char text[64];

	host_read("/proc/loadavg", text, sizeof(text));
	return sscanf(text, "%*s %*s %*s %u/", &runnable) == 1 ? runnable : 0;
}

/* ---- Control groups -------------------------------------------------------------------------------- */

/* The number of a file's first word, or of nothing. */
static bool group_number(const char *folder, const char *name, uint64_t *number_p)
{
	char path[4096 + 96], text[32];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	host_read(path, text, sizeof(text));
	return text[0] >= '0' && text[0] <= '9' && sscanf(text, "%" SCNu64, number_p) == 1;
}

static void least_memory(const char *folder, bool first, uint64_t *least)
{
	uint64_t bytes;

	if (group_number(folder, first ? "memory.limit_in_bytes" : "memory.max", &bytes) && bytes < *least)
		*least = bytes;
}

/* A part of a processor's time is one: whoever has less shares it. */
static void least_time(const char *folder, bool first, uint64_t *least)
{
	uint64_t quota = 0, period = 0;
	char path[4096 + 96], text[64];

	if (first) {
		if (!group_number(folder, "cpu.cfs_quota_us", &quota) ||
		    !group_number(folder, "cpu.cfs_period_us", &period))
			return;
	} else {
		snprintf(path, sizeof(path), "%s/cpu.max", folder);
		host_read(path, text, sizeof(text));
		if (sscanf(text, "%" SCNu64 " %" SCNu64, &quota, &period) != 2)
			return;
	}
	if (quota > 0 && period > 0 && (quota - 1) / period + 1 < *least)
		*least = (quota - 1) / period + 1;
}

/* A list such as "0-3,8". */
static void least_set(const char *folder, bool first, uint64_t *least)
{
	char path[4096 + 96], text[4096];
	const char *range = text;
	uint64_t count = 0;

	snprintf(path, sizeof(path), "%s/%s", folder, first ? "cpuset.cpus" : "cpuset.cpus.effective");
	host_read(path, text, sizeof(text));
	while (range) {
		unsigned from, to;
		int numbers = sscanf(range, "%u-%u", &from, &to);

		if (numbers > 0)
			count += numbers == 2 && to > from ? to - from + 1 : 1;
		range = strchr(range, ',');
		range += range != NULL;
	}
	if (count > 0 && count < *least)
		*least = count;
}

/* Whether a list such as "cpu,cpuacct" has it. Version 2 has one group for all, and no list. */
static bool group_has(const char *controllers, const char *controller)
{
	size_t length = strlen(controller);

	for (const char *one = controllers; one; one = strchr(one, ',')) {
		one += *one == ',';
		if (strncmp(one, controller, length) == 0 && (one[length] == ',' || !one[length]))
			return true;
	}
	return !*controllers;
}

/* Each group bounds all that are below it. Of a container perhaps none is seen but the topmost, which is its own. */
static void groups_bound(const char *controller, void (*bound)(const char *folder, bool first, uint64_t *least),
			 uint64_t *least)
{
	char groups[4096], folder[4096 + 64], *next;

	host_read("/proc/self/cgroup", groups, sizeof(groups));
	for (char *line = groups; *line; line = next) {
		char *controllers, *group, *end;

		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		controllers = strchr(line, ':');
		group = controllers ? strchr(++controllers, ':') : NULL;
		if (group)
			*group++ = '\0';
		if (!group || !group_has(controllers, controller))
			continue;
		do {
			snprintf(folder, sizeof(folder), "/sys/fs/cgroup%s%s%s", *controllers ? "/" : "", controllers,
				 group);
			bound(folder, *controllers != '\0', least);
			end = strrchr(group, '/');
			if (end)
				*end = '\0';
		} while (end);
	}
}

uint64_t host_memory(void)
{
	long pages = sysconf(_SC_PHYS_PAGES);
	uint64_t bytes = pages > 0 ? (uint64_t)pages * (uint64_t)getpagesize() : 0;

	groups_bound("memory", least_memory, &bytes);
	return bytes;
}

uint64_t host_processors(void)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t processors = online > 0 ? (uint64_t)online : 1;

	groups_bound("cpuset", least_set, &processors);
	groups_bound("cpu", least_time, &processors);
	return processors;
}

/* ---- Which one it is ------------------------------------------------------------------------------- */

uint64_t host_named(const char *name)
{
	uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */

	for (const char *c = name; *c; c++)
		hash = (hash ^ (uint8_t)*c) * 0x100000001b3u;
	return hash;
}

uint64_t host_id(void)
{
	struct stat status;
	uint64_t hash;
	char boot[64];

	if (host_read("/proc/sys/kernel/random/boot_id", boot, sizeof(boot)) == 0)
		gethostname(boot, sizeof(boot));
	boot[sizeof(boot) - 1] = '\0';
	hash = host_named(boot);
	if (stat("/proc/self/ns/net", &status) == 0)
		hash = (hash ^ (uint64_t)status.st_ino) * 0x100000001b3u;
	return hash;
}

uint64_t thole_host_id(void)
{
	return host_id();
}
