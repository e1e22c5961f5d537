/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/walk.h"

/* A line at its best: others had the core during some of them. The samples are sorted then. */
static uint32_t walk_quartile(struct walk *walk)
{
	for (uint32_t i = 1; i < WALK_SAMPLES; i++) {
		uint32_t sample = walk->samples[i], at = i;

		for (; at > 0 && walk->samples[at - 1] > sample; at--)
			walk->samples[at] = walk->samples[at - 1];
		walk->samples[at] = sample;
	}
	walk->count = 0;
	return walk->samples[WALK_SAMPLES / 4];
}

bool walk_note(struct walk *walk, uint64_t line_ps)
{
	uint32_t took_ps;

	walk->samples[walk->count++] = line_ps < UINT32_MAX ? (uint32_t)line_ps : UINT32_MAX;
	if (walk->count < WALK_SAMPLES)
		return false;
	took_ps = walk_quartile(walk);
	if (walk->state == WALK_LOOKS) {
		walk->stays_ps = took_ps;
		if (took_ps >= WALK_SLOW_PS)
			return true;
		walk_rest(walk);
	} else if (took_ps <= walk->stays_ps / 4 * 3) {
		walk->state = WALK_GOES;
	} else {
		walk_rest(walk);
	}
	return false;
}

void walk_try(struct walk *walk, uint32_t messages)
{
	walk->state = WALK_TRIES;
	walk->messages = messages;
	walk->count = 0;
}

void walk_rest(struct walk *walk)
{
	walk->state = WALK_LOOKS;
	walk->count = 0;
	walk->rest = walk->rest == 0 ? WALK_REST_MIN : walk->rest < WALK_REST_MAX ? 2 * walk->rest : WALK_REST_MAX;
	walk->messages = walk->rest;
}
