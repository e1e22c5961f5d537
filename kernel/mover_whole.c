// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
#include "mover_whole.h"

#ifdef CONFIG_NETFILTER

#include <linux/hashtable.h>
#include <linux/ip.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <linux/udp.h>
#include <net/inet_sock.h>

/* A network that has the hook. */
struct whole_net {
	struct list_head node;
	struct net *net; /* there as long as a socket is */
	u32 sockets;
};

static DEFINE_MUTEX(whole_lock); /* who comes and goes; packets look under RCU */
static DEFINE_HASHTABLE(whole_sockets, 6);
static LIST_HEAD(whole_nets);

/* ---- Packets --------------------------------------------------------------------------------- */

static bool whole_is_ours(const struct net *net, const struct sk_buff *skb)
{
	const struct iphdr *ip = ip_hdr(skb);
	const struct mover_whole *whole;
	const struct udphdr *udp;
	struct udphdr room;

	if (ip->protocol != IPPROTO_UDP)
		return false;
	udp = skb_header_pointer(skb, skb_transport_offset(skb), sizeof(room), &room);
	if (!udp)
		return false;
	hash_for_each_possible_rcu(whole_sockets, whole, node, ntohs(udp->dest))
	{
		__be32 address = inet_sk(whole->sk)->inet_rcv_saddr;

		if (inet_sk(whole->sk)->inet_num == ntohs(udp->dest) && net_eq(sock_net(whole->sk), net) &&
		    (!address || address == ip->daddr))
			return true;
	}
	return false;
}

static unsigned int whole_mark(void *unused, struct sk_buff *skb, const struct nf_hook_state *state)
{
	if (skb_is_gso(skb) && skb_shinfo(skb)->gso_type & SKB_GSO_UDP_L4 && !skb_cloned(skb) &&
	    whole_is_ours(state->net, skb))
		skb_shinfo(skb)->gso_type |= SKB_GSO_UDP_TUNNEL;
	return NF_ACCEPT;
}

static const struct nf_hook_ops whole_hook = {
	.hook = whole_mark,
	.pf = NFPROTO_IPV4,
	.hooknum = NF_INET_LOCAL_IN,
	.priority = NF_IP_PRI_LAST,
};

/* ---- Sockets --------------------------------------------------------------------------------- */

static struct whole_net *whole_find_net(const struct net *net)
{
	struct whole_net *found;

	list_for_each_entry(found, &whole_nets, node) {
		if (net_eq(found->net, net))
			return found;
	}
	return NULL;
}

static struct whole_net *whole_hook_net(struct net *net)
{
	struct whole_net *hooked = kzalloc(sizeof(*hooked), GFP_KERNEL_ACCOUNT);

	if (!hooked || nf_register_net_hook(net, &whole_hook)) {
		kfree(hooked);
		return NULL;
	}
	hooked->net = net;
	list_add(&hooked->node, &whole_nets);
	return hooked;
}

void mover_whole_begin(struct mover_whole *whole, const struct sock *sk)
{
	struct whole_net *hooked;

	whole->sk = sk;
	mutex_lock(&whole_lock);
	hooked = whole_find_net(sock_net(sk));
	if (!hooked)
		hooked = whole_hook_net(sock_net(sk));
	if (hooked) {
		hooked->sockets++;
		hash_add_rcu(whole_sockets, &whole->node, inet_sk(sk)->inet_num);
	}
	mutex_unlock(&whole_lock);
}

void mover_whole_end(struct mover_whole *whole)
{
	struct whole_net *hooked;

	if (hlist_unhashed(&whole->node))
		return;
	mutex_lock(&whole_lock);
	hash_del_rcu(&whole->node);
	hooked = whole_find_net(sock_net(whole->sk));
	if (!--hooked->sockets) {
		nf_unregister_net_hook(hooked->net, &whole_hook);
		list_del(&hooked->node);
		kfree(hooked);
	}
	mutex_unlock(&whole_lock);
}

#else

void mover_whole_begin(struct mover_whole *whole, const struct sock *sk)
{
}

void mover_whole_end(struct mover_whole *whole)
{
}

#endif
