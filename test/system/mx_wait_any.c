/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_wait_any: several threads take completions of one endpoint, by mx_wait_any, mx_test_any and mx_wait, each for its
 * own kind of message or two for the same: none is lost, none seen twice, none seen by the wrong one. Then, with one
 * thread, mx_peek and mx_probe and their like, with and without timeouts.
 *
 *   -n messages of each kind (200)
 */
#include "mx_test.h"

#include <pthread.h>
#include <stdatomic.h>

#define DATA TEST_KIND(0x10)
#define STOP TEST_KIND(0x11)
#define ALONE TEST_KIND(0x12)
#define KIND(n) ((uint64_t)((n) + 1) << 40) /* 0 is what is none of them, as the messages by which both meet */
#define KIND_MASK (UINT64_C(0xff) << 40)

enum {
	MESSAGES = 200,
	KINDS = 4,     /* of messages */
	TAKERS = 6,    /* threads of the receiver */
	LENGTH_MAX = 100000,
	SHORT_MS = 3,
};

enum how { WAIT_ANY, TEST_ANY, WAIT, WAIT_ANY_BRIEFLY };

/* Who takes what. Kind 3 is waited for by its requests, and so only by one. */
static const struct {
	unsigned kind;
	enum how how;
} takers[TAKERS] = {{0, WAIT_ANY}, {0, WAIT_ANY}, {1, TEST_ANY}, {1, WAIT_ANY_BRIEFLY}, {2, WAIT_ANY}, {3, WAIT}};

struct slot {
	mx_request_t request;
	uint64_t match;
	uint8_t *buffer;
	atomic_uint seen;
};

static struct {
	struct test *test;
	struct slot *slots; /* kind after kind */
	unsigned total;
	unsigned seen;      /* by all, under the lock */
	pthread_mutex_t lock;
	pthread_cond_t all;
} common = {.lock = PTHREAD_MUTEX_INITIALIZER, .all = PTHREAD_COND_INITIALIZER};

static uint64_t match_of(unsigned kind, unsigned number)
{
	return DATA | KIND(kind) | number;
}

static uint32_t length_of(uint64_t match)
{
	uint64_t state = match;

	return (uint32_t)(random_next(&state) % (random_next(&state) % 8 ? 300 : LENGTH_MAX));
}

/* ---- Receiver's threads ---------------------------------------------------------------------- */

static void slot_take(struct slot *slot, unsigned kind, const mx_status_t *status)
{
	CHECK(slot >= common.slots && slot < common.slots + common.total);
	CHECK_EQUAL(atomic_fetch_add(&slot->seen, 1), 0);
	CHECK_EQUAL(slot->match & KIND_MASK, KIND(kind));
	receive_check(status, length_of(slot->match), slot->match);
	payload_check(slot->buffer, status->msg_length, slot->match);
	pthread_mutex_lock(&common.lock);
	if (++common.seen == common.total)
		pthread_cond_signal(&common.all);
	pthread_mutex_unlock(&common.lock);
}

/* One completion of this kind, however often one has to ask. */
static void take_any(unsigned kind, enum how how, mx_status_t *status_p)
{
	uint64_t match = KIND(kind);
	mx_endpoint_t endpoint = common.test->endpoint;
	uint32_t result = 0;

	if (how == WAIT_ANY) {
		MX(mx_wait_any(endpoint, MX_INFINITE, match, KIND_MASK, status_p, &result));
		CHECK_EQUAL(result, 1);
	}
	while (!result) {
		if (how == TEST_ANY)
			MX(mx_test_any(endpoint, match, KIND_MASK, status_p, &result));
		else
			MX(mx_wait_any(endpoint, SHORT_MS, match, KIND_MASK, status_p, &result));
	}
}

static void *take(void *arg)
{
	unsigned taker = (unsigned)(uintptr_t)arg, kind = takers[taker].kind;
	mx_status_t status;

	if (takers[taker].how == WAIT) {
		for (unsigned i = 0; i < common.test->count; i++) {
			struct slot *slot = &common.slots[kind * common.test->count + i];

			request_wait(common.test->endpoint, &slot->request, &status);
			CHECK(status.context == slot);
			slot_take(slot, kind, &status);
		}
		return NULL;
	}
	for (;;) {
		take_any(kind, takers[taker].how, &status);
		if ((status.match_info & TEST_KIND_MASK) == STOP)
			return NULL;
		slot_take(status.context, kind, &status);
	}
}

