// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
#include "attach.h"

#include <asm/pgalloc.h>
#include <crypto/algapi.h>
#include <linux/bitmap.h>
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/pseudo_fs.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uidgid.h>
#include <linux/xarray.h>

#include "compat.h"

enum {
	AROUND = 64,    /* pages mapped at a touch, where they are in the owner's page table */
	TRIES_MAX = 16  /* of a touch, while the owner's mapping changes; then the access is tried anew */
};

/* The magic number of the file system that inodes of offers are in; nobody sees it. */
#define ATTACH_MAGIC 0x74686f6c

struct offer {
	struct kref references; /* of its region, and of each view */
	struct mmu_interval_notifier notifier;
	struct mm_struct *mm;
	struct inode *inode; /* by whose mapping views are found */
	u64 address;         /* of the first page */
	u64 pages;
	u64 within;          /* where the region begins in it */
	u64 length;          /* bytes of the region */
	u32 number;          /* in `offers` */
	u32 flags;           /* THOLE_DRIVER_WRITE */
	u64 key[2];
	kuid_t uid;
	spinlock_t lock;
	bool ended;
	struct list_head views;
	unsigned long *mapped; /* a bit a page: it may be in the page table of a view, unless the offer has ended */
};

struct view {
	struct offer *offer;
	struct list_head node;
	struct mm_struct *mm;           /* of who has attached, the only one who may map it */
	struct thole_driver_view *head; /* a page: the first one that is mapped */
	void *blank;                    /* a page: what is mapped where there is nothing */
	bool write;
};

static struct vfsmount *mount; /* there as long as there are offers, */
static int mounted;            /* of which each counts */
static DEFINE_XARRAY_ALLOC1(offers);
static DEFINE_MUTEX(offers_lock);

/* ---- Inodes of offers ------------------------------------------------------------------------ */

static int attach_context(struct fs_context *context)
{
	return init_pseudo(context, ATTACH_MAGIC) ? 0 : -ENOMEM;
}

/* A file of it gives its reference to this module back before the one to the file system, which keeps the module by
 * itself for so long. So it is there only while it is needed. */
static struct file_system_type attach_inodes = {
	.owner = THIS_MODULE,
	.name = "thole",
	.init_fs_context = attach_context,
	.kill_sb = kill_anon_super,
};

/* Or NULL. */
static struct inode *inode_new(void)
{
	struct inode *inode;

	if (simple_pin_fs(&attach_inodes, &mount, &mounted))
		return NULL;
	inode = alloc_anon_inode(mount->mnt_sb);
	if (!IS_ERR(inode))
		return inode;
	simple_release_fs(&mount, &mounted);
	return NULL;
}

static void inode_put(struct inode *inode)
{
	iput(inode);
	simple_release_fs(&mount, &mounted);
}

/* ---- Offers ---------------------------------------------------------------------------------- */

static void offer_free(struct kref *references)
{
	struct offer *offer = container_of(references, struct offer, references);

	if (offer->inode)
		inode_put(offer->inode);
	mmdrop(offer->mm);
	kvfree(offer->mapped);
	kfree(offer);
}

static void offer_put(struct offer *offer)
{
	kref_put(&offer->references, offer_free);
}

/* Zap pages of views from within a notifier. That calls notifiers of those who have them mapped, where lockdep knows no
 * order: all notifiers are one lock to it, and locks of mappings (i_mmap_rwsem) one class. attach.h says why nobody
 * waits for ever; without this lockdep would end itself at the first change, and so see nothing else. */
static void offer_zap(struct offer *offer, u64 first, u64 end)
{
	lockdep_off();
	unmap_mapping_range(offer->inode->i_mapping, (first + 1) << PAGE_SHIFT, (end - first) << PAGE_SHIFT, 0);
	lockdep_on();
}

/* The owner's mapping changes: what is there of it in views goes first. Pages are not counted by views, so nothing of
 * them may be left when this returns. Changes run beside each other: bits go only after the zap, or another change of
 * the same pages would return while they are there still. None is set meanwhile: until the last of these changes is
 * over, view_commit refuses. */
