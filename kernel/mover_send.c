// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
#include "mover.h"

#include <linux/etherdevice.h>
#include <linux/ip.h>
#include <linux/net.h>
#include <linux/security.h>
#include <linux/udp.h>
#include <net/sock.h>
#include <net/udp.h>

#include "compat.h"

enum {
	SEND_ROOM = LL_MAX_HEADER + sizeof(struct iphdr) + sizeof(struct udphdr),
	SEND_TAGS = 8 /* tags that are made at once */
};

/* Whom a packet is to, while it is in mover.out. By its protocol it is one to an interface, else one of UDP. */
struct send_to {
	__be32 address;
	__be16 port;
	u8 mac[ETH_ALEN];
};

static struct send_to *send_to(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct send_to) > sizeof(skb->cb));
	return (struct send_to *)skb->cb;
}

/* ---- Packets that are made: under mover.lock ------------------------------------------------------ */

/* The socket that packets of a channel leave by: the first that is not connected, as lanes are; all have one port. Or
 * the one that counts them. */
static struct sock *send_socket(struct mover *mover, enum channel channel)
{
	struct mover_socket *socket;
	struct sock *found = NULL;

	if (mover->counter)
		return mover->counter->sk;
	list_for_each_entry(socket, &mover->sockets, node) {
		if (socket->channel != channel || sock_flag(socket->sk, SOCK_DEAD))
			continue;
		if (!inet_sk(socket->sk)->inet_dport)
			return socket->sk;
		found = socket->sk;
	}
	return found;
}

bool mover_send_room(struct mover *mover, enum channel channel)
{
	struct sock *sk = send_socket(mover, channel);

	return !sk || sk_wmem_alloc_get(sk) < READ_ONCE(sk->sk_sndbuf);
}

static struct sk_buff *send_begin(const struct mover_connection *connection, enum channel channel, u32 room)
{
	struct sk_buff *skb = alloc_skb(SEND_ROOM + room, GFP_ATOMIC | __GFP_NOWARN);

	if (!skb)
		return NULL;
	skb_reserve(skb, SEND_ROOM);
	*send_to(skb) = (struct send_to){connection->address, connection->port[channel]};
	if (connection->mover->counter) {
		skb->protocol = htons(THOLE_DRIVER_ETHERTYPE_MXOE);
		ether_addr_copy(send_to(skb)->mac, connection->mac);
	}
	return skb;
}

static void send_end(struct mover *mover, struct sk_buff *skb, struct sock *sk)
{
	skb_set_owner_w(skb, sk);
	__skb_queue_tail(&mover->out, skb);
}

/* Counters and tags for frames whose heads are encoded, each of so many bytes, one directly behind the other. */
static void send_stamp(struct mover_connection *connection, u8 *heads, u32 head, u32 frame, u32 last, u32 count)
{
	struct frame_out frames[SEND_TAGS] = {};
	u32 i, some;

	if (!connection->tagged)
		return;
	for (; count; count -= some, heads += some * head) {
		some = min_t(u32, count, SEND_TAGS);
		for (i = 0; i < some; i++) {
			frames[i].head = heads + i * head;
			frames[i].head_length = head;
			frames[i].body_length = i + 1 == count ? last : frame;
			frames[i].behind = some - 1 - i;
		}
		guard_stamp(&connection->guard, &codec_native, frames, some);
	}
}

void mover_send_packet(struct mover_connection *connection, struct packet *packet, enum channel channel)
{
	struct sock *sk = send_socket(connection->mover, channel);
	struct sk_buff *skb = sk ? send_begin(connection, channel, PACKET_HEAD_MAX) : NULL;
	u32 length;
	u8 *head;

	if (!skb) {
		mover_count(connection->mover, &connection->mover->holder->shared->full, 1);
		return;
	}
	connection->mover->kind->name(connection, packet);
	head = skb->data;
	length = connection->mover->kind->codec->encode(packet, head);
	skb_put(skb, length);
	send_stamp(connection, head, length, 0, 0, 1);
	send_end(connection->mover, skb, sk);
}

/* ---- DATA -------------------------------------------------------------------------------------- */

