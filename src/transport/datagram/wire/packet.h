/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * packet: what one frame says, decoded; the same for every codec. The engine thinks in these, a codec (codec.h) turns
 * them into bytes and back. A field that a type or codec does not carry is zero after decoding and not looked at when
 * encoding. docs/PROTOCOL.md has the bytes of both codecs.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_WIRE_PACKET_H
#define THOLE_TRANSPORT_DATAGRAM_WIRE_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/record.h"

enum packet_type {
	PACKET_NONE,
	PACKET_CONNECT, /* who I am, and how you name me; asks for an ACCEPT */
	PACKET_ACCEPT,  /* the same from the other side; or why not */
	PACKET_RECORD,  /* one record, or the next piece of its payload; sequenced */
	PACKET_ACK,     /* what has arrived */
	PACKET_PULL,    /* send me these frames of that window */
	PACKET_DATA,    /* one frame of a window */
	PACKET_NACK,    /* what you addressed does not exist */
	PACKET_CLOSE,   /* this endpoint ends; nothing follows */
	PACKET_QUERY,   /* mxoe, host to host: who are you */
	PACKET_REPLY,   /* mxoe: my name */
	PACKET_HELLO,   /* mxoe: raw broadcast, I am on this network */
	PACKET_TYPES
};

enum packet_flags {
	PACKET_CHECKSUM = 1 << 0, /* native: the checksum is set */
	PACKET_BACKPRESSURE = 1 << 1, /* native: send RTS from now on, no data unasked */
	PACKET_ANSWER = 1 << 2,   /* native: acknowledge at once */
	/* native: a counter and a tag of PACKET_TAG_SHORT bytes follow the first PACKET_FRONT (guard.h) */
	PACKET_TAGGED = 1 << 3,
	PACKET_SEALED = 1 << 4,   /* native: the same with PACKET_TAG_LONG bytes */
	/* native, of a PULL: DATA by the usual link does not arrive, so send it by that of this PULL */
	PACKET_ASIDE = 1 << 5,
};

enum nack_reason { /* the numbers are mxoe's */
	NACK_NONE,
	NACK_BAD_ENDPOINT,
	NACK_CLOSED,
	NACK_BAD_SESSION,
	NACK_BAD_WINDOW,
};

enum connect_status {
	CONNECT_OK = 0,
	CONNECT_BAD_KEY = 11, /* mxoe's number */
	CONNECT_NO_GUARD = 12, /* native: the integrity that is asked for cannot be had here */
	CONNECT_ELSEWHERE = 13, /* native: the CONNECT has come from another address than it names */
	CONNECT_NO_ROOM = 14,  /* native: no memory for another connection */
};

enum {
	PACKET_TO_NONE = 0xffffffff, /* `to` where the sender does not know it yet */
	PACKET_NETWORK = 20,         /* bytes of an address's network part */
	PACKET_NAME_MAX = 80,        /* bytes of a host's name */
	PACKET_FRAMES_MAX = 64,      /* frames of a block: bits of `wanted` */
	PACKET_TRANSFER_BITS = 56,   /* of what names a transfer: so many that none comes again while a session lasts */
	PACKET_HEAD_MAX = 128,       /* of any codec, any packet, without payload and padding */
	MXOE_HOST_INDEX = 1,         /* mxoe: that we give every host */
	PACKET_FRONT = 32,           /* native: bytes in front of counter and tag: no packet has fewer */
	PACKET_COUNTER = 8,          /* bytes of the counter, */
	PACKET_TAG_SHORT = 8,        /* and of the tag behind it, */
	PACKET_TAG_LONG = 16,        /* which may be longer */
	PACKET_GUARD_MAX = PACKET_COUNTER + PACKET_TAG_LONG,
};

/* mxoe: a window that nobody has: a PULL of it asks whether the endpoint is there. */
#define MXOE_WINDOW_NONE UINT32_C(0xffff)

/* mxoe: our index at a host: it is to look for our MAC. A host takes no other index that it has not given. */
#define MXOE_INDEX_ANY UINT32_C(0xffff)

/* mxoe: of queries. All of MX agrees on it. */
#define MXOE_QUERY_MAGIC UINT32_C(0x13052008)

struct guard;

/* Bytes of counter and tag, by a packet's flags. */
static inline unsigned packet_guard_bytes(unsigned flags)
{
	if (flags & PACKET_SEALED)
		return PACKET_COUNTER + PACKET_TAG_LONG;
	return flags & PACKET_TAGGED ? PACKET_COUNTER + PACKET_TAG_SHORT : 0;
}

struct packet_message {
	struct record record; /* RECORD_PIECE: more payload of the one before */
	uint64_t total;       /* mxoe: length of the whole message; of a FINISH: bytes that were pulled */
	uint8_t fragment;     /* mxoe medium: which one of the message; else 0 */
	uint8_t fragment_log; /* mxoe medium in MX mode: log2 of the fragment size */
	bool medium;          /* mxoe: a medium message, even where this one fragment is short */
	uint16_t checksum;    /* mxoe: as found; nobody sets or looks at it */
};

