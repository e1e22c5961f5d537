// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
#include "pages.h"

#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/magic.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <linux/wait_bit.h>

#include "compat.h"
#include "pressure.h"

enum {
	CHUNK_MAX = 512, /* pages: no lock is held for longer than these take */
	TRIES_MAX = 64,  /* changes of a mapping, without getting further than ever before, after which these win */
	GONE_MAX = 128   /* times that pins went in one call, likewise: each sends it back to the front; where the call
			  * itself has pages copied or moved it takes some ten (pages_settle) */
};

static unsigned int chunk_pages = 32;
module_param(chunk_pages, uint, 0644);
MODULE_PARM_DESC(chunk_pages, "pages pinned at a time, 1 to 512");

static struct workqueue_struct *workers;

/* ---- Holders --------------------------------------------------------------------------------- */

struct holder *holder_new(void)
{
	struct holder *holder = kzalloc(sizeof(*holder), GFP_KERNEL_ACCOUNT);

	if (!holder)
		return NULL;
	if (mapped_new(&holder->mapped, sizeof(*holder->shared))) {
		kfree(holder);
		return NULL;
	}
	holder->shared = holder->mapped.at;
	events_init(&holder->events);
	holder->shared->version = THOLE_DRIVER_VERSION;
	kref_init(&holder->references);
	spin_lock_init(&holder->lock);
	area_init(&holder->areas, NULL, 0);
	INIT_LIST_HEAD(&holder->order);
	line_init(&holder->line);
	holder->mm = current->mm;
	mmgrab(holder->mm);
	holder->process = get_pid(task_tgid(current));
	return holder;
}

static void holder_free(struct kref *references)
{
	struct holder *holder = container_of(references, struct holder, references);

	WARN_ON(holder->areas.count);
	line_fini(&holder->line);
	put_pid(holder->process);
	mmdrop(holder->mm);
	kvfree(holder->areas.areas);
	events_fini(&holder->events);
	mapped_free(&holder->mapped);
	kfree(holder);
}

void holder_put(struct holder *holder)
{
	kref_put(&holder->references, holder_free);
}

void holder_permit(struct holder *holder)
{
	bool free = ns_capable_noaudit(&init_user_ns, CAP_IPC_LOCK); /* asked with each call: nothing to be logged */

	WRITE_ONCE(holder->limit, free ? LONG_MAX : rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT);
}

/* Room for so many areas more. Not under a lock. */
static int holder_room(struct holder *holder, u32 more)
{
	struct area *areas, *old = NULL;
	u32 room;

	while (READ_ONCE(holder->areas.room) < READ_ONCE(holder->areas.count) + more) {
		room = 2 * READ_ONCE(holder->areas.room) + more;
		areas = kvmalloc_array(room, sizeof(*areas), GFP_KERNEL_ACCOUNT);
		if (!areas)
			return -ENOMEM;
		spin_lock_bh(&holder->lock);
		if (holder->areas.room < room)
			old = area_enlarge(&holder->areas, areas, room);
		else
			old = areas;
		spin_unlock_bh(&holder->lock);
		kvfree(old);
	}
	return 0;
}

/* Account for pages that are pinned: each once. Under the lock of their region. */
static int holder_charge(struct holder *holder, const struct region_run *run, u64 pages)
{
	u64 first = run->address >> PAGE_SHIFT, fresh;
	int status = 0;
	u32 more;

	spin_lock(&holder->lock);
	area_foresee(&holder->areas, first, first + pages, &more, &fresh);
	if (atomic64_add_return(fresh, &holder->mm->pinned_vm) > READ_ONCE(holder->limit) && fresh)
		status = -ENOMEM;
	else if (!area_lock(&holder->areas, first, first + pages))
		status = -EAGAIN; /* somebody else took the room */
	if (status) {
		atomic64_sub(fresh, &holder->mm->pinned_vm);
	} else {
		holder->shared->pins += pages;
		holder->shared->locked = holder->areas.locked;
	}
	spin_unlock(&holder->lock);
	return status;
}

