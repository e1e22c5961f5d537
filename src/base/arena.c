/* SPDX-License-Identifier: BSD-3-Clause */
/* arena: see arena.h. Which parts of an arena's address space are used is in its extents. */
#include "base/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/children.h"
#include "base/extents.h"
#include "base/host.h"
#include "base/limits.h"
#include "base/lock.h"
#include "base/maps.h"
#include "base/thread.h"

enum {
	SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
	KEPT_MAX = 64 << 20,         /* bytes that are free and still have their pages, as the C library keeps some */
	KEPT_BLOCK_MAX = 32 << 20,   /* of one block; longer ones go back to the kernel at once */
	TRIES = 16,                  /* addresses tried for an arena */
};

#define PLACE_BASE (UINT64_C(1) << ARENA_PLACE_BITS) /* see arena_is_near */
#define PLACE_ALIGNMENT (UINT64_C(1) << 30)

struct arena {
	char *base;            /* NULL: this place is free */
	uint64_t size;
	uint64_t number;
	struct own_file file;  /* none in a child, which may not take pages from its parent, and where it is lost */
	bool retired;          /* its memory is this process's alone */
	bool unlisted;         /* more blocks are altered than its list has, and some of them are not in there */
	bool huge;             /* to be asked for huge pages, as the C library's memory has them by itself */
	struct arena_header *header; /* a mapping of its own, which stays shared */
	struct extents extents; /* all below their top is mapped; the first one is the header's */
	uint32_t blocks;       /* used extents but that */
	struct altered altered; /* as in the header, which peers may write to */
};

/* The lock is who has it, which one store says: a handler that has interrupted him and forks cannot wait for it. */
static pthread_t holder;
static pthread_t forker;      /* who forks now, and has the lock whatever he calls: a handler may allocate */
static unsigned forks_within; /* forks that handlers make amid his */
static struct arena arenas[ARENAS_MAX];
static struct arena *current; /* where new blocks come from */
static uint64_t numbers;
static int cancellable;       /* of who has the lock: whether he was, before */
static bool handled;          /* fork's handlers are registered */
static bool refused;          /* there was no arena to be had; not asked for again */

/* Only this thread can have made it `forker`. */
static bool arena_forks(void)
{
	return load_relaxed(&forker) == pthread_self();
}

/* Nobody is cancelled meanwhile: fallocate and close would be points of that, and the lock be taken for ever. */
static void arena_lock(void)
{
	pthread_t nobody = 0;
	int state;

	if (arena_forks())
		return;
	state = thread_keep();
	for (unsigned times = 0; !compare_swap(&holder, &nobody, pthread_self()); times++) { /* partner: arena_unlock */
		lock_pause(times);
		nobody = 0;
	}
	cancellable = state;
}

static void arena_unlock(void)
{
	int state = cancellable;

	if (arena_forks())
		return;
	store_release(&holder, 0); /* partner: arena_lock */
	thread_release(state);
}

/* ---- Pages ------------------------------------------------------------------------------------------ */

/* The kernel's own, where heap.c has another: who hears of that may allocate. */
static bool pages_advise(void *address, size_t length, int advice)
{
	return syscall(SYS_madvise, address, length, advice) == 0;
}

/* Nothing new comes from here, nobody is told of it, and freed extents are EXTENT_NONE. */
static bool arena_has_ended(const struct arena *arena)
{
	return arena->retired || arena->unlisted;
}

static char *arena_address(const struct arena *arena, uint32_t at)
{
	return arena->base + (uint64_t)at * ARENA_GRANULE;
}

/* Whether the arena has its memfd. Who has closed that once would do so again: no other arena is made. What is in this
 * one stays until it is freed. */
static bool arena_has_file(struct arena *arena)
{
	if (own_file_is(&arena->file))
		return true;
	if (arena->file.fd >= 0 && arena == current) {
		current = NULL;
		refused = true;
	}
	arena->file.fd = -1;
	return false;
}

/* Give pages back. Returns whether it is done, so that zeros are there. */
static bool memfd_punch(const struct own_file *file, uint64_t from, uint64_t length)
{
	return fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)length) == 0;
}

static bool arena_punch(struct arena *arena, uint32_t at, uint32_t length)
{
	return arena_has_file(arena) && memfd_punch(&arena->file, (uint64_t)at * ARENA_GRANULE,
						    (uint64_t)length * ARENA_GRANULE);
}

