/* SPDX-License-Identifier: BSD-3-Clause */
/* Probes: others who wait hear of what they take in, and they take in nothing while progress is switched off. Who looks
 * sleeps with the lock held (in thole_progress) as long as there is nobody else, or nobody has come for long. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/atomic.h"
#include "mx_endpoint.h"

enum { TIMEOUT_MS = 2000, TURNS_MAX = 100000, X = 7, Y = 8 };

static mx_endpoint_t endpoint, other;
static mx_endpoint_addr_t addr; /* of endpoint, for other */
static int sleeps;              /* calls of thole_progress */
static pthread_t poster;
static void *(*poster_posts)(void *request); /* while whoever makes progress sleeps; NULL: nobody does */
static mx_request_t posted;
static bool known_first; /* before Thole had the receive */

int __real_thole_progress(struct thole_endpoint *thole);
int __wrap_thole_progress(struct thole_endpoint *thole);

int __wrap_thole_progress(struct thole_endpoint *thole)
{
	sleeps++;
	if (poster_posts) {
		assert_int_equal(pthread_create(&poster, NULL, poster_posts, &posted), 0);
		poster_posts = NULL;
		while (load_relaxed(&endpoint->lock.waiting) == 0)
			sched_yield();
	}
	return __real_thole_progress(thole);
}

static void send_x(void)
{
	mx_segment_t nothing = {NULL, 0};
	mx_request_t request;

	assert_int_equal(mx_isend(other, &nothing, 1, addr, X, NULL, &request), MX_SUCCESS);
	assert_int_equal(mx_forget(other, &request), MX_SUCCESS);
}

static uint32_t found(uint64_t match_info)
{
	mx_status_t status;
	uint32_t result;

	assert_int_equal(mx_iprobe(endpoint, match_info, UINT64_MAX, &status, &result), MX_SUCCESS);
	return result;
}

static void receive_x(void)
{
	mx_segment_t nothing = {NULL, 0};
	mx_request_t request;
	mx_status_t status;
	uint32_t result = 0;

	assert_int_equal(mx_irecv(endpoint, &nothing, 1, X, UINT64_MAX, NULL, &request), MX_SUCCESS);
	for (int turn = 0; turn < TURNS_MAX && !result; turn++)
		assert_int_equal(mx_test(endpoint, &request, &status, &result), MX_SUCCESS);
	assert_int_equal(result, 1);
}

/* Two that have not spoken yet. */
static int setup_strangers(void **state)
{
	mx_endpoint_addr_t name;
	uint32_t endpoint_id;
	uint64_t nic_id;

	(void)state;
	assert_int_equal(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, 5, NULL, 0, &endpoint), MX_SUCCESS);
	assert_int_equal(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, 5, NULL, 0, &other), MX_SUCCESS);
	assert_int_equal(mx_get_endpoint_addr(endpoint, &name), MX_SUCCESS);
	assert_int_equal(mx_decompose_endpoint_addr(name, &nic_id, &endpoint_id), MX_SUCCESS);
	assert_int_equal(mx_connect(other, nic_id, endpoint_id, 5, TIMEOUT_MS, &addr), MX_SUCCESS);
	return 0;
}

/* Two that have exchanged a message: from then on one step of progress takes in what was sent. */
static int setup(void **state)
{
	setup_strangers(state);
	send_x();
	receive_x();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(mx_close_endpoint(other), MX_SUCCESS);
	assert_int_equal(mx_close_endpoint(endpoint), MX_SUCCESS);
	return 0;
}

/* Whoever probes for X sleeps, since there was none: a probe for Y has taken it in, and its wake-up with it. */
static void probe__tells_who_waits_for_another(void **state)
{
	uint32_t events;

	(void)state;
	send_x();
	lock_take(&endpoint->lock);
	events = endpoint->events;
	lock_leave(&endpoint->lock);
	assert_int_equal(found(Y), 0);
	assert_int_not_equal(endpoint->events, events);
	assert_int_equal(mx_disable_progression(endpoint), MX_SUCCESS);
	assert_int_equal(found(X), 1);
	assert_int_equal(mx_reenable_progression(endpoint), MX_SUCCESS);
	receive_x();
}

