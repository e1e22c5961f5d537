/* SPDX-License-Identifier: BSD-3-Clause */
/* Arrays that grow. */
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/array.h"

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

static bool refuse;
static unsigned calls;

void *__wrap_realloc(void *old, size_t size)
{
	calls++;
	return refuse ? NULL : __real_realloc(old, size);
}

static void elements__stay_as_it_grows(void **state)
{
	uint32_t *elements = NULL, capacity = 0;

	(void)state;
	calls = 0;
	for (uint32_t count = 0; count < 1000; count++) {
		elements = array_reserve(elements, &capacity, count + 1, sizeof(*elements));
		assert_non_null(elements);
		assert_in_range(capacity, count + 1, 2 * (count + 1) + ARRAY_FIRST);
		elements[count] = count;
	}
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(elements[i], i);
	assert_int_equal(capacity, 1024);
	assert_int_equal(calls, 8); /* 8, 16 ... 1024 */
	free(elements);
}

static void room__for_many_is_made_at_once(void **state)
{
	uint64_t *elements;
	uint32_t capacity = 0;

	(void)state;
	calls = 0;
	elements = array_reserve(NULL, &capacity, 1000, sizeof(*elements));
	assert_non_null(elements);
	assert_int_equal(capacity, 1024);
	assert_int_equal(calls, 1);
	assert_ptr_equal(array_reserve(elements, &capacity, 1024, sizeof(*elements)), elements);
	assert_int_equal(calls, 1);
	free(elements);
}

static void refused_memory__leaves_it_as_it_was(void **state)
{
	uint32_t *elements, capacity = 0;

	(void)state;
	elements = array_reserve(NULL, &capacity, 1, sizeof(*elements));
	assert_non_null(elements);
	elements[0] = 7;
	refuse = true;
	assert_null(array_reserve(elements, &capacity, ARRAY_FIRST + 1, sizeof(*elements)));
	refuse = false;
	assert_int_equal(capacity, ARRAY_FIRST);
	assert_int_equal(elements[0], 7);
	free(elements);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(elements__stay_as_it_grows),
		cmocka_unit_test(room__for_many_is_made_at_once),
		cmocka_unit_test(refused_memory__leaves_it_as_it_was),
	};

	return cmocka_run_group_tests_name("array", tests, NULL, NULL);
}
