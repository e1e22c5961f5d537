/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs share that use /dev/thole directly: calls, and checks that say where they failed and end the program.
 */
#ifndef TEST_VM_DRIVER_H
#define TEST_VM_DRIVER_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "thole_driver.h"

enum { PAGE_MAX = 65536, MAC = 6 };

/* The kernel's pages, of up to PAGE_MAX; and huge ones, each of as much as a page full of addresses of pages maps. */
#define PAGE page_size()
#define HUGE (PAGE / 8 * PAGE)

static inline size_t page_size(void)
{
	return (size_t)getpagesize();
}

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			printf("%s:%d: not so: %s (errno: %s)\n", __FILE__, __LINE__, #condition, strerror(errno)); \
			fflush(stdout); \
			_exit(1); \
		} \
	} while (0)

struct driver {
	int fd;
	const struct thole_driver_shared *shared;
};

static inline struct driver driver_open(void)
{
	struct driver driver = {.fd = open("/dev/thole", O_RDWR)};
	void *shared;

	CHECK(driver.fd >= 0);
	shared = mmap(NULL, sizeof(*driver.shared), PROT_READ, MAP_SHARED, driver.fd, 0);
	CHECK(shared != MAP_FAILED);
	driver.shared = shared;
	CHECK(driver.shared->version == THOLE_DRIVER_VERSION);
	return driver;
}

/* The id; 0 with errno. */
static inline uint32_t declare_vector(const struct driver *driver, const struct thole_driver_segment *segments,
				      uint32_t count, uint32_t flags)
{
	struct thole_driver_declare declare = {.segments = (uintptr_t)segments, .count = count, .flags = flags};

	return ioctl(driver->fd, THOLE_DRIVER_DECLARE, &declare) == 0 ? declare.id : 0;
}

static inline uint32_t declare(const struct driver *driver, const void *address, size_t length, uint32_t flags)
{
	struct thole_driver_segment segment = {.address = (uintptr_t)address, .length = length};

	return declare_vector(driver, &segment, 1, flags);
}

static inline int forget(const struct driver *driver, uint32_t id)
{
	return ioctl(driver->fd, THOLE_DRIVER_FORGET, (unsigned long)id) == 0 ? 0 : -errno;
}

/* 0 or a negative errno; what is pinned goes to *pin_p. */
static inline int pin(const struct driver *driver, uint32_t id, uint64_t bytes, uint32_t flags,
		      struct thole_driver_pin *pin_p)
{
	*pin_p = (struct thole_driver_pin){.id = id, .bytes = bytes, .flags = flags};
	return ioctl(driver->fd, THOLE_DRIVER_PIN, pin_p) == 0 ? 0 : -errno;
}

static inline int copy(const struct driver *driver, uint32_t id, uint64_t offset, void *memory,
		       size_t length, uint32_t flags)
{
	struct thole_driver_copy copy = {
		.id = id, .flags = flags, .offset = offset, .length = length, .address = (uintptr_t)memory};

	return ioctl(driver->fd, THOLE_DRIVER_COPY, &copy) == 0 ? 0 : -errno;
}

/* Aligned to a huge page and with nothing within the length of one at its ends, but of small pages: the kernel takes
 * the pins of whatever is in the way of a huge page, or only might be when a mapping beside it is cut. */
