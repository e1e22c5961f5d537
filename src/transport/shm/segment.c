/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * segment: the memory of one direction. A memfd, so it needs no /dev/shm and leaves nothing behind; sealed against
 * changes of its size, so that its consumer cannot be made to fault. All that will be written is allocated
 * before, so that want of memory is an error here and not a signal later; but beyond what a control group may have
 * it is the end of a process. So all areas of an endpoint together have a bound. A child of fork has none of it: it may
 * not use its parent's endpoints, and the memory would stay as long as the child does.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/limits.h"
#include "transport/shm/shm.h"

enum {
	BULK_AREA_FROM = 256 * 1024, /* a shorter ring has no area for bulk */
	/* So long that its lines have left the sender's own cache for a common one before they are read, where that is
	 * faster than from one core's cache to the other's; the beginning is used again as soon as all is read. */
	BULK_AREA_RINGS = 2,
	WALK_AREA_RINGS = 4, /* the same of streams; it is there where the area for bulk is */
	LONG_RINGS = 1 + BULK_AREA_RINGS + WALK_AREA_RINGS,
	ALL_AREAS = 64,  /* peers that have the others, too: with all that a host has memory grows by their square */
	MEMORY_PART = 4, /* of the host's memory all its ranks have no more than this part */
};
enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, PAGE = 4096 };

#define SEGMENT_SIZE_MAX (SEGMENT_BASE + LONG_RINGS * 16u * 1024 * 1024) /* with option bulk_ring's max */

/* Where an area behind the small one lies in a segment of this size, and how long it is; 0: there is none. Both sides
 * go by this. */
static uint32_t segment_area(uint64_t size, uint32_t which, uint64_t *from_p)
{
	uint64_t all = size - SEGMENT_BASE;
	bool only = all < LONG_RINGS * (uint64_t)BULK_AREA_FROM;
	uint32_t large = (uint32_t)(only ? all : all / LONG_RINGS);

	*from_p = SEGMENT_BASE;
	if (which == AREA_LARGE)
		return large;
	*from_p += which == AREA_BULK ? large : (1 + BULK_AREA_RINGS) * (uint64_t)large;
	return only ? 0 : which == AREA_BULK ? BULK_AREA_RINGS * large : WALK_AREA_RINGS * large;
}

/* Where a ring begins: elsewhere in each process's segments. Who polls many silent rings, all in the same place of
 * their pages, would look at more lines of one set of its cache than that has. Slots begin in pairs. */
static uint32_t segment_first(const struct transport_owner *owner)
{
	return owner->parts.endpoint % (RING_SLOTS / 2) * 2;
}

static bool memfd_is_forbidden(int reason)
{
	return reason == EPERM || reason == EACCES || reason == ENOSYS;
}

