/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * mover_read: the frames of a packet, one after the other, wherever their bytes lie. The kernel hands over up to
 * 64 KiB of frames as one (GRO), in pages and in packets that hang on packets.
 *
 * A reader is a place in a packet, and owns nothing: a copy of it is the same place once more. Invariant: nothing
 * beyond a frame is read as its.
 */
#ifndef THOLE_KERNEL_MOVER_READ_H
#define THOLE_KERNEL_MOVER_READ_H

#include <linux/skbuff.h>

struct mover_reader {
	struct sk_buff *next;               /* that hangs on the packet, behind what is read; NULL: none */
	const skb_frag_t *page, *pages_end; /* of the same packet's, those not reached */
	const u8 *data; /* what is to be read next: */
	u32 have;       /* so many bytes that lie together */
	u32 left;       /* bytes of the packet behind the frame */
	u32 frame;      /* bytes of the frame that were not read */
	u32 segment;    /* of each frame but the last */
};

/* A packet as it was got, behind so many bytes, which lie together. */
void mover_read_begin(struct mover_reader *reader, struct sk_buff *skb, u32 before);

/* Go to the next frame. Returns its length; 0: there is none. */
u32 mover_read_next(struct mover_reader *reader);
/* Look at its front, at most so many bytes, which are not read by that. False: they cannot be read. */
bool mover_read_front(const struct mover_reader *reader, u8 *front, u32 most);
/* Read it. False: there is not so much. */
bool mover_read_over(struct mover_reader *reader, u32 length);
bool mover_read_page(struct mover_reader *reader, struct page *page, u32 within, u32 length);

#endif
