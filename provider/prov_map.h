/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_map.h - maps of numbers to numbers, that grow.
 *
 * count is the capacity: every entry below it is there, PROV_NONE where nothing was set. A map
 * exists once the first set has worked. Used under the domain's lock.
 */
#ifndef PROV_MAP_H
#define PROV_MAP_H

#include <stddef.h>
#include <stdint.h>

enum { PROV_NONE = UINT32_MAX }; /* no such peer or entry; equal to THOLE_ANY */

struct prov_map {
	size_t count; /* of values */
	uint32_t values[];
};

static inline uint32_t prov_map_get(const struct prov_map *map, uint64_t index)
{
	return __builtin_expect(index < map->count, 1) ? map->values[index] : (uint32_t)PROV_NONE;
}

/* 0 or -FI_ENOMEM, with the map as it was. NULL at *map_p is an empty one. */
int prov_map_set(struct prov_map **map_p, size_t index, uint32_t value);

#endif /* PROV_MAP_H */
