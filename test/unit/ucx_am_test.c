/* SPDX-License-Identifier: BSD-3-Clause */
/* Active messages without memory to put them together; long ones, which are two sends: what becomes of the first where
 * the second fails in its call, and of the second where there is no room to receive it. */
#include "unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <ucp/api/ucp.h>

#include "thole.h"

enum {
	NUMBER = 7,      /* the handler's */
	LONG = 100000,   /* bytes of a message whose data goes by itself */
	TURNS = 1000000, /* of progress until something is taken for lost */
	LIMIT_S = 60,    /* until something that takes its time is */
};

static int sends, fails_at, fails_to; /* so many is the first send without memory, and the last; 0: none is */

int __real_thole_send(struct thole_endpoint *endpoint, uint32_t peer, const void *buffer, size_t length, uint64_t tag,
		      uint64_t imm, unsigned flags, void *context, struct thole_request **request_p);
int __wrap_thole_send(struct thole_endpoint *endpoint, uint32_t peer, const void *buffer, size_t length, uint64_t tag,
		      uint64_t imm, unsigned flags, void *context, struct thole_request **request_p);

int __wrap_thole_send(struct thole_endpoint *endpoint, uint32_t peer, const void *buffer, size_t length, uint64_t tag,
		      uint64_t imm, unsigned flags, void *context, struct thole_request **request_p)
{
	if (++sends >= fails_at && sends <= fails_to)
		return THOLE_ERR_MEMORY;
	return __real_thole_send(endpoint, peer, buffer, length, tag, imm, flags, context, request_p);
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

static bool no_memory;

void *__wrap_malloc(size_t size)
{
	return no_memory ? NULL : __real_malloc(size);
}

void *__real_memalign(size_t alignment, size_t size);
void *__wrap_memalign(size_t alignment, size_t size);

static bool no_room; /* for a long one */
static int rooms;    /* that were refused */

void *__wrap_memalign(size_t alignment, size_t size)
{
	if (!no_room || size < LONG)
		return __real_memalign(alignment, size);
	rooms++;
	return NULL;
}

int __real_thole_recv(struct thole_endpoint *endpoint, uint32_t source, void *buffer, size_t length, uint64_t tag,
		      uint64_t mask, unsigned flags, void *context, struct thole_request **request_p);
int __wrap_thole_recv(struct thole_endpoint *endpoint, uint32_t source, void *buffer, size_t length, uint64_t tag,
		      uint64_t mask, unsigned flags, void *context, struct thole_request **request_p);

static int receives_refused; /* of those to come */

int __wrap_thole_recv(struct thole_endpoint *endpoint, uint32_t source, void *buffer, size_t length, uint64_t tag,
		      uint64_t mask, unsigned flags, void *context, struct thole_request **request_p)
{
	if (length < LONG || receives_refused == 0)
		return __real_thole_recv(endpoint, source, buffer, length, tag, mask, flags, context, request_p);
	receives_refused--;
	return THOLE_ERR_MEMORY;
}

static ucp_worker_h workers[2]; /* from the first to the second, */
static ucp_ep_h there, itself;  /* and from the second to itself */
static size_t lengths;          /* of all that handlers have seen */

static ucs_status_t on_message(void *arg, void *data, size_t length, ucp_ep_h reply, unsigned flags)
{
	(void)arg;
	(void)data;
	(void)reply;
	(void)flags;
	lengths += length;
	return UCS_OK;
}

static ucp_ep_h connect_to(ucp_worker_h from)
{
	ucp_ep_params_t to = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
	ucp_address_t *address;
	ucp_ep_h endpoint;
	size_t length;

	assert_int_equal(ucp_worker_get_address(workers[1], &address, &length), UCS_OK);
	to.address = address;
	assert_int_equal(ucp_ep_create(from, &to, &endpoint), UCS_OK);
	ucp_worker_release_address(workers[1], address);
	return endpoint;
}

static ucs_status_ptr_t send_bytes(ucp_ep_h endpoint, size_t length)
{
	static const ucp_request_param_t none = {.op_attr_mask = 0};
	static unsigned char bytes[LONG];

	return ucp_am_send_nbx(endpoint, NUMBER, NULL, 0, bytes, length, &none);
}

static void sends_bytes(ucp_ep_h endpoint, size_t length)
{
	ucs_status_ptr_t request = send_bytes(endpoint, length);

	assert_false(UCS_PTR_IS_ERR(request));
}

/* What is put together off the stack: data that makes one message, or a header whose data follows. */
static void send__has_no_memory(void **state)
{
	static const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_AM};
	static const ucp_request_param_t none = {.op_attr_mask = 0};
	static const ucp_worker_params_t single = {.field_mask = 0};
	static unsigned char bytes[LONG];
	ucs_status_ptr_t failed[2];
	ucp_context_h context;

	(void)state;
	assert_int_equal(ucp_init(&params, NULL, &context), UCS_OK);
	assert_int_equal(ucp_worker_create(context, &single, &workers[1]), UCS_OK);
	itself = connect_to(workers[1]);
	sends_bytes(itself, 1);
	no_memory = true;
	failed[0] = send_bytes(itself, 16 << 10);
	failed[1] = ucp_am_send_nbx(itself, NUMBER, bytes, 4096, bytes, LONG, &none);
	sends_bytes(itself, 1000);
	no_memory = false;
	for (int i = 0; i < 2; i++)
		assert_int_equal(UCS_PTR_STATUS(failed[i]), UCS_ERR_NO_MEMORY);
	sends_bytes(itself, 16 << 10);
	no_memory = true; /* what that was put together in is there for the next ones */
	failed[0] = send_bytes(itself, 16 << 10);
	failed[1] = send_bytes(itself, 1025);
	no_memory = false;
	for (int i = 0; i < 2; i++)
		assert_false(UCS_PTR_IS_ERR(failed[i]));
	ucp_worker_destroy(workers[1]);
	ucp_cleanup(context);
}

