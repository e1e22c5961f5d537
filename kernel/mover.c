// SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause)
#include "mover.h"

#include <linux/cred.h>
#include <linux/filter.h>
#include <linux/ipv6.h>
#include <linux/net.h>
#include <linux/nospec.h>
#include <linux/slab.h>
#include <linux/udp.h>
#include <net/udp.h>
#include <net/udp_tunnel.h>

#include "compat.h"
#include "mover_read.h"

enum { LEAVE_TRIES = 8 };

static struct workqueue_struct *workers;

/* ---- Frames that come ------------------------------------------------------------------------ */

bool mover_admit(struct mover_connection *connection, const struct guard_frame *frames, u32 count)
{
	if (!connection->tagged)
		return true;
	guard_follow(&connection->guard, READ_ONCE(connection->way->epoch));
	if (guard_check(&connection->guard, &codec_native, frames, count) != GUARD_FINE)
		return false;
	guard_seen(&connection->guard, frames, count);
	return true;
}

/* Whether one of a packet's frames is a PULL. */
static bool mover_has_pull(struct sk_buff *skb)
{
	struct mover_reader reader;
	bool has = false;
	u8 type;

	mover_read_begin(&reader, skb, sizeof(struct udphdr));
	while (!has && mover_read_next(&reader) && mover_read_front(&reader, &type, 1))
		has = codec_native.type(&type) == PACKET_PULL;
	return has;
}

/* A frame, if it is a PULL of a peer's. */
static void mover_pull(struct mover *mover, u8 *head, u32 length)
{
	struct mover_connection *connection;
	struct guard_frame frame;
	struct packet packet;
	struct iovec all;

	if (codec_native.type(head) != PACKET_PULL || length < PACKET_FRONT || length > PACKET_HEAD_MAX ||
	    codec_native.decode(&packet, head, length) || packet.flags & (PACKET_SEALED | PACKET_CHECKSUM))
		return;
	all = (struct iovec){head, codec_native.unpadded(head, length)};
	frame = guard_frame(&packet, &all, 1);
	connection = mover_find_peer(mover, &mover_native, packet.to, packet.session);
	if (!connection)
		return;
	if (mover_admit(connection, &frame, 1))
		mover_serve_pull(connection, &packet);
	else
		mover_count(mover, &mover->holder->shared->forged, 1);
}

/* Among records: PULLs. Nothing is taken away: each goes on. */
static void mover_pulls(struct mover *mover, struct sk_buff *skb)
{
	struct mover_reader reader;
	u8 head[PACKET_HEAD_MAX];
	u32 length;

	mover_read_begin(&reader, skb, sizeof(struct udphdr));
	mover_lock(mover);
	while ((length = mover_read_next(&reader)) && mover_read_front(&reader, head, sizeof(head)))
		mover_pull(mover, head, length);
	mover_unlock(mover);
	mover_serve_some(mover);
}

/* In softirq, for each packet of a socket of ours. 1: it goes on to the socket. What the socket may not have, by
 * filters of its own, of its control group or of a security module, goes on, too: it is dropped there. */
static int mover_arrived(struct sock *sk, struct sk_buff *skb)
{
	struct mover_socket *socket = rcu_dereference_sk_user_data(sk);
	bool records = socket && socket->channel == CHANNEL_RECORDS;

	mover_whole_unmark(skb);
	if (!socket)
		return 1;
	if (records ? !READ_ONCE(socket->mover->windows) || !mover_has_pull(skb) :
		      !atomic_read(&socket->mover->fetches))
		return 1;
	if (sk_filter(sk, skb))
		return 1;
	if (skb->len < sizeof(struct udphdr)) { /* what the program's own filter has left: udp.c counts on more */
		kfree_skb(skb);
		return 0;
	}
	if (records) {
		mover_pulls(socket->mover, skb);
		return 1;
	}
	if (mover_fetch_arrived(socket->mover, skb))
		return 1;
	consume_skb(skb);
	return 0;
}

/* ---- Sockets --------------------------------------------------------------------------------- */

/* No frame is on its way through mover_arrived any more, so the socket is anybody's. Nor do ICMP messages come to us:
 * this module may go, and the socket may stay. udp.c, which asks nobody of whom encap_type is 0, reads where they go
 * twice; so that is taken away when nobody can have begun to. The program may make a tunnel of its socket at any time;
 * who does so again and again does not keep us. */
