/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions: which entry and which count an operation's end becomes. The endpoint is made by
 * hand. */
#include "prov_objects.h"

#include <string.h>

#include "prov_completion.h"
#include "prov_counter.h"
#include "prov_cq.h"
#include "prov_flags.h"
#include "prov_region.h"

static struct prov_endpoint endpoint;
static struct fid_cq *cq;
static struct fid_cntr *cntr;

static int setup(void **state)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};

	(void)state;
	objects_open(&objects);
	memset(&endpoint, 0, sizeof endpoint);
	assert_int_equal(fi_cq_open(objects.domain, &cq_attr, &cq, NULL), 0);
	assert_int_equal(fi_cntr_open(objects.domain, &cntr_attr, &cntr, NULL), 0);
	for (size_t i = 0; i < PROV_SINKS; i++)
		endpoint.sinks[i].cq = container_of(cq, struct prov_cq, fid);
	endpoint.domain = objects_domain(&objects);
	endpoint.caps = FI_TAGGED | FI_SOURCE;
	assert_int_equal(prov_map_set(&endpoint.sources, 5, 9), 0);
	prov_flags_settle(&endpoint);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(endpoint.sources);
	assert_int_equal(fi_close(&cq->fid), 0);
	assert_int_equal(fi_close(&cntr->fid), 0);
	objects_close(&objects);
	return 0;
}

static void count_into(unsigned operation)
{
	prov_endpoint_sink(&endpoint, operation, 0)->counter =
		container_of(cntr, struct prov_counter, fid);
}

static void entry__has_what_the_message_had(void **state)
{
	static char buffer[4];
	struct thole_completion completion = {.context = &endpoint,
					      .tag = 7,
					      .imm = 8,
					      .length = 3,
					      .message_length = 3,
					      .buffer = buffer,
					      .peer = 5,
					      .flags = THOLE_IMM,
					      .operation = THOLE_OP_RECEIVE};
	struct fi_cq_tagged_entry entry;
	fi_addr_t source = 0;

	(void)state;
	prov_completion_take(&endpoint, &completion);
	assert_int_equal(fi_cq_readfrom(cq, &entry, 1, &source), 1);
	assert_ptr_equal(entry.op_context, &endpoint);
	assert_true(entry.flags == (FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA));
	assert_true(entry.tag == 7 && entry.data == 8 && entry.len == 3 && entry.buf == buffer &&
		    source == 9);
	completion.peer = 4; /* in no vector */
	completion.flags = 0;
	prov_completion_take(&endpoint, &completion);
	assert_int_equal(fi_cq_readfrom(cq, &entry, 1, &source), 1);
	assert_true(entry.flags == (FI_RECV | FI_TAGGED) && source == FI_ADDR_NOTAVAIL);
	completion.flags = THOLE_PLAIN;
	prov_completion_take(&endpoint, &completion);
	assert_int_equal(fi_cq_read(cq, &entry, 1), 1);
	assert_true(entry.flags == (FI_RECV | FI_MSG));
}

static void silence__counts_and_enters_nothing(void **state)
{
	struct thole_completion completion = {
		.operation = THOLE_OP_PUT, .flags = PROV_SILENT, .length = 10};
	struct fi_cq_tagged_entry entry;

	(void)state;
	count_into(THOLE_OP_PUT);
	prov_completion_take(&endpoint, &completion);
	assert_int_equal(fi_cq_read(cq, &entry, 1), -FI_EAGAIN);
	assert_int_equal(fi_cntr_read(cntr), 1);
	completion.flags = 0;
	prov_completion_take(&endpoint, &completion);
	assert_int_equal(fi_cq_read(cq, &entry, 1), 1);
	assert_int_equal(fi_cntr_read(cntr), 2);
	/* A report of our own is no operation. */
	prov_completion_report(&endpoint, &completion);
	assert_int_equal(fi_cq_read(cq, &entry, 1), 1);
	assert_int_equal(fi_cntr_read(cntr), 2);
}

/* By which the domain's thread knows that it need not. */
static void reads__are_counted_as_polls(void **state)
{
	struct fi_cq_tagged_entry entry;
	uint32_t before = objects_domain(&objects)->polls;

	(void)state;
	assert_int_equal(fi_cq_read(cq, &entry, 1), -FI_EAGAIN);
	assert_int_equal(objects_domain(&objects)->polls - before, 1);
	assert_int_equal(fi_cntr_read(cntr), 0);
	assert_int_equal(objects_domain(&objects)->polls - before, 2);
}

static void multi__says_when_the_buffer_is_used_up(void **state)
{
	struct thole_completion completion = {.operation = THOLE_OP_RECEIVE,
					      .flags = THOLE_PLAIN | THOLE_MULTI | PROV_SILENT};
	struct fi_cq_tagged_entry entry;

	(void)state;
	prov_completion_take(&endpoint, &completion);
	assert_int_equal(fi_cq_read(cq, &entry, 1), -FI_EAGAIN);
	completion.flags |= THOLE_MULTI_END;
	prov_completion_take(&endpoint, &completion);
	assert_int_equal(fi_cq_read(cq, &entry, 1), 1);
	assert_true(entry.flags == (FI_RECV | FI_MSG | FI_MULTI_RECV));
}

