/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * mover_read: the frames of a UDP packet, one after the other, each byte looked at once, wherever it lies. The kernel
 * hands over up to 64 KiB of frames as one (GRO), in pages and in packets that hang on packets.
 *
 * Invariant: nothing beyond a frame is read as its.
 */
#ifndef THOLE_KERNEL_MOVER_READ_H
#define THOLE_KERNEL_MOVER_READ_H

#include <linux/skbuff.h>

struct mover_reader {
	struct skb_seq_state state;
	const u8 *data; /* what is to be read next, */
	u32 have;       /* bytes of it that lie together */
	u32 consumed;
	u32 left;    /* bytes of the packet behind the frame */
	u32 frame;   /* bytes of the frame that were not read */
	u32 segment; /* of each frame but the last */
};

/* A packet as encap_rcv gets it, with its UDP header. */
void mover_read_begin(struct mover_reader *reader, struct sk_buff *skb);
void mover_read_end(struct mover_reader *reader);

/* Go to the next frame, and read its front, at most so many bytes. Returns its length; 0: there is none. */
u32 mover_read_frame(struct mover_reader *reader, u8 *front, u32 most);
/* More of it. False: there is not so much. */
bool mover_read(struct mover_reader *reader, u8 *to, u32 length);
bool mover_read_page(struct mover_reader *reader, struct page *page, u32 within, u32 length);

#endif
