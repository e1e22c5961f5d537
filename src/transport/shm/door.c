/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * door: how a process that reaches into another knows whose memory it is in.
 *
 * A pid is a name, and names are given again: its process may have run another program in its place (exec), or may
 * have ended and another begun. Then the same address is somebody else's data. So there is a page that only one
 * address space has: it is not inherited by fork and gone with exec, and it lies at a random address where nothing
 * else is put. The kernel looks a pid up once a call and copies a call's segments in order, ending at the first that
 * is not there. So a call that begins with a word of that page proves for all that follows in it:
 *   reading  the cookie comes along. If it is the one that the peer told, so is the rest from the peer.
 *   writing  the sender's number goes to the peer's door first. If there is no such page, nothing else is written.
 *
 * The door is the receiver's, one for each peer, and can be shut: a sender that has claimed a block and does not come
 * to writing it (it is stopped, say) will not write any more. It is opened again once nobody stands before it, since
 * who was late has perhaps but waited for a core. One that is inside says so by two numbers that differ;
 * the kernel makes them equal as it leaves, whether or not the sender's program goes on. The second is in a page of
 * its own, which is never shut. These pages are two mappings from the beginning: where a process has as many as it may,
 * there is no door, and none that could not be shut.
 */
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/shm/shm.h"

/* Half of user space where neither the kernel puts programs, heaps, libraries and stacks of its own accord nor
 * sanitizers their shadows: 2^33 pages. A machine with less space ignores the wish, and the kernel's own choice is
 * random too. */
#define PLACE_BASE UINT64_C(0x200000000000)
#define PLACE_MASK (PLACE_BASE - 4096)

/* After a door was shut, the kernel has written a sender's first word or will not: it is a step away, for a thread that
 * has a processor (docs/SECURITY.md). */
enum { SHUT_NS = 100000000 };

/* Whoever ends a region waits so long for one that is late, and exchanges memory that is mapped. So who is late again
 * finds the door shut for a while, which doubles. */
enum { AGAIN_NS = 1000000000, AGAIN_DOUBLINGS = 6 };

static void *pages_make(size_t size)
{
	uint64_t random = 0;
	void *page;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return NULL;
	page = mmap((void *)(uintptr_t)(PLACE_BASE + (random & PLACE_MASK)), size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return NULL;
	madvise(page, size, MADV_DONTFORK);
	return page;
}

static size_t page_size(void)
{
	return (size_t)getpagesize();
}

void *door_page(void)
{
	return pages_make(page_size());
}

void door_page_free(void *page)
{
	if (page)
		munmap(page, page_size());
}

uint64_t door_way_out(uint64_t way_in)
{
	return way_in + page_size();
}

static uint64_t *way_out(uint64_t *way_in)
{
	return (uint64_t *)(uintptr_t)door_way_out((uintptr_t)way_in);
}

static struct door *door_make(void)
{
	char *pages = pages_make(2 * page_size());

	/* Whatever differs keeps the kernel from making one mapping of both. */
	if (pages && madvise(pages, page_size(), MADV_DONTDUMP) != 0) {
		munmap(pages, 2 * page_size());
		pages = NULL;
	}
	return (struct door *)pages;
}

/* For how long it stays shut at least. */
static uint64_t shut_for_ns(const struct shm_peer *link)
{
	unsigned again = link->shut_times - 1u;

	return again == 0 ? 0 : (uint64_t)AGAIN_NS << (again - 1 < AGAIN_DOUBLINGS ? again - 1 : AGAIN_DOUBLINGS);
}

bool door_lets_in(struct shm_peer *link)
{
	if (!link->shut_ns)
		return true;
	if (clock_now_ns() - link->shut_ns < shut_for_ns(link) || shm_access_writes(link) || link->offers_used ||
	    mprotect(link->door, page_size(), PROT_READ | PROT_WRITE) != 0)
		return false;
	link->shut_ns = link->leave_ns = 0;
	link->let_in = false;
	return true;
}

uint64_t door_open(struct shm_peer *link, int index)
{
	uint64_t *way_in;

	if (!door_lets_in(link))
		return 0; /* its page cannot be written */
	if (!link->door)
		link->door = door_make();
	if (!link->door)
		return 0;
	way_in = &link->door->ways[index];
	*way_in = *way_out(way_in) = 0;
	return (uintptr_t)way_in;
}

uint64_t door_way_in(const struct shm_peer *link, int index)
{
	return (uintptr_t)&link->door->ways[index];
}

void door_shut(struct shm_peer *link, uint64_t now_ns)
{
	if (link->shut_ns)
		return;
	link->shut_ns = now_ns;
	if (link->shut_times < UINT8_MAX)
		link->shut_times++;
	mprotect(link->door, page_size(), PROT_READ);
}

bool door_is_passed(const struct shm_peer *link, int index)
{
	uint64_t *way_in = &link->door->ways[index];

	return load_acquire(way_in) != load_acquire(way_out(way_in));
}

bool door_is_left(const struct shm_peer *link, int index, uint64_t now_ns)
{
	return link->shut_ns && now_ns - link->shut_ns >= SHUT_NS && !door_is_passed(link, index);
}

/* One that is shut stays for good: who stands before it must find nothing else at its address, where there is
 * little space. */
void door_close(struct shm_peer *link)
{
	if (link->door && !link->shut_ns)
		munmap(link->door, 2 * page_size());
	link->door = NULL;
}
