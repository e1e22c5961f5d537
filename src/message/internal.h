/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the message layer share: message.c (table, outgoing requests), send.c (sends), receive.c (matching,
 * delivery), screen.c (screening), remote.c (put, get, atomics), upcalls.c (what transports call). */
#ifndef THOLE_MESSAGE_INTERNAL_H
#define THOLE_MESSAGE_INTERNAL_H

#include "message/state.h"

enum {
	EAGER_TOTAL_MAX = 1 << 20, /* bytes a peer may send in pieces that were not asked for; option eager_max's max */
};

/* Hand an outgoing request over, or put it on the backlog, with its data copied if it is THOLE_INJECT. The request
 * may be gone afterwards. Where it fails (MEMORY), nothing of the request has left, and it is still the caller's. */
int message_submit(struct thole_request *request);

/* message_reach for a peer that is to be answered, and has perhaps only sent to us so far. Where that fails it is
 * lost; but where something is wanting here, answers wait in its backlog (message_reach_unanswered). */
void message_reach_back(struct peer *peer);

/* A new request for an operation of the user's on a peer, with its vector. Errors as thole_send. */
int message_request(struct thole_endpoint *endpoint, uint32_t peer, enum thole_operation operation,
		    const struct iovec *segments, size_t count, unsigned flags, void *context,
		    struct thole_request **request_p);
/* The same, a send's with a layout. */
int message_request_layout(struct thole_endpoint *endpoint, uint32_t peer, const struct thole_layout *layout,
			   unsigned flags, void *context, struct thole_request **request_p);

/* Room gets little: look whether there is more. That takes notice of whatever has come, so who sleeps until something
 * comes is woken. */
void message_make_room(struct thole_endpoint *endpoint);

/* Submit it and hand out its handle. */
int message_start(struct thole_request *request, struct thole_request **request_p);

/* A peer's word on how something has ended; one that we do not know is no success either. */
int message_status(int status);

/* The peer may answer a request's first piece (it matched, or was refused) while others wait for room. True: it
 * did; the request ends when they are out. */
bool message_answer_early(struct thole_request *request, enum record_kind kind, int status);

/* The peer's window, or what it waits for, is not needed any more; `bytes` of it were taken. */
void message_finish(struct peer *peer, uint64_t id, int status, uint64_t bytes);

/* What was handed over goes out, unless a progress call is under way, which ends with that. */
static inline void message_transmit(struct peer *peer)
{
	if (peer->base.transport->transmit && !peer->endpoint->corked)
		peer->base.transport->transmit(&peer->endpoint->base);
}

/* Fill in a request's window on its own vector. */
void message_window(const struct thole_request *request, struct window *window_p);

/* The peer has said that it needs a request's window no more. */
static inline void message_window_end(const struct thole_request *request)
{
	struct transport_peer *peer = &request->peer->base;

	if (peer->transport->window_end)
		peer->transport->window_end(peer, request_id(request));
}

/* Have a send's record be an RTS: its data stays where it is. */
void message_rts(struct thole_request *request);
/* A message's record, and what is left of its payload, until there is no room. */
int message_emit_pieces(struct peer *peer, struct record *record, const struct vector *vector, uint64_t payload,
			uint64_t *offset_p, bool *head_sent_p);

/* Whether `length` bytes may be sent without asking now. */
static inline bool message_is_eager(struct peer *peer, uint64_t length)
{
	struct transport_peer *base = &peer->base;

	if (length <= RECORD_INLINE_MAX)
		return true;
	if (length > (base->transport->eager_max ? base->transport->eager_max(base)
						  : peer->endpoint->base.options.eager_max))
		return false;
	return !base->rendezvous_classes || !(load_relaxed(&base->rendezvous_classes[base->rendezvous_row]) >>
					      (length_class(length) - LENGTH_CLASS_MIN) & 1);
}

/* Fetch window into the request's vector, from its peer. */
void message_fetch(struct thole_request *request, const struct window *window);

/* Data of a request arrives: the first piece, and whether it was all; or a later piece. */
void message_stream(struct peer *peer, struct thole_request *request, const void *payload, uint32_t length,
		    uint64_t total);

/* The upcalls delivered, pieces and fetched. */
void message_arrived(struct transport_peer *base, const struct record *record, const void *payload, uint32_t length);
void message_pieces(struct transport_peer *base, const void *payload, size_t step, uint32_t count, uint32_t length,
		    uint32_t last);
void message_bulk_fetched(struct transport_fetch *fetch, int status);

/* attach.c: regions of peers of this host as memory. What a GET asks for by imm, instead of data: */
enum { ATTACH_READ = 1, ATTACH_WRITE = 2 };

/* The answer's data: with this who has asked attaches the region itself. */
struct attach_ticket {
	uint32_t number, flags; /* the driver's */
	uint64_t key[2];
	uint64_t offset;        /* in the region */
};

/* Whether a peer may attach, and be attached. */
static inline bool attach_is_near(const struct peer *peer)
{
	return peer->base.transport == &shm_transport;
}

/* Let a peer attach a region. Errors: UNSUPPORTED. */
int attach_lend(struct thole_region *region, uint64_t offset, bool write, struct attach_ticket *ticket_p);
/* The ticket is here, or will not come. Returns how the request has ended. */
int attach_done(struct thole_request *request, int status);

/* A request's data has arrived by pieces or bulk. */
void receive_done(struct thole_request *request, int status);
void remote_done(struct thole_request *request, int status);
/* An answer with a region's data is out, or its window was fetched, or will not be: nobody needs that memory for it. */
void remote_answered(struct thole_request *request, int status);
/* A put or get that the transport has done by itself, or not (AGAIN). */
void remote_accessed(struct thole_request *request, int status);
/* Keep a copy of a request's memory, where there is none yet and it goes back to the caller at once. */
int remote_own(struct thole_request *request);
/* The upcall region. */
bool remote_region(struct transport_peer *peer, uint64_t key, struct iovec *memory_p, unsigned *access_p);

/* Handlers of records, and of handed over requests: the rows of the table. */
void receive_eager(struct peer *peer, const struct record *record, const void *payload, uint32_t length);
void receive_rts(struct peer *peer, const struct record *record, const void *payload, uint32_t length);
void remote_put(struct peer *peer, const struct record *record, const void *payload, uint32_t length);
void remote_get(struct peer *peer, const struct record *record, const void *payload, uint32_t length);
void remote_atomic(struct peer *peer, const struct record *record, const void *payload, uint32_t length);
void remote_reply(struct peer *peer, const struct record *record, const void *payload, uint32_t length);

/* Give an unexpected message that is in no queue to a posted receive, if one matches. */
bool unexpected_offer(struct thole_message *unexpected);

/* The peer whose message this is, if it is handed out to be screened; else NULL. */
static inline struct peer *unexpected_screened(const struct thole_message *unexpected)
{
	return unexpected->screened ? unexpected->peer : NULL;
}

/* That message has been given back, and perhaps freed; peer: NULL, if it was not screened. */
void screen_back(struct peer *peer);

/* An unexpected message's data has all arrived (or will not). */
void unexpected_done(struct thole_message *unexpected, int status);

/* The fetch of one that has no receive yet has ended. */
void unexpected_fetched(struct thole_request *request, int status);

#endif
