/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunks of a superpipeline: their sum, their number (equation 7), their cap, and how they lie in bays. */
#include "transport/verbs/plan.h"

#include <math.h>

#include "unit.h"

static uint32_t count(const struct plan *plan, uint64_t from, uint64_t length)
{
	struct plan_walk walk;
	uint64_t at = from;
	uint32_t n = 0;

	for (plan_begin(&walk, plan, from, length); walk.length > 0; plan_next(&walk), n++) {
		assert_true(walk.at == at);
		assert_true(walk.length <= plan->cap);
		at += walk.length;
	}
	assert_true(at == length);
	return n;
}

/* n = log_q(1 + L / C0 (q - 1)), and the last chunk is what is left. */
static void test_equation(void **state)
{
	(void)state;
	for (uint32_t growth = PLAN_ONE + 64; growth < 3 * PLAN_ONE; growth += 500)
		for (uint64_t length = 65536; length <= 64 << 20; length += length / 3) {
			struct plan plan = {.first = 12288, .cap = PLAN_LENGTH_MAX, .growth = growth};
			double q = (double)growth / PLAN_ONE;
			double n = log(1 + (double)length / plan.first * (q - 1)) / log(q);

			if (fabs(n - round(n)) > 1e-6)
				assert_int_equal(count(&plan, 0, length), (uint32_t)ceil(n));
		}
}

static void test_cap(void **state)
{
	const struct plan flat = {.first = 4096, .cap = 4096, .growth = PLAN_ONE};
	const struct plan capped = {.first = 4096, .cap = 16384, .growth = 2 * PLAN_ONE};

	(void)state;
	assert_int_equal(count(&flat, 0, 1), 1);
	assert_int_equal(count(&flat, 0, 4096), 1);
	assert_int_equal(count(&flat, 0, 4097), 2);
	assert_int_equal(count(&capped, 0, 4096 + 8192 + 3 * 16384), 5);
	assert_int_equal(count(&capped, 4096, 2 * 4096 + 1), 2); /* it grows anew from where it begins */
}

static void test_word(void **state)
{
	const struct plan plan = {.first = 12288, .cap = PLAN_LENGTH_MAX, .growth = PLAN_GROWTH_MAX, .flags = true};
	const struct plan none = {.first = 64, .cap = 64, .growth = PLAN_ONE - 1};
	struct plan again;

	(void)state;
	assert_true(plan_unpack(plan_pack(&plan), &again));
	assert_int_equal(again.first, plan.first);
	assert_int_equal(again.cap, plan.cap);
	assert_int_equal(again.growth, plan.growth);
	assert_true(again.flags);
	assert_false(plan_unpack(plan_pack(&none), &again));
	assert_false(plan_unpack(UINT64_C(0x7fffffffffff), &again)); /* an address */
	assert_false(plan_unpack(UINT64_C(1) << 63, &again));
}

static void test_blocks(void **state)
{
	struct plan plan = {.flags = true};

	(void)state;
	assert_int_equal(plan_room(&plan, 1), PLAN_BLOCK);
	assert_int_equal(plan_room(&plan, PLAN_DATA), PLAN_BLOCK);
	assert_int_equal(plan_room(&plan, PLAN_DATA + 1), 2 * PLAN_BLOCK);
	for (uint32_t bay = PLAN_BLOCK; bay < 1 << 20; bay += 1000)
		assert_true(plan_room(&plan, plan_fits(true, bay)) <= bay);
	plan.flags = false;
	assert_int_equal(plan_room(&plan, 777), 777);
	assert_int_equal(plan_fits(false, 65536), 65536);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equation),
		cmocka_unit_test(test_cap),
		cmocka_unit_test(test_word),
		cmocka_unit_test(test_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