/* Undo it for a region's first pages. Under its lock. */
static void holder_discharge(struct holder *holder, const struct pages *pages, u64 count)
{
	struct region_run run;
	u64 page, freed = 0;

	spin_lock(&holder->lock);
	for (page = 0; page < count; page += run.pages) {
		u64 first;

		region_run_at(&pages->region, page, count - page, &run);
		first = run.address >> PAGE_SHIFT;
		freed += area_unlock(&holder->areas, first, first + run.pages);
	}
	atomic64_sub(freed, &holder->mm->pinned_vm);
	holder->shared->unpins += count;
	holder->shared->locked = holder->areas.locked;
	spin_unlock(&holder->lock);
}

static void holder_count(struct holder *holder, u64 *counter)
{
	spin_lock_bh(&holder->lock);
	++*counter;
	spin_unlock_bh(&holder->lock);
}

/* ---- Unpinning ------------------------------------------------------------------------------- */

static void unpin(struct page **list, u64 count, bool written)
{
	u64 i;

	/* Without the page's lock: a notifier may be called with it held. A change of the mapping may be over by then,
	 * and the file's inode, which is found by the page, evicted: it is freed after a grace period. Nothing sleeps
	 * there, since files that are written out were not pinned to be written (compat_may_write). */
	for (i = 0; written && i < count; i++) {
		rcu_read_lock();
		set_page_dirty(list[i]);
		rcu_read_unlock();
	}
	unpin_user_pages(list, count);
}

/* All pins go. Who pins at the same time writes to the list behind them, and then finds out. */
static u64 pages_drop(struct pages *pages, struct mmu_interval_notifier *changed, unsigned long sequence)
{
	u32 *word = pages->holder->shared->generations + pages->id;
	bool written;
	u64 count;

	write_lock_bh(&pages->lock);
	if (changed)
		mmu_interval_set_seq(changed, sequence);
	count = region_drop(&pages->region);
	written = pages->written;
	pages->written = false;
	if (count) {
		holder_discharge(pages->holder, pages, count);
		pressure_gone(pages, count);
		atomic_inc(&pages->dropping);
	}
	if (count || (changed && pages->flags & THOLE_DRIVER_WATCH))
		WRITE_ONCE(*word, *word + 1);
	write_unlock_bh(&pages->lock);
	if (count) {
		unpin(pages->list, count, written);
		if (atomic_dec_and_test(&pages->dropping))
			wake_up_var(&pages->dropping);
	}
	return count;
}

/* The mapping of a segment changes. Neither sleeps nor allocates. */
static bool pages_invalidate(struct mmu_interval_notifier *notifier, const struct mmu_notifier_range *range,
			     unsigned long sequence)
{
	struct watch *watch = container_of(notifier, struct watch, notifier);
	struct holder *holder = watch->pages->holder;

	/* fork makes pages read-only, to be copied by whoever writes first; but it gives the child copies of the pinned
	 * ones at once, and so they stay as they are. */
	if (range->event == MMU_NOTIFY_PROTECTION_PAGE) {
		write_lock_bh(&watch->pages->lock);
		mmu_interval_set_seq(notifier, sequence);
		write_unlock_bh(&watch->pages->lock);
		holder_count(holder, &holder->shared->forks);
		return true;
	}
	if (pages_drop(watch->pages, notifier, sequence))
		holder_count(holder, &holder->shared->invalidations);
	return true;
}

static const struct mmu_interval_notifier_ops watch_calls = {.invalidate = pages_invalidate};

u64 pages_yield(struct pages *pages)
{
	u64 count;

	if (!mutex_trylock(&pages->pinning))
		return 0;
	count = pages_drop(pages, NULL, 0);
	mutex_unlock(&pages->pinning);
	return count;
}

/* ---- Pinning --------------------------------------------------------------------------------- */

/* Whether pages of a mapping come without asking a file system, which may be a program of the user's (FUSE). */
static bool mapping_is_memory(const struct vm_area_struct *vma)
{
	unsigned long magic = vma->vm_file ? file_inode(vma->vm_file)->i_sb->s_magic : TMPFS_MAGIC;

	return magic == TMPFS_MAGIC || magic == HUGETLBFS_MAGIC;
}

/* A worker pins of files what is there, and waits for none: others wait for workers, and a file system may never
 * answer. Nor does it wait for the lock: another thread of the process may wait for one with it held. */
