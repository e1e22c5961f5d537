/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shared: memory of a peer that this process's program has mapped, too, as the windows that an MPI allocates for all
 * ranks of a host: the same pages of the same file in memory, at another address.
 *
 * Owns finding out, and a mapping of our own beside the program's, which may end at any time. Does not own when that is
 * used (access.c).
 *
 * What always holds: the peer is not asked; the kernel says what is mapped there and here. Only files in memory count,
 * and no arena, since after a fork its owner's memory is another (base/arena.h).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "transport/shm/shm.h"

/* A mapping of some process, as /proc tells it. */
struct extent {
	uint64_t start, end, offset; /* addresses, and where in the file the first one is */
	uint64_t inode;
	unsigned major, minor;
	bool write;
};

/* What is looked for: all of these bytes. */
struct search {
	uint64_t address, length;  /* address 0: wherever */
	const struct extent *file; /* of which they are, and where in it; NULL: of whatever */
	uint64_t offset;
	bool write; /* whoever has it mapped may write it */
};

/* Names of files in memory: POSIX shared memory, memfd_create, MAP_ANONYMOUS, shmget. */
static const char *const in_memory[] = {"/dev/shm/", "/memfd:", "/dev/zero", "/SYSV"};

/* Whether a line of /proc/PID/maps is a shared mapping of a file in memory: which. */
static bool extent_read(const char *line, struct extent *extent_p)
{
	const char *mark = strchr(line, ' ');
	char rights[5];
	int name = 0;

	/* As nearly all, of which the rest takes long to read. */
	if (!mark || strlen(mark) < 5 || mark[4] != 's')
		return false;
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &extent_p->start,
		   &extent_p->end, rights, &extent_p->offset, &extent_p->major, &extent_p->minor, &extent_p->inode,
		   &name) != 7 ||
	    name == 0 || rights[0] != 'r')
		return false;
	extent_p->write = rights[1] == 'w';
	for (size_t i = 0; i < sizeof(in_memory) / sizeof(in_memory[0]); i++)
		if (strncmp(line + name, in_memory[i], strlen(in_memory[i])) == 0)
			return true;
	return false;
}

static bool extent_is_of(const struct extent *extent, const struct extent *file)
{
	return extent->major == file->major && extent->minor == file->minor && extent->inode == file->inode;
}

static bool extent_has(const struct extent *extent, const struct search *search)
{
	uint64_t at = search->address ? search->address - extent->start : search->offset - extent->offset;
	uint64_t size = extent->end - extent->start;

	if (at >= size || search->length > size - at || (search->write && !extent->write))
		return false;
	return !search->file || (extent_is_of(extent, search->file) && extent->offset + at == search->offset);
}

/* The first such mapping of a process. */
static bool extent_find(pid_t pid, const struct search *search, struct extent *extent_p)
{
	bool found = false;
	char path[64], *line = NULL;
	size_t size = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	if (!maps)
		return false;
	while (!found && getline(&line, &size, maps) > 0)
		found = extent_read(line, extent_p) && extent_has(extent_p, search);
	free(line);
	fclose(maps);
	return found;
}

/* Whether /proc is of the namespace in which ids of processes are known here. */
static bool proc_is_ours(void)
{
	char text[16] = "";

	return readlink("/proc/self", text, sizeof(text) - 1) > 0 && strtol(text, NULL, 10) == getpid();
}

/* Whether the last byte is in the file, too: behind a file's end there is a signal. */
static bool mapping_is_whole(const char *memory, uint64_t length)
{
	char byte;

	return copy_from(getpid(), &byte, (uintptr_t)memory + length - 1, 1) == 0;
}

bool shared_map(pid_t pid, uint64_t address, uint64_t length, bool write, struct grant_mapping *mapping_p)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from, before;
	struct extent there, here, made;
	struct search search = {.address = address, .length = length, .write = write};
	char *mapping;

	if (length == 0 || arena_is_near((void *)(uintptr_t)address) || !proc_is_ours() ||
	    !extent_find(pid, &search, &there))
		return false;
	search = (struct search){.file = &there, .offset = address - there.start + there.offset, .length = length,
				 .write = write};
	if (!extent_find(getpid(), &search, &here))
		return false;
	from = here.start + (search.offset - here.offset);
	before = from % page;
	/* Of no length, mremap leaves what is shared where it is, and maps it once more. */
	mapping = mremap((void *)(uintptr_t)(from - before), 0, before + length, MREMAP_MAYMOVE);
	if (mapping == MAP_FAILED)
		return false;
	madvise(mapping, before + length, MADV_DONTFORK);
	search.address = (uintptr_t)mapping + before; /* the program may have mapped something else there meanwhile */
	if (!extent_find(getpid(), &search, &made) || !mapping_is_whole(mapping + before, length)) {
		munmap(mapping, before + length);
		return false;
	}
	*mapping_p = (struct grant_mapping){mapping, before + length, mapping + before, made.write};
	return true;
}
