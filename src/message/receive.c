/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive: posted receives, messages that arrive before them, and delivery.
 *
 * An unexpected message holds its data, if it came with data, else only its RTS. The data that an endpoint holds is
 * bounded: from unexpected_max on it asks its senders for RTS only (backpressure), until half of it is free again. What
 * was under way by then is at most a ring for each sender.
 */
#include <stdlib.h>
#include <string.h>

#include "message/internal.h"
#include "message/message.h"

/* ---- Delivery into a matched receive ------------------------------------------------------------- */

void receive_done(struct thole_request *request, int status)
{
	if (!status && request->message_length > request->vector.length) {
		endpoint_count(request->endpoint, COUNTER_TRUNCATED);
		status = THOLE_ERR_TRUNCATED;
	}
	endpoint_count(request->endpoint, COUNTER_RECEIVED);
	request_complete(request, status);
}

/* The part of a MULTI receive that the next message goes to. The buffer stays posted while multi_min is left. */
static struct thole_request *receive_part(struct thole_request *parent, uint64_t total)
{
	struct thole_endpoint *endpoint = parent->endpoint;
	struct thole_request *part = request_new(endpoint, THOLE_OP_RECEIVE, parent->context, parent->flags);
	uint64_t room = parent->vector.length - parent->offset;

	if (!part)
		return NULL;
	part->segment = (struct iovec){(char *)parent->segment.iov_base + parent->offset, total < room ? total : room};
	part->vector.length = part->segment.iov_len;
	part->queue = parent->queue;
	part->parent = parent;
	parent->offset += part->vector.length;
	parent->parts++;
	room -= part->vector.length;
	if (room == 0 || room < endpoint->base.options.multi_min) {
		parent->retired = true;
		if (parent->state == REQUEST_POSTED) {
			match_withdraw(&endpoint->match[parent->queue], &parent->match);
			endpoint->multi_posted--;
		}
		parent->state = REQUEST_PARENT;
	}
	return part;
}

/* The receive that a message goes to, out of the queue; a part of it where it takes several. A buffer that there is no
 * memory to make a part of takes none any more: what comes later would overtake this one. */
static inline struct thole_request *receive_match(struct peer *peer, const struct record *record, uint64_t total)
{
	struct thole_endpoint *endpoint = peer->endpoint;
	struct match *match = &endpoint->match[record->flags & RECORD_PLAIN ? MATCH_PLAIN : MATCH_TAGGED];
	uint64_t tag = record->flags & RECORD_PLAIN ? 0 : record->tag;
	struct match_receive *found;

	while ((found = match_arrive_peek(match, peer->base.index, tag))) {
		struct thole_request *request = container_of(found, struct thole_request, match), *part;

		if (__builtin_expect(!(request->flags & THOLE_MULTI), 1)) {
			match_withdraw(match, found);
			return request;
		}
		part = receive_part(request, total);
		if (part)
			return part;
		request_give_up(request, THOLE_ERR_MEMORY);
	}
	return NULL;
}

/* The same for a message that arrives. */
static inline struct thole_request *receive_arrive(struct peer *peer, const struct record *record, uint64_t total)
{
	if (__builtin_expect(peer->endpoint->screened != 0, 0))
		return NULL; /* behind those, which the same receive may match: it can have been posted since */
	return receive_match(peer, record, total);
}

static inline void receive_begin(struct thole_request *request, struct peer *peer, const struct record *record,
				 uint64_t total)
{
	request->peer = peer;
	request->tag = record->tag;
	request->imm = record->flags & RECORD_IMM ? record->imm : 0;
	request->flags |= record->flags & RECORD_IMM ? (uint32_t)THOLE_IMM : 0;
	request->message_length = total;
	request->pace = record->flags & RECORD_PACE;
	if (__builtin_expect(request->parent != NULL, 0))
		list_push_back(&peer->parts, &request->part_node);
}

