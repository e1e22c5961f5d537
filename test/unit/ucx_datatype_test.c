/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datatypes that go part by part (option mpi_datatypes=parts): two workers of one process, and a datatype whose
 * functions pack whole elements alone, as MPI libraries' do.
 */
#include "unit.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#include "ucx_state.h"

enum {
	ELEMENT = 24, /* bytes, each behind as many that are none of the data */
	TAG = 7,
	PARTS = 1000003,   /* goes by parts, and its last element is cut */
	WHOLE = 20 * 1024, /* does not */
};

/* ---- The datatype ------------------------------------------------------------------------------------- */

static struct {
	int states;           /* open */
	int packs, unpacks;   /* calls */
	uint64_t pack_end;    /* behind this nothing is packed any more */
	ucs_status_t unpacks_to;
} seen;

struct elements {
	unsigned char *buffer;
	size_t length; /* packed */
};

static void *elements_start(void *unused, void *buffer, size_t length)
{
	struct elements *elements = malloc(sizeof *elements);

	(void)unused;
	assert_non_null(elements);
	*elements = (struct elements){buffer, length};
	seen.states++;
	return elements;
}

static void *elements_start_pack(void *unused, const void *buffer, size_t length)
{
	return elements_start(unused, (void *)(uintptr_t)buffer, length);
}

static size_t elements_size(void *state)
{
	return ((struct elements *)state)->length;
}

static size_t place_of(size_t offset)
{
	return offset / ELEMENT * 2 * ELEMENT + offset % ELEMENT;
}

static size_t elements_pack(void *state, size_t offset, void *to, size_t room)
{
	const struct elements *elements = state;
	size_t end = offset + room < elements->length ? (offset + room) / ELEMENT * ELEMENT : elements->length;

	seen.packs++;
	assert_true(offset % ELEMENT == 0 || offset >= seen.pack_end);
	assert_true(room < elements->length || (uintptr_t)to % 16 == 0); /* as a whole: as memory of malloc's */
	if (end > seen.pack_end)
		end = seen.pack_end;
	for (size_t i = offset; i < end; i++)
		((unsigned char *)to)[i - offset] = elements->buffer[place_of(i)];
	return end > offset ? end - offset : 0;
}

static ucs_status_t elements_unpack(void *state, size_t offset, const void *from, size_t length)
{
	const struct elements *elements = state;

	seen.unpacks++;
	assert_in_range(offset + length, 0, elements->length);
	for (size_t i = 0; i < length; i++)
		elements->buffer[place_of(offset + i)] = ((const unsigned char *)from)[i];
	return seen.unpacks_to;
}

static void elements_finish(void *state)
{
	free(state);
	seen.states--;
}

static const ucp_generic_dt_ops_t operations = {elements_start_pack, elements_start,  elements_size,
						elements_pack,       elements_unpack, elements_finish};

/* ---- Two workers -------------------------------------------------------------------------------------- */

struct two {
	ucp_context_h context;
	ucp_worker_h from, to;
	ucp_ep_h ep;
	ucp_request_param_t elements, bytes;
	unsigned char *out, *in; /* room for 2 * PARTS bytes and an element */
};

static ucp_worker_h worker_of(ucp_context_h context)
{
	const ucp_worker_params_t how = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
					 .thread_mode = UCS_THREAD_MODE_SINGLE};
	ucp_worker_h worker;

	assert_int_equal(ucp_worker_create(context, &how, &worker), UCS_OK);
	return worker;
}

static void two_open(struct two *two)
{
	const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
	ucp_ep_params_t to = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
	ucp_address_t *address;
	size_t length;

	*two = (struct two){.elements = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE}};
	assert_int_equal(ucp_init(&params, NULL, &two->context), UCS_OK);
	two->from = worker_of(two->context);
	two->to = worker_of(two->context);
	assert_int_equal(ucp_worker_get_address(two->to, &address, &length), UCS_OK);
	to.address = address;
	assert_int_equal(ucp_ep_create(two->from, &to, &two->ep), UCS_OK);
	ucp_worker_release_address(two->to, address);
	assert_int_equal(ucp_dt_create_generic(&operations, NULL, &two->elements.datatype), UCS_OK);
	two->out = malloc(2 * PARTS + 2 * ELEMENT);
	two->in = malloc(2 * PARTS + 2 * ELEMENT);
	assert_true(two->out && two->in);
	for (size_t i = 0; i < 2 * PARTS + 2 * ELEMENT; i++)
		two->out[i] = (unsigned char)(i * 31 + (i >> 10));
	memset(two->in, 0xee, 2 * PARTS + 2 * ELEMENT);
	memset(&seen, 0, sizeof seen);
	seen.pack_end = UINT64_MAX;
}

