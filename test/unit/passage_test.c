/* SPDX-License-Identifier: BSD-3-Clause */
/* By which lines the payloads of a stream pass: what is timed, and what follows from it. */
#include <string.h>

#include "unit.h"

#include "transport/shm/passage.h"

enum { BYTES = 4096, LINES = BYTES / 64, ALL = (1 << PASSAGE_WAYS) - 1 };

/* A stream: its messages take so long a line each way. */
struct stream {
	struct passage passage;
	uint64_t now_ns, line_ps[PASSAGE_WAYS];
	uint32_t ways;              /* 0: all */
	bool refused;               /* there is no longer area */
	uint32_t taken[PASSAGE_WAYS]; /* messages that went so */
};

static void stream_send(struct stream *stream)
{
	struct passage *passage = &stream->passage;
	enum passage_way way = passage->way;

	if (passage_is_due(passage, BYTES) &&
	    passage_note(passage, stream->now_ns, BYTES, stream->ways ? stream->ways : ALL) && stream->refused &&
	    passage->way >= PASSAGE_WALKS)
		passage_refuse(passage);
	stream->now_ns += stream->line_ps[way] * LINES / 1000;
	stream->taken[way]++;
}

static void stream_run(struct stream *stream, uint32_t messages)
{
	for (uint32_t i = 0; i < messages; i++)
		stream_send(stream);
}

/* Until the first round is over. */
static void stream_learn(struct stream *stream)
{
	stream_run(stream, PASSAGE_FIRST);
	for (uint32_t i = 0; i < 100 * PASSAGE_STRETCH && (i < PASSAGE_STRETCH || stream->passage.looks); i++)
		stream_send(stream);
	assert_false(stream->passage.looks);
	assert_true(stream->passage.rest == PASSAGE_REST_MIN);
}

enum { QUICK = PASSAGE_PAST_PS / 2, SLOW = 2 * PASSAGE_PAST_PS };

static void round__the_fastest_way_is_kept(void **state)
{
	(void)state;
	for (uint32_t way = 0; way < PASSAGE_WAYS; way++) {
		struct stream stream = {.line_ps = {SLOW, SLOW, SLOW / 8 * 7, SLOW}};

		if (way != PASSAGE_STAYS)
			stream.line_ps[way] = SLOW / 4 * 3;
		else
			stream.line_ps[PASSAGE_WALKS] = SLOW;
		stream_learn(&stream);
		assert_int_equal(stream.passage.way, way);
		memset(stream.taken, 0, sizeof(stream.taken));
		stream_run(&stream, 1 << 20);
		assert_int_equal(stream.passage.best, way);
		assert_true(stream.taken[way] > (1 << 20) / 10 * 9);
	}
}

/* A little faster is as fast. */
static void round__as_fast_is_not_better(void **state)
{
	struct stream stream = {.line_ps = {SLOW, SLOW - SLOW / 20, SLOW - SLOW / 20, SLOW / 2}};

	(void)state;
	stream_learn(&stream);
	assert_int_equal(stream.passage.way, PASSAGE_STAYS);
	assert_true(stream.taken[PASSAGE_PAST] > 0 && stream.taken[PASSAGE_WALKS] > 0);
	assert_int_equal(stream.taken[PASSAGE_WALKS_ONCE], 0); /* since walking is no better */
}

/* Past the caches is for lines that are slow, and what a message may not do is not tried. */
static void round__ways_that_are_not_tried(void **state)
{
	struct stream stream = {.line_ps = {QUICK, 1, QUICK, QUICK}};

	(void)state;
	stream_learn(&stream);
	stream_run(&stream, 1 << 18);
	assert_int_equal(stream.taken[PASSAGE_PAST], 0);
	stream = (struct stream){.line_ps = {SLOW, 1, SLOW / 2, 1}, .ways = 1 << PASSAGE_STAYS | 1 << PASSAGE_WALKS};
	stream_learn(&stream);
	stream_run(&stream, 1 << 18);
	assert_int_equal(stream.taken[PASSAGE_PAST] + stream.taken[PASSAGE_WALKS_ONCE], 0);
	assert_int_equal(stream.passage.way, PASSAGE_WALKS);
}