static inline void *memory_new(size_t length)
{
	char *place = mmap(NULL, length + 3 * HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *memory = (char *)(((uintptr_t)place + 2 * HUGE - 1) & ~(uintptr_t)(HUGE - 1));

	CHECK(place != MAP_FAILED);
	CHECK(mprotect(memory, length, PROT_READ | PROT_WRITE) == 0);
	CHECK(madvise(memory, length, MADV_NOHUGEPAGE) == 0 || errno == EINVAL); /* a kernel may have none */
	return memory;
}

/* From now on this process may name memory by addresses with tags to the kernel; false: here nobody may. */
static inline bool tags_allow(void)
{
	const bool allowed = prctl(PR_SET_TAGGED_ADDR_CTRL, PR_TAGGED_ADDR_ENABLE, 0, 0, 0) == 0;

	if (!allowed)
		printf("tagged: skipped, since no address has a tag here: %s\n", strerror(errno));
	fflush(stdout); /* cases end by _exit */
	return allowed;
}

/* The same memory by an address with a tag. */
static inline unsigned char *with_tag(unsigned char *memory)
{
	return (unsigned char *)((uintptr_t)memory | UINT64_C(5) << 56);
}

/* Pages of this process that the kernel counts as pinned. */
static inline uint64_t pages_pinned(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	unsigned long kib = 0;
	char line[256];

	CHECK(file != NULL);
	while (fgets(line, sizeof(line), file))
		sscanf(line, "VmPin: %lu", &kib);
	fclose(file);
	return kib * 1024 / PAGE;
}

/* What the kernel counts, of all processes, under this name. What each processor has counted by itself is added up
 * first: by itself that comes once a second, or later. */
static inline uint64_t count_of_kernel(const char *wanted)
{
	int refresh = open("/proc/sys/vm/stat_refresh", O_RDONLY);
	unsigned long long value;
	char name[128];
	FILE *file;

	CHECK(refresh >= 0 && read(refresh, name, 1) >= 0);
	close(refresh);
	file = fopen("/proc/vmstat", "r");
	CHECK(file != NULL);
	do
		CHECK(fscanf(file, "%127s %llu", name, &value) == 2); /* a kernel may lack it */
	while (strcmp(name, wanted) != 0);
	fclose(file);
	return value;
}

/* Of these pages of this process, those whose place in its memory has the name of a place on the disk it swaps to. */
static inline uint64_t pages_swapped(const void *memory, size_t length)
{
	int fd = open("/proc/self/pagemap", O_RDONLY);
	uint64_t entry, count = 0;

	CHECK(fd >= 0);
	for (size_t page = (uintptr_t)memory / PAGE; page < ((uintptr_t)memory + length) / PAGE; page++) {
		CHECK(pread(fd, &entry, sizeof(entry), (off_t)(page * sizeof(entry))) == sizeof(entry));
		count += entry >> 62 & 1;
	}
	close(fd);
	return count;
}

/* Have the kernel write pages to the disk it swaps to; how many went there. */
static inline uint64_t pages_out(void *memory, size_t length)
{
	uint64_t before = pages_swapped(memory, length), after;

	CHECK(madvise(memory, length, MADV_PAGEOUT) == 0);
	after = pages_swapped(memory, length);
	return after > before ? after - before : 0;
}

/* All pins of regions go, as under pressure; root may do that. */
static inline void pins_shrink(void)
{
	int fd = open("/proc/sys/vm/drop_caches", O_WRONLY);

	CHECK(fd >= 0 && write(fd, "2", 1) == 1 && close(fd) == 0);
}

/* Of an interface. */
static inline void mac_of(const char *interface, uint8_t *mac)
{
	char path[64], text[32];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/net/%s/address", interface);
	file = fopen(path, "r");
	CHECK(file && fgets(text, sizeof(text), file));
	for (unsigned i = 0; i < MAC; i++)
		mac[i] = (uint8_t)strtoul(text + 3 * i, NULL, 16);
	fclose(file);
}

struct driver_case {
	const char *name;
	void (*run)(void);
	bool root; /* left out for others, unless it is asked for */
};

/* Each in a process of its own: those that the arguments name, or all; says which have passed. */
static inline void cases_run(const struct driver_case *cases, size_t count, int argc, char **argv)
{
	for (size_t i = 0; i < count; i++) {
		bool wanted = argc < 2 && (!cases[i].root || geteuid() == 0);
		int status = 0;
		pid_t child;

		for (int n = 1; n < argc; n++)
			wanted |= strcmp(argv[n], cases[i].name) == 0;
		if (!wanted)
			continue;
		child = fork();
		if (child == 0) {
			cases[i].run();
			_exit(0);
		}
		CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
		printf("%s\n", cases[i].name);
		fflush(stdout);
	}
}

#endif
