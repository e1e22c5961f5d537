// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
#include "mapped.h"

#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "compat.h"

int mapped_new(struct mapped *mapped, size_t bytes)
{
	u32 pages = PAGE_ALIGN(bytes) >> PAGE_SHIFT;

	*mapped = (struct mapped){.pages = kvcalloc(pages, sizeof(*mapped->pages), GFP_KERNEL_ACCOUNT)};
	if (!mapped->pages)
		return -ENOMEM;
	for (; mapped->count < pages; mapped->count++) {
		mapped->pages[mapped->count] = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
		if (!mapped->pages[mapped->count])
			break;
	}
	if (mapped->count == pages)
		mapped->at = vmap(mapped->pages, pages, VM_MAP, PAGE_KERNEL);
	if (mapped->at)
		return 0;
	mapped_free(mapped);
	return -ENOMEM;
}

void mapped_free(struct mapped *mapped)
{
	vunmap(mapped->at);
	while (mapped->count)
		__free_page(mapped->pages[--mapped->count]);
	kvfree(mapped->pages);
	*mapped = (struct mapped){0};
}

int mapped_show(const struct mapped *mapped, struct vm_area_struct *vma)
{
	compat_change_flags(vma, VM_DONTEXPAND | VM_DONTDUMP, vma->vm_flags & VM_WRITE ? 0 : VM_MAYWRITE);
	return vm_map_pages_zero(vma, mapped->pages, mapped->count);
}
