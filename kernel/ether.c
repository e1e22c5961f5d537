// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
#include "ether.h"

#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/jhash.h>
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <linux/skbuff.h>
#include <linux/workqueue.h>
#include <net/net_namespace.h>

#include "compat.h"
#include "events.h"
#include "mapped.h"
#include "mover.h"
#include "ring.h"

#include "base/endian.h"
#include "transport/datagram/wire/mxoe_fields.h"

enum {
	BUCKETS = 64,         /* of endpoints at a port */
	NATIVE_HEAD = 12,     /* 0 u32 whom it is to, 4 u32 whom it is from, 8 u16 length, 10 u16 0 */
	MXOE_LEAST = 18,      /* bytes of the shortest frame */
	MXOE_TOLD = 34,       /* bytes by which a frame to nobody is answered */
	MXOE_NUMBERS = 256,
	LONGEST = 9216        /* bytes of a frame that places have room for */
};

struct ether_port;

/* What frames of an EtherType are, and whose. */
struct ether_kind {
	u16 type;
	u8 head; /* bytes in front of what programs see of a frame */
	u32 numbers; /* of endpoints; 0: any */
	void (*receive)(struct ether_port *port, struct sk_buff *skb);
	/* Write the head; whether the endpoint may send this to that address. */
	bool (*head_write)(const struct ether_end *end, u8 *frame, u32 length, const u8 *path);
};

/* An EtherType at an interface. Made by the first endpoint there, and ended by the last. */
struct ether_port {
	struct list_head list; /* RTNL */
	struct packet_type packets;
	const struct ether_kind *kind;
	struct net_device *device;
	u32 users; /* RTNL */
	struct hlist_head ends[BUCKETS];
	struct rcu_head rcu;
};

struct ether_end {
	struct kref references; /* the descriptor's, and who looks at it meanwhile */
	struct hlist_node node;
	struct ether_port __rcu *port; /* NULL: its interface has gone */
	u32 number;
	struct mover *mover;
	struct holder *holder; /* its */
	struct mapped mapped;
	struct thole_driver_ether *shared; /* that */
	void *out;
	u32 place; /* bytes of a place, in and out */
	struct event gone;
	spinlock_t lock;
	struct ring in;
	struct rcu_work free;
};

static LIST_HEAD(ports); /* RTNL */
static u32 salt __read_mostly;
static struct workqueue_struct *workers;

/* ---- Ends ------------------------------------------------------------------------------------ */

static struct hlist_head *bucket_of(struct ether_port *port, u32 number)
{
	return port->ends + jhash_1word(number, salt) % BUCKETS;
}

/* Under RCU. */
static struct ether_end *end_find(struct ether_port *port, u32 number)
{
	struct ether_end *end;

	hlist_for_each_entry_rcu(end, bucket_of(port, number), node, lockdep_rtnl_is_held())
		if (end->number == number)
			return end;
	return NULL;
}

static void end_free(struct work_struct *work)
{
	struct ether_end *end = container_of(to_rcu_work(work), struct ether_end, free);

	events_withdraw(&end->holder->events, &end->gone);
	mover_put(end->mover);
	mapped_free(&end->mapped);
	kfree(end);
}

static void end_release(struct kref *references)
{
	struct ether_end *end = container_of(references, struct ether_end, references);

	/* Not before all that come by under RCU have gone. */
	INIT_RCU_WORK(&end->free, end_free);
	queue_rcu_work(workers, &end->free);
}

static struct ether_end *end_new(struct mover *mover, u32 mtu, struct thole_driver_bind *bind)
{
	struct ether_end *end = kzalloc(sizeof(*end), GFP_KERNEL_ACCOUNT);
	struct thole_driver_frame *frames;

