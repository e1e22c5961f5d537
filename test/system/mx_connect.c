/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_connect: connecting, with and without waiting, to what is there and what is not; what addresses say; endpoints
 * that close and come again; error handlers, and calls before mx_init.
 */
#include "mx_test.h"

#include <sys/wait.h>

#define DATA TEST_KIND(0x10)
#define FACTS TEST_KIND(0x11)
#define ANSWER TEST_KIND(0x12)
#define NEVER TEST_KIND(0x13)
#define CONNECT TEST_KIND(0x14)

enum {
	CONNECTS = 8,
	ID_BEYOND = 256, /* a board has fewer */
	BRIEFLY_MS = 200,
	WRONG = 0x99, /* added to a key */
	OUTPUT_MAX = 500,
};

static const uint64_t nic_nobody = 0x020000000042;

/* What the receiver tells of itself. */
struct facts {
	uint64_t nic_id;
	uint32_t endpoint_id, session;
	uint32_t closed_id; /* an endpoint id that nobody has open */
	uint32_t again_id;  /* one that will be closed and opened again */
};

/* Whom an address is of. */
struct place {
	uint64_t nic_id;
	uint32_t endpoint_id, session;
};

static struct place place_of(mx_endpoint_addr_t address)
{
	struct place place;

	MX(mx_decompose_endpoint_addr2(address, &place.nic_id, &place.endpoint_id, &place.session));
	return place;
}

static struct place place_of_own(mx_endpoint_t endpoint)
{
	mx_endpoint_addr_t own;

	MX(mx_get_endpoint_addr(endpoint, &own));
	return place_of(own);
}

static void place_check(struct place place, struct place expected)
{
	CHECK_EQUAL(place.nic_id, expected.nic_id);
	CHECK_EQUAL(place.endpoint_id, expected.endpoint_id);
	CHECK_EQUAL(place.session, expected.session);
}

/* ---- Before anything --------------------------------------------------------------------------- */

/* A child with the handler that is set at first ends at its first error, and says why. */
static void fatal(void)
{
	char output[OUTPUT_MAX] = "";
	mx_endpoint_t endpoint;
	int pipes[2], status;
	ssize_t length;
	pid_t child;

	phase("the handler that is set at first");
	CHECK_EQUAL(pipe(pipes), 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		dup2(pipes[1], STDERR_FILENO);
		mx_open_endpoint(0, 0, TEST_KEY, NULL, 0, &endpoint);
		_exit(0);
	}
	close(pipes[1]);
	length = read(pipes[0], output, sizeof(output) - 1);
	close(pipes[0]);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) != 0);
	CHECK(length > 0);
	CHECK(strstr(output, mx_strerror(MX_NOT_INITIALIZED)) != NULL);
}

static void before_init(void)
{
	char name[MX_MAX_HOSTNAME_LEN] = "host:0";
	mx_endpoint_t endpoint;
	uint64_t nic_id;
	uint32_t number;

	phase("calls before mx_init");
	CHECK(mx_set_error_handler(MX_ERRORS_RETURN) == MX_ERRORS_ARE_FATAL);
	CHECK(mx_set_error_handler(MX_ERRORS_RETURN) == MX_ERRORS_RETURN);
	CHECK_RETURN(mx_open_endpoint(0, 0, TEST_KEY, NULL, 0, &endpoint), MX_NOT_INITIALIZED);
	CHECK_RETURN(mx_get_info(NULL, MX_NIC_COUNT, NULL, 0, &number, sizeof(number)), MX_NOT_INITIALIZED);
	CHECK_RETURN(mx_board_number_to_nic_id(0, &nic_id), MX_NOT_INITIALIZED);
	CHECK_RETURN(mx_nic_id_to_board_number(1, &number), MX_NOT_INITIALIZED);
	CHECK_RETURN(mx_hostname_to_nic_id(name, &nic_id), MX_NOT_INITIALIZED);
	CHECK_RETURN(mx_nic_id_to_hostname(1, name), MX_NOT_INITIALIZED);
	CHECK_RETURN(mx_finalize(), MX_NOT_INITIALIZED);
	CHECK_RETURN(mx__init_api(MX_API + 0x100), MX_BAD_LIB_VERSION);
}

/* ---- Error handlers ---------------------------------------------------------------------------- */