/* Fetch a message that an RTS offered, or as much as there is room for. */
static void receive_fetch(struct thole_request *request, const struct window *offered)
{
	struct window window = *offered;

	if (request->vector.length > window.length && request->vector.count == 1)
		request->vector.length = request->segment.iov_len = window.length;
	else if (request->vector.length < window.length)
		window.length = request->vector.length;
	message_fetch(request, &window);
}

/* ---- Unexpected messages -------------------------------------------------------------------------- */

/* Ask all senders for RTS only from now on, or for data again. */
static void unexpected_backpressure(struct thole_endpoint *endpoint, bool backpressure)
{
	struct transport_owner *owner = &endpoint->base;

	owner->backpressure = backpressure;
	for (int i = transport_next(owner, -1); i < TRANSPORTS; i = transport_next(owner, i))
		transports[i]->backpressure(owner);
}

void unexpected_free(struct thole_endpoint *endpoint, struct thole_message *unexpected)
{
	list_remove(&unexpected->asking_node);
	if (unexpected->data && unexpected->data != unexpected->record.payload) {
		endpoint->base.counters[COUNTER_UNEXPECTED_BYTES] -= unexpected->length;
		spare_put(&endpoint->spares, unexpected->data);
		if (endpoint->base.backpressure &&
		    endpoint->base.counters[COUNTER_UNEXPECTED_BYTES] < endpoint->base.options.unexpected_max / 2) {
			unexpected_backpressure(endpoint, false);
		}
	}
	pool_put(&endpoint->unexpected, unexpected);
}

static struct thole_message *unexpected_new(struct peer *peer, const struct record *record)
{
	struct thole_endpoint *endpoint = peer->endpoint;
	struct thole_message *unexpected = pool_get(&endpoint->unexpected);

	if (!unexpected)
		return NULL;
	endpoint_count(endpoint, COUNTER_UNEXPECTED);
	unexpected->record = *record;
	unexpected->peer = peer;
	unexpected->data = NULL;
	unexpected->length = unexpected->arrived = 0;
	unexpected->claimant = NULL;
	unexpected->queue = record->flags & RECORD_PLAIN ? MATCH_PLAIN : MATCH_TAGGED;
	unexpected->screened = unexpected->dropped = false;
	list_init(&unexpected->asking_node);
	unexpected->status = 0;
	unexpected->match.source = peer->base.index;
	unexpected->match.tag = unexpected->queue == MATCH_PLAIN ? 0 : record->tag;
	return unexpected;
}

/* To where it waits: for its receive, or to be screened. */
static void unexpected_store(struct thole_message *unexpected)
{
	struct peer *peer = unexpected->peer;
	struct thole_endpoint *endpoint = peer->endpoint;

	if (__builtin_expect(endpoint->screening != SCREENING_OFF, 0)) {
		endpoint->screened++;
		peer->screened++;
		list_push_back(&endpoint->screen, &unexpected->node);
		return;
	}
	match_store(&endpoint->match[unexpected->queue], &unexpected->match);
}

/* Bytes of the whole message. */
static uint64_t unexpected_total(const struct thole_message *unexpected)
{
	struct window window = {.length = unexpected->length};

	if (unexpected->record.kind == RECORD_RTS)
		window_load(&window, &unexpected->record);
	return window.length;
}

/* Memory for all of its data. */
static bool unexpected_room(struct thole_message *unexpected, uint64_t total)
{
	struct thole_endpoint *endpoint = unexpected->peer->endpoint;

	unexpected->data = spare_get(&endpoint->spares, total);
	if (!unexpected->data)
		return false;
	unexpected->length = total;
	endpoint->base.counters[COUNTER_UNEXPECTED_BYTES] += total;
	if (!endpoint->base.backpressure &&
	    endpoint->base.counters[COUNTER_UNEXPECTED_BYTES] > endpoint->base.options.unexpected_max) {
		endpoint_count(endpoint, COUNTER_UNEXPECTED_HOLDS);
		unexpected_backpressure(endpoint, true);
	}
	return true;
}

