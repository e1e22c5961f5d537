/* SPDX-License-Identifier: BSD-3-Clause */
/* Flags: which of Thole's follow from libfabric's, and from what is bound. */
#include "unit.h"

#include <string.h>

#include "prov_flags.h"

static struct prov_counter *const counter = (struct prov_counter *)64; /* never looked into */

static struct prov_endpoint endpoint;

static int setup(void **state)
{
	(void)state;
	memset(&endpoint, 0, sizeof endpoint);
	return 0;
}

static void send__follows_the_call(void **state)
{
	(void)state;
	assert_int_equal(prov_flags_send(&endpoint, THOLE_OP_SEND, 0), 0);
	assert_int_equal(prov_flags_send(&endpoint, THOLE_OP_SEND, FI_INJECT), THOLE_INJECT);
	assert_int_equal(prov_flags_send(&endpoint, THOLE_OP_SEND, FI_REMOTE_CQ_DATA), THOLE_IMM);
	assert_int_equal(prov_flags_send(&endpoint, THOLE_OP_SEND, FI_MATCH_COMPLETE), THOLE_SYNC);
	assert_int_equal(prov_flags_send(&endpoint, THOLE_OP_SEND, FI_TRANSMIT_COMPLETE), THOLE_ARRIVED);
	assert_int_equal(prov_flags_send(&endpoint, THOLE_OP_SEND, FI_DELIVERY_COMPLETE), THOLE_ARRIVED);
	assert_int_equal(prov_flags_send(&endpoint, THOLE_OP_PUT, FI_DELIVERY_COMPLETE), 0); /* always so */
	assert_int_equal(prov_flags_send(&endpoint, THOLE_OP_PUT, FI_MATCH_COMPLETE),
			 0); /* nothing matches */
	assert_int_equal(prov_flags_send(&endpoint, THOLE_OP_SEND, FI_COMPLETION), 0);
}

/* With FI_SELECTIVE_COMPLETION only what asks for an entry makes one; a counter has to hear of
 * all. */
static void selective__is_silent_or_quiet(void **state)
{
	(void)state;
	endpoint.tx_selective = true;
	assert_int_equal(prov_flags_send(&endpoint, THOLE_OP_PUT, 0), THOLE_QUIET);
	assert_int_equal(prov_flags_send(&endpoint, THOLE_OP_PUT, FI_COMPLETION), 0);
	prov_endpoint_sink(&endpoint, THOLE_OP_PUT, 0)->counter = counter;
	assert_int_equal(prov_flags_send(&endpoint, THOLE_OP_PUT, 0), PROV_SILENT);
	assert_int_equal(prov_flags_send(&endpoint, THOLE_OP_SEND, 0), THOLE_QUIET);
	assert_int_equal(prov_flags_recv(&endpoint, 0, 0), 0); /* the other direction */
	endpoint.rx_selective = true;
	assert_int_equal(prov_flags_recv(&endpoint, 0, 0), THOLE_QUIET);
	assert_int_equal(prov_flags_recv(&endpoint, THOLE_PLAIN, FI_COMPLETION), THOLE_PLAIN);
	/* A used up buffer makes an entry even so. */
	assert_int_equal(prov_flags_recv(&endpoint, THOLE_PLAIN, FI_MULTI_RECV),
			 THOLE_PLAIN | THOLE_MULTI | PROV_SILENT);
	prov_endpoint_sink(&endpoint, THOLE_OP_RECEIVE, THOLE_PLAIN)->counter = counter;
	assert_int_equal(prov_flags_recv(&endpoint, THOLE_PLAIN, 0), THOLE_PLAIN | PROV_SILENT);
	assert_int_equal(prov_flags_recv(&endpoint, 0, 0), THOLE_QUIET);
}

static void settle__prepares_calls_without_flags(void **state)
{
	(void)state;
	endpoint.caps = FI_DIRECTED_RECV;
	endpoint.tx_flags = FI_MATCH_COMPLETE;
	endpoint.rx_flags = FI_MULTI_RECV;
	prov_flags_settle(&endpoint);
	assert_int_equal(endpoint.inject_flags, THOLE_INJECT | THOLE_QUIET);
	assert_int_equal(endpoint.send_flags, THOLE_SYNC);
	assert_int_equal(endpoint.recv_flags, 0); /* no tagged receive takes several */
	assert_int_equal(endpoint.plain_recv_flags, THOLE_PLAIN | THOLE_MULTI);
	assert_true(endpoint.directed && !endpoint.wants_source);
	prov_endpoint_sink(&endpoint, THOLE_OP_SEND, 0)->counter = counter;
	prov_flags_settle(&endpoint);
	assert_int_equal(endpoint.inject_flags, THOLE_INJECT | PROV_SILENT);
}

/* MPIs ask for it of all and mean their puts. */
static void settle__sends_wait_for_arrival_without_puts(void **state)
{
	(void)state;
	endpoint.tx_flags = FI_DELIVERY_COMPLETE;
	prov_flags_settle(&endpoint);
	assert_int_equal(endpoint.send_flags, THOLE_ARRIVED);
	endpoint.caps = FI_RMA;
	prov_flags_settle(&endpoint);
	assert_int_equal(endpoint.send_flags, 0);
	endpoint.caps = FI_ATOMIC;
	prov_flags_settle(&endpoint);
	assert_int_equal(endpoint.send_flags, 0);
}

static void settle__says_what_ends(void **state)
{
	(void)state;
	prov_flags_settle(&endpoint);
	assert_true(prov_endpoint_sink(&endpoint, THOLE_OP_SEND, 0)->flags ==
		    (FI_SEND | FI_TAGGED));
	assert_true(prov_endpoint_sink(&endpoint, THOLE_OP_RECEIVE, THOLE_PLAIN)->flags ==
		    (FI_RECV | FI_MSG));
	assert_true(prov_endpoint_sink(&endpoint, THOLE_OP_PUT, 0)->flags == (FI_RMA | FI_WRITE));
	assert_true(prov_endpoint_sink(&endpoint, THOLE_OP_GET, 0)->flags == (FI_RMA | FI_READ));
	assert_true(prov_endpoint_sink(&endpoint, THOLE_OP_ATOMIC_FETCH, 0)->flags ==
		    (FI_ATOMIC | FI_READ));
	assert_true(prov_endpoint_sink(&endpoint, THOLE_OP_REMOTE_PUT, 0)->flags ==
		    (FI_RMA | FI_REMOTE_WRITE));
	/* Only what arrives brings immediate data. */
	assert_true(prov_endpoint_sink(&endpoint, THOLE_OP_RECEIVE, 0)->imm_flag ==
		    FI_REMOTE_CQ_DATA);
	assert_true(prov_endpoint_sink(&endpoint, THOLE_OP_REMOTE_PUT, 0)->imm_flag ==
		    FI_REMOTE_CQ_DATA);
	assert_true(prov_endpoint_sink(&endpoint, THOLE_OP_SEND, 0)->imm_flag == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(send__follows_the_call, setup),
		cmocka_unit_test_setup(selective__is_silent_or_quiet, setup),
		cmocka_unit_test_setup(settle__prepares_calls_without_flags, setup),
		cmocka_unit_test_setup(settle__sends_wait_for_arrival_without_puts, setup),
		cmocka_unit_test_setup(settle__says_what_ends, setup),
	};

	return cmocka_run_group_tests_name("prov_flags", tests, NULL, NULL);
}
