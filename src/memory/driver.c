/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"

static const char device[] = "/dev/thole";

/* Why the device cannot be had. */
static int open_failed(void)
{
	switch (errno) {
	case ENOENT:
	case ENXIO:
	case ENODEV:
		return error_set(THOLE_ERR_NOT_FOUND, "there is no %s: `thole driver install` installs the driver",
				 device);
	case EACCES:
	case EPERM:
		return error_set(THOLE_ERR_ACCESS,
				 "%s is not for this user: the administrator says for whom it is "
				 "(/etc/modprobe.d/thole.conf and udev's rules; thole driver status)",
				 device);
	case ENOMEM:
		return error_set(THOLE_ERR_MEMORY, "no memory to open %s", device);
	default:
		return error_set(THOLE_ERR_SYSTEM, "%s cannot be opened: %m", device);
	}
}

static int page_failed(void)
{
	return error_set(THOLE_ERR_SYSTEM, "the page of %s cannot be mapped: %m", device);
}

/* Whether it is what this library reads. Looked at before the rest is mapped, of which a driver of another version may
 * have less. */
static int version_check(int fd)
{
	const struct thole_driver_shared *page;
	uint32_t version;

	page = mmap(NULL, sizeof(page->version), PROT_READ, MAP_SHARED, fd, THOLE_DRIVER_AT_SHARED);
	if (page == MAP_FAILED)
		return page_failed();
	version = page->version;
	munmap((void *)(uintptr_t)page, sizeof(page->version));
	if (version == THOLE_DRIVER_VERSION)
		return 0;
	return error_set(THOLE_ERR_UNSUPPORTED,
			 "%s is of version %u, and this library needs version %d: `thole driver install` installs its "
			 "own",
			 device, version, THOLE_DRIVER_VERSION);
}

static int page_map(struct driver *driver)
{
	int error = version_check(driver->fd);
	void *page;

	if (error)
		return error;
	page = mmap(NULL, sizeof(*driver->shared), PROT_READ, MAP_SHARED, driver->fd, THOLE_DRIVER_AT_SHARED);
	if (page == MAP_FAILED)
		return page_failed();
	(void)madvise(page, sizeof(*driver->shared), MADV_DONTFORK); /* else a child keeps the regions alive */
	driver->shared = page;
	return 0;
}

int driver_open(struct driver *driver)
{
	int error;

	*driver = (struct driver){.fd = -1};
	forked_add(&driver->forked, &driver->fd, 1);
	driver->fd = limits_own(open(device, O_RDWR | O_CLOEXEC));
	error = driver->fd < 0 ? open_failed() : page_map(driver);
	if (error)
		driver_close(driver);
	return error;
}

void driver_close(struct driver *driver)
{
	if (driver->shared)
		munmap((void *)(uintptr_t)driver->shared, sizeof(*driver->shared));
	driver->shared = NULL;
	forked_remove(&driver->forked);
	forked_close(&driver->fd);
	driver->forked = (struct forked){0};
}

int driver_call(const struct driver *driver, unsigned long command, void *argument)
{
	int status;

	do
		status = ioctl(driver->fd, command, argument);
	while (status < 0 && errno == EINTR);
	return status < 0 ? -errno : status;
}

int driver_error(int status, const char *what)
{
	errno = -status;
	switch (errno) {
	case EFAULT:
		return error_set(THOLE_ERR_FAULT, "%s: there is no such memory, or it must not be written", what);
	case ENOMEM:
		return error_set(THOLE_ERR_MEMORY,
				 "%s: no memory, or more than may be pinned: raise it by `ulimit -l`", what);
	case EAGAIN:
		return error_set(THOLE_ERR_AGAIN, "%s: the mapping goes on changing meanwhile", what);
	case EBUSY:
		return error_set(THOLE_ERR_AGAIN, "%s: %d regions are declared, which is the most", what,
				 THOLE_DRIVER_REGIONS - 1);
	case ENOENT:
		return error_set(THOLE_ERR_NOT_FOUND, "%s: there is no such region", what);
	case EINVAL:
		return error_set(THOLE_ERR_ARGUMENT, "%s: the driver knows no such argument", what);
	default:
		return error_set(THOLE_ERR_SYSTEM, "%s: %s: %m", what, device);
	}
}