static void slots_post(struct test *test)
{
	for (unsigned i = 0; i < common.total; i++) {
		struct slot *slot = &common.slots[i];
		mx_segment_t segment;

		slot->match = match_of(i / test->count, i % test->count);
		slot->buffer = test_allocate(length_of(slot->match));
		atomic_init(&slot->seen, 0);
		segment = (mx_segment_t){slot->buffer, length_of(slot->match)};
		MX(mx_irecv(test->endpoint, &segment, 1, slot->match, MX_MATCH_MASK_NONE, slot, &slot->request));
	}
}

/* Each thread but the one that counts by itself takes one stop of its kind; nobody hears of their sends. */
static void stop_all(struct test *test)
{
	mx_endpoint_addr_t own;

	MX(mx_get_endpoint_addr(test->endpoint, &own));
	for (unsigned i = 0; i < TAKERS; i++) {
		uint64_t match = STOP | KIND(takers[i].kind);
		mx_request_t request;

		if (takers[i].how == WAIT)
			continue;
		MX(mx_irecv(test->endpoint, NULL, 0, match, MX_MATCH_MASK_NONE, NULL, &request));
		MX(mx_isend(test->endpoint, NULL, 0, own, match, NULL, NULL));
	}
}

static void take_all(struct test *test)
{
	pthread_t threads[TAKERS];

	slots_post(test);
	for (unsigned i = 0; i < TAKERS; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, take, (void *)(uintptr_t)i), 0);
	/* By a message of no kind that they take. */
	test_meet(test);
	pthread_mutex_lock(&common.lock);
	while (common.seen < common.total)
		pthread_cond_wait(&common.all, &common.lock);
	pthread_mutex_unlock(&common.lock);
	stop_all(test);
	for (unsigned i = 0; i < TAKERS; i++)
		pthread_join(threads[i], NULL);
	none_complete(test, 0, 0);
	for (unsigned i = 0; i < common.total; i++) {
		CHECK_EQUAL(atomic_load(&common.slots[i].seen), 1);
		free(common.slots[i].buffer);
	}
}

/* ---- Sender's threads ------------------------------------------------------------------------ */

/* Each sends one kind, and takes the completions of its sends, which have the match information of the messages. */
static void *give(void *arg)
{
	unsigned kind = (unsigned)(uintptr_t)arg;
	struct test *test = common.test;
	uint8_t *buffer = test_allocate(LENGTH_MAX);
	uint64_t match;
	mx_request_t request;
	mx_status_t status;

	for (unsigned i = 0; i < test->count; i++) {
		match = match_of(kind, i);
		payload_fill(buffer, length_of(match), match);
		request = send_start(test, buffer, length_of(match), match, i % 9 == 4);
		if (takers[kind].how == WAIT)
			request_wait(test->endpoint, &request, &status);
		else
			take_any(kind, kind % 2 ? TEST_ANY : WAIT_ANY, &status);
		send_check(&status, length_of(match), match);
	}
	free(buffer);
	return NULL;
}

static void give_all(struct test *test)
{
	pthread_t threads[KINDS];

	test_meet(test);
	for (unsigned i = 0; i < KINDS; i++)
		CHECK_EQUAL(pthread_create(&threads[i], NULL, give, (void *)(uintptr_t)i), 0);
	for (unsigned i = 0; i < KINDS; i++)
		pthread_join(threads[i], NULL);
	none_complete(test, 0, 0);
}

/* ---- One thread, that only looks ------------------------------------------------------------- */

static void give_one(struct test *test, uint64_t number)
{
	mx_request_t request;

	test_meet(test);
	request = send_start(test, &number, sizeof(number), ALONE | number, false);
	send_finish(test, &request, sizeof(number), ALONE | number);
}

