/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * pages: regions of a process's memory, whose pages are pinned when they are used.
 *
 * Owns pinning and unpinning, and the accounting of it. What is pinned, and what that allows, is memory/region.h's;
 * which page is counted already is memory/area.h's. Does not own how user space asks (device.c), nor who has to give
 * way when memory is short (pressure.c).
 *
 * Locks, outer first. No memory is allocated under any but the first, since the notifier takes the others, and it runs
 * when memory is reclaimed.
 *   pages.pinning  mutex: one pins at a time, but that a process lets go of it while it waits for its own memory; held
 *                  by whoever unpins for another reason than a change of the mapping. Workers only try it, as they do
 *                  the mmap_lock of a process (turn.h)
 *   pages.lock     rwlock, softirqs off: the state of the region, and which entries of `list` are pages
 *   holder.lock    spinlock: areas and counters
 *   pressure.c's   spinlock: the order of use
 *
 * Who reads `list` holds pages.lock or has a reference to the page. A change of the mapping takes the pins before it
 * returns (pages_invalidate); it waits for nobody. Whoever pins meanwhile finds that out in pages_commit, and starts
 * again.
 */
#ifndef THOLE_KERNEL_PAGES_H
#define THOLE_KERNEL_PAGES_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mm_types.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "events.h"
#include "mapped.h"
#include "memory/area.h"
#include "memory/region.h"
#include "thole_driver.h"
#include "turn.h"

/* What a worker is told who would have to wait for a lock of the process's: its turn has to come again. */
enum { PAGES_LATER = -EINPROGRESS };

/* One who declares regions: a descriptor. */
struct holder {
	struct kref references; /* of its file, and of each region */
	struct mm_struct *mm;   /* whose memory regions are of */
	struct pid *process;    /* who opened it */
	struct mapped mapped;
	struct thole_driver_shared *shared; /* that */
	struct events events;
	unsigned long limit; /* pages that mm may have pinned; as it was at the last call */
	spinlock_t lock;
	struct area_table areas; /* in pages */
	struct list_head order;  /* pressure.c's */
	struct line line;        /* workers' turns with memory of mm that was not to be had */
};

/* A segment's place among the notifiers of its process. */
struct watch {
	struct mmu_interval_notifier notifier;
	struct pages *pages;
};

/* A region. */
struct pages {
	struct kref references;
	struct holder *holder;
	u32 id;
	u32 flags;
	struct mutex pinning;
	bool forgotten; /* never pin again */
	atomic_t dropping; /* how many are giving back what was pinned: until then the list is theirs */
	rwlock_t lock;
	struct region region;
	struct page **list; /* made when they are foreseen, for as long as the region */
	bool written;       /* something was copied into them */
	struct list_head order; /* pressure.c's, of all regions, */
	struct list_head own;   /* and of those of its holder */
	struct turn turn;
	u64 wanted; /* bytes that are pinned by it */
	struct event done; /* tells that it has */
	struct offer *offer; /* attach.c's */
	struct watch *watches;
	u32 watched; /* how many of them are set up */
};

struct holder *holder_new(void);
void holder_put(struct holder *holder);

/* What the running process, which is the holder's, may have pinned from now on. */
void holder_permit(struct holder *holder);

/* Make a region of segments, which it takes over in any case. The caller has the only reference. */
struct pages *pages_new(struct holder *holder, struct region_segment *segments, u32 count, u32 flags);

/* No more pins, and no more notice of changes. The reference stays the caller's. */
void pages_forget(struct pages *pages);

void pages_put(struct pages *pages);

/* Some of the region is to be pinned: what has to be noted of its pages gets memory, charged to the running process. A
 * worker's would be charged to nobody; so who leaves pinning to one calls this before. */
int pages_foresee(struct pages *pages);

/* Pin until the region's first bytes are. soon: so many are likely to be asked for next. May sleep; for whatever the
 * memory needs, if the running process is the holder's. Any other is a worker, which may get PAGES_LATER. */
int pages_pin(struct pages *pages, u64 bytes, u64 soon);

/* The same by a worker. */
int pages_pin_later(struct pages *pages, u64 bytes);

/* The page at an offset, with a reference, as long as it is pinned; else NULL. The generation tells later whether it
 * still was. */
struct page *pages_get(struct pages *pages, u64 offset, u64 length, struct region_piece *piece_p, u32 *generation_p);

/* For softirq, under pages.lock, for reading: nobody who changes the mapping gets on until it is given back. Whether
 * these bytes are pinned; */
bool pages_ready(struct pages *pages, u64 offset, u64 length);
/* then, the page at an offset; and something is written there. */
struct page *pages_at(const struct pages *pages, u64 offset, u64 length, struct region_piece *piece_p);
void pages_write(struct pages *pages);

/* Copy between the region, through its pins, and memory of the running process. */
int pages_copy(struct pages *pages, const struct thole_driver_copy *copy);

/* Unpin for somebody else, unless it is being pinned. Returns how many pages. */
u64 pages_yield(struct pages *pages);

int pages_start(void);
void pages_stop(void);

#endif