static bool unexpected_keep_data(struct thole_message *unexpected, const void *payload, uint32_t length, uint64_t total)
{
	unexpected->arrived = length;
	if (unexpected->record.length <= RECORD_INLINE_MAX) {
		unexpected->data = unexpected->record.payload; /* came with the record's copy */
		unexpected->length = total;
		return true;
	}
	if (total == 0)
		return true;
	if (!unexpected_room(unexpected, total))
		return false;
	memcpy(unexpected->data, payload, length);
	return true;
}

/* Its sender waits for no receive. The answer is given once. */
static void unexpected_answer(struct thole_message *unexpected)
{
	struct record *record = &unexpected->record;

	if ((record->flags & RECORD_ARRIVED) == RECORD_ARRIVED)
		message_finish(unexpected->peer, record->arg[2], 0, 0);
	record->flags &= (uint8_t)~RECORD_ARRIVED;
}

static void unexpected_eager(struct peer *peer, const struct record *record, const void *payload, uint32_t length,
			     uint64_t total)
{
	struct thole_endpoint *endpoint = peer->endpoint;
	struct thole_message *unexpected = unexpected_new(peer, record);

	if (unexpected && !unexpected_keep_data(unexpected, payload, length, total)) {
		pool_put(&endpoint->unexpected, unexpected);
		unexpected = NULL;
	}
	if (!unexpected) { /* a message is lost, so this peer's order cannot be kept: end it, truly */
		peer_lost(peer, THOLE_ERR_MEMORY);
		return;
	}
	if (length < total)
		peer->stream = (struct stream){.unexpected = unexpected, .left = total - length};
	else if (record->flags & RECORD_NOTIFY)
		unexpected_answer(unexpected);
	unexpected_store(unexpected);
}

void unexpected_describe(const struct thole_message *unexpected, struct thole_completion *completion_p)
{
	const struct record *record = &unexpected->record;

	*completion_p = (struct thole_completion){
		.tag = record->tag,
		.imm = record->flags & RECORD_IMM ? record->imm : 0,
		.message_length = unexpected_total(unexpected),
		.peer = unexpected->peer->base.index,
		.flags = (record->flags & RECORD_IMM ? (uint32_t)THOLE_IMM : 0) |
			 (record->flags & RECORD_PLAIN ? (uint32_t)THOLE_PLAIN : 0),
		.operation = THOLE_OP_RECEIVE,
	};
}

/* Give a matched unexpected message to its receive. Frees it unless its data is still arriving. */
static void unexpected_deliver(struct thole_message *unexpected, struct thole_request *request)
{
	struct peer *peer = unexpected->peer;
	struct thole_endpoint *endpoint = peer->endpoint;
	const struct record *record = &unexpected->record;

	if (record->kind == RECORD_RTS) {
		struct window window;

		window_load(&window, record);
		receive_begin(request, peer, record, window.length);
		unexpected_free(endpoint, unexpected);
		if (peer->base.gone)
			receive_done(request, peer->base.gone_status);
		else
			receive_fetch(request, &window);
		return;
	}
	receive_begin(request, peer, record, unexpected->length);
	if (record->flags & RECORD_SYNC)
		message_finish(peer, record->arg[2], 0, 0);
	if (unexpected->arrived < unexpected->length && !unexpected->status) {
		unexpected->claimant = request;
		request->state = REQUEST_CLAIMED;
		return;
	}
	if (!unexpected->status && unexpected->length > 0)
		vector_write(&request->vector, 0, unexpected->data,
			     unexpected->length < request->vector.length ? unexpected->length
									 : request->vector.length);
	receive_done(request, unexpected->status);
	unexpected_free(endpoint, unexpected);
}

