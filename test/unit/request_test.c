/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: ids that outlive them or are made up find nothing, and vectors are copied. */
#include "pair.h"

static const char *const no_options[] = {NULL};

static struct thole_request *waiting(struct thole_endpoint *endpoint, struct peer *peer)
{
	struct thole_request *request = request_new(endpoint, THOLE_OP_SEND, NULL, 0);

	assert_non_null(request);
	request->peer = peer;
	request->state = REQUEST_WAITING;
	return request;
}

static void find__only_a_live_one_of_this_peer(void **state)
{
	struct pair pair;
	struct peer *peer, *self;
	struct thole_request *request;
	uint64_t id;

	(void)state;
	pair_open(&pair, no_options);
	peer = pair.a->peers[pair.a_to_b];
	self = pair.a->peers[pair_peer(pair.a, pair.a)];
	request = waiting(pair.a, peer);
	id = request_id(request);
	assert_ptr_equal(request_find(peer, id), request);
	assert_null(request_find(self, id));
	assert_null(request_find(peer, id + 1));
	assert_null(request_find(peer, id + (UINT64_C(1) << 32)));
	assert_null(request_find(peer, id - (UINT64_C(1) << 32)));
	assert_null(request_find(peer, UINT64_MAX));
	request_free(request);
	assert_null(request_find(peer, id));
	pair_close(&pair);
}

/* The same place, another operation: the old id stays dead, however often it is reused. */
static void find__not_by_an_older_id(void **state)
{
	static uint64_t ids[1000];
	struct pair pair;
	struct peer *peer;

	(void)state;
	pair_open(&pair, no_options);
	peer = pair.a->peers[pair.a_to_b];
	for (int i = 0; i < 1000; i++) {
		struct thole_request *request = waiting(pair.a, peer);

		ids[i] = request_id(request);
		for (int k = 0; k < i; k++)
			assert_null(request_find(peer, ids[k]));
		assert_ptr_equal(request_find(peer, ids[i]), request);
		request_free(request);
	}
	pair_close(&pair);
}

static void find__made_up_ids(void **state)
{
	struct thole_request *requests[500];
	uint64_t random = 1;
	struct pair pair;
	struct peer *peer;

	(void)state;
	pair_open(&pair, no_options);
	peer = pair.a->peers[pair.a_to_b];
	for (int i = 0; i < 500; i++) {
		requests[i] = waiting(pair.a, i % 2 ? peer : NULL);
		if (i % 3 == 0)
			request_free(requests[i]);
	}
	for (int i = 0; i < 200000; i++) {
		uint64_t id = (random_next(&random) % 4) << 32 | random_below(&random, 2000);
		const struct thole_request *found = request_find(peer, id);

		if (found)
			assert_true(found->state == REQUEST_WAITING && found->peer == peer && request_id(found) == id);
	}
	pair_close(&pair);
}

static void segments__are_copied_and_summed(void **state)
{
	struct pair pair;
	struct iovec segments[3] = {{NULL, 0}, {"abcdef", 6}, {"ghi", 3}};
	struct thole_request *request;
	char out[9];

	(void)state;
	pair_open(&pair, no_options);
	request = waiting(pair.a, NULL);
	assert_int_equal(request_set_vector(request, segments, 3), 0);
	memset(segments, 0, sizeof(segments));
	assert_int_equal(request->vector.length, 9);
	vector_read(&request->vector, 0, out, 9);
	assert_memory_equal(out, "abcdefghi", 9);
	assert_int_equal(request_own_data(request), 0); /* and the data too */
	assert_int_equal(request->vector.count, 1);
	assert_memory_equal(request->vector.segments->iov_base, "abcdefghi", 9);
	request_free(request);
	request = waiting(pair.a, NULL);
	assert_int_equal(request_set_vector(request, NULL, 0), 0);
	assert_int_equal(request->vector.length, 0);
	request_free(request);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(find__only_a_live_one_of_this_peer),
		cmocka_unit_test(find__not_by_an_older_id),
		cmocka_unit_test(find__made_up_ids),
		cmocka_unit_test(segments__are_copied_and_summed),
	};

	return cmocka_run_group_tests_name("request", tests, NULL, NULL);
}
