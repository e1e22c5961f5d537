/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * mover: DATA and PULLs of an endpoint, handled where they arrive, in softirq: native ones at its UDP sockets, those of
 * MXoE at the interface that it is bound to.
 *
 * mover.c        sockets, connections, and what they are told apart by; times
 * mover_mxoe.c   connections and frames of MXoE
 * mover_serve.c  windows, and PULLs that are answered from their pages
 * mover_fetch.c  fetches, whose DATA goes into their pages
 * mover_send.c   packets that are made and sent
 *
 * Owns nothing of the protocol: that is the library's, compiled in (wire/, guard.c, block.c, answer.c). Does not own
 * how user space asks (device.c), pages (pages.c), nor what is bound to interfaces (ether.c).
 *
 * Contexts. mover_arrived and mover_mxoe_arrived run in softirq, mover_late and mover_serve_resume too (timers), calls
 * in the process; workers pin and serve. They are all users', so they wait for none.
 *
 * Locks, outer first.
 *   mover.calls  mutex: one call at a time; nobody who holds the next takes it. A socket's lock is taken with it held,
 *                and whoever has that may wait for a mmap_lock, and for memory that never comes: so mmap, which has
 *                one, must not take it, nor a worker, for which others wait
 *   mover.making mutex: the ways are made once, and stay; taken by calls and by mmap
 *   mover.lock   spinlock, softirqs off: all else. Frames are looked at, copied and made with it held, and sent
 *                without it
 *   pages.lock   as in pages.h; then events'
 *
 * Invariants. Nothing is believed of a frame, and no memory is taken for it, before session and tag are found right.
 * (MXoE has no tags: there it is who sent it, and a session or a handle.) What is not for a fetch or a window here goes
 * on to the program as it came; a native PULL does in any case, for it acknowledges records. Once an END has returned,
 * nothing more is written, and no packet made.
 */
#ifndef THOLE_KERNEL_MOVER_H
#define THOLE_KERNEL_MOVER_H

#include <linux/hrtimer.h>
#include <linux/skbuff.h>
#include <linux/xarray.h>

#include "ether.h"
#include "mover_read.h"
#include "mover_whole.h"
#include "pages.h"
#include "protocol.h"

enum mover_limits {
	MOVER_ANSWERS = 32,     /* PULLs of one peer that wait; further ones are dropped, and asked again */
	MOVER_BLOCKS = 64,      /* blocks of one peer that are asked for and not here */
	MOVER_RUN = 32,         /* frames that are looked at together */
	MOVER_SOFTIRQ = 4,      /* packets that are sent from softirq before a worker goes on */
	MOVER_HEAD = PACKET_FRONT + PACKET_COUNTER + PACKET_TAG_SHORT, /* bytes of DATA's, at most */
	MOVER_UDP_HEADERS = 28, /* bytes of IPv4's and UDP's */
	MOVER_FRAME_LEAST = 548, /* bytes of a frame that every path carries (ENGINE_FRAME_MIN) */
};

/* A program's socket. */
struct mover_socket {
	struct list_head node;
	struct mover *mover;
	struct sock *sk;
	struct mover_whole whole;
	u32 channel; /* enum channel */
};

struct mover_connection {
	struct mover *mover;
	u32 id;
	u64 session, peer_session;
	u32 index, peer_index;
	u64 key;           /* in mover.peers */
	__be32 address;    /* native: of the peer, */
	__be16 port[CHANNELS];
	u8 mac[ETH_ALEN] __aligned(2); /* MXoE: the same */
	u32 frame_max;
	u32 head;          /* bytes of DATA's */
	bool tagged;
	struct guard guard;
	struct thole_driver_way *way;
	struct xarray windows;  /* struct mover_window, by name */
	struct xarray fetches;  /* struct mover_fetch, by transfer */
	struct list_head serving; /* mover.serving; alone: nothing waits */
	struct answer answers[MOVER_ANSWERS]; /* from `first` on */
	u32 first, waiting;
	struct block_peer peer;
	struct list_head expecting; /* mover.expecting */
	u64 free; /* bit i: blocks[i] is */
	struct block blocks[MOVER_BLOCKS];
};

