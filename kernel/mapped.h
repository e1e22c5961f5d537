/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * mapped: memory that the kernel shares with a process by mmap, charged to the process's memory cgroup.
 *
 * What a process can write there is a stranger's: who reads it, reads it once, and checks what was read.
 */
#ifndef THOLE_KERNEL_MAPPED_H
#define THOLE_KERNEL_MAPPED_H

#include <linux/mm_types.h>

struct mapped {
	void *at; /* NULL: there is none */
	struct page **pages;
	u32 count; /* of pages */
};

/* Zeros, of whole pages. */
int mapped_new(struct mapped *mapped, size_t bytes);
void mapped_free(struct mapped *mapped);

/* Show it from its beginning, or a part of it. What is not to be written now cannot be made writable later. */
int mapped_show(const struct mapped *mapped, struct vm_area_struct *vma);

#endif
