/* SPDX-License-Identifier: BSD-3-Clause */
/* What thole.h says of memory, with the driver: what a lock pins, and what is left when the mapping changes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "thole.h"

enum { PAGES = 256 };

#define PAGE ((size_t)getpagesize())
#define LENGTH (PAGES * PAGE)

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			printf("line %d: not so: %s (%s)\n", __LINE__, #condition, thole_detail()); \
			exit(1); \
		} \
	} while (0)

static struct thole_endpoint *endpoint;

/* Pages that the kernel counts as this process's pinned ones, and the library says the same. */
static unsigned long pinned(void)
{
	struct thole_memory_info info;
	unsigned long kib = 0;
	char line[256];
	FILE *file = fopen("/proc/self/status", "r");

	CHECK(file != NULL);
	while (fgets(line, sizeof(line), file))
		sscanf(line, "VmPin: %lu", &kib);
	fclose(file);
	CHECK(thole_memory_info(endpoint, NULL, &info) == 0 && info.driver == 1);
	CHECK(info.pinned == kib * 1024 / PAGE);
	return (unsigned long)info.pinned;
}

static char *memory_new(void)
{
	char *memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED);
	CHECK(madvise(memory, LENGTH, MADV_NOHUGEPAGE) == 0);
	memset(memory, 1, LENGTH);
	return memory;
}

static void locks(char *memory)
{
	struct thole_memory_info info;

	CHECK(thole_lock(endpoint, memory, LENGTH) == 0);
	CHECK(pinned() == PAGES);
	CHECK(thole_lock(endpoint, memory + LENGTH / 2, LENGTH / 4) == 0); /* each page counts once */
	CHECK(pinned() == PAGES);
	CHECK(thole_unlock(endpoint, memory, LENGTH) == 0);
	CHECK(pinned() == PAGES / 4);
	CHECK(thole_memory_info(endpoint, NULL, &info) == 0 && info.locked == LENGTH / 4);
	CHECK(madvise(memory, LENGTH, MADV_DONTNEED) == 0); /* the mapping changes */
	CHECK(pinned() == 0);
	CHECK(thole_lock(endpoint, memory + LENGTH / 2, LENGTH / 4) == 0);
	CHECK(pinned() == PAGES / 4);
	CHECK(thole_unlock(endpoint, memory + LENGTH / 2, LENGTH / 4) == 0);
	CHECK(pinned() == PAGES / 4);
	CHECK(thole_unlock(endpoint, memory + LENGTH / 2, LENGTH / 4) == 0);
	CHECK(pinned() == 0);
	CHECK(mprotect(memory, PAGE, PROT_READ) == 0); /* what may only be read is pinned to be read */
	CHECK(thole_lock(endpoint, memory, PAGE) == 0);
	CHECK(thole_unlock(endpoint, memory, PAGE) == 0);
	CHECK(mprotect(memory, PAGE, PROT_READ | PROT_WRITE) == 0);
}

static void regions(char *memory)
{
	struct iovec segments[2] = {{memory, 3 * PAGE}, {memory + 8 * PAGE + 5, PAGE}};
	struct thole_memory_info info;
	struct thole_memory *region;
	struct thole_region *exposed;

	CHECK(thole_declare(endpoint, segments, 2, THOLE_ACCESS_PUT, &region) == 0);
	CHECK(thole_memory_info(endpoint, region, &info) == 0);
	CHECK(info.driver == 1 && info.pages == 5 && info.pinned == 0);
	CHECK(thole_expose(endpoint, memory, LENGTH, THOLE_ACCESS_GET, 1, NULL, &exposed) == 0);
	CHECK(pinned() == 0);
	thole_unexpose(endpoint, exposed);
	CHECK(munmap(memory, LENGTH) == 0);
	CHECK(thole_lock(endpoint, memory, PAGE) == THOLE_ERR_FAULT);
	CHECK(thole_memory_info(endpoint, region, &info) == 0 && info.pinned == 0);
	thole_forget(endpoint, region);
}

int main(void)
{
	static const char *const options[] = {"driver=required", "network=off", NULL};
	char *memory = memory_new();

	CHECK(thole_endpoint_open(&(struct thole_endpoint_attr){.options = options}, &endpoint) == 0);
	locks(memory);
	regions(memory);
	memory = memory_new();
	CHECK(thole_lock(endpoint, memory, LENGTH) == 0);
	thole_endpoint_close(endpoint); /* unlocks */
	printf("well\n");
	return 0;
}
