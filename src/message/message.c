/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message: the table of record kinds, outgoing requests, and streams of pieces.
 *
 * An outgoing request is a record and perhaps data; message_emit hands both to the transport, in pieces
 * that follow each other directly. What happens then is its row's `emitted`. Invariant: pieces of one request are never
 * interleaved with another record of this layer, so a peer has one stream.
 *
 * Eager and rendezvous after MPICH-PM/CLUMP, section 2.2; the receiver fetches, as its get protocol
 * (section 4.3) and Open-MX's pull (section 2.3).
 */
#include <stdlib.h>
#include <string.h>

#include "message/internal.h"
#include "message/message.h"

enum {
	LOOK_TURNS = 32, /* a link is looked at in one of several */
};

/* ---- What happens to a request that has been handed over ----------------------------------------- */

/* Wait for the peer: on its pending list in this state. */
static void message_pend(struct thole_request *request, enum request_state state)
{
	request->state = (uint8_t)state;
	list_push_back(&request->peer->pending, &request->node);
}

static void emitted_eager(struct thole_request *request)
{
	if (request->answered)
		request_complete(request, request->status);
	else if (request->record.flags & RECORD_SYNC)
		message_pend(request, REQUEST_WAITING);
	else
		request_complete(request, 0);
}

static void emitted_wait(struct thole_request *request)
{
	if (request->answered)
		request_complete(request, request->status);
	else
		message_pend(request, REQUEST_WAITING);
}

/* From here on the request's memory is where the former values go. */
static void emitted_atomic(struct thole_request *request)
{
	request->segment = request->result;
	request->vector = (struct vector){&request->segment, 1, request->result.iov_len};
	emitted_wait(request);
}

static void emitted_control(struct thole_request *request)
{
	request_free(request);
}

/* A REPLY that offers a window waits until the peer has fetched it. */
static void emitted_reply(struct thole_request *request)
{
	if (request->record.flags & RECORD_WINDOW)
		message_pend(request, REQUEST_WAITING);
	else
		remote_answered(request, 0);
}

/* Why less was fetched than the RTS had offered, if it was. */
static int fetched_short(const struct thole_request *request)
{
	return request->operation == THOLE_OP_RECEIVE && request->message_length > request->fetch.window.length
		       ? THOLE_ERR_TRUNCATED
		       : 0;
}

/* What was fetched to memory of ours, since its transport needs memory, goes where the program's functions put it. */
static void message_lay_out(struct thole_request *request, int status)
{
	struct vector laid_out = vector_of_layout(request->layout, request->layout->length);

	if (!status)
		vector_write(&laid_out, 0, request->owned_data, request->fetch.window.length);
	request->vector = laid_out;
}

/* A request's data has arrived, by pieces or bulk, or will not. */
static void message_fetched(struct thole_request *request, int status)
{
	if (__builtin_expect(request->operation == THOLE_OP_RECEIVE && request->owned_data, 0))
		message_lay_out(request, status);
	if (request->state == REQUEST_FETCHING) {
		request->endpoint->fetching--;
		/* Where the data was fetched its owner waits for a word; a put's owner gets a REPLY. */
		if (request->operation != THOLE_OP_REMOTE_PUT)
			message_finish(request->peer, request->fetch.window.id,
				       status ? status : fetched_short(request),
				       status ? 0 : request->fetch.window.length);
	}
	if (request->operation == THOLE_OP_RECEIVE)
		receive_done(request, status);
	else if (request->operation == OPERATION_UNEXPECTED)
		unexpected_fetched(request, status);
	else
		remote_done(request, status);
}

/* The next bytes of a message; there are so many left. */
static void stream_take(struct stream *stream, const void *payload, uint32_t length)
{
	struct thole_request *request = stream->request;
	struct thole_message *unexpected = stream->unexpected;

	stream->left -= length;
	if (request) {
		uint64_t capacity = request->vector.length;

		if (request->offset < capacity)
			vector_write(&request->vector, request->offset, payload,
				     length < capacity - request->offset ? length : capacity - request->offset);
		request->offset += length;
	} else if (unexpected) {
		memcpy(unexpected->data + unexpected->arrived, payload, length);
		unexpected->arrived += length;
	}
}

/* Nothing is left: all has come. */
static void stream_ended(struct peer *peer)
{
	struct thole_request *request = peer->stream.request;
	struct thole_message *unexpected = peer->stream.unexpected;

	peer->stream = (struct stream){0};
	if (request) {
		list_remove(&request->node);
		message_fetched(request, 0);
	} else if (unexpected) {
		unexpected_done(unexpected, 0);
	}
}

