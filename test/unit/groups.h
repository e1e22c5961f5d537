/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of control groups say, where a test says that (-Wl,--wrap=open64). For one file of each test. */
#ifndef GROUPS_H
#define GROUPS_H

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* All that there are, the last one without a path; NULL: they are as they are. */
static const struct group {
	const char *path, *text;
} *groups;

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);

int __wrap_open64(const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode = 0;
	int fd;

	va_start(arguments, flags);
	if (flags & (O_CREAT | __O_TMPFILE))
		mode = va_arg(arguments, mode_t);
	va_end(arguments);
	if (!groups || (strncmp(path, "/sys/fs/cgroup", 14) != 0 && strcmp(path, "/proc/self/cgroup") != 0))
		return __real_open64(path, flags, mode);
	for (const struct group *group = groups; group->path; group++)
		if (strcmp(path, group->path) == 0) {
			fd = memfd_create("group", MFD_CLOEXEC);
			assert_int_equal(write(fd, group->text, strlen(group->text)), strlen(group->text));
			assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
			return fd;
		}
	errno = ENOENT;
	return -1;
}

#endif
