/* SPDX-License-Identifier: BSD-3-Clause */
/* Workers: how a worker's progress looks at its endpoint, by whether other threads may want its lock. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(progress__may_wait_where_one_thread_comes),
		cmocka_unit_test(progress__looks_once_where_several_may_come),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
