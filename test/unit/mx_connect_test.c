/* SPDX-License-Identifier: BSD-3-Clause */
/* mx_connect beside other calls of the program: its end is its own, and no result of theirs. */
#include "unit.h"

#include <stdlib.h>

#include "message/internal.h"
#include "mx_endpoint.h"
#include "mx_request.h"

enum { TIMEOUT_MS = 2000 };

static struct {
	mx_endpoint_t endpoint;
	uint32_t calls, tested, peeked; /* of the handler; what it has found done */
} look;

/* What is done besides the send that brought us here. */
static mx_unexp_handler_action_t look_for_done(void *context, mx_endpoint_addr_t source, uint64_t match_value,
					       uint32_t length, void *data_if_available)
{
	mx_request_t request;
	mx_status_t status;

	(void)context, (void)source, (void)match_value, (void)length, (void)data_if_available;
	look.calls++;
	assert_int_equal(mx_ipeek(look.endpoint, &request, &look.peeked), MX_SUCCESS);
	assert_int_equal(mx_test_any(look.endpoint, 0, 0, &status, &look.tested), MX_SUCCESS);
	return MX_RECV_FINISHED;
}

static void send_to_self(mx_endpoint_addr_t self)
{
	mx_segment_t nothing = {NULL, 0};
	mx_request_t request;

	assert_int_equal(mx_isend(look.endpoint, &nothing, 1, self, 7, NULL, &request), MX_SUCCESS);
	assert_int_equal(mx_forget(look.endpoint, &request), MX_SUCCESS);
}

/* The connect is over at once, and as it looks for that it makes progress, amid which the program looks too. */
static void connect_is_no_result_of_others(mx_param_t *parameters, uint32_t count)
{
	mx_endpoint_addr_t self, addr = {{0}};
	uint32_t endpoint_id, result;
	mx_status_t status;
	uint64_t nic_id;

	look.calls = look.tested = look.peeked = 0;
	assert_int_equal(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, 5, parameters, count, &look.endpoint),
			 MX_SUCCESS);
	assert_int_equal(mx_get_endpoint_addr(look.endpoint, &self), MX_SUCCESS);
	assert_int_equal(mx_decompose_endpoint_addr(self, &nic_id, &endpoint_id), MX_SUCCESS);
	assert_int_equal(mx_register_unexp_handler(look.endpoint, look_for_done, NULL), MX_SUCCESS);
	send_to_self(self);
	while (look.calls == 0) /* from then on one step of progress is enough */
		assert_int_equal(mx_progress(look.endpoint), MX_SUCCESS);
	send_to_self(self);
	assert_int_equal(mx_connect(look.endpoint, nic_id, endpoint_id, 5, TIMEOUT_MS, &addr), MX_SUCCESS);
	assert_int_equal(look.calls, 2);
	assert_memory_equal(&addr, &self, sizeof(self));
	assert_int_equal(look.tested, 0);
	assert_int_equal(look.peeked, 0);
	assert_int_equal(mx_test_any(look.endpoint, 0, 0, &status, &result), MX_SUCCESS);
	assert_int_equal(result, 0);
	assert_int_equal(mx_close_endpoint(look.endpoint), MX_SUCCESS);
}

static void connect__is_no_result_of_test_any(void **state)
{
	(void)state;
	connect_is_no_result_of_others(NULL, 0);
}

static void connect__is_in_no_context(void **state)
{
	mx_param_t ids = {.key = MX_PARAM_CONTEXT_ID, .val = {.context_id = {.bits = 4, .shift = 60}}};

	(void)state;
	connect_is_no_result_of_others(&ids, 1);
}

static mx_return_t connect_to(mx_endpoint_t endpoint, mx_endpoint_addr_t other, mx_endpoint_addr_t *addr_p)
{
	uint32_t endpoint_id;
	uint64_t nic_id;

	assert_int_equal(mx_decompose_endpoint_addr(other, &nic_id, &endpoint_id), MX_SUCCESS);
	return mx_connect(endpoint, nic_id, endpoint_id, 5, TIMEOUT_MS, addr_p);
}

