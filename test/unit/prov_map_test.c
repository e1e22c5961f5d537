/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps: what was set is there, nothing else is, and a map survives that there is no memory. */
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>

#include "prov_compat.h"
#include "prov_map.h"

static bool refuse; /* memory */

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_realloc(void *old, size_t size)
{
	return refuse ? NULL : __real_realloc(old, size);
}

static void map__has_what_was_set(void **state)
{
	struct prov_map *map = NULL;

	(void)state;
	assert_int_equal(prov_map_set(&map, 3, 30), 0);
	for (size_t i = 0; i < 100; i++)
		assert_true(prov_map_get(map, i) == (i == 3 ? 30 : PROV_NONE));
	assert_int_equal(prov_map_set(&map, map->count, 7), 0); /* the first behind its end */
	assert_int_equal(prov_map_set(&map, 1000, 1), 0);
	assert_true(prov_map_get(map, 3) == 30 && prov_map_get(map, 8) == 7 &&
		    prov_map_get(map, 1000) == 1);
	assert_true(prov_map_get(map, 4) == PROV_NONE && prov_map_get(map, 999) == PROV_NONE);
	assert_true(prov_map_get(map, 1001) == PROV_NONE);
	assert_true(prov_map_get(map, FI_ADDR_UNSPEC) == PROV_NONE);
	assert_int_equal(prov_map_set(&map, 3, PROV_NONE), 0);
	assert_true(prov_map_get(map, 3) == PROV_NONE);
	free(map);
}

static void map__is_whole_without_memory(void **state)
{
	struct prov_map *map = NULL;

	(void)state;
	assert_int_equal(prov_map_set(&map, 0, 5), 0);
	refuse = true;
	assert_int_equal(prov_map_set(&map, 1000, 1), -FI_ENOMEM);
	assert_int_equal(prov_map_set(&map, 7, 70), 0); /* for which there is room */
	refuse = false;
	assert_true(prov_map_get(map, 0) == 5 && prov_map_get(map, 7) == 70 &&
		    prov_map_get(map, 1000) == PROV_NONE);
	assert_int_equal(prov_map_set(&map, PROV_NONE, 1), -FI_ENOMEM);
	free(map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(map__has_what_was_set),
		cmocka_unit_test(map__is_whole_without_memory),
	};

	return cmocka_run_group_tests_name("prov_map", tests, NULL, NULL);
}