	bind->place = ALIGN(sizeof(*frames) + min_t(u32, mtu, LONGEST), 64);
	bind->places_in = THOLE_DRIVER_FRAMES_IN;
	bind->places_out = THOLE_DRIVER_FRAMES_OUT;
	bind->bytes = THOLE_DRIVER_FRAMES_AT + (u64)bind->place * (THOLE_DRIVER_FRAMES_IN + THOLE_DRIVER_FRAMES_OUT);
	if (!end)
		return NULL;
	if (mapped_new(&end->mapped, bind->bytes)) {
		kfree(end);
		return NULL;
	}
	kref_init(&end->references);
	mover_get(mover);
	end->mover = mover;
	end->holder = mover->holder;
	end->number = bind->endpoint;
	end->place = bind->place;
	end->shared = end->mapped.at;
	end->in = (struct ring){.read = &end->shared->read,
				.places = end->mapped.at + THOLE_DRIVER_FRAMES_AT,
				.bytes = bind->place,
				.count = THOLE_DRIVER_FRAMES_IN};
	end->out = end->in.places + (size_t)bind->place * THOLE_DRIVER_FRAMES_IN;
	spin_lock_init(&end->lock);
	event_init(&end->gone, THOLE_DRIVER_EVENT_UNBOUND, bind->interface);
	return end;
}

/* With a reference, or NULL. */
static struct ether_end *end_get(struct ether *ether)
{
	struct ether_end *end;

	rcu_read_lock();
	end = rcu_dereference(ether->end);
	if (end && !kref_get_unless_zero(&end->references))
		end = NULL;
	rcu_read_unlock();
	return end;
}

/* ---- Frames in, in softirq ------------------------------------------------------------------- */

/* Of the frame the first bytes, and zeros for the rest. */
static void end_deliver(struct ether_end *end, const struct sk_buff *skb, const u8 *from, u32 head, u32 length,
			u32 shown)
{
	struct thole_driver_frame *place = NULL;

	spin_lock(&end->lock);
	if (length <= end->place - sizeof(*place))
		place = ring_next(&end->in);
	if (place) {
		place->length = length;
		memcpy(place->path, eth_hdr(skb)->h_source, ETH_ALEN);
		memcpy(place->path + ETH_ALEN, from, sizeof(place->path) - ETH_ALEN);
		skb_copy_bits(skb, head, place->data, shown);
		memset(place->data + shown, 0, length - shown);
		ring_filled(&end->in, &place->stamp);
	} else {
		WRITE_ONCE(end->shared->overflows, end->shared->overflows + 1);
	}
	spin_unlock(&end->lock);
	if (place)
		events_wake(&end->holder->events);
}

static void native_receive(struct ether_port *port, struct sk_buff *skb)
{
	u8 bytes[NATIVE_HEAD];
	const u8 *head = skb_header_pointer(skb, 0, NATIVE_HEAD, bytes);
	struct ether_end *end;
	u32 length;

	if (!head || skb->pkt_type != PACKET_HOST)
		return;
	end = end_find(port, get_unaligned_be32(head));
	length = get_unaligned_be16(head + 8);
	if (end && length <= skb->len - NATIVE_HEAD)
		end_deliver(end, skb, head + 4, NATIVE_HEAD, length, length);
}

/* Where a frame of MXoE says what it is, and whose. */
enum mxoe {
	MXOE_TYPE_AT = FRAME_LENGTH + FRONT_TYPE_AT,
	MXOE_TO_AT = FRAME_LENGTH + FRONT_TO_AT,
	MXOE_FROM_AT = FRAME_LENGTH + FRONT_FROM_AT,
	MXOE_NACK_FROM_AT = FRAME_LENGTH + NACK_LIBRARY_FROM_AT,
	MXOE_NACK_TO_AT = FRAME_LENGTH + NACK_LIBRARY_TO_AT,
	MXOE_MAGIC = 0x80, /* the lowest byte of a pull's magic says whose it is, that of a transfer's 8 bytes: */
	MXOE_REPLY_MAGIC_AT = FRAME_LENGTH + PULL_REPLY_TRANSFER_AT + 7,
	MXOE_PULL_MAGIC_AT = FRAME_LENGTH + PULL_TRANSFER_AT + 7,
	MXOE_PULL_JUMBO_MAGIC_AT = FRAME_LENGTH + PULL_JUMBO_TRANSFER_AT + 7
};

static const u8 nobody[4];