/* Nobody wants it: let the sender go, as if all of it had been taken, and free it as soon as nothing more of it
 * arrives. */
void unexpected_drop(struct thole_message *unexpected)
{
	const struct record *record = &unexpected->record;

	if (record->kind == RECORD_RTS || (record->flags & RECORD_SYNC))
		message_finish(unexpected->peer, record->arg[2], 0, unexpected_total(unexpected));
	if (record->kind == RECORD_EAGER && unexpected->arrived < unexpected->length && !unexpected->status)
		unexpected->dropped = true;
	else
		unexpected_free(unexpected->peer->endpoint, unexpected);
}

void unexpected_done(struct thole_message *unexpected, int status)
{
	struct thole_request *claimant = unexpected->claimant;

	unexpected->status = status;
	if (unexpected->dropped) {
		unexpected_free(unexpected->peer->endpoint, unexpected);
	} else if (claimant) {
		if (!status)
			vector_write(&claimant->vector, 0, unexpected->data,
				     unexpected->length < claimant->vector.length ? unexpected->length
										  : claimant->vector.length);
		unexpected_free(unexpected->peer->endpoint, unexpected);
		receive_done(claimant, status);
	}
}

/* ---- Messages that were offered, and are fetched before they have a receive ------------------------- */

/* Whether its data might have come unasked, so that its sender, who says so, may count on going on without its receive.
 * Of one that can send only messages an RTS may be synchronous, and nothing says so. */
static bool unexpected_asks(const struct thole_message *unexpected)
{
	const struct record *record = &unexpected->record;
	uint64_t total = unexpected_total(unexpected);

	return record->kind == RECORD_RTS && (record->flags & (RECORD_UNASKED | RECORD_SYNC)) == RECORD_UNASKED &&
	       !unexpected->peer->limits.messages_only && total > 0 && total <= EAGER_TOTAL_MAX;
}

/* From here on it is one whose data is arriving; but where there is no memory for that, it stays with its sender. */
static void unexpected_fetch(struct thole_message *unexpected)
{
	struct thole_endpoint *endpoint = unexpected->peer->endpoint;
	struct thole_request *request;
	struct window window;

	window_load(&window, &unexpected->record);
	list_remove(&unexpected->asking_node);
	request = request_new(endpoint, (enum thole_operation)OPERATION_UNEXPECTED, unexpected, THOLE_QUIET);
	if (!request)
		return;
	if (!unexpected_room(unexpected, window.length)) {
		request_free(request);
		return;
	}
	receive_begin(request, unexpected->peer, &unexpected->record, window.length);
	unexpected->record.kind = RECORD_EAGER;
	request->segment = (struct iovec){unexpected->data, window.length};
	request->vector = (struct vector){&request->segment, 1, window.length};
	message_fetch(request, &window);
}

void unexpected_fetched(struct thole_request *request, int status)
{
	struct thole_message *unexpected = request->context;

	request_free(request);
	if (!status)
		unexpected->arrived = unexpected->length;
	unexpected_done(unexpected, status);
}

void unexpected_fetch_asking(struct thole_endpoint *endpoint)
{
	uint64_t taken = 0;

	while (!list_empty(&endpoint->asking) && !endpoint->base.backpressure) {
		struct thole_message *unexpected =
			container_of(list_first(&endpoint->asking), struct thole_message, asking_node);
		uint64_t length = unexpected_total(unexpected);

		if (unexpected->peer->base.gone) {
			list_remove(&unexpected->asking_node);
			continue;
		}
		if (taken > 0 && taken + length > endpoint->base.options.eager_max)
			return;
		taken += length;
		unexpected_fetch(unexpected);
	}
}

/* ---- Arrivals ------------------------------------------------------------------------------------- */

/* Whether a receive is an ordinary one, of memory that lies together, whose completion is only reported, and has room
 * for so many bytes. */
