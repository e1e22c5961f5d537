/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/passage.h"

/* Others had the core during some stretches. */
static uint32_t passage_second(const struct passage *passage)
{
	uint32_t least = UINT32_MAX, second = UINT32_MAX;

	for (uint32_t i = 0; i < PASSAGE_SAMPLES; i++) {
		uint32_t sample = passage->samples[i];

		if (sample < least) {
			second = least;
			least = sample;
		} else if (sample < second) {
			second = sample;
		}
	}
	return second;
}

/* The next payloads go by this way, so many of them without a note. */
static void passage_take(struct passage *passage, enum passage_way way, uint32_t payloads)
{
	passage->way = way;
	passage->timing = false;
	passage->tries = passage->count = 0;
	passage->left = payloads;
}

static bool passage_is_better(const struct passage *passage, enum passage_way way, enum passage_way than)
{
	uint32_t line_ps = passage->line_ps[than];

	return passage->line_ps[way] > 0 && passage->line_ps[way] < line_ps - line_ps / PASSAGE_BETTER;
}

static void passage_round(struct passage *passage)
{
	for (uint32_t way = 0; way < PASSAGE_WAYS; way++)
		passage->line_ps[way] = 0;
	passage->looks = true;
	passage_take(passage, PASSAGE_STAYS, PASSAGE_SETTLE);
}

static void passage_end(struct passage *passage)
{
	enum passage_way best = PASSAGE_STAYS;

	for (uint32_t way = PASSAGE_PAST; way < PASSAGE_WAYS; way++)
		if (passage_is_better(passage, way, best))
			best = way;
	if (best != passage->best || passage->rest < PASSAGE_REST_MIN)
		passage->rest = PASSAGE_REST_MIN;
	else if (passage->rest < PASSAGE_REST_MAX)
		passage->rest *= 2;
	passage->best = best;
	passage->looks = false;
	passage_take(passage, best, passage->rest);
}

/* Whether a way that such messages may take is worth a try, by what is known of the others. */
static bool passage_tries(const struct passage *passage, enum passage_way way)
{
	if (way == PASSAGE_PAST)
		return passage->line_ps[PASSAGE_STAYS] >= PASSAGE_PAST_PS;
	return way == PASSAGE_WALKS || passage_is_better(passage, PASSAGE_WALKS, PASSAGE_STAYS);
}

/* Another way, if one is left. */
static void passage_next(struct passage *passage, uint32_t ways)
{
	for (uint32_t way = passage->way + 1; way < PASSAGE_WAYS; way++)
		if ((ways & 1u << way) && passage_tries(passage, way)) {
			passage_take(passage, way, PASSAGE_SETTLE);
			return;
		}
	passage_end(passage);
}

/* Walking becomes better suddenly, after some laps, if it does: no processor says why. Not where it is far from it. */
static bool passage_waits(struct passage *passage)
{
	return passage->way == PASSAGE_WALKS && !passage_is_better(passage, PASSAGE_WALKS, PASSAGE_STAYS) &&
	       passage->line_ps[PASSAGE_WALKS] / 5 * 2 <= passage->line_ps[PASSAGE_STAYS] &&
	       ++passage->tries < PASSAGE_WALKS_TRIES;
}

/* All samples of a try are there. */
static void passage_tried(struct passage *passage, uint32_t ways)
{
	passage->line_ps[passage->way] = passage_second(passage);
	passage->count = 0;
	if (!passage_waits(passage))
		passage_next(passage, ways);
}

void passage_settle(struct passage *passage, uint32_t payloads)
{
	if (passage->looks && passage->left < payloads)
		passage->left = payloads;
}

void passage_refuse(struct passage *passage)
{
	passage_end(passage);
}

static void passage_sample(struct passage *passage, uint64_t now_ns)
{
	uint64_t line_ps = (now_ns - passage->start_ns) * 64000 / passage->bytes;

	passage->samples[passage->count++] = line_ps == 0 ? 1 : line_ps < UINT32_MAX ? (uint32_t)line_ps : UINT32_MAX;
}

bool passage_note(struct passage *passage, uint64_t now_ns, uint32_t bytes, uint32_t ways)
{
	enum passage_way way = passage->way;

	if (!passage->looks) {
		if (passage->rest == 0)
			passage_take(passage, way, passage->rest = PASSAGE_FIRST);
		else
			passage_round(passage);
		return passage->way != way;
	}
	if (passage->timing)
		passage_sample(passage, now_ns);
	passage->timing = true;
	passage->start_ns = now_ns;
	passage->bytes = bytes;
	passage->left = PASSAGE_STRETCH;
	if (passage->count == PASSAGE_SAMPLES)
		passage_tried(passage, ways);
	return passage->way != way;
}
