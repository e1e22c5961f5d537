/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/children.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/own_file.h"

static struct own_file file = {.fd = -1}; /* none: no child is left, if `lost` does not say otherwise */
static void *page;                        /* during a fork */
static bool lost;                         /* there was no memory for one, or it is gone: they may be there for ever */

/* Whether there is that of children before. */
static bool page_is_there(void)
{
	if (own_file_is(&file))
		return true;
	lost |= file.fd >= 0;
	file.fd = -1;
	return false;
}

void children_come(void)
{
	size_t size = (size_t)getpagesize();
	int fd;

	if (!page_is_there()) {
		fd = limits_unnoticed(memfd_create("thole-children", MFD_CLOEXEC | MFD_ALLOW_SEALING));
		if (fd >= 0 && (!limits_file(size) || ftruncate(fd, (off_t)size) != 0 || !own_file_begin(&file, fd)))
			close(fd);
	}
	page = file.fd < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
	lost |= page == MAP_FAILED;
}

void children_came(void)
{
	if (page && page != MAP_FAILED)
		munmap(page, (size_t)getpagesize());
	page = NULL;
}

void children_none(void)
{
	if (page_is_there())
		close(file.fd);
	file.fd = -1;
	page = NULL;
}

bool children_expected(void)
{
	return file.fd >= 0;
}

bool children_are_gone(void)
{
	if (lost || page)
		return false;
	if (!page_is_there())
		return !lost;
	if (fcntl(file.fd, F_ADD_SEALS, F_SEAL_WRITE) != 0)
		return false;
	close(file.fd);
	file.fd = -1;
	return true;
}
