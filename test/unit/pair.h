/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pair.h - two endpoints in one process, for tests of what happens between two.
 *
 * Owns their set-up, their end, and bytes that say where they are from. One thread runs both, so each step of
 * either side happens when the test says so. No file and no variable of the environment matters: the
 * options are given.
 */
#ifndef UNIT_PAIR_H
#define UNIT_PAIR_H

#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "endpoint/endpoint.h"
#include "transport/shm/shm.h"
#include "unit.h"

enum {
	PAIR_OPTIONS = 8,       /* option strings of a test */
	PAIR_TURNS_MAX = 400000, /* progress calls after which something is taken to hang */
	PAIR_IDLE_MAX = 100000,  /* hundreds of them, likewise: they take half a second, where some ms are enough */
	PAIR_ROUNDS = 8,         /* maintenances of both in which each has seen what the other did in the one before */
};

struct pair {
	struct thole_endpoint *a, *b;
	uint32_t a_to_b, b_to_a; /* each one's handle of the other */
};

static inline struct thole_endpoint *pair_endpoint(thole_complete_fn *complete, void *arg,
						   const char *const *options)
{
	struct thole_endpoint_attr attr = {.options = options, .complete = complete, .complete_arg = arg};
	struct thole_endpoint *endpoint;

	assert_int_equal(thole_endpoint_open(&attr, &endpoint), 0);
	return endpoint;
}

static inline uint32_t pair_peer(struct thole_endpoint *of, const struct thole_endpoint *to)
{
	struct thole_address address;
	uint32_t peer;

	thole_endpoint_address(to, &address);
	assert_int_equal(thole_peer(of, &address, &peer), 0);
	return peer;
}

static inline void pair_open(struct pair *pair, const char *const *options)
{
	pair->a = pair_endpoint(NULL, NULL, options);
	pair->b = pair_endpoint(NULL, NULL, options);
	pair->a_to_b = pair_peer(pair->a, pair->b);
	pair->b_to_a = pair_peer(pair->b, pair->a);
}

static inline void pair_close(struct pair *pair)
{
	thole_endpoint_close(pair->a);
	thole_endpoint_close(pair->b);
}

static inline void pair_progress(struct pair *pair, int turns)
{
	for (int i = 0; i < turns; i++) {
		thole_progress(pair->a);
		thole_progress(pair->b);
	}
}

/* Whether both were maintained since then. */
static inline bool pair_maintained(const struct pair *pair, uint64_t since_ns)
{
	return endpoint_of(pair->a)->cadence.maintained_ns > since_ns &&
	       endpoint_of(pair->b)->cadence.maintained_ns > since_ns;
}

/* Run both in vain for so long that maintenance has come to them, and what no poll sees was seen and answered. Time
 * alone does not say so: it passes, too, while another process has the core. */
static inline void pair_idle(struct pair *pair)
{
	uint64_t start_ns = clock_now_ns(), round_ns = start_ns;
	int rounds = 0;

	for (int i = 0; rounds < PAIR_ROUNDS || clock_now_ns() - start_ns < 1000000; i++) {
		if (i == PAIR_IDLE_MAX)
			fail_msg("maintenance came to both only %d times in %llu ns", rounds,
				 (unsigned long long)(clock_now_ns() - start_ns));
		pair_progress(pair, 100);
		if (pair_maintained(pair, round_ns)) {
			round_ns = clock_now_ns();
			rounds++;
		}
	}
}

/* Run both until the request of one of them is complete; its status. */
static inline int pair_finish(struct pair *pair, struct thole_endpoint *endpoint, struct thole_request *request,
			      struct thole_completion *completion_p)
{
	struct thole_completion completion;

	for (int i = 0; i < PAIR_TURNS_MAX; i++) {
		if (thole_test(endpoint, request, &completion)) {
			if (completion_p)
				*completion_p = completion;
			return completion.status;
		}
		thole_progress(endpoint == pair->a ? pair->b : pair->a);
	}
	fail_msg("a request did not complete");
	return 0;
}

/* Run both until b's request is complete: the next turn is a's where `order` has a bit, b's where it has none. */
static inline int pair_take_turns(struct pair *pair, struct thole_request *request, uint32_t order)
{
	struct thole_completion completion;

	for (int turn = 0; turn < PAIR_TURNS_MAX; turn++) {
		if (order >> turn % 32 & 1)
			thole_progress(pair->a);
		else if (thole_test(pair->b, request, &completion))
			return completion.status;
	}
	fail_msg("a request did not complete");
	return 0;
}

static inline uint64_t pair_counter(struct thole_endpoint *endpoint, const char *name)
{
	static uint64_t values[COUNTER_COUNT];
	struct thole_counter_info info;

	thole_counters(endpoint, values, COUNTER_COUNT);
	for (unsigned i = 0; thole_counter_info(i, &info) == 0; i++)
		if (strcmp(info.name, name) == 0)
			return values[i];
	fail_msg("no counter %s", name);
	return 0;
}

/* Whether its descriptor says that there is something to progress. */
static inline bool pair_readable(struct thole_endpoint *endpoint)
{
	struct pollfd polled = {.fd = thole_fd(endpoint), .events = POLLIN};

	return poll(&polled, 1, 0) == 1;
}

/* The byte at an offset of message number `id`. */
static inline uint8_t pair_byte(uint64_t id, uint64_t offset)
{
	uint64_t x = (id + 1) * UINT64_C(0x9e3779b97f4a7c15) + (offset >> 3) * UINT64_C(0xbf58476d1ce4e5b9);

	return (uint8_t)((x ^ x >> 29) >> (offset & 7) * 8);
}

static inline void *pair_filled(uint64_t id, size_t length)
{
	uint8_t *bytes = malloc(length ? length : 1);

	assert_non_null(bytes);
	for (size_t i = 0; i < length; i++)
		bytes[i] = pair_byte(id, i);
	return bytes;
}

static inline void pair_check(uint64_t id, const void *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (((const uint8_t *)bytes)[i] != pair_byte(id, i))
			fail_msg("message %llu differs at byte %zu of %zu", (unsigned long long)id, i, length);
}

#endif /* UNIT_PAIR_H */