/* A packet of many frames: one packet of the kernel's, with others behind it where its places for pages are full. */
struct send_packet {
	struct sk_buff *first, *last; /* last: which gets the next page, */
	u32 pages, more;              /* and has so many of them, with so many bytes; it does not know of them yet */
	struct page *heads;
	u32 head, frame, frames; /* bytes of a head, of a frame's payload; frames so far */
	u32 bytes;               /* of the last frame's payload */
	struct page *page; /* of the region: */
	u32 within, left;  /* where the next frame begins, if it lies behind the last; bytes of the page from there */
	u64 next;          /* its offset in the window */
};

/* What was added to the last is part of it, and of the whole. Its pages are the program's, or of a file: whoever gets
 * the packet must not write there, and who wants it to stay as it is has to copy it. */
static void send_count(struct send_packet *send)
{
	skb_shinfo(send->last)->flags |= SKBFL_SHARED_FRAG;
	skb_shinfo(send->last)->nr_frags = send->pages;
	skb_len_add(send->first, send->more);
	if (send->last != send->first)
		skb_len_add(send->last, send->more);
	send->more = send->pages = 0;
}

static bool send_hang(struct send_packet *send)
{
	struct sk_buff *more = alloc_skb(0, GFP_ATOMIC | __GFP_NOWARN);

	if (!more)
		return false;
	send_count(send);
	if (send->last == send->first)
		skb_shinfo(send->first)->frag_list = more;
	else
		send->last->next = more;
	send->first->truesize += more->truesize;
	send->last = more;
	return true;
}

/* Pages of programs are none of the kernel's reserve, which a packet would have to say. */
static inline void send_put(struct send_packet *send, struct page *page, u32 within, u32 length)
{
	get_page(page);
	__skb_fill_page_desc_noacc(skb_shinfo(send->last), send->pages++, page, within, length);
	send->more += length;
}

static noinline bool send_put_behind(struct send_packet *send, struct page *page, u32 within, u32 length)
{
	if (!send_hang(send))
		return false;
	send_put(send, page, within, length);
	return true;
}

static inline bool send_add(struct send_packet *send, struct page *page, u32 within, u32 length)
{
	if (send->pages == MAX_SKB_FRAGS) /* by itself, so that nothing is saved for that where there is room */
		return send_put_behind(send, page, within, length);
	send_put(send, page, within, length);
	return true;
}

/* A page of our own, which goes with the packet, is counted whole, as what the packet takes of its socket's buffer. */
static void send_count_whole(struct send_packet *send, u32 used)
{
	send->first->truesize += PAGE_SIZE - used;
	if (send->last != send->first)
		send->last->truesize += PAGE_SIZE - used;
}

/* Payload from an offset in a window on. */
static bool send_add_payload(struct send_packet *send, const struct pages *pages, u64 start, u64 offset, u32 length)
{
	struct region_piece piece;
	u32 some;

	if (offset != send->next)
		send->left = 0;
	for (send->next = offset + length; length; length -= some, offset += some) {
		if (!send->left) {
			send->page = pages_at(pages, start + offset, PAGE_SIZE, &piece);
			send->within = piece.within;
			send->left = piece.length;
		}
		some = min(length, send->left);
		if (!send_add(send, send->page, send->within, some))
			return false;
		send->within += some;
		send->left -= some;
	}
	return true;
}

/* Whether it lies in more pieces than a frame may have besides its head: the kernel drops a packet that it has to cut
 * into frames of more. */
static bool send_is_scattered(const struct pages *pages, u64 offset, u32 length)
{
	struct region_piece first, last;

	if (pages->region.count == 1)
		return false;
	region_piece_at(&pages->region, offset, 1, &first);
	region_piece_at(&pages->region, offset + length - 1, 1, &last);
	return last.page - first.page >= MAX_SKB_FRAGS - 1;
}

/* The same as one piece a page of our own. */
static noinline bool send_copy_payload(struct send_packet *send, const struct pages *pages, u64 offset, u32 length)
{
	struct region_piece piece;
	struct page *page, *from;
	u32 end, within;
	bool made = true;

	for (; made && length; length -= end) {
		page = alloc_page(GFP_ATOMIC | __GFP_NOWARN);
		if (!page)
			return false;
		end = min_t(u32, length, PAGE_SIZE);
		for (within = 0; within < end; within += piece.length, offset += piece.length) {
			from = pages_at(pages, offset, end - within, &piece);
			memcpy((u8 *)page_address(page) + within, (u8 *)page_address(from) + piece.within,
			       piece.length);
		}
		send->first->pfmemalloc |= page_is_pfmemalloc(page);
		made = send_add(send, page, 0, end);
		send_count_whole(send, end);
		put_page(page); /* the packet has its own reference */
	}
	return made;
}