/* Of the host: for each endpoint. */
static void mxoe_receive_host(struct ether_port *port, const struct sk_buff *skb)
{
	struct ether_end *end;
	int i;

	for (i = 0; i < BUCKETS; i++)
		hlist_for_each_entry_rcu(end, port->ends + i, node)
			end_deliver(end, skb, nobody, 0, skb->len, skb->len);
}

/* To an endpoint that is not there. One that is may say so; it sees as much as that needs. */
static void mxoe_receive_stray(struct ether_port *port, const struct sk_buff *skb)
{
	struct ether_end *end;
	int i;

	for (i = 0; i < BUCKETS; i++) {
		hlist_for_each_entry_rcu(end, port->ends + i, node) {
			end_deliver(end, skb, nobody, 0, skb->len, min_t(u32, skb->len, MXOE_TOLD));
			return;
		}
	}
}

static void mxoe_receive(struct ether_port *port, struct sk_buff *skb)
{
	u8 bytes[MXOE_LEAST], type;
	const u8 *head = skb_header_pointer(skb, 0, MXOE_LEAST, bytes);
	struct ether_end *end;
	u32 number;

	if (!head || skb->pkt_type > PACKET_BROADCAST)
		return;
	type = head[MXOE_TYPE_AT];
	if (type == MXOE_RAW || type == MXOE_QUERY || type == MXOE_REPLY) {
		mxoe_receive_host(port, skb);
		return;
	}
	if (type == MXOE_PULL_REPLY)
		number = head[MXOE_REPLY_MAGIC_AT] ^ MXOE_MAGIC;
	else
		number = head[type == MXOE_NACK_LIBRARY ? MXOE_NACK_TO_AT : MXOE_TO_AT];
	end = end_find(port, number);
	if (end && (type == MXOE_PULL || type == MXOE_PULL_REPLY) && mover_mxoe_arrived(end->mover, skb))
		return;
	if (end)
		end_deliver(end, skb, nobody, 0, skb->len, skb->len);
	else if (type != MXOE_PULL_REPLY && type != MXOE_NACK_LIBRARY && type != MXOE_NACK_DRIVER)
		mxoe_receive_stray(port, skb);
}

static int ether_receive(struct sk_buff *skb, struct net_device *device, struct packet_type *packets,
			 struct net_device *origin)
{
	struct ether_port *port = container_of(packets, struct ether_port, packets);

	port->kind->receive(port, skb);
	consume_skb(skb); /* one of perhaps many references: so nothing of it is changed */
	return NET_RX_SUCCESS;
}

/* ---- Frames out ------------------------------------------------------------------------------ */

static bool native_head_write(const struct ether_end *end, u8 *frame, u32 length, const u8 *path)
{
	memcpy(frame, path + ETH_ALEN, 4);
	put_unaligned_be32(end->number, frame + 4);
	put_unaligned_be16(length, frame + 8);
	put_unaligned_be16(0, frame + 10);
	return !is_multicast_ether_addr(path);
}

/* Nothing in an endpoint's name but its own; that nobody has a number may be said by anybody. */
static bool mxoe_head_write(const struct ether_end *end, u8 *frame, u32 length, const u8 *path)
{
	struct ether_port *port = rcu_dereference(end->port);
	const struct ether_end *other;
	u8 type, magic = MXOE_MAGIC ^ end->number;

	if (length < MXOE_LEAST)
		return false;
	type = frame[MXOE_TYPE_AT];
	if (is_multicast_ether_addr(path))
		return type == MXOE_RAW && is_broadcast_ether_addr(path);
	switch (type) {
	case MXOE_RAW:
	case MXOE_QUERY:
	case MXOE_REPLY:
	case MXOE_PULL_REPLY:
	case MXOE_NACK_DRIVER:
		return true;
	case MXOE_NACK_LIBRARY:
		other = port ? end_find(port, frame[MXOE_NACK_FROM_AT]) : NULL;
		return !other || other == end;
	case MXOE_PULL:
		return frame[MXOE_FROM_AT] == end->number &&
		       ((length == FRAME_LENGTH + PULL_LENGTH && frame[MXOE_PULL_MAGIC_AT] == magic) ||
			(length == FRAME_LENGTH + PULL_JUMBO_LENGTH && frame[MXOE_PULL_JUMBO_MAGIC_AT] == magic));
	}
	return frame[MXOE_FROM_AT] == end->number;
}