static struct {
	unsigned calls[2];
	mx_return_t last;
} heard;

static mx_return_t hear_first(char *str, mx_return_t ret)
{
	CHECK(str != NULL && *str != '\0');
	heard.calls[0]++;
	heard.last = ret;
	return ret;
}

/* Says something else than it was told. */
static mx_return_t hear_second(char *str, mx_return_t ret)
{
	CHECK(str != NULL && *str != '\0');
	heard.calls[1]++;
	heard.last = ret;
	return MX_FAILURE;
}

static void handlers(struct test *test)
{
	mx_param_t param = {.key = MX_PARAM_ERROR_HANDLER, .val.error_handler = hear_second};
	mx_segment_t segments[MX_MAX_SEGMENTS + 1] = {{NULL, 0}};
	mx_endpoint_t other;
	mx_request_t request;

	phase("error handlers");
	CHECK(mx_set_error_handler(hear_first) == test_error);
	MX(mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, TEST_KEY, &param, 1, &other));
	CHECK_EQUAL(heard.calls[0] + heard.calls[1], 0);
	CHECK_RETURN(mx_irecv(test->endpoint, segments, MX_MAX_SEGMENTS + 1, 0, 0, NULL, &request), MX_BAD_SEG_CNT);
	CHECK_EQUAL(heard.calls[0], 1);
	CHECK_EQUAL(heard.last, MX_BAD_SEG_CNT);
	CHECK_RETURN(mx_irecv(other, segments, MX_MAX_SEGMENTS + 1, 0, 0, NULL, &request), MX_FAILURE);
	CHECK_EQUAL(heard.calls[0], 1);
	CHECK_EQUAL(heard.calls[1], 1);
	CHECK_EQUAL(heard.last, MX_BAD_SEG_CNT);
	CHECK_RETURN(mx_open_endpoint(MX_ANY_NIC, ID_BEYOND, TEST_KEY, NULL, 0, &other), MX_BAD_ENDPOINT_ID);
	CHECK_EQUAL(heard.calls[0], 2);
	MX(mx_close_endpoint(other));
	CHECK(mx_set_error_handler(test_error) == hear_first);
	CHECK_EQUAL(heard.calls[0], 2);
	CHECK_EQUAL(heard.calls[1], 1);
}

/* ---- Facts, and a message from one endpoint to another ------------------------------------------- */

static mx_endpoint_t open_at(uint32_t endpoint_id)
{
	mx_endpoint_t endpoint = NULL;
	mx_return_t error = mx_open_endpoint(0, endpoint_id, TEST_KEY, NULL, 0, &endpoint);

	CHECK(error == MX_SUCCESS || error == MX_BUSY);
	return endpoint;
}

/* Counted from above, where nobody's endpoint gets a number unless he asks for it. */
static mx_endpoint_t open_below(uint32_t *endpoint_id)
{
	mx_endpoint_t endpoint;

	do {
		CHECK(*endpoint_id > 0);
		endpoint = open_at(--*endpoint_id);
	} while (!endpoint);
	return endpoint;
}

static void facts_exchange(struct test *test, struct facts *facts, mx_endpoint_t *again_p)
{
	mx_request_t request;
	mx_status_t status;

	phase("facts");
	if (test->there) {
		request = receive_start(test, facts, sizeof(*facts), FACTS, MX_MATCH_MASK_NONE);
		receive_finish(test, &request, sizeof(*facts), FACTS, &status);
		return;
	}
	memset(facts, 0, sizeof(*facts));
	MX(mx_board_number_to_nic_id(0, &facts->nic_id));
	facts->session = place_of_own(test->endpoint).session;
	facts->endpoint_id = place_of_own(test->endpoint).endpoint_id;
	facts->closed_id = ID_BEYOND;
	MX(mx_close_endpoint(open_below(&facts->closed_id)));
	facts->again_id = facts->closed_id;
	*again_p = open_below(&facts->again_id);
	request = send_start(test, facts, sizeof(*facts), FACTS, false);
	send_finish(test, &request, sizeof(*facts), FACTS);
}

