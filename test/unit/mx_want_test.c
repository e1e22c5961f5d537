/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Want of memory, descriptors or threads in MX: two endpoints are opened, meet, talk, time out and close, again and
 * again, and each time another of the calls by which the libraries ask for something is refused.
 *
 * Whatever it is: an endpoint is open as it would be else, or says why it is not and is opened by the next call; every
 * request ends; a message that is received is from whom it is from; a time-out that was asked for ends what it is for;
 * and nothing is left over. That a peer is lost for good is the core's (want_test.c).
 *
 * The directory's thread asks when its turn comes, so a call that one run of this refuses may be missed by the next.
 */
#include "unit.h"

#include <string.h>

#include "base/clock.h"
#include "descriptors.h"
#include "mx_endpoint.h"
#include "want.h"

enum { KEY = 5, BYTES = 64, SHORT_MS = 1, TRIES = 4 };
static const uint64_t patience_ns = 20000000000;

static struct {
	uint64_t nic_id;
	bool network; /* it has a socket for other hosts */
} usual;

static void right(bool is, const char *what)
{
	if (!is)
		fail_msg("%s: %s was refused, the %llu. call (%s)", what, want.what, (unsigned long long)want.first,
			 thole_detail());
}

static uint64_t nic_id_of(mx_endpoint_addr_t address, uint32_t *number_p)
{
	uint64_t nic_id = 0;

	right(mx_decompose_endpoint_addr(address, &nic_id, number_p) == MX_SUCCESS, "an address is none");
	return nic_id;
}

static mx_endpoint_t opened(void)
{
	mx_return_t code = MX_NO_RESOURCES;
	mx_endpoint_t endpoint = NULL;

	for (int try = 0; try < TRIES && code == MX_NO_RESOURCES; try++) {
		code = mx_open_endpoint(MX_ANY_NIC, MX_ANY_ENDPOINT, KEY, NULL, 0, &endpoint);
		right(!code || thole_detail()[0], "why an endpoint is not opened is not said");
	}
	right(!code, "an endpoint is not opened");
	if (!usual.nic_id) {
		usual.nic_id = endpoint->entry.nic_id;
		usual.network = endpoint->entry.udp_fd >= 0;
	}
	right(endpoint->entry.nic_id == usual.nic_id, "another board was opened");
	right((endpoint->entry.udp_fd >= 0) == usual.network, "other hosts cannot ask");
	endpoint->several = UINT32_MAX; /* looks that do not sleep: what the other one does is this thread's turn */
	return endpoint;
}

/* False: its peer was lost. A send ends when it is received, so a receive that ends without it is given up. */
static bool said(mx_endpoint_t from, mx_endpoint_addr_t to, mx_endpoint_t receiver, mx_status_t *received_p)
{
	char text[BYTES] = "hello", got[BYTES] = "";
	mx_segment_t out = {text, BYTES}, in = {got, BYTES};
	mx_request_t send = NULL, receive = NULL;
	mx_status_t sent = {.code = MX_STATUS_NO_RESOURCES};
	uint64_t end_ns = clock_now_ns() + patience_ns;
	uint32_t result;

	received_p->code = MX_STATUS_NO_RESOURCES;
	while (mx_irecv(receiver, &in, 1, 1, UINT64_MAX, NULL, &receive) == MX_NO_RESOURCES)
		continue;
	while (mx_issend(from, &out, 1, to, 1, NULL, &send) == MX_NO_RESOURCES)
		continue;
	while ((send || receive) && clock_now_ns() < end_ns) {
		if (send)
			right(mx_test(from, &send, &sent, &result) == MX_SUCCESS, "a send cannot be tested");
		if (receive)
			right(mx_test(receiver, &receive, received_p, &result) == MX_SUCCESS, "nor a receive");
		if (!send && sent.code != MX_STATUS_SUCCESS && receive)
			right(mx_cancel(receiver, &receive, &result) == MX_SUCCESS, "nor cancelled");
	}
	right(!send && !receive, "a message does not end");
	right(sent.code != MX_STATUS_SUCCESS || memcmp(text, got, BYTES) == 0, "a message is not right");
	return sent.code == MX_STATUS_SUCCESS && received_p->code == MX_STATUS_SUCCESS;
}

/* One that nobody receives. */
static void timed_out(mx_endpoint_t from, mx_endpoint_addr_t to)
{
	uint64_t end_ns = clock_now_ns() + patience_ns;
	mx_request_t request = NULL;
	mx_status_t status;
	uint32_t result;

	right(mx_set_request_timeout(from, NULL, SHORT_MS) == MX_SUCCESS, "time-outs cannot be set");
	while (mx_issend(from, NULL, 0, to, 2, NULL, &request) == MX_NO_RESOURCES)
		continue;
	while (request && clock_now_ns() < end_ns)
		right(mx_test(from, &request, &status, &result) == MX_SUCCESS, "a send cannot be tested");
	right(!request, "a send does not time out");
}

static void talk(void)
{
	mx_endpoint_t a = opened(), b = opened();
	mx_return_t code = MX_NO_RESOURCES;
	mx_endpoint_addr_t to, answer_to;
	uint32_t number;
	mx_status_t status;

	for (int try = 0; try < TRIES && code == MX_NO_RESOURCES; try++)
		code = mx_connect(a, b->entry.nic_id, b->entry.endpoint_id, KEY, MX_INFINITE, &to);
	right(code == MX_SUCCESS || code == MX_CONNECTION_FAILED, "nobody is there");
	if (!code && said(a, to, b, &status)) {
		answer_to = status.source;
		right(nic_id_of(answer_to, &number) == a->entry.nic_id && number == a->entry.endpoint_id,
		      "a message is from nobody");
		(void)said(b, answer_to, a, &status);
	}
	if (!code)
		timed_out(a, to);
	right(mx_close_endpoint(a) == MX_SUCCESS && mx_close_endpoint(b) == MX_SUCCESS, "an endpoint is not closed");
}

static void want__of_each_call(void **state)
{
	uint32_t live;
	int before;

	(void)state;
	want.first = want.last = UINT64_MAX;
	talk(); /* what stays for good is there */
	before = descriptors_open();
	live = want.live;
	for (uint64_t first = 1;; first++) {
		want.count = 0;
		want.first = want.last = first;
		want.what = NULL;
		talk();
		right(want.live == live && descriptors_open() == before, "something is left over");
		if (!want.what)
			break;
	}
	want.first = want.last = UINT64_MAX;
}

static int setup(void **state)
{
	(void)state;
	setenv("THOLE_OPTIONS_FILE", "", 1);
	setenv("THOLE_MX_HOSTS", "/nonexistent/hosts", 1);
	setenv("THOLE_MX_GROUP", "off", 1);
	setenv("THOLE_CLOSE_TIMEOUT", "1ms", 1);
	mx_set_error_handler(MX_ERRORS_RETURN);
	return mx_init() != MX_SUCCESS;
}

static int teardown(void **state)
{
	(void)state;
	return mx_finalize() != MX_SUCCESS;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(want__of_each_call),
	};

	return cmocka_run_group_tests_name("mx_want", tests, setup, teardown);
}