/* The frame of a place, which the program may change meanwhile: what counts is what is in the packet. NULL with a
 * negative errno. */
static struct sk_buff *end_packet(const struct ether_end *end, const struct ether_port *port,
				  const struct thole_driver_frame *place, int *status_p)
{
	u32 length = READ_ONCE(place->length), head = port->kind->head;
	struct net_device *device = port->device;
	u32 before = LL_RESERVED_SPACE(device);
	u8 path[sizeof(place->path)], *frame;
	struct sk_buff *skb;

	*status_p = -ENETDOWN;
	if (!(READ_ONCE(device->flags) & IFF_UP))
		return NULL;
	*status_p = -EMSGSIZE;
	if (length > end->place - sizeof(*place) || head + length > READ_ONCE(device->mtu))
		return NULL;
	*status_p = -ENOMEM;
	skb = alloc_skb(before + head + length + device->needed_tailroom, GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return NULL;
	skb_reserve(skb, before);
	skb_reset_network_header(skb);
	frame = skb_put(skb, head + length);
	memcpy(path, place->path, sizeof(path));
	memcpy(frame + head, place->data, length);
	skb->dev = device;
	skb->protocol = htons(port->kind->type);
	*status_p = -EPERM;
	if (port->kind->head_write(end, frame, length, path) &&
	    dev_hard_header(skb, device, port->kind->type, path, NULL, skb->len) >= 0)
		return skb;
	kfree_skb(skb);
	return NULL;
}

/* Whether the frame is gone: on its way or lost. Else there is no room for it now. */
static bool end_send(const struct ether_end *end, const struct ether_port *port,
		     const struct thole_driver_frame *place)
{
	int status;
	struct sk_buff *skb = end_packet(end, port, place, &status);
	u32 *counter;

	/* By the administrator's queues and filters. */
	if (skb)
		status = dev_queue_xmit(skb);
	if (likely(status == NET_XMIT_SUCCESS || status == NET_XMIT_CN))
		return true;
	if (status == NET_XMIT_DROP || status == -ENOMEM || status == -ENOBUFS)
		return false;
	counter = status == -EMSGSIZE ? &end->shared->too_long : &end->shared->lost;
	WRITE_ONCE(*counter, *counter + 1);
	return true;
}

long ether_send(struct ether *ether, unsigned long which)
{
	u32 first = which & 0xffff, count = which >> 16, done = 0;
	const struct ether_port *port;
	const struct ether_end *end;
	long status = -ENXIO;

	if (!count || count > THOLE_DRIVER_FRAMES_OUT || which > U32_MAX)
		return -EINVAL;
	/* What comes to this host because of it comes after all of it. */
	local_bh_disable();
	rcu_read_lock();
	end = rcu_dereference(ether->end);
	port = end ? rcu_dereference(end->port) : NULL;
	if (port) {
		while (done < count &&
		       end_send(end, port, end->out + (size_t)((first + done) % THOLE_DRIVER_FRAMES_OUT) * end->place))
			done++;
		status = done;
	} else if (end) {
		status = -ENODEV;
	}
	rcu_read_unlock();
	local_bh_enable();
	return status;
}

/* Whether this may leave from the endpoint, with its Ethernet header then. */
static bool end_address(const struct ether_end *end, const struct ether_port *port, struct sk_buff *skb, const u8 *to)
{
	struct net_device *device = port->device;

	if (htons(port->kind->type) != skb->protocol || !(READ_ONCE(device->flags) & IFF_UP) ||
	    skb->len > READ_ONCE(device->mtu) || !port->kind->head_write(end, skb->data, skb_headlen(skb), to))
		return false;
	skb->dev = device;
	skb_reset_network_header(skb);
	return dev_hard_header(skb, device, port->kind->type, to, NULL, skb->len) >= 0;
}

void ether_transmit(struct ether *ether, struct sk_buff *skb, const u8 *to)
{
	const struct ether_port *port;
	const struct ether_end *end;

	memset(skb->cb, 0, sizeof(skb->cb));
	rcu_read_lock();
	end = rcu_dereference(ether->end);
	port = end ? rcu_dereference(end->port) : NULL;
	if (port && end_address(end, port, skb, to))
		dev_queue_xmit(skb);
	else
		kfree_skb(skb);
	rcu_read_unlock();
}

bool ether_is(struct ether *ether, u16 type, u32 number, u32 length)
{
	const struct ether_port *port;
	const struct ether_end *end;
	bool is;

	rcu_read_lock();
	end = rcu_dereference(ether->end);
	port = end ? rcu_dereference(end->port) : NULL;
	is = port && port->kind->type == type && end->number == number && length <= READ_ONCE(port->device->mtu);
	rcu_read_unlock();
	return is;
}

/* ---- Binding --------------------------------------------------------------------------------- */

static const struct ether_kind kinds[] = {
	{.type = THOLE_DRIVER_ETHERTYPE,
	 .head = NATIVE_HEAD,
	 .receive = native_receive,
	 .head_write = native_head_write},
	{.type = THOLE_DRIVER_ETHERTYPE_MXOE,
	 .numbers = MXOE_NUMBERS,
	 .receive = mxoe_receive,
	 .head_write = mxoe_head_write},
};

static const struct ether_kind *kind_of(u16 type)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		if (kinds[i].type == type)
			return kinds + i;
	return NULL;
}

