/* SPDX-License-Identifier: BSD-3-Clause */
/* What the verbs transport learns of a machine: the trip to a peer, the wire's rate, the caps of chunks. */
#include "transport/verbs/choose.h"

#include <math.h>

#include "unit.h"

enum { LENGTH = 1 << 20, LONGEST = 65536, MESSAGES = 20 };

static struct choose choose;

static void begin(uint64_t latency_ns, uint32_t rate)
{
	choose_init(&choose, latency_ns, rate);
	choose_copied(&choose, 65536, LENGTH, 6554); /* 10 GB/s */
}

/* Whatever is said of it first, the trip is known soon; and a peer that answers late now and then does not matter. */
static void test_trip(void **state)
{
	static const uint64_t hints[] = {0, 200, 3000, 60000};
	const uint64_t trip_ns = 6000;

	(void)state;
	for (size_t i = 0; i < sizeof(hints) / sizeof(*hints); i++) {
		begin(hints[i], 0);
		for (int n = 0; n < 5 * MESSAGES; n++) {
			/* The answer is not seen before the first chunk, as long as the trip, is copied. */
			uint64_t copied_ns = choose.trip_ns, seen_ns = n % 5 == 4 ? 40 * trip_ns : trip_ns;

			choose_trip(&choose, seen_ns > copied_ns ? seen_ns : copied_ns + 50, seen_ns <= copied_ns);
			if (n >= MESSAGES)
				assert_in_range(choose.trip_ns, trip_ns / 2, 2 * trip_ns);
		}
	}
	begin(0, 0);
	for (int n = 0; n < 200; n++)
		choose_trip(&choose, UINT64_MAX / 2, false);
	assert_true(choose.trip_ns <= 1000000);
}

static void test_rate(void **state)
{
	(void)state;
	begin(0, 12000);
	assert_int_equal(choose_rate(&choose), 12000);
	choose_carried(&choose, LENGTH, LENGTH / 11);
	assert_int_equal(choose_rate(&choose), 12000); /* that is what it says, less what else it takes */
	choose_carried(&choose, 1000, 1);
	assert_int_equal(choose_rate(&choose), 12000); /* too short to say anything */
	begin(0, 12000);
	choose_carried(&choose, LENGTH, LENGTH / 3);
	assert_in_range(choose_rate(&choose), 2900, 3100);
	for (int i = 0; i < MESSAGES; i++)
		choose_carried(&choose, LENGTH, LENGTH); /* others use it now and then */
	assert_in_range(choose_rate(&choose), 2000, 3000);
	choose_carried(&choose, LENGTH, LENGTH / 20);
	assert_in_range(choose_rate(&choose), 19900, 20100);
}

/* What a transfer takes whose best cap is this one: equation 3's sum. */
static uint64_t transfer_ns(uint32_t cap, uint32_t best)
{
	return 100000 + 20000ull * cap / best + 20000ull * best / cap;
}

static void test_caps(void **state)
{
	struct plan plan;

	(void)state;
	for (uint32_t best = 14000; best <= LONGEST; best += best / 3) {
		uint64_t sum_ns = 0;
		uint32_t cap;

		begin(1000, 12000);
		for (int i = 0; i < MESSAGES; i++) {
			choose_plan(&choose, LENGTH, false, LONGEST, &plan);
			cap = choose_cap(&choose, LENGTH, LONGEST, &plan);
			assert_in_range(plan.cap, PLAN_UNIT, LONGEST);
			/* Once in a while something else was in the way. */
			choose_cap_measured(&choose, LENGTH, cap, transfer_ns(plan.cap, best) * (i % 7 == 3 ? 3 : 1));
		}
		for (int i = 0; i < MESSAGES; i++) {
			cap = choose_cap(&choose, LENGTH, LONGEST, &plan);
			choose_cap_measured(&choose, LENGTH, cap, transfer_ns(plan.cap, best));
			sum_ns += transfer_ns(plan.cap, best);
		}
		assert_true(sum_ns * 100 <= transfer_ns(best, best) * MESSAGES * 105);
		choose_cap_told(&choose, LENGTH, plan.cap);
		choose_plan(&choose, LENGTH, false, LONGEST, &plan);
		assert_true(plan.first <= plan.cap && fabs(log2((double)plan.cap / best)) < 1.01);
	}
}

/* The machine changes: another cap is found. */
static void test_caps_again(void **state)
{
	uint32_t cap;
	struct plan plan = {.flags = false};

	(void)state;
	begin(1000, 12000);
	for (int i = 0; i < 2000; i++) {
		cap = choose_cap(&choose, LENGTH, LONGEST, &plan);
		choose_cap_measured(&choose, LENGTH, cap, transfer_ns(plan.cap, i < 100 ? 60000 : 15000));
		if (i == 99)
			assert_true(plan.cap > 40000);
	}
	assert_true(plan.cap < 30000);
}

/* One peer's bays are longer than another's: what it has asked for is no measure for that one. */
static void test_caps_told(void **state)
{
	struct plan plan;

	(void)state;
	begin(1000, 12000);
	choose_cap_told(&choose, LENGTH, LONGEST);
	choose_plan(&choose, LENGTH, true, LONGEST / 2, &plan);
	assert_in_range(plan.cap, PLAN_UNIT, LONGEST / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trip),
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_caps),
		cmocka_unit_test(test_caps_again),
		cmocka_unit_test(test_caps_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