static inline bool receive_is_plain(const struct thole_endpoint *endpoint, const struct thole_request *request,
				    uint32_t length)
{
	return request->vector.count == 1 && !request->handle && !(request->flags & (THOLE_MULTI | THOLE_QUIET)) &&
	       length <= request->vector.length && endpoint->complete;
}

/* The short way: the whole message is here, its payload is where it belongs, and its receive is such a one. */
static inline void receive_whole(struct thole_request *request, struct peer *peer, const struct record *record,
				 uint32_t length)
{
	struct thole_endpoint *endpoint = peer->endpoint;
	struct thole_completion completion;

	completion.context = request->context;
	completion.tag = record->tag;
	completion.imm = 0;
	completion.length = length;
	completion.message_length = length;
	completion.buffer = request->segment.iov_base;
	completion.peer = peer->base.index;
	completion.flags = request->flags;
	completion.operation = THOLE_OP_RECEIVE;
	completion.status = 0;
	if (__builtin_expect(record->flags & RECORD_IMM, 0)) {
		completion.imm = record->imm;
		completion.flags |= THOLE_IMM;
	}
	endpoint_count(endpoint, COUNTER_RECEIVED);
	request_put(endpoint, request); /* of one segment, so it owns none */
	endpoint->complete(endpoint->complete_arg, &completion);
}

/* What is not so: no receive, more of the message to come, an answer owed, or a receive that is more than that. */
__attribute__((noinline)) static void receive_part_of(struct thole_request *request, struct peer *peer,
						      const struct record *record, const void *payload,
						      uint32_t length, uint64_t total)
{
	if (!request) {
		unexpected_eager(peer, record, payload, length, total);
		return;
	}
	receive_begin(request, peer, record, total);
	message_stream(peer, request, payload, length, total);
	if (record->flags & RECORD_SYNC) /* after the copy: any record to the peer says that its payload is free */
		message_finish(peer, record->arg[2], 0, 0);
}

__attribute__((noinline)) static void receive_with_args(struct peer *peer, const struct record *record,
							const void *payload, uint32_t length)
{
	uint64_t total = record->flags & RECORD_MORE ? record->arg[0] : length;

	if (record->length != RECORD_EXTERNAL || total < length || total > EAGER_TOTAL_MAX)
		message_bad(peer);
	else
		receive_part_of(receive_arrive(peer, record, total), peer, record, payload, length, total);
}

__attribute__((noinline)) static void receive_eager_any(struct peer *peer, const struct record *record,
							const void *payload, uint32_t length)
{
	struct thole_request *request;

	if (record->flags & (RECORD_MORE | RECORD_SYNC)) {
		receive_with_args(peer, record, payload, length);
		return;
	}
	request = receive_arrive(peer, record, length);
	if (request && receive_is_plain(peer->endpoint, request, length)) {
		if (peer->base.owner->taking && request->vector.count == 1)
			bytes_take(request->vector.segments->iov_base, payload, length);
		else
			vector_write(&request->vector, 0, payload, length);
		receive_whole(request, peer, record, length);
	} else {
		receive_part_of(request, peer, record, payload, length, length);
	}
}

/* For the oldest receive, which most are, if that is a plain one: the same without a call but that to who is told, and
 * that which copies more than a few bytes. */
__attribute__((always_inline)) static inline void receive_oldest(struct peer *peer, const struct record *record,
								 const void *payload, uint32_t length, bool few)
{
	struct thole_endpoint *endpoint = peer->endpoint;
	struct match *match = &endpoint->match[MATCH_TAGGED];
	struct match_receive *oldest = match_arrive_oldest(match, peer->base.index, record->tag);
	struct thole_request *request;

	if (__builtin_expect((record->flags & (RECORD_MORE | RECORD_SYNC | RECORD_PLAIN)) ||
				     endpoint->screened != 0 || !oldest || oldest->home != MATCH_HOME_NONE,
			     0))
		goto any;
	request = container_of(oldest, struct thole_request, match);
	if (__builtin_expect(!receive_is_plain(endpoint, request, length), 0))
		goto any;
	match_withdraw_unindexed(match, oldest);
	if (few)
		bytes_copy_few(request->segment.iov_base, payload, length);
	else
		memcpy(request->segment.iov_base, payload, length);
	receive_whole(request, peer, record, length);
	return;
any:
	receive_eager_any(peer, record, payload, length);
}

