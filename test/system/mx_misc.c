/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_misc: what is told of boards, names and counters; words for codes; the smaller calls on requests; progress that
 * is switched off; and what is refused. Runs alone.
 */
#include "mx_test.h"

#define DATA TEST_KIND(0x10)
#define OTHER TEST_KIND(0x11)

enum {
	BOARDS_MAX = 64,
	SHORT = 16,      /* bytes: always buffered at once */
	LONG = 1 << 21,
	BRIEFLY_MS = 20,
	LONG_MS = 1000000,
	LOOKS = 2000,    /* at something that must not happen */
	BOARD_BEYOND = 1000,
};

static const uint64_t nic_nobody = 0x020000000042;

/* ---- What is told ---------------------------------------------------------------------------- */

static uint32_t info_number(mx_endpoint_t endpoint, mx_get_info_key_t key)
{
	uint32_t board = 0, number = 0xeeeeeeee;

	if (endpoint)
		MX(mx_get_info(endpoint, key, NULL, 0, &number, sizeof(number)));
	else
		MX(mx_get_info(NULL, key, &board, sizeof(board), &number, sizeof(number)));
	return number;
}

static void info_text(mx_endpoint_t endpoint, mx_get_info_key_t key)
{
	char text[MX_MAX_STR_LEN + 1];
	uint32_t board = 0;

	memset(text, 'x', sizeof(text));
	if (endpoint)
		MX(mx_get_info(endpoint, key, NULL, 0, text, MX_MAX_STR_LEN));
	else
		MX(mx_get_info(NULL, key, &board, sizeof(board), text, MX_MAX_STR_LEN));
	CHECK(text[0] != '\0');
	CHECK(memchr(text, '\0', MX_MAX_STR_LEN) != NULL);
	CHECK_EQUAL(text[MX_MAX_STR_LEN], 'x');
}

static void boards(void)
{
	uint64_t ids[BOARDS_MAX + 1], id;
	uint32_t count = info_number(NULL, MX_NIC_COUNT), number;

	phase("boards");
	CHECK(count >= 1 && count <= BOARDS_MAX);
	CHECK_RETURN(mx_get_info(NULL, MX_NIC_IDS, NULL, 0, ids, count * (uint32_t)sizeof(*ids)), MX_BAD_INFO_LENGTH);
	memset(ids, 0xee, sizeof(ids));
	MX(mx_get_info(NULL, MX_NIC_IDS, NULL, 0, ids, (count + 1) * (uint32_t)sizeof(*ids)));
	CHECK_EQUAL(ids[count], 0);
	for (uint32_t i = 0; i < count; i++) {
		CHECK(ids[i] != 0 && ids[i] >> 48 == 0);
		MX(mx_board_number_to_nic_id(i, &id));
		CHECK_EQUAL(id, ids[i]);
		MX(mx_nic_id_to_board_number(ids[i], &number));
		CHECK_EQUAL(number, i);
		for (uint32_t j = 0; j < i; j++)
			CHECK(ids[i] != ids[j]);
	}
	CHECK_RETURN(mx_board_number_to_nic_id(count, &id), MX_BOARD_UNKNOWN);
	CHECK_RETURN(mx_board_number_to_nic_id(MX_ANY_NIC, &id), MX_BOARD_UNKNOWN);
	CHECK_RETURN(mx_nic_id_to_board_number(nic_nobody, &number), MX_BOARD_UNKNOWN);
}

