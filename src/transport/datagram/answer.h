/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * answer: a PULL that waits to be answered: whether it is right, whether another one covers it, which frames are next.
 * Library (serve.c) and driver answer by this one file.
 *
 * Owns neither the window nor how frames are sent. Invariant: what is before `done` was sent. Pure.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_ANSWER_H
#define THOLE_TRANSPORT_DATAGRAM_ANSWER_H

#include "transport/datagram/wire/packet.h"

struct answer {
	uint64_t window, transfer;
	uint64_t offset;
	uint64_t wanted;                /* of the block at offset; 0: all frames of all blocks */
	uint32_t length, done;          /* bytes; done: from the front */
	uint32_t frame, skew;           /* as in blocks */
	uint32_t index;                 /* mxoe: of the first frame */
};

/* A frame that is to be sent. */
struct answer_frame {
	uint64_t offset;                /* in the window */
	uint32_t at;                    /* from the front of what was asked for */
	uint32_t length;
	uint32_t index;
};

/* Whether a PULL is of what a window has, in frames of lawful lengths. */
bool answer_is_right(const struct packet_pull *pull, uint64_t window_length, uint32_t frame_least,
		     uint32_t frame_most);
void answer_begin(struct answer *answer, const struct packet_pull *pull);
/* Whether this one covers a PULL: then its receiver asked again because it took long, and nothing was lost. */
bool answer_covers(const struct answer *answer, const struct packet_pull *pull);
/* Where the next block ends, of at most so many bytes. */
uint32_t answer_end(const struct answer *answer, uint32_t block_bytes);
/* The next wanted frame from *at_p on, which moves behind it; false: there is none before `end`. */
bool answer_next(const struct answer *answer, uint32_t *at_p, uint32_t end, struct answer_frame *frame_p);

#endif
