/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * link: a way for frames out of this host and in again. Each is one small file (link_udp.c, link_raw.c; the simulator
 * has its own). A link knows no protocol: it may lose, double or reorder frames. It is called once a burst, not once a
 * frame.
 *
 * What the engine uses a link for is the link's word too (rank), and so is how its ends are named (kind): the engine
 * knows of none in particular.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_LINK_H
#define THOLE_TRANSPORT_DATAGRAM_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/counters.h"
#include "transport/datagram/trip.h"

struct address_parts;
struct engine;
struct link;
struct mover;
struct options;
struct packet_connect;

/* Where a frame goes to or comes from, as its link names it. UDP: 16 bytes of IPv6 (or IPv4 mapped into it), then the
 * port in network order, then 2 zeros. Raw: 6 bytes of MAC; native: the 4 bytes number of the endpoint; then zeros. */
struct path {
	uint8_t bytes[20];
};

enum channel {
	CHANNEL_RECORDS, /* everything but */
	/* DATA, which has a socket of its own where a link can, so that what arrives there is foreseeable */
	CHANNEL_BULK,
	CHANNELS
};

/* A frame to be sent. It is copied before send returns. */
struct frame_out {
	const struct path *to;
	const uint8_t *head;      /* encoded, perhaps with the payload behind it */
	const struct iovec *body; /* more of it, elsewhere */
	uint32_t head_length;
	uint32_t body_length;     /* bytes of all of body */
	uint16_t body_count;      /* 0: none */
	uint8_t channel;          /* enum channel */
	bool known;               /* to the peer of an open connection: not an answer to whoever asks */
	/* that it arrives is to show that frames of its length do: it goes in no packet of several, since what the
	 * kernel has not cut yet passes where frames as long do not (veth, virtio) */
	bool probe;
	/* so many of the frames after it go the same way and lie directly behind it, each as long, but for the last of
	 * them perhaps, which is shorter */
	uint16_t behind;
};

enum link_liveness { /* of a host and process that was asked after */
	LINK_UNKNOWN, /* no answer yet, or the link cannot ask */
	LINK_ALIVE,   /* the process has answered, though its program may compute */
	/* the host says that the port is there, but the process does not answer: it is stopped, or somebody else has
	 * it */
	LINK_HELD,
	LINK_GONE,    /* the host says that nobody is there */
	LINK_UNASKED, /* for want of descriptors, or because others are being asked after */
};

/* What a link may be used for: the one of the lowest rank that works. */
enum link_use {
	LINK_RECORDS, /* of few frames, acknowledgements, PULLs: the quickest */
	LINK_BULK,    /* DATA, and records of many frames: the one of most bytes a second */
	LINK_CONNECT, /* the first CONNECTs: one whose path an address names */
	LINK_USES
};

/* How the ends of links are named, and what of them a handshake tells (kind.c). */
struct link_kind {
	/* The path of a peer's link of this kind, by its address and, where it is not NULL, what its CONNECT or ACCEPT
	 * says. False: they name none, or none that understands this link. */
	bool (*path)(const struct link *link, const struct address_parts *parts, const struct packet_connect *connect,
		     struct path *path_p);
	/* What peers have to know of it beside our address. */
	void (*tell)(const struct link *link, struct packet_connect *connect);
};

extern const struct link_kind kind_ip, kind_ethernet;

struct link_calls {
	const char *name;
	const struct link_kind *kind;
	uint8_t rank[LINK_USES]; /* lower ones are preferred; 0: not for this use */
	enum counter counter;    /* counts its frames beside frames_sent; 0: none does */
	/* Send frames in this order. Returns how many were taken; the rest found no room now. */
	unsigned (*send)(struct link *link, const struct frame_out *frames, unsigned count);
	/* Hand what has arrived to engine_frame (bulk perhaps by scatter_foresee and scatter_arrived), about `budget`
	 * frames of it. Returns how many. */
	unsigned (*receive)(struct link *link, unsigned budget);
	/* Whether receive is so cheap that it may be called in every poll (memory, no system call). */
	bool cheap;
	/* Of a cheap one: whether there is anything, so that receive is called, without a look at the clock. NULL: it
	 * is called to find out. In any case it is called now and then. */
	bool (*waiting)(const struct link *link);
	/* Before sleeping: is anything there to receive? From then until the next receive, fd becomes readable when
	 * something arrives; at other times it may not. */
	bool (*ready)(struct link *link);
	/* Frames to this path: their length at most, from routes and interfaces, now. */
	uint32_t (*frame_max)(struct link *link, const struct path *to);
	/* Begin, or go on, to ask whether the process with this endpoint at a path lives, by means that do not need
	 * its program to make progress; to be called now and then. ALIVE and GONE end the question. NULL: cannot. */
	enum link_liveness (*liveness)(struct link *link, const struct path *to, uint64_t endpoint);
	/* Forget a question that was begun. */
	void (*liveness_end)(struct link *link, const struct path *to);
	void (*close)(struct link *link);
};

struct link {
	const struct link_calls *calls;
	struct engine *engine; /* whom receive hands frames to */
	struct mover *mover;   /* what moves its bulk by itself (mover.h); NULL: nothing does */
	unsigned index;        /* in the engine's links */
	struct path own;       /* where peers reach this link */
	uint16_t bulk_port;    /* of CHANNEL_BULK, at the same address; 0: as in own */
	uint16_t ethertype;    /* of the kind Ethernet: of its frames, so that peers send the same */
	uint32_t interface;    /* its index; 0: any */
	/* bytes that its receive buffer holds, for the credit that is given out; less after overflows */
	uint64_t room;
	uint64_t cached;       /* so much credit stays in a core's caches, in packets as they come now; 0: not known */
	/* what is two packets is better halved, since a full one takes far longer than a short one: it is measured */
	bool halves;
	struct trip_away away; /* the owner's, who looks whether something has come */
	int fd[CHANNELS];      /* to be polled for reading after ready; -1: none */
	uint64_t *counters;    /* the endpoint's */
};

#endif
