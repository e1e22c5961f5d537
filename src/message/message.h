/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message: the protocol between two endpoints - eager, rendezvous, put, get, atomics - on top of a transport's two
 * services. Pure: no system call, no clock, no thread. A kind of record is a row of one table.
 */
#ifndef THOLE_MESSAGE_MESSAGE_H
#define THOLE_MESSAGE_MESSAGE_H

#include "message/state.h"

/* What transports call (upcalls.c). */
extern const struct transport_upcalls message_upcalls;

/* Hand over as much of an outgoing request as the transport takes. 0: all of it; AGAIN: try later; PEER. */
int message_emit(struct thole_request *request);

/* All of an outgoing request has been handed over. */
void message_emitted(struct thole_request *request);

/* Connect to a peer unless that is done, on first use. Returns 0, why it is gone, or what the transport says. */
int message_reach(struct peer *peer);

/* Now and then, while the endpoint's `unanswered` is set: connect to one of those again that are to be answered. One
 * for whom something is wanting for as long as a peer may be silent (peer_timeout) is lost. */
void message_reach_unanswered(struct thole_endpoint *endpoint, uint64_t now_ns);

/* Send a record without data, behind whatever waits to be sent. */
void message_control(struct peer *peer, const struct record *record);

/* Poll all transports that are to be polled. What those that transmit have pushed, and the backlog after them, goes out
 * at the end. Returns how much was done. Not within an upcall. */
int message_poll(struct thole_endpoint *endpoint);

/* Count a record that no correct peer writes. */
static inline void message_bad(struct peer *peer)
{
	transport_bad(&peer->base);
}

/* The peer is gone: end the stream that was arriving from it. */
void message_stream_lost(struct peer *peer, int status);

/* An unexpected message that a receive with these would get, if there is one; it can be described, and taken, to be
 * the caller's, and dropped. */
struct thole_message *receive_find(struct thole_endpoint *endpoint, uint32_t source, uint64_t tag, uint64_t mask,
				   unsigned flags);
void receive_take(struct thole_endpoint *endpoint, struct thole_message *unexpected);
void unexpected_describe(const struct thole_message *unexpected, struct thole_completion *completion_p);
void unexpected_drop(struct thole_message *unexpected);

/* Free an unexpected message that is out of the match queue. */
void unexpected_free(struct thole_endpoint *endpoint, struct thole_message *unexpected);

/* Fetch the oldest on the list `asking`, up to eager_max bytes, as if they had come unasked: whoever sends them may
 * wait for that before it receives, and so may this program. */
void unexpected_fetch_asking(struct thole_endpoint *endpoint);

#endif
