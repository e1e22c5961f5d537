/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_endpoints: several endpoints in one process: their numbers, who may have them, and messages between them and to
 * themselves. Runs alone.
 */
#include "mx_test.h"

#define DATA TEST_KIND(0x10)
#define BURSTS TEST_KIND(0x11)

enum {
	BURST = 500,
	MANY = 10000, /* more than is taken while a process looks now and then */
	LENGTH_BUFFERED = 4096, /* what MX.md promises */
	ENDPOINTS = 4,
	BOARDS_MAX = 64,
};

struct pair {
	mx_endpoint_t from, to;
	mx_endpoint_addr_t address; /* of the second, for the first */
};

static uint8_t *buffer_out, *buffer_in;

static mx_return_t open_one(uint32_t board, uint32_t endpoint_id, mx_endpoint_t *endpoint_p)
{
	*endpoint_p = NULL;
	return mx_open_endpoint(board, endpoint_id, TEST_KEY, NULL, 0, endpoint_p);
}

/* Until this request of one endpoint is complete. Neither of them waits, since both have to make progress. */
static void complete(const struct pair *pair, mx_endpoint_t endpoint, mx_request_t *request, mx_status_t *status_p)
{
	uint32_t result = 0;

	while (!result) {
		MX(mx_progress(pair->from));
		MX(mx_progress(pair->to));
		MX(mx_test(endpoint, request, status_p, &result));
	}
}

static void exchange(const struct pair *pair, uint32_t length, bool sync, bool early)
{
	uint64_t match = DATA | (uint64_t)length << 8 | (uint64_t)sync << 1 | early;
	mx_segment_t segment = {buffer_in, length};
	mx_request_t send, receive;
	mx_status_t status;
	uint64_t nic_id, source_nic_id;
	uint32_t endpoint_id, source_endpoint_id;
	uint32_t result = 0;

	payload_fill(buffer_out, length, match);
	guard_fill(buffer_in, (size_t)length + TEST_GUARD);
	if (early)
		MX(mx_irecv(pair->to, &segment, 1, match, MX_MATCH_MASK_NONE, NULL, &receive));
	send = send_to(pair->from, pair->address, buffer_out, length, match, sync);
	if (!early) {
		while (!result) {
			MX(mx_progress(pair->from));
			MX(mx_iprobe(pair->to, match, MX_MATCH_MASK_NONE, &status, &result));
		}
		CHECK_EQUAL(status.msg_length, length);
		CHECK_EQUAL(status.match_info, match);
		MX(mx_irecv(pair->to, &segment, 1, match, MX_MATCH_MASK_NONE, NULL, &receive));
	}
	complete(pair, pair->to, &receive, &status);
	receive_check(&status, length, match);
	payload_check(buffer_in, length, match);
	guard_check(buffer_in + length, TEST_GUARD);
	test_where(pair->from, &nic_id, &endpoint_id);
	MX(mx_decompose_endpoint_addr(status.source, &source_nic_id, &source_endpoint_id));
	CHECK_EQUAL(source_nic_id, nic_id);
	CHECK_EQUAL(source_endpoint_id, endpoint_id);
	complete(pair, pair->from, &send, &status);
	send_check(&status, length, match);
}