static void arrived_piece(struct peer *peer, const struct record *record, const void *payload, uint32_t length)
{
	(void)record;
	if (length == 0 || length > peer->stream.left) {
		message_bad(peer);
		return;
	}
	stream_take(&peer->stream, payload, length);
	if (peer->stream.left == 0)
		stream_ended(peer);
}

int message_status(int status)
{
	return status <= 0 && status > -THOLE_ERR_COUNT ? status : THOLE_ERR_PROTOCOL;
}

bool message_answer_early(struct thole_request *request, enum record_kind kind, int status)
{
	if (!request || request->state != REQUEST_BACKLOG || !request->head_sent || request->answered ||
	    request->record.kind != kind)
		return false;
	request->answered = true;
	request->status = message_status(status);
	return true;
}

/* How a send has ended whose data was to be fetched. A receiver that wants less of it is none of the sender's
 * business. But who has taken less and does not say why (with mxoe nobody can) may have lost the rest, or speak of
 * another message. */
static int fetch_outcome(struct thole_request *request, uint64_t imm)
{
	int status = message_status(finish_status(imm));
	uint64_t bytes = finish_bytes(imm);

	if (request->record.kind != RECORD_RTS || status == THOLE_ERR_TRUNCATED)
		return status == THOLE_ERR_TRUNCATED ? 0 : status;
	if (!status && bytes > request->vector.length)
		return THOLE_ERR_PROTOCOL;
	request->message_length = bytes;
	return !status && bytes < request->vector.length ? THOLE_ERR_TRUNCATED : status;
}

/* The owner's side of a rendezvous, and of a synchronous send, ends. */
static void arrived_finish(struct peer *peer, const struct record *record, const void *payload, uint32_t length)
{
	struct thole_request *request = request_find(peer, record->tag);

	(void)payload;
	(void)length;
	if (message_answer_early(request, RECORD_EAGER, finish_status(record->imm)))
		return;
	if (!request || request->state != REQUEST_WAITING ||
	    (request->record.kind != RECORD_EAGER && request->record.kind != RECORD_RTS &&
	     request->record.kind != RECORD_REPLY)) {
		message_bad(peer);
		return;
	}
	list_remove(&request->node);
	message_window_end(request);
	if (request->record.kind == RECORD_REPLY)
		remote_answered(request, message_status(finish_status(record->imm)));
	else
		request_complete(request, fetch_outcome(request, record->imm));
}

struct message_kind {
	const char *name;
	void (*arrived)(struct peer *peer, const struct record *record, const void *payload, uint32_t length);
	void (*emitted)(struct thole_request *request);
};

static const struct message_kind kinds[RECORD_MESSAGE_KINDS] = {
	[RECORD_EAGER] = {"eager", receive_eager, emitted_eager},
	[RECORD_PIECE] = {"piece", arrived_piece, NULL},
	[RECORD_RTS] = {"rts", receive_rts, emitted_wait},
	[RECORD_FINISH] = {"finish", arrived_finish, emitted_control},
	[RECORD_PUT] = {"put", remote_put, emitted_wait},
	[RECORD_GET] = {"get", remote_get, emitted_wait},
	[RECORD_ATOMIC] = {"atomic", remote_atomic, emitted_atomic},
	[RECORD_REPLY] = {"reply", remote_reply, emitted_reply},
};

/* All but messages that come as a whole, and what no correct peer sends. */
__attribute__((noinline)) static void message_arrived_other(struct peer *peer, const struct record *record,
							    const void *payload, uint32_t length)
{
	const struct transport *transport = peer->base.transport;
	unsigned kind = record->kind;

	if (peer->base.gone) /* since a record before this one, of the same burst */
		return;
	if (kind == RECORD_CARD && transport->word) {
		transport->word(&peer->base, record, payload, length);
		return;
	}
	if (kind == RECORD_NONE || kind >= RECORD_CARD) {
		message_bad(peer);
		return;
	}
	if (peer->stream.left > 0 && kind != RECORD_PIECE) {
		message_bad(peer);
		message_stream_lost(peer, THOLE_ERR_PROTOCOL);
	}
	kinds[kind].arrived(peer, record, payload, length);
}