/* What the interface takes has changed, or is to be found out. Under RTNL. */
static void end_measure(struct ether_end *end, const struct ether_port *port)
{
	u32 head = port->kind->head, mtu = max_t(u32, port->device->mtu, head) - head;

	WRITE_ONCE(end->shared->frame_max, min_t(u32, mtu, end->place - sizeof(struct thole_driver_frame)));
}

/* Under RTNL, as all below but what is the module's. */
static struct ether_port *port_get(struct net_device *device, const struct ether_kind *kind)
{
	struct ether_port *port;

	list_for_each_entry(port, &ports, list)
		if (port->device == device && port->kind == kind)
			return port;
	port = kzalloc(sizeof(*port), GFP_KERNEL_ACCOUNT);
	if (!port)
		return NULL;
	port->kind = kind;
	port->device = device;
	port->packets = (struct packet_type){.type = htons(kind->type), .dev = device, .func = ether_receive};
	dev_hold(device);
	list_add(&port->list, &ports);
	dev_add_pack(&port->packets);
	return port;
}

static void port_put(struct ether_port *port)
{
	if (port->users)
		return;
	list_del(&port->list);
	__dev_remove_pack(&port->packets);
	dev_put(port->device);
	kfree_rcu(port, rcu);
}

static int end_join(struct ether_end *end, struct net_device *device, const struct ether_kind *kind)
{
	struct ether_port *port = port_get(device, kind);
	int status = 0;

	if (!port)
		return -ENOMEM;
	if (end_find(port, end->number)) {
		status = -EADDRINUSE;
	} else {
		port->users++;
		end_measure(end, port);
		rcu_assign_pointer(end->port, port);
		hlist_add_head_rcu(&end->node, bucket_of(port, end->number));
	}
	port_put(port);
	return status;
}

static void end_leave(struct ether_end *end)
{
	struct ether_port *port = rtnl_dereference(end->port);

	if (!port)
		return;
	hlist_del_rcu(&end->node);
	RCU_INIT_POINTER(end->port, NULL);
	port->users--;
	port_put(port);
}

static int ether_check(const struct net_device *device)
{
	if (!device)
		return -ENODEV;
	/* Others name hosts otherwise, or there are none. */
	if (device->type != ARPHRD_ETHER || device->flags & IFF_LOOPBACK)
		return -EADDRNOTAVAIL;
	return 0;
}

static int ether_join(struct ether *ether, struct ether_end *end, const struct ether_kind *kind, u32 interface)
{
	struct net_device *device = __dev_get_by_index(current->nsproxy->net_ns, interface);
	int status = ether_check(device);

	if (!status && rtnl_dereference(ether->end))
		status = -EBUSY;
	if (!status)
		status = end_join(end, device, kind);
	if (!status)
		rcu_assign_pointer(ether->end, end);
	return status;
}