static void exchange_all(const struct pair *pair)
{
	for (unsigned i = 0; i < TEST_LENGTHS; i++)
		for (unsigned how = 0; how < 4; how++)
			exchange(pair, test_lengths[i], how & 1, how & 2);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void any_number(mx_endpoint_t *endpoints)
{
	uint64_t nic_ids[ENDPOINTS];
	uint32_t ids[ENDPOINTS];

	phase("any numbers");
	for (unsigned i = 0; i < ENDPOINTS; i++) {
		MX(open_one(MX_ANY_NIC, MX_ANY_ENDPOINT, &endpoints[i]));
		test_where(endpoints[i], &nic_ids[i], &ids[i]);
		for (unsigned j = 0; j < i; j++)
			CHECK(ids[j] != ids[i] || nic_ids[j] != nic_ids[i]);
	}
}

/* Gives a number back and takes it again. False: another process of this host was faster, and there is a new one. */
static bool given_back(mx_endpoint_t *endpoint, uint32_t board, uint32_t id)
{
	mx_return_t rc;

	MX(mx_close_endpoint(*endpoint));
	rc = open_one(board, id, endpoint);
	if (rc == MX_SUCCESS)
		return true;
	CHECK_RETURN(rc, MX_BUSY);
	MX(open_one(board, MX_ANY_ENDPOINT, endpoint));
	return false;
}

static void taken_number(mx_endpoint_t *endpoints)
{
	mx_endpoint_addr_t own;
	mx_endpoint_t other;
	uint64_t nic_id;
	uint32_t id, board, session, session_before;
	unsigned tries = 0;

	phase("a number that is taken");
	test_where(endpoints[1], &nic_id, &id);
	MX(mx_nic_id_to_board_number(nic_id, &board));
	CHECK_RETURN(open_one(board, id, &other), MX_BUSY);
	CHECK_RETURN(open_one(board, id, &other), MX_BUSY);
	phase("a number that was given back");
	do {
		CHECK(tries++ < 20);
		MX(mx_get_endpoint_addr(endpoints[1], &own));
		MX(mx_decompose_endpoint_addr2(own, &nic_id, &id, &session_before));
	} while (!given_back(&endpoints[1], board, id));
	MX(mx_get_endpoint_addr(endpoints[1], &own));
	MX(mx_decompose_endpoint_addr2(own, &nic_id, &id, &session));
	CHECK(session != session_before);
}

static void wrong_number(void)
{
	uint32_t boards = 0, endpoints = 0;
	mx_endpoint_t other;

	phase("numbers that do not exist");
	MX(mx_get_info(NULL, MX_NIC_COUNT, NULL, 0, &boards, sizeof(boards)));
	MX(mx_get_info(NULL, MX_MAX_NATIVE_ENDPOINTS, NULL, 0, &endpoints, sizeof(endpoints)));
	CHECK(endpoints >= ENDPOINTS);
	CHECK_RETURN(open_one(boards, MX_ANY_ENDPOINT, &other), MX_BOARD_UNKNOWN);
	CHECK(strstr(test_sentence, "there is no board"));
	CHECK_RETURN(open_one(MX_ANY_NIC, endpoints, &other), MX_BAD_ENDPOINT_ID);
	CHECK_RETURN(open_one(0, 0xfffffffe, &other), MX_BAD_ENDPOINT_ID);
}

static void each_board(void)
{
	uint64_t nic_id, board_nic_id;
	uint32_t boards = 0, id, board;
	mx_endpoint_t endpoint;

	MX(mx_get_info(NULL, MX_NIC_COUNT, NULL, 0, &boards, sizeof(boards)));
	CHECK(boards > 0);
	for (uint32_t i = 0; i < boards; i++) {
		phase("board %u", i);
		MX(open_one(i, MX_ANY_ENDPOINT, &endpoint));
		test_where(endpoint, &nic_id, &id);
		MX(mx_board_number_to_nic_id(i, &board_nic_id));
		CHECK_EQUAL(nic_id, board_nic_id);
		MX(mx_nic_id_to_board_number(nic_id, &board));
		CHECK_EQUAL(board, i);
		MX(mx_close_endpoint(endpoint));
	}
}

/* An address that nothing was written to leads nowhere: the send is refused, or fails. */
static void no_address(mx_endpoint_t *endpoints)
{
	mx_endpoint_addr_t nobody;
	mx_request_t request;
	mx_status_t status;

	phase("an address of nobody");
	memset(&nobody, 0, sizeof(nobody));
	if (mx_isend(endpoints[0], NULL, 0, nobody, DATA, NULL, &request) != MX_SUCCESS)
		return;
	request_wait(endpoints[0], &request, &status);
	CHECK(status.code != MX_STATUS_SUCCESS);
}

/* Programs write to the memory of short sends as soon as these are started, though a peer that was only just connected
 * to, and does nothing, takes few of them. */
static void overwritten(const struct pair *pair, uint32_t length)
{
	mx_segment_t segment = {buffer_in, length};
	mx_request_t sends[BURST], receive;
	mx_status_t status;
	uint32_t result;

	for (uint64_t i = 0; i < BURST; i++) {
		payload_fill(buffer_out, length, BURSTS | i);
		sends[i] = send_to(pair->from, pair->address, buffer_out, length, BURSTS | i, false);
		MX(mx_ibuffered(pair->from, &sends[i], &result));
		CHECK_EQUAL(result, 1);
	}
	memset(buffer_out, 0, length);
	for (uint64_t i = 0; i < BURST; i++) {
		MX(mx_irecv(pair->to, &segment, 1, BURSTS | i, MX_MATCH_MASK_NONE, NULL, &receive));
		complete(pair, pair->to, &receive, &status);
		receive_check(&status, length, BURSTS | i);
		payload_check(buffer_in, length, BURSTS | i);
		complete(pair, pair->from, &sends[i], &status);
	}
}

/* What was sent from one endpoint of a process to another is there when the first is closed. */
static void closed_behind_a_burst(struct pair *pair)
{
	mx_segment_t segment = {buffer_in, LENGTH_BUFFERED};
	mx_request_t request;
	mx_status_t status;
	uint32_t result;

	phase("closing behind a burst");
	for (uint64_t i = 0; i < MANY; i++) {
		request = send_to(pair->from, pair->address, buffer_out, 1, BURSTS | i, false);
		MX(mx_forget(pair->from, &request));
	}
	MX(mx_close_endpoint(pair->from));
	for (uint64_t i = 0; i < MANY; i++) {
		MX(mx_irecv(pair->to, &segment, 1, BURSTS | i, MX_MATCH_MASK_NONE, NULL, &request));
		MX(mx_wait(pair->to, &request, 5000, &status, &result));
		CHECK_EQUAL(result, 1);
		receive_check(&status, 1, BURSTS | i);
	}
}

int main(int argc, char **argv)
{
	struct test test = {0};
	struct pair last;
	uint64_t nic_id;
	uint32_t id;
	mx_endpoint_t endpoints[ENDPOINTS];

	test_options(&test, "mx_endpoints", argc, argv);
	buffer_out = test_allocate(TEST_LENGTH_MAX);
	buffer_in = test_allocate((size_t)TEST_LENGTH_MAX + TEST_GUARD);
	test_alone(&test, NULL, 0);
	any_number(endpoints);
	taken_number(endpoints);
	wrong_number();
	each_board();
	no_address(endpoints);
	for (unsigned i = 0; i < ENDPOINTS * ENDPOINTS; i++) {
		struct pair pair = {.from = endpoints[i / ENDPOINTS], .to = endpoints[i % ENDPOINTS]};

		phase("messages from endpoint %u to %u", i / ENDPOINTS, i % ENDPOINTS);
		test_where(pair.to, &nic_id, &id);
		MX(mx_connect(pair.from, nic_id, id, TEST_KEY, MX_INFINITE, &pair.address));
		overwritten(&pair, 100);
		overwritten(&pair, LENGTH_BUFFERED);
		exchange_all(&pair);
	}
	last = (struct pair){.from = endpoints[0], .to = endpoints[1]};
	test_where(last.to, &nic_id, &id);
	MX(mx_connect(last.from, nic_id, id, TEST_KEY, MX_INFINITE, &last.address));
	closed_behind_a_burst(&last);
	for (unsigned i = 1; i < ENDPOINTS; i++)
		MX(mx_close_endpoint(endpoints[i]));
	free(buffer_out);
	free(buffer_in);
	return test_end(&test);
}