struct packet_connect {
	uint64_t host, endpoint;         /* native: the sender's address, in parts */
	uint8_t network[PACKET_NETWORK];
	uint64_t target;                 /* native: the endpoint that is meant */
	uint64_t session;                /* the sender's own: what frames to it have to carry */
	uint64_t echo;                   /* mxoe ACCEPT: the requester's session */
	uint64_t proof;                  /* native: of knowing the job key; mxoe: the application key */
	/* native: the sender's connection, for `to`; mxoe: index given to the destination */
	uint32_t index;
	uint32_t next;                   /* the sequence number that the sender expects next */
	uint16_t seen;                   /* native ACCEPT: length of the CONNECT that it answers, as it arrived */
	uint16_t size;                   /* native: length of this frame with its padding */
	uint16_t bulk_port;              /* native, UDP: where DATA should go */
	uint16_t ethertype;              /* native, raw: of the sender's raw frames, 0: none */
	uint8_t mac[6];                  /* native, raw: of the sender's interface */
	uint8_t attempt;                 /* native: of this connection; mxoe: connect number */
	uint8_t status;                  /* ACCEPT: enum connect_status */
	uint8_t integrity;               /* native: enum guard_mode that the sender asks for */
	uint8_t checksum;                /* native: 1: the sender wants checksums */
	uint8_t later[6];                /* native: as found: what another Thole says there is proven, too */
};

struct packet_pull {
	uint64_t window;        /* its owner's id; mxoe: id u8 | sequence u8 << 8 | window offset << 16 */
	uint64_t transfer;      /* the puller's; comes back in DATA. mxoe: handle << 32 | magic */
	uint64_t total;         /* mxoe: of the whole pull */
	uint64_t offset;        /* of the first frame's first byte, in the message */
	uint64_t wanted;        /* native: bit i: frame i of the block, 0: all */
	uint32_t length;        /* bytes of the block */
	uint32_t frame;         /* native: payload bytes of each frame */
	uint32_t frame_index;   /* mxoe: of the block's first frame */
	uint32_t frame_offset;  /* mxoe: first byte in the first frame; offset is worked out of both */
};

/* mxoe: where a block begins in frames of the sender's window. */
static inline void packet_pull_place(struct packet_pull *pull)
{
	uint64_t at = pull->offset + (pull->window >> 16);

	pull->frame_index = (uint32_t)(at / pull->frame);
	pull->frame_offset = (uint32_t)(at % pull->frame);
}

struct packet_data {
	uint64_t transfer; /* as in the PULL */
	uint64_t offset;   /* of the payload in the message */
	uint8_t frame;     /* mxoe: frame index modulo 256 */
};

struct packet_nack {
	uint8_t reason;         /* enum nack_reason */
	bool driver;            /* mxoe: from the host's driver, about a pull */
	uint64_t transfer;      /* of the PULL that it answers */
	uint64_t refused;       /* native: the session that the refused frame carried; proves that it was seen */
	uint64_t proof;         /* native: of knowing the job key */
	uint32_t index;         /* mxoe: peer index */
};

struct packet_ack {
	uint64_t held;        /* native: bit i: the record frame with sequence ack + 1 + i is here already */
	uint32_t number;      /* mxoe: of this acknowledgement */
	uint32_t send;        /* mxoe: its "send sequence" */
	uint64_t session;     /* mxoe: the second session field */
	uint8_t resent;       /* mxoe */
};

struct packet_host {
	uint32_t index;  /* that the sender gave the destination */
	uint32_t magic;  /* of the query, repeated in the reply */
	uint64_t mac;    /* HELLO */
	uint32_t serial; /* HELLO */
	uint8_t name_length;
	char name[PACKET_NAME_MAX];
};

struct packet {
	uint8_t type;         /* enum packet_type */
	uint8_t flags;        /* enum packet_flags */
	uint8_t generation;   /* mxoe: of the source endpoint */
	uint16_t peer_index;  /* mxoe: in the frame's head */
	uint16_t credit;      /* native: record frames beyond ack that the sender of this takes */
	uint32_t to;          /* native: the receiver's connection; mxoe: destination endpoint */
	uint32_t from;        /* mxoe: source endpoint */
	uint64_t session;     /* the receiver's */
	uint64_t counter;     /* native: of a frame with a tag */
	struct guard *guard;  /* whose tag an outgoing packet gets; NULL: none */
	/* RECORD (and mxoe's CONNECT): its number; native ACK: the next one to be sent. As many bits as the codec has;
	 * mxoe: 14, and the partner session above them */
	uint32_t sequence;
	uint32_t ack;         /* the next sequence number that is expected */
	union {
		struct packet_message message;
		struct packet_connect connect;
		struct packet_pull pull;
		struct packet_data data;
		struct packet_nack nack;
		struct packet_ack acked;
		struct packet_host host;
	};
	const uint8_t *payload; /* RECORD, DATA; in the frame after decoding */
	uint32_t length;
};

#endif
