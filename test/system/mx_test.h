/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_test.h - what the programs that prove the MX front end share: their command line, checks, payloads, and how a
 * pair of them, or one alone, begins and ends.
 *
 *   mx-NAME [OPTION]...                            the receiver; says "ready NIC-ID ENDPOINT" once it can be found
 *   mx-NAME -d HOST:BOARD|NIC-ID -r ENDPOINT ...   the sender
 *
 *   -b board       that we use               (any)     -n count       of rounds or messages
 *   -e endpoint    our own number            (any)     -L length      of the longest messages, where there is a choice
 *   -r endpoint    the receiver's number     (0)       -p processes   that send, where there are several
 *   -k key         of both endpoints                   -i index       which of them we are
 *   -M             compare all data                    -t seconds     after which we give up
 *
 * It knows MX by its public headers alone. A check that fails says where and during what, and ends the process with
 * status 1; a program whose checks have all held ends with the line "ok NAME". The two of a pair wait for each other
 * by messages; time only serves to give up.
 */
#ifndef MX_TEST_H
#define MX_TEST_H

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mx_extensions.h"
#include "myriexpress.h"

#define CHECK(condition) ((condition) ? (void)0 : test_fail(__FILE__, __LINE__, "it does not hold that %s", #condition))
#define CHECK_EQUAL(got, expected) test_equal(__FILE__, __LINE__, #got, (uint64_t)(got), (uint64_t)(expected))
#define CHECK_RETURN(call, expected) test_returned(__FILE__, __LINE__, #call, call, expected)
#define CHECK_CODE(status, expected) test_ended(__FILE__, __LINE__, #status, (status)->code, expected)
#define MX(call) CHECK_RETURN(call, MX_SUCCESS)

/* The highest byte of match information says what a message is for; from 0x10 on they are the programs'. */
#define TEST_HELLO (UINT64_C(1) << 56)
#define TEST_MEET (UINT64_C(2) << 56)
#define TEST_SELF (UINT64_C(3) << 56)
#define TEST_KIND(n) ((uint64_t)(n) << 56)
#define TEST_KIND_MASK TEST_KIND(0xff)

enum {
	TEST_KEY = 0x12345,
	TEST_SECONDS = 120, /* far beyond what any of them takes */
	TEST_GUARD = 64,    /* bytes behind a buffer that must remain as they are */
	TEST_EAGER_MAX = 32 << 10, /* of MXoE: longer messages are fetched */
};

struct test {
	const char *name;
	const char *there; /* where the receiver is; NULL: we are it, or alone */
	uint32_t board, endpoint_id, remote_id, key;
	uint32_t count, length_max;
	uint32_t processes, index;
	bool verify;
	uint64_t nic_id; /* sender: the receiver's */
	mx_endpoint_t endpoint;
	mx_endpoint_addr_t peer; /* the other of the pair, or ourselves */
	uint64_t meetings;
};

/* What a sender says of itself, for a receiver that connects back. */
struct test_hello {
	uint64_t nic_id;
	uint32_t endpoint_id, key;
};

/* Lengths around those at which a way of sending ends and another begins, here and in MX. */
static const uint32_t test_lengths[] = {0,    1,    16,    32,    33,    100,   128,    129,     1000,   4096,
					4097, 8193, 20000, 32768, 32769, 65537, 200001, 1 << 20, 5000011};
enum { TEST_LENGTHS = sizeof(test_lengths) / sizeof(*test_lengths), TEST_LENGTH_MAX = 5000011 };

/* ---- Checks ---------------------------------------------------------------------------------- */

static char test_phase[160] = "the beginning";
static __thread char test_sentence[800]; /* what the error handler was told last */

/* Errors return, and are remembered for the report of a failure. */
static inline mx_return_t test_error(char *str, mx_return_t ret)
{
	snprintf(test_sentence, sizeof(test_sentence), "%s", str);
	return ret;
}

/* Say what is being done, for the report of a failure. */
__attribute__((format(printf, 1, 2))) static inline void phase(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(test_phase, sizeof(test_phase), format, list);
	va_end(list);
}

__attribute__((format(printf, 3, 4), noreturn)) static inline void test_fail(const char *file, int line,
									     const char *format, ...)
{
	va_list list;

	va_start(list, format);
	fflush(stdout);
	fprintf(stderr, "%s:%d: during %s: ", file, line, test_phase);
	vfprintf(stderr, format, list);
	fprintf(stderr, "\n");
	va_end(list);
	_exit(1);
}