static bool mover_leave_rest(struct sock *sk, bool last)
{
	bool left;

	lock_sock(sk);
	left = !READ_ONCE(udp_sk(sk)->encap_type) || last;
	if (left) {
		WRITE_ONCE(udp_sk(sk)->encap_err_rcv, NULL);
		rcu_assign_sk_user_data(sk, NULL);
	} else {
		WRITE_ONCE(udp_sk(sk)->encap_type, 0);
	}
	release_sock(sk);
	return left;
}

/* It is as if it had never been ours. What mover_arrived finds is ours until the last frame has passed it: nobody else
 * takes the socket before. */
static void mover_leave_socket(struct mover_socket *socket)
{
	struct sock *sk = socket->sk;
	u32 tries = 0;

	lock_sock(sk);
	WRITE_ONCE(udp_sk(sk)->encap_type, 0);
	WRITE_ONCE(udp_sk(sk)->encap_rcv, NULL);
	release_sock(sk);
	spin_lock_bh(&socket->mover->lock);
	list_del(&socket->node);
	socket->mover->socket_count--;
	spin_unlock_bh(&socket->mover->lock);
	mover_whole_end(&socket->whole);
	do
		synchronize_net();
	while (!mover_leave_rest(sk, tries++ == LEAVE_TRIES));
	sock_put(sk);
	kfree(socket);
}

/* Those that the program has closed. */
static void mover_reap_sockets(struct mover *mover)
{
	struct mover_socket *socket, *next;

	list_for_each_entry_safe(socket, next, &mover->sockets, node) {
		if (sock_flag(socket->sk, SOCK_DEAD))
			mover_leave_socket(socket);
	}
}

static int mover_check_socket(const struct sock *sk)
{
	if (sk->sk_protocol != IPPROTO_UDP || sk->sk_type != SOCK_DGRAM)
		return -ENOTSOCK;
	if (sk->sk_family != AF_INET)
		return -EAFNOSUPPORT;
	if (!uid_eq(sk->sk_uid, current_euid()))
		return -EPERM;
	if (!inet_sk(sk)->inet_num)
		return -EINVAL;
	return sk->sk_user_data || udp_sk(sk)->encap_type ? -EBUSY : 0;
}

static int mover_enter_socket(struct mover *mover, struct sock *sk, u32 channel)
{
	struct mover_socket *socket = kzalloc(sizeof(*socket), GFP_KERNEL_ACCOUNT);
	int status;

	if (!socket)
		return -ENOMEM;
	*socket = (struct mover_socket){.mover = mover, .sk = sk, .channel = channel};
	lock_sock(sk);
	status = mover_check_socket(sk);
	if (!status) {
		sock_hold(sk);
		rcu_assign_sk_user_data(sk, socket);
		WRITE_ONCE(udp_sk(sk)->encap_rcv, mover_arrived);
		WRITE_ONCE(udp_sk(sk)->encap_err_rcv, compat_encap_error);
		WRITE_ONCE(udp_sk(sk)->encap_type, 1); /* of none that the kernel knows */
		udp_tunnel_encap_enable(sk);
	}
	release_sock(sk);
	if (status) {
		kfree(socket);
		return status;
	}
	mover_whole_begin(&socket->whole, sk);
	spin_lock_bh(&mover->lock);
	list_add_tail(&socket->node, &mover->sockets);
	mover->socket_count++;
	spin_unlock_bh(&mover->lock);
	return 0;
}

int mover_take_socket(struct mover *mover, const struct thole_driver_socket *taken)
{
	struct socket *socket;
	int status = 0;

	if (taken->channel >= CHANNELS)
		return -EINVAL;
	socket = sockfd_lookup(taken->fd, &status);
	if (!socket)
		return status;
	mutex_lock(&mover->calls);
	mover_reap_sockets(mover);
	status = mover->socket_count < THOLE_DRIVER_SOCKETS ? mover_enter_socket(mover, socket->sk, taken->channel)
							    : -ENOSPC;
	mutex_unlock(&mover->calls);
	sockfd_put(socket);
	return status;
}

