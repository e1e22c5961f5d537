/* SPDX-License-Identifier: BSD-3-Clause */
/* How often polls that find nothing read the clock, and when there is maintenance: the rule by itself, with given
 * times, and the polls of an endpoint that waits and of one that talks. */
#include "unit.h"

#include <time.h>

#include "base/clock.h"
#include "endpoint/cadence.h"
#include "endpoint/endpoint.h"
#include "pair.h"

static const struct cadence stranger = {.polls = CADENCE_POLLS_MIN};

/* Idle polls, each so long after the one before, until one reads the clock: how many there were. */
static unsigned polls_to_read(struct cadence *cadence, uint64_t *now_ns, uint64_t gap_ns, uint32_t found)
{
	unsigned polls = 0;

	do {
		*now_ns += gap_ns;
		polls++;
	} while (!cadence_is_due(cadence));
	cadence_read(cadence, *now_ns, found);
	return polls;
}

/* Quick polls read the clock ever more rarely, up to a bound; once they are slow, often again. */
static void clock__by_pace(void **state)
{
	struct cadence cadence = stranger;
	uint64_t now_ns = 1000000000;

	(void)state;
	assert_int_equal(polls_to_read(&cadence, &now_ns, 10, 0), 1);
	assert_int_equal(polls_to_read(&cadence, &now_ns, 10, 0), CADENCE_POLLS_MIN);
	for (unsigned polls = 2 * CADENCE_POLLS_MIN; polls <= CADENCE_POLLS_MAX; polls *= 2)
		assert_int_equal(polls_to_read(&cadence, &now_ns, 10, 0), polls);
	assert_int_equal(polls_to_read(&cadence, &now_ns, 10, 0), CADENCE_POLLS_MAX);
	assert_int_equal(polls_to_read(&cadence, &now_ns, CADENCE_LATE_NS, 0), CADENCE_POLLS_MAX);
	assert_int_equal(polls_to_read(&cadence, &now_ns, CADENCE_LATE_NS, 0), CADENCE_POLLS_MIN);
	assert_int_equal(polls_to_read(&cadence, &now_ns, 10, 0), CADENCE_POLLS_MIN);
}

/* What is neither quick nor slow changes nothing. */
static void clock__stays(void **state)
{
	struct cadence cadence = stranger;
	uint64_t now_ns = 1000000000;

	(void)state;
	polls_to_read(&cadence, &now_ns, 10, 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(polls_to_read(&cadence, &now_ns, CADENCE_SOON_NS / CADENCE_POLLS_MIN, 0),
				 CADENCE_POLLS_MIN);
}

/* Polls that are known to read no clock are not asked about, and count as those that are. */
static void clock__skipped(void **state)
{
	struct cadence cadence = stranger;
	uint64_t now_ns = 1000000000;

	(void)state;
	polls_to_read(&cadence, &now_ns, 10, 0);
	cadence_skip(&cadence, 5);
	assert_int_equal(polls_to_read(&cadence, &now_ns, 10, 0), CADENCE_POLLS_MIN - 5);
	cadence_skip(&cadence, cadence.left);
	assert_int_equal(polls_to_read(&cadence, &now_ns, 10, 0), 1);
}

/* A reading for another reason counts, too. */
static void clock__read_sooner(void **state)
{
	struct cadence cadence = stranger;
	uint64_t now_ns = 1000000000;

	(void)state;
	polls_to_read(&cadence, &now_ns, 10, 0);
	now_ns += CADENCE_SOON_NS;
	assert_false(cadence_is_due(&cadence));
	cadence_read(&cadence, now_ns, 0);
	assert_int_equal(polls_to_read(&cadence, &now_ns, 10, 0), CADENCE_POLLS_MIN);
}

/* Maintenances of so many readings, each so long after the one before; `comes`: something is found before each of so
 * many. */
static unsigned maintenances(struct cadence *cadence, unsigned readings, uint64_t gap_ns, unsigned comes, bool shared)
{
	unsigned count = 0;
	uint64_t now_ns = cadence->read_ns;
	uint32_t found = cadence->found;

	for (unsigned i = 0; i < readings; i++) {
		now_ns += gap_ns;
		found += comes > 0 && i % comes == 0;
		cadence_read(cadence, now_ns, found);
		if (cadence_maintains(cadence, shared)) {
			cadence->maintained_ns = now_ns;
			count++;
		}
	}
	return count;
}

static void maintenance__of_who_waits(void **state)
{
	struct cadence cadence = stranger;

	(void)state;
	cadence_read(&cadence, 1000000000, 1);
	cadence.maintained_ns = 1000000000;
	assert_int_equal(maintenances(&cadence, 1000, 1000, 0, false), 1000000 / CADENCE_WAITING_NS);
	assert_int_equal(maintenances(&cadence, 1000, 1000, 0, true), 1000000 / CADENCE_WAITING_SHARED_NS);
}

/* To whom something comes sooner than that it is seldom, but never none. */
static void maintenance__in_a_dialogue(void **state)
{
	struct cadence cadence = stranger;

	(void)state;
	cadence_read(&cadence, 1000000000, 1);
	cadence.maintained_ns = 1000000000;
	assert_int_equal(maintenances(&cadence, 10000, 1000, 10, false), 10000000 / CADENCE_MAINTAIN_NS);
	assert_int_equal(maintenances(&cadence, 10000, 1000, 10, true), 10000000 / CADENCE_MAINTAIN_NS);
}

/* The first after something has come is not sooner for the time before that. */
static void maintenance__after_a_dialogue(void **state)
{
	struct cadence cadence = stranger;

	(void)state;
	cadence_read(&cadence, 1000000000, 1);
	cadence.maintained_ns = 1000000000 - CADENCE_WAITING_NS;
	cadence_read(&cadence, 1000000000 + CADENCE_WAITING_NS, 2);
	assert_false(cadence_maintains(&cadence, false));
	cadence_read(&cadence, 1000000000 + 2 * CADENCE_WAITING_NS, 2);
	assert_int_equal(cadence_waited(&cadence), CADENCE_WAITING_NS);
	assert_true(cadence_maintains(&cadence, false));
}

static void looks__by_the_clock(void **state)
{
	struct cadence cadence = stranger;
	unsigned looks = 0;

	(void)state;
	for (uint64_t now_ns = 1000000000; now_ns < 1001000000; now_ns += 1000)
		looks += cadence_looks(&cadence, now_ns);
	assert_int_equal(looks, 1000000 / CADENCE_LOOK_NS);
}

/* ---- An endpoint ------------------------------------------------------------------------------------------------- */

static uint64_t clock_ns;

int __real_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now);

