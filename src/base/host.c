/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
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

/* More than one leaves to a stack. */
struct group {
	char all[4096];           /* what this process is in, a line for each */
	char path[PATH_MAX + 64]; /* of this one's folder, and then of what is read there */
	size_t folder;            /* so long is the folder's */
	bool first;               /* of the first version */
};

static void group_read(struct group *group, const char *name, char *text, size_t size)
{
	snprintf(group->path + group->folder, sizeof(group->path) - group->folder, "/%s", name);
	host_read(group->path, text, size);
}

/* The number of a file's first word, or of nothing. */
static bool group_number(struct group *group, const char *name, uint64_t *number_p)
{
	char text[32];

	group_read(group, name, text, sizeof(text));
	return text[0] >= '0' && text[0] <= '9' && sscanf(text, "%" SCNu64, number_p) == 1;
}

static void least_memory(struct group *group, uint64_t *least)
{
	uint64_t bytes;

	if (group_number(group, group->first ? "memory.limit_in_bytes" : "memory.max", &bytes) && bytes < *least)
		*least = bytes;
}

/* A part of a processor's time is one: whoever has less shares it. */
static void least_time(struct group *group, uint64_t *least)
{
	uint64_t quota = 0, period = 0;
	char text[64];

	if (group->first) {
		if (!group_number(group, "cpu.cfs_quota_us", &quota) ||
		    !group_number(group, "cpu.cfs_period_us", &period))
			return;
	} else {
		group_read(group, "cpu.max", text, sizeof(text));
		if (sscanf(text, "%" SCNu64 " %" SCNu64, &quota, &period) != 2)
			return;
	}
	if (quota > 0 && period > 0 && (quota - 1) / period + 1 < *least)
		*least = (quota - 1) / period + 1;
}

/* A list such as "0-3,8". */
static void least_set(struct group *group, uint64_t *least)
{
	char text[4096];
	const char *range = text;
	uint64_t count = 0;

	group_read(group, group->first ? "cpuset.cpus" : "cpuset.cpus.effective", text, sizeof(text));
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
static void groups_bound(const char *controller, void (*bound)(struct group *group, uint64_t *least), uint64_t *least)
{
	struct group *group = malloc(sizeof(*group));
	char *next;

	if (!group)
		return;
	host_read("/proc/self/cgroup", group->all, sizeof(group->all));
	for (char *line = group->all; *line; line = next) {
		char *controllers, *name, *end;

		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		controllers = strchr(line, ':');
		name = controllers ? strchr(++controllers, ':') : NULL;
		if (name)
			*name++ = '\0';
		if (!name || !group_has(controllers, controller))
			continue;
		group->first = *controllers != '\0';
		do {
			group->folder = (size_t)snprintf(group->path, PATH_MAX, "/sys/fs/cgroup%s%s%s",
							 group->first ? "/" : "", controllers, name);
			if (group->folder < PATH_MAX)
				bound(group, least);
			end = strrchr(name, '/');
			if (end)
				*end = '\0';
		} while (end);
	}
	free(group);
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

bool host_oversubscribed(uint64_t ranks)
{
	return ranks > 1 && ranks > host_processors();
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