/* Frames of one transfer that follow each other in a packet: their heads say the same but for counters and places. */
struct mover_run {
	u32 count;
	u32 head; /* bytes of each one's */
	u8 flags; /* enum packet_flags */
	u8 heads[MOVER_RUN][MOVER_HEAD];
	struct mover_reader places[MOVER_RUN]; /* in front of them */
	u64 counter[MOVER_RUN];
	u64 offset[MOVER_RUN]; /* in the fetch; what is not in it is far beyond */
	u32 length[MOVER_RUN]; /* of payload */
	struct guard_frame judged[MOVER_RUN]; /* those whose counters follow each other are one, */
	struct iovec parts[MOVER_RUN][2];     /* of this head and so much payload */
};

/* What frames are, and how they come and go. */
struct mover_kind {
	const struct codec *codec;
	bool counted; /* what is under way is counted by a socket of the kernel's: there is no program's */
	int (*check)(const struct mover_kind *kind, struct mover *mover,
		     const struct thole_driver_connection *wanted);
	/* Who the peer is, and by which key it is found. */
	void (*fill)(struct mover_connection *connection, const struct thole_driver_connection *wanted);
	bool (*fits)(const struct mover_connection *connection, const struct thole_driver_fetch *wanted);
	/* Fill in who a packet is of and for. */
	void (*name)(const struct mover_connection *connection, struct packet *packet);
	/* The next frames of an answer, from pages whose lock is held and that are there, into mover.out. Returns 0,
	 * -ENOBUFS or -ENOTCONN. */
	int (*data)(struct mover_connection *connection, struct answer *answer, struct pages *pages, u64 offset);
};

/* Of one descriptor. */
struct mover {
	struct kref references; /* of the descriptor, of fetches, and of who is bound to an interface */
	struct holder *holder;
	struct ether ether;
	const struct mover_kind *kind; /* of all connections; changes while there are none */
	struct socket *counter; /* NULL: the kind has none */
	struct mutex calls, making;
	spinlock_t lock;
	struct list_head sockets;
	u32 socket_count;
	struct xarray connections; /* struct mover_connection, by id */
	struct xarray peers;       /* the same, by key */
	struct mapped ways;
	u32 windows;
	struct list_head serving; /* connections with answers that wait, in turn */
	bool busy;                /* somebody answers them */
	struct turn turn;
	struct hrtimer pause;     /* until it goes on, where there was no room */
	u32 pause_ns;             /* how long the last one was; 0: none since a packet was made, or nothing waited */
	struct blocks blocks;
	struct list_head expecting; /* connections of whom blocks are expected */
	atomic_t fetches;         /* whose memory is there, told or not */
	struct list_head over; /* fetches whose end is being told */
	struct hrtimer timer;
	u64 timer_ns; /* 0: none */
	struct sk_buff_head out; /* to be sent by whoever unlocks */
	struct mover_run run;    /* of the packet that is looked at */
};

static inline void mover_count(struct mover *mover, __u64 *counter, u64 more)
{
	*counter += more; /* under mover.lock, as all of the counters here */
}

/* ---- mover.c: calls of a descriptor; 0 or a negative errno ---- */

struct mover *mover_new(struct holder *holder);
void mover_end(struct mover *mover);
int mover_mmap(struct mover *mover, struct vm_area_struct *vma);
int mover_take_socket(struct mover *mover, const struct thole_driver_socket *taken);
int mover_give_back(struct mover *mover, int fd);
int mover_add_peer(struct mover *mover, struct thole_driver_connection *connection);
int mover_drop_peer(struct mover *mover, u32 id);