static bool offer_invalidate(struct mmu_interval_notifier *notifier, const struct mmu_notifier_range *range,
			     unsigned long sequence)
{
	struct offer *offer = container_of(notifier, struct offer, notifier);
	u64 start = max_t(u64, range->start, offer->address) - offer->address;
	u64 stop = min_t(u64, range->end, offer->address + (offer->pages << PAGE_SHIFT)) - offer->address;
	u64 first = start >> PAGE_SHIFT, end = PAGE_ALIGN(stop) >> PAGE_SHIFT;
	bool some;

	spin_lock(&offer->lock);
	some = find_next_bit(offer->mapped, end, first) < end;
	if (some && !mmu_notifier_range_blockable(range)) {
		spin_unlock(&offer->lock);
		return false; /* who wants memory at once looks elsewhere: the process is ending */
	}
	mmu_interval_set_seq(notifier, sequence);
	spin_unlock(&offer->lock);
	if (!some)
		return true;
	offer_zap(offer, first, end);
	spin_lock(&offer->lock);
	bitmap_clear(offer->mapped, first, end - first);
	spin_unlock(&offer->lock);
	return true;
}

static const struct mmu_interval_notifier_ops offer_calls = {.invalidate = offer_invalidate};

static struct offer *offer_new(const struct pages *pages)
{
	const struct region_segment *segment = pages->region.segments;
	struct offer *offer = kzalloc(sizeof(*offer), GFP_KERNEL_ACCOUNT);

	if (!offer)
		return NULL;
	kref_init(&offer->references);
	spin_lock_init(&offer->lock);
	INIT_LIST_HEAD(&offer->views);
	offer->mm = pages->holder->mm;
	mmgrab(offer->mm);
	offer->address = segment->address & PAGE_MASK;
	offer->within = segment->address & ~PAGE_MASK;
	offer->length = segment->length;
	offer->pages = pages->region.pages;
	offer->flags = pages->flags;
	offer->uid = current_euid();
	get_random_bytes(offer->key, sizeof(offer->key));
	offer->mapped = kvcalloc(BITS_TO_LONGS(offer->pages), sizeof(*offer->mapped), GFP_KERNEL_ACCOUNT);
	offer->inode = inode_new();
	if (offer->mapped && offer->inode)
		return offer;
	offer_put(offer);
	return NULL;
}

/* Under offers_lock. */
static int offer_begin(struct offer *offer)
{
	int status = mmu_interval_notifier_insert(&offer->notifier, offer->mm, offer->address,
						  offer->pages << PAGE_SHIFT, &offer_calls);

	if (status)
		return status;
	status = xa_alloc(&offers, &offer->number, offer, xa_limit_31b, GFP_KERNEL_ACCOUNT);
	if (status)
		mmu_interval_notifier_remove(&offer->notifier);
	return status;
}

int attach_offer(struct pages *pages, struct thole_driver_offer *answer)
{
	struct offer *offer;
	int status;

	if (pages->region.count != 1)
		return -EINVAL;
	offer = offer_new(pages);
	if (!offer)
		return -ENOMEM;
	mutex_lock(&offers_lock);
	status = pages->offer ? -EEXIST : READ_ONCE(pages->forgotten) ? -ENOENT : offer_begin(offer);
	if (!status)
		pages->offer = offer;
	mutex_unlock(&offers_lock);
	if (status) {
		offer_put(offer);
		return status;
	}
	answer->number = offer->number;
	memcpy(answer->key, offer->key, sizeof(answer->key));
	return 0;
}

/* The bits stay: a change of the owner's mapping meanwhile zaps what this has not come to. */
static void offer_end(struct offer *offer)
{
	struct view *view;

	xa_erase(&offers, offer->number);
	spin_lock(&offer->lock);
	offer->ended = true;
	list_for_each_entry(view, &offer->views, node)
		WRITE_ONCE(view->head->ended, 1);
	spin_unlock(&offer->lock);
	unmap_mapping_range(offer->inode->i_mapping, PAGE_SIZE, offer->pages << PAGE_SHIFT, 0);
	mmu_interval_notifier_remove(&offer->notifier);
	offer_put(offer);
}

