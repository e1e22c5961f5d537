/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/bypass.h"

/* Others had the core during some stretches. */
static uint32_t bypass_second(const struct bypass *bypass)
{
	uint32_t least = UINT32_MAX, second = UINT32_MAX;

	for (uint32_t i = 0; i < BYPASS_SAMPLES; i++) {
		uint32_t sample = bypass->samples[i];

		if (sample < least) {
			second = least;
			least = sample;
		} else if (sample < second) {
			second = sample;
		}
	}
	return second;
}

/* No stretch is timed for so many messages. */
static void bypass_pause(struct bypass *bypass, enum bypass_state state, uint32_t messages)
{
	bypass->state = state;
	bypass->timing = false;
	bypass->left = messages;
}

static void bypass_rest(struct bypass *bypass)
{
	if (bypass->rest == 0)
		bypass->rest = BYPASS_REST_MIN;
	else if (bypass->rest < BYPASS_REST_MAX)
		bypass->rest *= 2;
	bypass_pause(bypass, BYPASS_LOOKS, bypass->rest);
}

/* All samples of a way are there. */
static void bypass_decide(struct bypass *bypass)
{
	uint32_t line_ps = bypass_second(bypass);

	bypass->count = 0;
	if (bypass->state == BYPASS_TRIES) {
		if (line_ps > bypass->cached_ps / 8 * 7) {
			bypass_rest(bypass);
			return;
		}
		bypass->rest = 0;
		bypass_pause(bypass, BYPASS_GOES, BYPASS_LOOK_AFTER);
		return;
	}
	bypass->cached_ps = line_ps;
	if (line_ps < BYPASS_SLOW_PS)
		bypass_rest(bypass);
	else
		bypass_pause(bypass, BYPASS_TRIES, BYPASS_STRETCH); /* until lines are where they will be */
}

void bypass_note(struct bypass *bypass, uint64_t now_ns, uint32_t turn, uint32_t bytes)
{
	bool whole = bypass->timing && turn - bypass->turn == BYPASS_STRETCH;
	uint64_t line_ps = whole ? (now_ns - bypass->start_ns) * 64000 / bypass->bytes : 0;

	if (bypass->state == BYPASS_GOES)
		bypass->state = BYPASS_LOOKS;
	bypass->timing = true;
	bypass->start_ns = now_ns;
	bypass->turn = turn;
	bypass->bytes = bytes;
	bypass->left = BYPASS_STRETCH;
	if (!whole)
		return;
	bypass->samples[bypass->count++] = line_ps < UINT32_MAX ? (uint32_t)line_ps : UINT32_MAX;
	if (bypass->count == BYPASS_SAMPLES)
		bypass_decide(bypass);
}
