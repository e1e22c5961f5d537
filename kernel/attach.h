/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * attach: processes map regions of other processes.
 *
 * Owns offers of regions, views of them (a descriptor that is mapped), and what a view shows. Does not own regions
 * (pages.c), and pins nothing: a view is a second page table for the owner's memory. A page is found when it is
 * touched, and goes from all views before the owner's mapping changes, whatever the reason (offer_invalidate).
 *
 * Who may attach: whoever has the key of an offer, which the owner tells, and is the same user. What cannot be shown,
 * since the owner has no memory there or has withdrawn the offer, is a page of the view's own, and `lost` says so:
 * nobody gets a signal for what another process did.
 *
 * Locks, outer first:
 *   mmap_lock of who touches a view; then the owner's, only if it is free at once, or else without the first
 *   offers_lock   mutex: whether a region has an offer
 *   offer.lock    spinlock: `ended`, views, and which pages are mapped by any; views' page tables are written under it
 * i_mmap_rwsem of an offer's inode is taken by the kernel to map, unmap and zap views. Nobody calls a notifier while it
 * writes there, since views cannot be split (view_may_split); nor waits then for a lock under which notifiers are
 * called, since who maps a view has had his first notifier before (view_foresee). And a zap of a view calls no notifier
 * that zaps again, since what is mapped in a view is never found for another one.
 */
#ifndef THOLE_KERNEL_ATTACH_H
#define THOLE_KERNEL_ATTACH_H

#include "pages.h"

/* Let others attach the region; what they have to know goes to *offer. */
int attach_offer(struct pages *pages, struct thole_driver_offer *offer);

/* Take that back: nobody sees the region any more when it returns. ENOENT: it is not offered. */
int attach_withdraw(struct pages *pages);

/* Make a view. Returns its file, which is not installed as a descriptor yet. */
struct file *attach_view(struct thole_driver_attach *attach);

#endif