int attach_withdraw(struct pages *pages)
{
	struct offer *offer;

	mutex_lock(&offers_lock);
	offer = pages->offer;
	pages->offer = NULL;
	mutex_unlock(&offers_lock);
	if (!offer)
		return -ENOENT;
	offer_end(offer);
	return 0;
}

/* ---- What a view shows ------------------------------------------------------------------------ */

static struct view *view_of(const struct vm_area_struct *vma)
{
	return vma->vm_file->private_data;
}

/* Where the owner has what is touched. */
static u64 view_address(const struct offer *offer, const struct vm_fault *vmf)
{
	return offer->address + ((u64)(vmf->pgoff - 1) << PAGE_SHIFT);
}

/* Pages of the owner's, from the one that is touched on. One that is not there is asked for only once it was waited for
 * (view_wait), or where that cannot be: a file system may be long, or never answer, and whoever maps memory in either
 * process would wait, too. Under the owner's mmap_lock. Returns how many, or why none. */
static long view_find(const struct view *view, const struct vm_fault *vmf, struct page **list)
{
	struct offer *offer = view->offer;
	const struct vm_area_struct *vma = vmf->vma;
	unsigned long address = vmf->address & PAGE_MASK, end = min(vma->vm_end, (address & PMD_MASK) + PMD_SIZE);
	unsigned long count = min_t(unsigned long, AROUND, (end - address) >> PAGE_SHIFT);
	unsigned int flags = view->write ? FOLL_WRITE : 0;
	u64 at = view_address(offer, vmf);
	long got = compat_get_remote(offer->mm, at, count, flags | FOLL_NOFAULT, list, NULL);

	if (got <= 0 && (vmf->flags & FAULT_FLAG_TRIED || !(vmf->flags & FAULT_FLAG_ALLOW_RETRY)))
		got = compat_get_remote(offer->mm, at, 1, flags, list, NULL);
	return got ? got : -EFAULT;
}

/* Pages that go into a view's page table one after the other. */
struct view_run {
	struct view *view;
	struct vm_area_struct *vma;
	struct page **next;
};

/* One of them, under the table's lock. What is there already is the same: nobody has lost it meanwhile. */
static int view_set(pte_t *pte, unsigned long address, void *argument)
{
	struct view_run *run = argument;
	struct vm_area_struct *vma = run->vma;
	struct page *page = *run->next++;

	if (pte_none(ptep_get(pte)))
		set_pte_at(vma->vm_mm, address, pte, pte_mkspecial(pfn_pte(page_to_pfn(page), vma->vm_page_prot)));
	__set_bit(((address - vma->vm_start) >> PAGE_SHIFT) - 1, run->view->offer->mapped);
	return 0;
}

/* Map pages, unless the owner's mapping has changed since they were found. The table is there (view_table), so this
 * does not sleep. */
static int view_commit(struct view *view, struct vm_fault *vmf, struct page **list, long count, unsigned long sequence)
{
	struct view_run run = {.view = view, .vma = vmf->vma, .next = list};
	struct offer *offer = view->offer;
	int status;

	spin_lock(&offer->lock);
	if (offer->ended)
		status = -ENOENT;
	else if (mmu_interval_read_retry(&offer->notifier, sequence))
		status = -EAGAIN;
	else
		status = apply_to_page_range(vmf->vma->vm_mm, vmf->address & PAGE_MASK, count << PAGE_SHIFT, view_set,
					     &run);
	spin_unlock(&offer->lock);
	return status;
}

/* Have a page table where the page is to be mapped: the one that the kernel has made for this touch. */
static bool view_table(struct vm_fault *vmf)
{
	struct mm_struct *mm = vmf->vma->vm_mm;
	spinlock_t *lock;

	if (!pmd_none(*vmf->pmd))
		return true;
	if (!vmf->prealloc_pte)
		return false;
	lock = pmd_lock(mm, vmf->pmd);
	if (pmd_none(*vmf->pmd)) {
		mm_inc_nr_ptes(mm);
		smp_wmb(); /* it is empty before it can be found; as pmd_install() has it */
		pmd_populate(mm, vmf->pmd, vmf->prealloc_pte);
		vmf->prealloc_pte = NULL;
	}
	spin_unlock(lock);
	return true;
}