static void peek(struct test *test, uint64_t number, bool waits)
{
	mx_request_t request, other, found = NULL;
	uint64_t match = ALONE | number, got = 0;
	mx_status_t status;
	uint32_t result = 2;

	if (test->there) {
		give_one(test, number);
		return;
	}
	request = receive_start(test, &got, sizeof(got), match, MX_MATCH_MASK_NONE);
	other = receive_start(test, NULL, 0, ALONE, MX_MATCH_MASK_NONE);
	MX(mx_ipeek(test->endpoint, &found, &result));
	CHECK_EQUAL(result, 0);
	MX(mx_peek(test->endpoint, SHORT_MS, &found, &result));
	CHECK_EQUAL(result, 0);
	test_meet(test);
	if (waits) {
		MX(mx_peek(test->endpoint, MX_INFINITE, &found, &result));
		CHECK_EQUAL(result, 1);
	}
	while (!result)
		MX(mx_ipeek(test->endpoint, &found, &result));
	CHECK(found == request);
	/* It is still there to be taken. */
	found = NULL;
	MX(mx_peek(test->endpoint, SHORT_MS, &found, &result));
	CHECK_EQUAL(result, 1);
	CHECK(found == request);
	MX(mx_test(test->endpoint, &found, &status, &result));
	CHECK_EQUAL(result, 1);
	receive_check(&status, sizeof(got), match);
	CHECK_EQUAL(got, number);
	MX(mx_peek(test->endpoint, SHORT_MS, &found, &result));
	CHECK_EQUAL(result, 0);
	MX(mx_cancel(test->endpoint, &other, &result));
	CHECK_EQUAL(result, 1);
}

static void probe(struct test *test, uint64_t number, bool waits)
{
	uint64_t match = ALONE | number, got = 0;
	mx_request_t request;
	mx_status_t status;
	uint32_t result = 2;

	if (test->there) {
		give_one(test, number);
		return;
	}
	CHECK(!message_waits(test, ALONE, TEST_KIND_MASK, &status));
	MX(mx_probe(test->endpoint, SHORT_MS, ALONE, TEST_KIND_MASK, &status, &result));
	CHECK_EQUAL(result, 0);
	test_meet(test);
	if (waits) {
		MX(mx_probe(test->endpoint, MX_INFINITE, ALONE, TEST_KIND_MASK, &status, &result));
		CHECK_EQUAL(result, 1);
	}
	while (!result)
		MX(mx_iprobe(test->endpoint, ALONE, TEST_KIND_MASK, &status, &result));
	CHECK_EQUAL(status.match_info, match);
	CHECK_EQUAL(status.msg_length, sizeof(got));
	CHECK(!message_waits(test, ALONE | (number + 1), MX_MATCH_MASK_NONE, &status));
	MX(mx_probe(test->endpoint, SHORT_MS, ALONE | (number + 1), MX_MATCH_MASK_NONE, &status, &result));
	CHECK_EQUAL(result, 0);
	CHECK(message_waits(test, match, MX_MATCH_MASK_NONE, &status));
	request = receive_start(test, &got, sizeof(got), match, MX_MATCH_MASK_NONE);
	receive_finish(test, &request, sizeof(got), match, &status);
	CHECK_EQUAL(got, number);
	CHECK(!message_waits(test, ALONE, TEST_KIND_MASK, &status));
}

/* A wait that ends by its time has done nothing. */
static void timeouts(struct test *test)
{
	uint64_t got = 0, match = ALONE | 7;
	mx_request_t request, same;
	mx_status_t status;
	uint32_t result = 2;

	if (test->there) {
		give_one(test, 7);
		return;
	}
	request = same = receive_start(test, &got, sizeof(got), match, MX_MATCH_MASK_NONE);
	MX(mx_wait(test->endpoint, &request, SHORT_MS, &status, &result));
	CHECK_EQUAL(result, 0);
	CHECK(request == same);
	result = 2;
	MX(mx_wait_any(test->endpoint, SHORT_MS, 0, 0, &status, &result));
	CHECK_EQUAL(result, 0);
	result = 2;
	MX(mx_test(test->endpoint, &request, &status, &result));
	CHECK_EQUAL(result, 0);
	test_meet(test);
	receive_finish(test, &request, sizeof(got), match, &status);
	CHECK(request == NULL);
	none_complete(test, 0, 0);
}

int main(int argc, char **argv)
{
	struct test test = {.count = MESSAGES};

	test_options(&test, "mx_wait_any", argc, argv);
	common.test = &test;
	common.total = KINDS * test.count;
	common.slots = test_allocate(common.total * sizeof(*common.slots));
	test_pair(&test);
	phase("%u messages, taken by threads", common.total);
	if (test.there)
		give_all(&test);
	else
		take_all(&test);
	test_meet(&test);
	for (unsigned i = 0; i < 2; i++) {
		phase("peeking");
		peek(&test, 3 + i, i);
		phase("probing");
		probe(&test, 5 + i, i);
	}
	phase("waits that time ends");
	timeouts(&test);
	free(common.slots);
	return test_pair_end(&test);
}
