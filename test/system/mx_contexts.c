/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_contexts: endpoints whose match information has a context id: what is refused, and that completions are taken by
 * context and across. Runs alone.
 */
#include "mx_test.h"

#define ALL MX_MATCH_MASK_NONE

enum { CONTEXTS = 4, MESSAGES = 20 };

static const struct {
	uint8_t bits, shift;
	mx_return_t expected;
} values[] = {
	{0, 0, MX_SUCCESS},         {1, 0, MX_SUCCESS},         {4, 60, MX_SUCCESS},
	{16, 48, MX_SUCCESS},       {16, 0, MX_SUCCESS},        {17, 0, MX_BAD_PARAM_VAL},
	{255, 0, MX_BAD_PARAM_VAL}, {4, 61, MX_BAD_PARAM_VAL},  {1, 64, MX_BAD_PARAM_VAL},
	{16, 49, MX_BAD_PARAM_VAL}, {16, 255, MX_BAD_PARAM_VAL},
};

static mx_param_t context_id(uint8_t bits, uint8_t shift)
{
	mx_param_t param = {.key = MX_PARAM_CONTEXT_ID};

	param.val.context_id.bits = bits;
	param.val.context_id.shift = shift;
	return param;
}

static mx_return_t open_with(mx_param_t *params, uint32_t count, mx_endpoint_t *endpoint_p)
{
	return mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, TEST_KEY, params, count, endpoint_p);
}

static void parameters(void)
{
	mx_param_t params[2] = {context_id(2, 0), context_id(2, 0)};
	mx_endpoint_t endpoint;

	for (unsigned i = 0; i < sizeof(values) / sizeof(*values); i++) {
		phase("a context id of %u bits from bit %u", values[i].bits, values[i].shift);
		params[0] = context_id(values[i].bits, values[i].shift);
		CHECK_RETURN(open_with(params, 1, &endpoint), values[i].expected);
		if (values[i].expected == MX_SUCCESS)
			MX(mx_close_endpoint(endpoint));
	}
	phase("other parameters");
	CHECK_RETURN(open_with(NULL, 1, &endpoint), MX_BAD_PARAM_LIST);
	MX(open_with(NULL, 0, &endpoint));
	MX(mx_close_endpoint(endpoint));
	params[0] = context_id(2, 0);
	params[1].key = (mx_param_key_t)99;
	CHECK_RETURN(open_with(params, 2, &endpoint), MX_BAD_PARAM_NAME);
	params[1].key = MX_PARAM_UNEXP_QUEUE_MAX;
	params[1].val.unexp_queue_max = 1 << 20;
	MX(open_with(params, 2, &endpoint));
	MX(mx_close_endpoint(endpoint));
}

/* Receives have to say which context they are in. */
static void masks(struct test *test, uint64_t context_mask, uint64_t half)
{
	mx_request_t request;
	uint32_t result;

	phase("masks for the contexts %#llx", (unsigned long long)context_mask);
	CHECK_RETURN(mx_irecv(test->endpoint, NULL, 0, 0, 0, NULL, &request), MX_BAD_MATCHING_FOR_CONTEXT_ID_MASK);
	CHECK_RETURN(mx_irecv(test->endpoint, NULL, 0, 0, ~context_mask, NULL, &request),
		     MX_BAD_MATCHING_FOR_CONTEXT_ID_MASK);
	CHECK_RETURN(mx_irecv(test->endpoint, NULL, 0, 0, half, NULL, &request), MX_BAD_MATCHING_FOR_CONTEXT_ID_MASK);
	CHECK_RETURN(mx_irecv(test->endpoint, NULL, 0, context_mask, half, NULL, &request), MX_BAD_MATCH_MASK);
	MX(mx_irecv(test->endpoint, NULL, 0, 0, context_mask, NULL, &request));
	MX(mx_cancel(test->endpoint, &request, &result));
	CHECK_EQUAL(result, 1);
}

/* ---- Messages to ourselves in several contexts ------------------------------------------------ */

static uint64_t match_of(unsigned shift, unsigned context, unsigned number)
{
	return (uint64_t)context << shift | UINT64_C(1) << (shift + 40) % 64 | (uint64_t)number << (shift + 8) % 64;
}

static void start_all(struct test *test, unsigned shift, uint32_t *received, uint32_t *sent)
{
	uint64_t mask = (uint64_t)(CONTEXTS - 1) << shift;

	for (unsigned i = 0; i < CONTEXTS * MESSAGES; i++) {
		mx_segment_t in = {&received[i], sizeof(*received)}, out = {&sent[i], sizeof(*sent)};
		uint64_t match = match_of(shift, i % CONTEXTS, i / CONTEXTS);
		mx_request_t request;

		sent[i] = i;
		received[i] = UINT32_MAX;
		/* By its context alone, so that the order within it decides. */
		MX(mx_irecv(test->endpoint, &in, 1, match & mask, mask, &received[i], &request));
		MX(mx_isend(test->endpoint, &out, 1, test->peer, match, &sent[i], &request));
	}
}