static void probe__takes_nothing_in_while_progress_is_off(void **state)
{
	(void)state;
	assert_int_equal(mx_disable_progression(endpoint), MX_SUCCESS);
	send_x();
	for (int look = 0; look < 100; look++)
		assert_int_equal(found(X), 0);
	assert_int_equal(mx_reenable_progression(endpoint), MX_SUCCESS);
	assert_int_equal(found(X), 1);
	receive_x();
}

/* Another thread may take a message's end from Thole, and with it the request, before the receive returns. */
int __real_thole_recv(struct thole_endpoint *thole, uint32_t source, void *memory, size_t length, uint64_t tag,
		      uint64_t mask, unsigned flags, void *context, struct thole_request **request_p);
int __wrap_thole_recv(struct thole_endpoint *thole, uint32_t source, void *memory, size_t length, uint64_t tag,
		      uint64_t mask, unsigned flags, void *context, struct thole_request **request_p);

int __wrap_thole_recv(struct thole_endpoint *thole, uint32_t source, void *memory, size_t length, uint64_t tag,
		      uint64_t mask, unsigned flags, void *context, struct thole_request **request_p)
{
	known_first = context && posted == context;
	return __real_thole_recv(thole, source, memory, length, tag, mask, flags, context, request_p);
}

static void receive__is_known_before_it_can_end(void **state)
{
	mx_segment_t nothing = {NULL, 0};
	uint32_t result;

	(void)state;
	posted = NULL;
	assert_int_equal(mx_irecv(endpoint, &nothing, 1, X, UINT64_MAX, NULL, &posted), MX_SUCCESS);
	assert_true(known_first);
	assert_int_equal(mx_cancel(endpoint, &posted, &result), MX_SUCCESS);
	assert_int_equal(result, 1);
}

static void *post_x(void *request)
{
	mx_segment_t nothing = {NULL, 0};

	assert_int_equal(mx_irecv(endpoint, &nothing, 1, X, UINT64_MAX, NULL, request), MX_SUCCESS);
	return NULL;
}

/* Between two looks of one who polls the lock is free for too short to be had by one who waits. */
static void probe__of_several_does_not_sleep(void **state)
{
	uint32_t result;

	(void)state;
	sleeps = 0;
	assert_int_equal(found(Y), 0);
	assert_int_equal(sleeps, 1);
	poster_posts = post_x;
	assert_int_equal(found(Y), 0);
	assert_int_equal(sleeps, 2);
	assert_int_equal(pthread_join(poster, NULL), 0);
	assert_int_equal(found(Y), 0);
	assert_int_equal(sleeps, 2);
	for (int look = 0; look < TURNS_MAX && sleeps == 2; look++)
		assert_int_equal(found(Y), 0);
	assert_int_equal(sleeps, 3); /* nobody else has come since */
	assert_int_equal(mx_cancel(endpoint, &posted, &result), MX_SUCCESS);
	assert_int_equal(result, 1);
}

/* It would take the other one's wake-up with it. */
static void probe__beside_a_sleeper_never_sleeps(void **state)
{
	(void)state;
	sleeps = 0;
	endpoint->leader_sleeps = true; /* as a thread does in mx_probe */
	assert_int_equal(found(Y), 0);
	endpoint->leader_sleeps = false;
	assert_int_equal(sleeps, 0);
}

static bool no_memory;  /* for one more of MX's peers */
static unsigned wanted; /* times that there was none */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
	if (!no_memory || size != sizeof(struct mxi_peer))
		return __real_calloc(count, size);
	wanted++;
	return NULL;
}

static void status_is_of_other(const mx_status_t *status)
{
	uint64_t nic_id, others_nic_id;
	uint32_t number, others_number;
	mx_endpoint_addr_t others;

	assert_int_equal(mx_get_endpoint_addr(other, &others), MX_SUCCESS);
	assert_int_equal(mx_decompose_endpoint_addr(others, &others_nic_id, &others_number), MX_SUCCESS);
	assert_int_equal(mx_decompose_endpoint_addr(status->source, &nic_id, &number), MX_SUCCESS);
	assert_true(nic_id == others_nic_id && number == others_number);
}

