// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
#include "mover_read.h"

#include <linux/highmem.h>
#include <linux/udp.h>

void mover_read_begin(struct mover_reader *reader, struct sk_buff *skb)
{
	u32 bytes = skb->len - sizeof(struct udphdr);

	skb_prepare_seq_read(skb, sizeof(struct udphdr), skb->len, &reader->state);
	reader->data = NULL;
	reader->have = reader->consumed = reader->frame = 0;
	reader->left = bytes;
	reader->segment = skb_is_gso(skb) ? skb_shinfo(skb)->gso_size : bytes;
}

void mover_read_end(struct mover_reader *reader)
{
	skb_abort_seq_read(&reader->state);
}

/* Some of the next bytes: as many as lie together, of so many. 0: there are none. */
static u32 read_some(struct mover_reader *reader, u32 most, const u8 **at_p)
{
	u32 some;

	if (!reader->have)
		reader->have = skb_seq_read(reader->consumed, &reader->data, &reader->state);
	some = min(most, reader->have);
	*at_p = reader->data;
	reader->data += some;
	reader->have -= some;
	reader->consumed += some;
	return some;
}

static bool read_over(struct mover_reader *reader, u32 length)
{
	const u8 *at;
	u32 some;

	for (; length; length -= some) {
		some = read_some(reader, length, &at);
		if (!some)
			return false;
	}
	return true;
}

u32 mover_read_frame(struct mover_reader *reader, u8 *front, u32 most)
{
	u32 length = min(reader->segment, reader->left);

	if (!length || !read_over(reader, reader->frame))
		return 0;
	reader->left -= length;
	reader->frame = length;
	return mover_read(reader, front, min(most, length)) ? length : 0;
}

bool mover_read(struct mover_reader *reader, u8 *to, u32 length)
{
	const u8 *at;
	u32 some;

	if (length > reader->frame)
		return false;
	reader->frame -= length;
	for (; length; length -= some, to += some) {
		some = read_some(reader, length, &at);
		if (!some)
			return false;
		memcpy(to, at, some);
	}
	return true;
}

bool mover_read_page(struct mover_reader *reader, struct page *page, u32 within, u32 length)
{
	const u8 *at;
	u32 some;

	if (length > reader->frame)
		return false;
	reader->frame -= length;
	for (; length; length -= some, within += some) {
		some = read_some(reader, length, &at);
		if (!some)
			return false;
		memcpy_to_page(page, within, at, some);
	}
	return true;
}