int ether_bind(struct mover *mover, struct thole_driver_bind *bind)
{
	const struct ether_kind *kind = kind_of(bind->ethertype);
	struct net_device *device;
	struct ether_end *end;
	u32 mtu = 0;
	int status;

	if (!kind)
		return -EPROTONOSUPPORT;
	if (bind->reserved || (kind->numbers && bind->endpoint >= kind->numbers))
		return -EINVAL;
	rcu_read_lock();
	device = dev_get_by_index_rcu(current->nsproxy->net_ns, bind->interface);
	status = ether_check(device);
	if (!status)
		mtu = READ_ONCE(device->mtu);
	rcu_read_unlock();
	if (status)
		return status;
	end = end_new(mover, mtu, bind);
	if (!end)
		return -ENOMEM;
	rtnl_lock();
	status = ether_join(&mover->ether, end, kind, bind->interface);
	rtnl_unlock();
	if (status)
		kref_put(&end->references, end_release);
	return status;
}

int ether_unbind(struct ether *ether)
{
	struct ether_end *end;

	if (!rcu_access_pointer(ether->end))
		return -ENXIO;
	rtnl_lock();
	end = rtnl_dereference(ether->end);
	RCU_INIT_POINTER(ether->end, NULL);
	if (end)
		end_leave(end);
	rtnl_unlock();
	if (!end)
		return -ENXIO;
	kref_put(&end->references, end_release);
	return 0;
}

int ether_mmap(struct ether *ether, struct vm_area_struct *vma)
{
	struct ether_end *end = end_get(ether);
	int status;

	if (!end)
		return -ENXIO;
	status = mapped_show(&end->mapped, vma);
	kref_put(&end->references, end_release);
	return status;
}

bool ether_ready(struct ether *ether)
{
	const struct ether_end *end;
	bool ready;

	rcu_read_lock();
	end = rcu_dereference(ether->end);
	ready = end && ring_unread(&end->in);
	rcu_read_unlock();
	return ready;
}

/* An interface ends, or leaves its namespace. */
static void port_end(struct ether_port *port)
{
	struct hlist_node *next;
	struct ether_end *end;
	int i;

	port->users++;
	for (i = 0; i < BUCKETS; i++) {
		hlist_for_each_entry_safe(end, next, port->ends + i, node) {
			end_leave(end);
			WRITE_ONCE(end->shared->unbound, 1);
			events_post(&end->holder->events, &end->gone, NULL, 0);
			events_wake(&end->holder->events);
		}
	}
	port->users--;
	port_put(port);
}

static void port_measure(struct ether_port *port)
{
	struct ether_end *end;
	int i;

	for (i = 0; i < BUCKETS; i++)
		hlist_for_each_entry(end, port->ends + i, node)
			end_measure(end, port);
}

static int ether_notice(struct notifier_block *block, unsigned long what, void *data)
{
	const struct net_device *device = netdev_notifier_info_to_dev(data);
	struct ether_port *port, *next;

	list_for_each_entry_safe(port, next, &ports, list) {
		if (port->device != device)
			continue;
		if (what == NETDEV_CHANGEMTU)
			port_measure(port);
		else if (what == NETDEV_UNREGISTER || what == NETDEV_PRE_TYPE_CHANGE)
			port_end(port);
	}
	return NOTIFY_DONE;
}

static struct notifier_block notices = {.notifier_call = ether_notice};

int ether_start(void)
{
	int status;

	salt = get_random_u32();
	workers = alloc_workqueue("thole_ether", WQ_UNBOUND, 0);
	if (!workers)
		return -ENOMEM;
	status = register_netdevice_notifier(&notices);
	if (status)
		destroy_workqueue(workers);
	return status;
}

void ether_stop(void)
{
	unregister_netdevice_notifier(&notices);
	synchronize_net(); /* who came by a port */
	rcu_barrier();     /* what waited for that is work now */
	destroy_workqueue(workers);
}
