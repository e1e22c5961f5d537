/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is polled again for: the rule by itself, with given times and outcomes, and the polls of an endpoint under a
 * clock of ours. */
#include "unit.h"

#include <time.h>

#include "endpoint/endpoint.h"
#include "endpoint/patience.h"
#include "pair.h"

enum { POLLS = 100, PROBE_NS = 30, CLOCK_NS = 25, AWAY_NS = PATIENCE_AWAY_CLOCKS * CLOCK_NS, NEVER = -1 };

/* A caller, and what it has had. */
struct caller {
	struct patience patience;
	uint64_t now_ns, polls, clocks, tries;
};

/* A poll that finds nothing at first, so long after the one before; `comes`: the look at which something comes, or
 * NEVER. */
static void caller_polls(struct caller *caller, uint64_t away_ns, int comes)
{
	uint32_t polls, made;

	caller->now_ns += away_ns;
	if (patience_rests(&caller->patience))
		return;
	caller->clocks++;
	polls = patience_polls(&caller->patience, caller->now_ns, POLLS);
	made = comes != NEVER && polls >= (uint32_t)comes ? (uint32_t)comes : polls;
	caller->polls += made;
	caller->tries += polls > 0;
	caller->now_ns += made * PROBE_NS;
	if (made > 0 && made == (uint32_t)comes)
		patience_paid(&caller->patience, caller->now_ns, made);
	else
		patience_told(&caller->patience, caller->now_ns, made);
}

static void caller_polls_often(struct caller *caller, unsigned count, uint64_t away_ns, int comes)
{
	for (unsigned i = 0; i < count; i++)
		caller_polls(caller, away_ns, comes);
}

static const struct caller stranger = {.patience.clock_ns = CLOCK_NS, .now_ns = 1000000};

/* Who is back at once loses nothing by being told at once, whatever comes. */
static void caller__tight(void **state)
{
	struct caller caller = stranger;

	(void)state;
	caller_polls_often(&caller, 100000, AWAY_NS - 1, 1);
	assert_int_equal(caller.polls, 0);
	assert_in_range(caller.clocks, 1, 2 + 100000 * 2 / PATIENCE_REST_BACK);
}

/* Who computes is answered at once, before anything is known of it and after. */
static void caller__computing(void **state)
{
	struct caller caller = stranger;

	(void)state;
	caller_polls_often(&caller, 1000, PATIENCE_WAITING_NS, 1);
	assert_int_equal(caller.polls, 0);
	caller_polls_often(&caller, 1000, 700, 20); /* it waits, and so gets an account */
	assert_true(caller.patience.account > POLLS);
	caller.polls = 0;
	caller_polls_often(&caller, 1000, PATIENCE_WAITING_NS, 1);
	assert_int_equal(caller.polls, 0);
}

/* Who is away as one who waits, but waits for nothing of ours: an average poll costs less than one look. */
static void caller__in_vain(void **state)
{
	struct caller caller = stranger;

	(void)state;
	caller_polls_often(&caller, 100000, 700, NEVER);
	assert_in_range(caller.polls, POLLS, 100000 / 2);
	assert_in_range(caller.clocks, 1, 100000 * 3 / PATIENCE_REST_MAX);
}

/* Who waits is polled again for at each poll, once that was seen to be good. */
static void caller__waiting(void **state)
{
	struct caller caller = stranger;

	(void)state;
	caller_polls_often(&caller, PATIENCE_REST_MAX + 2, 700, 20);
	caller.tries = 0;
	caller_polls_often(&caller, 1000, 700, 20);
	assert_in_range(caller.tries, 1000 - 1000 / PATIENCE_TRUST_MAX - 6, 999); /* it is watched at times */
	assert_int_equal(caller.patience.account, PATIENCE_MAX);
}

/* Who takes some polls' time for each look of its own gains by ours: its account stays. */
static void caller__slow(void **state)
{
	struct caller caller = stranger;

	(void)state;
	caller_polls_often(&caller, PATIENCE_REST_MAX + 2, AWAY_NS, 3);
	caller.tries = 0;
	caller_polls_often(&caller, 1000, AWAY_NS, 3);
	assert_in_range(caller.tries, 900, 999);
}

/* Who is back at once, and was away for long once by accident, has few tries made for it, though all of them succeed;
 * and who has changed its ways after long is found out as well. */
static void caller__away_by_accident(void **state)
{
	struct caller caller = stranger;

	(void)state;
	caller_polls_often(&caller, 1, 20, 1);
	caller_polls_often(&caller, 1, 700, 1);
	assert_int_equal(caller.tries, 1);
	caller_polls_often(&caller, 10000, 20, 1);
	assert_in_range(caller.tries, 1, 1 + PATIENCE_TRUST_MIN);
	assert_in_range(caller.clocks, 1, 8 + 10000 * 2 / PATIENCE_REST_MAX);
	caller = stranger;
	caller_polls_often(&caller, 10000, 700, 20);
	caller.tries = 0;
	caller_polls_often(&caller, 10000, 20, 1);
	assert_in_range(caller.tries, 1, PATIENCE_TRUST_MAX);
}

