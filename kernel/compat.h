/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * compat: what differs between the kernels that this is compiled for, 6.1 and later. Nothing else asks for a version.
 */
#ifndef THOLE_KERNEL_COMPAT_H
#define THOLE_KERNEL_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/version.h>
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#include <asm/unaligned.h>
#else
#include <linux/unaligned.h>
#endif

/* Pages of another process's, whose mmap_lock the caller holds, and keeps. So what would have to let go of it to wait,
 * such as for whoever answers a userfault, is EFAULT. */
static inline long compat_pin_remote(struct mm_struct *mm, unsigned long address, unsigned long pages,
				     unsigned int flags, struct page **pages_p)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
	return pin_user_pages_remote(mm, address, pages, flags, pages_p, NULL, NULL);
#else
	return pin_user_pages_remote(mm, address, pages, flags, pages_p, NULL);
#endif
}

/* Pages of the running process's. Before 6.3 nobody waited for whoever answers a userfault; so ask for the memory as
 * the process itself would, and try again. */
static inline long compat_pin_own(unsigned long address, unsigned long pages, unsigned int flags,
				  struct page **pages_p)
{
	long got = pin_user_pages_fast(address, pages, flags, pages_p);
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	const char __user *memory = (const char __user *)address;

	/* Not fault_in_writeable, which writes. */
	if (got == -EFAULT && !(flags & FOLL_WRITE ? fault_in_safe_writeable(memory, PAGE_SIZE) :
						     fault_in_readable(memory, PAGE_SIZE)))
		got = pin_user_pages_fast(address, pages, flags, pages_p);
#endif
	return got;
}

/* The same without pins; and where `locked_p` is not NULL, it waits, and says whether the lock is still held. */
static inline long compat_get_remote(struct mm_struct *mm, unsigned long address, unsigned long pages,
				     unsigned int flags, struct page **pages_p, int *locked_p)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
	return get_user_pages_remote(mm, address, pages, flags, pages_p, NULL, locked_p);
#else
	return get_user_pages_remote(mm, address, pages, flags, pages_p, locked_p);
#endif
}

/* Let go of what who touches memory holds: VM_FAULT_RETRY follows. */
static inline void compat_leave_fault(struct vm_fault *vmf)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
	mmap_read_unlock(vmf->vma->vm_mm);
#else
	release_fault_lock(vmf);
#endif
}

static inline void compat_change_flags(struct vm_area_struct *vma, vm_flags_t set, vm_flags_t clear)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
#else
	vm_flags_mod(vma, set, clear);
#endif
}

static inline struct shrinker *compat_shrinker(unsigned long (*count)(struct shrinker *, struct shrink_control *),
					       unsigned long (*scan)(struct shrinker *, struct shrink_control *))
{
	struct shrinker *shrinker;

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
	shrinker = kzalloc(sizeof(*shrinker), GFP_KERNEL);
#else
	shrinker = shrinker_alloc(0, "thole");
#endif
	if (!shrinker)
		return NULL;
	shrinker->count_objects = count;
	shrinker->scan_objects = scan;
	shrinker->seeks = DEFAULT_SEEKS;
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
	if (register_shrinker(shrinker, "thole")) {
		kfree(shrinker);
		return NULL;
	}
#else
	shrinker_register(shrinker);
#endif
	return shrinker;
}

static inline void compat_shrinker_free(struct shrinker *shrinker)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
	unregister_shrinker(shrinker);
	kfree(shrinker);
#else
	shrinker_free(shrinker);
#endif
}

static inline void compat_timer(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *),
				clockid_t clock, enum hrtimer_mode mode)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
	hrtimer_init(timer, clock, mode);
	timer->function = function;
#else
	hrtimer_setup(timer, function, clock, mode);
#endif
}

#endif
