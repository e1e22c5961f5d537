/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file of a user's own file system (FUSE), a thread of the test's, that does not answer who reads it.
 */
#ifndef STUCK_H
#define STUCK_H

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "driver.h"

enum { STUCK = 600 }; /* its pages: more than the kernel has workers of a kind for */

static int stuck_fuse;
static uint64_t stuck_asked; /* by which the last one who reads is answered; 0: nobody did */
static bool stuck_over;      /* who reads hears that it cannot be */
static bool stuck_direct;    /* who opens it now reads past the kernel's pages */

/* Tells of a file that is the root of its file system, and never what is in it. */
static void *stuck_serve(void *argument)
{
	union {
		struct fuse_in_header head;
		char bytes[FUSE_MIN_READ_BUFFER];
	} asked;

	(void)argument;
	while (read(stuck_fuse, &asked, sizeof(asked)) > 0) {
		struct {
			struct fuse_out_header head;
			union {
				struct fuse_init_out init;
				struct fuse_attr_out attr;
				struct fuse_open_out open;
			};
		} said = {.head = {.len = sizeof(said.head), .unique = asked.head.unique}};

		switch (asked.head.opcode) {
		case FUSE_INIT:
			said.init = (struct fuse_init_out){.major = FUSE_KERNEL_VERSION,
							   .minor = FUSE_KERNEL_MINOR_VERSION};
			said.head.len += sizeof(said.init);
			break;
		case FUSE_GETATTR:
			said.attr.attr = (struct fuse_attr){
				.ino = FUSE_ROOT_ID, .mode = S_IFREG | 0444, .nlink = 1, .size = STUCK * PAGE};
			said.head.len += sizeof(said.attr);
			break;
		case FUSE_OPEN:
			said.open.open_flags = __atomic_load_n(&stuck_direct, __ATOMIC_ACQUIRE) ? FOPEN_DIRECT_IO : 0;
			said.head.len += sizeof(said.open);
			break;
		case FUSE_READ:
			said.head.error = -EIO;
			__atomic_store_n(&stuck_asked, asked.head.unique, __ATOMIC_RELEASE);
			if (!__atomic_load_n(&stuck_over, __ATOMIC_ACQUIRE))
				continue;
			break;
		default:
			said.head.error = -ENOSYS;
		}
		CHECK(write(stuck_fuse, &said, said.head.len) == (ssize_t)said.head.len);
	}
	return NULL;
}

/* It, for reading. Once a process. */
static inline int stuck_open(void)
{
	char name[] = "/tmp/thole-XXXXXX", options[64];
	struct stat state;
	pthread_t thread;
	int fd = mkstemp(name);

	stuck_fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0 && close(fd) == 0 && stuck_fuse >= 0);
	snprintf(options, sizeof(options), "fd=%d,rootmode=100444,user_id=0,group_id=0", stuck_fuse);
	CHECK(mount("none", name, "fuse", 0, options) == 0);
	CHECK(pthread_create(&thread, NULL, stuck_serve, NULL) == 0);
	CHECK((fd = open(name, O_RDONLY)) >= 0 && umount2(name, MNT_DETACH) == 0);
	CHECK(fstat(fd, &state) == 0 && state.st_size == STUCK * (off_t)PAGE); /* by which the kernel knows it */
	return fd;
}

/* Its pages. */
static inline void *stuck_map(void)
{
	int fd = stuck_open();
	void *memory = mmap(NULL, STUCK * PAGE, PROT_READ, MAP_SHARED, fd, 0);

	CHECK(memory != MAP_FAILED && close(fd) == 0); /* while somebody answers that */
	return memory;
}

/* Whoever reads it now is known; then what is asked is refused, and whatever is asked later. */
static inline void stuck_wait(void)
{
	while (!__atomic_load_n(&stuck_asked, __ATOMIC_ACQUIRE))
		usleep(1000);
}

