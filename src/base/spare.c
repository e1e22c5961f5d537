/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/spare.h"

#include <stdlib.h>

/* Before each block. */
struct spare {
	_Alignas(max_align_t) struct spare *next; /* of those that are kept */
	uint32_t class;                           /* SPARE_CLASSES: it is not to be kept */
};

static uint32_t spare_class(uint64_t length)
{
	uint32_t class = length > 1 ? 64u - (uint32_t)__builtin_clzll(length - 1) : 0;

	return class > SPARE_CLASS_MIN && class <= SPARE_CLASS_MAX ? class - SPARE_CLASS_MIN - 1 : SPARE_CLASSES;
}

static uint64_t spare_length(uint32_t class)
{
	return UINT64_C(1) << (class + SPARE_CLASS_MIN + 1);
}

void *spare_get(struct spares *spares, uint64_t length)
{
	uint32_t class = spare_class(length);
	struct spare *spare;

	if (class < SPARE_CLASSES && spares->kept[class]) {
		spare = spares->kept[class];
		spares->kept[class] = spare->next;
		spares->bytes -= spare_length(class);
		return spare + 1;
	}
	if (class < SPARE_CLASSES)
		length = spare_length(class);
	spare = length <= SIZE_MAX - sizeof(*spare) ? malloc(sizeof(*spare) + length) : NULL;
	if (!spare)
		return NULL;
	spare->class = class;
	return spare + 1;
}

void spare_put(struct spares *spares, void *block)
{
	struct spare *spare = block;

	if (!block)
		return;
	spare--;
	if (spare->class == SPARE_CLASSES || spares->bytes + spare_length(spare->class) > SPARE_KEPT_MAX) {
		free(spare);
		return;
	}
	spare->next = spares->kept[spare->class];
	spares->kept[spare->class] = spare;
	spares->bytes += spare_length(spare->class);
}

void spare_fini(struct spares *spares)
{
	for (uint32_t class = 0; class < SPARE_CLASSES; class++) {
		while (spares->kept[class]) {
			struct spare *spare = spares->kept[class];

			spares->kept[class] = spare->next;
			free(spare);
		}
	}
	spares->bytes = 0;
}
