/* SPDX-License-Identifier: BSD-3-Clause */
/* Payloads of a stream past the caches: what is timed, and what follows from it. */
#include "unit.h"

#include "transport/shm/bypass.h"

enum { BYTES = 4096, LINES = BYTES / 64, SLOW_PS = 2 * BYPASS_SLOW_PS };

/* A stream: its messages take so long a line each way. */
struct stream {
	struct bypass bypass;
	uint64_t now_ns, cached_ps, past_ps;
	uint32_t turn;
};

static void stream_send(struct stream *stream)
{
	bool goes;

	if (bypass_is_due(&stream->bypass, BYTES))
		bypass_note(&stream->bypass, stream->now_ns, stream->turn, BYTES);
	goes = bypass_goes(&stream->bypass);
	stream->now_ns += (goes ? stream->past_ps : stream->cached_ps) * LINES / 1000;
	stream->turn++;
}

/* Of so many messages, those that went past the caches. */
static uint32_t stream_run(struct stream *stream, uint32_t messages)
{
	uint32_t past = 0;

	for (uint32_t i = 0; i < messages; i++) {
		stream_send(stream);
		past += bypass_goes(&stream->bypass);
	}
	return past;
}

enum { DECIDED = 3 * (BYPASS_SAMPLES + 1) * BYPASS_STRETCH };

static void look__fast_lines_stay(void **state)
{
	struct stream stream = {.cached_ps = BYPASS_SLOW_PS * 9 / 10, .past_ps = 1000};

	(void)state;
	assert_int_equal(stream_run(&stream, 1 << 18), 0);
}

static void try__faster_is_kept(void **state)
{
	struct stream stream = {.cached_ps = SLOW_PS, .past_ps = SLOW_PS * 3 / 4};

	(void)state;
	stream_run(&stream, DECIDED);
	assert_int_equal(stream.bypass.state, BYPASS_GOES);
	assert_true(stream_run(&stream, 1 << 18) > (1 << 18) / 100 * 97);
}

static void try__no_faster_is_given_up(void **state)
{
	struct stream stream = {.cached_ps = SLOW_PS, .past_ps = SLOW_PS * 19 / 20};
	uint32_t first, later;

	(void)state;
	first = stream_run(&stream, DECIDED);
	assert_int_equal(stream.bypass.state, BYPASS_LOOKS);
	assert_true(first >= BYPASS_SAMPLES * BYPASS_STRETCH);
	later = stream_run(&stream, 1 << 20);
	assert_true(later > 0 && later < (1 << 20) / 100);
}

/* The cores that the two run on have changed. */
static void look__again_after_some(void **state)
{
	struct stream stream = {.cached_ps = SLOW_PS, .past_ps = SLOW_PS / 2};

	(void)state;
	stream_run(&stream, DECIDED);
	assert_int_equal(stream.bypass.state, BYPASS_GOES);
	stream.cached_ps = BYPASS_SLOW_PS / 4;
	stream_run(&stream, BYPASS_LOOK_AFTER + DECIDED);
	assert_int_equal(stream.bypass.state, BYPASS_LOOKS);
	assert_int_equal(stream_run(&stream, 1 << 18), 0);
	stream.cached_ps = SLOW_PS;
	stream_run(&stream, 1 << 20);
	assert_true(bypass_goes(&stream.bypass));
}

/* What comes between two messages begins their turns anew: how long the peer took for it says nothing. */
static void note__broken_stretches_do_not_count(void **state)
{
	struct stream stream = {.cached_ps = SLOW_PS, .past_ps = SLOW_PS / 2};

	(void)state;
	for (int i = 0; i < 10000; i++) {
		stream_run(&stream, BYPASS_STRETCH - 1);
		stream.turn = 0;
	}
	assert_int_equal(stream.bypass.count, 0);
	assert_int_equal(stream.bypass.state, BYPASS_LOOKS);
}

/* Others had the core during most of the stretches. */
static void note__disturbed(void **state)
{
	struct stream stream = {.cached_ps = BYPASS_SLOW_PS / 2, .past_ps = BYPASS_SLOW_PS};

	(void)state;
	for (uint32_t i = 0; i < DECIDED; i++) {
		stream_send(&stream);
		if ((i / BYPASS_STRETCH + 1) % 3)
			stream.now_ns += 1000000;
	}
	assert_int_equal(stream.bypass.state, BYPASS_LOOKS);
	assert_true(stream.bypass.cached_ps > 0 && stream.bypass.cached_ps < BYPASS_SLOW_PS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(look__fast_lines_stay),      cmocka_unit_test(try__faster_is_kept),
		cmocka_unit_test(try__no_faster_is_given_up), cmocka_unit_test(look__again_after_some),
		cmocka_unit_test(note__disturbed),            cmocka_unit_test(note__broken_stretches_do_not_count),
	};

	return cmocka_run_group_tests_name("bypass", tests, NULL, NULL);
}