int driver_declare(const struct driver *driver, const struct iovec *segments, size_t count, uint32_t flags,
		   uint32_t *id_p)
{
	struct thole_driver_segment few[4], *all = few;
	struct thole_driver_declare declare = {.flags = flags};
	int status;

	if (count > THOLE_DRIVER_SEGMENTS)
		return error_set(THOLE_ERR_ARGUMENT, "a region has at most %d segments, not %zu",
				 THOLE_DRIVER_SEGMENTS, count);
	if (count > sizeof(few) / sizeof(few[0]))
		all = malloc(count * sizeof(*all));
	if (!all)
		return error_set(THOLE_ERR_MEMORY, "no memory to declare a region of %zu segments", count);
	for (size_t i = 0; i < count; i++)
		all[i] = (struct thole_driver_segment){(uintptr_t)segments[i].iov_base, segments[i].iov_len};
	declare.segments = (uintptr_t)all;
	declare.count = (uint32_t)count;
	status = driver_call(driver, THOLE_DRIVER_DECLARE, &declare);
	if (all != few)
		free(all);
	if (status < 0)
		return driver_error(status, "declare a region");
	*id_p = declare.id;
	return 0;
}

void driver_forget(const struct driver *driver, uint32_t id)
{
	(void)driver_call(driver, THOLE_DRIVER_FORGET, (void *)(uintptr_t)id);
}

int driver_pin(const struct driver *driver, uint32_t id, uint64_t bytes, uint32_t flags,
	       struct thole_driver_pin *state_p)
{
	int status;

	*state_p = (struct thole_driver_pin){.id = id, .flags = flags, .bytes = bytes};
	status = driver_call(driver, THOLE_DRIVER_PIN, state_p);
	return status < 0 ? driver_error(status, "pin a region") : 0;
}

int driver_copy(const struct driver *driver, uint32_t id, uint64_t offset, void *memory, uint64_t length,
		uint32_t flags)
{
	struct thole_driver_copy copy = {
		.id = id, .flags = flags, .offset = offset, .length = length, .address = (uintptr_t)memory};
	int status = driver_call(driver, THOLE_DRIVER_COPY, &copy);

	return status < 0 ? driver_error(status, "copy a region") : 0;
}

int driver_view_make(const struct driver *driver, const struct thole_driver_attach *offered,
		     struct driver_view *view_p)
{
	struct thole_driver_attach attach = *offered;
	int protection = attach.flags & THOLE_DRIVER_WRITE ? PROT_READ | PROT_WRITE : PROT_READ;
	uint64_t mapped;
	char *mapping;
	int status = driver_call(driver, THOLE_DRIVER_ATTACH, &attach);

	if (status == -ENOMEM)
		return THOLE_ERR_MEMORY;
	if (status == -EMFILE || status == -ENFILE)
		return THOLE_ERR_SYSTEM;
	if (status < 0)
		return THOLE_ERR_ACCESS;
	mapped = (attach.offset + attach.length + 4095) & ~UINT64_C(4095);
	mapping = mmap(NULL, mapped, protection, MAP_SHARED, attach.fd, 0);
	close(attach.fd);
	if (mapping == MAP_FAILED)
		return THOLE_ERR_MEMORY;
	*view_p = (struct driver_view){.head = (const void *)mapping, .mapped = mapped,
				       .memory = mapping + attach.offset, .length = attach.length};
	return 0;
}

void driver_view_end(struct driver_view *view)
{
	if (view->head)
		munmap((void *)(uintptr_t)view->head, view->mapped);
	*view = (struct driver_view){0};
}

static int registrar_enter(void *arg, struct cache_entry *entry)
{
	static const uint32_t unchanging;
	struct iovec segment = {(void *)(uintptr_t)entry->address, entry->length};
	uint32_t id = 0;
	int error = driver_declare(arg, &segment, 1, entry->access & CACHE_WRITE ? THOLE_DRIVER_WRITE : 0, &id);

	if (error)
		return error == THOLE_ERR_AGAIN ? CACHE_FULL : error;
	entry->handle = id;
	entry->word = &unchanging;
	entry->generation = unchanging;
	return 0;
}

static void registrar_leave(void *arg, struct cache_entry *entry)
{
	driver_forget(arg, (uint32_t)entry->handle);
}

const struct cache_registrar driver_registrar = {.enter = registrar_enter, .leave = registrar_leave};
