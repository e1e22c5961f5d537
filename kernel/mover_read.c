// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
#include "mover_read.h"

#include <linux/highmem.h>

#include "compat.h"
#include "protocol.h"

enum {
	READ_HEAD = PACKET_FRONT + PACKET_COUNTER + PACKET_TAG_SHORT /* bytes of DATA's with a tag */
};

void mover_read_begin(struct mover_reader *reader, struct sk_buff *skb, u32 before)
{
	u32 bytes = compat_readable(skb) ? skb->len - before : 0;

	BUILD_BUG_ON(IS_ENABLED(CONFIG_HIGHMEM)); /* pages have addresses */
	*reader = (struct mover_reader){
		.next = skb_shinfo(skb)->frag_list,
		.page = skb_shinfo(skb)->frags,
		.pages_end = skb_shinfo(skb)->frags + skb_shinfo(skb)->nr_frags,
		.data = skb->data + before,
		.have = skb_headlen(skb) - before,
		.left = bytes,
		.segment = skb_is_gso(skb) ? skb_shinfo(skb)->gso_size : bytes,
	};
}

/* A packet that hangs on the first. */
static bool read_hung(struct mover_reader *reader)
{
	struct sk_buff *skb = reader->next;

	if (!skb || !compat_readable(skb) || skb_has_frag_list(skb))
		return false;
	reader->next = skb->next;
	reader->page = skb_shinfo(skb)->frags;
	reader->pages_end = reader->page + skb_shinfo(skb)->nr_frags;
	reader->data = skb->data;
	reader->have = skb_headlen(skb);
	return true;
}

/* The next bytes that lie together. False: there are none, or none that can be read. */
static inline bool read_more(struct mover_reader *reader)
{
	while (!reader->have) {
		if (reader->page < reader->pages_end) {
			reader->data = skb_frag_address(reader->page);
			reader->have = skb_frag_size(reader->page);
			reader->page++;
		} else if (!read_hung(reader)) {
			return false;
		}
	}
	return true;
}

static inline bool read_skip(struct mover_reader *reader, u32 length)
{
	while (length > reader->have) {
		length -= reader->have;
		reader->have = 0;
		if (!read_more(reader))
			return false;
	}
	reader->data += length;
	reader->have -= length;
	return true;
}

static bool read_bytes(struct mover_reader *reader, u8 *to, u32 length)
{
	u32 some;

	for (; length; length -= some, to += some) {
		if (!read_more(reader))
			return false;
		some = min(length, reader->have);
		compat_copy(to, reader->data, some);
		reader->data += some;
		reader->have -= some;
	}
	return true;
}

u32 mover_read_next(struct mover_reader *reader)
{
	u32 length = min(reader->segment, reader->left);

	if (!length || !read_skip(reader, reader->frame) || !read_more(reader))
		return 0;
	reader->left -= length;
	reader->frame = length;
	return length;
}

bool mover_read_front(const struct mover_reader *reader, u8 *front, u32 most)
{
	u32 some = min(most, reader->frame);
	struct mover_reader ahead;

	if (reader->have >= some) {
		if (some == READ_HEAD) /* of most, so that it is done without a call */
			memcpy(front, reader->data, READ_HEAD);
		else if (some == PACKET_FRONT)
			memcpy(front, reader->data, PACKET_FRONT);
		else
			memcpy(front, reader->data, some);
		return true;
	}
	ahead = *reader;
	return read_bytes(&ahead, front, some);
}

bool mover_read_over(struct mover_reader *reader, u32 length)
{
	if (length > reader->frame)
		return false;
	reader->frame -= length;
	return read_skip(reader, length);
}

bool mover_read_page(struct mover_reader *reader, struct page *page, u32 within, u32 length)
{
	bool read;

	if (length > reader->frame)
		return false;
	reader->frame -= length;
	read = read_bytes(reader, (u8 *)page_address(page) + within, length);
	flush_dcache_page(page);
	return read;
}