static inline void test_equal(const char *file, int line, const char *text, uint64_t got, uint64_t expected)
{
	if (got != expected)
		test_fail(file, line, "%s is %#llx, not %#llx", text, (unsigned long long)got,
			  (unsigned long long)expected);
}

static inline void test_returned(const char *file, int line, const char *text, mx_return_t got, mx_return_t expected)
{
	if (got != expected)
		test_fail(file, line, "%s returned %d (%s: %s), not %d (%s)", text, got, mx_strerror(got),
			  test_sentence, expected, mx_strerror(expected));
}

static inline void test_ended(const char *file, int line, const char *text, mx_status_code_t got,
			      mx_status_code_t expected)
{
	if (got != expected)
		test_fail(file, line, "the code in %s is %d (%s), not %d (%s)", text, got, mx_strstatus(got), expected,
			  mx_strstatus(expected));
}

static inline void test_alarm(int number)
{
	static const char before[] = "given up, during ";

	(void)!write(STDERR_FILENO, before, sizeof(before) - 1);
	(void)!write(STDERR_FILENO, test_phase, strlen(test_phase));
	(void)!write(STDERR_FILENO, "\n", 1);
	_exit(128 + number);
}

/* ---- Payloads -------------------------------------------------------------------------------- */

static inline void *test_allocate(size_t length)
{
	void *memory = malloc(length ? length : 1);

	CHECK(memory != NULL);
	return memory;
}

/* Byte i of the payload of a seed: another for each seed, and no two stretches alike. */
static inline uint8_t payload_byte(uint64_t seed, uint64_t i)
{
	return (uint8_t)((i ^ seed << 21) * UINT64_C(0xd6e8feb86659fd93) >> 53);
}

static inline void payload_fill(void *buffer, size_t length, uint64_t seed)
{
	uint8_t *bytes = buffer;

	for (size_t i = 0; i < length; i++)
		bytes[i] = payload_byte(seed, i);
}

/* buffer has what is at offset of a payload. */
static inline void payload_check_part(const void *buffer, size_t length, uint64_t seed, size_t offset)
{
	const uint8_t *bytes = buffer;

	for (size_t i = 0; i < length; i++)
		if (bytes[i] != payload_byte(seed, offset + i))
			test_fail(__FILE__, __LINE__, "byte %zu of payload %#llx is %#x, not %#x", offset + i,
				  (unsigned long long)seed, bytes[i], payload_byte(seed, offset + i));
}

static inline void payload_check(const void *buffer, size_t length, uint64_t seed)
{
	payload_check_part(buffer, length, seed, 0);
}

static inline void guard_fill(void *memory, size_t length)
{
	memset(memory, 0xa5, length);
}

static inline void guard_check(const void *memory, size_t length)
{
	const uint8_t *bytes = memory;

	for (size_t i = 0; i < length; i++)
		if (bytes[i] != 0xa5)
			test_fail(__FILE__, __LINE__, "byte %zu of %zu that were nobody's was overwritten with %#x", i,
				  length, bytes[i]);
}

/* The same numbers in both processes. */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t value = *state += UINT64_C(0x9e3779b97f4a7c15);

	value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
	return value ^ value >> 31;
}

/* ---- Messages -------------------------------------------------------------------------------- */

static inline mx_request_t send_to(mx_endpoint_t endpoint, mx_endpoint_addr_t to, const void *buffer, uint32_t length,
				   uint64_t match, bool sync)
{
	mx_segment_t segment = {(void *)(uintptr_t)buffer, length};
	mx_request_t request = NULL;

	if (sync)
		MX(mx_issend(endpoint, &segment, 1, to, match, NULL, &request));
	else
		MX(mx_isend(endpoint, &segment, 1, to, match, NULL, &request));
	CHECK(request != NULL);
	return request;
}

static inline mx_request_t send_start(struct test *test, const void *buffer, uint32_t length, uint64_t match, bool sync)
{
	return send_to(test->endpoint, test->peer, buffer, length, match, sync);
}

static inline mx_request_t receive_start(struct test *test, void *buffer, uint32_t length, uint64_t match,
					 uint64_t mask)
{
	mx_segment_t segment = {buffer, length};
	mx_request_t request = NULL;

	MX(mx_irecv(test->endpoint, &segment, 1, match, mask, NULL, &request));
	CHECK(request != NULL);
	return request;
}

