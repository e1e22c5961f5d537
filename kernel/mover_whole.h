/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * mover_whole: packets of many frames reach mover_arrived whole.
 *
 * The kernel cuts a packet that GRO has put together, or that was never cut (veth, lo, guests of one host), before a
 * socket with an encap_rcv gets it, unless it is marked as a tunnel's: such sockets might not expect it. Ours do. So
 * a netfilter hook behind all others marks those to our sockets, and mover_arrived takes the mark away.
 *
 * Owns the hook: in a network while it has sockets of ours. A kernel without netfilter cuts, and nothing else differs.
 * Invariant: nothing but packets to our addresses and ports is marked, and none that somebody else holds, too.
 */
#ifndef THOLE_KERNEL_MOVER_WHOLE_H
#define THOLE_KERNEL_MOVER_WHOLE_H

#include <linux/skbuff.h>
#include <net/sock.h>

/* Of a socket of ours. */
struct mover_whole {
	struct hlist_node node;
	const struct sock *sk;
};

/* A socket that has its address and port, and to which the caller has a reference. `whole` is zero. Where there is no
 * memory, packets are cut. */
void mover_whole_begin(struct mover_whole *whole, const struct sock *sk);
/* Nothing looks at it any more after a grace period. */
void mover_whole_end(struct mover_whole *whole);

/* As it was before it was marked. */
static inline void mover_whole_unmark(struct sk_buff *skb)
{
	if (skb_is_gso(skb) && skb_shinfo(skb)->gso_type & SKB_GSO_UDP_L4)
		skb_shinfo(skb)->gso_type &= ~SKB_GSO_UDP_TUNNEL;
}

#endif