__attribute__((noinline)) static void receive_eager_more(struct peer *peer, const struct record *record,
							 const void *payload, uint32_t length)
{
	receive_oldest(peer, record, payload, length, false);
}

void receive_eager(struct peer *peer, const struct record *record, const void *payload, uint32_t length)
{
	if (__builtin_expect(length <= BYTES_FEW, 1))
		receive_oldest(peer, record, payload, length, true);
	else if (length <= BYTES_STEP)
		receive_eager_more(peer, record, payload, length);
	else
		receive_eager_any(peer, record, payload, length);
}

void receive_rts(struct peer *peer, const struct record *record, const void *payload, uint32_t length)
{
	struct thole_message *unexpected;
	struct thole_request *request;
	struct window window;

	(void)payload;
	window_load(&window, record);
	if (record->length != RECORD_EXTERNAL || length != 0 || window.length > THOLE_LENGTH_MAX ||
	    (window.count == 0 && !peer->base.transport->layouts) || window.count > THOLE_SEGMENTS_MAX) {
		message_bad(peer);
		return;
	}
	request = receive_arrive(peer, record, window.length);
	if (request) {
		receive_begin(request, peer, record, window.length);
		receive_fetch(request, &window);
		return;
	}
	unexpected = unexpected_new(peer, record);
	if (!unexpected) {
		peer_lost(peer, THOLE_ERR_MEMORY);
		return;
	}
	unexpected_store(unexpected);
	if (!unexpected_asks(unexpected) || peer->endpoint->base.backpressure)
		return;
	if (transport_is_own(&peer->base) || (record->flags & RECORD_NOTIFY))
		unexpected_fetch(unexpected);
	else
		list_push_back(&peer->endpoint->asking, &unexpected->asking_node);
}

/* ---- Posting -------------------------------------------------------------------------------------- */

struct thole_message *receive_find(struct thole_endpoint *endpoint, uint32_t source, uint64_t tag, uint64_t mask,
				   unsigned flags)
{
	bool plain = flags & THOLE_PLAIN;
	struct match_message *found = match_find(&endpoint->match[plain ? MATCH_PLAIN : MATCH_TAGGED], source,
						 plain ? 0 : tag, plain ? 0 : mask);

	return found ? container_of(found, struct thole_message, match) : NULL;
}

void receive_take(struct thole_endpoint *endpoint, struct thole_message *unexpected)
{
	match_take(&endpoint->match[unexpected->queue], &unexpected->match);
}

/* A buffer for many messages takes those that are here, then waits for more. Errors: MEMORY, with none taken. */
static int receive_post_multi(struct thole_request *parent)
{
	struct thole_endpoint *endpoint = parent->endpoint;
	struct thole_message *unexpected;
	bool taken = false;

	while (parent->state == REQUEST_BACKLOG && /* neither used up nor, with its last part, freed */
	       (unexpected = receive_find(endpoint, parent->match.source, parent->match.tag, parent->match.mask,
					  parent->flags))) {
		struct thole_request *part = receive_part(parent, unexpected_total(unexpected));

		if (!part && !taken)
			return error_set(THOLE_ERR_MEMORY, "no memory for another request");
		if (!part) {
			request_give_up(parent, THOLE_ERR_MEMORY);
			break;
		}
		taken = true;
		receive_take(endpoint, unexpected);
		unexpected_deliver(unexpected, part);
	}
	return 0;
}