/* Where the longer area is not to be had, the best of the other ways is taken. */
static void refuse__ends_the_round(void **state)
{
	struct stream stream = {.line_ps = {SLOW, SLOW / 2, 1, 1}, .refused = true};

	(void)state;
	stream_learn(&stream);
	stream_run(&stream, 1 << 18);
	assert_int_equal(stream.passage.best, PASSAGE_PAST);
	assert_int_equal(stream.taken[PASSAGE_WALKS] + stream.taken[PASSAGE_WALKS_ONCE], 0);
}

/* It is better after some laps only; where it is much slower nobody waits for that. */
static void walk__becomes_better_suddenly(void **state)
{
	(void)state;
	for (int far = 0; far < 2; far++) {
		struct stream stream = {.line_ps = {QUICK, 1, far ? 3 * QUICK : 2 * QUICK, QUICK}};

		for (uint32_t i = 0; i < 100 * PASSAGE_STRETCH && stream.passage.rest <= PASSAGE_FIRST; i++) {
			if (stream.taken[PASSAGE_WALKS] > 2 * PASSAGE_SAMPLES * PASSAGE_STRETCH)
				stream.line_ps[PASSAGE_WALKS] = QUICK / 2;
			stream_send(&stream);
		}
		assert_int_equal(stream.passage.way, far ? PASSAGE_STAYS : PASSAGE_WALKS);
	}
}

/* What is tried is not timed before lines are where they will be. */
static void settle__is_not_timed(void **state)
{
	struct passage passage = {.looks = true, .way = PASSAGE_WALKS};

	(void)state;
	passage_settle(&passage, 1000);
	for (int i = 1; i < 1000; i++)
		assert_false(passage_is_due(&passage, BYTES));
	assert_true(passage_is_due(&passage, BYTES));
	passage_note(&passage, 5, BYTES, ALL);
	assert_int_equal(passage.count, 0);
	assert_int_equal(passage.start_ns, 5);
	passage = (struct passage){.way = PASSAGE_WALKS, .left = 10}; /* it is taken */
	passage_settle(&passage, 1000);
	assert_int_equal(passage.left, 10);
}

/* The cores that the two run on have changed. */
static void rest__looks_again(void **state)
{
	struct stream stream = {.line_ps = {SLOW, SLOW / 2, SLOW, SLOW}};

	(void)state;
	stream_learn(&stream);
	stream_run(&stream, 1 << 22);
	assert_int_equal(stream.passage.rest, PASSAGE_REST_MAX);
	stream.line_ps[PASSAGE_STAYS] = QUICK;
	stream_run(&stream, PASSAGE_REST_MAX + (1 << 14));
	assert_int_equal(stream.passage.best, PASSAGE_STAYS);
	assert_true(stream.passage.rest < PASSAGE_REST_MAX);
}

/* Others had the core during most of the stretches. */
static void note__disturbed(void **state)
{
	struct stream stream = {.line_ps = {QUICK, QUICK, QUICK / 2, QUICK}};

	(void)state;
	for (uint32_t i = 0; i < 1 << 15; i++) {
		stream_send(&stream);
		if (stream.passage.count > 1)
			stream.now_ns += 1000000;
	}
	assert_int_equal(stream.passage.best, PASSAGE_WALKS);
}

static void class__by_the_longest(void **state)
{
	(void)state;
	assert_int_equal(passage_class(1025), 0);
	assert_int_equal(passage_class(2048), 0);
	assert_int_equal(passage_class(2049), 1);
	assert_int_equal(passage_class(PASSAGE_ONCE_MAX), 2);
	assert_int_equal(passage_class(PASSAGE_PAST_MAX), PASSAGE_CLASSES - 2);
	assert_int_equal(passage_class(PASSAGE_PAST_MAX + 1), PASSAGE_CLASSES - 1);
	assert_int_equal(passage_class(UINT64_MAX), PASSAGE_CLASSES - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round__the_fastest_way_is_kept),
		cmocka_unit_test(round__as_fast_is_not_better),
		cmocka_unit_test(round__ways_that_are_not_tried),
		cmocka_unit_test(refuse__ends_the_round),
		cmocka_unit_test(walk__becomes_better_suddenly),
		cmocka_unit_test(settle__is_not_timed),
		cmocka_unit_test(rest__looks_again),
		cmocka_unit_test(note__disturbed),
		cmocka_unit_test(class__by_the_longest),
	};

	return cmocka_run_group_tests_name("passage", tests, NULL, NULL);
}
