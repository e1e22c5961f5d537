/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link: a way for frames out of this host and in again. Each is one small file (link_udp.c, link_raw.c; the simulator has
 * its own). A link knows no protocol: it may lose, double or reorder frames. It is called once a burst, not once a frame.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_LINK_H
#define THOLE_TRANSPORT_DATAGRAM_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct engine;
struct link;
struct options;

/* Where a frame goes to or comes from, as its link names it. UDP: 16 bytes of IPv6 (or IPv4 mapped into it), then the port in
 * network order, then 2 zeros. Raw: 6 bytes of MAC; native: the 4 bytes number of the endpoint; then zeros. */
struct path {
	uint8_t bytes[20];
};

enum channel {
	CHANNEL_RECORDS, /* everything but */
	CHANNEL_BULK,    /* DATA, which has a socket of its own where a link can, so that what arrives there is foreseeable */
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
};

enum link_fate { /* of a host and process that was asked after */
	LINK_UNKNOWN, /* no answer yet, or the link cannot ask */
	LINK_ALIVE,   /* the process has answered, though its program may compute */
	LINK_HELD,    /* the host says that the port is there, but the process does not answer: it is stopped, or somebody else has it */
	LINK_GONE,    /* the host says that nobody is there */
	LINK_UNASKED, /* for want of descriptors, or because others are being asked after */
};

struct link_calls {
	const char *name;
	/* Send frames in this order. Returns how many were taken; the rest found no room now. */
	unsigned (*send)(struct link *link, const struct frame_out *frames, unsigned count);
	/* Hand what has arrived to engine_frame (bulk perhaps by landing_foresee and landing_arrived), about `budget` frames of it.
	 * Returns how many. */
	unsigned (*receive)(struct link *link, unsigned budget);
	/* Whether receive is so cheap that it may be called at every look (memory, no system call). */
	bool cheap;
	/* Before sleeping: is anything there to receive? From then until the next receive, fd becomes readable when something
	 * arrives; at other times it may not. */
	bool (*ready)(struct link *link);
	/* Frames to this path: their length at most, from routes and interfaces, now. */
	uint32_t (*frame_max)(struct link *link, const struct path *to);
	/* Begin, or go on, to ask whether the process with this endpoint at a path lives, by means that do not need its program to
	 * make progress; to be called now and then. ALIVE and GONE end the question. NULL: cannot. */
	enum link_fate (*fate)(struct link *link, const struct path *to, uint64_t endpoint);
	/* Forget a question that was begun. */
	void (*fate_end)(struct link *link, const struct path *to);
	void (*close)(struct link *link);
};

struct link {
	const struct link_calls *calls;
	struct engine *engine; /* whom receive hands frames to */
	unsigned index;        /* in the engine's links */
	struct path own;       /* where peers reach this link */
	uint16_t bulk_port;    /* of CHANNEL_BULK, at the same address; 0: as in own */
	uint16_t ethertype;    /* raw: of its frames, so that peers send the same; UDP: 0 */
	uint32_t interface;    /* its index; 0: any */
	uint64_t room;         /* bytes that its receive buffer holds, for the credit that is given out; less after overflows */
	int fd[CHANNELS];      /* to be polled for reading after ready; -1: none */
	uint64_t *counters;    /* the endpoint's */
};

#endif
