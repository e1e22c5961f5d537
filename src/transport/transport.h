/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport: what a way between two endpoints offers the layers above it - two services and no third:
 *   records  small, reliable, in order, per peer
 *   bulk     fetch a window of a peer into this memory
 * and the few calls by which an endpoint runs it. A transport is complete when it offers both.
 *
 * An endpoint has one of each row of TRANSPORT_TABLE that can be opened, and a peer the first of them that reaches it,
 * for good.
 *
 * Below this a transport knows nothing of who uses it: an endpoint is a struct transport_owner to it, a peer a struct
 * transport_peer, what it has to fetch a struct transport_fetch. They are the first members of structures of the
 * layers above, which go from the one to the other; no transport does. What a transport has to say or to ask it says
 * by struct transport_upcalls, which it gets with the owner: for each record one call by pointer, which is some
 * instructions more than a direct one.
 */
#ifndef THOLE_TRANSPORT_TRANSPORT_H
#define THOLE_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/list.h"
#include "base/options.h"
#include "base/vector.h"
#include "memory/declared.h"
#include "thole.h"
#include "transport/address.h"
#include "transport/record.h"

/* All there are, in order of preference. They are opened from the last to the first, since the later ones may decide
 * on the address (mxoe), and closed in order. A new one is a row, and a file that defines its struct transport. */
#define TRANSPORT_TABLE(ROW) \
	ROW(SHM, shm)            /* processes of one host */ \
	ROW(VERBS, verbs)        /* those whose adapters reach each other: remote DMA */ \
	ROW(DATAGRAM, datagram)  /* all others: frames over a network */

#define TRANSPORT_NUMBER(NAME, name) TRANSPORT_##NAME,
enum transport_number { TRANSPORT_TABLE(TRANSPORT_NUMBER) TRANSPORTS };
#undef TRANSPORT_NUMBER

struct driver;
struct transport;
struct transport_owner;
struct transport_fetch;
struct transport_upcalls;

/* A peer, as transports know it. */
struct transport_peer {
	struct transport_owner *owner;
	const struct transport *transport; /* for good */
	void *link;            /* the transport's part; with verbs that of the datagram transport, */
	void *pair;            /* beside which it has this */
	uint32_t index;        /* its handle */
	uint32_t carried;      /* enum counter: of what is started to it; its bytes are the next */
	bool connected;        /* transport->connect was called */
	bool gone;
	bool core_shared;      /* the transport's: it was last seen on the core that this process runs on */
	bool silent;           /* the transport's: it is gone because it was silent for too long */
	bool unheard;          /* the transport's: it is gone and has never answered */
	bool stalled;          /* the transport's: push found no room, and `room` will be called when there is some */
	uint8_t rendezvous_row; /* the transport's: which of the next holds for what is sent now */
	/* the transport's: rows of classes of lengths, from LENGTH_CLASS_MIN on, that are to begin with an RTS, where
	 * the peer writes them; NULL: none */
	const uint32_t *rendezvous_classes;
	int32_t gone_status;
	struct thole_address address;
	struct address_parts parts;
};

/* A window of a peer that is to be fetched, and the memory that it is fetched into. */
struct transport_fetch {
	struct transport_peer *peer;
	const struct vector *vector;
	struct window window;
	uint8_t pace;          /* what of RECORD_PACE its message came with */
};

/* A put into, or get from, a region of a peer's. */
struct transport_access {
	struct list_node node; /* the transport's, as is the status, while it has the access */
	int status;
	struct transport_peer *peer;
	const struct vector *vector;
	uint64_t key, offset;
	bool put;
	bool inject; /* once access returns, the memory is its user's again: see the upcall own */
};

/* An endpoint, as its transports know it. */
struct transport_owner {
	const struct transport_upcalls *up;
	uint64_t *counters;    /* by enum counter */
	/* tells who started the program the sentence of this thread's last error; NULL: nobody wants to know */
	void (*trouble)(const struct transport_owner *owner);
	/* called before the death of a peer's process is told, and may wait; NULL: nobody wants that */
	void (*died)(struct transport_owner *owner);
	void (*rouse)(struct transport_owner *owner, uint64_t when_ns); /* see transport_rouse */
	uint64_t asleep_until_ns; /* how long somebody sleeps on wait_fd, or is about to; 0: nobody does */
	void *state[TRANSPORTS]; /* each transport's own; NULL: it is not open */
	uint32_t polled;       /* a bit for each transport that is to be polled in each progress call, */
	uint32_t resting;      /* and for each that is polled once in many; transport_rest */
	uint32_t locals;       /* rings that are polled, which costs nothing */
	uint32_t queues;       /* peers with connections whose records go by adapters */
	bool word_awaited;     /* by the network: it is looked at in each turn, whatever it has brought */
	bool unread;           /* an adapter may have more of what has come than was taken in this turn */
	bool simulated;        /* no clock and no system call; the time is now_ns */
	bool backpressure;     /* senders were asked for RTS only */
	bool core_shared;      /* a peer was last seen on the core that this process runs on */
	bool stood_in;         /* who maintains is not the program, which waits, or computes, on another core */
	bool taking;           /* what is delivered is to be copied by bytes_take: its lines are written next */
	bool oversubscribed;   /* the job has more processes here than there are cores */
	bool tight;            /* room for what is pushed gets little: whoever pushes looks whether there is more */
	struct declared declared; /* regions of the driver that the program has declared */
	struct driver *driver; /* NULL: not there, or not wanted */
	int wait_fd;           /* epoll: readable after arm when something arrives; -1: simulated */
	uint64_t now_ns;       /* of the simulation */
	struct options options;
	struct address_parts parts;
	struct thole_address address;
};

