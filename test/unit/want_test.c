/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Want of memory, descriptors or threads, at any call: two endpoints are opened, talk in every way, and close, again
 * and again, and each time another of the calls by which the library asks for something is refused, and some behind it.
 *
 * Whatever it is: no crash, every request ends, what ended well is right, both sides agree on what was done, a third
 * endpoint goes on as if nothing had been, and nothing is left over.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "descriptors.h"
#include "mappings.h"
#include "pair.h"
#include "want.h"

enum {
	REQUESTS = 32,
	LONG = 300000,        /* bytes of the longest message: not eager */
	REGION = 100000,
	CELL = REGION - 8,    /* where atomics add; puts and gets end before it */
	KEY = 9,
	ACCESSES = 8,
	TURNS = PAIR_TURNS_MAX,
};

/* ---- What is said --------------------------------------------------------------------------------------------- */

struct said {
	struct thole_request *send, *receive; /* NULL: there is none, or it has ended */
	int send_status, receive_status;
	size_t length;
	uint8_t *from, *to;
};

static struct talk {
	struct pair pair;
	struct said said[REQUESTS];
	unsigned count, accesses; /* of `said`; the first of the accesses, behind all messages */
	struct thole_region *region;
} talk;

static uint8_t from[LONG], to[REQUESTS][LONG];
static _Alignas(8) uint8_t region[REGION];

static void said_test(struct thole_endpoint *endpoint, struct thole_request **request_p, int *status_p)
{
	struct thole_completion completion;

	if (!*request_p || !thole_test(endpoint, *request_p, &completion))
		return;
	*request_p = NULL;
	*status_p = completion.status;
}

/* From a to b, with a receive posted before or after. */
static void say(size_t length, bool late, unsigned flags)
{
	struct said *said = &talk.said[talk.count];
	struct iovec halves[2] = {{from, length / 2}, {from + length / 2, length - length / 2}};
	uint64_t tag = talk.count;

	*said = (struct said){.length = length, .from = from, .to = to[talk.count]};
	talk.count++;
	memset(said->to, 0, length);
	if (!late)
		said->receive_status = thole_recv(talk.pair.b, talk.pair.b_to_a, said->to, length, tag, ~UINT64_C(0), 0,
						  NULL, &said->receive);
	said->send_status = thole_sendv(talk.pair.a, talk.pair.a_to_b, halves, 2, tag, 0, flags, NULL, &said->send);
	if (!late)
		return;
	pair_idle(&talk.pair);
	said->receive_status = thole_recv(talk.pair.b, talk.pair.b_to_a, said->to, length, tag, ~UINT64_C(0), 0, NULL,
					  &said->receive);
}

/* Receives that nothing comes for, until so many requests are left. */
static void requests_leave(struct thole_endpoint *endpoint, uint32_t left)
{
	static uint8_t byte;

	while (endpoint->requests.capacity - endpoint->requests.live > left)
		assert_int_equal(thole_recv(endpoint, THOLE_ANY, &byte, 1, UINT64_MAX, ~UINT64_C(0), 0, NULL, NULL), 0);
}

static void room_use(struct thole_endpoint *endpoint, uint32_t peer)
{
	while (thole_send(endpoint, peer, "", 1, UINT64_MAX - 1, 0, THOLE_QUIET | THOLE_OR_NOT, NULL, NULL) == 0)
		;
}

/* There is no room for more, perhaps to neither side, and all but a few of the requests that there are are used. */
static void talk_tighten(uint32_t left, bool both)
{
	want.off = true;
	room_use(talk.pair.a, talk.pair.a_to_b);
	if (both)
		room_use(talk.pair.b, talk.pair.b_to_a);
	requests_leave(talk.pair.a, left);
	requests_leave(talk.pair.b, left);
	want.off = false;
}

/* Short and long: puts, those that their target is told of, gets; and an addition that fetches, and one that does
 * not. */