static void two_close(struct two *two)
{
	ucp_worker_destroy(two->from);
	ucp_worker_destroy(two->to);
	ucp_cleanup(two->context);
	ucp_dt_destroy(two->elements.datatype);
	free(two->out);
	free(two->in);
	assert_int_equal(seen.states, 0);
}

static ucs_status_t two_finish(struct two *two, void *request)
{
	ucs_status_t status;

	if (!UCS_PTR_IS_PTR(request))
		return UCS_PTR_STATUS(request);
	while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
		ucp_worker_progress(two->from);
		ucp_worker_progress(two->to);
	}
	ucp_request_free(request);
	return status;
}

/* Only the data's bytes, `length` of them, have come. */
static void two_check(const struct two *two, size_t length)
{
	for (size_t i = 0; i < 2 * PARTS; i++) {
		bool data = i % (2 * ELEMENT) < ELEMENT && i / (2 * ELEMENT) * ELEMENT + i % ELEMENT < length;

		if (two->in[i] != (data ? two->out[i] : 0xee))
			fail_msg("byte %zu differs of %zu", i, length);
	}
}

/* ---- Tests -------------------------------------------------------------------------------------------- */

static void messages(size_t length, bool parts)
{
	for (int early = 0; early < 2; early++) {
		void *receive = NULL, *send;
		struct two two;

		two_open(&two);
		if (!early)
			receive = ucp_tag_recv_nbx(two.to, two.in, length, TAG, UINT64_MAX, &two.elements);
		send = ucp_tag_send_nbx(two.ep, two.out, length, TAG, &two.elements);
		for (int i = 0; early && i < 3; i++) {
			ucp_worker_progress(two.from);
			ucp_worker_progress(two.to);
		}
		if (early)
			receive = ucp_tag_recv_nbx(two.to, two.in, length, TAG, UINT64_MAX, &two.elements);
		assert_int_equal(two_finish(&two, receive), UCS_OK);
		assert_int_equal(two_finish(&two, send), UCS_OK);
		two_check(&two, length);
		if (parts) {
			assert_in_range(seen.packs, 3, length / 1024);
			assert_in_range(seen.unpacks, 3, length / 1024);
		} else {
			assert_int_equal(seen.packs, 1);
			assert_int_equal(seen.unpacks, 1);
		}
		two_close(&two);
	}
}

static void long_messages_go_by_parts(void **state)
{
	(void)state;
	setenv("THOLE_MPI_DATATYPES", "parts", 1);
	messages(PARTS, true);
	messages(WHOLE, false);
}

static void they_go_as_a_whole_unless_told(void **state)
{
	(void)state;
	unsetenv("THOLE_MPI_DATATYPES");
	messages(PARTS, false);
}

/* A part of the message, none of it, more than there is room for; and to and from memory. */
static void either_side_may_be_shorter_or_memory(void **state)
{
	static const size_t lengths[] = {0, 5, 1000, 70000, PARTS};

	(void)state;
	setenv("THOLE_MPI_DATATYPES", "parts", 1);
	for (int i = 0; i < 5; i++) {
		unsigned char *memory = calloc(1, PARTS);
		void *receive, *send;
		struct two two;

		two_open(&two);
		for (size_t k = 0; k < lengths[i]; k++)
			memory[k] = two.out[place_of(k)];
		receive = ucp_tag_recv_nbx(two.to, two.in, PARTS, TAG, UINT64_MAX, &two.elements);
		send = ucp_tag_send_nbx(two.ep, memory, lengths[i], TAG, &two.bytes);
		assert_int_equal(two_finish(&two, receive), UCS_OK);
		assert_int_equal(two_finish(&two, send), UCS_OK);
		two_check(&two, lengths[i]);
		assert_true(seen.unpacks > 0); /* of an empty message, too */
		memset(memory, 0xee, PARTS);
		receive = ucp_tag_recv_nbx(two.to, memory, lengths[i], TAG, UINT64_MAX, &two.bytes);
		send = ucp_tag_send_nbx(two.ep, two.out, PARTS, TAG, &two.elements);
		assert_int_equal(two_finish(&two, receive), lengths[i] < PARTS ? UCS_ERR_MESSAGE_TRUNCATED : UCS_OK);
		assert_int_equal(two_finish(&two, send), UCS_OK);
		for (size_t k = 0; k < PARTS; k++)
			assert_int_equal(memory[k], k < lengths[i] ? two.out[place_of(k)] : 0xee);
		two_close(&two);
		free(memory);
	}
}