/* The head of a frame. Not inlined: the kernel clears what a function may have on its stack, and most frames need none
 * of this. */
static noinline_for_stack void send_encode(const struct mover_connection *connection, const struct answer *answer,
					   const struct answer_frame *frame, u8 *head)
{
	const struct packet packet = {
		.type = PACKET_DATA,
		.flags = connection->tagged ? PACKET_TAGGED : 0,
		.to = connection->peer_index,
		.session = connection->peer_session,
		.data = {.transfer = answer->transfer, .offset = frame->offset},
		.length = frame->length,
	};

	codec_native.encode(&packet, head);
}

static bool send_add_frame(struct send_packet *send, struct mover_connection *connection, const struct answer *answer,
			   const struct answer_frame *frame, const struct pages *pages, u64 start)
{
	u32 within = send->frames * send->head;
	u8 *head = (u8 *)page_address(send->heads) + within;

	if (WARN_ON_ONCE(within + send->head > PAGE_SIZE)) /* a turn (send_until) has fewer */
		return false;
	if (send->frames && frame->length == send->bytes)
		codec_native.encode_next(head, head - send->head, send->head, frame->offset);
	else
		send_encode(connection, answer, frame, head);
	if (!send_add(send, send->heads, within, send->head))
		return false;
	if (send_is_scattered(pages, start + frame->offset, frame->length) ?
		    !send_copy_payload(send, pages, start + frame->offset, frame->length) :
		    !send_add_payload(send, pages, start, frame->offset, frame->length))
		return false;
	send->frames++;
	send->bytes = frame->length;
	return true;
}

static void send_segments(struct sk_buff *skb, const struct send_packet *send)
{
	skb_shinfo(skb)->gso_size = send->head + send->frame;
	skb_shinfo(skb)->gso_segs = send->frames;
	skb_shinfo(skb)->gso_type = SKB_GSO_UDP_L4;
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_headroom(skb) - sizeof(struct udphdr);
	skb->csum_offset = offsetof(struct udphdr, check);
}

/* How far an answer gets by one turn: all that it reads is known to be there (mover_serve_packet). */
static u32 send_until(const struct mover_connection *connection, const struct answer *answer)
{
	u32 block = block_bytes(&connection->mover->blocks.rules, answer->frame, connection->head);

	return answer_end(answer, min_t(u32, block, BATCH_MAX / answer->frame * answer->frame));
}

int mover_send_data(struct mover_connection *connection, struct answer *answer, struct pages *pages, u64 offset)
{
	struct mover *mover = connection->mover;
	struct sock *sk = send_socket(mover, CHANNEL_BULK);
	struct send_packet send = {.head = connection->head, .frame = answer->frame, .next = U64_MAX};
	u32 end = send_until(connection, answer), at = answer->done;
	struct answer_frame frame;
	u64 bytes = 0;
	bool made;

	if (!sk)
		return -ENOTCONN;
	send.first = send.last = send_begin(connection, CHANNEL_BULK, 0);
	send.heads = alloc_page(GFP_ATOMIC | __GFP_NOWARN);
	made = send.first && send.heads;
	if (made)
		send.first->pfmemalloc |= page_is_pfmemalloc(send.heads);
	while (made && answer_next(answer, &at, end, &frame)) {
		made = send_add_frame(&send, connection, answer, &frame, pages, offset);
		bytes += frame.length;
	}
	if (send.first)
		send_count(&send);
	if (made && send.frames) {
		send_count_whole(&send, send.frames * send.head);
		send_stamp(connection, page_address(send.heads), send.head, send.frame, send.bytes, send.frames);
		if (send.frames > 1)
			send_segments(send.first, &send);
		send_end(mover, send.first, sk);
		mover_count(mover, &mover->holder->shared->sent, send.frames);
		mover_count(mover, &mover->holder->shared->sent_bytes, bytes);
	} else {
		kfree_skb(send.first);
	}
	if (send.heads)
		put_page(send.heads); /* the packet has references of its own */
	if (!made)
		return -ENOBUFS;
	answer->done = end;
	return 0;
}