int mover_give_back(struct mover *mover, int fd)
{
	struct mover_socket *socket;
	int status = 0;
	struct socket *named = sockfd_lookup(fd, &status);

	if (!named)
		return status;
	status = -ENOENT;
	mutex_lock(&mover->calls);
	list_for_each_entry(socket, &mover->sockets, node) {
		if (socket->sk != named->sk)
			continue;
		mover_leave_socket(socket);
		status = 0;
		break;
	}
	mutex_unlock(&mover->calls);
	sockfd_put(named);
	return status;
}

/* ---- Connections ----------------------------------------------------------------------------- */

struct mover_connection *mover_find(struct mover *mover, u32 id)
{
	return xa_load(&mover->connections, id);
}

struct mover_connection *mover_find_peer(struct mover *mover, const struct mover_kind *kind, u64 key, u64 session)
{
	struct mover_connection *connection = mover->kind == kind ? xa_load(&mover->peers, key) : NULL;

	return connection && connection->session == session ? connection : NULL;
}

static int mover_native_check(const struct mover_kind *kind, struct mover *mover,
			      const struct thole_driver_connection *wanted)
{
	if (!wanted->session || !wanted->records_port || !wanted->bulk_port || wanted->mode > GUARD_HEADS)
		return -EINVAL;
	if (!ipv6_addr_v4mapped((const struct in6_addr *)wanted->address))
		return -EAFNOSUPPORT;
	return wanted->frame_max < MOVER_FRAME_LEAST || wanted->frame_max > BATCH_MAX ? -EINVAL : 0;
}

static void mover_native_fill(struct mover_connection *connection, const struct thole_driver_connection *wanted)
{
	struct guard *guard = &connection->guard;

	connection->key = wanted->index;
	memcpy(&connection->address, wanted->address + 12, sizeof(connection->address));
	connection->port[CHANNEL_RECORDS] = htons(wanted->records_port);
	connection->port[CHANNEL_BULK] = htons(wanted->bulk_port);
	connection->tagged = wanted->mode == GUARD_HEADS;
	connection->head = connection->tagged ? MOVER_HEAD : PACKET_FRONT;
	guard->mode = GUARD_HEADS;
	memcpy(guard->out.secret, wanted->out_secret, sizeof(guard->out.secret));
	memcpy(guard->in.secret, wanted->in_secret, sizeof(guard->in.secret));
	guard->out.epoch = guard->in.epoch = U64_MAX;
}

static bool mover_native_fits(const struct mover_connection *connection, const struct thole_driver_fetch *wanted)
{
	return !(wanted->transfer >> PACKET_TRANSFER_BITS) && wanted->frame >= MOVER_FRAME_LEAST / 2 &&
	       wanted->frame <= U16_MAX - MOVER_HEAD;
}

static void mover_native_name(const struct mover_connection *connection, struct packet *packet)
{
	packet->to = connection->peer_index;
	packet->session = connection->peer_session;
	packet->flags |= connection->tagged ? PACKET_TAGGED : 0;
}

const struct mover_kind mover_native = {
	.codec = &codec_native,
	.check = mover_native_check,
	.fill = mover_native_fill,
	.fits = mover_native_fits,
	.name = mover_native_name,
	.data = mover_send_data,
};

static const struct mover_kind *const kinds[THOLE_DRIVER_CODECS] = {
	[THOLE_DRIVER_CODEC_NATIVE] = &mover_native,
	[THOLE_DRIVER_CODEC_MXOE] = &mover_mxoe,
	[THOLE_DRIVER_CODEC_MXOE_JUMBO] = &mover_mxoe_jumbo,
};

/* All connections of a descriptor are of one kind, since the books of what is asked for are of all of them. */
static int mover_become(struct mover *mover, const struct mover_kind *kind)
{
	struct socket *counter = NULL;
	int status = 0;

	if (mover->kind == kind)
		return 0;
	if (!xa_empty(&mover->connections))
		return -EBUSY;
	if (kind->counted)
		status = sock_create(AF_INET, SOCK_DGRAM, IPPROTO_UDP, &counter);
	if (status)
		return status == -ENFILE || status == -ENOBUFS ? -ENOMEM : status; /* which is what these mean */
	mover_lock(mover);
	mover->kind = kind;
	swap(mover->counter, counter);
	mover_fetch_init(mover);
	mover_unlock(mover);
	if (counter)
		sock_release(counter);
	return 0;
}