/* Wait for one of an endpoint's requests. */
static inline void request_wait(mx_endpoint_t endpoint, mx_request_t *request, mx_status_t *status_p)
{
	uint32_t result = 2;

	memset(status_p, 0xee, sizeof(*status_p));
	MX(mx_wait(endpoint, request, MX_INFINITE, status_p, &result));
	CHECK_EQUAL(result, 1);
}

static inline void send_check(const mx_status_t *status, uint32_t length, uint64_t match)
{
	CHECK_CODE(status, MX_STATUS_SUCCESS);
	CHECK_EQUAL(status->match_info, match);
	CHECK_EQUAL(status->msg_length, length);
	CHECK_EQUAL(status->xfer_length, length);
}

static inline void receive_check(const mx_status_t *status, uint32_t length, uint64_t match)
{
	CHECK_CODE(status, MX_STATUS_SUCCESS);
	CHECK_EQUAL(status->match_info, match);
	CHECK_EQUAL(status->msg_length, length);
	CHECK_EQUAL(status->xfer_length, length);
}

static inline void send_finish(struct test *test, mx_request_t *request, uint32_t length, uint64_t match)
{
	mx_status_t status;

	request_wait(test->endpoint, request, &status);
	send_check(&status, length, match);
}

/* The end of a send to a receive of another length. Frames of MXoE tell the sender if less than all was fetched, as
 * Open-MX does. */
static inline void send_finish_cut(struct test *test, mx_request_t *request, uint32_t length, uint32_t room, bool sync,
				   uint64_t match)
{
	const char *codec = getenv("THOLE_CODEC");
	bool fetched = sync || length > TEST_EAGER_MAX;
	mx_status_t status;

	if (room >= length || !fetched || !codec || strncmp(codec, "mxoe", 4) != 0) {
		send_finish(test, request, length, match);
		return;
	}
	request_wait(test->endpoint, request, &status);
	CHECK_CODE(&status, MX_STATUS_TRUNCATED);
	CHECK_EQUAL(status.match_info, match);
	CHECK_EQUAL(status.msg_length, length);
	CHECK_EQUAL(status.xfer_length, room);
}

static inline void receive_finish(struct test *test, mx_request_t *request, uint32_t length, uint64_t match,
				  mx_status_t *status_p)
{
	request_wait(test->endpoint, request, status_p);
	receive_check(status_p, length, match);
}

/* Nothing that is complete has match information of this kind. */
static inline void none_complete(struct test *test, uint64_t match, uint64_t mask)
{
	mx_status_t status;
	uint32_t result = 2;

	MX(mx_test_any(test->endpoint, match, mask, &status, &result));
	CHECK_EQUAL(result, 0);
}

/* Whether a message of this match information waits for a receive. */
static inline bool message_waits(struct test *test, uint64_t match, uint64_t mask, mx_status_t *status_p)
{
	uint32_t result = 2;

	MX(mx_iprobe(test->endpoint, match, mask, status_p, &result));
	CHECK(result <= 1);
	return result;
}

