/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file is written under a name of its own and then linked to its place, where nobody finds it before it is whole,
 * and which one process alone can do first.
 */
#include "base/key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"
#include "thole.h"

enum {
	KEY_BYTES_MAX = 63,   /* of the file: a number and a line's end */
	KEY_PATH_MAX = 1024,  /* of the path, as options have it, and more for a name beside it */
	KEY_SUFFIX_MAX = 32,
};

/* What helps in any case. */
#define KEY_REMEDY "or set the option job_key: to a number that the whole job is given (thole run does), or to none"

/* ---- Reading --------------------------------------------------------------------------------------- */

/* "0x" and hexadecimal digits, or decimal ones; 64 bits, not 0. */
static bool key_parse(char *text, uint64_t *key_p)
{
	char *end;

	text[strcspn(text, "\r\n")] = '\0';
	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*key_p = strtoull(text, &end, text[1] == 'x' ? 16 : 10);
	return *end == '\0' && errno == 0 && *key_p != 0;
}

static int key_judge(const char *path, const struct stat *status)
{
	if (!S_ISREG(status->st_mode))
		return error_set(THOLE_ERR_ACCESS, "the job key file %s is no file: remove it, " KEY_REMEDY, path);
	if (status->st_uid != geteuid())
		return error_set(
			THOLE_ERR_ACCESS,
			"the job key file %s belongs to user %u and not to this process's, %u: remove it, " KEY_REMEDY,
			path, status->st_uid, geteuid());
	if (status->st_mode & (S_IRWXG | S_IRWXO))
		return error_set(THOLE_ERR_ACCESS,
				 "the job key file %s is open to others (mode %04o): remove it and let it be made "
				 "anew, since they may have read it, " KEY_REMEDY,
				 path, status->st_mode & 07777);
	return 0;
}

static int key_read(const char *path, int fd, uint64_t *key_p)
{
	char text[KEY_BYTES_MAX + 2];
	struct stat status;
	ssize_t size;
	int error;

	if (fstat(fd, &status) != 0)
		return error_set(THOLE_ERR_SYSTEM, "the job key file %s: %m", path);
	error = key_judge(path, &status);
	if (error)
		return error;
	do
		size = read(fd, text, sizeof(text) - 1);
	while (size < 0 && errno == EINTR);
	text[size > 0 ? size : 0] = '\0';
	if (size < 0 || size > KEY_BYTES_MAX || !key_parse(text, key_p))
		return error_set(THOLE_ERR_ARGUMENT,
				 "the job key file %s does not hold a number of 64 bits, not 0, decimal or behind "
				 "0x hexadecimal: remove it, and another is made",
				 path);
	return 0;
}

/* ---- Making ---------------------------------------------------------------------------------------- */

/* All folders on the way, for nobody else. */
static void folders_make(const char *path)
{
	char folder[KEY_PATH_MAX];

	snprintf(folder, sizeof(folder), "%s", path);
	for (char *slash = folder + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		(void)mkdir(folder, 0700); /* what cannot be made is found out at the file */
		*slash = '/';
	}
}

/* 0, or -1 and errno. */
static int key_write(const char *path)
{
	char text[KEY_BYTES_MAX];
	uint64_t key = 0;
	int fd, length, error;

	while (key == 0)
		if (getrandom(&key, sizeof(key), 0) != sizeof(key))
			return -1;
	length = snprintf(text, sizeof(text), "0x%016llx\n", (unsigned long long)key);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -1;
	error = fchmod(fd, 0600) == 0 && write(fd, text, (size_t)length) == length && fsync(fd) == 0 ? 0
		: errno                                                                              ? errno
												     : EIO;
	if (close(fd) != 0 && !error)
		error = errno;
	errno = error;
	return error ? -1 : 0;
}

/* Give it its name, unless there is one of that name. A file system without links can do as much by renaming. */
static int key_place(const char *from, const char *to)
{
	if (link(from, to) == 0 || errno == EEXIST)
		return 0;
	if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS && errno != EMLINK)
		return -1;
	return renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0 || errno == EEXIST ? 0 : -1;
}

static int key_make(const char *path)
{
	char beside[KEY_PATH_MAX + KEY_SUFFIX_MAX];
	uint32_t random = 0;
	int error = 0;

	folders_make(path);
	(void)!getrandom(&random, sizeof(random), 0); /* two containers may have the same pid */
	snprintf(beside, sizeof(beside), "%s.%d.%08x", path, (int)getpid(), random);
	if (key_write(beside) != 0 || key_place(beside, path) != 0)
		error = errno;
	(void)unlink(beside);
	errno = error;
	return error ? -1 : 0;
}

int key_load(const char *path, uint64_t *key_p)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), error;
	char remedy[LIMITS_REMEDY_MAX];

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
		if (key_make(path) != 0)
			return error_set(THOLE_ERR_SYSTEM,
					 "the job key file %s cannot be made: %m; make it possible, " KEY_REMEDY, path);
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	}
	if (fd < 0 && limits_caused(errno))
		return error_set(THOLE_ERR_SYSTEM, "the job key file %s cannot be read: %m%s", path,
				 limits_remedy(errno, remedy));
	if (fd < 0)
		return error_set(THOLE_ERR_SYSTEM, "the job key file %s cannot be read: %m; repair that, " KEY_REMEDY,
				 path);
	error = key_read(path, fd, key_p);
	close(fd);
	return error;
}