static void mover_fill_connection(struct mover_connection *connection, const struct thole_driver_connection *wanted)
{
	connection->session = wanted->session;
	connection->peer_session = wanted->peer_session;
	connection->index = wanted->index;
	connection->peer_index = wanted->peer_index;
	connection->frame_max = wanted->frame_max;
	connection->mover->kind->fill(connection, wanted);
	xa_init_flags(&connection->windows, XA_FLAGS_LOCK_BH);
	xa_init_flags(&connection->fetches, XA_FLAGS_LOCK_BH);
	INIT_LIST_HEAD(&connection->serving);
	INIT_LIST_HEAD(&connection->expecting);
	connection->free = U64_MAX;
	block_peer_init(&connection->peer, &connection->mover->blocks, wanted->session);
}

/* The memory that both sides write, made with the first connection, or when it is mapped. */
static int mover_make_ways(struct mover *mover)
{
	int status = 0;

	mutex_lock(&mover->making);
	if (!mover->ways.at)
		status = mapped_new(&mover->ways, THOLE_DRIVER_CONNECTIONS * sizeof(struct thole_driver_way));
	mutex_unlock(&mover->making);
	return status;
}

static int mover_enter_connection(struct mover *mover, struct mover_connection *connection, u64 counter)
{
	int status = mover_make_ways(mover);

	if (!status)
		status = xa_alloc_bh(&mover->connections, &connection->id, connection,
				     XA_LIMIT(1, THOLE_DRIVER_CONNECTIONS - 1), GFP_KERNEL_ACCOUNT);
	if (status)
		return status;
	connection->way = (struct thole_driver_way *)mover->ways.at + connection->id;
	*connection->way = (struct thole_driver_way){.counter = counter};
	connection->guard.shared = &connection->way->counter;
	status = xa_insert_bh(&mover->peers, connection->key, connection, GFP_KERNEL_ACCOUNT);
	if (status) {
		mover_lock(mover); /* a worker may have found it by its id, which another one had */
		xa_erase(&mover->connections, connection->id);
		mover_unlock(mover);
	}
	return status == -EBUSY ? -EEXIST : status;
}

int mover_add_peer(struct mover *mover, struct thole_driver_connection *wanted)
{
	struct mover_connection *connection;
	const struct mover_kind *kind;
	int status;

	if (wanted->codec >= THOLE_DRIVER_CODECS)
		return -EINVAL;
	kind = kinds[array_index_nospec(wanted->codec, THOLE_DRIVER_CODECS)];
	status = kind->check(kind, mover, wanted);
	if (status)
		return status;
	connection = kzalloc(sizeof(*connection), GFP_KERNEL_ACCOUNT);
	if (!connection)
		return -ENOMEM;
	mutex_lock(&mover->calls);
	connection->mover = mover;
	status = mover_become(mover, kind);
	if (!status) {
		mover_fill_connection(connection, wanted);
		status = mover_enter_connection(mover, connection, wanted->counter);
	}
	if (status)
		kfree(connection);
	else
		wanted->id = connection->id;
	if (!status && wanted->credit) {
		mover_lock(mover);
		mover->blocks.outstanding_max = wanted->credit;
		mover_unlock(mover);
	}
	mutex_unlock(&mover->calls);
	return status;
}

/* Whoever has found it has the lock. */
static void mover_drop(struct mover *mover, struct mover_connection *connection)
{
	mover_lock(mover);
	xa_erase(&mover->connections, connection->id);
	xa_erase(&mover->peers, connection->key);
	mover_serve_forget(connection);
	mover_fetch_forget(connection);
	list_del_init(&connection->expecting);
	mover_unlock(mover);
	xa_destroy(&connection->windows);
	xa_destroy(&connection->fetches);
	kfree(connection);
}

int mover_drop_peer(struct mover *mover, u32 id)
{
	struct mover_connection *connection;

	mutex_lock(&mover->calls);
	connection = mover_find(mover, id);
	if (connection)
		mover_drop(mover, connection);
	mutex_unlock(&mover->calls);
	return connection ? 0 : -ENOENT;
}

/* ---- Time, and packets ----------------------------------------------------------------------- */

static enum hrtimer_restart mover_late(struct hrtimer *timer)
{
	struct mover *mover = container_of(timer, struct mover, timer);