/* ---- mover.c, for the others ---- */

void mover_get(struct mover *mover);
void mover_put(struct mover *mover);
void mover_lock(struct mover *mover) __acquires(&mover->lock);
/* And what was made is sent, and the timer set. */
void mover_unlock(struct mover *mover) __releases(&mover->lock);
struct mover_connection *mover_find(struct mover *mover, u32 id);
/* The peer of a kind; NULL: there is none. */
struct mover_connection *mover_find_peer(struct mover *mover, const struct mover_kind *kind, u64 key, u64 session);
/* A turn of a worker's of mover.c. */
void mover_turn_init(struct mover *mover, struct turn *turn, work_func_t function);
/* Whether frames, no two of one counter, have right tags, or need none. Those are never taken again. */
bool mover_admit(struct mover_connection *connection, const struct guard_frame *frames, u32 count);

extern const struct mover_kind mover_native;

int mover_start(void);
void mover_stop(void);

/* ---- mover_serve.c ---- */

int mover_serve_window(struct mover *mover, const struct thole_driver_window *window, struct pages *pages);
int mover_serve_end(struct mover *mover, const struct thole_driver_name *name);
/* All of a connection that ends; under the lock. */
void mover_serve_forget(struct mover_connection *connection);
/* A PULL has come; under the lock. -ENOENT: not of a window here. -ENOBUFS: too many wait already. */
int mover_serve_pull(struct mover_connection *connection, const struct packet *packet);
/* Answer what waits: some of it, and a worker the rest. */
void mover_serve_some(struct mover *mover);
void mover_serve_work(struct work_struct *work);
enum hrtimer_restart mover_serve_resume(struct hrtimer *timer);

/* ---- mover_fetch.c ---- */

void mover_fetch_init(struct mover *mover);
int mover_fetch_begin(struct mover *mover, const struct thole_driver_fetch *wanted, struct pages *pages);
int mover_fetch_end(struct mover *mover, const struct thole_driver_name *name);
void mover_fetch_forget(struct mover_connection *connection);
/* Those whose end was told; all of them, where nobody is to be told any more. */
void mover_fetch_reap(struct mover *mover, bool all);
/* Frames have come by a socket for bulk. Returns whether some are not ours. */
bool mover_fetch_arrived(struct mover *mover, struct sk_buff *skb);
/* The same of one frame that is all of a packet, which names nothing but the transfer: from whom it came. Returns
 * whether it was ours. */
bool mover_fetch_frame(struct mover *mover, struct sk_buff *skb, const u8 *from);
/* Ask for what there is credit for; under the lock. */
void mover_fetch_ask(struct mover *mover);
void mover_fetch_late(struct mover *mover);

/* ---- mover_send.c ---- */

/* mover_kind.data: as one packet, which the kernel cuts; as a packet a frame. */
int mover_send_data(struct mover_connection *connection, struct answer *answer, struct pages *pages, u64 offset);
int mover_send_frames(struct mover_connection *connection, struct answer *answer, struct pages *pages, u64 offset);
/* A packet without payload. */
void mover_send_packet(struct mover_connection *connection, struct packet *packet, enum channel channel);
/* Whether the socket of a channel has room for more. */
bool mover_send_room(struct mover *mover, enum channel channel);
void mover_send_all(struct mover *mover, struct sk_buff_head *packets);

/* ---- mover_mxoe.c ---- */

extern const struct mover_kind mover_mxoe, mover_mxoe_jumbo;

/* A PULL or a PULL REPLY to the endpoint of a mover that may have no connection; in softirq. Nothing of it is changed.
 * Returns whether it was taken: else it is the program's. */
bool mover_mxoe_arrived(struct mover *mover, struct sk_buff *skb);
/* Whether this is the front of a PULL REPLY, which the kind's codec can read. */
bool mover_mxoe_is_data(const struct mover *mover, const u8 *head, u32 length);

#endif
