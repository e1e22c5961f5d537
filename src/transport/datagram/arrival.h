/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arrival: records in, and what their sender is told of them. See arrival.c.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_ARRIVAL_H
#define THOLE_TRANSPORT_DATAGRAM_ARRIVAL_H

#include "transport/datagram/engine.h"

enum arrival_limits {
	QUIET_NS = 10000000,           /* a sender that says nothing for so long no longer shares the credit */
};

struct arrival {
	struct list_node held;      /* struct transmit_frame, in order, ahead of a gap */
	uint32_t held_count;
	uint32_t next;              /* sequence of the next frame, */
	uint8_t fragment;           /* and which fragment */
	uint16_t credit;            /* as the peer was told it last */
	uint32_t epoch;             /* mxoe: bits above the sequence numbers that we want to see */
	uint32_t unreported;        /* frames since our last acknowledgement */
	uint32_t ack_number;        /* mxoe: of the last acknowledgement by itself */
	uint64_t ack_ns;            /* when an acknowledgement is due; 0: none is */
	bool ack_now;
	bool ask;                   /* the next ACK asks for an answer */
	bool tell;                  /* by an ACK and nothing else: of backpressure, that we read, or to ask */
	bool heard_lately;          /* counted in engine->senders */
};

/* A RECORD that came with others, or a run of them: pieces that say the same, each with the next number and counter
 * and directly behind the one before. All are as long, but the last. */
struct arrival_run {
	struct packet packet; /* of the first */
	const uint8_t *frame; /* the first */
	size_t length;        /* of each but the last */
	uint32_t behind;      /* frames that follow the first */
	uint32_t last;        /* bytes of payload of the last */
};

void arrival_begin(struct connection *connection);
void arrival_end(struct connection *connection);
/* A RECORD. */
void arrival_record(struct connection *connection, const struct packet *packet, const uint8_t *frame, size_t length);
/* The same of frames that came together. */
void arrival_run(struct connection *connection, const struct arrival_run *run);
/* Fill in what an outgoing packet says of the records that came. */
/* Tell a mover what it would say now. */
void arrival_tell(struct connection *connection);
void arrival_report(struct connection *connection, struct packet *packet);
/* Send an acknowledgement by itself. */
void arrival_acknowledge(struct connection *connection);
/* Do what is due; when something is next, UINT64_MAX: never. */
uint64_t arrival_expire(struct connection *connection);

#endif