/* Sender: by this endpoint to that address; the other answers to where it came from. */
static void ask(mx_endpoint_t endpoint, mx_endpoint_addr_t to)
{
	struct place own = place_of_own(endpoint), answer;
	mx_segment_t segment = {&answer, sizeof(answer)};
	mx_request_t send, receive;
	mx_status_t status;

	MX(mx_irecv(endpoint, &segment, 1, ANSWER, MX_MATCH_MASK_NONE, NULL, &receive));
	send = send_to(endpoint, to, &own, sizeof(own), DATA, false);
	request_wait(endpoint, &send, &status);
	send_check(&status, sizeof(own), DATA);
	request_wait(endpoint, &receive, &status);
	receive_check(&status, sizeof(answer), ANSWER);
	place_check(place_of(status.source), answer);
	place_check(place_of(to), answer);
}

/* Receiver: without having connected to it. */
static mx_endpoint_addr_t answer(mx_endpoint_t endpoint)
{
	struct place place, own = place_of_own(endpoint);
	mx_segment_t segment = {&place, sizeof(place)};
	mx_endpoint_addr_t source;
	mx_request_t request;
	mx_status_t status;

	MX(mx_irecv(endpoint, &segment, 1, DATA, MX_MATCH_MASK_NONE, NULL, &request));
	request_wait(endpoint, &request, &status);
	receive_check(&status, sizeof(place), DATA);
	place_check(place_of(status.source), place);
	source = status.source;
	request = send_to(endpoint, source, &own, sizeof(own), ANSWER, true);
	request_wait(endpoint, &request, &status);
	send_check(&status, sizeof(own), ANSWER);
	return source;
}

static mx_endpoint_t open_second(const struct test *test)
{
	mx_endpoint_t second;

	MX(mx_open_endpoint(test->board, MX_ANY_ENDPOINT, test->key, NULL, 0, &second));
	return second;
}

/* ---- Sender: connecting and waiting --------------------------------------------------------------- */

static void keys(const struct test *test, mx_endpoint_t second)
{
	mx_endpoint_addr_t address;

	phase("a wrong key");
	CHECK_RETURN(mx_connect(second, test->nic_id, test->remote_id, test->key + WRONG, MX_INFINITE, &address),
		     MX_BAD_CONNECTION_KEY);
	CHECK_RETURN(mx_connect(second, test->nic_id, test->remote_id, test->key + WRONG, MX_INFINITE, &address),
		     MX_BAD_CONNECTION_KEY);
	phase("the right key after a wrong one");
	MX(mx_connect(second, test->nic_id, test->remote_id, test->key, MX_INFINITE, &address));
	ask(second, address);
	phase("a wrong key after the right one");
	CHECK_RETURN(mx_connect(second, test->nic_id, test->remote_id, test->key + WRONG, MX_INFINITE, &address),
		     MX_BAD_CONNECTION_KEY);
}

static void nowhere(const struct test *test, const struct facts *facts)
{
	mx_endpoint_addr_t address;
	mx_return_t error;

	phase("an endpoint that is closed");
	CHECK_RETURN(mx_connect(test->endpoint, test->nic_id, facts->closed_id, test->key, MX_INFINITE, &address),
		     MX_CONNECTION_FAILED);
	phase("an endpoint id that there is not");
	CHECK_RETURN(mx_connect(test->endpoint, test->nic_id, ID_BEYOND, test->key, MX_INFINITE, &address),
		     MX_BAD_ENDPOINT_ID);
	CHECK_RETURN(
		mx_connect(test->endpoint, test->nic_id, ID_BEYOND + test->remote_id, test->key, MX_INFINITE, &address),
		MX_BAD_ENDPOINT_ID);
	phase("a NIC that there is not");
	error = mx_connect(test->endpoint, nic_nobody, 0, test->key, BRIEFLY_MS, &address);
	CHECK(error == MX_NIC_NOT_FOUND || error == MX_TIMEOUT);
}

static void ourselves(const struct test *test)
{
	struct place own = place_of_own(test->endpoint);
	mx_endpoint_addr_t address;
	mx_segment_t segment = {&own, sizeof(own)};
	mx_request_t send, receive;
	mx_status_t status;

	phase("ourselves");
	MX(mx_connect(test->endpoint, own.nic_id, own.endpoint_id, test->key, MX_INFINITE, &address));
	place_check(place_of(address), own);
	send = send_to(test->endpoint, address, NULL, 0, TEST_SELF, false);
	MX(mx_irecv(test->endpoint, &segment, 1, TEST_SELF, MX_MATCH_MASK_NONE, NULL, &receive));
	request_wait(test->endpoint, &receive, &status);
	receive_check(&status, 0, TEST_SELF);
	place_check(place_of(status.source), own);
	request_wait(test->endpoint, &send, &status);
	send_check(&status, 0, TEST_SELF);
}

