/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library's side of /dev/thole, with a device of the test's own: what it asks, what errors become, when it is not
 * there, and what endpoints make of that.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mappings.h"
#include "memory/driver.h"
#include "thole.h"

/* The device: what open, and the next calls, come to. */
static struct {
	int open_errno;
	uint32_t version;
	size_t shown; /* bytes that it lets be mapped */
	int call_errno, interrupted; /* before that: so often EINTR */
	unsigned long command;
	uint64_t argument;
	struct thole_driver_declare declare;
	struct thole_driver_segment segments[8];
	struct thole_driver_pin pin;
	struct thole_driver_copy copy;
	struct thole_driver_attach attach; /* what was asked for, and the descriptor of the view */
	int opens, fd, forgotten;
} device;

int __real_open64(const char *path, int flags, mode_t mode);
int __wrap_open64(const char *path, int flags, mode_t mode);
int __wrap_ioctl(int fd, unsigned long command, void *argument);
void *__real_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset);

int __wrap_open64(const char *path, int flags, mode_t mode)
{
	struct thole_driver_shared shared = {.version = device.version, .generations[7] = 70};

	if (strcmp(path, "/dev/thole") != 0)
		return __real_open64(path, flags, mode);
	device.opens++;
	assert_int_equal(flags, O_RDWR | O_CLOEXEC);
	errno = device.open_errno;
	if (device.open_errno)
		return -1;
	device.fd = memfd_create("device", MFD_CLOEXEC);
	assert_int_equal(write(device.fd, &shared, sizeof(shared)), sizeof(shared));
	return device.fd;
}

void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	if (fd < 0 || fd != device.fd || length <= device.shown)
		return __real_mmap64(address, length, protection, flags, fd, offset);
	errno = ENXIO;
	return MAP_FAILED;
}

/* A view of 5000 bytes that begin in the middle of a page. */
static void view_answer(struct thole_driver_attach *attach)
{
	device.attach = *attach;
	attach->fd = device.attach.fd = memfd_create("view", MFD_CLOEXEC);
	attach->offset = 4096 + 10;
	attach->length = 5000;
	assert_int_equal(ftruncate(attach->fd, 3 * 4096), 0);
	assert_int_equal(pwrite(attach->fd, "begin", 5, 4096 + 10), 5);
}

int __wrap_ioctl(int fd, unsigned long command, void *argument)
{
	assert_int_equal(fd, device.fd);
	device.command = command;
	device.argument = (uintptr_t)argument;
	if (device.interrupted) {
		device.interrupted--;
		errno = EINTR;
		return -1;
	}
	switch (command) {
	case THOLE_DRIVER_DECLARE:
		memcpy(&device.declare, argument, sizeof(device.declare));
		memcpy(device.segments, (void *)(uintptr_t)device.declare.segments,
		       (device.declare.count < 8 ? device.declare.count : 8) * sizeof(device.segments[0]));
		((struct thole_driver_declare *)argument)->id = 7;
		break;
	case THOLE_DRIVER_FORGET:
		device.forgotten++;
		break;
	case THOLE_DRIVER_PIN:
		memcpy(&device.pin, argument, sizeof(device.pin));
		((struct thole_driver_pin *)argument)->pinned = 3;
		break;
	case THOLE_DRIVER_COPY:
		memcpy(&device.copy, argument, sizeof(device.copy));
		break;
	case THOLE_DRIVER_ATTACH:
		if (!device.call_errno)
			view_answer(argument);
		break;
	}
	errno = device.call_errno;
	return device.call_errno ? -1 : 0;
}

static int device_reset(void **state)
{
	(void)state;
	memset(&device, 0, sizeof(device));
	device.version = THOLE_DRIVER_VERSION;
	device.shown = sizeof(struct thole_driver_shared);
	return 0;
}

static void absent(void **state)
{
	static const struct {
		int open_errno, error;
	} cases[] = {
		{ENOENT, THOLE_ERR_NOT_FOUND}, {ENXIO, THOLE_ERR_NOT_FOUND}, {ENODEV, THOLE_ERR_NOT_FOUND},
		{EACCES, THOLE_ERR_ACCESS},    {EPERM, THOLE_ERR_ACCESS},    {ENOMEM, THOLE_ERR_MEMORY},
		{EMFILE, THOLE_ERR_SYSTEM},
	};
	struct driver driver;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		device.open_errno = cases[i].open_errno;
		assert_int_equal(driver_open(&driver), cases[i].error);
		assert_non_null(strstr(thole_detail(), "/dev/thole"));
		assert_int_equal(driver.fd, -1);
		assert_null(driver.shared);
		driver_close(&driver);
	}
}

static void other_version(void **state)
{
	struct driver driver;

	(void)state;
	device.version = THOLE_DRIVER_VERSION + 1;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(driver_open(&driver), THOLE_ERR_UNSUPPORTED);
		assert_non_null(strstr(thole_detail(), "thole driver install"));
		assert_int_equal(driver.fd, -1);
		assert_null(driver.shared);
		assert_int_equal(fcntl(device.fd, F_GETFD), -1); /* closed */
		device.shown = 4096;                             /* of another length, too */
	}
}