void message_arrived(struct transport_peer *base, const struct record *record, const void *payload, uint32_t length)
{
	struct peer *peer = peer_of(base);

	if (__builtin_expect(record->kind == RECORD_EAGER && peer->stream.left == 0 && !peer->base.gone, 1))
		receive_eager(peer, record, payload, length);
	else
		message_arrived_other(peer, record, payload, length);
}

void message_pieces(struct transport_peer *base, const void *payload, size_t step, uint32_t count, uint32_t length,
		    uint32_t last)
{
	static const struct record piece = {.kind = RECORD_PIECE, .length = RECORD_EXTERNAL};
	uint64_t bytes = (uint64_t)(count - 1) * length + last;
	struct peer *peer = peer_of(base);
	const char *at = payload;

	if (length == 0 || last == 0 || bytes > peer->stream.left) { /* no correct peer's: each is judged by itself */
		for (uint32_t i = 0; i < count && !base->gone; i++, at += step)
			message_arrived(base, &piece, at, i + 1 < count ? length : last);
		return;
	}
	for (uint32_t i = 0; i < count; i++, at += step)
		stream_take(&peer->stream, at, i + 1 < count ? length : last);
	if (peer->stream.left == 0)
		stream_ended(peer);
}

/* ---- Outgoing ----------------------------------------------------------------------------------- */

void message_rts(struct thole_request *request)
{
	struct window window;

	endpoint_count(request->endpoint, COUNTER_SENT_RENDEZVOUS);
	message_window(request, &window);
	if (request->record.flags & RECORD_NOTIFY)
		request->record.flags &= (uint8_t)~RECORD_SYNC; /* the end of its fetch says so */
	if (window.length <= request->endpoint->base.options.eager_max)
		request->record.flags |= RECORD_UNASKED;
	request->payload = 0;
	request->record.kind = RECORD_RTS;
	request->record.length = RECORD_EXTERNAL;
	window_store(&window, &request->record);
}

int message_emit_pieces(struct peer *peer, struct record *record, const struct vector *vector, uint64_t payload,
			uint64_t *offset_p, bool *head_sent_p)
{
	static const struct record piece = {.kind = RECORD_PIECE};
	const struct transport *transport = peer->base.transport;

	while (!*head_sent_p || *offset_p < payload) {
		uint64_t left = payload - *offset_p;
		uint32_t piece_max = transport->piece_max(&peer->base, left);
		uint32_t length = left < piece_max ? (uint32_t)left : piece_max;
		int error;

		if (!*head_sent_p && length < payload)
			record->flags |= RECORD_MORE;
		error = transport->push(&peer->base, *head_sent_p ? &piece : record, vector, *offset_p, length);
		if (error)
			return error;
		*head_sent_p = true;
		*offset_p += length;
		if (*offset_p < payload)
			message_transmit(peer); /* it is on its way while the next one is made */
	}
	return 0;
}

/* Whether all of a message comes as one record: only of such a one it is seen when all is here. */
static bool message_is_whole(struct peer *peer, uint64_t length)
{
	const struct transport *transport = peer->base.transport;

	return length <= transport->piece_max(&peer->base, length) &&
	       (!transport->record_max || length <= transport->record_max(&peer->base));
}

int message_emit(struct thole_request *request)
{
	/* The receiver may have asked for an RTS while this one waited, or just now: it writes that at any time. But
	 * what is THOLE_INJECT, and was not copied since it was to leave in this call, does not stay behind. */
	if (!request->head_sent && request->record.kind == RECORD_EAGER && request->payload > RECORD_INLINE_MAX &&
	    (request->owned_data || !(request->flags & THOLE_INJECT)) &&
	    !message_is_eager(request->peer, request->payload))
		message_rts(request);
	if (!request->head_sent && (request->flags & THOLE_ARRIVED) && (request->record.flags & RECORD_SYNC) &&
	    !message_is_whole(request->peer, request->payload))
		message_rts(request);
	return message_emit_pieces(request->peer, &request->record, &request->vector, request->payload,
				   &request->offset, &request->head_sent);
}

void message_emitted(struct thole_request *request)
{
	if (request->record.kind >= RECORD_MESSAGE_KINDS) /* a transport's own, from message_control */
		emitted_control(request);
	else
		kinds[request->record.kind].emitted(request);
}

