/* SPDX-License-Identifier: BSD-3-Clause */
#include "endpoint/report.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

void report_init(struct report *report)
{
	report->magic = REPORT_MAGIC;
	report->counters = COUNTER_COUNT;
}

/* A descriptor of the file; -1: none. A path ends with the descriptor's number at its maker, who hands it on as well:
 * in another user namespace, as of a container, nobody may look into /proc of its maker. */
static int report_find(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	const char *number = strrchr(path, '/');
	char *end = NULL;
	long inherited;

	if (fd >= 0 || !number)
		return fd;
	inherited = strtol(number + 1, &end, 10);
	if (end == number + 1 || *end || inherited <= STDERR_FILENO || inherited > INT_MAX)
		return -1;
	return fcntl((int)inherited, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

/* NULL: there is none, or it is not of this build. */
static struct report *report_map(const char *path)
{
	struct report *report = NULL;
	struct stat status;
	int fd;

	if (!*path)
		return NULL;
	fd = report_find(path);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &status) == 0 && status.st_size == sizeof(*report))
		report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (report == MAP_FAILED)
		return NULL;
	if (report && (report->magic != REPORT_MAGIC || report->counters != COUNTER_COUNT)) {
		munmap(report, sizeof(*report));
		return NULL;
	}
	return report;
}

uint64_t *report_join(const char *path, uint64_t *own, struct report **report_p)
{
	struct report *report = report_map(path);
	uint32_t place;

	*report_p = report;
	if (!report)
		return own;
	place = atomic_fetch_add(&report->joined, 1);
	return place < REPORT_PLACES ? report->places[place] : own;
}

void report_leave(struct report *report)
{
	if (report)
		munmap(report, sizeof(*report));
}

void report_opened(struct report *report)
{
	if (!report)
		return;
	atomic_fetch_add(&report->opened, 1);
	report_tell(report);
}

void report_trouble(struct report *report, const char *sentence)
{
	if (atomic_fetch_add(&report->troubles, 1) != 0)
		return;
	snprintf(report->trouble, sizeof(report->trouble), "%s", sentence);
	atomic_store(&report->troubled, 1);
	report_tell(report);
}

void report_wait(struct report *report, uint32_t news)
{
	syscall(SYS_futex, &report->news, FUTEX_WAIT, news, NULL, NULL, 0);
}

void report_tell(struct report *report)
{
	atomic_fetch_add(&report->news, 1);
	syscall(SYS_futex, &report->news, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void report_failure(const char *path, const char *reason)
{
	struct report *report = report_map(path);

	if (!report)
		return;
	if (atomic_fetch_add(&report->failed, 1) == 0) {
		snprintf(report->reason, sizeof(report->reason), "%s", reason);
		atomic_store(&report->refused, 1);
		report_tell(report);
	}
	report_leave(report);
}