	mover_lock(mover);
	mover->timer_ns = 0;
	mover_fetch_late(mover);
	mover_unlock(mover); /* which sets it anew */
	return HRTIMER_NORESTART;
}

/* The first of the peers' times. A timer that is set and too early only looks again. */
static void mover_set_timer(struct mover *mover)
{
	struct mover_connection *connection;
	u64 first_ns = 0;

	list_for_each_entry(connection, &mover->expecting, expecting) {
		if (connection->peer.timeout_ns && (!first_ns || connection->peer.timeout_ns < first_ns))
			first_ns = connection->peer.timeout_ns;
	}
	if (!first_ns || (mover->timer_ns && mover->timer_ns <= first_ns))
		return;
	mover->timer_ns = first_ns;
	hrtimer_start(&mover->timer, ns_to_ktime(first_ns), HRTIMER_MODE_ABS_SOFT);
}

void mover_lock(struct mover *mover) __acquires(&mover->lock)
{
	spin_lock_bh(&mover->lock);
}

void mover_unlock(struct mover *mover) __releases(&mover->lock)
{
	struct sk_buff_head packets;

	__skb_queue_head_init(&packets);
	skb_queue_splice_init(&mover->out, &packets);
	mover_set_timer(mover);
	spin_unlock_bh(&mover->lock);
	mover_send_all(mover, &packets);
}

void mover_turn_init(struct mover *mover, struct turn *turn, work_func_t function)
{
	turn_init(turn, &mover->holder->line, workers, function);
}

/* ---- A descriptor's -------------------------------------------------------------------------- */

struct mover *mover_new(struct holder *holder)
{
	struct mover *mover = kzalloc(sizeof(*mover), GFP_KERNEL_ACCOUNT);

	if (!mover)
		return NULL;
	kref_init(&mover->references);
	kref_get(&holder->references);
	mover->holder = holder;
	mutex_init(&mover->calls);
	mutex_init(&mover->making);
	spin_lock_init(&mover->lock);
	INIT_LIST_HEAD(&mover->sockets);
	INIT_LIST_HEAD(&mover->serving);
	INIT_LIST_HEAD(&mover->expecting);
	INIT_LIST_HEAD(&mover->over);
	xa_init_flags(&mover->connections, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_BH); /* or it sleeps with softirqs off */
	xa_init_flags(&mover->peers, XA_FLAGS_LOCK_BH);
	mover_turn_init(mover, &mover->turn, mover_serve_work);
	__skb_queue_head_init(&mover->out);
	compat_timer(&mover->timer, mover_late, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	compat_timer(&mover->pause, mover_serve_resume, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	mover->kind = &mover_native;
	mover_fetch_init(mover);
	return mover;
}

static void mover_free(struct kref *references)
{
	struct mover *mover = container_of(references, struct mover, references);

	xa_destroy(&mover->connections);
	xa_destroy(&mover->peers);
	if (mover->ways.at)
		mapped_free(&mover->ways);
	holder_put(mover->holder);
	kfree(mover);
}

void mover_get(struct mover *mover)
{
	kref_get(&mover->references);
}

void mover_put(struct mover *mover)
{
	kref_put(&mover->references, mover_free);
}

void mover_end(struct mover *mover)
{
	struct mover_connection *connection;
	struct mover_socket *socket, *next;
	unsigned long id;

	mutex_lock(&mover->calls);
	list_for_each_entry_safe(socket, next, &mover->sockets, node)
		mover_leave_socket(socket);
	xa_for_each(&mover->connections, id, connection)
		mover_drop(mover, connection);
	mover_fetch_reap(mover, true);
	mutex_unlock(&mover->calls);
	hrtimer_cancel(&mover->timer);
	hrtimer_cancel(&mover->pause);
	turn_end_sync(&mover->turn);
	if (mover->counter)
		sock_release(mover->counter); /* what is under way keeps of it what it needs */
	mover_put(mover);
}

int mover_mmap(struct mover *mover, struct vm_area_struct *vma)
{
	int status = mover_make_ways(mover);

	return status ? status : mapped_show(&mover->ways, vma);
}

int mover_start(void)
{
	workers = alloc_workqueue("thole_mover", WQ_UNBOUND | WQ_HIGHPRI, 0);
	return workers ? 0 : -ENOMEM;
}

void mover_stop(void)
{
	destroy_workqueue(workers);
}
