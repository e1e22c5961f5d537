/* SPDX-License-Identifier: BSD-3-Clause */
#include "prov_map.h"

#include <stdlib.h>
#include <string.h>

#include "prov_compat.h"

static int prov_map_grow(struct prov_map **map_p, size_t old, size_t count)
{
	struct prov_map *map = realloc(*map_p, sizeof *map + count * sizeof map->values[0]);

	if (!map)
		return -FI_ENOMEM;
	memset(map->values + old, 0xff, (count - old) * sizeof map->values[0]);
	map->count = count;
	*map_p = map;
	return 0;
}

int prov_map_set(struct prov_map **map_p, size_t index, uint32_t value)
{
	size_t old = *map_p ? (*map_p)->count : 0;
	size_t count = old ? old : 8;
	int error;

	if (index >= PROV_NONE)
		return -FI_ENOMEM;
	while (count <= index)
		count *= 2;
	if (count > old) {
		error = prov_map_grow(map_p, old, count);
		if (error)
			return error;
	}
	(*map_p)->values[index] = value;
	return 0;
}
