/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_vectors: messages of and to many segments, of odd lengths and empty ones, cut differently on both sides; what
 * lies between the segments of a receive stays as it is. Counts and lists that are refused.
 *
 *   -n messages (200)
 */
#include "mx_test.h"

#define DATA TEST_KIND(0x10)

enum {
	MESSAGES = 200,
	GAP_MAX = 9,
	MEMORY = 1 << 22,
};

struct vector {
	mx_segment_t segments[MX_MAX_SEGMENTS + 1];
	uint32_t count;
	uint32_t length;
};

static uint8_t *memory;
static uint32_t longest; /* of the vectors that were cut */

/* Cut some of the memory into segments with gaps between them, all of it guarded. The numbers decide everything, so
 * that the other side knows it too. */
static void vector_cut(struct vector *vector, uint32_t count, uint32_t bound, uint64_t seed)
{
	uint64_t state = seed;
	size_t place = 0;

	vector->count = count;
	vector->length = 0;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t length = random_next(&state) % 4 ? (uint32_t)(random_next(&state) % bound) : 0;

		place += random_next(&state) % GAP_MAX;
		vector->segments[i] = (mx_segment_t){memory + place, length};
		vector->length += length;
		place += length;
	}
	CHECK(place + TEST_GUARD <= MEMORY);
	guard_fill(memory, place + TEST_GUARD);
	longest = vector->length > longest ? vector->length : longest;
}

static void vector_fill(struct vector *vector, uint64_t seed)
{
	size_t done = 0;

	for (uint32_t i = 0; i < vector->count; i++) {
		uint8_t *bytes = vector->segments[i].segment_ptr;

		for (uint32_t j = 0; j < vector->segments[i].segment_length; j++)
			bytes[j] = payload_byte(seed, done++);
	}
}

/* The segments have the first bytes of the payload, and nothing else was written. */
static void vector_check(struct vector *vector, uint32_t length, uint64_t seed)
{
	uint8_t *place = memory;
	size_t done = 0;

	for (uint32_t i = 0; i < vector->count; i++) {
		uint8_t *bytes = vector->segments[i].segment_ptr;
		size_t room = vector->segments[i].segment_length, part = length - done < room ? length - done : room;

		guard_check(place, (size_t)(bytes - place));
		payload_check_part(bytes, part, seed, done);
		guard_check(bytes + part, room - part);
		place = bytes + room;
		done += part;
	}
	guard_check(place, TEST_GUARD);
	CHECK_EQUAL(done, length);
}

/* One message, with as many segments as said on each side and some slack in the receive; or too little of it. */
static void try_one(struct test *test, uint32_t number, uint32_t count_out, uint32_t count_in, uint32_t bound)
{
	struct vector *out = test_allocate(sizeof(*out)), *in = test_allocate(sizeof(*in));
	uint64_t match = DATA | number;
	uint32_t length, expected;
	mx_request_t request = NULL;
	mx_status_t status;

	phase("message %u, from %u to %u segments of up to %u bytes", number, count_out, count_in, bound);
	vector_cut(out, count_out, bound, 2 * number);
	length = out->length;
	if (test->there) {
		vector_cut(in, count_in, bound, 2 * number + 1); /* to know how long it is */
		vector_cut(out, count_out, bound, 2 * number);
		vector_fill(out, match);
		if (number % 3)
			MX(mx_isend(test->endpoint, out->segments, count_out, test->peer, match, NULL, &request));
		else
			MX(mx_issend(test->endpoint, out->segments, count_out, test->peer, match, NULL, &request));
		/* The list was copied. */
		memset(out->segments, 0, sizeof(out->segments));
		send_finish_cut(test, &request, length, in->length, number % 3 == 0, match);
	} else {
		vector_cut(in, count_in, bound, 2 * number + 1);
		expected = length < in->length ? length : in->length;
		MX(mx_irecv(test->endpoint, in->segments, count_in, match, MX_MATCH_MASK_NONE, NULL, &request));
		request_wait(test->endpoint, &request, &status);
		CHECK_CODE(&status, expected < length ? MX_STATUS_TRUNCATED : MX_STATUS_SUCCESS);
		CHECK_EQUAL(status.msg_length, length);
		CHECK_EQUAL(status.xfer_length, expected);
		vector_check(in, expected, match);
	}
	free(out);
	free(in);
}

