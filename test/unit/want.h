/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Want of memory, descriptors or threads: the calls by which a library asks for something, counted, and some of them
 * refused; and what it has of memory. For one file of a test, which wraps all that it says (test/unit/meson.build).
 *
 * Wrapped are the calls of the library and of the test alone; what the C library asks for itself is not refused. Any
 * thread may call them.
 */
#ifndef UNIT_WANT_H
#define UNIT_WANT_H

#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum { BLOCKS = 1 << 16 }; /* of memory, that are known at a time; a power of two */

static pthread_mutex_t want_mutex = PTHREAD_MUTEX_INITIALIZER; /* of `want` while there are threads */

static struct want {
	uint64_t count, first, last; /* of calls; those that are refused */
	bool off;                    /* for now nothing is */
	void *blocks[BLOCKS];        /* that are not free, by a hash of their address */
	uint32_t live;
	const char *what;            /* was refused first */
} want;

static bool refused(const char *what)
{
	bool refuse;

	pthread_mutex_lock(&want_mutex);
	refuse = !want.off && ++want.count >= want.first && want.count <= want.last;
	if (refuse && want.count == want.first)
		want.what = what;
	pthread_mutex_unlock(&want_mutex);
	return refuse;
}

static uint32_t block_place(const void *block)
{
	uint32_t at = (uint32_t)((uintptr_t)block * UINT64_C(0x9e3779b97f4a7c15) >> 48);

	while (want.blocks[at] && want.blocks[at] != block)
		at = (at + 1) % BLOCKS;
	return at;
}

static void *block_note(void *block)
{
	if (block) {
		pthread_mutex_lock(&want_mutex);
		assert_true(want.live < BLOCKS / 2);
		want.blocks[block_place(block)] = block;
		want.live++;
		pthread_mutex_unlock(&want_mutex);
	}
	return block;
}

/* Those behind it in its run move up. */
static void block_leave(void *block)
{
	uint32_t at = block_place(block);

	if (!block || !want.blocks[at])
		return;
	want.blocks[at] = NULL;
	want.live--;
	for (at = (at + 1) % BLOCKS; want.blocks[at]; at = (at + 1) % BLOCKS) {
		void *other = want.blocks[at];

		want.blocks[at] = NULL;
		want.blocks[block_place(other)] = other;
	}
}

static void block_forget(void *block)
{
	pthread_mutex_lock(&want_mutex);
	block_leave(block);
	pthread_mutex_unlock(&want_mutex);
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__real_memalign(size_t alignment, size_t size);
void *__wrap_memalign(size_t alignment, size_t size);
void __real_free(void *block);
void __wrap_free(void *block);
void *__real_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset);
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
int __real_ftruncate(int fd, off_t size);
int __wrap_ftruncate(int fd, off_t size);
int __real_fallocate(int fd, int mode, off_t from, off_t size);
int __wrap_fallocate(int fd, int mode, off_t from, off_t size);
int __real_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol);
int __real_bind(int fd, const struct sockaddr *name, socklen_t size);
int __wrap_bind(int fd, const struct sockaddr *name, socklen_t size);
int __real_accept4(int fd, struct sockaddr *name, socklen_t *size, int flags);
int __wrap_accept4(int fd, struct sockaddr *name, socklen_t *size, int flags);
int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
int __real_epoll_create1(int flags);
int __wrap_epoll_create1(int flags);
int __real_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);
int __real_eventfd(unsigned value, int flags);
int __wrap_eventfd(unsigned value, int flags);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

static int refused_with(const char *what, int error)
{
	if (!refused(what))
		return 0;
	errno = error;
	return error;
}

void *__wrap_malloc(size_t size)
{
	return refused_with("malloc", ENOMEM) ? NULL : block_note(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
	return refused_with("calloc", ENOMEM) ? NULL : block_note(__real_calloc(count, size));
}

void *__wrap_realloc(void *old, size_t size)
{
	void *block;

	if (refused_with("realloc", ENOMEM))
		return NULL;
	block_forget(old);
	block = __real_realloc(old, size);
	block_note(block ? block : old);
	return block;
}

void *__wrap_memalign(size_t alignment, size_t size)
{
	return refused_with("memalign", ENOMEM) ? NULL : block_note(__real_memalign(alignment, size));
}

void __wrap_free(void *block)
{
	block_forget(block);
	__real_free(block);
}

void *__wrap_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
	return refused_with("mmap", ENOMEM) ? MAP_FAILED : __real_mmap(at, length, protection, flags, fd, offset);
}

int __wrap_memfd_create(const char *name, unsigned flags)
{
	return refused_with("memfd_create", EMFILE) ? -1 : __real_memfd_create(name, flags);
}

int __wrap_ftruncate(int fd, off_t size)
{
	return refused_with("ftruncate", ENOMEM) ? -1 : __real_ftruncate(fd, size);
}

int __wrap_fallocate(int fd, int mode, off_t from, off_t size)
{
	return refused_with("fallocate", ENOSPC) ? -1 : __real_fallocate(fd, mode, from, size);
}

int __wrap_socket(int family, int type, int protocol)
{
	return refused_with("socket", EMFILE) ? -1 : __real_socket(family, type, protocol);
}

int __wrap_bind(int fd, const struct sockaddr *name, socklen_t size)
{
	return refused_with("bind", ENOMEM) ? -1 : __real_bind(fd, name, size);
}

int __wrap_accept4(int fd, struct sockaddr *name, socklen_t *size, int flags)
{
	return refused_with("accept4", EMFILE) ? -1 : __real_accept4(fd, name, size, flags);
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
	return refused_with("setsockopt", ENOMEM) ? -1 : __real_setsockopt(fd, level, name, value, size);
}

int __wrap_epoll_create1(int flags)
{
	return refused_with("epoll_create1", EMFILE) ? -1 : __real_epoll_create1(flags);
}

int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event)
{
	if (what != EPOLL_CTL_DEL && refused_with("epoll_ctl", ENOSPC))
		return -1;
	return __real_epoll_ctl(epoll, what, fd, event);
}

int __wrap_eventfd(unsigned value, int flags)
{
	return refused_with("eventfd", EMFILE) ? -1 : __real_eventfd(value, flags);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	int error = refused_with("pthread_create", EAGAIN);

	return error ? error : __real_pthread_create(thread, attr, run, arg);
}

#endif