/* What transports call. None of these calls into the transport again but where it says so. */
struct transport_upcalls {
	/* A whole record of a peer. The payload is valid during the call only; `record` is the caller's private copy.
	 * May call any of the peer's transport. */
	void (*delivered)(struct transport_peer *peer, const struct record *record, const void *payload,
			  uint32_t length);
	/* `count` records of the kind PIECE that follow each other, at steps of so many bytes: all have `length` bytes
	 * of payload, but the last, which has `last`. As delivered. */
	void (*pieces)(struct transport_peer *peer, const void *payload, size_t step, uint32_t count, uint32_t length,
		       uint32_t last);
	/* A fetch has ended: the first bytes of its window, up to the end of its vector, are in that. May call any. */
	void (*fetched)(struct transport_fetch *fetch, int status);
	/* An access has ended. AGAIN: nobody knows whether it has happened, and it has to be done by records. */
	void (*accessed)(struct transport_access *access, int status);
	/* Make an access's memory one's own until it ends. Whether it is; else there is no memory. */
	bool (*own)(struct transport_access *access);
	/* What connect began has succeeded, or (with a status) not by what was tried, and yet the peer is not gone. */
	void (*connected)(struct transport_peer *peer, int status);
	/* The peer is gone for good, and nothing more of it will arrive. Calls disconnect. */
	void (*lost)(struct transport_peer *peer, int status);
	/* A peer that was stalled has room again. */
	void (*room)(struct transport_peer *peer);

	/* The peer of an address, made if it was not known. Errors: ADDRESS, MEMORY. */
	int (*peer)(struct transport_owner *owner, const struct thole_address *address, struct transport_peer **peer_p);
	/* Connect to a peer that may not be connected. Calls connect. Returns 0, why it is gone, or what that
	 * returned. */
	int (*reach)(struct transport_peer *peer);
	/* The same to answer it: where something is wanting here answers wait, and that is 0. */
	int (*answer)(struct transport_peer *peer);
	/* Send a record of the transport's own kinds behind whatever waits for room. Calls push. */
	void (*control)(struct transport_peer *peer, const struct record *record);
	/* The memory that this peer was told of by this id and may read; NULL: none, or no longer. */
	const struct vector *(*window)(struct transport_peer *peer, uint64_t id);
	/* Whether there is a region of this key: where it is, and what a peer may do there without asking each time,
	 * perhaps nothing. */
	bool (*region)(struct transport_peer *peer, uint64_t key, struct iovec *memory_p, unsigned *access_p);
	/* Whether an operation with this peer has this id and is not over, be it looked at or not. */
	bool (*id_used)(struct transport_peer *peer, uint64_t id);
	/* Whether the message that is arriving from this peer in pieces goes to its receive. */
	bool (*placing)(const struct transport_peer *peer);
	/* Whether something that was begun with this peer waits for it, but what its transport knows of. */
	bool (*pending)(const struct transport_peer *peer);
	/* Whether a message with this tag would go to a receive. */
	bool (*expected)(struct transport_peer *peer, uint64_t tag);
	/* Whether any receive is posted; and each peer that one is posted for, by each(arg, peer). */
	bool (*receiving)(const struct transport_owner *owner);
	void (*awaited)(struct transport_owner *owner, void (*each)(void *arg, struct transport_peer *peer), void *arg);
	/* Whether anything waits to be pushed to a peer that is not stalled. */
	bool (*backlogged)(const struct transport_owner *owner);
};

/* Who is called when a descriptor of owner->wait_fd is ready: the event's data.ptr. Whoever watches one has it as the
 * first member of a struct of its own. */
struct watcher {
	void (*ready)(struct transport_owner *owner, struct watcher *watcher, uint64_t now_ns);
};

