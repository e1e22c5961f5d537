/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send: what thole_send and thole_sendv do: a message goes as one record without a request (the short way), as a
 * request that is eager, or as an RTS.
 *
 * Does not own what happens to requests (message.c). Either way a message keeps its place among those to its peer: the
 * short way is taken only where nothing waits. A send that fails has sent nothing.
 */
#include <string.h>

#include "message/internal.h"
#include "message/message.h"

enum { SEND_SHORT_MAX = 12 * 1024 }; /* what may go as one piece, if the transport agrees */

/* What a send is asked for, but its data. */
struct sending {
	uint64_t tag, imm;
	void *context;
	uint32_t peer;
	unsigned flags;
};

/* A send of one piece ended inside the call that started it, and somebody wants to know. */
__attribute__((noinline)) static int send_complete(struct thole_endpoint *endpoint, const struct sending *send,
						const void *buffer, size_t length, struct thole_request **request_p)
{
	struct thole_request *request;

	if (!request_p) {
		endpoint_complete(endpoint, &(struct thole_completion){.context = send->context, .tag = send->tag,
								       .imm = send->imm, .length = length,
								       .message_length = length,
								       .buffer = (void *)(uintptr_t)buffer,
								       .peer = send->peer, .flags = send->flags,
								       .operation = THOLE_OP_SEND});
		return 0;
	}
	request = request_new(endpoint, THOLE_OP_SEND, send->context, send->flags);
	if (!request)
		return THOLE_ERR_MEMORY;
	request->tag = send->tag;
	request->imm = send->imm;
	request->vector.length = length;
	request->segment = (struct iovec){(void *)(uintptr_t)buffer, length};
	request->peer = endpoint->peers[send->peer];
	request->handle = true;
	*request_p = request;
	request_complete(request, 0);
	return 0;
}

/* Start a request that has its data. */
static int send_request(struct thole_endpoint *endpoint, const struct sending *send, struct thole_request *request,
			struct thole_request **request_p)
{
	unsigned flags = send->flags;
	uint8_t answer = flags & THOLE_SYNC ? RECORD_SYNC : flags & THOLE_ARRIVED ? RECORD_ARRIVED : 0;
	bool eager;
	int error;

	request->tag = send->tag;
	request->imm = send->imm;
	request->record = (struct record){
		.kind = RECORD_EAGER,
		.flags = (uint8_t)((flags & THOLE_IMM ? RECORD_IMM : 0) | (flags & THOLE_PLAIN ? RECORD_PLAIN : 0)),
		.length = RECORD_EXTERNAL,
		.tag = send->tag,
		.imm = send->imm,
	};
	/* Where only messages exist, the end of a rendezvous' fetch is the one sign that it matched. */
	eager = message_is_eager(request->peer, request->vector.length) && !vector_has_layout(&request->vector) &&
		!((flags & THOLE_SYNC) && request->peer->limits.messages_only);
	if (answer == RECORD_ARRIVED && request->peer->limits.messages_only)
		answer = 0; /* there is none */
	/* Of what may be fetched: where it goes as an RTS now, or proves to be more than one piece (message_emit). */
	if ((flags & THOLE_INJECT) && !request->owned_data &&
	    (!eager || (answer && (flags & THOLE_ARRIVED) && request->vector.length > RECORD_INLINE_MAX))) {
		error = request_own_data(request);
		if (error) {
			request_free(request);
			return error;
		}
	}
	request->record.flags |= answer;
	if (!eager) {
		message_rts(request);
		return message_start(request, request_p);
	}
	endpoint_count(endpoint, COUNTER_SENT_EAGER);
	request->payload = request->vector.length;
	request->record.arg[0] = request->payload;
	request->record.arg[2] = request_id(request);
	if (!answer)
		request->record.length = 0; /* no args: short data goes into the record */
	return message_start(request, request_p);
}

__attribute__((noinline)) static int send_vector(struct thole_endpoint *endpoint, const struct sending *send,
						 const struct iovec *segments, size_t count,
						 struct thole_request **request_p)
{
	struct thole_request *request;
	int error = message_request(endpoint, send->peer, THOLE_OP_SEND, segments, count, send->flags, send->context,
				    &request);

	return error ? error : send_request(endpoint, send, request, request_p);
}

/* Where its peer cannot be served from a layout, it is packed now. */
static int send_layout(struct thole_endpoint *endpoint, const struct sending *send, const struct thole_layout *layout,
		       struct thole_request **request_p)
{
	struct thole_request *request;
	int error = message_request_layout(endpoint, send->peer, layout, send->flags, send->context, &request);

	if (error)
		return error;
	if (vector_has_layout(&request->vector) && !request->peer->base.transport->layouts)
		error = request_own_data(request);
	if (error) {
		request_free(request);
		return error;
	}
	return send_request(endpoint, send, request, request_p);
}

/* All pieces of a message that is sure to find room: no request is made that would end in this call. */
static int send_pieces(struct peer *peer, struct record *record, const struct vector *vector)
{
	const struct transport *transport = peer->base.transport;
	bool head_sent = false;
	uint64_t offset = 0;
	int error;

	if (!transport->fits || !transport->fits(&peer->base, vector->length))
		return THOLE_ERR_AGAIN;
	record->arg[0] = vector->length;
	error = message_emit_pieces(peer, record, vector, vector->length, &offset, &head_sent);
	if (error && head_sent) { /* its front is out, and nothing else may follow it */
		peer_lost(peer, THOLE_ERR_MEMORY);
		error = 0;
	}
	return error;
}