static void calls(void **state)
{
	char memory[64];
	struct iovec segments[6] = {{memory, 1}, {memory + 8, 2}, {memory + 16, 3}, {memory + 24, 4}, {memory + 32, 5},
				    {memory + 40, 6}};
	struct thole_driver_pin pin;
	struct driver driver;
	int mapped = mappings_of("memfd:device");
	uint32_t id = 0;

	(void)state;
	assert_int_equal(driver_open(&driver), 0);
	assert_int_equal(*driver_word(&driver, 7), 70);
	device.interrupted = 2; /* a signal is no error */
	assert_int_equal(driver_declare(&driver, segments, 6, THOLE_DRIVER_WRITE, &id), 0);
	assert_int_equal(id, 7);
	assert_int_equal(device.declare.count, 6);
	assert_int_equal(device.declare.flags, THOLE_DRIVER_WRITE);
	for (int i = 0; i < 6; i++) {
		assert_ptr_equal((void *)(uintptr_t)device.segments[i].address, segments[i].iov_base);
		assert_int_equal(device.segments[i].length, segments[i].iov_len);
	}
	assert_int_equal(driver_declare(&driver, segments, 2, 0, &id), 0);
	assert_ptr_equal((void *)(uintptr_t)device.segments[1].address, memory + 8);
	assert_int_equal(driver_declare(&driver, segments, THOLE_DRIVER_SEGMENTS + 1, 0, &id), THOLE_ERR_ARGUMENT);

	assert_int_equal(driver_pin(&driver, 7, 100, THOLE_DRIVER_BACKGROUND, &pin), 0);
	assert_int_equal(device.pin.id, 7);
	assert_int_equal(device.pin.bytes, 100);
	assert_int_equal(device.pin.flags, THOLE_DRIVER_BACKGROUND);
	assert_int_equal(pin.pinned, 3);

	assert_int_equal(driver_copy(&driver, 7, 11, memory, 12, THOLE_DRIVER_INTO), 0);
	assert_int_equal(device.copy.offset, 11);
	assert_int_equal(device.copy.length, 12);
	assert_int_equal(device.copy.address, (uintptr_t)memory);
	assert_int_equal(device.copy.flags, THOLE_DRIVER_INTO);

	driver_forget(&driver, 7);
	assert_int_equal(device.command, THOLE_DRIVER_FORGET);
	assert_int_equal(device.argument, 7);
	driver_close(&driver);
	assert_int_equal(fcntl(device.fd, F_GETFD), -1);
	assert_int_equal(driver.fd, -1);
	assert_null(driver.shared);
	assert_int_equal(mappings_of("memfd:device"), mapped);
}

static void errors(void **state)
{
	static const struct {
		int call_errno, error;
	} cases[] = {
		{EFAULT, THOLE_ERR_FAULT}, {ENOMEM, THOLE_ERR_MEMORY},     {EAGAIN, THOLE_ERR_AGAIN},
		{EBUSY, THOLE_ERR_AGAIN},  {ENOENT, THOLE_ERR_NOT_FOUND}, {EINVAL, THOLE_ERR_ARGUMENT},
		{EPERM, THOLE_ERR_SYSTEM},
	};
	struct thole_driver_pin pin;
	struct driver driver;
	uint32_t id;

	(void)state;
	assert_int_equal(driver_open(&driver), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		device.call_errno = cases[i].call_errno;
		assert_int_equal(driver_declare(&driver, &(struct iovec){&driver, 1}, 1, 0, &id), cases[i].error);
		assert_non_null(strstr(thole_detail(), "declare a region: "));
		assert_int_equal(driver_pin(&driver, 1, 1, 0, &pin), cases[i].error);
		assert_int_equal(driver_copy(&driver, 1, 0, &pin, 1, 0), cases[i].error);
		assert_int_equal(driver_call(&driver, THOLE_DRIVER_FORGET, NULL), -cases[i].call_errno);
	}
	driver_close(&driver);
}

