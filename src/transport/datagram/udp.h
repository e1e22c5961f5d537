/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * udp: what the files of the UDP link share.
 *
 * link_udp.c     opening, waiting, paths
 * udp_send.c     bursts to the kernel
 * udp_receive.c  packets and errors from it
 * udp_hold.c     packets that stay in the kernel after they were read
 * udp_lane.c     sockets of their own for the peers that are talked to most
 * udp_driver.c   the driver in the kernel, which has the sockets and moves bulk
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_UDP_H
#define THOLE_TRANSPORT_DATAGRAM_UDP_H

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <unistd.h>

#include "base/endian.h"
#include "base/error.h"
#include "transport/datagram/alarm.h"
#include "transport/datagram/scatter.h"
#include "transport/datagram/links.h"
#include "transport/datagram/liveness.h"
#include "transport/datagram/responder.h"

enum udp_limits {
	UDP_SEGMENTS_MAX = 64,        /* frames in one: the kernel's bound */
	UDP_PARTS_MAX = 16,           /* iovecs of a frame; one that has more is copied together first */
	UDP_BATCH_MAX = 8,            /* packets of records that are taken from the kernel at once */
	UDP_BUFFER = 65536,           /* bytes for each */
	UDP_SOCKET_BYTES = 4 << 20,   /* asked for each way; the kernel doubles it for its own overhead */
	UDP_PORT_TRIES = 64,          /* for a port that is free for UDP and TCP, and the one next door for UDP */
	UDP_ERRORS_MAX = 16,          /* reports taken at a time: they come from the network */
	UDP_IDLE_POLLS = 64,          /* one poll in so many is of the bulk sockets while nothing is expected there */
	UDP_AROUND_POLLS = 4096,      /* the same for packets that were lost */
	UDP_CONTROL = 256,            /* bytes of what the kernel says beside a packet */
	UDP_DRAIN_POLLS = 4096,       /* at a socket that is to be closed: its sender cannot hold us */
	UDP_HEED_POLLS = 64,          /* at one, before what the network says of frames is believed */
	UDP_PACKET_LEAST = 256,       /* bytes of a buffer that the shortest packet takes, with the kernel's own */
	UDP_HOLD_LONG = 16384,        /* bytes of a packet from which on it and others are held */
	UDP_HOLD_SHORTS = 32,         /* shorter ones in a row, after which none is any more: each costs a call more */
	UDP_HOLD_PACKETS = 64,        /* held at most, since a receive goes past all of them */
	/* of bulk a quarter as much stays: what is under way and where it belongs are to stay in caches, too */
	UDP_HOLD_BULK = 4,
	UDP_HOLD_TRIES = 4,           /* receives that may fail, before what is held stays for another time */
	UDP_TIMED_FEW = 4,             /* frames of a packet that is a measure of short ones, at most, */
	UDP_TIMED_MANY = 40,           /* and of full ones, at least: */
	UDP_TIMED_TURNS = 16,          /* one in so many */
	UDP_TIMED_TIMES = 9,           /* quarters of a short one's time that a full one takes more than */
	LANE_VOTES = 32,              /* packets that a peer has to be ahead of the others for a lane */
	LANE_OTHERS_POLLS = 4,        /* one poll in so many is of all others, where there is a lane */
};

/* A socket for each channel that anybody may send to, and perhaps a lane: one of the same port that is connected to
 * one peer, for which the kernel looks up no route and no receiver for every packet. No other user can bind a socket
 * of these ports. */
enum udp_sockets { UDP_LANES = CHANNELS, UDP_SOCKETS = 2 * CHANNELS };

struct udp_socket {
	uint8_t channel;
	bool connected;          /* only what `peer` sends comes here */
	bool errors;             /* reports wait in the error queue */
	bool broken;             /* a lane that does not work, a channel that cannot have one */
	bool forgets;            /* a lane that is told with each packet how long its frames are */
	uint16_t segment;        /* bytes of frames that a lane makes of a packet, told nothing; 0: it is one */
	bool fresh;              /* a lane whose peer may have sent to the other socket just before */
	bool holds;              /* what was read stays for a while (udp_hold.c): */
	uint32_t held, held_bytes, shorts; /* packets that do, their bytes, and short ones that came last in a row */
	uint32_t overflows;      /* the kernel's count of packets that found no room */
	uint64_t packets;        /* that came */
	uint64_t fresh_until;    /* of a lane: the other socket's packets that may be from before it */
	struct path peer;        /* of a lane */
	struct path favourite;   /* who is talked to most, by a vote of the packets: those of open connections */
	unsigned votes;
};

/* A burst on its way to the kernel: frames gathered into messages. */
struct outgoing {
	struct mmsghdr messages[ENGINE_BURST];
	uint8_t frames[ENGINE_BURST];          /* that each message has */
	union socket_address names[ENGINE_BURST];
	struct iovec parts[ENGINE_BURST * UDP_PARTS_MAX];
	char control[ENGINE_BURST][CMSG_SPACE(sizeof(uint16_t))] __attribute__((aligned(8)));
	uint8_t together[ENGINE_FRAME_MAX];    /* a frame in too many parts */
};

