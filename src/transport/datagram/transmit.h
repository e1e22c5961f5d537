/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transmit: records out, over frames that may be lost. See transmit.c.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_TRANSMIT_H
#define THOLE_TRANSPORT_DATAGRAM_TRANSMIT_H

#include "transport/datagram/engine.h"
#include "transport/datagram/trip.h"

enum transmit_limits {
	/* well above codec->ack_delay_ns: from then on some frames go again, to hear what has arrived */
	RESEND_PROBE_NS = 300000,
	/* and above what a busy scheduler adds: from then on all that is out counts as lost */
	RESEND_MIN_NS = 2000000,
	REORDER_NS = 500000,           /* a frame that others have overtaken by so much is lost */
	LINK_TRIP_NS = 500000,         /* an answer to a repetition by another link comes sooner */
	WINDOW_FIRST = 64,             /* record frames without acknowledgement, at first */
	WINDOW_LEAST = 4,              /* and after losses, in messages of as many fragments as there may be */
	LOSS_FRAMES = 8,               /* by which the window gets narrower for each frame that is lost */
	/* bytes of a record whose frame is a small one: ENGINE_SMALL_FRAME less the longest head */
	RECORD_SMALL = 96,
	/* a record of more is quicker by the link for bulk, whose frames the kernel takes together */
	WIDE_FRAMES = 2,
	PATIENT_FRAMES = 2,            /* so many, the last of a transfer and an RTS, go at once */
};

struct transmit {
	struct list_node unacked;   /* struct transmit_frame, in order */
	struct list_node *unsent;   /* the first of them that is to be sent; the list's head: none */
	uint32_t next;              /* sequence of the next new frame */
	uint32_t wide_end;          /* behind the last that is wide, or behind what is acknowledged */
	uint32_t epoch;             /* mxoe: bits above the sequence numbers that the peer wants to see */
	uint32_t flight;            /* frames sent and not acknowledged */
	uint32_t window;            /* that may be, for congestion's sake */
	uint32_t credit;            /* the peer's word on it */
	struct trip trip;           /* of frames, until they are acknowledged */
	uint64_t delivered_ns;      /* when the newest frame that the peer is known to have was sent */
	uint64_t gap_ns;            /* when a frame that others have overtaken is lost; 0: none */
	uint64_t resend_ns;         /* when the oldest unacknowledged frame is late; 0: none is out */
	uint32_t held_end;          /* behind the last frame that the peer is known to hold */
	uint8_t backoff;            /* doublings */
	bool rts_only;              /* the peer wants RTS instead of data */
	uint16_t heard;             /* low bits of the peer's frame that was expected when the last record was pushed */
	uint64_t frames_sent, frames_resent;
};

void transmit_begin(struct connection *connection);
void transmit_end(struct connection *connection);
/* The peer takes records from this number on. */
void transmit_start(struct connection *connection, uint32_t next);
/* transport.h */
int transmit_push(struct engine *engine, struct transport_peer *peer, const struct record *record,
		  const struct vector *payload, uint64_t offset, uint32_t length);
/* Bytes of a record's payload that its first frame has room for. */
uint32_t transmit_record_max(const struct connection *connection);
/* Bytes of a record's payload whose frames are one packet of the kernel's, of a message of which so many are left. */
uint32_t transmit_piece_max(const struct connection *connection, uint64_t left);
/* The same of half of the frames that it is. */
uint32_t transmit_half(const struct connection *connection, uint64_t left);
/* Bytes of a record's payload that the window takes now, about. */
uint64_t transmit_bytes_max(const struct connection *connection);
/* An acknowledgement came, on whatever packet. */
void transmit_acked(struct connection *connection, const struct packet *packet);
/* Send what may be sent, and an acknowledgement if one is due. */
void transmit_connection(struct connection *connection);
/* Tell the layer above if there is room that it waits for. */
void transmit_ready(struct connection *connection);
/* Do what is due; when something is next, UINT64_MAX: never. */
uint64_t transmit_expire(struct connection *connection);
/* Frames without acknowledgement, about: those of a codec that has fragments count as one. */
uint32_t transmit_kept(const struct connection *connection);
/* Whether a frame with this number, as on the wire, has been sent and not acknowledged. */
bool transmit_is_out(const struct connection *connection, uint32_t wire);
/* The link had no room for a run from the frame with these bytes on: they are to be sent again, without delay. */
void transmit_unsend(struct connection *connection, struct transmit_frame *run, const uint8_t *bytes);

#endif
