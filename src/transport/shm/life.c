/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * life: whether a peer's process still has the memory that it had, to be seen without a call of the kernel's.
 *
 * Each process has one page that it gives to its peers: a memfd with a robust mutex, which one of its threads takes
 * and keeps. When that thread ends, or its process, or another program takes their place, the kernel says so in the
 * mutex's word, before the address space is exchanged and before the pid can be another's. So who has read from a
 * process's memory, and then finds the word as it was, knows whose memory that was. The word that door.c would have
 * come along (the cookie) is spared, which is a page more for the kernel to find.
 *
 * It says too little, never too much: where the thread has ended and the process has not, the cookie is asked for as
 * before, and the next thread that tells a peer takes the mutex. Nothing can be known so before memory is written:
 * that is left to doors. Where the C library is another one than glibc nobody knows where the word is, and there is no
 * page.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own_file.h"
#include "base/limits.h"
#include "base/thread.h"
#include "transport/shm/shm.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

enum {
	LIFE_SIZE = 4096,
	/* No peer may write to what this process's C library has in it. */
	LIFE_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL,
};

#define LIFE_MAGIC UINT64_C(0x74686f6c656c6631) /* "tholelf1" */

struct life_announcement {
	uint64_t magic;
};

struct life_page {
	uint64_t word_at; /* of the mutex's word in the page */
	pthread_mutex_t mutex;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sigset_t signals;       /* of who has the lock */
static struct life_page *page; /* while there is a descriptor; it stays where it is: a thread's list goes through it */
/* It outlives all endpoints: by then the program may have closed it, and have a file of its own there. */
static struct own_file page_file = {.fd = -1};

static void life_lock(void)
{
	thread_lock(&lock, &signals);
}

static void life_unlock(void)
{
	thread_unlock(&lock, &signals);
}

/* A child has no such page, and would speak for the dead as long as it kept the descriptor. */
static void life_child(void)
{
	if (own_file_is(&page_file))
		close(page_file.fd);
	page_file.fd = -1;
	life_unlock();
}

__attribute__((constructor)) static void life_begin(void) /* see forked.h */
{
	pthread_atfork(life_lock, life_unlock, life_child);
}

/* ---- This process's -------------------------------------------------------------------------------- */

#ifdef __GLIBC__

static struct life_page *page_make(int fd)
{
	struct life_page *made = MAP_FAILED;
	pthread_mutexattr_t robust;

	if (limits_file(LIFE_SIZE) && ftruncate(fd, LIFE_SIZE) == 0 && limits_allocate(fd, 0, LIFE_SIZE) == 0)
		made = mmap(NULL, LIFE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (made == MAP_FAILED)
		return NULL;
	if (fcntl(fd, F_ADD_SEALS, LIFE_SEALS) != 0) {
		munmap(made, LIFE_SIZE);
		return NULL;
	}
	madvise(made, LIFE_SIZE, MADV_DONTFORK); /* a child's threads hold nothing of it */
	pthread_mutexattr_init(&robust);
	pthread_mutexattr_setpshared(&robust, PTHREAD_PROCESS_SHARED);
	if (pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST) != 0 ||
	    pthread_mutex_init(&made->mutex, &robust) != 0) {
		munmap(made, LIFE_SIZE);
		made = NULL;
	} else {
		made->word_at = offsetof(struct life_page, mutex) + offsetof(pthread_mutex_t, __data.__lock);
	}
	pthread_mutexattr_destroy(&robust);
	return made;
}

/* With the lock. A child of fork has no descriptor, and begins anew. */
static bool page_open(void)
{
	int fd;

	if (own_file_is(&page_file))
		return true;
	fd = limits_descriptor(memfd_create("thole life", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (fd < 0)
		return false;
	page = page_make(fd);
	if (page && own_file_begin(&page_file, fd))
		return true;
	close(fd);
	return false;
}

#else

static bool page_open(void)
{
	return false;
}

#endif

/* Whether the kernel will look at what this thread holds as it ends. In a child that is made by the bare system call it
 * will not, and the page of its parent is not there. */
static bool thread_is_known(void)
{
	void *head = NULL;
	size_t size;

	return syscall(SYS_get_robust_list, 0, &head, &size) == 0 && head;
}

/* A thread has the mutex: this one from now on, or another that lives. */
static bool page_take(void)
{
	int error = pthread_mutex_trylock(&page->mutex);

	if (error == EOWNERDEAD)
		error = pthread_mutex_consistent(&page->mutex);
	return error == 0 || error == EBUSY;
}

void life_tell(struct transport_peer *peer)
{
	const struct life_announcement announcement = {LIFE_MAGIC};
	struct shm_peer *link = shm_link(peer);

	if (link->life_told || !link->connected)
		return;
	life_lock();
	/* Without a page there will be none; where the socket is full the next message tells. */
	link->life_told = !peer->owner->options.one_copy || !thread_is_known() || !page_open() || !page_take() ||
			  connect_send(link->watch_out.fd, &announcement, sizeof(announcement), page_file.fd);
	life_unlock();
}

/* ---- A peer's -------------------------------------------------------------------------------------- */

bool life_arrived(struct transport_peer *peer, const void *message, size_t size, int fd)
{
	struct shm_peer *link = shm_link(peer);
	struct life_announcement announcement;
	const struct life_page *other;
	uint64_t word_at;
	struct stat status;

	if (size != sizeof(announcement))
		return false;
	memcpy(&announcement, message, size);
	if (announcement.magic != LIFE_MAGIC)
		return false;
	if (link->life || peer->gone || !peer->owner->options.one_copy)
		return true;
	if (fd < 0) { /* lost: this process could have no descriptor just then */
		link->unheard |= UNHEARD_LIFE;
		return true;
	}
	/* Where its owner cannot write by the descriptor any more, there will be no hole in it. */
	if (!segment_is_safe(fd) || (fcntl(fd, F_GET_SEALS) & LIFE_SEALS) != LIFE_SEALS || fstat(fd, &status) != 0 ||
	    status.st_size != LIFE_SIZE || limits_allocate(fd, 0, LIFE_SIZE) != 0)
		return true;
	other = mmap(NULL, LIFE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
	if (other == MAP_FAILED) {
		link->unheard |= UNHEARD_LIFE;
		return true;
	}
	madvise((void *)(uintptr_t)other, LIFE_SIZE, MADV_DONTFORK);
	word_at = load_relaxed(&other->word_at); /* it may change, as all that is the peer's */
	if (word_at % sizeof(uint32_t) || word_at > LIFE_SIZE - sizeof(uint32_t)) {
		munmap((void *)(uintptr_t)other, LIFE_SIZE);
		return true;
	}
	link->life_page = other;
	link->life = (const uint32_t *)(const void *)((const char *)other + word_at);
	return true;
}

void life_release(struct shm_peer *link)
{
	if (link->life)
		munmap((void *)(uintptr_t)link->life_page, LIFE_SIZE);
	link->life = NULL;
}

bool life_goes_on(const struct shm_peer *link)
{
	uint32_t word = link->life ? load_acquire(link->life) : FUTEX_OWNER_DIED;

	return (word & FUTEX_TID_MASK) != 0 && !(word & FUTEX_OWNER_DIED);
}