static void try_all(struct test *test)
{
	static const uint32_t counts[] = {0, 1, 2, 3, 8, 63, 255, MX_MAX_SEGMENTS};
	static const uint32_t bounds[] = {2, 5, 60, 1000, 12345};
	uint64_t state = 1;

	for (uint32_t i = 0; i < test->count; i++) {
		uint32_t out = counts[random_next(&state) % 8], in = counts[random_next(&state) % 8];

		if (i < 64) {
			out = counts[i % 8];
			in = counts[i / 8];
		}
		try_one(test, i, out, in, bounds[random_next(&state) % 5]);
		if (i % 16 == 15)
			test_meet(test);
	}
	CHECK(test->count < MESSAGES || longest > 1 << 20); /* all ways of sending were taken */
}

/* Without a peer's being told of it. */
static void refused(struct test *test)
{
	mx_segment_t *segments = test_allocate((MX_MAX_SEGMENTS + 1) * sizeof(*segments));
	mx_request_t request = NULL;
	mx_endpoint_t endpoint = test->endpoint;

	for (unsigned i = 0; i <= MX_MAX_SEGMENTS; i++)
		segments[i] = (mx_segment_t){memory + i, 1};
	phase("too many segments");
	CHECK_RETURN(mx_isend(endpoint, segments, MX_MAX_SEGMENTS + 1, test->peer, DATA, NULL, &request),
		     MX_BAD_SEG_CNT);
	CHECK_RETURN(mx_issend(endpoint, segments, MX_MAX_SEGMENTS + 1, test->peer, DATA, NULL, &request),
		     MX_BAD_SEG_CNT);
	CHECK_RETURN(mx_irecv(endpoint, segments, UINT32_MAX, DATA, MX_MATCH_MASK_NONE, NULL, &request),
		     MX_BAD_SEG_CNT);
	CHECK_RETURN(mx_irecv(endpoint, segments, MX_MAX_SEGMENTS + 1, DATA, MX_MATCH_MASK_NONE, NULL, &request),
		     MX_BAD_SEG_CNT);
	phase("no list");
	CHECK_RETURN(mx_isend(endpoint, NULL, 1, test->peer, DATA, NULL, &request), MX_BAD_SEG_LIST);
	CHECK_RETURN(mx_issend(endpoint, NULL, 2, test->peer, DATA, NULL, &request), MX_BAD_SEG_LIST);
	CHECK_RETURN(mx_irecv(endpoint, NULL, 1, DATA, MX_MATCH_MASK_NONE, NULL, &request), MX_BAD_SEG_LIST);
	free(segments);
}

/* A list that is NULL with no segments, and ones of nothing, are empty messages. */
static void empty(struct test *test)
{
	mx_segment_t nothing[3] = {{NULL, 0}, {NULL, 0}, {memory, 0}};
	mx_request_t request;
	mx_status_t status;

	phase("empty messages");
	for (uint32_t i = 0; i < 4; i++) {
		mx_segment_t *list = i ? nothing : NULL;

		if (test->there) {
			MX(mx_isend(test->endpoint, list, i, test->peer, DATA | i, NULL, &request));
			send_finish(test, &request, 0, DATA | i);
		} else {
			MX(mx_irecv(test->endpoint, list, i, DATA | i, MX_MATCH_MASK_NONE, NULL, &request));
			receive_finish(test, &request, 0, DATA | i, &status);
		}
	}
	test_meet(test);
}

int main(int argc, char **argv)
{
	struct test test = {.count = MESSAGES};

	test_options(&test, "mx_vectors", argc, argv);
	memory = test_allocate(MEMORY);
	test_pair(&test);
	refused(&test);
	test_meet(&test);
	empty(&test);
	try_all(&test);
	free(memory);
	return test_pair_end(&test);
}