/* ---- Sender: connecting without waiting ----------------------------------------------------------- */

/* Of some endpoint that is not connected yet; any of them may be the first to be complete. */
static void several(const struct test *test)
{
	mx_endpoint_t second = open_second(test);
	mx_request_t request;
	mx_status_t status;
	bool seen[CONNECTS] = {false};
	uint32_t result;

	phase("several at a time");
	for (uint64_t i = 0; i < CONNECTS; i++)
		MX(mx_iconnect(second, test->nic_id, test->remote_id, test->key, CONNECT | i << 8, &seen[i], &request));
	for (unsigned i = 0; i < CONNECTS; i++) {
		unsigned which;

		MX(mx_wait_any(second, MX_INFINITE, CONNECT, TEST_KIND_MASK, &status, &result));
		CHECK_EQUAL(result, 1);
		CHECK_CODE(&status, MX_STATUS_SUCCESS);
		which = status.match_info >> 8 & 0xff;
		CHECK(which < CONNECTS && !seen[which]);
		CHECK_EQUAL(status.match_info, CONNECT | which << 8);
		CHECK(status.context == &seen[which]);
		seen[which] = true;
		CHECK_EQUAL(place_of(status.source).nic_id, test->nic_id);
		CHECK_EQUAL(place_of(status.source).endpoint_id, test->remote_id);
	}
	MX(mx_test_any(second, 0, 0, &status, &result));
	CHECK_EQUAL(result, 0);
	ask(second, status.source);
	phase("one that nobody hears of");
	MX(mx_iconnect(second, test->nic_id, test->remote_id, test->key, CONNECT, NULL, NULL));
	ask(second, status.source);
	MX(mx_test_any(second, 0, 0, &status, &result));
	CHECK_EQUAL(result, 0);
	MX(mx_close_endpoint(second));
}

/* How a connect ends that cannot succeed. */
static void ends_with(const struct test *test, mx_endpoint_t second, uint32_t endpoint_id, uint32_t key,
		      mx_status_code_t expected)
{
	mx_request_t request;
	mx_status_t status;
	void *context = NULL;

	MX(mx_iconnect(second, test->nic_id, endpoint_id, key, CONNECT | 1, &request, &request));
	MX(mx_context(&request, &context));
	CHECK(context == &request);
	request_wait(second, &request, &status);
	CHECK_CODE(&status, expected);
	CHECK_EQUAL(status.match_info, CONNECT | 1);
	CHECK(status.context == &request);
}

static void without_waiting(const struct test *test, const struct facts *facts)
{
	mx_endpoint_t second = open_second(test);

	phase("mx_iconnect with a wrong key");
	ends_with(test, second, test->remote_id, test->key + WRONG, MX_STATUS_BAD_KEY);
	phase("mx_iconnect to an endpoint that is closed");
	ends_with(test, second, facts->closed_id, test->key, MX_STATUS_ENDPOINT_CLOSED);
	phase("mx_iconnect to an endpoint id that there is not");
	ends_with(test, second, ID_BEYOND, test->key, MX_STATUS_BAD_ENDPOINT);
	MX(mx_close_endpoint(second));
}

/* ---- Sender: what belongs to a peer, and losing it ------------------------------------------------ */

static void contexts(const struct test *test)
{
	mx_endpoint_addr_t again;
	void *context = &again;

	phase("a context of an address");
	MX(mx_get_endpoint_addr_context(test->peer, &context));
	CHECK(context == NULL);
	MX(mx_set_endpoint_addr_context(test->peer, &heard));
	MX(mx_get_endpoint_addr_context(test->peer, &context));
	CHECK(context == &heard);
	MX(mx_connect(test->endpoint, test->nic_id, test->remote_id, test->key, MX_INFINITE, &again));
	MX(mx_get_endpoint_addr_context(again, &context));
	CHECK(context == &heard);
}