/* Find pages and map them. Returns 0, or why not; -EAGAIN: in vain, or the owner's mmap_lock is not free. */
static int view_map(struct view *view, struct vm_fault *vmf)
{
	struct offer *offer = view->offer;
	struct page *list[AROUND];
	unsigned long sequence;
	int status = -EAGAIN;
	long got, i;

	if (READ_ONCE(offer->ended) || !mmget_not_zero(offer->mm))
		return -ENOENT;
	if (view_table(vmf) && mmap_read_trylock(offer->mm)) {
		sequence = mmu_interval_read_begin(&offer->notifier);
		got = view_find(view, vmf, list);
		mmap_read_unlock(offer->mm);
		status = got < 0 ? got : view_commit(view, vmf, list, got, sequence);
		for (i = 0; i < got; i++)
			put_page(list[i]);
	}
	mmput_async(offer->mm);
	return status;
}

/* Have the owner's page there, waiting for whatever that needs, without the mmap_lock of who touches it: two who have
 * attached each other's memory would wait for each other. The access is tried anew then. */
static vm_fault_t view_wait(struct view *view, struct vm_fault *vmf)
{
	unsigned int flags = view->write ? FOLL_WRITE : 0;
	struct file *file = get_file(vmf->vma->vm_file);
	struct offer *offer = view->offer;
	u64 at = view_address(offer, vmf);
	struct page *page;
	int locked = 1;

	compat_leave_fault(vmf);
	if (mmget_not_zero(offer->mm)) {
		if (!mmap_read_lock_killable(offer->mm)) {
			if (compat_get_remote(offer->mm, at, 1, flags, &page, &locked) == 1)
				put_page(page);
			if (locked)
				mmap_read_unlock(offer->mm);
		}
		mmput_async(offer->mm);
	}
	fput(file);
	return VM_FAULT_RETRY;
}

/* There is nothing: a page of the view's own. */
static vm_fault_t view_lose(struct view *view, struct vm_fault *vmf)
{
	WRITE_ONCE(view->head->lost, 1);
	smp_wmb(); /* who has read the page sees that it was lost */
	return vmf_insert_pfn(vmf->vma, vmf->address & PAGE_MASK, page_to_pfn(virt_to_page(view->blank)));
}

static vm_fault_t view_fault(struct vm_fault *vmf)
{
	struct view *view = view_of(vmf->vma);
	int status = -EAGAIN, tries;

	if (!vmf->pgoff)
		return vmf_insert_pfn(vmf->vma, vmf->address & PAGE_MASK, page_to_pfn(virt_to_page(view->head)));
	for (tries = 0; status == -EAGAIN && tries < TRIES_MAX; tries++)
		status = view_map(view, vmf);
	if (!status)
		return VM_FAULT_NOPAGE;
	/* What could not be had at once may be there after waiting; and once it was waited for, is not there. */
	if (status == -EAGAIN || (status != -ENOENT && !(vmf->flags & FAULT_FLAG_TRIED))) {
		if (vmf->flags & FAULT_FLAG_RETRY_NOWAIT)
			return VM_FAULT_RETRY;
		if (vmf->flags & FAULT_FLAG_ALLOW_RETRY)
			return view_wait(view, vmf);
		if (status == -EAGAIN)
			return VM_FAULT_NOPAGE;
	}
	/* It may be there: the access is tried anew, as where there is no memory for a page of one's own. */
	if (status == -ENOMEM)
		return VM_FAULT_OOM;
	return view_lose(view, vmf);
}

/* The kernel would write to the inode's list of mappings while it calls notifiers. */
static int view_may_split(struct vm_area_struct *vma, unsigned long address)
{
	return -EINVAL;
}

static const struct vm_operations_struct view_memory = {.fault = view_fault, .may_split = view_may_split};

/* ---- Views ------------------------------------------------------------------------------------ */

static int view_mmap(struct file *file, struct vm_area_struct *vma)
{
	const struct view *view = file->private_data;

	if (vma->vm_mm != view->mm)
		return -EPERM; /* see view_foresee */
	if (!(vma->vm_flags & VM_MAYSHARE) || (vma->vm_flags & VM_EXEC) || vma->vm_pgoff ||
	    vma_pages(vma) != view->offer->pages + 1)
		return -EINVAL;
	/* A child has none, and cannot be given any (VM_IO: MADV_DOFORK is refused). */
	compat_change_flags(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY, VM_MAYEXEC);
	vma->vm_ops = &view_memory;
	return 0;
}

