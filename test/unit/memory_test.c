/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Declared regions and locks, with a driver of the test's own that has so many pages and says what is pinned, and
 * without one; and which declared segment has some bytes.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/declared.h"
#include "memory/driver.h"
#include "message/state.h"
#include "thole.h"

enum { IDS = 64, PAGE = 4096 };

/* A region's pages are its bytes in pages; who pins more than there are gets ENOMEM. */
static struct {
	bool there;
	struct region_of_driver {
		uint64_t address, length, pinned;
		uint32_t flags, count;
		bool live;
	} regions[IDS];
	uint64_t pages;
	uintptr_t read_only; /* nothing at or above it may be pinned to be written to */
	uint32_t live;
} device;

int __real_open64(const char *path, int flags, mode_t mode);
int __wrap_open64(const char *path, int flags, mode_t mode);
int __wrap_ioctl(int fd, unsigned long command, void *argument);

int __wrap_open64(const char *path, int flags, mode_t mode)
{
	struct thole_driver_shared shared = {.version = THOLE_DRIVER_VERSION, .locked = 42};
	int fd;

	if (strcmp(path, "/dev/thole") != 0)
		return __real_open64(path, flags, mode);
	if (!device.there) {
		errno = ENOENT;
		return -1;
	}
	fd = memfd_create("device", MFD_CLOEXEC);
	assert_int_equal(write(fd, &shared, sizeof(shared)), sizeof(shared));
	return fd;
}

static int device_declare(struct thole_driver_declare *declare)
{
	const struct thole_driver_segment *segments = (void *)(uintptr_t)declare->segments;
	struct region_of_driver *region;

	declare->id = 1;
	while (device.regions[declare->id].live)
		declare->id++;
	assert_in_range(declare->id, 1, IDS - 1);
	region = &device.regions[declare->id];
	*region = (struct region_of_driver){.address = segments[0].address, .flags = declare->flags,
					    .count = declare->count, .live = true};
	for (uint32_t i = 0; i < declare->count; i++)
		region->length += segments[i].length;
	device.live++;
	return 0;
}

static int device_pin(struct thole_driver_pin *pin)
{
	struct region_of_driver *region = &device.regions[pin->id];
	uint64_t pages = (pin->bytes + PAGE - 1) / PAGE;

	assert_true(region->live);
	if (pages && region->flags & THOLE_DRIVER_WRITE && region->address >= device.read_only) {
		errno = EFAULT;
		return -1;
	}
	if (pages > device.pages) {
		errno = ENOMEM;
		return -1;
	}
	region->pinned = pages > region->pinned ? pages : region->pinned;
	pin->pages = (region->length + PAGE - 1) / PAGE;
	pin->pinned = region->pinned;
	return 0;
}

int __wrap_ioctl(int fd, unsigned long command, void *argument)
{
	(void)fd;
	switch (command) {
	case THOLE_DRIVER_DECLARE:
		return device_declare(argument);
	case THOLE_DRIVER_PIN:
		return device_pin(argument);
	case THOLE_DRIVER_FORGET:
		assert_true(device.regions[(uintptr_t)argument].live);
		device.regions[(uintptr_t)argument].live = false;
		device.live--;
		return 0;
	}
	fail();
	return -1;
}

static struct thole_endpoint *endpoint_new(bool driver)
{
	static const char *const options[] = {"network=off", NULL};
	struct thole_endpoint *endpoint;

	memset(&device, 0, sizeof(device));
	device.there = driver;
	device.pages = 100;
	device.read_only = UINTPTR_MAX;
	assert_int_equal(thole_endpoint_open(&(struct thole_endpoint_attr){.options = options}, &endpoint), 0);
	assert_int_equal(endpoint->base.driver != NULL, driver);
	return endpoint;
}

static void *at(uintptr_t address)
{
	return (void *)address;
}

static void declaring(void **state)
{
	struct iovec segments[] = {{at(0x10000), 0x3000}, {at(0x80000), 0x1000}};
	struct thole_endpoint *endpoint = endpoint_new(true);
	struct thole_memory *memory, *other;
	struct thole_memory_info info;
	struct declared_place place;

	(void)state;
	assert_int_equal(thole_declare(endpoint, segments, 2, THOLE_ACCESS_GET | THOLE_ACCESS_PUT, &memory), 0);
	assert_int_equal(device.regions[1].count, 2);
	assert_int_equal(device.regions[1].flags, THOLE_DRIVER_WRITE);
	assert_int_equal(thole_declare(endpoint, segments, 1, THOLE_ACCESS_GET, &other), 0);
	assert_int_equal(device.regions[2].flags, 0);
	assert_int_equal(thole_memory_info(endpoint, memory, &info), 0);
	assert_int_equal(info.length, 0x4000);
	assert_int_equal(info.pages, 4);
	assert_int_equal(info.pinned, 0); /* nothing was touched */
	assert_int_equal(info.driver, 1);
	assert_int_equal(thole_memory_info(endpoint, NULL, &info), 0);
	assert_int_equal(info.length, 0x7000);
	assert_int_equal(info.pinned, 42);
	assert_true(declared_find(&endpoint->base.declared, 0x80010, 10, true, &place));
	assert_int_equal(place.id, 1);
	assert_int_equal(place.offset, 0x3010);
	thole_forget(endpoint, memory);
	thole_forget(endpoint, NULL);
	assert_int_equal(device.live, 1);
	assert_false(declared_find(&endpoint->base.declared, 0x80010, 10, false, &place));
	thole_endpoint_close(endpoint); /* forgets the other one */
	assert_int_equal(device.live, 0);
}