static void access_all(void)
{
	struct thole_endpoint *a = talk.pair.a;
	uint32_t b = talk.pair.a_to_b;
	uint64_t one = 1;

	talk.accesses = talk.count;
	for (unsigned i = 0; i < ACCESSES; i++) {
		uint8_t *memory = to[talk.count];
		struct said *said = &talk.said[talk.count++];
		const struct iovec data = {i < 4 ? from : memory, i % 2 ? CELL : 100};
		const struct thole_atomic sum = {.op = THOLE_SUM, .type = THOLE_UINT64, .count = 1, .operand = &one,
						 .result = i % 2 ? memory : NULL, .key = KEY, .offset = CELL};

		*said = (struct said){.from = NULL};
		if (i < 4)
			said->send_status = thole_put(a, b, &data, 1, KEY, 0, 0, i < 2 ? 0 : THOLE_IMM, NULL,
						      &said->send);
		else if (i < 6)
			said->send_status = thole_get(a, b, &data, 1, KEY, 0, 0, NULL, &said->send);
		else
			said->send_status = thole_atomic(a, b, &sum, 0, NULL, &said->send);
	}
}

/* A receive whose send was not begun, or failed, is given up. */
static bool talk_is_over(void)
{
	bool over = true;

	for (unsigned i = 0; i < talk.count; i++) {
		struct said *said = &talk.said[i];

		said_test(talk.pair.a, &said->send, &said->send_status);
		said_test(talk.pair.b, &said->receive, &said->receive_status);
		if (said->receive && !said->send && said->send_status)
			(void)thole_cancel(talk.pair.b, said->receive);
		over &= !said->send && !said->receive;
	}
	return over;
}

static void said_right(bool right, const char *what)
{
	if (!right)
		fail_msg("%s: %s was refused, the %llu. call (%s)", what, want.what, (unsigned long long)want.first,
			 thole_detail());
}

/* Who has lost the other knows of nothing; else what was done is what is said to be. */
static void accesses_check(void)
{
	const struct said *said = talk.said + talk.accesses;
	struct thole_completion notices[ACCESSES];
	uint64_t cell;

	if (!talk.accesses || pair_counter(talk.pair.a, "peers_gone") + pair_counter(talk.pair.b, "peers_gone") > 0)
		return;
	for (unsigned i = 0; i < 4; i++)
		said_right(said[i].send_status || memcmp(region, from, i % 2 ? CELL : 100) == 0, "a put is not there");
	memcpy(&cell, region + CELL, sizeof(cell));
	said_right(cell == (uint64_t)!said[6].send_status + !said[7].send_status,
		   "what was added is not what is said to be");
	said_right(thole_poll(talk.pair.b, notices, ACCESSES) == !said[2].send_status + !said[3].send_status,
		   "those are not told who are said to be");
}

static void talk_check(void)
{
	for (unsigned i = 0; i < talk.count; i++) {
		struct said *said = &talk.said[i];

		said_right(!said->from || said->receive_status || memcmp(said->from, said->to, said->length) == 0,
			   "a message is not right");
	}
	accesses_check();
}

/* One that has refused nothing, and whom nothing was refused: it and b hear each other. */
static void third_talks(const char *const *options)
{
	static const size_t lengths[] = {8, 2000, LONG};
	struct pair pair = {.b = talk.pair.b};

	want.off = true;
	pair.a = pair_endpoint(NULL, NULL, options);
	pair.a_to_b = pair_peer(pair.a, pair.b);
	pair.b_to_a = pair_peer(pair.b, pair.a);
	for (unsigned i = 0; i < 6; i++) {
		struct thole_endpoint *sender = i % 2 ? pair.b : pair.a, *receiver = i % 2 ? pair.a : pair.b;
		struct thole_request *receive, *send;
		size_t length = lengths[i / 2];
		int error;

		memset(to[0], 0, length);
		error = thole_recv(receiver, i % 2 ? pair.a_to_b : pair.b_to_a, to[0], length, 99, ~UINT64_C(0), 0,
				   NULL, &receive);
		if (!error)
			error = thole_send(sender, i % 2 ? pair.b_to_a : pair.a_to_b, from, length, 99, 0, 0, NULL,
					   &send);
		if (error == THOLE_ERR_ADDRESS)
			break; /* b could not open all that it has else */
		said_right(!error && pair_finish(&pair, receiver, receive, NULL) == 0 &&
			   pair_finish(&pair, sender, send, NULL) == 0 && memcmp(from, to[0], length) == 0,
			   "a third one is not heard, or does not hear");
	}
	thole_endpoint_close(pair.a);
	want.off = false;
}

