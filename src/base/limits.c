/* SPDX-License-Identifier: BSD-3-Clause */
/* limits: see limits.h. */
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/thread.h"

/* Numbers below are the program's: the soft limit when half of them were taken; 0: not yet. Without a lock, which a
 * forked child could find taken for ever: threads that come at once raise the limit twice at worst. */
static rlim_t program;

/* A number beyond the program's, once there are more of them. errno is left as it was. */
static int descriptor_away(int fd)
{
	struct rlimit limit;
	int error = errno, away = -1;

	for (int try = 0; try < 2 && away < 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0; try++) {
		rlim_t first = load_relaxed(&program);

		if (!first) {
			if ((rlim_t)fd < limit.rlim_cur / 2)
				break;
			first = limit.rlim_cur;
			store_relaxed(&program, first);
		}
		if (first < limit.rlim_cur)
			away = fcntl(fd, F_DUPFD_CLOEXEC, (int)first);
		if (away < 0) {
			limit.rlim_cur = limit.rlim_max / 2 > limit.rlim_cur ? 2 * limit.rlim_cur : limit.rlim_max;
			if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
				break;
		}
	}
	errno = error;
	return away;
}

/* Either of the two, of which the second one may be -1. */
static int descriptor_instead(int fd, int away)
{
	if (away < 0)
		return fd;
	close(fd);
	return away;
}

int limits_own(int fd)
{
	int own, error;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	own = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	error = errno;
	close(fd);
	errno = error;
	return own;
}

int limits_descriptor(int fd)
{
	fd = limits_own(fd);
	return descriptor_instead(fd, fd < 0 ? -1 : descriptor_away(fd));
}

int limits_unnoticed(int fd)
{
	int error, away;

	fd = limits_own(fd);
	error = errno;
	away = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FD_SETSIZE);
	errno = error;
	return descriptor_instead(fd, away);
}

bool limits_file(uint64_t size)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur)
		return true;
	errno = EFBIG;
	return false;
}

int limits_allocate(int fd, uint64_t from, uint64_t length)
{
	sigset_t before;
	int status, error;

	thread_signals_block(&before);
	do /* the C library has two signals of its own, which cannot be blocked */
		status = fallocate(fd, 0, (off_t)from, (off_t)length);
	while (status != 0 && errno == EINTR);
	error = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = error;
	return status;
}

bool limits_caused(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

const char *limits_remedy(int error, char text[LIMITS_REMEDY_MAX])
{
	struct rlimit limit;

	text[0] = '\0';
	if (error == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
		snprintf(text, LIMITS_REMEDY_MAX, "; each local peer takes four, and %llu are permitted (ulimit -Hn)",
			 (unsigned long long)limit.rlim_max);
	else if (error == EFBIG && getrlimit(RLIMIT_FSIZE, &limit) == 0)
		snprintf(text, LIMITS_REMEDY_MAX, "; files may have %llu bytes (ulimit -f), shared memory too",
			 (unsigned long long)limit.rlim_cur);
	else if (error == EAGAIN)
		snprintf(text, LIMITS_REMEDY_MAX,
			 "; there are as many processes and threads as are permitted (ulimit -u, pids.max)");
	return text;
}