/* Its process lives and answers in the directory, but Thole has given it up, as one whose host was silent for long. */
static void connect__peer_that_is_gone_does_not_come_back(void **state)
{
	mx_endpoint_addr_t self, addr;
	mx_endpoint_t endpoint, other;
	struct peer *peer;

	(void)state;
	assert_int_equal(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, 5, NULL, 0, &endpoint), MX_SUCCESS);
	assert_int_equal(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, 5, NULL, 0, &other), MX_SUCCESS);
	assert_int_equal(mx_get_endpoint_addr(other, &self), MX_SUCCESS);
	assert_int_equal(connect_to(endpoint, self, &addr), MX_SUCCESS);
	assert_int_equal(connect_to(endpoint, self, &addr), MX_SUCCESS);
	peer = endpoint->thole->peers[mxi_peer_at(addr)->handle];
	peer_lost(peer, THOLE_ERR_PEER);
	assert_int_equal(connect_to(endpoint, self, &addr), MX_CONNECTION_FAILED);
	peer->base.silent = true;
	assert_int_equal(connect_to(endpoint, self, &addr), MX_TIMEOUT);
	assert_int_equal(mx_close_endpoint(endpoint), MX_SUCCESS);
	assert_int_equal(mx_close_endpoint(other), MX_SUCCESS);
}

/* Nobody has such an adapter, so the question for it is under way for a while. A canceled one is asked no more: its
 * request is another one's by the time that it were answered. */
static void connect__that_is_canceled_asks_no_more(void **state)
{
	mx_endpoint_t endpoint;
	mx_request_t request, same;
	uint32_t result = 0;

	(void)state;
	assert_int_equal(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, 5, NULL, 0, &endpoint), MX_SUCCESS);
	assert_int_equal(mx_iconnect(endpoint, UINT64_C(0x0060dd123456), 3, 5, 0, NULL, &request), MX_SUCCESS);
	assert_false(list_empty(&endpoint->connecting));
	same = request;
	assert_int_equal(mx_cancel(endpoint, &request, &result), MX_SUCCESS);
	assert_int_equal(result, 1);
	assert_null(request);
	assert_true(list_empty(&endpoint->connecting));
	assert_null(same->query);
	assert_int_equal(mx_close_endpoint(endpoint), MX_SUCCESS);
}

static int setup(void **state)
{
	(void)state;
	setenv("THOLE_NETWORK", "off", 1);
	mx_set_error_handler(MX_ERRORS_RETURN);
	return mx_init() == MX_SUCCESS ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return mx_finalize() == MX_SUCCESS ? 0 : -1;
}

static bool no_memory; /* for one more deadline */

int __real_heap_reserve(struct heap *heap, uint32_t members);
int __wrap_heap_reserve(struct heap *heap, uint32_t members);

int __wrap_heap_reserve(struct heap *heap, uint32_t members)
{
	return no_memory ? THOLE_ERR_MEMORY : __real_heap_reserve(heap, members);
}

/* A program that relies on its time-outs is told before anything has begun. */
static void deadline__without_memory(void **state)
{
	enum { NOBODYS_ID = 250, SHORT_MS = 20 };
	mx_segment_t nothing = {NULL, 0};
	mx_endpoint_addr_t self;
	mx_request_t request;
	uint32_t number, result;
	mx_status_t status;
	uint64_t nic_id;

	(void)state;
	assert_int_equal(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, 5, NULL, 0, &look.endpoint), MX_SUCCESS);
	assert_int_equal(mx_get_endpoint_addr(look.endpoint, &self), MX_SUCCESS);
	assert_int_equal(mx_decompose_endpoint_addr(self, &nic_id, &number), MX_SUCCESS);
	assert_int_equal(mx_set_request_timeout(look.endpoint, NULL, SHORT_MS), MX_SUCCESS);
	no_memory = true;
	assert_int_equal(mx_issend(look.endpoint, &nothing, 1, self, 7, NULL, &request), MX_NO_RESOURCES);
	assert_int_equal(mx_iconnect(look.endpoint, nic_id, NOBODYS_ID, 5, 7, NULL, &request), MX_NO_RESOURCES);
	no_memory = false;
	assert_int_equal(look.endpoint->requests.live, 0);
	assert_int_equal(mx_issend(look.endpoint, &nothing, 1, self, 7, NULL, &request), MX_SUCCESS);
	assert_int_equal(mx_wait(look.endpoint, &request, MX_INFINITE, &status, &result), MX_SUCCESS);
	assert_int_equal(status.code, MX_STATUS_TIMEOUT);
	assert_int_equal(mx_close_endpoint(look.endpoint), MX_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connect__is_no_result_of_test_any),
		cmocka_unit_test(connect__is_in_no_context),
		cmocka_unit_test(connect__peer_that_is_gone_does_not_come_back),
		cmocka_unit_test(connect__that_is_canceled_asks_no_more),
		cmocka_unit_test(deadline__without_memory),
	};

	return cmocka_run_group_tests_name("mx_connect", tests, setup, teardown);
}