static void view_free(struct view *view)
{
	struct offer *offer = view->offer;

	spin_lock(&offer->lock);
	list_del_init(&view->node);
	spin_unlock(&offer->lock);
	free_page((unsigned long)view->head);
	free_page((unsigned long)view->blank);
	mmdrop(view->mm);
	kfree(view);
	offer_put(offer);
}

static int view_release(struct inode *inode, struct file *file)
{
	view_free(file->private_data);
	return 0;
}

static const struct file_operations view_calls = {
	.owner = THIS_MODULE,
	.mmap = view_mmap,
	.release = view_release,
	.llseek = noop_llseek,
};

static bool foresee_invalidate(struct mmu_interval_notifier *notifier, const struct mmu_notifier_range *range,
			       unsigned long sequence)
{
	mmu_interval_set_seq(notifier, sequence);
	return true;
}

static const struct mmu_interval_notifier_ops foresee_calls = {.invalidate = foresee_invalidate};

/* A process gets its first notifier before it maps a view. For that the kernel takes all locks of its mappings at once
 * (mm_take_all_locks), the i_mmap_rwsem of views before those of its memory, which a child shares with its parent. In
 * reclaim these are taken first, then notifiers called, which want to zap views: both would wait for ever. */
static int view_foresee(void)
{
	struct mmu_interval_notifier notifier;
	int status = mmu_interval_notifier_insert(&notifier, current->mm, 0, PAGE_SIZE, &foresee_calls);

	if (!status)
		mmu_interval_notifier_remove(&notifier);
	return status;
}

/* Takes the reference over. */
static struct view *view_new(struct offer *offer, bool write)
{
	struct view *view = kzalloc(sizeof(*view), GFP_KERNEL_ACCOUNT);

	if (!view) {
		offer_put(offer);
		return NULL;
	}
	view->offer = offer;
	view->write = write;
	view->mm = current->mm;
	mmgrab(view->mm);
	INIT_LIST_HEAD(&view->node);
	view->head = (void *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	view->blank = (void *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
	if (!view->head || !view->blank) {
		view_free(view);
		return NULL;
	}
	spin_lock(&offer->lock);
	list_add(&view->node, &offer->views);
	view->head->ended = offer->ended;
	spin_unlock(&offer->lock);
	return view;
}

/* The offer, for whoever may attach it; with a reference. */
static struct offer *offer_find(const struct thole_driver_attach *attach)
{
	struct offer *offer;

	xa_lock(&offers);
	offer = xa_load(&offers, attach->number);
	if (offer)
		kref_get(&offer->references); /* what is in there has its region's */
	xa_unlock(&offers);
	if (offer && !crypto_memneq(offer->key, attach->key, sizeof(offer->key)) &&
	    uid_eq(offer->uid, current_euid()) && !(attach->flags & ~offer->flags))
		return offer;
	if (offer)
		offer_put(offer);
	return NULL;
}

struct file *attach_view(struct thole_driver_attach *attach)
{
	bool write = attach->flags & THOLE_DRIVER_WRITE;
	struct offer *offer = offer_find(attach);
	struct file *file;
	struct view *view;
	int status;

	if (!offer)
		return ERR_PTR(-EACCES);
	status = view_foresee();
	if (status) {
		offer_put(offer);
		return ERR_PTR(status);
	}
	view = view_new(offer, write);
	if (!view)
		return ERR_PTR(-ENOMEM);
	__module_get(THIS_MODULE); /* the file's, which it gives back */
	ihold(offer->inode);
	file = alloc_file_pseudo(offer->inode, mount, "thole", write ? O_RDWR : O_RDONLY, &view_calls);
	if (IS_ERR(file)) {
		iput(offer->inode);
		module_put(THIS_MODULE);
		view_free(view);
		return file;
	}
	file->private_data = view;
	attach->length = offer->length;
	attach->offset = PAGE_SIZE + offer->within;
	return file;
}
