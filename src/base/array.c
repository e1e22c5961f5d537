/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/array.h"

#include <stdlib.h>

void *array_reserve(void *elements, uint32_t *capacity_p, uint32_t count, size_t size)
{
	uint32_t capacity = *capacity_p ? *capacity_p : ARRAY_FIRST;

	if (count <= *capacity_p)
		return elements;
	while (capacity < count)
		capacity *= 2;
	elements = realloc(elements, capacity * size);
	if (elements)
		*capacity_p = capacity;
	return elements;
}