static void wrong(void **state)
{
	struct iovec segments[THOLE_DECLARE_MAX + 1];
	struct thole_endpoint *endpoint = endpoint_new(true);
	struct thole_memory *memory;

	(void)state;
	for (int i = 0; i <= THOLE_DECLARE_MAX; i++)
		segments[i] = (struct iovec){at(0x1000), 1};
	assert_int_equal(thole_declare(endpoint, segments, 0, 0, &memory), THOLE_ERR_ARGUMENT);
	assert_int_equal(thole_declare(endpoint, segments, THOLE_DECLARE_MAX + 1, 0, &memory), THOLE_ERR_ARGUMENT);
	assert_int_equal(thole_declare(endpoint, segments, THOLE_DECLARE_MAX, 0, &memory), 0);
	segments[3].iov_len = 0;
	assert_int_equal(thole_declare(endpoint, segments, 5, 0, &memory), THOLE_ERR_ARGUMENT);
	assert_non_null(strstr(thole_detail(), "segment 3"));
	assert_int_equal(thole_lock(endpoint, at(UINTPTR_MAX - 10), 11), THOLE_ERR_ARGUMENT);
	assert_int_equal(thole_lock(endpoint, at(0x1000), 0), THOLE_ERR_ARGUMENT);
	assert_int_equal(thole_unlock(endpoint, at(0x1000), 1), THOLE_ERR_NOT_FOUND);
	thole_endpoint_close(endpoint);
}

static uint64_t locked(struct thole_endpoint *endpoint)
{
	struct thole_memory_info info;

	assert_int_equal(thole_memory_info(endpoint, NULL, &info), 0);
	return info.locked;
}

/* They nest and overlap, and each range is one region of the driver's, as long as it is locked. */
static void locks(struct thole_endpoint *endpoint, uint32_t regions)
{
	assert_int_equal(thole_lock(endpoint, at(0x1000), 0x3000), 0);
	assert_int_equal(thole_lock(endpoint, at(0x2000), 0x1000), 0);
	assert_int_equal(thole_lock(endpoint, at(0x3000), 0x2000), 0);
	assert_int_equal(thole_lock(endpoint, at(0x1000), 0x3000), 0);
	assert_int_equal(locked(endpoint), 0x4000);
	assert_int_equal(device.live, 3 * regions);
	assert_int_equal(thole_unlock(endpoint, at(0x1000), 0x1000), THOLE_ERR_NOT_FOUND);
	assert_int_equal(thole_unlock(endpoint, at(0x1000), 0x3000), 0);
	assert_int_equal(locked(endpoint), 0x4000);
	assert_int_equal(device.live, 3 * regions);
	assert_int_equal(thole_unlock(endpoint, at(0x1000), 0x3000), 0);
	assert_int_equal(locked(endpoint), 0x3000);
	assert_int_equal(device.live, 2 * regions);
	assert_int_equal(thole_unlock(endpoint, at(0x3000), 0x2000), 0);
	assert_int_equal(locked(endpoint), 0x1000);
	assert_int_equal(thole_unlock(endpoint, at(0x2000), 0x1000), 0);
	assert_int_equal(locked(endpoint), 0);
	assert_int_equal(device.live, 0);
	assert_int_equal(thole_unlock(endpoint, at(0x2000), 0x1000), THOLE_ERR_NOT_FOUND);
	assert_int_equal(thole_lock(endpoint, at(0x1000), 0x3000), 0);
	thole_endpoint_close(endpoint); /* unlocks */
	assert_int_equal(device.live, 0);
}

static void locks_with(void **state)
{
	(void)state;
	locks(endpoint_new(true), 1);
}

static void locks_without(void **state)
{
	struct thole_endpoint *endpoint = endpoint_new(false);
	struct thole_memory_info info;
	struct thole_memory *memory;

	(void)state;
	assert_int_equal(thole_declare(endpoint, &(struct iovec){at(0x1000), 77}, 1, 0, &memory), 0);
	assert_int_equal(thole_memory_info(endpoint, memory, &info), 0);
	assert_int_equal(info.length, 77);
	assert_int_equal(info.pinned + info.pages, 0);
	assert_int_equal(info.driver, 0);
	thole_forget(endpoint, memory);
	locks(endpoint, 0);
}

