/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers: how a worker's progress looks at its endpoint, by whether other threads may want its lock; and that what is
 * asked for as a request comes back. */
#include "unit.h"

#include <ucp/api/ucp.h>

#include "thole.h"

static unsigned progresses, polls;

int __real_thole_progress(struct thole_endpoint *endpoint);
int __wrap_thole_progress(struct thole_endpoint *endpoint);
int __real_thole_poll(struct thole_endpoint *endpoint, struct thole_completion *completions, size_t count);
int __wrap_thole_poll(struct thole_endpoint *endpoint, struct thole_completion *completions, size_t count);

int __wrap_thole_progress(struct thole_endpoint *endpoint)
{
	progresses++;
	return __real_thole_progress(endpoint);
}

int __wrap_thole_poll(struct thole_endpoint *endpoint, struct thole_completion *completions, size_t count)
{
	polls++;
	return __real_thole_poll(endpoint, completions, count);
}

static void worker_progresses(ucs_thread_mode_t mode)
{
	const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
	const ucp_worker_params_t how = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = mode};
	ucp_context_h context;
	ucp_worker_h worker;

	progresses = polls = 0;
	assert_int_equal(ucp_init(&params, NULL, &context), UCS_OK);
	assert_int_equal(ucp_worker_create(context, &how, &worker), UCS_OK);
	assert_int_equal(ucp_worker_progress(worker), 0);
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
}

static void progress__may_wait_where_one_thread_comes(void **state)
{
	(void)state;
	worker_progresses(UCS_THREAD_MODE_SINGLE);
	assert_int_equal(progresses, 1);
	assert_int_equal(polls, 0);
}

/* It would hold the lock meanwhile. */
static void progress__looks_once_where_several_may_come(void **state)
{
	(void)state;
	worker_progresses(UCS_THREAD_MODE_MULTI);
	assert_int_equal(progresses, 0);
	assert_int_equal(polls, 1);
}

/* What ucp_request_alloc gave is the worker's again, though its operation took it for the program's. */
static void alloc__is_given_back(void **state)
{
	const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
	const ucp_worker_params_t how = {.field_mask = 0};
	ucp_context_h context;
	ucp_worker_h worker;
	void *request;
	char byte;

	(void)state;
	assert_int_equal(ucp_init(&params, NULL, &context), UCS_OK);
	assert_int_equal(ucp_worker_create(context, &how, &worker), UCS_OK);
	request = ucp_request_alloc(worker);
	assert_non_null(request);
	assert_int_equal(ucp_tag_recv_nbr(worker, &byte, 1, ucp_dt_make_contig(1), 1, UINT64_MAX, request), UCS_OK);
	ucp_request_cancel(worker, request);
	assert_int_equal(ucp_request_check_status(request), UCS_ERR_CANCELED);
	ucp_request_free(request);
	assert_ptr_equal(ucp_request_alloc(worker), request);
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
}

/* A synchronous send of a byte to itself, whose receive is not posted. */
static void *flush_send(ucp_ep_h ep, ucp_tag_t tag)
{
	static char byte;
	void *request = ucp_tag_send_sync_nb(ep, &byte, 1, ucp_dt_make_contig(1), tag, NULL);

	assert_true(UCS_PTR_IS_PTR(request));
	return request;
}

static void flush_receive(ucp_worker_h worker, ucp_tag_t tag, void *send)
{
	char byte;
	void *request = ucp_tag_recv_nb(worker, &byte, 1, ucp_dt_make_contig(1), tag, UINT64_MAX, NULL);

	assert_true(UCS_PTR_IS_PTR(request));
	while (!ucp_request_is_completed(request) || !ucp_request_is_completed(send))
		ucp_worker_progress(worker);
	ucp_request_free(request);
	ucp_request_free(send);
}

/* What was sent after a flush does not count for it, nor what another endpoint has sent for an endpoint's. */
static void flush__of_what_was_sent_before(void **state)
{
	const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
	const ucp_worker_params_t how = {.field_mask = 0};
	ucp_ep_params_t to = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
	void *before, *beside, *behind, *of_worker, *of_endpoint;
	ucp_address_t *address;
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_ep_h ep, other;
	size_t length;

	(void)state;
	assert_int_equal(ucp_init(&params, NULL, &context), UCS_OK);
	assert_int_equal(ucp_worker_create(context, &how, &worker), UCS_OK);
	assert_int_equal(ucp_worker_get_address(worker, &address, &length), UCS_OK);
	to.address = address;
	assert_int_equal(ucp_ep_create(worker, &to, &ep), UCS_OK);
	assert_int_equal(ucp_ep_create(worker, &to, &other), UCS_OK);
	before = flush_send(ep, 1);
	beside = flush_send(other, 2);
	of_worker = ucp_worker_flush_nb(worker, 0, NULL);
	of_endpoint = ucp_ep_flush_nb(ep, 0, NULL);
	assert_true(UCS_PTR_IS_PTR(of_worker) && UCS_PTR_IS_PTR(of_endpoint));
	for (ucp_tag_t tag = 3; tag < 6; tag++) {
		behind = flush_send(ep, tag);
		flush_receive(worker, tag, behind);
	}
	flush_receive(worker, 2, beside);
	assert_false(ucp_request_is_completed(of_worker));
	assert_false(ucp_request_is_completed(of_endpoint));
	flush_receive(worker, 1, before);
	ucp_worker_progress(worker);
	assert_true(ucp_request_is_completed(of_worker) && ucp_request_is_completed(of_endpoint));
	ucp_request_free(of_worker);
	ucp_request_free(of_endpoint);
	ucp_worker_release_address(worker, address);
	ucp_ep_destroy(ep);
	ucp_ep_destroy(other);
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(progress__may_wait_where_one_thread_comes),
		cmocka_unit_test(progress__looks_once_where_several_may_come),
		cmocka_unit_test(alloc__is_given_back),
		cmocka_unit_test(flush__of_what_was_sent_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
