/* SPDX-License-Identifier: BSD-3-Clause */
/* maps: see maps.h. */
#include "base/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum {
	HEAD = 128,    /* bytes of a line that may matter: all before the path */
	CHUNK = 2048,  /* read at once: on the stack of whoever forks */
};

/* "begin-end rwxp offset major:minor inode path", all in hex but the inode. */
static struct mapping line_parse(const char *line)
{
	struct mapping mapping = {0};
	unsigned major;
	char *at;

	mapping.begin = strtoull(line, &at, 16);
	mapping.end = strtoull(at + 1, &at, 16);
	mapping.rights = (at[1] == 'r' ? PROT_READ : 0) | (at[2] == 'w' ? PROT_WRITE : 0) |
			 (at[3] == 'x' ? PROT_EXEC : 0);
	mapping.shared = at[4] == 's';
	mapping.offset = strtoull(at + 5, &at, 16);
	major = (unsigned)strtoul(at, &at, 16);
	mapping.device = makedev(major, (unsigned)strtoul(at + 1, &at, 16));
	mapping.inode = strtoull(at, &at, 10);
	return mapping;
}

/* Its part in [begin, end). False: it has none. */
static bool mapping_cut(struct mapping *mapping, uintptr_t begin, uintptr_t end)
{
	if (mapping->begin < begin) {
		mapping->offset += begin - mapping->begin;
		mapping->begin = begin;
	}
	if (mapping->end > end)
		mapping->end = end;
	return mapping->begin < mapping->end;
}

bool maps_walk(uintptr_t begin, uintptr_t end, mapping_visit visit, void *arg)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	char chunk[CHUNK], line[HEAD];
	struct mapping mapping = {0};
	size_t length = 0;
	bool any = false;
	ssize_t got;

	if (fd < 0)
		return false;
	while (mapping.end < end && (got = read(fd, chunk, sizeof(chunk))) > 0) {
		any = true;
		for (ssize_t i = 0; i < got; i++) {
			if (chunk[i] != '\n') {
				line[length] = chunk[i];
				length += length < sizeof(line) - 1;
				continue;
			}
			line[length] = '\0';
			length = 0;
			mapping = line_parse(line);
			if (mapping_cut(&mapping, begin, end))
				visit(arg, &mapping);
		}
	}
	close(fd);
	return any;
}

bool maps_have(const struct iovec *segments, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uintptr_t in_page = (uintptr_t)segments[i].iov_base % (uintptr_t)getpagesize();

		/* which does nothing but look for mappings */
		if (msync((char *)segments[i].iov_base - in_page, segments[i].iov_len + in_page, MS_ASYNC) != 0 &&
		    errno == ENOMEM)
			return false;
	}
	return true;
}