static inline int receive_check(struct thole_endpoint *endpoint, uint32_t source, size_t count, unsigned flags,
				struct thole_request **request_p)
{
	struct peer *peer;

	if (count > THOLE_SEGMENTS_MAX)
		return error_set(THOLE_ERR_ARGUMENT, "a vector has at most %d segments, not %zu",
				 THOLE_SEGMENTS_MAX, count);
	if ((flags & THOLE_MULTI) && (request_p || count != 1))
		return error_set(THOLE_ERR_ARGUMENT, "a THOLE_MULTI receive has one segment and no request handle");
	if (source == THOLE_ANY)
		return 0;
	peer = endpoint_peer(endpoint, source);
	if (!peer)
		return error_set(THOLE_ERR_NOT_FOUND, "there is no peer %u: thole_peer makes one of an address",
				 source);
	return 0;
}

/* A receive was posted that names a peer which is not connected: whoever sleeps is to look for it in time. */
static void receive_awaits(struct thole_endpoint *endpoint)
{
	if (endpoint->awaits)
		return;
	endpoint->awaits = true;
	transport_rouse(&endpoint->base, 0);
}

/* What a receive is posted with, but for its memory. */
struct posting {
	uint64_t tag, mask;
	void *context;
	uint32_t source;
	unsigned flags;
};

/* Inlined, so that the one segment of thole_recv never gets to memory: its halves would be stored one by one and
 * loaded as one, which waits until the stores are out of the processor's store buffer. */
__attribute__((always_inline)) static inline int
receive_post(struct thole_endpoint *endpoint, const struct iovec *segments, size_t count,
	     const struct thole_layout *layout, const struct posting *posting, struct thole_request **request_p)
{
	uint32_t source = posting->source;
	unsigned flags = posting->flags;
	bool plain = flags & THOLE_PLAIN;
	struct thole_message *unexpected = NULL;
	struct thole_request *request;
	bool gone;
	int error = receive_check(endpoint, source, count, flags, request_p);

	if (error)
		return error;
	if (!(flags & THOLE_MULTI))
		unexpected = receive_find(endpoint, source, posting->tag, posting->mask, flags);
	gone = source != THOLE_ANY && __builtin_expect(endpoint->peers[source]->base.gone, 0) &&
	       !endpoint->peers[source]->screened;
	if (gone && !unexpected && !receive_find(endpoint, source, posting->tag, posting->mask, flags))
		return peer_gone_empty(endpoint->peers[source]);
	request = request_new(endpoint, THOLE_OP_RECEIVE, posting->context, flags);
	if (!request)
		return error_set(THOLE_ERR_MEMORY, "no memory for another request");
	error = layout ? request_set_layout(request, layout) : request_set_vector(request, segments, count);
	if (error) {
		request_free(request);
		return error;
	}
	request->queue = plain ? MATCH_PLAIN : MATCH_TAGGED;
	request->match.source = source;
	request->match.tag = plain ? 0 : posting->tag;
	request->match.mask = plain ? 0 : posting->mask;
	if (request_p) {
		request->handle = true;
		*request_p = request;
	}
	if (__builtin_expect(unexpected != NULL, 0)) {
		receive_take(endpoint, unexpected);
		unexpected_deliver(unexpected, request);
		return 0;
	}
	if (__builtin_expect(flags & THOLE_MULTI, 0)) {
		error = receive_post_multi(request);
		if (error)
			request_free(request);
		if (error || request->state != REQUEST_BACKLOG)
			return error; /* or it is used up by what was here */
		if (gone) {
			peer_fail_receive(endpoint->peers[source], request);
			return 0;
		}
		endpoint->multi_posted++;
	}
	request->state = REQUEST_POSTED;
	match_post(&endpoint->match[request->queue], &request->match);
	if (source != THOLE_ANY && __builtin_expect(!endpoint->peers[source]->base.connected, 0))
		receive_awaits(endpoint);
	return 0;
}