int message_submit(struct thole_request *request)
{
	struct peer *peer = request->peer;

	if (!peer->backlog_count && peer->base.connected) {
		int error = message_emit(request);

		if (!error)
			message_emitted(request);
		message_transmit(peer);
		if (!error)
			return 0;
	}
	if ((request->flags & THOLE_INJECT) && !request->owned_data && request->payload > 0) {
		int error = request_own_data(request);

		if (error && !request->head_sent)
			return error;
		if (error) { /* its front is out, and nothing else may follow it */
			peer_backlog(request);
			peer_lost(request->peer, THOLE_ERR_MEMORY);
			return 0;
		}
	}
	peer_backlog(request);
	return 0;
}

/* The peer for a new operation, connecting to it on first use. Errors as thole_send. */
static int message_peer(struct thole_endpoint *endpoint, uint32_t index, struct peer **peer_p)
{
	struct peer *peer = endpoint_peer(endpoint, index);
	int error;

	if (!peer)
		return error_set(THOLE_ERR_NOT_FOUND, "there is no peer %u: thole_peer makes one of an address",
				 index);
	error = peer->base.gone ? 0 : message_reach(peer);
	if (error)
		return error; /* with its reason */
	if (peer->base.gone)
		return peer_gone(peer);
	if (peer->backlog_count >= endpoint->base.options.sends_max)
		return error_set(THOLE_ERR_AGAIN, "%u operations to peer %u wait for room: make progress, or "
				 "raise the option sends_max", peer->backlog_count, index);
	*peer_p = peer;
	return 0;
}

/* A new request on a peer, whose vector is empty. */
static int message_request_new(struct thole_endpoint *endpoint, uint32_t index, enum thole_operation operation,
			       unsigned flags, void *context, struct thole_request **request_p)
{
	struct peer *peer = NULL;
	int error = message_peer(endpoint, index, &peer);

	if (error)
		return error;
	*request_p = request_new(endpoint, operation, context, flags);
	if (!*request_p)
		return error_set(THOLE_ERR_MEMORY, "no memory for another request");
	(*request_p)->peer = peer;
	return 0;
}

/* It has its vector, but for an error: whether such a message may go to its peer. */
static int message_request_ready(struct thole_request *request, int error)
{
	const struct peer *peer = request->peer;

	if (!error && request->vector.length > peer->limits.length_max)
		error = error_set(THOLE_ERR_ARGUMENT, "a message to this peer has at most %llu bytes, not %llu",
				  (unsigned long long)peer->limits.length_max,
				  (unsigned long long)request->vector.length);
	if (!error && peer->limits.messages_only &&
	    (request->operation != THOLE_OP_SEND || (request->flags & (THOLE_IMM | THOLE_PLAIN))))
		error = error_set(THOLE_ERR_UNSUPPORTED,
				  "the frames of peer %u (option codec) carry tagged messages without "
				  "immediate data, and nothing else",
				  peer->base.index);
	if (error)
		request_free(request);
	return error;
}

int message_request(struct thole_endpoint *endpoint, uint32_t index, enum thole_operation operation,
		    const struct iovec *segments, size_t count, unsigned flags, void *context,
		    struct thole_request **request_p)
{
	int error = message_request_new(endpoint, index, operation, flags, context, request_p);

	if (error)
		return error;
	error = count > THOLE_SEGMENTS_MAX ? error_set(THOLE_ERR_ARGUMENT, "a vector has at most %d segments, not %zu",
						       THOLE_SEGMENTS_MAX, count)
					   : request_set_vector(*request_p, segments, count);
	return message_request_ready(*request_p, error);
}

int message_request_layout(struct thole_endpoint *endpoint, uint32_t index, const struct thole_layout *layout,
			   unsigned flags, void *context, struct thole_request **request_p)
{
	int error = message_request_new(endpoint, index, THOLE_OP_SEND, flags, context, request_p);

	return error ? error : message_request_ready(*request_p, request_set_layout(*request_p, layout));
}

/* What was pushed since the poll began goes out, in one burst. */
static int message_uncork(struct thole_endpoint *endpoint)
{
	int n = 0;

	endpoint->corked = false;
	for (uint32_t left = endpoint->base.polled; left; left &= left - 1) {
		const struct transport *transport = transports[__builtin_ctz(left)];

		if (transport->transmit)
			n += transport->transmit(&endpoint->base);
	}
	return n; /* who sends has no time to sleep */
}

int message_poll(struct thole_endpoint *endpoint)
{
	int n = 0;

	endpoint->corked = true;
	endpoint->base.tight = false;
	for (uint32_t left = endpoint->base.polled; left; left &= left - 1)
		n += transports[__builtin_ctz(left)]->progress(&endpoint->base);
	if (!list_empty(&endpoint->backlogged))
		n += peer_backlog_push(endpoint);
	return n + message_uncork(endpoint);
}