static long pin_for_process(struct mm_struct *mm, const struct region_run *run, unsigned int flags, struct page **list)
{
	unsigned long end = run->address + (run->pages << PAGE_SHIFT);
	struct vm_area_struct *vma;
	long got;

	if (!mmap_read_trylock(mm))
		return PAGES_LATER;
	for (vma = find_vma(mm, run->address); vma && vma->vm_start < end; vma = find_vma(mm, vma->vm_end))
		if (!mapping_is_memory(vma))
			flags |= FOLL_NOFAULT;
	got = compat_pin_remote(mm, run->address, run->pages, flags, list);
	mmap_read_unlock(mm);
	return got;
}

/* The process itself waits for whatever its memory needs, be it for ever. Whoever else pins the region meanwhile, or
 * forgets it, does not wait for that: so until pages_commit what was pinned is in a list of the call's own. */
static long pin_as_process(struct pages *pages, const struct region_run *run, unsigned int flags, struct page **list)
{
	long got;

	mutex_unlock(&pages->pinning);
	got = compat_pin_own(run->address, run->pages, flags, list);
	mutex_lock(&pages->pinning);
	return got;
}

/* Pin a run. Returns how many pages, from its front, or why none. */
static long pin_run(struct pages *pages, const struct region_run *run, struct page **list)
{
	unsigned int flags = FOLL_LONGTERM | (pages->flags & THOLE_DRIVER_WRITE ? FOLL_WRITE : 0);
	struct mm_struct *mm = pages->holder->mm;
	long got;

	if (mm == current->mm)
		got = pin_as_process(pages, run, flags, list);
	else
		got = pin_for_process(mm, run, flags, list);
	return got ? got : -EFAULT;
}

/* Make pinned pages the region's. -EAGAIN: the mapping has changed since; -EEXIST: somebody else has pinned them. */
static int pages_commit(struct pages *pages, const struct region_run *run, struct page *const *list, u64 got,
			struct watch *watch, unsigned long sequence)
{
	int status;

	write_lock_bh(&pages->lock);
	if (mmu_interval_read_retry(&watch->notifier, sequence) || run->generation != pages->region.generation)
		status = -EAGAIN;
	else if (READ_ONCE(pages->forgotten))
		status = -ENOENT;
	else if (run->page != pages->region.pinned)
		status = -EEXIST;
	else
		status = holder_charge(pages->holder, run, got);
	if (!status && WARN_ON(!region_add(&pages->region, run, got)))
		status = -EINVAL;
	if (!status) {
		memcpy(pages->list + run->page, list, got * sizeof(*list));
		pressure_used(pages, got);
	}
	write_unlock_bh(&pages->lock);
	return status;
}

static struct watch *watch_of(struct pages *pages, const struct region_run *run)
{
	u32 at = pages->region.count - 1;

	while (pages->region.segments[at].page > run->page)
		at--;
	return pages->watches + at;
}

/* Pin the next run, of memory that stays meanwhile. Returns 0, or why not; -EAGAIN: in vain. Under pages.pinning. */
static int pages_pin_there(struct pages *pages, const struct region_run *run, struct page **list)
{
	struct holder *holder = pages->holder;
	struct watch *watch = watch_of(pages, run);
	unsigned long sequence;
	int status;
	long got;

	/* A run adds two areas at its ends, and one for each gap inside. */
	status = holder_room(holder, (u32)run->pages + 2);
	if (status)
		return status;
	wait_var_event(&pages->dropping, !atomic_read(&pages->dropping));
	sequence = mmu_interval_read_begin(&watch->notifier); /* waits while it changes */
	got = pin_run(pages, run, list);
	if (got < 0)
		return got;
	status = pages_commit(pages, run, list, got, watch, sequence);
	if (status)
		unpin_user_pages(list, got);
	if (status == -EAGAIN)
		holder_count(holder, &holder->shared->late);
	if (status == -ENOMEM) {
		holder_count(holder, &holder->shared->refused);
		if (pressure_relieve(holder, run->pages))
			status = -EAGAIN;
	}
	return status == -EEXIST ? 0 : status;
}

/* The same for a process that may have ended: its memory is held for one run only, or a worker would go on for all of a
 * region, and keep whoever was killed from giving it back. */