static void views(void **state)
{
	static const struct thole_driver_attach mine = {.number = 3, .flags = THOLE_DRIVER_WRITE, .key = {4, 5}},
						read_only = {.number = 3};
	struct thole_driver_view head = {.lost = 1};
	struct driver_view view = {0};
	struct driver driver;

	(void)state;
	assert_int_equal(driver_open(&driver), 0);
	driver_view_end(&view); /* there is none */
	device.call_errno = ENOENT;
	assert_int_equal(driver_view_make(&driver, &mine, &view), THOLE_ERR_ACCESS);
	device.call_errno = ENOMEM;
	assert_int_equal(driver_view_make(&driver, &mine, &view), THOLE_ERR_MEMORY);
	device.call_errno = EMFILE;
	assert_int_equal(driver_view_make(&driver, &mine, &view), THOLE_ERR_SYSTEM);
	assert_null(view.head);
	device.call_errno = 0;
	assert_int_equal(driver_view_make(&driver, &mine, &view), 0);
	assert_int_equal(device.attach.number, 3);
	assert_int_equal(device.attach.flags, THOLE_DRIVER_WRITE);
	assert_int_equal(device.attach.key[0], 4);
	assert_int_equal(device.attach.key[1], 5);
	assert_int_equal(fcntl(device.attach.fd, F_GETFD), -1); /* the mapping is enough */
	assert_int_equal(view.length, 5000);
	assert_memory_equal(view.memory, "begin", 5);
	view.memory[view.length - 1] = 1; /* may be written, to the end */
	assert_true(driver_view_is_whole(&view));
	memcpy((void *)(uintptr_t)view.head, &head, sizeof(head));
	assert_false(driver_view_is_whole(&view));
	head = (struct thole_driver_view){.ended = 1};
	memcpy((void *)(uintptr_t)view.head, &head, sizeof(head));
	assert_false(driver_view_is_whole(&view));
	assert_int_equal(mappings_of("memfd:view"), 1);
	driver_view_end(&view);
	assert_null(view.head);
	assert_int_equal(driver_view_make(&driver, &read_only, &view), 0);
	assert_int_equal(pread(device.fd, view.memory, 1, 0), -1);
	driver_view_end(&view);
	assert_int_equal(mappings_of("memfd:view"), 0);
	driver_close(&driver);
}

static void registrar(void **state)
{
	struct cache_entry memory[4], *entry;
	struct driver driver;
	struct cache cache;

	(void)state;
	assert_true(cache_size(2) <= sizeof(memory));
	assert_int_equal(driver_open(&driver), 0);
	cache_init(&cache, memory, 2, 2, UINT64_MAX);
	cache_serve(&cache, &driver_registrar, &driver);
	assert_int_equal(cache_take(&cache, 0x1000, 100, CACHE_WRITE, &entry), 0);
	assert_int_equal(entry->handle, 7);
	assert_int_equal(device.declare.flags, THOLE_DRIVER_WRITE);
	assert_int_equal(device.segments[0].address, 0x1000);
	assert_int_equal(device.segments[0].length, 100);
	cache_give(&cache, entry);
	assert_int_equal(device.command, THOLE_DRIVER_DECLARE); /* it is kept */
	device.call_errno = EBUSY; /* no id is free: idle ones go for it */
	assert_int_equal(cache_take(&cache, 0x2000, 100, 0, &entry), CACHE_FULL);
	assert_int_equal(device.declare.flags, 0);
	assert_int_equal(cache.idle_count, 0);
	assert_int_equal(device.forgotten, 1);
	device.call_errno = EFAULT;
	assert_int_equal(cache_take(&cache, 0x2000, 100, 0, &entry), THOLE_ERR_FAULT);
	cache_fini(&cache);
	driver_close(&driver);
}

/* A child has nothing of it, but can say so. */
static void forked(void **state)
{
	struct driver driver;
	pid_t child;

	(void)state;
	assert_int_equal(driver_open(&driver), 0);
	child = fork();
	if (child == 0)
		_exit(driver.fd == -1 && msync((void *)(uintptr_t)driver.shared, 1, MS_ASYNC) != 0 ? 0 : 1);
	assert_int_equal(child_status(child), 0);
	assert_int_equal(driver.fd, device.fd);
	driver_close(&driver);
}

static int endpoint_open_with(const char *option)
{
	const char *options[] = {option, "network=off", NULL};
	struct thole_endpoint *endpoint;
	int error = thole_endpoint_open(&(struct thole_endpoint_attr){.options = options}, &endpoint);

	if (!error)
		thole_endpoint_close(endpoint);
	return error;
}

static void endpoints(void **state)
{
	(void)state;
	assert_int_equal(endpoint_open_with("driver=auto"), 0);
	assert_int_equal(device.opens, 1);
	assert_int_equal(fcntl(device.fd, F_GETFD), -1);
	assert_int_equal(endpoint_open_with("driver=required"), 0);
	assert_int_equal(device.opens, 2);
	assert_int_equal(endpoint_open_with("driver=off"), 0);
	assert_int_equal(device.opens, 2);
	device.open_errno = ENOENT;
	assert_int_equal(endpoint_open_with("driver=auto"), 0);
	assert_int_equal(endpoint_open_with("driver=required"), THOLE_ERR_NOT_FOUND);
	assert_non_null(strstr(thole_detail(), "driver=required: there is no /dev/thole"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(absent, device_reset),  cmocka_unit_test_setup(other_version, device_reset),
		cmocka_unit_test_setup(calls, device_reset),   cmocka_unit_test_setup(errors, device_reset),
		cmocka_unit_test_setup(views, device_reset),   cmocka_unit_test_setup(registrar, device_reset),
		cmocka_unit_test_setup(forked, device_reset),  cmocka_unit_test_setup(endpoints, device_reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
