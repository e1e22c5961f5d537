/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host.h"

#include <fcntl.h>
#include <inttypes.h>
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

/* Each group bounds all that are below it. */
uint64_t host_memory(void)
{
	long pages = sysconf(_SC_PHYS_PAGES);
	uint64_t bytes = pages > 0 ? (uint64_t)pages * (uint64_t)getpagesize() : 0, most;
	char groups[4096], path[4096 + 64], text[32], *group, *end;

	host_read("/proc/self/cgroup", groups, sizeof(groups));
	group = strstr(groups, "0::/");
	if (!group)
		return bytes;
	group += strlen("0::");
	group[strcspn(group, "\n")] = '\0';
	do {
		snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.max", group);
		host_read(path, text, sizeof(text));
		if (sscanf(text, "%" SCNu64, &most) == 1 && most < bytes)
			bytes = most;
		end = strrchr(group, '/');
		if (end)
			*end = '\0';
	} while (end);
	return bytes;
}

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