/* Where the time is to be taken, those that are not asked for come first; where an account pays, each poll asks. */
static void caller__counts(void **state)
{
	struct patience patience = {.rest = 10, .clock_ns = CLOCK_NS};

	(void)state;
	assert_int_equal(patience_rest(&patience, 4), 4);
	assert_int_equal(patience_rest(&patience, 100), 6);
	assert_int_equal(patience.rest, 0);
	assert_int_equal(patience_rest(&patience, 100), 100);
	assert_int_equal(patience.rest, 0);
	patience.account = 1;
	assert_int_equal(patience_rest(&patience, 100), 0);
}

/* The account has a bound: after however many successes a wait in vain is given up after a few tries, and a new
 * success is met with patience again after at most so many polls. */
static void caller__waits_in_vain_then_again(void **state)
{
	struct caller caller = stranger;

	(void)state;
	caller_polls_often(&caller, 10000, 700, 20);
	caller.polls = 0;
	caller_polls_often(&caller, 20, 700, NEVER);
	assert_int_equal(caller.polls, PATIENCE_MAX);
	caller_polls_often(&caller, 10000, 700, NEVER);
	caller_polls_often(&caller, PATIENCE_REST_MAX + 2, 700, 20);
	assert_true(caller.patience.account >= PATIENCE_GAIN);
	caller.tries = 0;
	caller_polls_often(&caller, 100, 700, 20);
	assert_in_range(caller.tries, 90, 100);
}

/* A success pays for no more than itself: where only each tenth try succeeds, and at its last look, few are made. */
static void caller__rarely_successful(void **state)
{
	struct caller caller = stranger;

	(void)state;
	for (int i = 0; i < 100000; i++)
		caller_polls(&caller, 700, i % 10 ? NEVER : POLLS);
	assert_in_range(caller.polls, POLLS, 100000 * 2);
}

/* ---- An endpoint ------------------------------------------------------------------------------------------------- */

static uint64_t clock_ns = 1000000000, clock_reads, clock_step_ns;

int __real_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now);

/* Time passes only for who looks at it, and where a test says so. */
int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
	if (clock_step_ns == 0)
		return __real_clock_gettime(id, now);
	clock_reads++;
	*now = (struct timespec){.tv_sec = (time_t)(clock_ns / 1000000000u), .tv_nsec = (long)(clock_ns % 1000000000u)};
	return 0;
}

/* Polls by a caller who is away so long between two of them. Returns how often it polled in vain. */
static uint32_t polls(struct thole_endpoint *endpoint, unsigned count, uint64_t away_ns)
{
	endpoint_of(endpoint)->idle = 0;
	clock_reads = 0;
	clock_step_ns = 1;
	for (unsigned i = 0; i < count; i++) {
		clock_ns += away_ns;
		assert_int_equal(thole_progress(endpoint), 0);
	}
	clock_step_ns = 0;
	return endpoint_of(endpoint)->idle;
}

/* A receive is posted, and nothing comes: a poll is one look, and the clock is read rarely. */
static void endpoint__polls_in_vain(void **state)
{
	static const char *const options[] = {"network=off", "yield=never", "look_again=100", NULL};
	struct thole_request *receive;
	struct thole_completion completion;
	struct pair pair;
	char byte = 1;

	(void)state;
	pair_open(&pair, options);
	assert_int_equal(thole_recv(pair.a, pair.a_to_b, &byte, 1, 0, 0, 0, NULL, &receive), 0);
	assert_int_equal(polls(pair.a, 16000, 20), 16000);
	assert_in_range(clock_reads, 16000 / CADENCE_POLLS_MAX, 16000 / CADENCE_POLLS_MAX * 3 / 2);
	assert_int_equal(polls(pair.a, 16000, 10000), 16000);
	assert_in_range(polls(pair.a, 16000, 700), 16001, 16000 * 3 / 2);
	assert_int_equal(thole_send(pair.b, pair.b_to_a, &byte, 1, 0, 0, 0, NULL, NULL), 0);
	assert_int_equal(pair_finish(&pair, pair.a, receive, &completion), 0);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(caller__tight),
		cmocka_unit_test(caller__computing),
		cmocka_unit_test(caller__in_vain),
		cmocka_unit_test(caller__waiting),
		cmocka_unit_test(caller__slow),
		cmocka_unit_test(caller__away_by_accident),
		cmocka_unit_test(caller__waits_in_vain_then_again),
		cmocka_unit_test(caller__rarely_successful),
		cmocka_unit_test(caller__counts),
		cmocka_unit_test(endpoint__polls_in_vain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