void message_make_room(struct thole_endpoint *endpoint)
{
	message_poll(endpoint);
	transport_rouse(&endpoint->base, 0);
}

/* There was no room, or it waits behind what found none. That there is some again may have come already, and its user
 * may look at nothing for long: look now, and again each time that twice as much waits. */
static void message_look(struct peer *peer)
{
	if (peer->backlog_count & (peer->backlog_count - 1))
		return;
	for (int turn = 0; turn < LOOK_TURNS && peer->backlog_count; turn++)
		message_poll(peer->endpoint);
}

int message_start(struct thole_request *request, struct thole_request **request_p)
{
	struct peer *peer = request->peer;
	uint64_t length = request->vector.length;
	int error;

	request->handle = request_p != NULL;
	error = message_submit(request);
	if (error) {
		request_free(request);
		return error;
	}
	if (request_p)
		*request_p = request;
	endpoint_carry(peer->endpoint, peer, length); /* the request may have ended */
	if (peer->backlog_count)
		message_look(peer);
	else if (peer->endpoint->base.tight)
		message_make_room(peer->endpoint);
	return 0;
}

static int message_connect(struct peer *peer)
{
	int error = peer->base.transport->connect(&peer->base);

	peer->base.connected = error == 0;
	return error;
}

int message_reach(struct peer *peer)
{
	int error;

	if (peer->base.gone)
		return peer->base.gone_status;
	if (peer->base.connected)
		return 0;
	error = message_connect(peer);
	if (error)
		transport_trouble(&peer->endpoint->base);
	return error;
}

static int connect_start(struct thole_endpoint *endpoint, uint32_t index, uint64_t key, void *context,
			 struct thole_request **request_p)
{
	struct peer *peer = endpoint_peer(endpoint, index);
	struct thole_request *request;
	int error = 0;

	if (peer && !peer->base.gone && peer->base.transport->key)
		error = peer->base.transport->key(&peer->base, key);
	if (!error)
		error = message_peer(endpoint, index, &peer);
	if (error)
		return error;
	request = request_new(endpoint, THOLE_OP_CONNECT, context, 0);
	if (!request)
		return error_set(THOLE_ERR_MEMORY, "no memory for another request");
	request->peer = peer;
	request->segment = (struct iovec){NULL, 0};
	request->handle = request_p != NULL;
	if (request_p)
		*request_p = request;
	if (peer->base.transport->connected(&peer->base))
		request_complete(request, 0);
	else
		message_pend(request, REQUEST_CONNECTING);
	message_transmit(peer);
	return 0;
}

int thole_connect(struct thole_endpoint *endpoint, uint32_t peer, uint64_t key, void *context,
		  struct thole_request **request_p)
{
	int error;

	endpoint_lock(endpoint);
	error = connect_start(endpoint, peer, key, context, request_p);
	endpoint_unlock(endpoint);
	return error;
}

/* Whether something is wanting here, of which the peer is none the worse. */
static bool message_wants(int error)
{
	return error == THOLE_ERR_SYSTEM || error == THOLE_ERR_MEMORY;
}

void message_reach_back(struct peer *peer)
{
	int error = 0;

	if (!peer->base.gone && !peer->base.connected && !peer->backlog_count)
		error = message_connect(peer);
	if (error && !(message_wants(error) && peer->wanting))
		transport_trouble(&peer->endpoint->base);
	if (message_wants(error)) {
		peer->wanting = true;
		peer->wanting_ns = 0;
		peer->endpoint->unanswered = true;
	} else if (error && !peer->base.gone) {
		peer_lost(peer, error);
	}
}

void message_reach_unanswered(struct thole_endpoint *endpoint, uint64_t now_ns)
{
	struct list_node *end = &endpoint->backlogged, *node = end->next;
	struct peer *peer;
	int error;

	while (node != end && container_of(node, struct peer, backlogged_node)->base.connected)
		node = node->next;
	endpoint->unanswered = node != end;
	if (node == end)
		return;
	list_remove(node);
	list_push_back(end, node); /* another one is the first next time */
	peer = container_of(node, struct peer, backlogged_node);
	if (peer->wanting_ns == 0)
		peer->wanting_ns = now_ns;
	error = message_connect(peer);
	if (!error || peer->base.gone ||
	    (message_wants(error) && now_ns - peer->wanting_ns < endpoint->base.options.peer_timeout))
		return;
	peer_lost(peer, error);
}