static void lock_pins(void **state)
{
	struct thole_endpoint *endpoint = endpoint_new(true);

	(void)state;
	device.pages = 4;
	assert_int_equal(thole_lock(endpoint, at(0x1000), 5 * PAGE), THOLE_ERR_MEMORY);
	assert_int_equal(locked(endpoint), 0);
	assert_int_equal(device.live, 0);
	assert_int_equal(thole_unlock(endpoint, at(0x1000), 5 * PAGE), THOLE_ERR_NOT_FOUND);
	assert_int_equal(thole_lock(endpoint, at(0x1000), 4 * PAGE), 0);
	assert_int_equal(device.regions[1].flags, THOLE_DRIVER_KEEP | THOLE_DRIVER_WRITE);
	assert_int_equal(device.regions[1].pinned, 4);
	device.regions[1].pinned = 0; /* the mapping changed */
	assert_int_equal(thole_lock(endpoint, at(0x1000), 4 * PAGE), 0);
	assert_int_equal(device.regions[1].pinned, 4);
	device.pages = 0; /* what is locked stays locked as often as before */
	assert_int_equal(thole_lock(endpoint, at(0x1000), 4 * PAGE), THOLE_ERR_MEMORY);
	device.pages = 4;
	assert_int_equal(thole_unlock(endpoint, at(0x1000), 4 * PAGE), 0);
	assert_int_equal(thole_unlock(endpoint, at(0x1000), 4 * PAGE), 0);
	assert_int_equal(thole_unlock(endpoint, at(0x1000), 4 * PAGE), THOLE_ERR_NOT_FOUND);

	device.read_only = 0x8000;
	assert_int_equal(thole_lock(endpoint, at(0x8000), PAGE), 0);
	assert_int_equal(device.regions[1].flags, THOLE_DRIVER_KEEP);
	assert_int_equal(device.regions[1].pinned, 1);
	thole_endpoint_close(endpoint);
	assert_int_equal(device.live, 0);
}

static void exposing(void **state)
{
	struct thole_endpoint *endpoint = endpoint_new(true);
	struct thole_region *region, *all;

	(void)state;
	assert_int_equal(thole_expose(endpoint, at(0x5000), 100, THOLE_ACCESS_GET, 1, NULL, &region), 0);
	assert_int_equal(device.live, 1);
	assert_int_equal(device.regions[1].flags, 0);
	assert_int_equal(thole_expose(endpoint, NULL, SIZE_MAX, THOLE_ACCESS_GET | THOLE_ACCESS_PUT, 2, NULL, &all), 0);
	assert_int_equal(thole_expose(endpoint, at(0x5000), 100, 0, 1, NULL, &all), THOLE_ERR_KEY);
	thole_unexpose(endpoint, region);
	assert_false(device.regions[1].live);
	thole_endpoint_close(endpoint);
	assert_int_equal(device.live, 0);
}

/* Segments that overlap: any of the nearest ones that has the bytes will do. */
static void finding(void **state)
{
	struct declared declared = {0};
	struct declared_place place;

	(void)state;
	assert_true(declared_add(&declared, &(struct iovec){at(1000), 1000}, 1, 1, true));
	assert_true(declared_add(&declared, &(struct iovec){at(500), 5000}, 1, 2, false));
	assert_true(declared_add(&declared, &(struct iovec){at(1200), 10}, 1, 3, true));
	assert_true(declared_find(&declared, 1200, 10, false, &place) && place.id == 3 && place.offset == 0);
	assert_true(declared_find(&declared, 1200, 11, false, &place) && place.id == 1 && place.offset == 200);
	assert_true(declared_find(&declared, 1999, 1, true, &place) && place.id == 1 && place.offset == 999);
	assert_true(declared_find(&declared, 1999, 2, false, &place) && place.id == 2 && place.offset == 1499);
	assert_false(declared_find(&declared, 1999, 2, true, &place)); /* must not be written to */
	assert_false(declared_find(&declared, 499, 1, false, &place));
	assert_false(declared_find(&declared, 5499, 2, false, &place));
	assert_true(declared_find(&declared, 5499, 1, false, &place));
	declared_remove(&declared, 2);
	assert_int_equal(declared.count, 2);
	assert_false(declared_find(&declared, 5499, 1, false, &place));
	declared_fini(&declared);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(declaring),     cmocka_unit_test(wrong),     cmocka_unit_test(locks_with),
		cmocka_unit_test(locks_without), cmocka_unit_test(lock_pins), cmocka_unit_test(exposing),
		cmocka_unit_test(finding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