struct incoming {
	struct mmsghdr messages[UDP_BATCH_MAX];
	union socket_address names[UDP_BATCH_MAX];
	struct iovec parts[UDP_BATCH_MAX];
	char control[UDP_BATCH_MAX][UDP_CONTROL] __attribute__((aligned(8)));
	uint8_t buffers[UDP_BATCH_MAX][UDP_BUFFER];
};

struct link_udp {
	struct link link;
	int family;
	uint32_t headers;                /* bytes of IP and UDP in front of a frame */
	uint32_t mtu;                    /* of the interface, as it was opened */
	bool segmenting;                 /* the kernel takes UDP_SEGMENT */
	bool bulk_waits;                 /* ready() has seen something */
	bool too_long;                   /* a frame did not fit the path any more: */
	struct path narrow;              /* this one */
	unsigned batch;                  /* packets asked for at the next poll */
	unsigned polls;
	uint64_t room_min;
	/* of packets of few frames, and of many: nanoseconds that one takes, and how many went since one was timed */
	uint32_t typical[2], untimed[2];
	uint64_t hold;                   /* bytes that a lane may hold; 0: none does */
	uint64_t cached;                 /* half of a core's second cache; 0: not known */
	/* by channel, then their lanes, then what tells of bulk that the driver has moved; -1: none */
	int fd[UDP_SOCKETS + 1];
	struct udp_socket sockets[UDP_SOCKETS];
	struct alarm alarm;
	struct liveness liveness;
	struct responder responder;
	struct forked forked;            /* of fd */
	struct outgoing out;
	struct incoming in;
	struct scatter scatter;
	struct driver *driver;           /* which has the sockets; NULL: none */
};

static inline struct link_udp *udp_of(struct link *link)
{
	return (struct link_udp *)link;
}

static inline void udp_count(struct link_udp *udp, enum counter counter, uint64_t count)
{
	udp->link.counters[counter] += count;
}

static inline bool path_equal(const struct path *one, const struct path *other)
{
	return one == other || memcmp(one, other, sizeof(*one)) == 0;
}

/* ---- link_udp.c ----------------------------------------------------------------------------------- */

/* Make a socket at the address and port of `own` (port 0: any), which come back in it. shared: another of ours has
 * the port. */
int udp_socket_open(struct link_udp *udp, unsigned index, struct path *own, bool shared);
void udp_socket_close(struct link_udp *udp, unsigned index);
/* Whether another socket may be bound to this one's port that has agreed to it too. The kernel grants it to sockets of
 * the same user alone, which it would not with SO_REUSEADDR. */
void udp_share(struct link_udp *udp, unsigned index, bool shared);

/* ---- udp_send.c ----------------------------------------------------------------------------------- */

unsigned udp_send(struct link *link, const struct frame_out *frames, unsigned count);

/* ---- udp_receive.c -------------------------------------------------------------------------------- */

unsigned udp_receive(struct link *link, unsigned budget);
/* Count what found a socket full. */
void udp_check(struct link_udp *udp, unsigned index);
/* At most how many packets wait in a socket. */
uint64_t udp_waiting(const struct link_udp *udp, unsigned index);
/* What a socket has, by so many receives at most; how many frames. */
unsigned udp_drain(struct link_udp *udp, unsigned index, unsigned polls);

/* ---- udp_hold.c ----------------------------------------------------------------------------------- */

/* recvmsg; what comes is to be told to udp_hold_heed. */
ssize_t udp_hold_receive(struct link_udp *udp, unsigned index, struct msghdr *message);
/* A packet of so many bytes has come; of several at once the last. */
void udp_hold_heed(struct link_udp *udp, unsigned index, size_t bytes);
/* Nothing is held any more, if the kernel lets it. */
void udp_hold_end(struct link_udp *udp, unsigned index);

/* ---- udp_lane.c ----------------------------------------------------------------------------------- */

/* A packet went to, or came from, the peer of an open connection. */
void udp_lane_vote(struct link_udp *udp, unsigned channel, const struct path *peer);
/* Open or close lanes as the votes say. Called from receive only, since closing takes what is there. */
void udp_lane_update(struct link_udp *udp, unsigned channel);
/* The socket for packets to a peer: its lane or the one for all. */
unsigned udp_lane_for(const struct link_udp *udp, unsigned channel, const struct path *peer);

/* ---- udp_driver.c --------------------------------------------------------------------------------- */

/* Give the link a mover, and the driver the link's sockets. Where that fails, it goes without. */
void udp_driver_open(struct link_udp *udp, struct transport_owner *owner);
/* Before its sockets are closed; of a link that has none, too. */
void udp_driver_close(struct link_udp *udp);
/* The link has another socket, which is to be the driver's too, if that has the others. */
int udp_driver_socket(const struct link_udp *udp, unsigned index);

#endif
