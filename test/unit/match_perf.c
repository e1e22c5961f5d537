/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What matching costs: nanoseconds per message, with queues of 1 and of 10,000 entries.
 *
 * A program to look at, not a test. Each step takes the entry that a random exact tag finds out
 * of a queue and puts it back at the end, so the queue keeps its length; entries are as large as
 * requests are, so long queues miss the cache as they would in use.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "match/match.h"

enum { QUEUE_MAX = 10000, STEPS = 1000000, ROUNDS = 5, ENTRY_SIZE = 256 };

union entry {
	struct match_receive receive;
	struct match_message message;
	char request[ENTRY_SIZE];
};

static union entry *entries;
static uint32_t order[STEPS]; /* random numbers, drawn beforehand */

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void entry_post(struct match *match, uint32_t number)
{
	struct match_receive *receive = &entries[number].receive;

	receive->source = number % 7;
	receive->tag = number * UINT64_C(8);
	receive->mask = ~UINT64_C(3);
	match_post(match, receive);
}

static void entry_store(struct match *match, uint32_t number)
{
	struct match_message *message = &entries[number].message;

	message->source = number % 7;
	message->tag = number * UINT64_C(8);
	match_store(match, message);
}

/* The number of an entry that was found, so that the search cannot be left out. */
static void found_check(const void *found, uint32_t number)
{
	if (found != &entries[number]) {
		fprintf(stderr, "match_perf: wrong entry for number %" PRIu32 "\n", number);
		exit(1);
	}
}

static double receives_time(struct match *match, uint32_t length)
{
	double start = now_ns();

	for (uint32_t i = 0; i < STEPS; i++) {
		uint32_t number = order[i] % length;

		found_check(match_arrive(match, number % 7, number * UINT64_C(8)), number);
		entry_post(match, number);
	}
	return (now_ns() - start) / STEPS;
}

static double messages_time(struct match *match, uint32_t length)
{
	double start = now_ns();

	for (uint32_t i = 0; i < STEPS; i++) {
		uint32_t number = order[i] % length;
		struct match_message *message =
			match_find(match, number % 7, number * UINT64_C(8), ~UINT64_C(3));

		found_check(message, number);
		match_take(match, message);
		entry_store(match, number);
	}
	return (now_ns() - start) / STEPS;
}

/* What the loops and the memory cost without matching: touch the entries in the same order. */
static double nothing_time(uint32_t length)
{
	double start = now_ns();

	for (uint32_t i = 0; i < STEPS; i++) {
		uint32_t number = order[i] % length;
		volatile union entry *entry = &entries[number];

		entry->receive.order = entry->receive.tag;
	}
	return (now_ns() - start) / STEPS;
}

static double best(double one, double other)
{
	return one < other ? one : other;
}

static void length_measure(uint32_t length)
{
	double receives = 1e9, messages = 1e9, nothing = 1e9;
	static struct match match;

	for (unsigned round = 0; round < ROUNDS; round++) {
		match_init(&match);
		for (uint32_t i = 0; i < length; i++)
			entry_post(&match, i);
		receives = best(receives, receives_time(&match, length));
		match_fini(&match);
		match_init(&match);
		for (uint32_t i = 0; i < length; i++)
			entry_store(&match, i);
		messages = best(messages, messages_time(&match, length));
		match_fini(&match);
		nothing = best(nothing, nothing_time(length));
	}
	printf("%8" PRIu32 " %16.1f %21.1f %14.1f\n", length, receives, messages, nothing);
}

int main(void)
{
	static const uint32_t lengths[] = {1, 2, 8, 16, 100, 1000, QUEUE_MAX};
	uint64_t random = 1;

	entries = aligned_alloc(64, QUEUE_MAX * sizeof(*entries));
	if (!entries)
		return 1;
	for (uint32_t i = 0; i < STEPS; i++) {
		random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
		order[i] = (uint32_t)(random >> 33);
	}
	printf("ns per message, random exact tags, best of %d rounds\n", ROUNDS);
	printf("   queue    arrive + post   find + take + store    touch only\n");
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		length_measure(lengths[i]);
	free(entries);
	return 0;
}