static void numbers(mx_endpoint_t endpoint)
{
	CHECK(info_number(endpoint, MX_MAX_NATIVE_ENDPOINTS) >= 1);
	CHECK(info_number(endpoint, MX_NATIVE_REQUESTS) >= 1000);
	CHECK_EQUAL(info_number(endpoint, MX_PORT_COUNT), 1);
	CHECK(info_number(endpoint, MX_PIO_SEND_MAX) >= 1);
	CHECK(info_number(endpoint, MX_COPY_SEND_MAX) >= info_number(endpoint, MX_PIO_SEND_MAX));
	CHECK(info_number(endpoint, MX_NUMA_NODE) != 0xeeeeeeee);
	CHECK_EQUAL(info_number(endpoint, MX_NET_TYPE), MX_NET_ETHER);
	CHECK(info_number(endpoint, MX_LINE_SPEED) <= MX_SPEED_OPEN_MX);
	info_text(endpoint, MX_PRODUCT_CODE);
	info_text(endpoint, MX_PART_NUMBER);
	info_text(endpoint, MX_SERIAL_NUMBER);
}

static void to_self(struct test *test, uint64_t match)
{
	mx_request_t send = send_start(test, NULL, 0, match, false), receive;
	mx_status_t status;

	receive = receive_start(test, NULL, 0, match, MX_MATCH_MASK_NONE);
	receive_finish(test, &receive, 0, match, &status);
	send_finish(test, &send, 0, match);
}

static void counters(struct test *test)
{
	uint32_t count = info_number(NULL, MX_COUNTERS_COUNT), board = info_number(NULL, MX_NIC_COUNT);
	uint32_t size = count * (uint32_t)sizeof(uint32_t), *before = test_allocate(size), *after = test_allocate(size);
	char *labels = test_allocate((size_t)count * MX_MAX_STR_LEN);
	uint64_t nic_id;
	uint32_t id;

	phase("counters");
	CHECK(count >= 1);
	CHECK_RETURN(mx_get_info(NULL, MX_COUNTERS_LABELS, NULL, 0, labels, count * MX_MAX_STR_LEN - 1),
		     MX_BAD_INFO_LENGTH);
	MX(mx_get_info(NULL, MX_COUNTERS_LABELS, NULL, 0, labels, count * MX_MAX_STR_LEN));
	for (uint32_t i = 0; i < count; i++) {
		CHECK(labels[i * MX_MAX_STR_LEN] != '\0');
		CHECK(memchr(&labels[i * MX_MAX_STR_LEN], '\0', MX_MAX_STR_LEN) != NULL);
		for (uint32_t j = 0; j < i; j++)
			CHECK(strcmp(&labels[i * MX_MAX_STR_LEN], &labels[j * MX_MAX_STR_LEN]) != 0);
	}
	CHECK_RETURN(mx_get_info(test->endpoint, MX_COUNTERS_VALUES, NULL, 0, before, size - 1), MX_BAD_INFO_LENGTH);
	MX(mx_get_info(test->endpoint, MX_COUNTERS_VALUES, NULL, 0, before, size));
	to_self(test, DATA);
	MX(mx_get_info(test->endpoint, MX_COUNTERS_VALUES, NULL, 0, after, size));
	CHECK(memcmp(before, after, size) != 0);
	/* This is the only endpoint of its board here. */
	test_where(test->endpoint, &nic_id, &id);
	MX(mx_nic_id_to_board_number(nic_id, &board));
	MX(mx_get_info(NULL, MX_COUNTERS_VALUES, &board, sizeof(board), before, size));
	CHECK(memcmp(before, after, size) == 0);
	free(before);
	free(after);
	free(labels);
}

