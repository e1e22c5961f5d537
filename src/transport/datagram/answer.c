/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * answer: see answer.h.
 */
#include "transport/datagram/answer.h"

#include "transport/datagram/block.h"

bool answer_is_right(const struct packet_pull *pull, uint64_t window_length, uint32_t frame_least,
		     uint32_t frame_most)
{
	uint32_t frames;

	if (pull->length == 0 || pull->offset > window_length || pull->length > window_length - pull->offset)
		return false;
	if (pull->frame < frame_least || pull->frame > frame_most)
		return false;
	frames = (pull->length - 1) / pull->frame + 1;
	return !pull->wanted || (frames <= PACKET_FRAMES_MAX && !(pull->wanted & ~block_mask(frames)));
}

void answer_begin(struct answer *answer, const struct packet_pull *pull)
{
	*answer = (struct answer){
		.window = pull->window,
		.transfer = pull->transfer,
		.offset = pull->offset,
		.wanted = pull->wanted,
		.length = pull->length,
		.frame = pull->frame,
		.skew = pull->frame_offset,
		.index = pull->frame_index,
	};
}

bool answer_covers(const struct answer *answer, const struct packet_pull *pull)
{
	uint64_t start = answer->offset + answer->done, end = answer->offset + answer->length;

	if (answer->transfer != pull->transfer || pull->offset < start || pull->offset + pull->length > end)
		return false;
	return !answer->wanted ||
	       (answer->offset == pull->offset && (pull->wanted & ~answer->wanted) == 0 && pull->wanted);
}

uint32_t answer_end(const struct answer *answer, uint32_t block_bytes)
{
	uint32_t most = answer->done == 0 ? block_bytes - answer->skew : block_bytes;

	return answer->length - answer->done > most ? answer->done + most : answer->length;
}

bool answer_next(const struct answer *answer, uint32_t *at_p, uint32_t end, struct answer_frame *frame_p)
{
	uint32_t at = *at_p, step, index;

	for (; at < end; at += step) {
		uint32_t left = answer->length - at;

		step = at == 0 ? answer->frame - answer->skew : answer->frame;
		step = left < step ? left : step; /* no further than the end, behind which 32 bits may begin anew */
		index = (at + answer->skew) / answer->frame;
		if (answer->wanted && !(answer->wanted >> index & 1))
			continue;
		*frame_p = (struct answer_frame){
			.offset = answer->offset + at,
			.at = at,
			.length = step,
			.index = answer->index + index,
		};
		*at_p = at + step;
		return true;
	}
	*at_p = at;
	return false;
}