__attribute__((noinline)) static int receive_any(struct thole_endpoint *endpoint, uint32_t source, void *buffer,
						 size_t length, uint64_t tag, uint64_t mask, unsigned flags,
						 void *context, struct thole_request **request_p)
{
	int error;

	endpoint_lock(endpoint);
	error = receive_post(endpoint, &(struct iovec){buffer, length}, 1, NULL,
			     &(struct posting){tag, mask, context, source, flags}, request_p);
	endpoint_unlock(endpoint);
	return error;
}

/* From any source, where no message is unexpected and there is a request: the same without a call. */
int thole_recv(struct thole_endpoint *endpoint, uint32_t source, void *buffer, size_t length, uint64_t tag,
	       uint64_t mask, unsigned flags, void *context, struct thole_request **request_p)
{
	struct match *match = &endpoint->match[MATCH_TAGGED];
	struct thole_request *request;

	if (__builtin_expect(endpoint->safe || source != THOLE_ANY || (flags & (THOLE_PLAIN | THOLE_MULTI)) ||
				     request_p || match->message_count > 0 || !endpoint->requests.free,
			     0))
		return receive_any(endpoint, source, buffer, length, tag, mask, flags, context, request_p);
	request = request_make(endpoint, THOLE_OP_RECEIVE, context, flags);
	request->segment = (struct iovec){buffer, length};
	request->vector.length = length;
	request->queue = MATCH_TAGGED;
	request->match.source = source;
	request->match.tag = tag;
	request->match.mask = mask;
	request->state = REQUEST_POSTED;
	match_post(match, &request->match);
	return 0;
}

int thole_recvv(struct thole_endpoint *endpoint, uint32_t source, const struct iovec *segments, size_t count,
		uint64_t tag, uint64_t mask, unsigned flags, void *context, struct thole_request **request_p)
{
	int error;

	endpoint_lock(endpoint);
	error = receive_post(endpoint, segments, count, NULL, &(struct posting){tag, mask, context, source, flags},
			     request_p);
	endpoint_unlock(endpoint);
	return error;
}

int thole_recv_layout(struct thole_endpoint *endpoint, uint32_t source, const struct thole_layout *layout, uint64_t tag,
		      uint64_t mask, unsigned flags, void *context, struct thole_request **request_p)
{
	int error;

	endpoint_lock(endpoint);
	error = receive_post(endpoint, NULL, 0, layout, &(struct posting){tag, mask, context, source, flags},
			     request_p);
	endpoint_unlock(endpoint);
	return error;
}

/* ---- Messages that wait elsewhere ------------------------------------------------------------------- */

bool unexpected_offer(struct thole_message *unexpected)
{
	struct thole_request *request =
		receive_match(unexpected->peer, &unexpected->record, unexpected_total(unexpected));

	if (request)
		unexpected_deliver(unexpected, request);
	return request != NULL;
}

int thole_message_recv(struct thole_endpoint *endpoint, struct thole_message *message, const struct iovec *segments,
		       size_t count, unsigned flags, void *context, struct thole_request **request_p)
{
	struct thole_message *unexpected = message;
	struct thole_request *request;
	struct peer *screened;
	int error;

	endpoint_lock(endpoint);
	screened = unexpected_screened(unexpected);
	error = receive_check(endpoint, THOLE_ANY, count, flags, request_p);
	if (error)
		goto out;
	request = request_new(endpoint, THOLE_OP_RECEIVE, context, flags & ~(unsigned)THOLE_MULTI);
	error = request ? request_set_vector(request, segments, count)
			: error_set(THOLE_ERR_MEMORY, "no memory for another request");
	if (error) {
		if (request)
			request_free(request);
		goto out;
	}
	if (request_p) {
		request->handle = true;
		*request_p = request;
	}
	unexpected_deliver(unexpected, request);
	screen_back(screened);
out:
	endpoint_unlock(endpoint);
	return error;
}