/* A frame that is a packet. */
static struct sk_buff *send_frame(struct mover_connection *connection, const struct answer *answer,
				  const struct answer_frame *frame, const struct pages *pages, u64 start)
{
	struct send_packet send = {.next = U64_MAX};
	struct packet packet = {
		.type = PACKET_DATA,
		.data = {.transfer = answer->transfer, .offset = frame->offset, .frame = frame->index},
		.length = frame->length,
	};
	bool made;

	send.first = send.last = send_begin(connection, CHANNEL_BULK, PACKET_HEAD_MAX);
	if (!send.first)
		return NULL;
	connection->mover->kind->name(connection, &packet);
	skb_put(send.first, connection->mover->kind->codec->encode(&packet, send.first->data));
	made = send_add_payload(&send, pages, start, frame->offset, frame->length);
	send_count(&send);
	if (made)
		return send.first;
	kfree_skb(send.first);
	return NULL;
}

int mover_send_frames(struct mover_connection *connection, struct answer *answer, struct pages *pages, u64 offset)
{
	struct mover *mover = connection->mover;
	struct sock *sk = send_socket(mover, CHANNEL_BULK);
	u32 end = send_until(connection, answer), at = answer->done;
	struct answer_frame frame;
	struct sk_buff *skb;

	if (!sk)
		return -ENOTCONN;
	while (answer_next(answer, &at, end, &frame)) {
		skb = send_frame(connection, answer, &frame, pages, offset);
		if (!skb)
			return -ENOBUFS;
		send_end(mover, skb, sk);
		mover_count(mover, &mover->holder->shared->sent, 1);
		mover_count(mover, &mover->holder->shared->sent_bytes, frame.length);
	}
	answer->done = end;
	return 0;
}

/* ---- Packets that leave: without a lock --------------------------------------------------------- */

static struct rtable *send_route(struct sock *sk, const struct send_to *to, struct flowi4 *flow)
{
	const struct inet_sock *inet = inet_sk(sk);
	struct rtable *route;

	flowi4_init_output(flow, sk->sk_bound_dev_if, READ_ONCE(sk->sk_mark), RT_TOS(inet->tos), RT_SCOPE_UNIVERSE,
			   IPPROTO_UDP, 0, to->address, inet->inet_saddr, to->port, inet->inet_sport, sk->sk_uid);
	security_sk_classify_flow(sk, flowi4_to_flowi_common(flow));
	route = ip_route_output_flow(sock_net(sk), flow, sk);
	if (!IS_ERR(route) && route->rt_flags & (RTCF_BROADCAST | RTCF_MULTICAST)) {
		ip_rt_put(route);
		return ERR_PTR(-EACCES);
	}
	return route;
}

/* What does not fit the path any more goes as fragments, as from user space: it was cut for a wider one. */
static __be16 send_whole(const struct sk_buff *skb, const struct rtable *route)
{
	u32 frame = skb_is_gso(skb) ? skb_shinfo(skb)->gso_size : skb->len - sizeof(struct udphdr);

	return frame + MOVER_UDP_HEADERS > dst_mtu(&route->dst) ? 0 : htons(IP_DF);
}

static void send_skb(struct sk_buff *skb)
{
	struct send_to to = *send_to(skb);
	struct sock *sk = skb->sk;
	struct rtable *route;
	struct udphdr *udp;
	struct flowi4 flow;

	route = send_route(sk, &to, &flow);
	if (IS_ERR(route)) {
		kfree_skb(skb);
		return;
	}
	udp = skb_push(skb, sizeof(*udp));
	skb_reset_transport_header(skb);
	*udp = (struct udphdr){.source = inet_sk(sk)->inet_sport, .dest = to.port, .len = htons(skb->len)};
	memset(skb->cb, 0, sizeof(skb->cb));
	skb->priority = READ_ONCE(sk->sk_priority);
	skb->mark = READ_ONCE(sk->sk_mark);
	udp_set_csum(false, skb, flow.saddr, to.address, skb->len);
	compat_tunnel_xmit(sk, route, skb, flow.saddr, to.address, IPPROTO_UDP, send_whole(skb, route));
}

void mover_send_all(struct mover *mover, struct sk_buff_head *packets)
{
	struct sk_buff *skb;

	if (skb_queue_empty(packets))
		return;
	local_bh_disable();
	while ((skb = __skb_dequeue(packets))) {
		struct send_to to = *send_to(skb);

		if (skb->protocol)
			ether_transmit(&mover->ether, skb, to.mac);
		else
			send_skb(skb);
	}
	local_bh_enable();
}