static int pages_pin_run(struct pages *pages, const struct region_run *run, struct page **list)
{
	struct mm_struct *mm = pages->holder->mm;
	int status;

	if (!mmget_not_zero(mm))
		return -EFAULT;
	status = pages_pin_there(pages, run, list);
	/* Not here: who is last takes all of the memory down, which waits for what our caller may hold. */
	mmput_async(mm);
	return status;
}

static u64 pages_chunk(void)
{
	return clamp_t(u64, READ_ONCE(chunk_pages), 1, CHUNK_MAX);
}

/* How many pages the region's first bytes are in. */
static u64 pages_until(const struct pages *pages, u64 bytes)
{
	struct region_piece last;

	if (!bytes)
		return 0;
	region_piece_at(&pages->region, bytes - 1, 1, &last);
	return last.page + 1;
}

static bool pages_next(struct pages *pages, u64 bytes, struct region_run *run_p)
{
	bool more;

	read_lock_bh(&pages->lock);
	more = !region_ready(&pages->region, 0, bytes) && region_next(&pages->region, pages_chunk(), run_p);
	read_unlock_bh(&pages->lock);
	return more;
}

/* Pages that a child has, too, or that may not stay where they are, are copied when they are pinned, which changes the
 * mapping, and takes what is pinned in front. So where that has happened as many of the next are had copied at once, by
 * pins that go again: those in front are then pinned a few times in all, and not once for each run. */
static void pages_settle(struct pages *pages, struct page **list, u64 from, u64 end)
{
	struct mm_struct *mm = pages->holder->mm;
	struct region_run run;
	long got;

	while (from < end && !READ_ONCE(pages->forgotten) && !fatal_signal_pending(current) && mmget_not_zero(mm)) {
		region_run_at(&pages->region, from, min(end - from, pages_chunk()), &run);
		got = pin_run(pages, &run, list);
		if (got > 0)
			unpin_user_pages(list, got);
		mmput_async(mm);
		if (got < 0)
			return; /* it is found out when it is their turn */
		from += got;
		cond_resched();
	}
}

/* How a call that pins gets on. */
struct progress {
	u64 next;     /* page: the next run begins there or further back, unless pins went meanwhile */
	u64 furthest; /* the most that this was */
	int vain;     /* runs pinned in vain, and times that pins went, since then */
	int gone;     /* times that pins went, in all */
};

/* What became of a run. Returns 0 if there may be another one. A change that comes more rarely than a run makes none of
 * them fail, but takes what is pinned; so it counts, too. */
static int progress_add(struct progress *progress, const struct region_run *run, int status)
{
	bool gone = run->page < progress->next, vain = gone || status == -EAGAIN;

	progress->gone += gone;
	progress->next = run->page + (status ? 0 : 1);
	if (progress->next > progress->furthest) {
		progress->furthest = progress->next;
		progress->vain = 0;
	} else if (vain) {
		progress->vain++;
	}
	if (status && status != -EAGAIN)
		return status;
	return progress->vain < TRIES_MAX && progress->gone < GONE_MAX ? 0 : -EAGAIN;
}

static int pages_pin_all(struct pages *pages, u64 bytes, u64 soon)
{
	struct progress progress = {0};
	struct page **list = NULL;
	struct region_run run;
	int status = 0;

	while (!status && pages_next(pages, bytes, &run)) {
		if (!list)
			list = kmalloc_array(CHUNK_MAX, sizeof(*list), GFP_KERNEL_ACCOUNT);
		if (!list || fatal_signal_pending(current)) {
			status = list ? -EINTR : -ENOMEM;
			break;
		}
		status = READ_ONCE(pages->forgotten) ? -ENOENT : pages_pin_run(pages, &run, list);
		if (status == -EAGAIN && READ_ONCE(pages->region.generation) != run.generation)
			pages_settle(pages, list, run.page + run.pages,
				     min(2 * run.page + run.pages, pages_until(pages, soon)));
		status = progress_add(&progress, &run, status);
		cond_resched();
	}
	kfree(list);
	return status;
}

/* It may be large: refused, rather than that a process of the cgroup is killed for it. With that wish kvmalloc would
 * first try hard to have a large one in one piece, by moving what is in the way, and a message waits. */
static void *list_new(size_t bytes)
{
	gfp_t how = GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_RETRY_MAYFAIL | __GFP_NOWARN;

	return bytes <= PAGE_SIZE << PAGE_ALLOC_COSTLY_ORDER ? kvmalloc(bytes, how) : __vmalloc(bytes, how);
}