/* Each context gives its sends and receives, and not one more. */
static void by_context(struct test *test, unsigned shift)
{
	uint32_t received[CONTEXTS * MESSAGES], sent[CONTEXTS * MESSAGES];
	uint64_t mask = (uint64_t)(CONTEXTS - 1) << shift;
	mx_status_t status;
	uint32_t result;

	phase("completions by context, of bits from %u", shift);
	start_all(test, shift, received, sent);
	for (unsigned context = CONTEXTS; context-- > 0;) {
		unsigned receives = 0, sends = 0;

		for (unsigned i = 0; i < 2 * MESSAGES; i++) {
			MX(mx_wait_any(test->endpoint, MX_INFINITE, (uint64_t)context << shift, mask, &status,
				       &result));
			CHECK_EQUAL(result, 1);
			CHECK_EQUAL(status.match_info & mask, (uint64_t)context << shift);
			CHECK_CODE(&status, MX_STATUS_SUCCESS);
			if (status.context >= (void *)received &&
			    status.context < (void *)(received + CONTEXTS * MESSAGES)) {
				CHECK_EQUAL(*(uint32_t *)status.context, receives * CONTEXTS + context);
				CHECK_EQUAL(status.match_info, match_of(shift, context, receives));
				receives++;
			} else {
				sends++;
			}
		}
		CHECK_EQUAL(receives, MESSAGES);
		CHECK_EQUAL(sends, MESSAGES);
		none_complete(test, (uint64_t)context << shift, mask);
	}
	none_complete(test, 0, 0);
}

/* A mask without the context's bits takes those of all, oldest first. */
static void across(struct test *test, unsigned shift)
{
	uint32_t received[CONTEXTS * MESSAGES], sent[CONTEXTS * MESSAGES];
	unsigned counts[CONTEXTS] = {0};
	mx_status_t status;
	uint32_t result;

	phase("completions across contexts, of bits from %u", shift);
	start_all(test, shift, received, sent);
	for (unsigned i = 0; i < 2 * CONTEXTS * MESSAGES; i++) {
		MX(mx_wait_any(test->endpoint, MX_INFINITE, 0, 0, &status, &result));
		CHECK_EQUAL(result, 1);
		counts[status.match_info >> shift & (CONTEXTS - 1)]++;
	}
	for (unsigned i = 0; i < CONTEXTS; i++)
		CHECK_EQUAL(counts[i], 2 * MESSAGES);
	none_complete(test, 0, 0);
}

/* A receive of one context does not get, and a probe does not see, what another context has. */
static void apart(struct test *test, unsigned shift)
{
	uint64_t mask = (uint64_t)(CONTEXTS - 1) << shift, first = UINT64_C(1) << shift, second = UINT64_C(2) << shift;
	mx_request_t send = send_start(test, NULL, 0, second, false), receive;
	mx_status_t status;
	uint32_t result;

	phase("messages of other contexts, of bits from %u", shift);
	while (!message_waits(test, second, mask, &status))
		continue;
	CHECK(!message_waits(test, first, mask, &status));
	receive = receive_start(test, NULL, 0, first, mask);
	MX(mx_test(test->endpoint, &receive, &status, &result));
	CHECK_EQUAL(result, 0);
	MX(mx_cancel(test->endpoint, &receive, &result));
	CHECK_EQUAL(result, 1);
	receive = receive_start(test, NULL, 0, second, mask);
	receive_finish(test, &receive, 0, second, &status);
	send_finish(test, &send, 0, second);
}

int main(int argc, char **argv)
{
	static const uint8_t shifts[] = {0, 17, 62};
	struct test test = {0};

	test_options(&test, "mx_contexts", argc, argv);
	test_alone(&test, NULL, 0);
	parameters();
	for (unsigned i = 0; i < sizeof(shifts); i++) {
		mx_param_t param = context_id(2, shifts[i]);

		MX(mx_close_endpoint(test.endpoint));
		MX(mx_open_endpoint(test.board, MX_ANY_ENDPOINT, test.key, &param, 1, &test.endpoint));
		MX(mx_get_endpoint_addr(test.endpoint, &test.peer));
		masks(&test, UINT64_C(3) << shifts[i], UINT64_C(1) << shifts[i]);
		by_context(&test, shifts[i]);
		across(&test, shifts[i]);
		apart(&test, shifts[i]);
	}
	return test_end(&test);
}