bool segment_is_forbidden(void)
{
	int fd = memfd_create("thole", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return memfd_is_forbidden(errno);
	close(fd);
	return false;
}

int segment_create(struct transport_owner *owner, struct ring_out *ring, int *fd_p)
{
	uint64_t large = (owner->options.bulk_ring + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	uint64_t size = SEGMENT_BASE + (large < BULK_AREA_FROM ? large : LONG_RINGS * large);
	int fd = limits_descriptor(memfd_create("thole", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	char remedy[LIMITS_REMEDY_MAX];
	void *memory;
	int error;

	if (fd < 0)
		return error_set(memfd_is_forbidden(errno) ? THOLE_ERR_UNSUPPORTED : THOLE_ERR_SYSTEM,
				 "memfd_create failed: %m%s", limits_remedy(errno, remedy));
	if (!limits_file(size) || ftruncate(fd, (off_t)size) != 0 || limits_allocate(fd, 0, SEGMENT_BASE) != 0 ||
	    fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
		error = error_set(errno == ENOMEM || errno == ENOSPC ? THOLE_ERR_MEMORY : THOLE_ERR_SYSTEM,
				  "cannot make a shared segment of %llu bytes: %m%s", (unsigned long long)size,
				  limits_remedy(errno, remedy));
		goto fail;
	}
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED) {
		error = error_set(THOLE_ERR_MEMORY, "cannot map a shared segment of %llu bytes: %m",
				  (unsigned long long)size);
		goto fail;
	}
	madvise(memory, size, MADV_DONTFORK);
	*ring = (struct ring_out){.segment = memory, .size = size, .fd = fd};
	forked_add(&ring->forked, &ring->fd, 1);
	ring->produced = ring->consumed = ring->reclaimed = segment_first(owner);
	ring->areas[AREA_SMALL] = (struct area){
		.base = ring->segment->small,
		.size = (uint32_t)(SEGMENT_BASE - offsetof(struct segment, small)) & ~63u,
	};
	ring->segment->magic = SEGMENT_MAGIC;
	ring->segment->version = SEGMENT_VERSION;
	ring->segment->fenced = shm_of(owner)->membarrier;
	ring->segment->first = (uint32_t)ring->produced;
	ring->segment->consumed = ring->segment->handled = ring->produced;
	*fd_p = fd;
	return 0;
fail:
	close(fd);
	return error;
}

/* Whether all of a descriptor's file can be read and written whatever its owner does: not one of hugetlbfs, which may
 * have no page for the next touch. */
bool segment_is_safe(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs system;

	return seals >= 0 && (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) == (F_SEAL_SHRINK | F_SEAL_GROW) &&
	       fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

int segment_accept(struct ring_in *ring, int fd)
{
	struct segment *segment;
	struct stat status;
	uint64_t size, from;
	uint32_t first;

	if (!segment_is_safe(fd) || fstat(fd, &status) != 0 ||
	    status.st_size < SEGMENT_BASE + PAGE || status.st_size > SEGMENT_SIZE_MAX)
		return THOLE_ERR_PROTOCOL;
	size = (uint64_t)status.st_size;
	/* Its first pages may be a hole: then they are allocated now, or this is an error and not a fault. */
	if (limits_allocate(fd, 0, SEGMENT_BASE) != 0)
		return THOLE_ERR_MEMORY;
	segment = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (segment == MAP_FAILED)
		return THOLE_ERR_MEMORY;
	madvise(segment, size, MADV_DONTFORK);
	first = load_relaxed(&segment->first);
	if (segment->magic != SEGMENT_MAGIC || segment->version != SEGMENT_VERSION || first >= RING_SLOTS) {
		munmap(segment, size);
		return THOLE_ERR_PROTOCOL;
	}
	ring->segment = segment;
	ring->size = size;
	ring->half = segment_area(size, AREA_LARGE, &from) / 2;
	ring->fenced = load_relaxed(&segment->fenced) != 0;
	ring->next = ring->handled = ring->published = ring->credited = first;
	return 0;
}

/* Whether the area is refused for good, or nobody has let go of one since the bound was met. */
static bool segment_refuses(const struct shm *shm, const struct ring_out *ring, uint32_t which)
{
	return ring->refused[which] && (ring->bounded[which] == 0 || ring->bounded[which] == shm->releases + 1);
}

/* All that there is of it is allocated, or never will be. */
static bool segment_is_whole(const struct ring_out *ring)
{
	uint64_t from;

	for (uint32_t i = AREA_LARGE; i <= AREA_WALK; i++)
		if (!ring->areas[i].size && (!ring->refused[i] || ring->bounded[i]) &&
		    segment_area(ring->size, i, &from) > 0)
			return false;
	return true;
}

static void segment_close(struct ring_out *ring)
{
	forked_remove(&ring->forked);
	ring->forked = (struct forked){0};
	forked_close(&ring->fd);
}

/* How long all areas of an endpoint may be. The host has as many ranks as its launcher tells, or more, where more have
 * been heard of. */
static uint64_t areas_max(const struct transport_owner *owner)
{
	const struct shm *shm = owner->state[TRANSPORT_SHM];
	const struct options *options = &owner->options;
	uint64_t all = (ALL_AREAS * (1 + BULK_AREA_RINGS) + WALKS_MAX * WALK_AREA_RINGS) * options->bulk_ring, part;
	uint64_t ranks = shm->in_count + 1u;

	if (options->bulk_rings_max > 0)
		return options->bulk_rings_max;
	if (ranks < options->local_ranks)
		ranks = options->local_ranks;
	part = shm->memory / MEMORY_PART / ranks;
	return shm->memory > 0 && part < all ? part : all;
}

void segment_enlarge(struct transport_owner *owner, struct ring_out *ring, uint32_t which)
{
	struct shm *shm = shm_of(owner);
	uint64_t from;
	uint32_t size = segment_area(ring->size, which, &from);

	if (ring->areas[which].size || segment_refuses(shm, ring, which) || !size)
		return;
	ring->bounded[which] = shm->area_bytes + size > areas_max(owner) ? shm->releases + 1 : 0;
	ring->refused[which] = ring->bounded[which] || limits_allocate(ring->fd, from, size) != 0;
	if (ring->refused[which]) {
		transport_count(owner, COUNTER_LARGE_AREA_REFUSED);
	} else {
		if (which == AREA_LARGE)
			transport_count(owner, COUNTER_LARGE_AREAS);
		shm->area_bytes += size;
		shm->walks += which == AREA_WALK;
		ring->areas[which] = (struct area){.base = (char *)ring->segment + from, .size = size};
#ifdef MADV_POPULATE_WRITE
		/* All faults at once: its first lap is what is learnt from first. It may begin so far within a page. */
		from %= (uint64_t)getpagesize();
		madvise(ring->areas[which].base - from, from + size, MADV_POPULATE_WRITE);
#endif
	}
	if (segment_is_whole(ring))
		segment_close(ring);
}

void segment_withdraw(struct ring_out *ring)
{
	if (!ring->segment)
		return;
	store_relaxed(&ring->segment->withdrawn, 1);
	fence_full(); /* pairs with the one in fetch_is_void: who does not see it has read what the RTS offered */
}

void segment_release_out(struct transport_owner *owner, struct ring_out *ring)
{
	struct shm *shm = shm_of(owner);

	if (!ring->segment)
		return;
	for (uint32_t i = AREA_LARGE; i <= AREA_WALK; i++) {
		shm->area_bytes -= ring->areas[i].size;
		shm->releases += ring->areas[i].size > 0;
	}
	shm->walks -= ring->areas[AREA_WALK].size > 0;
	munmap(ring->segment, ring->size);
	segment_close(ring);
	ring->segment = NULL;
}

void segment_release_in(struct ring_in *ring)
{
	if (ring->segment)
		munmap(ring->segment, ring->size);
	ring->segment = NULL;
}