static inline void stuck_refuse(void)
{
	struct fuse_out_header said = {.len = sizeof(said), .error = -EIO, .unique = stuck_asked};

	__atomic_store_n(&stuck_over, true, __ATOMIC_RELEASE);
	CHECK(write(stuck_fuse, &said, sizeof(said)) == sizeof(said));
}

/* ---- A lock of a process's memory that nobody gives back ----------------------------------------- */

/* Another process, which touches none of its memory anew while this is held. */
struct stuck_lock {
	int file, direct; /* the same file; direct: read past the kernel's pages */
	int mine, other;  /* ends of a pipe both ways */
	pthread_t reader, holder;
	bool ready; /* the holder may take it */
};

/* In the process with the file: before the fork of the other one. */
static inline struct stuck_lock stuck_lock_new(void)
{
	struct stuck_lock lock = {.file = stuck_open()};
	char name[64];
	int ends[2];

	__atomic_store_n(&stuck_direct, true, __ATOMIC_RELEASE);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", lock.file);
	lock.direct = open(name, O_RDONLY);
	CHECK(lock.direct >= 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	lock.mine = ends[0];
	lock.other = ends[1];
	return lock;
}

static inline void stuck_say(int end)
{
	CHECK(write(end, "", 1) == 1);
}

static inline void stuck_hear(int end)
{
	struct pollfd said = {.fd = end, .events = POLLIN};
	char byte;

	CHECK(poll(&said, 1, 60000) == 1 && read(end, &byte, 1) == 1);
}

/* Has a page of the file locked. */
static void *stuck_lock_read(void *argument)
{
	const struct stuck_lock *lock = argument;
	char byte;

	CHECK(pread(lock->file, &byte, 1, 0) == -1 && errno == EIO);
	return NULL;
}

/* Waits for that page with the lock of the process's memory held: who maps what is read past the kernel's pages has
 * these dropped. */
static void *stuck_lock_hold(void *argument)
{
	const struct stuck_lock *lock = argument;
	pid_t thread = gettid();

	while (!__atomic_load_n(&lock->ready, __ATOMIC_ACQUIRE))
		usleep(1000);
	CHECK(write(lock->other, &thread, sizeof(thread)) == sizeof(thread));
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, lock->direct, 0) != MAP_FAILED);
	return NULL;
}

/* In the other process: from when this returns until the reader is refused. */
static inline void stuck_lock_take(struct stuck_lock *lock)
{
	close(stuck_fuse); /* the file's process has it */
	CHECK(mlockall(MCL_CURRENT) == 0);
	CHECK(pthread_create(&lock->reader, NULL, stuck_lock_read, lock) == 0);
	CHECK(pthread_create(&lock->holder, NULL, stuck_lock_hold, lock) == 0);
	stuck_hear(lock->other);
	__atomic_store_n(&lock->ready, true, __ATOMIC_RELEASE);
	stuck_hear(lock->other);
}

static inline void stuck_lock_over(const struct stuck_lock *lock)
{
	CHECK(pthread_join(lock->reader, NULL) == 0 && pthread_join(lock->holder, NULL) == 0);
}

/* Until a thread of a process waits, and cannot be woken: at each of many looks, since it may do so for a moment. */
static inline void stuck_asleep(pid_t process, pid_t thread)
{
	unsigned asleep = 0;
	char path[64], state;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)process, (int)thread);
	for (unsigned i = 0; i < 60000 && asleep < 100; i++) {
		FILE *file = fopen(path, "r");

		CHECK(file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1 && fclose(file) == 0);
		asleep = state == 'D' ? asleep + 1 : 0;
		usleep(1000);
	}
	CHECK(asleep == 100);
}

/* In the process with the file: has the other one take it. */
static inline void stuck_lock_give(const struct stuck_lock *lock, pid_t process)
{
	pid_t holder;

	stuck_wait();
	stuck_say(lock->mine);
	CHECK(read(lock->mine, &holder, sizeof(holder)) == sizeof(holder));
	stuck_asleep(process, holder);
	stuck_say(lock->mine);
}

#endif