/* One piece as a record with its data, or several. */
__attribute__((noinline)) static int send_record(struct peer *peer, uint8_t flags, uint64_t tag, uint64_t imm,
						 const void *buffer, size_t length)
{
	const struct iovec segment = {(void *)(uintptr_t)buffer, length};
	struct record record = {.kind = RECORD_EAGER, .flags = flags, .tag = tag, .imm = imm};

	if (length <= RECORD_INLINE_MAX) {
		record.length = (uint16_t)length;
		bytes_copy_few(record.payload, buffer, length);
		return peer->base.transport->push(&peer->base, &record, NULL, 0, 0);
	}
	if (!message_is_eager(peer, length))
		return THOLE_ERR_AGAIN;
	if (length > SEND_SHORT_MAX || length > peer->base.transport->piece_max(&peer->base, length))
		return send_pieces(peer, &record, &(struct vector){&segment, 1, length});
	return peer->base.transport->push(&peer->base, &record, &(struct vector){&segment, 1, length}, 0,
					  (uint32_t)length);
}

/* The short way for one piece: no request is made. False: take the other way. `send` is a value, so it stays in
 * registers. */
static inline bool send_short(struct thole_endpoint *endpoint, struct sending send, const void *buffer,
			      size_t length, struct thole_request **request_p, int *error_p)
{
	struct peer *peer = endpoint_peer(endpoint, send.peer);
	const struct transport *transport;
	unsigned flags = send.flags;
	uint8_t carried = (uint8_t)((flags & THOLE_IMM ? RECORD_IMM : 0) | (flags & THOLE_PLAIN ? RECORD_PLAIN : 0));
	int error;

	if ((flags & (THOLE_SYNC | THOLE_ARRIVED)) || !peer || !peer->base.connected || peer->backlog_count ||
	    peer->base.gone || (carried && __builtin_expect(peer->limits.messages_only, 0)))
		return false;
	if ((request_p || !endpoint->complete) && !endpoint->requests.free && pool_grow(&endpoint->requests) != 0)
		return false; /* its end needs one to be told by, and nothing may leave without */
	transport = peer->base.transport;
	if (__builtin_expect(length < transport->short_end, 1) && message_is_eager(peer, length))
		error = transport->push_short(&peer->base, carried, send.tag, send.imm, buffer, (uint32_t)length);
	else
		error = send_record(peer, carried, send.tag, send.imm, buffer, length);
	if (error)
		return false;
	message_transmit(peer);
	endpoint_count(endpoint, COUNTER_SENT_EAGER);
	endpoint_carry(endpoint, peer, length);
	*error_p = 0;
	if (!request_p && (flags & THOLE_AT_ONCE))
		*error_p = 1;
	else if (request_p || !(flags & THOLE_QUIET))
		*error_p = send_complete(endpoint,
					 &(struct sending){send.tag, send.imm, send.context, send.peer, flags},
					 buffer, length, request_p);
	if (__builtin_expect(endpoint->base.tight, 0))
		message_make_room(endpoint);
	return true;
}

int thole_send(struct thole_endpoint *endpoint, uint32_t peer, const void *buffer, size_t length, uint64_t tag,
	       uint64_t imm, unsigned flags, void *context, struct thole_request **request_p)
{
	struct sending send = {tag, imm, context, peer, flags};
	int error;

	endpoint_lock(endpoint);
	if (!send_short(endpoint, send, buffer, length, request_p, &error))
		error = flags & THOLE_OR_NOT ? THOLE_ERR_AGAIN
					     : send_vector(endpoint, &(struct sending){tag, imm, context, peer, flags},
							   &(struct iovec){(void *)(uintptr_t)buffer, length}, 1,
							   request_p);
	endpoint_unlock(endpoint);
	return error;
}

int thole_sendv(struct thole_endpoint *endpoint, uint32_t peer, const struct iovec *segments, size_t count,
		uint64_t tag, uint64_t imm, unsigned flags, void *context, struct thole_request **request_p)
{
	int error;

	if (flags & THOLE_OR_NOT)
		return THOLE_ERR_AGAIN; /* what is sent at once is of one piece */
	endpoint_lock(endpoint);
	error = send_vector(endpoint, &(struct sending){tag, imm, context, peer, flags}, segments, count, request_p);
	endpoint_unlock(endpoint);
	return error;
}

int thole_send_layout(struct thole_endpoint *endpoint, uint32_t peer, const struct thole_layout *layout, uint64_t tag,
		      uint64_t imm, unsigned flags, void *context, struct thole_request **request_p)
{
	int error;

	if (flags & THOLE_OR_NOT)
		return THOLE_ERR_AGAIN; /* likewise */
	endpoint_lock(endpoint);
	error = send_layout(endpoint, &(struct sending){tag, imm, context, peer, flags}, layout, request_p);
	endpoint_unlock(endpoint);
	return error;
}