static void not_told(mx_endpoint_t endpoint)
{
	uint32_t number, board = BOARD_BEYOND;
	uint8_t small = 0;
	char text[MX_MAX_STR_LEN];

	phase("what is not told");
	CHECK_RETURN(mx_get_info(endpoint, (mx_get_info_key_t)0, NULL, 0, &number, sizeof(number)), MX_BAD_INFO_KEY);
	CHECK_RETURN(mx_get_info(endpoint, (mx_get_info_key_t)99, NULL, 0, &number, sizeof(number)), MX_BAD_INFO_KEY);
	for (int key = MX_NIC_COUNT; key <= MX_LINE_SPEED; key++) {
		CHECK_RETURN(mx_get_info(endpoint, (mx_get_info_key_t)key, NULL, 0, NULL, sizeof(text)),
			     MX_BAD_INFO_VAL);
		CHECK_RETURN(mx_get_info(endpoint, (mx_get_info_key_t)key, NULL, 0, text, 1), MX_BAD_INFO_LENGTH);
	}
	CHECK_RETURN(mx_get_info(NULL, MX_LINE_SPEED, NULL, 0, &number, sizeof(number)), MX_BAD_INFO_VAL);
	CHECK_RETURN(mx_get_info(NULL, MX_LINE_SPEED, &board, 3, &number, sizeof(number)), MX_BAD_INFO_LENGTH);
	CHECK_RETURN(mx_get_info(NULL, MX_LINE_SPEED, &board, sizeof(board), &number, sizeof(number)),
		     MX_BOARD_UNKNOWN);
	MX(mx_get_info(NULL, MX_LINE_SPEED, &small, sizeof(small), &number, sizeof(number)));
}

static void names(void)
{
	char name[MX_MAX_HOSTNAME_LEN], missing[] = "no-such-host.invalid:0";
	uint64_t nic_id, found = 0;
	char *colon;

	phase("names");
	MX(mx_board_number_to_nic_id(0, &nic_id));
	memset(name, 'x', sizeof(name));
	MX(mx_nic_id_to_hostname(nic_id, name));
	CHECK(memchr(name, '\0', sizeof(name)) != NULL);
	colon = strrchr(name, ':');
	CHECK(colon != NULL && strcmp(colon, ":0") == 0);
	MX(mx_hostname_to_nic_id(name, &found));
	CHECK_EQUAL(found, nic_id);
	*colon = '\0';
	found = 0;
	MX(mx_hostname_to_nic_id(name, &found));
	CHECK_EQUAL(found, nic_id);
	CHECK_RETURN(mx_hostname_to_nic_id(missing, &found), MX_HOST_NOT_FOUND);
	CHECK_RETURN(mx_nic_id_to_hostname(nic_nobody, name), MX_NIC_NOT_FOUND);
	CHECK_RETURN(mx_hostname_to_nic_id(NULL, &found), MX_BAD_HOSTNAME_ARGS);
	CHECK_RETURN(mx_hostname_to_nic_id(name, NULL), MX_BAD_HOSTNAME_ARGS);
}