void message_control(struct peer *peer, const struct record *record)
{
	struct thole_request *request;

	message_reach_back(peer);
	if (peer->base.gone)
		return;
	if (!peer->backlog_count && peer->base.connected &&
	    peer->base.transport->push(&peer->base, record, NULL, 0, 0) == 0) {
		message_transmit(peer);
		return;
	}
	request = request_new(peer->endpoint, (enum thole_operation)0, NULL, 0);
	if (!request) {
		peer_lost(peer, THOLE_ERR_MEMORY); /* it would wait for this record for ever */
		return;
	}
	request->peer = peer;
	request->record = *record;
	peer_backlog(request);
}

void message_finish(struct peer *peer, uint64_t id, int status, uint64_t bytes)
{
	struct record record = {.kind = RECORD_FINISH, .tag = id, .imm = finish_pack(status, bytes)};

	message_control(peer, &record);
}

void message_window(const struct thole_request *request, struct window *window_p)
{
	window_p->length = request->vector.length;
	window_p->count = (uint32_t)request->vector.count;
	window_p->address = (uintptr_t)(request->vector.count == 1 ? request->vector.segments[0].iov_base
								   : (const void *)request->vector.segments);
	if (request->vector.count == 0)
		window_p->address = 0; /* a layout is no memory of the message's */
	window_p->id = request_id(request);
}

/* ---- Streams ------------------------------------------------------------------------------------ */

void message_stream(struct peer *peer, struct thole_request *request, const void *payload, uint32_t length,
		    uint64_t total)
{
	uint64_t capacity = request->vector.length;
	uint64_t fits = length < capacity ? length : capacity;

	vector_write(&request->vector, 0, payload, fits);
	if (length == total) {
		message_fetched(request, 0);
		return;
	}
	request->offset = length;
	request->peer = peer;
	message_pend(request, REQUEST_STREAMING);
	peer->stream = (struct stream){.request = request, .left = total - length};
}

void message_stream_lost(struct peer *peer, int status)
{
	struct stream stream = peer->stream;

	peer->stream = (struct stream){0};
	if (stream.request) {
		list_remove(&stream.request->node);
		message_fetched(stream.request, status);
	} else if (stream.unexpected) {
		unexpected_done(stream.unexpected, status);
	}
}

/* Fetch a window of this endpoint's own: it needs no transport, and takes one copy. False: there is none of that id. */
static bool message_fetch_own(struct thole_request *request)
{
	struct transport_peer *own = &request->peer->base;
	const struct window *window = &request->fetch.window;
	const struct vector *from = own->owner->up->window(own, window->id);
	uint64_t length = request->vector.length < window->length ? request->vector.length : window->length;

	if (!from || from->length < length)
		return false;
	vector_copy(&request->vector, from, length);
	message_fetched(request, 0);
	return true;
}

/* Memory in place of a layout, for what is fetched. */
static bool message_take_memory(struct thole_request *request)
{
	uint64_t length = request->fetch.window.length;

	request->owned_data = spare_get(&request->endpoint->spares, length);
	if (!request->owned_data)
		return false;
	request->layout = vector_layout(&request->vector);
	request->segment = (struct iovec){request->owned_data, length};
	request->vector = (struct vector){&request->segment, 1, length};
	return true;
}

static void message_fetch_from(struct peer *peer, struct thole_request *request)
{
	const struct transport *transport = peer->base.transport;

	if (vector_has_layout(&request->vector) && !transport->layouts && !message_take_memory(request))
		message_fetched(request, THOLE_ERR_MEMORY);
	else
		transport->fetch(&request->fetch);
}

void message_fetch(struct thole_request *request, const struct window *window)
{
	struct peer *peer = request->peer; /* the request may be over when fetch returns */

	request->fetch.peer = &peer->base;
	request->fetch.vector = &request->vector;
	request->fetch.window = *window;
	request->fetch.pace = request->pace;
	request->state = REQUEST_FETCHING;
	peer->endpoint->fetching++;
	if (!transport_is_own(&peer->base) || !message_fetch_own(request))
		message_fetch_from(peer, request);
	message_transmit(peer);
}

void message_bulk_fetched(struct transport_fetch *fetch, int status)
{
	message_fetched(container_of(fetch, struct thole_request, fetch), status);
}