/* What a peer can be sent, where that is less than thole.h offers. */
struct transport_limits {
	uint64_t length_max; /* bytes of a message */
	bool messages_only;  /* no put, get, atomics, immediate data or plain messages */
};

/* What options say of a transport. */
enum transport_need {
	TRANSPORT_UNWANTED,
	TRANSPORT_WELCOME,   /* if it can be opened */
	TRANSPORT_PERMITTED, /* it has to be opened, unless that is not permitted: UNSUPPORTED */
	TRANSPORT_REQUIRED,
};

/* Calls that say what NULL means may be NULL. */
struct transport {
	const char *name;
	const char *option; /* that turns it off */
	uint32_t carried;   /* enum counter: its peers', at first */
	bool beside_last;   /* its peers need the last transport, too: without that it is of no use */
	uint32_t weight;    /* how long a poll takes, in polls of rings in memory */

	/* Whether it is to be opened. Errors: ARGUMENT. */
	int (*wanted)(const struct options *options, enum transport_need *need_p);
	/* Per endpoint: open, close (sends nothing more). open sets its owner->state and fills in its share of
	 * owner->parts. */
	int (*open)(struct transport_owner *owner);
	/* Before memory goes back to its users, and close follows: nobody reaches into it any more. May wait. NULL:
	 * nobody does. */
	void (*withdraw)(struct transport_owner *owner);
	void (*close)(struct transport_owner *owner);
	/* Whether whatever was pushed has reached its peers, but those that are gone. NULL: it has, once pushed. */
	bool (*drained)(const struct transport_owner *owner);
	/* Whether what was pushed and is not drained gets there though this process does nothing, but where something
	 * goes wrong. NULL: it does not. */
	bool (*delivers)(const struct transport_owner *owner);
	/* Somebody waits for that: peers are to say it at once, and are told what they wait for. NULL: they are soon in
	 * any case. */
	void (*hasten)(struct transport_owner *owner);
	/* Whether something moves large messages here while the program computes, once they have matched. NULL: nothing
	 * does. */
	bool (*moves_alone)(const struct transport_owner *owner);
	/* An answer is awaited to what went to this peer by another transport: find out if it dies. NULL: none is. */
	void (*watch)(struct transport_peer *peer);
	/* Whether the end of a peer is seen without connect, since it has connected to this endpoint. NULL: it is
	 * not. */
	bool (*watched)(struct transport_peer *peer);
	/* Tell all peers that the endpoint ends: once, before close. NULL: they see it. */
	void (*notify_close)(struct transport_owner *owner);
	/* What thole_peer_info says of the endpoint itself. NULL: nothing. */
	void (*info_own)(const struct transport_owner *owner, struct thole_peer_info *info_p);

	/* Whether an open transport reaches who has such an address. */
	bool (*reaches)(const struct transport_owner *owner, const struct address_parts *parts);
	/* Records. connect is called once before the first push and may finish later (push says AGAIN until then).
	 * push hands over a record with `length` bytes at `offset` of the payload vector: 0, or AGAIN with nothing
	 * handed over, or PEER. piece_max: at most so many, of a message of which so many are left. record_max: at most
	 * so many that are pushed now arrive as one record; NULL: each piece does. */
	int (*connect)(struct transport_peer *peer);
	int (*push)(struct transport_peer *peer, const struct record *record, const struct vector *payload,
		    uint64_t offset, uint32_t length);
	uint32_t (*piece_max)(struct transport_peer *peer, uint64_t left);
	uint32_t (*record_max)(struct transport_peer *peer);
	/* Whether pushes of all pieces of so long a message would succeed now. NULL: nobody knows before. */
	bool (*fits)(struct transport_peer *peer, uint64_t length);
	/* As push of a record RECORD_EAGER with these of its fields, and of `length` bytes at buffer, less than
	 * short_end. NULL where that is 0. */
	int (*push_short)(struct transport_peer *peer, uint8_t flags, uint64_t tag, uint64_t imm, const void *buffer,
			  uint32_t length);
	uint32_t short_end;
	/* Whether what connect began has succeeded; if not yet, the upcall connected says so later, or lost. */
	bool (*connected)(struct transport_peer *peer);
	/* Before connect, or to have it tried anew: the key that the peer wants to hear. NULL: none. Errors: MEMORY. */
	int (*key)(struct transport_peer *peer, uint64_t key);
	/* What was pushed and asked for goes out now: once after a burst. Returns how much of it has. NULL: it is
	 * out. */
	int (*transmit)(struct transport_owner *owner);
	/* Longest message that may be pushed unasked now. NULL: what the option eager_max says. */
	uint64_t (*eager_max)(struct transport_peer *peer);
	/* What there is less of for this peer. NULL: nothing. Asked once, when the peer is made. */
	void (*limits)(struct transport_peer *peer, struct transport_limits *limits_p);
	/* How the peer is reached: all but what thole_peer_info knows by itself. NULL: no more. */
	void (*info)(struct transport_peer *peer, struct thole_peer_info *info_p);
	/* Forget what belongs to a peer that is gone. */
	void (*disconnect)(struct transport_peer *peer);
	/* Tell all senders that owner->backpressure has changed: while it is set they send an RTS instead of
	 * data that they were not asked for. */
	void (*backpressure)(struct transport_owner *owner);