static void words(void)
{
	phase("words for codes");
	for (int i = MX_SUCCESS; i <= MX_NOT_SUPPORTED_WITH_CONTEXT_ID; i++) {
		CHECK(mx_strerror((mx_return_t)i) != NULL && *mx_strerror((mx_return_t)i) != '\0');
		for (int j = MX_SUCCESS; j < i; j++)
			CHECK(strcmp(mx_strerror((mx_return_t)i), mx_strerror((mx_return_t)j)) != 0);
	}
	for (int i = MX_STATUS_SUCCESS; i <= MX_STATUS_NO_RESOURCES; i++) {
		CHECK(mx_strstatus((mx_status_code_t)i) != NULL && *mx_strstatus((mx_status_code_t)i) != '\0');
		for (int j = MX_STATUS_SUCCESS; j < i; j++)
			CHECK(strcmp(mx_strstatus((mx_status_code_t)i), mx_strstatus((mx_status_code_t)j)) != 0);
	}
	CHECK(mx_strerror((mx_return_t)9999) != NULL && mx_strerror((mx_return_t)-1) != NULL);
	CHECK(mx_strstatus((mx_status_code_t)9999) != NULL && mx_strstatus((mx_status_code_t)-1) != NULL);
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void buffered(struct test *test, uint8_t *out, uint8_t *in)
{
	mx_request_t send, receive;
	mx_status_t status;
	uint32_t result = 2;

	phase("mx_ibuffered");
	payload_fill(out, SHORT, DATA);
	send = send_start(test, out, SHORT, DATA, false);
	do {
		MX(mx_ibuffered(test->endpoint, &send, &result));
	} while (!result);
	CHECK_EQUAL(result, 1);
	payload_fill(out, SHORT, OTHER); /* it is ours again */
	receive = receive_start(test, in, SHORT, DATA, MX_MATCH_MASK_NONE);
	CHECK_RETURN(mx_ibuffered(test->endpoint, &receive, &result), MX_BAD_REQUEST);
	receive_finish(test, &receive, SHORT, DATA, &status);
	payload_check(in, SHORT, DATA);
	send_finish(test, &send, SHORT, DATA);
	payload_fill(out, LONG, DATA);
	send = send_start(test, out, LONG, DATA, true);
	MX(mx_ibuffered(test->endpoint, &send, &result));
	CHECK(result <= 1);
	if (result)
		payload_fill(out, LONG, OTHER);
	receive = receive_start(test, in, LONG, DATA, MX_MATCH_MASK_NONE);
	receive_finish(test, &receive, LONG, DATA, &status);
	payload_check(in, LONG, DATA);
	send_finish(test, &send, LONG, DATA);
}

/* Nobody hears of them, but the data comes. */
static void forgotten(struct test *test, uint8_t *out, volatile uint8_t *in, uint32_t length, bool by_call)
{
	mx_segment_t from = {out, length}, to = {(void *)(uintptr_t)in, length};
	mx_request_t send, receive;

	phase("%u bytes of which nobody hears%s", length, by_call ? ", by mx_forget" : "");
	payload_fill(out, length, length);
	memset((void *)(uintptr_t)in, (uint8_t)~payload_byte(length, length - 1), length);
	MX(mx_isend(test->endpoint, &from, 1, test->peer, DATA, NULL, by_call ? &send : NULL));
	MX(mx_irecv(test->endpoint, &to, 1, DATA, MX_MATCH_MASK_NONE, NULL, by_call ? &receive : NULL));
	if (by_call) {
		MX(mx_forget(test->endpoint, &send));
		MX(mx_forget(test->endpoint, &receive));
		CHECK(send == NULL && receive == NULL);
	}
	/* Something later comes through in any case; what is copied last may take some more. */
	to_self(test, OTHER);
	while (in[length - 1] != payload_byte(length, length - 1))
		MX(mx_progress(test->endpoint));
	payload_check((const void *)(uintptr_t)in, length, length);
	none_complete(test, 0, 0);
}

static void contexts(struct test *test)
{
	mx_request_t send, receive;
	mx_status_t status;
	uint32_t result;
	void *found = NULL;
	int one, two;

	phase("mx_context");
	MX(mx_irecv(test->endpoint, NULL, 0, DATA, MX_MATCH_MASK_NONE, &one, &receive));
	MX(mx_context(&receive, &found));
	CHECK(found == &one);
	MX(mx_isend(test->endpoint, NULL, 0, test->peer, DATA, &two, &send));
	MX(mx_context(&send, &found));
	CHECK(found == &two);
	MX(mx_wait(test->endpoint, &receive, MX_INFINITE, &status, &result));
	CHECK(status.context == &one);
	MX(mx_wait(test->endpoint, &send, MX_INFINITE, &status, &result));
	CHECK(status.context == &two);
}

/* A message whose send has timed out may have come or not. */
static void drain(struct test *test, uint64_t match)
{
	mx_request_t request;
	mx_status_t status;
	uint32_t result = 0;

	request = receive_start(test, NULL, 0, match, MX_MATCH_MASK_NONE);
	MX(mx_cancel(test->endpoint, &request, &result));
	if (!result)
		request_wait(test->endpoint, &request, &status);
}

static void request_timeouts(struct test *test)
{
	mx_request_t send, receive;
	mx_status_t status;

	phase("a send that runs out of time");
	send = send_start(test, NULL, 0, DATA | 1, true);
	MX(mx_set_request_timeout(test->endpoint, send, BRIEFLY_MS));
	request_wait(test->endpoint, &send, &status);
	CHECK_CODE(&status, MX_STATUS_TIMEOUT);
	CHECK_EQUAL(status.match_info, DATA | 1);
	drain(test, DATA | 1);
	phase("all sends that run out of time");
	MX(mx_set_request_timeout(test->endpoint, NULL, BRIEFLY_MS));
	send = send_start(test, NULL, 0, DATA | 2, true);
	request_wait(test->endpoint, &send, &status);
	CHECK_CODE(&status, MX_STATUS_TIMEOUT);
	drain(test, DATA | 2);
	MX(mx_set_request_timeout(test->endpoint, NULL, 0));
	phase("a send that does not run out of time");
	send = send_start(test, NULL, 0, DATA | 3, true);
	MX(mx_set_request_timeout(test->endpoint, send, LONG_MS));
	receive = receive_start(test, NULL, 0, DATA | 3, MX_MATCH_MASK_NONE);
	receive_finish(test, &receive, 0, DATA | 3, &status);
	send_finish(test, &send, 0, DATA | 3);
	none_complete(test, 0, 0);
}

/* ---- Progress that is switched off ------------------------------------------------------------ */

static unsigned handled;

static mx_unexp_handler_action_t handle(void *context, mx_endpoint_addr_t source, uint64_t match, uint32_t length,
					void *data)
{
	(void)context, (void)source, (void)match, (void)length, (void)data;
	handled++;
	return MX_RECV_FINISHED;
}

/* Messages from another endpoint of ours; one is expected, one is not. */
static void progression(struct test *test)
{
	struct test other = {0};
	mx_request_t receive, expected, unexpected;
	mx_status_t status;
	uint64_t nic_id;
	uint32_t id, result = 2;

	phase("progress that is switched off");
	test_where(test->endpoint, &nic_id, &id);
	MX(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, TEST_KEY, NULL, 0, &other.endpoint));
	MX(mx_connect(other.endpoint, nic_id, id, test->key, MX_INFINITE, &other.peer));
	MX(mx_register_unexp_handler(test->endpoint, handle, NULL));
	receive = receive_start(test, NULL, 0, DATA | 7, MX_MATCH_MASK_NONE);
	MX(mx_disable_progression(test->endpoint));
	expected = send_start(&other, NULL, 0, DATA | 7, true);
	unexpected = send_start(&other, NULL, 0, DATA | 8, true);
	for (unsigned i = 0; i < LOOKS; i++) {
		MX(mx_progress(other.endpoint));
		MX(mx_progress(test->endpoint));
		MX(mx_test(test->endpoint, &receive, &status, &result));
		CHECK_EQUAL(result, 0);
		CHECK_EQUAL(handled, 0);
	}
	MX(mx_wait(test->endpoint, &receive, BRIEFLY_MS, &status, &result));
	CHECK_EQUAL(result, 0);
	phase("progress that is switched on again");
	MX(mx_reenable_progression(test->endpoint));
	while (!result) {
		MX(mx_progress(other.endpoint));
		MX(mx_test(test->endpoint, &receive, &status, &result));
	}
	receive_check(&status, 0, DATA | 7);
	while (!handled) {
		MX(mx_progress(other.endpoint));
		MX(mx_progress(test->endpoint));
	}
	CHECK_EQUAL(handled, 1);
	send_finish(&other, &expected, 0, DATA | 7);
	for (result = 0; !result;) {
		MX(mx_progress(test->endpoint));
		MX(mx_test(other.endpoint, &unexpected, &status, &result));
	}
	send_check(&status, 0, DATA | 8);
	MX(mx_register_unexp_handler(test->endpoint, NULL, NULL));
	MX(mx_close_endpoint(other.endpoint));
}

