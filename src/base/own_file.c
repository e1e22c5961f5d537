/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/own_file.h"

#include <sys/stat.h>

bool own_file_begin(struct own_file *file, int fd)
{
	struct stat status;

	if (fstat(fd, &status) != 0)
		return false;
	*file = (struct own_file){fd, status.st_dev, status.st_ino};
	return true;
}

bool own_file_is(const struct own_file *file)
{
	struct stat status;

	return file->fd >= 0 && fstat(file->fd, &status) == 0 && status.st_dev == file->device &&
	       status.st_ino == file->inode;
}