int pages_foresee(struct pages *pages)
{
	struct page **list;

	if (READ_ONCE(pages->list))
		return 0;
	list = list_new(pages->region.pages * sizeof(*list));
	if (!list)
		return -ENOMEM;
	if (cmpxchg(&pages->list, NULL, list))
		kvfree(list); /* somebody else was first */
	return 0;
}

int pages_pin(struct pages *pages, u64 bytes, u64 soon)
{
	int status = pages_foresee(pages);

	if (status)
		return status;
	if (pages->holder->mm == current->mm)
		status = mutex_lock_killable(&pages->pinning);
	else if (!mutex_trylock(&pages->pinning))
		status = PAGES_LATER;
	if (status)
		return status;
	status = pages_pin_all(pages, bytes, soon);
	mutex_unlock(&pages->pinning);
	if (status != PAGES_LATER)
		line_move(&pages->holder->line);
	return status;
}

static void pages_work(struct work_struct *work)
{
	struct pages *pages = container_of(work, struct pages, turn.work);
	u64 wanted = READ_ONCE(pages->wanted);
	struct thole_driver_pinned pinned = {.status = pages_pin(pages, wanted, wanted)};

	if (pinned.status == PAGES_LATER) {
		if (!turn_wait(&pages->turn))
			pages_put(pages);
		return;
	}
	read_lock_bh(&pages->lock);
	pinned.pinned = pages->region.pinned;
	pinned.generation = READ_ONCE(pages->holder->shared->generations[pages->id]);
	read_unlock_bh(&pages->lock);
	pages->done.body.cookie = pages->id;
	events_post(&pages->holder->events, &pages->done, &pinned, sizeof(pinned));
	pages_put(pages);
}

int pages_pin_later(struct pages *pages, u64 bytes)
{
	int status = pages_foresee(pages);

	if (status)
		return status;
	WRITE_ONCE(pages->wanted, bytes);
	kref_get(&pages->references);
	if (!turn_queue(&pages->turn))
		pages_put(pages);
	return 0;
}

/* ---- Use ------------------------------------------------------------------------------------- */

struct page *pages_get(struct pages *pages, u64 offset, u64 length, struct region_piece *piece_p, u32 *generation_p)
{
	struct page *page = NULL;

	read_lock_bh(&pages->lock);
	region_piece_at(&pages->region, offset, length, piece_p);
	*generation_p = pages->region.generation;
	if (piece_p->page < pages->region.pinned) {
		page = pages->list[piece_p->page];
		get_page(page);
		pressure_used(pages, 0);
	}
	read_unlock_bh(&pages->lock);
	return page;
}

bool pages_ready(struct pages *pages, u64 offset, u64 length)
{
	if (!region_holds(&pages->region, offset, length) || !region_ready(&pages->region, offset, length))
		return false;
	if (length)
		pressure_used(pages, 0);
	return true;
}

struct page *pages_at(const struct pages *pages, u64 offset, u64 length, struct region_piece *piece_p)
{
	region_piece_at(&pages->region, offset, length, piece_p);
	return pages->list[piece_p->page];
}

/* All who share the lock write the same. */
void pages_write(struct pages *pages)
{
	WRITE_ONCE(pages->written, true);
}

/* What was written there since it was got has to be kept. Returns false if the pins have gone meanwhile: then it may
 * not be the process's memory that was read or written. */
static bool pages_still(struct pages *pages, u32 generation, bool written)
{
	bool still;

	write_lock_bh(&pages->lock);
	still = pages->region.generation == generation;
	pages->written |= still && written;
	write_unlock_bh(&pages->lock);
	return still;
}

/* Copy what lies in one page. Returns how much, or why not; -EAGAIN: the mapping changed. */
static long pages_copy_piece(struct pages *pages, u64 offset, u64 length, void __user *memory, bool into)
{
	struct region_piece piece;
	unsigned long left;
	struct page *page;
	u32 generation;
	void *at;

	page = pages_get(pages, offset, length, &piece, &generation);
	if (!page)
		return -EAGAIN;
	at = kmap_local_page(page);
	if (into)
		left = copy_from_user(at + piece.within, memory, piece.length);
	else
		left = copy_to_user(memory, at + piece.within, piece.length);
	kunmap_local(at);
	put_page(page);
	if (!pages_still(pages, generation, into))
		return -EAGAIN;
	if (left)
		return -EFAULT;
	return piece.length;
}

