/* SPDX-License-Identifier: BSD-3-Clause */
/* blocks: see blocks.h. */
#include "base/blocks.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>

#include "base/atomic.h"
#include "base/error.h"
#include "thole.h"

enum { LINE = 64 };

const struct arena_calls *blocks(void)
{
	static const struct arena_calls *calls; /* the same for whoever comes first */
	const struct arena_calls *found = load_acquire(&calls); /* partner: below */

	if (!found) {
		const struct arena_calls *(*preloaded)(void) =
			(const struct arena_calls *(*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, BLOCKS_SYMBOL);

		found = preloaded ? preloaded() : NULL;
		if (!found || found->version != ARENA_VERSION)
			found = &arena_calls;
		store_release(&calls, found); /* partner: above */
	}
	return found;
}

int thole_alloc(size_t length, void **memory_p)
{
	bool zero;

	*memory_p = length >= ARENA_GRANULE ? blocks()->alloc(length, LINE, &zero) : NULL;
	if (*memory_p)
		return 0;
	*memory_p = memalign(LINE, length ? length : 1);
	return *memory_p ? 0 : error_set(THOLE_ERR_MEMORY, "no memory for %zu bytes", length);
}

void thole_free(void *memory)
{
	if (!blocks()->free(memory))
		free(memory);
}