	/* A RECORD_CARD of the peer's has come, perhaps one that no correct peer writes. NULL: it has no use for it. */
	void (*word)(struct transport_peer *peer, const struct record *record, const void *payload, uint32_t length);

	/* Bulk; ends with the upcall fetched, perhaps before returning. layouts: also from and into vectors that have a
	 * layout, in order. */
	void (*fetch)(struct transport_fetch *fetch);
	bool layouts;
	/* Put or get without the peer's process; ends with the upcall accessed, not before returning. False: nothing
	 * has happened, and it goes by records. NULL: it always does. */
	bool (*access)(struct transport_access *access);
	/* A region of ours is exposed no more. NULL: nobody reaches it but by records. */
	void (*region_end)(struct transport_owner *owner, uint64_t key);
	/* The peer needs a window of ours no more: its memory is its user's again. NULL: nothing is kept for it. */
	void (*window_end)(struct transport_peer *peer, uint64_t id);

	/* Progress: handle what has arrived and continue bulk; the number of events. */
	int (*progress)(struct transport_owner *owner);
	/* Now and then, with the time: connections, deaths, stalled transfers. NULL: progress does it. */
	void (*maintain)(struct transport_owner *owner, uint64_t now_ns);
	/* How many other processes of this host with peers do not sleep as far as is known; counts no further than
	 * `most`. NULL: none is. */
	uint32_t (*awake)(const struct transport_owner *owner, uint32_t most);
	/* In the simulator: when progress has something to do next though nothing arrives. NULL: never. */
	uint64_t (*deadline)(const struct transport_owner *owner);
	/* Before sleeping: after arm, whatever arrives makes owner->wait_fd readable; returns the longest sleep
	 * in ns that is allowed, 0 if there is work already. */
	uint64_t (*arm)(struct transport_owner *owner);
	/* After it. NULL: nothing is to be undone. */
	void (*disarm)(struct transport_owner *owner);
};

#define TRANSPORT_DECLARE(NAME, name) extern const struct transport name##_transport;
TRANSPORT_TABLE(TRANSPORT_DECLARE)
#undef TRANSPORT_DECLARE

#define TRANSPORT_ROW(NAME, name) [TRANSPORT_##NAME] = &name##_transport,
static const struct transport *const transports[TRANSPORTS] = {TRANSPORT_TABLE(TRANSPORT_ROW)};
#undef TRANSPORT_ROW

/* The next open transport after this one (-1: the first); TRANSPORTS: there is none. */
static inline int transport_next(const struct transport_owner *owner, int number)
{
	while (++number < TRANSPORTS && !owner->state[number])
		;
	return number;
}

static inline bool transport_is_polled(const struct transport_owner *owner, int number)
{
	return owner->polled >> number & 1;
}

static inline void transport_set_polled(struct transport_owner *owner, enum transport_number number, bool poll)
{
	owner->polled = (owner->polled & ~(1u << number)) | (uint32_t)poll << number;
	owner->resting &= ~(1u << number);
}

/* Polled now and then, until something says again whether it is to be. */
static inline void transport_rest(struct transport_owner *owner, enum transport_number number)
{
	owner->polled &= ~(1u << number);
	owner->resting |= 1u << number;
}

/* Whether a peer is the endpoint itself. */
static inline bool transport_is_own(const struct transport_peer *peer)
{
	return peer->parts.endpoint == peer->owner->parts.endpoint;
}

static inline void transport_count(struct transport_owner *owner, enum counter counter)
{
	owner->counters[counter]++;
}

/* Something is to be done at when_ns (0: now) that no descriptor shows, as other threads' calls begin it while one
 * sleeps: if that sleep is longer, make wait_fd readable then. */
static inline void transport_rouse(struct transport_owner *owner, uint64_t when_ns)
{
	if (__builtin_expect(when_ns < owner->asleep_until_ns, 0))
		owner->rouse(owner, when_ns);
}

/* Something has failed for good; why is this thread's last error's sentence (error_set). */
static inline void transport_trouble(const struct transport_owner *owner)
{
	if (owner->trouble)
		owner->trouble(owner);
}

/* Count a record that no correct peer writes. */
static inline void transport_bad(struct transport_peer *peer)
{
	transport_count(peer->owner, COUNTER_BAD_RECORDS);
}

#endif