static bool talk_open(const char *const *options, const char *const *others)
{
	struct thole_address address;

	talk = (struct talk){.count = 0};
	if (thole_endpoint_open(&(struct thole_endpoint_attr){.options = options}, &talk.pair.a) != 0)
		return false;
	if (thole_endpoint_open(&(struct thole_endpoint_attr){.options = others}, &talk.pair.b) != 0) {
		thole_endpoint_close(talk.pair.a);
		return false;
	}
	thole_endpoint_address(talk.pair.a, &address);
	if (thole_peer(talk.pair.b, &address, &talk.pair.b_to_a) == 0) {
		thole_endpoint_address(talk.pair.b, &address);
		if (thole_peer(talk.pair.a, &address, &talk.pair.a_to_b) == 0)
			return true;
	}
	pair_close(&talk.pair);
	return false;
}

static void talk_all(const char *const *options, const char *const *others, bool tight)
{
	static const size_t lengths[] = {0, 8, 90, 2000, 60000, LONG};
	int turns = 0;

	memset(region, 0, sizeof(region));
	if (!talk_open(options, others))
		return;
	for (unsigned i = 0; i < 6; i++) {
		say(lengths[i], false, 0);
		say(lengths[i], true, i % 2 ? THOLE_SYNC : 0);
	}
	if (thole_expose(talk.pair.b, region, REGION, THOLE_ACCESS_PUT | THOLE_ACCESS_GET | THOLE_ACCESS_ATOMIC, KEY,
			 NULL, &talk.region) == 0) {
		if (tight)
			talk_tighten(want.first % 4, want.first / 4 % 2);
		access_all();
	}
	while (!talk_is_over()) {
		if (++turns > TURNS)
			fail_msg("a request has not ended: %s was refused, the %llu. call", want.what,
				 (unsigned long long)want.first);
		pair_progress(&talk.pair, 1);
	}
	talk_check();
	third_talks(options);
	pair_close(&talk.pair);
}

/* tight: there is little left without asking for it. */
static void want_all(const char *const *options, const char *const *others, uint64_t row, bool tight)
{
	int before = descriptors_open();
	uint32_t live = want.live;

	for (uint64_t i = 0; i < sizeof(from); i++)
		from[i] = pair_byte(1, i);
	want.first = want.last = UINT64_MAX;
	talk_all(options, others, tight); /* what stays for good is there */
	before = descriptors_open();
	live = want.live;
	for (uint64_t first = 1;; first++) {
		want.count = 0;
		want.first = first;
		want.last = first + row - 1;
		want.what = NULL;
		talk_all(options, others, tight);
		if (want.live != live || descriptors_open() != before || mappings_of("memfd:thole (") != 0)
			fail_msg("%d blocks, %d descriptors, %d mappings are left: %s was refused, the %llu. call",
				 (int)(want.live - live), descriptors_open() - before,
				 mappings_of("memfd:thole ("), want.what,
				 (unsigned long long)first);
		if (!want.what)
			break;
	}
	want.first = want.last = UINT64_MAX;
}

static void want__within_a_host(void **state)
{
	static const char *const ways[] = {"bulk=auto", "bulk=ring", "bulk=cooperative", "one_copy=off"};

	(void)state;
	for (int i = 0; i < 4; i++)
		for (uint64_t row = 1; row < 10; row += 4) {
			const char *const options[] = {"network=off", "close_timeout=1ms", "eager_max=64k", ways[i],
						       NULL};

			want_all(options, options, row, row == 5);
		}
}

static void want__between_hosts(void **state)
{
	static const char *const a[] = {"host=a", "interface=lo", "link=udp", "close_timeout=1ms", "job_key=5",
					"peer_timeout=200ms", NULL};
	static const char *const b[] = {"host=b", "interface=lo", "link=udp", "close_timeout=1ms", "job_key=5",
					"peer_timeout=200ms", NULL};

	(void)state;
	want_all(a, b, 1, false);
	want_all(a, b, 5, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(want__within_a_host),
		cmocka_unit_test(want__between_hosts),
	};

	return cmocka_run_group_tests_name("want", tests, NULL, NULL);
}
