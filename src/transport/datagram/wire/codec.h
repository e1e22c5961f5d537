/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-3-Clause) */
/*
 * codec: packets to bytes and back. A codec's limits are data here, and the engine works with any of them. Pure.
 *
 * A frame here begins behind the Ethernet or UDP header. (mxoe's begins with the peer index.)
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_WIRE_CODEC_H
#define THOLE_TRANSPORT_DATAGRAM_WIRE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "transport/datagram/wire/packet.h"

enum { CODEC_FRONT = PACKET_FRONT + 16 };

struct codec {
	const char *name;

	/* Records */
	uint32_t sequence_bits;   /* sequence and ack numbers on the wire have so many */
	uint32_t ahead_max;       /* frames beyond the next expected one that a receiver holds */
	uint32_t unacked_max;     /* frames that may be without acknowledgement, where credit says nothing else */
	/* frames that have arrived, after which an acknowledgement goes at once; or fewer, of little credit */
	uint32_t ack_every;
	uint64_t ack_delay_ns;    /* an acknowledgement waits so long for a record to ride on */
	uint32_t fragment;        /* bytes of payload of a fragment, if they fit the frame */
	uint32_t fragments_max;   /* of a message, which share its sequence number; 1: each frame has its own */
	uint64_t eager_max;       /* longest message that may go without an RTS */
	bool selective;           /* acknowledgements say what is held, pulls which frames are wanted */
	uint32_t credit_first;    /* frames that may be out before the peer has said how many it takes, */
	uint32_t credit_unsaid;   /* and when it says 0, or cannot say it */
	/* acknowledgements carry backpressure, so no record has to wait for its receive */
	bool backpressure;
	bool indexed;             /* `to` is the receiver's connection; else endpoints' numbers */
	bool messages_only;       /* no put, get, atomics, immediate data or plain messages */

	/* Bulk */
	uint32_t data;            /* bytes of payload of a DATA frame; 0: as many as fit */
	uint32_t block_frames;    /* of one PULL, at most PACKET_FRAMES_MAX */
	uint32_t blocks_max;      /* outstanding for one fetch */
	uint32_t pull_blocks;     /* that one PULL asks for, at most */
	uint64_t length_max;      /* of a message */
	/* fixed interval after which unacknowledged records go again; 0: measured round trips */
	uint64_t resend_ns;
	uint64_t pull_ns;         /* the same of pulls */

	/* Bytes of a head, at most, of a RECORD with a record and of one with a piece, and of DATA. */
	uint32_t record_head, piece_head, data_head;
	uint32_t nack;            /* bytes of a NACK: who sends less gets none */

	/* Write a packet's head into PACKET_HEAD_MAX bytes. The payload, if any, follows directly, and packet->length
	 * has to say how long it is: heads carry it, since short frames are padded on the way. Returns the head's
	 * length, at most PACKET_HEAD_MAX; 0 where the codec has no such packet. */
	size_t (*encode)(const struct packet *packet, uint8_t *head);
	/* Read a frame, which may be padded. Returns 0, or THOLE_ERR_PROTOCOL where no correct peer writes this. Any
	 * length and any bytes are allowed. */
	int (*decode)(struct packet *packet, const uint8_t *frame, size_t length);
	/* Of what decode refuses: whether it is a frame of another version or mode of this codec. Then the packet has
	 * what is understood of it: its type at least. */
	bool (*foreign)(struct packet *packet, const uint8_t *frame, size_t length);
	/* Read a frame that has come behind another, of which `packet` was read, if both are DATA of one transfer and
	 * say the same but for offset, counter and payload: then packet becomes what it says. False: it is as it was,
	 * and the frame is to be decoded. NULL with encode_next. */
	bool (*decode_next)(struct packet *packet, const uint8_t *before, const uint8_t *frame, size_t length);
	/* Of frames that came as one, each of `length` bytes but the last, `all` in all: how many follow the first
	 * one, a piece that was decoded, in that they are pieces that say the same but for number and counter, which
	 * are always the next, and have more than `least` bytes of payload. NULL: none do. */
	uint32_t (*run)(const uint8_t *first, size_t length, size_t all, size_t least);
	/* Write the head of a piece, or of DATA, as long as the one before, whose head this is; number: its sequence
	 * number, or its offset. NULL: it is to be encoded. */
	void (*encode_next)(uint8_t *head, const uint8_t *before, size_t length, uint64_t number);
	/* Update ack, credit and flags (but PACKET_CHECKSUM) in encoded RECORDs that are sent, perhaps again: `count`
	 * frames, each so many bytes behind the one before. */
	void (*restamp)(uint8_t *frames, size_t count, size_t length, uint32_t ack, uint16_t credit, uint8_t flags);
	/* Fill in the checksum over the head and `count` further parts, and set its flag; NULL: the codec has none.
	 * decode does not look at it: */
	void (*seal)(uint8_t *head, size_t head_length, const struct iovec *parts, size_t count);
	/* whether a whole frame's checksum is right, or not set (*unset_p) and 0. */
	bool (*intact)(const uint8_t *frame, size_t length, bool *unset_p);
	/* What a tag is over, first of all: the front of a frame of `length` bytes without its padding, its counter,
	 * and that length. Padding, the checksum and its flag are not covered. NULL: the codec has no tags. */
	void (*front)(const uint8_t *frame, uint64_t length, uint8_t text[CODEC_FRONT]);
	/* Type and flags of a frame that encode has written, */
	uint8_t (*type)(const uint8_t *frame);
	uint8_t (*flags)(const uint8_t *frame);
	/* and whether its head ends with its tag, and all else is payload: DATA, and pieces. With front. */
	bool (*bulk)(const uint8_t *frame);
	/* Bytes of a frame without its padding. */
	size_t (*unpadded)(const uint8_t *frame, size_t length);
};

extern const struct codec codec_native, codec_mxoe, codec_mxoe_jumbo;

#endif
