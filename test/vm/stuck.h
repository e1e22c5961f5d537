/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file of a user's own file system (FUSE), a thread of the test's, that does not answer who reads it.
 */
#ifndef STUCK_H
#define STUCK_H

#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "driver.h"

enum { STUCK = 600 }; /* its pages: more than the kernel has workers of a kind for */

static int stuck_fuse;
static uint64_t stuck_asked; /* by which the last one who reads is answered; 0: nobody did */
static bool stuck_over;      /* who reads hears that it cannot be */

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

/* Its pages, for reading. Once a process. */
static inline void *stuck_map(void)
{
	char name[] = "/tmp/thole-XXXXXX", options[64];
	struct stat state;
	pthread_t thread;
	void *memory;
	int fd = mkstemp(name);

	stuck_fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0 && close(fd) == 0 && stuck_fuse >= 0);
	snprintf(options, sizeof(options), "fd=%d,rootmode=100444,user_id=0,group_id=0", stuck_fuse);
	CHECK(mount("none", name, "fuse", 0, options) == 0);
	CHECK(pthread_create(&thread, NULL, stuck_serve, NULL) == 0);
	CHECK((fd = open(name, O_RDONLY)) >= 0 && umount2(name, MNT_DETACH) == 0);
	CHECK(fstat(fd, &state) == 0 && state.st_size == STUCK * PAGE); /* by which the kernel knows it */
	memory = mmap(NULL, STUCK * PAGE, PROT_READ, MAP_SHARED, fd, 0);
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

#endif