/* ---- What is refused --------------------------------------------------------------------------- */

static void masks(mx_endpoint_t endpoint)
{
	mx_request_t request;
	mx_status_t status;
	uint32_t result;

	phase("match information outside of its mask");
	CHECK_RETURN(mx_irecv(endpoint, NULL, 0, 3, 1, NULL, &request), MX_BAD_MATCH_MASK);
	CHECK_RETURN(mx_test_any(endpoint, 3, 1, &status, &result), MX_BAD_MATCH_MASK);
	CHECK_RETURN(mx_wait_any(endpoint, MX_INFINITE, 3, 1, &status, &result), MX_BAD_MATCH_MASK);
	CHECK_RETURN(mx_iprobe(endpoint, 3, 1, &status, &result), MX_BAD_MATCH_MASK);
	CHECK_RETURN(mx_probe(endpoint, MX_INFINITE, UINT64_MAX, 0, &status, &result), MX_BAD_MATCH_MASK);
}

static void no_request(mx_endpoint_t endpoint)
{
	mx_request_t none = NULL;
	mx_status_t status;
	uint32_t result;
	void *context;

	phase("requests that are none");
	CHECK_RETURN(mx_test(endpoint, &none, &status, &result), MX_BAD_REQUEST);
	CHECK_RETURN(mx_wait(endpoint, &none, MX_INFINITE, &status, &result), MX_BAD_REQUEST);
	CHECK_RETURN(mx_cancel(endpoint, &none, &result), MX_BAD_REQUEST);
	CHECK_RETURN(mx_ibuffered(endpoint, &none, &result), MX_BAD_REQUEST);
	CHECK_RETURN(mx_forget(endpoint, &none), MX_BAD_REQUEST);
	CHECK_RETURN(mx_context(&none, &context), MX_BAD_REQUEST);
	CHECK_RETURN(mx_test(endpoint, NULL, &status, &result), MX_BAD_REQUEST);
	CHECK_RETURN(mx_wait(endpoint, NULL, MX_INFINITE, &status, &result), MX_BAD_REQUEST);
}

