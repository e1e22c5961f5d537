/* SPDX-License-Identifier: BSD-3-Clause */
/* A PULL that waits: which are right, and which frames of it come next, also where it is as long as can be said. */
#include "unit.h"

#include "transport/datagram/answer.h"

enum { FRAME = 1400, LEAST = 500, MOST = 9000 };

static struct answer answer_to(const struct packet_pull *pull)
{
	struct answer answer;

	answer_begin(&answer, pull);
	return answer;
}

/* The last frame ends where the range does, be that where 32 bits do: nothing begins anew. */
static void next__ends_where_32_bits_do(void **state)
{
	const struct packet_pull pull = {.length = UINT32_MAX, .frame = FRAME};
	struct answer answer = answer_to(&pull);
	uint32_t last = UINT32_MAX / FRAME * FRAME, at = last;
	struct answer_frame frame;

	(void)state;
	assert_true(answer_next(&answer, &at, UINT32_MAX, &frame));
	assert_int_equal(frame.at, last);
	assert_int_equal(frame.length, UINT32_MAX - last);
	assert_int_equal(at, UINT32_MAX);
	assert_false(answer_next(&answer, &at, UINT32_MAX, &frame));
}

/* All of a short range: each byte once. */
static void next__covers_the_range(void **state)
{
	const struct packet_pull pull = {.length = 3 * FRAME + 1, .frame = FRAME, .frame_offset = 8, .offset = 64};
	struct answer answer = answer_to(&pull);
	uint32_t at = 0, sum = 0, index = 0;
	struct answer_frame frame;

	(void)state;
	for (; answer_next(&answer, &at, pull.length, &frame); sum += frame.length, index++) {
		assert_int_equal(frame.at, sum);
		assert_int_equal(frame.offset, pull.offset + sum);
		assert_int_equal(frame.index, index);
		assert_int_equal(frame.length, index == 0 ? FRAME - 8 : index < 3 ? FRAME : 9);
	}
	assert_int_equal(index, 4);
	assert_int_equal(sum, pull.length);
	assert_int_equal(at, pull.length);
}

/* Those alone that are wanted, of a block whose last frame is short. */
static void next__passes_what_is_not_wanted(void **state)
{
	const struct packet_pull pull = {.length = 4 * FRAME - 1, .frame = FRAME, .wanted = 0xa};
	struct answer answer = answer_to(&pull);
	struct answer_frame frame;
	uint32_t at = 0;

	(void)state;
	assert_true(answer_next(&answer, &at, pull.length, &frame));
	assert_int_equal(frame.at, FRAME);
	assert_true(answer_next(&answer, &at, pull.length, &frame));
	assert_int_equal(frame.at, 3 * FRAME);
	assert_int_equal(frame.length, FRAME - 1);
	assert_false(answer_next(&answer, &at, pull.length, &frame));
	answer.wanted = 1;
	at = FRAME;
	assert_false(answer_next(&answer, &at, pull.length, &frame));
	assert_int_equal(at, pull.length);
}

static void right__is_what_the_window_has(void **state)
{
	const struct packet_pull right = {.offset = 100, .length = 10000, .frame = FRAME};
	struct packet_pull pull = right;

	(void)state;
	assert_true(answer_is_right(&pull, 10100, LEAST, MOST));
	assert_false(answer_is_right(&pull, 10099, LEAST, MOST));
	assert_false(answer_is_right(&pull, 99, LEAST, MOST));
	assert_false(answer_is_right(&pull, 10100, FRAME + 1, MOST));
	assert_false(answer_is_right(&pull, 10100, LEAST, FRAME - 1));
	pull.length = 0;
	assert_false(answer_is_right(&pull, 10100, LEAST, MOST));
	pull = right;
	pull.wanted = 0xff; /* of 8 frames */
	assert_true(answer_is_right(&pull, 10100, LEAST, MOST));
	pull.wanted = 0x100;
	assert_false(answer_is_right(&pull, 10100, LEAST, MOST));
	pull.wanted = 1; /* of more than a block */
	pull.length = UINT32_MAX;
	assert_false(answer_is_right(&pull, UINT64_MAX, LEAST, MOST));
	pull.wanted = 0;
	assert_true(answer_is_right(&pull, UINT64_MAX, LEAST, MOST));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(next__ends_where_32_bits_do),
		cmocka_unit_test(next__covers_the_range),
		cmocka_unit_test(next__passes_what_is_not_wanted),
		cmocka_unit_test(right__is_what_the_window_has),
	};

	return cmocka_run_group_tests_name("answer", tests, NULL, NULL);
}