/* Whether an extent, of which so much was a block till now, goes back to the kernel. */
static bool extent_is_long(const struct arena *arena, const struct extent *extent, uint32_t freed)
{
	return (uint64_t)freed * ARENA_GRANULE > KEPT_BLOCK_MAX ||
	       (arena->extents.kept + extent->length) * (uint64_t)ARENA_GRANULE > KEPT_MAX;
}

/* So much of it is mapped from now on. Who maps it, too, sees that before anything that comes of it. */
static void arena_end_at(struct arena *arena, uint32_t top)
{
	arena->extents.top = top;
	store_relaxed(&arena->header->end, (uint64_t)top * ARENA_GRANULE);
}

/* Put a free extent among the others, with its free neighbours; give its pages back if it is long or there are many. */
static void arena_give(struct arena *arena, uint32_t at, uint32_t length, enum extent_kind kind)
{
	struct extent extent = extents_join(&arena->extents, (struct extent){at, length, kind});

	if (extent.kind == EXTENT_KEPT && extent_is_long(arena, &extent, length) &&
	    arena_punch(arena, extent.at, extent.length))
		extent.kind = EXTENT_CLEAN;
	if (extent.kind == EXTENT_CLEAN && extent.at + extent.length == arena->extents.top) {
		arena_end_at(arena, extent.at);
		munmap(arena_address(arena, extent.at), (uint64_t)extent.length * ARENA_GRANULE);
	} else {
		extents_add(&arena->extents, extent);
	}
}

/* ---- An arena -------------------------------------------------------------------------------------- */