int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
	if (clock_ns == 0)
		return __real_clock_gettime(id, now);
	*now = (struct timespec){.tv_sec = (time_t)(clock_ns / 1000000000u), .tv_nsec = (long)(clock_ns % 1000000000u)};
	return 0;
}

/* Polls of a's in vain, one each 100 ns. Returns how many had maintenance. */
static unsigned pair_waits(struct pair *pair, unsigned polls)
{
	unsigned count = 0;

	for (unsigned i = 0; i < polls; i++) {
		uint64_t before_ns = endpoint_of(pair->a)->cadence.maintained_ns;

		clock_ns += 100;
		assert_int_equal(thole_progress(pair->a), 0);
		count += endpoint_of(pair->a)->cadence.maintained_ns != before_ns;
	}
	return count;
}

static void pair_brings(struct pair *pair)
{
	struct thole_completion done;
	struct thole_request *receive;
	char byte = 1;

	assert_int_equal(thole_recv(pair->a, pair->a_to_b, &byte, 1, 0, 0, 0, NULL, &receive), 0);
	assert_int_equal(thole_send(pair->b, pair->b_to_a, &byte, 1, 0, 0, 0, NULL, NULL), 0);
	while (thole_test(pair->a, receive, &done) == 0)
		;
}

/* Whose answers come each after 10 us has maintenance once in a millisecond, and who waits each 20 us. */
static void endpoint__talks(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	unsigned talking = 0, waiting;
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	pair_brings(&pair);
	clock_ns = clock_now_ns();
	pair_waits(&pair, 1000);
	for (int i = 0; i < 1000; i++) {
		pair_brings(&pair);
		talking += pair_waits(&pair, 100);
	}
	waiting = pair_waits(&pair, 100000);
	clock_ns = 0;
	assert_in_range(talking, 9, 11);
	assert_in_range(waiting, 300, 500);
	pair_close(&pair);
}

/* How often a's network, which rests, would be polled now. */
static unsigned network_looks(struct pair *pair)
{
	unsigned looks = pair->a->base.polled >> TRANSPORT_DATAGRAM & 1;

	transport_rest(&pair->a->base, TRANSPORT_DATAGRAM);
	return looks;
}

/* A network that rests is looked at by the clock, whether messages of others come often or nothing does. */
static void endpoint__talks_beside_a_network(void **state)
{
	static const char *const options[] = {"network=off", NULL};
	unsigned talking = 0, waiting = 0;
	struct pair pair;

	(void)state;
	pair_open(&pair, options);
	pair_brings(&pair);
	clock_ns = clock_now_ns();
	network_looks(&pair);
	for (int i = 0; i < 10000; i++) {
		clock_ns += 100;
		pair_brings(&pair);
		talking += network_looks(&pair);
	}
	for (int i = 0; i < 10000; i++) {
		pair_waits(&pair, 1);
		waiting += network_looks(&pair);
	}
	clock_ns = 0;
	assert_in_range(talking, 1000000 / CADENCE_LOOK_NS - 2, 1000000 / CADENCE_LOOK_NS + 2);
	assert_in_range(waiting, 1000000 / CADENCE_WAITING_NS - 10, 1000000 / CADENCE_WAITING_NS + 2);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clock__by_pace),
		cmocka_unit_test(clock__stays),
		cmocka_unit_test(clock__skipped),
		cmocka_unit_test(clock__read_sooner),
		cmocka_unit_test(maintenance__of_who_waits),
		cmocka_unit_test(maintenance__in_a_dialogue),
		cmocka_unit_test(maintenance__after_a_dialogue),
		cmocka_unit_test(looks__by_the_clock),
		cmocka_unit_test(endpoint__talks),
		cmocka_unit_test(endpoint__talks_beside_a_network),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
