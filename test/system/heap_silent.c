/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * heap-silent: a program under the library that thole run --shared-heap preloads, and linked to an allocator that
 * tells nobody how long its blocks are: what it has allocated stays whole. Nor has that a memalign: what is aligned is
 * its own all the same.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ranks.h"

enum { SMALL = 1000, LARGE = 1 << 20 };

int main(void)
{
	unsigned char *memory = malloc(SMALL);
	void *aligned, *volatile other; /* or the compiler would leave it out */

	CHECK(memory);
	memset(memory, 1, SMALL);
	memory = realloc(memory, LARGE);
	CHECK(memory);
	for (int i = 0; i < SMALL; i++)
		CHECK_EQUAL(memory[i], 1);
	memory = realloc(memory, SMALL);
	CHECK(memory && memory[SMALL - 1] == 1);
	free(memory);
	CHECK_EQUAL(posix_memalign(&aligned, 256, SMALL), 0);
	CHECK_EQUAL((uintptr_t)aligned % 256, 0);
	free(aligned);
	other = aligned_alloc(256, SMALL);
	CHECK_EQUAL((uintptr_t)other % 256, 0);
	free(other);
	return 0;
}