static void no_endpoint(void)
{
	mx_request_t request = NULL;
	mx_status_t status;
	uint32_t result;

	phase("an endpoint that is none");
	CHECK_RETURN(mx_close_endpoint(NULL), MX_BAD_ENDPOINT);
	CHECK_RETURN(mx_wakeup(NULL), MX_BAD_ENDPOINT);
	CHECK_RETURN(mx_irecv(NULL, NULL, 0, 0, 0, NULL, &request), MX_BAD_ENDPOINT);
	CHECK_RETURN(mx_test_any(NULL, 0, 0, &status, &result), MX_BAD_ENDPOINT);
	CHECK_RETURN(mx_progress(NULL), MX_BAD_ENDPOINT);
}

/* An endpoint stays what it is when the library is ended before it, and begun again. */
static void ended(struct test *test)
{
	mx_endpoint_t other;

	phase("the library's end");
	MX(mx_finalize());
	CHECK_RETURN(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, TEST_KEY, NULL, 0, &other), MX_NOT_INITIALIZED);
	MX(mx_init());
	to_self(test, DATA);
}

int main(int argc, char **argv)
{
	static const uint32_t lengths[] = {1, SHORT, 5000, 100000, LONG};
	struct test test = {0};
	uint8_t *out = test_allocate(LONG), *in = test_allocate(LONG);

	test_options(&test, "mx_misc", argc, argv);
	test_alone(&test, NULL, 0);
	boards();
	phase("numbers and texts");
	numbers(NULL);
	numbers(test.endpoint);
	counters(&test);
	not_told(test.endpoint);
	names();
	words();
	buffered(&test, out, in);
	for (unsigned i = 0; i < 2 * sizeof(lengths) / sizeof(*lengths); i++)
		forgotten(&test, out, in, lengths[i / 2], i % 2);
	contexts(&test);
	request_timeouts(&test);
	progression(&test);
	masks(test.endpoint);
	no_request(test.endpoint);
	no_endpoint();
	ended(&test);
	free(out);
	free(in);
	return test_end(&test);
}