static void arrives(size_t wanted)
{
	for (int i = 0; lengths < wanted; i++) {
		assert_in_range(i, 0, TURNS);
		ucp_worker_progress(workers[0]);
		ucp_worker_progress(workers[1]);
	}
	assert_int_equal(lengths, wanted);
}

static void progress_both(int turns)
{
	for (int i = 0; i < turns; i++) {
		ucp_worker_progress(workers[0]);
		ucp_worker_progress(workers[1]);
	}
}

static ucp_context_h talk_open(void)
{
	const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
				     .features = UCP_FEATURE_TAG | UCP_FEATURE_AM};
	const ucp_worker_params_t single = {.field_mask = 0};
	ucp_context_h context;

	lengths = 0;
	assert_int_equal(ucp_init(&params, NULL, &context), UCS_OK);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ucp_worker_create(context, &single, &workers[i]), UCS_OK);
	assert_int_equal(ucp_worker_set_am_handler(workers[1], NUMBER, on_message, NULL, 0), UCS_OK);
	there = connect_to(workers[0]);
	itself = connect_to(workers[1]);
	sends_bytes(there, 1);
	arrives(1);
	return context;
}

static void talk_close(ucp_context_h context)
{
	for (int i = 0; i < 2; i++)
		ucp_worker_destroy(workers[i]);
	ucp_cleanup(context);
}

/* Its receiver does not wait for the data: what others send is handled, and what comes next. waits: the beginning finds
 * no room. refused: so many more sends fail; closes: and the endpoint is closed meanwhile. */
static void data__fails_in_its_call(bool waits, int refused, bool closes)
{
	ucp_context_h context = talk_open();
	size_t others = 1 + waits;
	ucs_status_ptr_t failed;

	while (waits && !send_bytes(there, 1))
		others++;
	sends = 0;
	fails_at = 2;
	fails_to = 2 + refused;
	failed = send_bytes(there, LONG);
	assert_int_equal(UCS_PTR_STATUS(failed), UCS_ERR_NO_MEMORY);
	assert_int_equal(sends, waits ? 2 : 3);
	if (closes)
		assert_null(ucp_ep_close_nb(there, UCP_EP_CLOSE_MODE_FORCE));
	progress_both(1000);
	assert_int_equal(sends, waits ? 2 : 3 + refused); /* once it has gone it is owed no more */
	fails_to = 0;
	sends_bytes(itself, 10);
	arrives(others + 10);
	if (closes)
		there = connect_to(workers[0]);
	sends_bytes(there, LONG);
	arrives(others + 10 + LONG);
	talk_close(context);
}

static void data__fails_when_its_beginning_has_left(void **state)
{
	(void)state;
	data__fails_in_its_call(false, 0, false);
}

/* And there is no memory for what is to take its place. */
static void data__fails_and_what_goes_instead(void **state)
{
	(void)state;
	data__fails_in_its_call(false, 1, false);
	data__fails_in_its_call(false, 3, false);
	data__fails_in_its_call(false, 3, true);
}

static void data__fails_when_its_beginning_waits(void **state)
{
	(void)state;
	data__fails_in_its_call(true, 0, false);
}

/* There is none for its data, or for the receive of that: it waits, as do those behind it, until there is. */
static void data__waits_for_memory(void **state)
{
	ucp_context_h context = talk_open();

	(void)state;
	no_room = true;
	rooms = 0;
	sends_bytes(there, LONG);
	sends_bytes(there, 10);
	progress_both(1000);
	assert_true(rooms > 1);
	assert_int_equal(lengths, 1);
	no_room = false;
	receives_refused = 3;
	arrives(1 + LONG + 10);
	assert_int_equal(receives_refused, 0);
	sends_bytes(there, LONG);
	arrives(1 + LONG + 10 + LONG);
	talk_close(context);
}

/* One whose data never finds any does not hold up the others for ever. */
static void data__is_dropped_in_the_end(void **state)
{
	const time_t end = time(NULL) + LIMIT_S;
	ucp_context_h context;

	(void)state;
	setenv("THOLE_PEER_TIMEOUT", "100ms", 1);
	context = talk_open();
	unsetenv("THOLE_PEER_TIMEOUT");
	for (size_t others = 1; others < 3; others++) {
		no_room = true;
		rooms = 0;
		sends_bytes(there, LONG);
		sends_bytes(there, 1);
		while (lengths == others) {
			assert_true(time(NULL) < end);
			progress_both(1);
		}
		assert_int_equal(lengths, others + 1);
		assert_true(others == 1 ? rooms > 1 : rooms == 1); /* the second is dropped at once */
		no_room = false;
	}
	talk_close(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(send__has_no_memory),
		cmocka_unit_test(data__fails_when_its_beginning_has_left),
		cmocka_unit_test(data__fails_and_what_goes_instead),
		cmocka_unit_test(data__fails_when_its_beginning_waits),
		cmocka_unit_test(data__waits_for_memory),
		cmocka_unit_test(data__is_dropped_in_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