/* Both have come to this place, and what the other has sent before is matched or waits. */
static inline void test_meet(struct test *test)
{
	uint64_t match = TEST_MEET | test->meetings++;
	mx_request_t in = receive_start(test, NULL, 0, match, MX_MATCH_MASK_NONE);
	mx_request_t out = send_start(test, NULL, 0, match, false);
	mx_status_t status;

	receive_finish(test, &in, 0, match, &status);
	send_finish(test, &out, 0, match);
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

static inline uint32_t test_number(const char *text)
{
	char *end;
	unsigned long value = strtoul(text, &end, 0);

	if (end == text || *end || value > UINT32_MAX) {
		fprintf(stderr, "%s is not a number\n", text);
		exit(2);
	}
	return (uint32_t)value;
}

/* Set beforehand what is not to be the usual: count, length_max. */
static inline void test_options(struct test *test, const char *name, int argc, char **argv)
{
	uint32_t seconds = TEST_SECONDS;
	int option;

	test->name = name;
	test->board = MX_ANY_NIC;
	test->endpoint_id = MX_ANY_ENDPOINT;
	test->key = TEST_KEY;
	while ((option = getopt(argc, argv, "b:d:e:i:k:L:Mn:p:r:t:")) != -1) {
		switch (option) {
		case 'b': test->board = test_number(optarg); break;
		case 'd': test->there = optarg; break;
		case 'e': test->endpoint_id = test_number(optarg); break;
		case 'i': test->index = test_number(optarg); break;
		case 'k': test->key = test_number(optarg); break;
		case 'L': test->length_max = test_number(optarg); break;
		case 'M': test->verify = true; break;
		case 'n': test->count = test_number(optarg); break;
		case 'p': test->processes = test_number(optarg); break;
		case 'r': test->remote_id = test_number(optarg); break;
		case 't': seconds = test_number(optarg); break;
		default: exit(2);
		}
	}
	signal(SIGALRM, test_alarm);
	alarm(seconds);
}

/* Numbers of twelve hexadecimal digits, colons between them or not, are NIC ids. */
static inline bool test_nic_id(const char *text, uint64_t *nic_id_p)
{
	unsigned digits = 0;

	*nic_id_p = 0;
	for (; *text; text++) {
		if (*text == ':')
			continue;
		if (!strchr("0123456789abcdefABCDEF", *text))
			return false;
		*nic_id_p = *nic_id_p << 4 | strtoul((char[2]){*text, 0}, NULL, 16);
		digits++;
	}
	return digits == 12;
}

static inline void test_where(mx_endpoint_t endpoint, uint64_t *nic_id_p, uint32_t *endpoint_id_p)
{
	mx_endpoint_addr_t own;

	MX(mx_get_endpoint_addr(endpoint, &own));
	MX(mx_decompose_endpoint_addr(own, nic_id_p, endpoint_id_p));
}

/* The library and one endpoint. */
static inline void test_open(struct test *test, mx_param_t *params, uint32_t params_count)
{
	phase("opening");
	mx_set_error_handler(test_error);
	MX(mx_init());
	MX(mx_open_endpoint(test->board, test->endpoint_id, test->key, params, params_count, &test->endpoint));
	CHECK(test->endpoint != NULL);
}

/* Tell whoever starts the senders where we are. */
static inline void test_ready(struct test *test)
{
	uint64_t nic_id;
	uint32_t endpoint_id;

	test_where(test->endpoint, &nic_id, &endpoint_id);
	printf("ready %012llx %u\n", (unsigned long long)nic_id, endpoint_id);
	fflush(stdout);
}

/* Sender: find the receiver. */
static inline void test_connect(struct test *test)
{
	phase("connecting to %s endpoint %u", test->there, test->remote_id);
	if (!test_nic_id(test->there, &test->nic_id))
		while (mx_hostname_to_nic_id((char *)(uintptr_t)test->there, &test->nic_id) != MX_SUCCESS)
			usleep(1000); /* a host may be late to say so; test_options has set an alarm */
	MX(mx_connect(test->endpoint, test->nic_id, test->remote_id, test->key, MX_INFINITE, &test->peer));
}

static inline void test_hello_send(struct test *test)
{
	struct test_hello hello = {.key = test->key};
	mx_request_t request;

	test_where(test->endpoint, &hello.nic_id, &hello.endpoint_id);
	request = send_start(test, &hello, sizeof(hello), TEST_HELLO, false);
	send_finish(test, &request, sizeof(hello), TEST_HELLO);
}

static inline void test_hello_receive(struct test *test)
{
	struct test_hello hello;
	mx_request_t request = receive_start(test, &hello, sizeof(hello), TEST_HELLO, MX_MATCH_MASK_NONE);
	mx_status_t status;
	uint64_t nic_id;
	uint32_t endpoint_id;

	receive_finish(test, &request, sizeof(hello), TEST_HELLO, &status);
	MX(mx_decompose_endpoint_addr(status.source, &nic_id, &endpoint_id));
	CHECK_EQUAL(nic_id, hello.nic_id);
	CHECK_EQUAL(endpoint_id, hello.endpoint_id);
	MX(mx_connect(test->endpoint, hello.nic_id, hello.endpoint_id, hello.key, MX_INFINITE, &test->peer));
}

/* One of a pair: the other is test->peer from here on. */
static inline void test_pair(struct test *test)
{
	test_open(test, NULL, 0);
	if (test->there) {
		test_connect(test);
		test_hello_send(test);
	} else {
		phase("waiting for a sender");
		test_ready(test);
		test_hello_receive(test);
	}
	test_meet(test);
}

/* Alone: what we send comes to ourselves. */
static inline void test_alone(struct test *test, mx_param_t *params, uint32_t params_count)
{
	test_open(test, params, params_count);
	MX(mx_get_endpoint_addr(test->endpoint, &test->peer));
}

static inline int test_end(struct test *test)
{
	phase("closing");
	MX(mx_close_endpoint(test->endpoint));
	MX(mx_finalize());
	printf("ok %s\n", test->name);
	return 0;
}

static inline int test_pair_end(struct test *test)
{
	phase("the last meeting");
	test_meet(test);
	return test_end(test);
}

#endif
