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

enum { READ_NS = 100000, PIPELINE_NS = 150000 };
static const uint64_t stopped_ns[] = {2000000, 10000000, 1000000000, UINT64_C(3600000000000)};

/* Messages whose way is chosen; the slow-th by the way `late` takes much longer. Returns how many were reads. */
static int ways(int count, uint64_t read_ns, uint64_t pipeline_ns, enum choose_way late, int slow, uint64_t slow_ns)
{
	int taken[CHOOSE_WAYS] = {0};

	for (int i = 0; i < count; i++) {
		enum choose_way way = choose_way(&choose, LENGTH, true, true);
		bool is_slow = way == late && taken[way] == slow;

		taken[way]++;
		choose_measured(&choose, way, true, LENGTH,
				is_slow ? slow_ns : way == CHOOSE_READ ? read_ns : pipeline_ns);
	}
	return taken[CHOOSE_READ];
}

/* One message that took long, since a process was stopped or computed, does not decide which way is taken from then on:
 * not amid others, nor as one of the first. */
static void test_ways__one_is_late(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(stopped_ns) / sizeof(*stopped_ns); i++) {
		begin(2000, 12500);
		ways(1000, READ_NS, PIPELINE_NS, CHOOSE_LEARN, 0, 0);
		assert_in_range(ways(200, READ_NS, PIPELINE_NS, CHOOSE_READ, 50, stopped_ns[i]), 185, 200);
		for (int slow = 0; slow < 10; slow++)
			for (enum choose_way late = CHOOSE_READ; late <= CHOOSE_PIPELINE; late++) {
				begin(2000, 12500);
				ways(10000, READ_NS, PIPELINE_NS, late, slow, stopped_ns[i]);
				assert_in_range(ways(200, READ_NS, PIPELINE_NS, CHOOSE_LEARN, 0, 0), 185, 200);
			}
	}
}

/* What a way takes changes: that is noticed, also of the other one, and however much slower that was. */
static void test_ways__again(void **state)
{
	static const uint64_t before_ns[] = {2 * PIPELINE_NS, 10 * PIPELINE_NS, 1000 * PIPELINE_NS};

	(void)state;
	for (size_t i = 0; i < sizeof(before_ns) / sizeof(*before_ns); i++) {
		begin(2000, 12500);
		assert_in_range(ways(1000, before_ns[i], PIPELINE_NS, CHOOSE_LEARN, 0, 0), 1, 1000 / 10);
		ways(200000, READ_NS, PIPELINE_NS, CHOOSE_LEARN, 0, 0);
		assert_in_range(ways(1000, READ_NS, PIPELINE_NS, CHOOSE_LEARN, 0, 0), 950, 1000);
	}
}

/* The dearer the other way seems, the more seldom it is tried: all that costs little. */
static void test_ways__tries_are_cheap(void **state)
{
	(void)state;
	for (uint64_t times = 2; times <= 64; times *= 2) {
		int reads;

		begin(2000, 12500);
		ways(1000, times * PIPELINE_NS, PIPELINE_NS, CHOOSE_LEARN, 0, 0);
		reads = ways(100000, times * PIPELINE_NS, PIPELINE_NS, CHOOSE_LEARN, 0, 0);
		assert_in_range(reads, 1, 100000 / 30 / times);
	}
}

/* Memory that is used twice, each at another address. Returns how often it is kept, and registered. */
static int keeps(int count, uint64_t took_ns)
{
	static uint64_t address;
	int kept = 0;

	for (int i = 0; i < count; i++) {
		address += LENGTH;
		assert_false(choose_keep(&choose, address, LENGTH));
		if (!choose_keep(&choose, address, LENGTH))
			continue;
		kept++;
		choose_registered(&choose, LENGTH, took_ns);
	}
	return kept;
}

/* Nor does one registration that took long end that memory is kept. */
static void test_keep__one_is_late(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(stopped_ns) / sizeof(*stopped_ns); i++)
		for (int is_short = 0; is_short < 2; is_short++) {
			begin(2000, 12500);
			ways(1000, READ_NS, PIPELINE_NS, CHOOSE_LEARN, 0, 0);
			choose.found = 100000;
			assert_int_equal(keeps(100, READ_NS), 100);
			choose_registered(&choose, is_short ? 65536 : LENGTH, stopped_ns[i]);
			assert_int_equal(keeps(100, READ_NS), 100);
		}
}

/* What was kept for nothing is not kept any more, but now and then: so that is noticed when it would pay again. */
static void test_keep__again(void **state)
{
	int kept;

	(void)state;
	begin(2000, 12500);
	ways(1000, READ_NS, PIPELINE_NS, CHOOSE_LEARN, 0, 0);
	keeps(2000, READ_NS);
	kept = keeps(10000, READ_NS);
	assert_in_range(kept, 1, 10000 / 60);
	choose.found += 40 * (uint32_t)kept; /* these were of use */
	keeps(10000, READ_NS);
	choose.found += 100000;
	assert_in_range(keeps(1000, READ_NS), 900, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trip),
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_caps),
		cmocka_unit_test(test_caps_again),
		cmocka_unit_test(test_caps_told),
		cmocka_unit_test(test_ways__one_is_late),
		cmocka_unit_test(test_ways__again),
		cmocka_unit_test(test_ways__tries_are_cheap),
		cmocka_unit_test(test_keep__one_is_late),
		cmocka_unit_test(test_keep__again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