static bool limit_is_set(__rlimit_resource_t what)
{
	struct rlimit limit;

	return getrlimit(what, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

/* Whether a file of /proc or /sys has this text. */
static bool system_says(const char *path, const char *text)
{
	char line[128];

	return host_read(path, line, sizeof(line)) > 0 && strstr(line, text);
}

bool arena_may_signal(void)
{
	return system_says("/proc/sys/vm/overcommit_memory", "2");
}

/* Where limits count shared memory otherwise than the C library's, there is none: a file that may not be so long ends
 * in a signal, private memory that may not be had is no limit here, and strict accounting would turn want of memory
 * from NULL into a signal later. */
static bool arena_is_allowed(void)
{
	return !limit_is_set(RLIMIT_FSIZE) && !limit_is_set(RLIMIT_DATA) && !arena_may_signal();
}

static uint64_t memory_bytes(void)
{
	static uint64_t bytes; /* the same for whoever comes first */
	long pages;

	if (!load_relaxed(&bytes)) {
		pages = sysconf(_SC_PHYS_PAGES);
		store_relaxed(&bytes, pages > 0 ? (uint64_t)pages * (uint64_t)getpagesize() : 0);
	}
	return load_relaxed(&bytes);
}

static uint64_t arena_size(void)
{
	uint64_t size = UINT64_C(1) << 32;

	while (size < 2 * memory_bytes() && size < ARENA_SIZE_MAX)
		size *= 2;
	return size;
}

/* Map the granules [from, to), which lie behind the others. */
static bool arena_map(struct arena *arena, uint32_t from, uint32_t to)
{
	char *address = arena_address(arena, from);
	size_t length = (size_t)(to - from) * ARENA_GRANULE;
	void *memory;

	if (!arena_has_file(arena))
		return false;
	/* A wish: where something else is, the kernel chooses another place, and so does the thread sanitizer. */
	memory = mmap(address, length, PROT_READ | PROT_WRITE, MAP_SHARED, arena->file.fd,
		      (off_t)from * ARENA_GRANULE);
	if (memory == address && pages_advise(memory, length, MADV_DONTFORK)) {
		if (arena->huge)
			pages_advise(memory, length, MADV_HUGEPAGE);
		return true;
	}
	if (memory != MAP_FAILED)
		munmap(memory, length);
	return false;
}

static bool arena_memfd(struct arena *arena)
{
	int fd = limits_unnoticed(memfd_create("thole-heap", MFD_CLOEXEC | MFD_ALLOW_SEALING));

	if (fd < 0)
		return false;
	if (ftruncate(fd, (off_t)arena->size) == 0 && fcntl(fd, F_ADD_SEALS, SEALS) == 0 &&
	    own_file_begin(&arena->file, fd))
		return true;
	close(fd);
	return false;
}

static size_t tags_bytes(const struct arena *arena)
{
	return arena->size / ARENA_GRANULE * sizeof(*arena->extents.tags);
}

static void arena_drop(struct arena *arena)
{
	/* Of one that has ended all behind the first granule is unmapped, and may be others' again. */
	if (arena->base && arena->extents.top > 0)
		munmap(arena->base, (arena_has_ended(arena) ? 1 : (size_t)arena->extents.top) * ARENA_GRANULE);
	if (arena->header)
		munmap(arena->header, (size_t)getpagesize());
	if (arena->extents.tags)
		munmap(arena->extents.tags, tags_bytes(arena));
	if (own_file_is(&arena->file))
		close(arena->file.fd);
	*arena = (struct arena){.file.fd = -1};
}

/* Whether some of it is another arena's address space, if only to grow into: an address must tell its arena. */
static bool arena_overlaps(const struct arena *arena)
{
	uintptr_t start = (uintptr_t)arena->base;

	for (int i = 0; i < ARENAS_MAX; i++) {
		const struct arena *other = &arenas[i];

		if (other != arena && other->base && start < (uintptr_t)other->base + other->size &&
		    (uintptr_t)other->base < start + arena->size)
			return true;
	}
	return false;
}

/* Find it a place in the address space: nothing is mapped there but the first granule, which tells whether it is free;
 * a later one that is not only ends its growing. */
static bool arena_settle(struct arena *arena)
{
	for (int i = 0; i < TRIES; i++) {
		uint64_t random;

		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			return false;
		random %= (PLACE_BASE - arena->size) / PLACE_ALIGNMENT;
		arena->base = (char *)(uintptr_t)(PLACE_BASE + random * PLACE_ALIGNMENT);
		if (!arena_overlaps(arena) && arena_map(arena, 0, 1))
			return true;
	}
	arena->base = NULL;
	return false;
}

static bool arena_make(struct arena *arena)
{
	void *tags;

	*arena = (struct arena){.size = arena_size(), .number = ++numbers, .file.fd = -1,
				.huge = system_says("/sys/kernel/mm/transparent_hugepage/enabled", "[always]")};
	if (!arena_memfd(arena))
		goto fail;
	tags = mmap(NULL, tags_bytes(arena), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		    -1, 0);
	if (tags == MAP_FAILED)
		goto fail;
	extents_begin(&arena->extents, tags);
	arena->header = mmap(NULL, (size_t)getpagesize(), PROT_READ | PROT_WRITE, MAP_SHARED, arena->file.fd, 0);
	if (arena->header == MAP_FAILED) {
		arena->header = NULL;
		goto fail;
	}
	pages_advise(arena->header, (size_t)getpagesize(), MADV_DONTFORK);
	if (!arena_settle(arena))
		goto fail;
	*arena->header = (struct arena_header){.magic = ARENA_MAGIC, .version = ARENA_VERSION, .end = ARENA_GRANULE};
	return true;
fail:
	arena_drop(arena);
	return false;
}

/* The arena that an address is in, as far as it is mapped: behind that may be what others have mapped. *at_p: its
 * granule. */
static struct arena *arena_of(const void *address, uint32_t *at_p)
{
	if (!arena_is_near(address))
		return NULL;
	for (int i = 0; i < ARENAS_MAX; i++) {
		uint64_t offset = (uintptr_t)address - (uintptr_t)arenas[i].base;

		if (arenas[i].base && offset < (uint64_t)arenas[i].extents.top * ARENA_GRANULE) {
			*at_p = (uint32_t)(offset / ARENA_GRANULE);
			return &arenas[i];
		}
	}
	return NULL;
}

/* ---- Fork, and the end of sharing ------------------------------------------------------------------ */

/* A free extent of an arena that has ended: its address space is given back, and its pages where no child has them. */
static void ended_give(struct arena *arena, uint32_t at)
{
	uint32_t length = extents_length(&arena->extents, at);

	munmap(arena_address(arena, at), (size_t)length * ARENA_GRANULE);
	extents_mark(&arena->extents, at, length, EXTENT_NONE);
	if (!arena->retired || children_are_gone())
		arena_punch(arena, at, length);
}

/* What is visited of an arena. */
struct arena_visit {
	const struct arena *arena;
	bool done;
};

/* Whether it shows the memfd where the arena has it: not what the program has mapped over a part of a block. */
static bool mapping_is_of(const struct arena *arena, const struct mapping *mapping)
{
	return mapping->inode == arena->file.inode && mapping->device == arena->file.device &&
	       mapping->offset == mapping->begin - (uintptr_t)arena->base;
}

/* The first part of [begin, end) that is of an altered block, or goes on behind it; nothing, at the end: none is. */
static struct mapping arena_altered(const struct arena *arena, uintptr_t begin, uintptr_t end)
{
	uint64_t at = (begin - (uintptr_t)arena->base) / ARENA_GRANULE;
	uint64_t behind = (end - (uintptr_t)arena->base + ARENA_GRANULE - 1) / ARENA_GRANULE;
	struct altered_part part = altered_first(&arena->altered, at, behind);
	struct mapping first = {.begin = end, .end = end};

	if (part.begin < part.end) {
		first.begin = (uintptr_t)arena_address(arena, (uint32_t)part.begin);
		first.end = (uintptr_t)arena_address(arena, (uint32_t)part.end);
		if (first.begin < begin)
			first.begin = begin;
	}
	return first;
}

/* Visit what is mapped in a part of it: what blocks are to a program is not only readable, writable memory. Where the
 * kernel does not tell, blocks that nobody has altered are that, and all others are left out. */
static bool arena_visit(const struct arena *arena, uintptr_t begin, uintptr_t end, mapping_visit visit)
{
	struct mapping part = {.begin = begin, .rights = PROT_READ | PROT_WRITE, .shared = !arena->retired,
			       .device = arena->file.device, .inode = arena->file.inode};
	struct arena_visit result = {arena, false};

	if (maps_walk(begin, end, visit, &result) || arena->unlisted)
		return result.done;
	while (part.begin < end) {
		struct mapping altered = arena_altered(arena, part.begin, end);

		part.end = altered.begin;
		part.offset = part.begin - (uintptr_t)arena->base;
		if (part.begin < part.end)
			visit(&result, &part);
		part.begin = altered.end;
	}
	return result.done;
}

/* Of which little may be touched: the kernel is not asked whether there is memory for all of it. But it counts as data,
 * and the program may have lowered that limit since. */
static bool private_map(int fd, const struct mapping *mapping)
{
	static const int kind = MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE;
	void *address = (void *)mapping->begin, *memory;
	size_t length = mapping->end - mapping->begin;
	struct rlimit limit, most;

	memory = mmap(address, length, mapping->rights, kind, fd, (off_t)mapping->offset);
	if (memory == MAP_FAILED && getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		most = (struct rlimit){limit.rlim_max, limit.rlim_max};
		setrlimit(RLIMIT_DATA, &most);
		memory = mmap(address, length, mapping->rights, kind, fd, (off_t)mapping->offset);
		setrlimit(RLIMIT_DATA, &limit);
	}
	return memory != MAP_FAILED;
}

static bool mapping_drop(const struct mapping *mapping, size_t length)
{
	return pages_advise((void *)mapping->begin, length, MADV_DONTNEED);
}

static void mapping_retire(void *arg, const struct mapping *mapping)
{
	void *address = (void *)mapping->begin;
	size_t length = mapping->end - mapping->begin;
	struct arena_visit *visit = arg;
	bool locked;

	if (!mapping->shared || !mapping_is_of(visit->arena, mapping))
		return;
	locked = !mapping_drop(mapping, (size_t)getpagesize()); /* which loses nothing of a file */
	if (locked)
		munlock(address, length); /* a limit would count it twice */
	if (!private_map(visit->arena->file.fd, mapping))
		return;
	if (visit->arena->huge)
		pages_advise(address, length, MADV_HUGEPAGE);
	if (locked)
		mlock(address, length);
	visit->done = true;
}

/* Give all that is free back. Its blocks are as they were. */
static void arena_end(struct arena *arena)
{
	for (uint32_t at = 1; at < arena->extents.top; at += extents_length(&arena->extents, at))
		if (extents_kind(&arena->extents, at) != EXTENT_USED)
			ended_give(arena, at);
	if (arena == current)
		current = NULL;
	if (arena->blocks == 0)
		arena_drop(arena);
}

/* From here on its memory is this process's alone. Others find that out: whoever wrote before it saw `retired` wrote
 * before the memory was exchanged. */
static bool arena_retire(struct arena *arena)
{
	store_relaxed(&arena->header->retired, 1);
	fence_full(); /* pairs with the one in attach_is_current */
	if (!arena_has_file(arena))
		return false; /* the child goes without */
	if (!arena_visit(arena, (uintptr_t)arena->base, (uintptr_t)arena_address(arena, arena->extents.top),
			 mapping_retire))
		return false; /* likewise */
	arena->retired = true;
	if (!arena->unlisted)
		arena_end(arena);
	return true;
}

/* Give back what was freed in retired arenas while there were children. */
static void retired_review(void)
{
	if (!children_expected() || !children_are_gone())
		return;
	for (int i = 0; i < ARENAS_MAX; i++) {
		const struct extents *extents = &arenas[i].extents;

		for (uint32_t at = 1; arenas[i].retired && at < extents->top; at += extents_length(extents, at))
			if (extents_kind(extents, at) == EXTENT_NONE)
				arena_punch(&arenas[i], at, extents_length(extents, at));
	}
}

/* By a handler that has interrupted this thread amid an allocation nothing is done, as by the bare system call: its
 * child goes without the blocks, and may run another program or end. */
static void arena_fork(void)
{
	bool any = false;

	if (load_relaxed(&holder) == pthread_self()) {
		forks_within += arena_forks();
		return;
	}
	arena_lock();
	store_relaxed(&forker, pthread_self());
	for (int i = 0; i < ARENAS_MAX; i++) {
		struct arena *arena = &arenas[i];

		if (arena->file.fd >= 0 && !arena->retired && (arena->blocks > 0 || arena->extents.kept > 0))
			arena_retire(arena);
		any |= arena->retired;
	}
	if (any)
		children_come();
}

static void arena_forked(void)
{
	if (!arena_forks())
		return;
	if (forks_within > 0) {
		forks_within--;
		return;
	}
	children_came();
	store_relaxed(&forker, 0);
	arena_unlock();
}

static void child_close(struct arena *arena)
{
	if (arena->base && arena_has_file(arena))
		close(arena->file.fd);
	arena->file.fd = -1;
}

/* An arena that is not retired is the parent's alone, and so are headers. Pages of the others are not a child's to
 * give back, and the page that says that there are children stays mapped. If a handler has forked amid an allocation
 * or a fork, that may go on in the child, too, which then reaches nothing of the parent's and has no arenas. */
static void arena_child(void)
{
	bool within = arena_forks() && forks_within > 0, amid = within || !arena_forks();

	forks_within -= within;
	for (int i = 0; i < ARENAS_MAX; i++) {
		child_close(&arenas[i]);
		if (amid)
			continue;
		arenas[i].header = NULL;
		if (arenas[i].base && !arenas[i].retired)
			arena_drop(&arenas[i]);
	}
	children_none();
	current = NULL;
	refused |= amid;
	if (amid)
		return;
	store_relaxed(&forker, 0);
	arena_unlock();
}

/* ---- Blocks ---------------------------------------------------------------------------------------- */

/* When the library is loaded: a child that is made while the lock is held has to find it free. Only where it is malloc
 * itself that has arenas is there a block before, with one thread. */
__attribute__((constructor)) static void arena_begin(void)
{
	if (!handled)
		handled = pthread_atfork(arena_fork, arena_forked, arena_child) == 0;
}

static bool current_ready(void)
{
	if (current || arena_forks() || refused)
		return current && !arena_forks();
	retired_review();
	arena_begin();
	for (int i = 0; i < ARENAS_MAX && !current; i++) {
		if (arenas[i].base)
			continue;
		refused = !handled || !arena_is_allowed() || !arena_make(&arenas[i]);
		if (refused)
			break;
		current = &arenas[i];
	}
	return current != NULL;
}

/* An extent of `length` granules that is in no list; 0: there is none. */
static uint32_t block_extent(struct arena *arena, uint32_t length, enum extent_kind *kind_p)
{
	uint32_t at = extents_take(&arena->extents, length, kind_p);

	if (at)
		return at;
	at = arena->extents.top;
	*kind_p = EXTENT_CLEAN;
	if (length > arena->size / ARENA_GRANULE - at || !arena_map(arena, at, at + length))
		return 0;
	arena_end_at(arena, at + length);
	return at;
}

/* The same at an alignment that is longer than a granule: what lies before and behind goes back. */
static uint32_t block_aligned(struct arena *arena, uint32_t length, uint32_t alignment, enum extent_kind *kind_p)
{
	uint32_t whole = alignment > 1 ? length + alignment - 1 : length, at = block_extent(arena, whole, kind_p);
	uint32_t before = at ? -at & (alignment - 1) : 0;

	if (!at)
		return 0;
	extents_mark(&arena->extents, at + before, length, EXTENT_USED); /* so that neither part finds the other */
	if (whole - before - length > 0)
		arena_give(arena, at + before + length, whole - before - length, *kind_p);
	if (before > 0)
		arena_give(arena, at, before, *kind_p);
	return at + before;
}

void *arena_alloc(size_t length, size_t alignment, bool *zero_p)
{
	uint64_t granules = ((uint64_t)length + ARENA_GRANULE - 1) / ARENA_GRANULE;
	uint64_t aligned = alignment > ARENA_GRANULE ? alignment / ARENA_GRANULE : 1;
	enum extent_kind kind = EXTENT_NONE;
	struct arena *arena;
	uint32_t at = 0;
	void *block = NULL;
	int error = errno;

	/* What is more than there can be is the C library's to refuse. */
	if (length == 0 || length >= memory_bytes() || alignment > PLACE_ALIGNMENT)
		return NULL;
	arena_lock();
	arena = current_ready() ? current : NULL;
	if (arena && granules + aligned < arena->size / ARENA_GRANULE)
		at = block_aligned(arena, (uint32_t)granules, (uint32_t)aligned, &kind);
	if (at) {
		arena->blocks++;
		block = arena_address(arena, at);
		*zero_p = kind == EXTENT_CLEAN;
	}
	arena_unlock();
	errno = error;
	return block;
}

/* The block that begins here; its arena and granule. */
static struct arena *block_begins(const void *block, uint32_t *at_p)
{
	struct arena *arena = arena_of(block, at_p);

	return arena && *at_p > 0 && extents_kind(&arena->extents, *at_p) == EXTENT_USED &&
			       block == arena_address(arena, *at_p)
		       ? arena
		       : NULL;
}

/* ---- Blocks that are something else ---------------------------------------------------------------- */

/* The list that peers see. */
static struct altered *arena_shown(struct arena *arena)
{
	return arena->header ? &arena->header->altered : NULL; /* the parent's */
}

/* Whether some of [at, at + length), in bytes of the arena, is of such a block. */
static bool arena_is_altered(const struct arena *arena, uint64_t at, uint64_t length)
{
	return altered_has(&arena->altered, at / ARENA_GRANULE, (at + length + ARENA_GRANULE - 1) / ARENA_GRANULE);
}

/* With more blocks than can be listed peers use none any more. But nobody else's memory is exchanged for that: what is
 * registered of it stays what it is. */
static void block_alter(struct arena *arena, uint32_t at, uint32_t length)
{
	bool had_ended = arena_has_ended(arena);

	if (altered_add(&arena->altered, arena_shown(arena), at, length))
		return;
	arena->unlisted = true;
	if (had_ended)
		return;
	store_relaxed(&arena->header->retired, 1);
	arena_end(arena);
}

/* Whether nothing of [begin, end) is news: who protects parts of a block again and again does so often. */
static bool alter_is_known(const struct arena *arena, uintptr_t begin, uintptr_t end)
{
	struct mapping first = arena_altered(arena, begin, end);

	return arena->unlisted || (first.begin == begin && first.end >= end);
}

/* A handler may have interrupted this thread amid an allocation, and what is mapped here itself is no alteration. */
void arena_alter(void *address, size_t length)
{
	uintptr_t begin = (uintptr_t)address, end = length < UINTPTR_MAX - begin ? begin + length : UINTPTR_MAX;
	struct arena *arena;
	uint32_t at;

	if (!arena_is_near(address) || load_relaxed(&holder) == pthread_self())
		return;
	arena_lock();
	arena = arena_of(address, &at);
	if (arena && !alter_is_known(arena, begin, end))
		for (at = 1; at < arena->extents.top; at += extents_length(&arena->extents, at))
			if (extents_kind(&arena->extents, at) == EXTENT_USED &&
			    (uintptr_t)arena_address(arena, at) < end &&
			    begin < (uintptr_t)arena_address(arena, at + extents_length(&arena->extents, at)))
				block_alter(arena, at, extents_length(&arena->extents, at));
	fence_full(); /* pairs with the one in attach_is_current */
	arena_unlock();
}

/* A block that is freed shows the memfd again. False: it cannot be, and its place is lost. */
static bool block_restore(struct arena *arena, uint32_t at, uint32_t length)
{
	if (!altered_is(&arena->altered, at, length))
		return true;
	munmap(arena_address(arena, at), (size_t)length * ARENA_GRANULE);
	if (!arena_map(arena, at, at + length))
		return false;
	altered_remove(&arena->altered, arena_shown(arena), at, length);
	return true;
}

bool arena_free(void *block)
{
	struct arena *arena;
	uint32_t at;
	int error = errno;

	if (!arena_is_near(block))
		return false;
	arena_lock();
	arena = block_begins(block, &at);
	if (arena) {
		uint32_t length = extents_length(&arena->extents, at);

		arena->blocks--;
		extents_mark(&arena->extents, at, length, EXTENT_NONE);
		if (arena_has_ended(arena)) {
			retired_review();
			ended_give(arena, at);
			altered_remove(&arena->altered, arena_shown(arena), at, length);
		} else if (block_restore(arena, at, length)) {
			arena_give(arena, at, length, EXTENT_KEPT);
		}
		if (arena->blocks == 0 && arena != current)
			arena_drop(arena);
	}
	arena_unlock();
	errno = error; /* as free keeps it */
	return arena != NULL;
}

/* Give a block another length where it lies. Returns whether it has that. */
static bool block_stretch(struct arena *arena, uint32_t at, uint64_t length)
{
	struct extents *extents = &arena->extents;
	uint32_t had = extents_length(extents, at), after = at + had;

	if (length > arena->size / ARENA_GRANULE - at)
		return false;
	if (length <= had) {
		extents_mark(extents, at, (uint32_t)length, EXTENT_USED);
		if (length < had)
			arena_give(arena, at + (uint32_t)length, had - (uint32_t)length, EXTENT_KEPT);
		return true;
	}
	if (after < extents->top)
		return extents_stretch(extents, at, (uint32_t)length);
	if (!arena_map(arena, after, at + (uint32_t)length))
		return false;
	arena_end_at(arena, at + (uint32_t)length);
	extents_mark(extents, at, (uint32_t)length, EXTENT_USED);
	return true;
}

bool arena_resize(void *block, size_t length)
{
	uint64_t granules = ((uint64_t)length + ARENA_GRANULE - 1) / ARENA_GRANULE;
	struct arena *arena;
	uint32_t at;
	bool done = false;

	if (length == 0 || length >= memory_bytes())
		return false;
	arena_lock();
	arena = block_begins(block, &at);
	if (arena && !arena_has_ended(arena) && !arena_forks() &&
	    !arena_is_altered(arena, (uint64_t)at * ARENA_GRANULE, 1))
		done = block_stretch(arena, at, granules);
	else if (arena)
		done = granules <= extents_length(&arena->extents, at);
	arena_unlock();
	return done;
}

/* Whether it is all of one block. */
static bool block_has(const struct arena *arena, const char *address, size_t length)
{
	for (uint32_t at = 1, next; at < arena->extents.top; at = next) {
		next = at + extents_length(&arena->extents, at);
		if (address < arena_address(arena, next))
			return extents_kind(&arena->extents, at) == EXTENT_USED &&
			       length <= (size_t)(arena_address(arena, next) - address);
	}
	return false;
}

/* What is let go of the memfd is to be punched there. Of a private mapping it is what the memfd holds again, from
 * before the fork. Locked memory cannot be. */
static void mapping_clear(void *arg, const struct mapping *mapping)
{
	static const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
	void *address = (void *)mapping->begin;
	size_t length = mapping->end - mapping->begin;
	struct arena_visit *visit = arg;

	if (!mapping_drop(mapping, length))
		return;
	if (mapping->shared && mapping_is_of(visit->arena, mapping)) {
		visit->done |= own_file_is(&visit->arena->file) &&
			       memfd_punch(&visit->arena->file, mapping->offset, length);
		return;
	}
	visit->done = true;
	if (!mapping_is_of(visit->arena, mapping))
		return;
	if (mmap(address, length, mapping->rights, kind, -1, 0) != MAP_FAILED) {
		if (visit->arena->huge)
			pages_advise(address, length, MADV_HUGEPAGE);
	} else if (mapping->rights & PROT_WRITE) {
		memset(address, 0, length); /* there are as many mappings as may be */
	}
}

bool arena_clear(void *address, size_t length)
{
	size_t page = (size_t)getpagesize(), whole = (length + page - 1) & ~(page - 1);
	struct arena *arena;
	bool cleared = false;
	int error = errno;
	uint32_t at;

	if (!arena_is_near(address) || (uintptr_t)address % page || whole < length)
		return false;
	arena_lock();
	arena = arena_of(address, &at);
	if (arena && at > 0 && block_has(arena, address, whole)) {
		if (arena_has_ended(arena) ||
		    arena_is_altered(arena, (uint64_t)((char *)address - arena->base), whole))
			cleared = arena_visit(arena, (uintptr_t)address, (uintptr_t)address + whole, mapping_clear);
		else
			cleared = pages_advise(address, whole, MADV_REMOVE);
	}
	arena_unlock();
	errno = error;
	return cleared;
}

size_t arena_length(const void *block)
{
	struct arena *arena;
	size_t length = 0;
	uint32_t at;

	if (!arena_is_near(block))
		return 0;
	arena_lock();
	arena = block_begins(block, &at);
	if (arena)
		length = (size_t)extents_length(&arena->extents, at) * ARENA_GRANULE;
	arena_unlock();
	return length;
}

bool arena_find(const void *address, size_t length, struct arena_place *place_p)
{
	struct arena *arena;
	uint32_t at = 0;
	bool found;

	if (!arena_is_near(address))
		return false;
	arena_lock();
	arena = arena_of(address, &at);
	found = arena && !arena_has_ended(arena) && arena->file.fd >= 0 && at > 0 &&
		length <= (uint64_t)(arena_address(arena, arena->extents.top) - (const char *)address) &&
		!arena_is_altered(arena, (uintptr_t)address - (uintptr_t)arena->base, length);
	if (found)
		*place_p = (struct arena_place){arena->number, (uintptr_t)arena->base, arena->size, arena->file};
	arena_unlock();
	return found;
}

/* A private page that was not written yet is still the memfd's. */
static void mapping_own(void *arg, const struct mapping *mapping)
{
	static const int rights = PROT_READ | PROT_WRITE;
	void *address = (void *)mapping->begin;
	size_t page = (size_t)getpagesize(), length = mapping->end - mapping->begin;
	const struct arena_visit *visit = arg;
	bool closed = (mapping->rights & rights) != rights;

	if (mapping->shared)
		mapping_retire(arg, mapping); /* it was altered, and a fork could not tell what it is */
	if (!mapping_is_of(visit->arena, mapping) || (closed && mprotect(address, length, rights) != 0))
		return;
	for (uintptr_t at = mapping->begin; at < mapping->end; at += page)
		__atomic_fetch_add((char *)at, 0, __ATOMIC_RELAXED);
	if (closed)
		mprotect(address, length, mapping->rights);
}

/* What lies in [begin, end) of a block of a retired arena becomes this process's own. */
static void retired_own(const struct arena *arena, uint32_t at, uintptr_t begin, uintptr_t end)
{
	uintptr_t block = (uintptr_t)arena_address(arena, at), page = (uintptr_t)getpagesize();
	uintptr_t block_end = block + (uintptr_t)extents_length(&arena->extents, at) * ARENA_GRANULE;

	begin = begin > block ? begin & ~(page - 1) : block;
	end = end < block_end ? (end + page - 1) & ~(page - 1) : block_end;
	if (begin < end)
		arena_visit(arena, begin, end, mapping_own);
}

void arena_withdraw(void *address, size_t length)
{
	uintptr_t begin = (uintptr_t)address, end = length < UINTPTR_MAX - begin ? begin + length : UINTPTR_MAX;
	struct arena *arena;
	uint32_t at;

	if (!arena_is_near(address))
		return;
	arena_lock();
	arena = arena_of(address, &at);
	if (arena && (arena->retired || arena_retire(arena)))
		for (at = 1; at < arena->extents.top; at += extents_length(&arena->extents, at))
			if (extents_kind(&arena->extents, at) == EXTENT_USED) /* else it was freed: it is nobody's */
				retired_own(arena, at, begin, end);
	arena_unlock();
}

const struct arena_calls arena_calls = {
	.version = ARENA_VERSION,
	.alloc = arena_alloc,
	.free = arena_free,
	.resize = arena_resize,
	.length = arena_length,
	.find = arena_find,
	.withdraw = arena_withdraw,
};