/* A message of one that has not spoken before, until there is no memory for who that is. */
static void send_x_in_want(void)
{
	no_memory = true;
	wanted = 0;
	send_x();
	for (int turn = 0; turn < TURNS_MAX && !wanted; turn++)
		assert_int_equal(found(X), 0);
	assert_true(wanted > 0);
}

/* A message whose sender cannot be said has not come yet: its result could not be answered, nor asked for again. */
static void source__without_memory(void **state)
{
	mx_segment_t nothing = {NULL, 0};
	mx_request_t request, shown;
	mx_status_t status;
	uint32_t result;

	(void)state;
	send_x_in_want();
	assert_int_equal(mx_irecv(endpoint, &nothing, 1, X, UINT64_MAX, NULL, &request), MX_SUCCESS);
	assert_int_equal(mx_test(endpoint, &request, &status, &result), MX_SUCCESS);
	assert_int_equal(result, 0);
	assert_int_equal(mx_test_any(endpoint, X, UINT64_MAX, &status, &result), MX_SUCCESS);
	assert_int_equal(result, 0);
	assert_int_equal(mx_ipeek(endpoint, &shown, &result), MX_SUCCESS);
	assert_int_equal(result, 0);
	no_memory = false;
	assert_int_equal(mx_ipeek(endpoint, &shown, &result), MX_SUCCESS);
	assert_int_equal(result, 1);
	assert_ptr_equal(shown, request);
	assert_int_equal(mx_test(endpoint, &request, &status, &result), MX_SUCCESS);
	assert_int_equal(result, 1);
	status_is_of_other(&status);
}

static int heard;

static mx_unexp_handler_action_t hear(void *context, mx_endpoint_addr_t source, uint64_t match_info, uint32_t length,
				      void *data)
{
	mx_status_t status = {.source = source};

	(void)context, (void)length, (void)data;
	assert_int_equal(match_info, X);
	status_is_of_other(&status);
	heard++;
	return MX_RECV_CONTINUE;
}

/* Nor has the handler heard of it, which another may, or none. */
static void handler__without_memory(void **state)
{
	(void)state;
	heard = 0;
	assert_int_equal(mx_register_unexp_handler(endpoint, hear, NULL), MX_SUCCESS);
	send_x_in_want();
	assert_int_equal(heard, 0);
	no_memory = false;
	assert_int_equal(mx_progress(endpoint), MX_SUCCESS);
	assert_int_equal(heard, 1);
	receive_x();
}

static void handler__that_is_gone_leaves_what_it_has_not_heard(void **state)
{
	(void)state;
	assert_int_equal(mx_register_unexp_handler(endpoint, hear, NULL), MX_SUCCESS);
	send_x_in_want();
	assert_non_null(endpoint->screened.message);
	assert_int_equal(mx_register_unexp_handler(endpoint, NULL, NULL), MX_SUCCESS);
	no_memory = false;
	receive_x();
}

static int setup_all(void **state)
{
	(void)state;
	setenv("THOLE_NETWORK", "off", 1);
	mx_set_error_handler(MX_ERRORS_RETURN);
	return mx_init() == MX_SUCCESS ? 0 : -1;
}

static int teardown_all(void **state)
{
	(void)state;
	return mx_finalize() == MX_SUCCESS ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(probe__tells_who_waits_for_another, setup, teardown),
		cmocka_unit_test_setup_teardown(probe__takes_nothing_in_while_progress_is_off, setup, teardown),
		cmocka_unit_test_setup_teardown(probe__of_several_does_not_sleep, setup, teardown),
		cmocka_unit_test_setup_teardown(receive__is_known_before_it_can_end, setup, teardown),
		cmocka_unit_test_setup_teardown(probe__beside_a_sleeper_never_sleeps, setup, teardown),
		cmocka_unit_test_setup_teardown(source__without_memory, setup_strangers, teardown),
		cmocka_unit_test_setup_teardown(handler__without_memory, setup_strangers, teardown),
		cmocka_unit_test_setup_teardown(handler__that_is_gone_leaves_what_it_has_not_heard, setup_strangers,
						teardown),
	};

	return cmocka_run_group_tests(tests, setup_all, teardown_all);
}