int pages_copy(struct pages *pages, const struct thole_driver_copy *copy)
{
	void __user *memory = u64_to_user_ptr(copy->address);
	bool into = copy->flags & THOLE_DRIVER_INTO;
	u64 done = 0;
	int vain = 0;

	if (!region_holds(&pages->region, copy->offset, copy->length))
		return -EINVAL;
	if (into && !(pages->flags & THOLE_DRIVER_WRITE))
		return -EACCES;
	while (done < copy->length) {
		u64 at = copy->offset + done;
		long copied = pages_copy_piece(pages, at, copy->length - done, memory + done, into);

		if (copied == -EAGAIN && ++vain < TRIES_MAX)
			copied = pages_pin(pages, at + 1, copy->offset + copy->length);
		else if (copied > 0)
			vain = 0;
		if (copied < 0)
			return copied;
		done += copied;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return 0;
}

/* ---- Making and forgetting ------------------------------------------------------------------- */

static int watch_all(struct pages *pages)
{
	u32 i;

	for (i = 0; i < pages->region.count; i++) {
		const struct region_segment *segment = pages->region.segments + i;
		u64 first = segment->address & PAGE_MASK;
		u64 end = PAGE_ALIGN(segment->address + segment->length);
		int status;

		pages->watches[i].pages = pages;
		status = mmu_interval_notifier_insert(&pages->watches[i].notifier, pages->holder->mm, first,
						      end - first, &watch_calls);
		if (status)
			return status;
		pages->watched++;
	}
	return 0;
}

struct pages *pages_new(struct holder *holder, struct region_segment *segments, u32 count, u32 flags)
{
	struct pages *pages = kzalloc(sizeof(*pages), GFP_KERNEL_ACCOUNT);
	int status = -EINVAL;

	if (!pages) {
		kvfree(segments);
		return ERR_PTR(-ENOMEM);
	}
	kref_init(&pages->references);
	kref_get(&holder->references);
	pages->holder = holder;
	pages->flags = flags;
	mutex_init(&pages->pinning);
	rwlock_init(&pages->lock);
	INIT_LIST_HEAD(&pages->order);
	INIT_LIST_HEAD(&pages->own);
	turn_init(&pages->turn, &holder->line, workers, pages_work);
	event_init(&pages->done, THOLE_DRIVER_EVENT_PINNED, 0);
	if (region_init(&pages->region, segments, count, PAGE_SHIFT) && pages->region.pages <= THOLE_DRIVER_PAGES) {
		pages->watches = kvcalloc(count, sizeof(*pages->watches), GFP_KERNEL_ACCOUNT);
		status = pages->watches ? watch_all(pages) : -ENOMEM;
	}
	if (status) {
		pages_forget(pages);
		pages_put(pages);
		return ERR_PTR(status);
	}
	return pages;
}

void pages_forget(struct pages *pages)
{
	WRITE_ONCE(pages->forgotten, true); /* who pins now, stops */
	mutex_lock(&pages->pinning);
	pages_drop(pages, NULL, 0);
	mutex_unlock(&pages->pinning);
	if (turn_end_sync(&pages->turn))
		pages_put(pages);
	while (pages->watched)
		mmu_interval_notifier_remove(&pages->watches[--pages->watched].notifier);
}

static void pages_free(struct kref *references)
{
	struct pages *pages = container_of(references, struct pages, references);

	WARN_ON(pages->region.pinned || pages->watched);
	events_withdraw(&pages->holder->events, &pages->done);
	kvfree(pages->region.segments);
	kvfree(pages->watches);
	kvfree(pages->list);
	holder_put(pages->holder);
	kfree(pages);
}

void pages_put(struct pages *pages)
{
	kref_put(&pages->references, pages_free);
}

int pages_start(void)
{
	workers = alloc_workqueue("thole", WQ_UNBOUND, 0);
	return workers ? 0 : -ENOMEM;
}

void pages_stop(void)
{
	destroy_workqueue(workers);
}