static void parts(const struct test *test, const struct facts *facts)
{
	struct place expected = {facts->nic_id, facts->endpoint_id, facts->session};
	uint64_t nic_id = 0;
	uint32_t number = 0;

	phase("the parts of an address");
	place_check(place_of(test->peer), expected);
	MX(mx_decompose_endpoint_addr(test->peer, &nic_id, &number));
	CHECK_EQUAL(nic_id, test->nic_id);
	CHECK_EQUAL(number, test->remote_id);
	MX(mx_decompose_endpoint_addr(test->peer, NULL, &number));
	CHECK_EQUAL(number, test->remote_id);
	MX(mx_decompose_endpoint_addr(test->peer, &nic_id, NULL));
	CHECK_EQUAL(nic_id, test->nic_id);
	MX(mx_decompose_endpoint_addr2(test->peer, NULL, NULL, &number));
	CHECK_EQUAL(number, facts->session);
}

static void disconnected(const struct test *test, mx_endpoint_t second)
{
	mx_endpoint_addr_t address;
	mx_request_t request;
	mx_status_t status;

	phase("disconnecting");
	MX(mx_connect(second, test->nic_id, test->remote_id, test->key, MX_INFINITE, &address));
	ask(second, address);
	request = send_to(second, address, NULL, 0, NEVER, true);
	MX(mx_disconnect(second, address));
	request_wait(second, &request, &status);
	CHECK(status.code != MX_STATUS_SUCCESS);
	phase("connecting again");
	MX(mx_connect(second, test->nic_id, test->remote_id, test->key, MX_INFINITE, &address));
	ask(second, address);
}

/* The endpoint closes, and another is opened in its place. */
static void opened_again(struct test *test, const struct facts *facts, mx_endpoint_t again)
{
	mx_endpoint_t second = NULL;
	mx_endpoint_addr_t before, after;
	mx_request_t request;
	mx_status_t status;

	phase("an endpoint before it closes");
	if (test->there) {
		second = open_second(test);
		MX(mx_connect(second, facts->nic_id, facts->again_id, TEST_KEY, MX_INFINITE, &before));
		ask(second, before);
	} else {
		answer(again);
		MX(mx_close_endpoint(again));
		again = open_at(facts->again_id);
		CHECK(again != NULL);
	}
	test_meet(test);
	phase("an endpoint that was opened again");
	if (test->there) {
		request = send_to(second, before, NULL, 0, NEVER, true);
		request_wait(second, &request, &status);
		CHECK(status.code != MX_STATUS_SUCCESS);
		MX(mx_connect(second, facts->nic_id, facts->again_id, TEST_KEY, MX_INFINITE, &after));
		CHECK(place_of(before).session != place_of(after).session);
		ask(second, after);
		MX(mx_close_endpoint(second));
	} else {
		answer(again);
		MX(mx_close_endpoint(again));
	}
}

/* ---- Both ----------------------------------------------------------------------------------------- */

static void play(struct test *test, const struct facts *facts)
{
	mx_endpoint_t second = open_second(test);

	keys(test, second);
	nowhere(test, facts);
	ourselves(test);
	several(test);
	without_waiting(test, facts);
	contexts(test);
	parts(test, facts);
	disconnected(test, second);
	test_meet(test);
	MX(mx_close_endpoint(second));
}

/* What the sender asks, as often as it does; a context that was set for a source is there for the next message of
 * it. */
static void serve(struct test *test)
{
	mx_endpoint_addr_t first;
	void *context = NULL;

	first = answer(test->endpoint);  /* keys */
	answer(test->endpoint);          /* several */
	answer(test->endpoint);
	MX(mx_set_endpoint_addr_context(first, test));
	first = answer(test->endpoint);  /* disconnected */
	MX(mx_get_endpoint_addr_context(first, &context));
	CHECK(context == test);
	answer(test->endpoint);
	test_meet(test);
}

int main(int argc, char **argv)
{
	struct test test = {0};
	struct facts facts;
	mx_endpoint_t again = NULL;

	test_options(&test, "mx_connect", argc, argv);
	fatal();
	before_init();
	test_pair(&test);
	CHECK_RETURN(mx_init(), MX_ALREADY_INITIALIZED);
	handlers(&test);
	facts_exchange(&test, &facts, &again);
	phase("serving");
	if (test.there)
		play(&test, &facts);
	else
		serve(&test);
	opened_again(&test, &facts, again);
	return test_pair_end(&test);
}