/* What unpacking says of any part is the message's status; one that packs no more ends all the same. */
static void programs_functions_may_fail(void **state)
{
	void *receive, *send;
	struct two two;

	(void)state;
	setenv("THOLE_MPI_DATATYPES", "parts", 1);
	two_open(&two);
	seen.unpacks_to = UCS_ERR_NO_RESOURCE;
	receive = ucp_tag_recv_nbx(two.to, two.in, PARTS, TAG, UINT64_MAX, &two.elements);
	send = ucp_tag_send_nbx(two.ep, two.out, PARTS, TAG, &two.elements);
	assert_int_equal(two_finish(&two, receive), UCS_ERR_NO_RESOURCE);
	assert_int_equal(two_finish(&two, send), UCS_OK);
	seen.unpacks_to = UCS_OK;
	seen.pack_end = 480000;
	receive = ucp_tag_recv_nbx(two.to, two.in, PARTS, TAG, UINT64_MAX, &two.elements);
	send = ucp_tag_send_nbx(two.ep, two.out, PARTS, TAG, &two.elements);
	assert_int_equal(two_finish(&two, receive), UCS_OK);
	assert_int_equal(two_finish(&two, send), UCS_OK);
	assert_int_equal(two.in[place_of(480000 - 1)], two.out[place_of(480000 - 1)]);
	assert_int_equal(two.in[place_of(480000)], 0);
	two_close(&two);
}

/* A receive that is taken back, and a worker that goes with one under way on either side. */
static void states_are_finished_whatever_comes(void **state)
{
	void *receive, *send;
	struct two two;

	(void)state;
	setenv("THOLE_MPI_DATATYPES", "parts", 1);
	two_open(&two);
	receive = ucp_tag_recv_nbx(two.to, two.in, PARTS, TAG, UINT64_MAX, &two.elements);
	assert_int_equal(seen.states, 1);
	ucp_request_cancel(two.to, receive);
	assert_int_equal(two_finish(&two, receive), UCS_ERR_CANCELED);
	assert_int_equal(seen.states, 0);
	receive = ucp_tag_recv_nbx(two.to, two.in, PARTS, TAG + 1, UINT64_MAX, &two.elements);
	send = ucp_tag_send_nbx(two.ep, two.out, PARTS, TAG, &two.elements);
	assert_true(UCS_PTR_IS_PTR(receive) && UCS_PTR_IS_PTR(send));
	assert_int_equal(seen.states, 2);
	two_close(&two);
}

/* Taken out by a probe it is received as a whole. */
static void probed_messages_are_unpacked_as_a_whole(void **state)
{
	ucp_tag_message_h message;
	ucp_tag_recv_info_t info;
	void *receive, *send;
	struct two two;

	(void)state;
	setenv("THOLE_MPI_DATATYPES", "parts", 1);
	two_open(&two);
	send = ucp_tag_send_nbx(two.ep, two.out, PARTS, TAG, &two.elements);
	while (!(message = ucp_tag_probe_nb(two.to, TAG, UINT64_MAX, 1, &info)))
		ucp_worker_progress(two.from);
	assert_int_equal(info.length, PARTS);
	receive = ucp_tag_msg_recv_nbx(two.to, two.in, PARTS, message, &two.elements);
	assert_int_equal(two_finish(&two, receive), UCS_OK);
	assert_int_equal(two_finish(&two, send), UCS_OK);
	two_check(&two, PARTS);
	assert_int_equal(seen.unpacks, 1);
	two_close(&two);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(long_messages_go_by_parts),
		cmocka_unit_test(they_go_as_a_whole_unless_told),
		cmocka_unit_test(either_side_may_be_shorter_or_memory),
		cmocka_unit_test(programs_functions_may_fail),
		cmocka_unit_test(states_are_finished_whatever_comes),
		cmocka_unit_test(probed_messages_are_unpacked_as_a_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