static void failure__says_what_and_how_much(void **state)
{
	struct thole_completion completion = {.context = &endpoint,
					      .operation = THOLE_OP_RECEIVE,
					      .tag = 7,
					      .length = 10,
					      .message_length = 25,
					      .status = THOLE_ERR_TRUNCATED};
	struct fi_cq_err_entry error = {0};

	(void)state;
	count_into(THOLE_OP_RECEIVE);
	prov_completion_take(&endpoint, &completion);
	assert_int_equal(fi_cq_readerr(cq, &error, 0), 1);
	assert_ptr_equal(error.op_context, &endpoint);
	assert_true(error.err == FI_ETRUNC && error.prov_errno == THOLE_ERR_TRUNCATED &&
		    error.tag == 7);
	assert_true(error.len == 10 && error.olen == 15 && error.flags == (FI_RECV | FI_TAGGED));
	assert_true(fi_cntr_read(cntr) == 0 && fi_cntr_readerr(cntr) == 1);
	completion.status = THOLE_ERR_CANCELED;
	prov_completion_take(&endpoint, &completion);
	assert_int_equal(fi_cq_readerr(cq, &error, 0), 1);
	assert_true(error.err == FI_ECANCELED && error.olen == 0);
}

/* A buffer for many messages that ends with a failure is free again, and a message's data is told with it. */
static void failure__gives_the_buffer_back(void **state)
{
	struct thole_completion completion = {.context = &endpoint,
					      .operation = THOLE_OP_RECEIVE,
					      .imm = 8,
					      .flags = THOLE_PLAIN | THOLE_MULTI | THOLE_IMM | PROV_SILENT,
					      .status = THOLE_ERR_TRUNCATED};
	struct fi_cq_err_entry error = {0};

	(void)state;
	prov_completion_take(&endpoint, &completion);
	assert_int_equal(fi_cq_readerr(cq, &error, 0), 1);
	assert_true(error.flags == (FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA) && error.data == 8);
	completion.flags |= THOLE_MULTI_END;
	prov_completion_take(&endpoint, &completion);
	assert_int_equal(fi_cq_readerr(cq, &error, 0), 1);
	assert_true(error.flags == (FI_RECV | FI_MSG | FI_MULTI_RECV | FI_REMOTE_CQ_DATA));
}

/* MPIs take a context for a request of theirs without looking, and give none with what makes no entry. */
static void failure__without_a_context_is_the_endpoints(void **state)
{
	static const unsigned silent[] = {PROV_SILENT, THOLE_QUIET};
	struct thole_completion completion = {.operation = THOLE_OP_PUT, .status = THOLE_ERR_PEER};
	struct fi_cq_err_entry error = {0};

	(void)state;
	for (int i = 0; i < 2; i++) {
		completion.flags = silent[i];
		endpoint.fid.fid.context = NULL;
		prov_completion_take(&endpoint, &completion);
		assert_int_equal(fi_cq_readerr(cq, &error, 0), -FI_EAGAIN);
		endpoint.fid.fid.context = &error;
		prov_completion_take(&endpoint, &completion);
		assert_int_equal(fi_cq_readerr(cq, &error, 0), 1);
		assert_ptr_equal(error.op_context, &error);
	}
	endpoint.fid.fid.context = NULL;
}

/* Whoever waits for an entry gets one. */
static void failure__of_what_would_be_entered_is_entered(void **state)
{
	struct thole_completion completion = {.operation = THOLE_OP_RECEIVE, .status = THOLE_ERR_TRUNCATED};
	struct fi_cq_err_entry error = {.op_context = &error};

	(void)state;
	prov_completion_take(&endpoint, &completion);
	assert_int_equal(fi_cq_readerr(cq, &error, 0), 1);
	assert_true(error.err == FI_ETRUNC);
	assert_null(error.op_context);
}

static void access__of_peers_is_counted_and_entered_with_data_alone(void **state)
{
	struct prov_region region = {.counter = container_of(cntr, struct prov_counter, fid)};
	struct thole_completion completion = {
		.context = &region, .operation = THOLE_OP_REMOTE_PUT, .imm = 3};
	struct fi_cq_tagged_entry entry;

	(void)state;
	prov_completion_take(&endpoint, &completion);
	assert_int_equal(fi_cq_read(cq, &entry, 1), -FI_EAGAIN);
	assert_int_equal(fi_cntr_read(cntr), 1);
	completion.operation = THOLE_OP_REMOTE_GET; /* reads are not what it counts */
	prov_completion_take(&endpoint, &completion);
	assert_int_equal(fi_cntr_read(cntr), 1);
	completion.operation = THOLE_OP_REMOTE_PUT;
	completion.flags = THOLE_IMM;
	prov_completion_take(&endpoint, &completion);
	assert_int_equal(fi_cq_read(cq, &entry, 1), 1);
	assert_true(entry.flags == (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA) &&
		    entry.data == 3);
	assert_null(entry.op_context); /* the region is not the program's */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(entry__has_what_the_message_had, setup, teardown),
		cmocka_unit_test_setup_teardown(silence__counts_and_enters_nothing, setup,
						teardown),
		cmocka_unit_test_setup_teardown(reads__are_counted_as_polls, setup, teardown),
		cmocka_unit_test_setup_teardown(multi__says_when_the_buffer_is_used_up, setup,
						teardown),
		cmocka_unit_test_setup_teardown(failure__says_what_and_how_much, setup, teardown),
		cmocka_unit_test_setup_teardown(failure__gives_the_buffer_back, setup, teardown),
		cmocka_unit_test_setup_teardown(failure__without_a_context_is_the_endpoints, setup,
						teardown),
		cmocka_unit_test_setup_teardown(failure__of_what_would_be_entered_is_entered, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			access__of_peers_is_counted_and_entered_with_data_alone, setup, teardown),
	};

	return cmocka_run_group_tests_name("prov_completion", tests, NULL, NULL);
}
