/* SPDX-License-Identifier: BSD-3-Clause */
/* request: sends and receives from posting to their end; cancel, forget, deadlines, mx_ibuffered, mx_context. */
#include "internal.h"

#include <string.h>

#include "base/clock.h"
#include "library.h"

enum {
	MS = 1000000,        /* ns */
	BUFFERED_MAX = 4096, /* bytes of a send whose memory is the program's again at once; programs count on a few hundred */
};

mx_status_code_t mxi_status_of(int error)
{
	switch (error) {
	case THOLE_OK:
		return MX_STATUS_SUCCESS;
	case THOLE_ERR_TRUNCATED:
		return MX_STATUS_TRUNCATED;
	case THOLE_ERR_CANCELED:
		return MX_STATUS_CANCELLED;
	case THOLE_ERR_TIMEOUT:
		return MX_STATUS_TIMEOUT;
	case THOLE_ERR_PEER:
	case THOLE_ERR_CLOSED:
		return MX_STATUS_ENDPOINT_CLOSED;
	case THOLE_ERR_ADDRESS:
		return MX_STATUS_ENDPOINT_UNREACHABLE;
	case THOLE_ERR_ACCESS:
		return MX_STATUS_BAD_KEY;
	case THOLE_ERR_NOT_FOUND:
		return MX_STATUS_BAD_SESSION;
	case THOLE_ERR_MEMORY:
	case THOLE_ERR_AGAIN:
	case THOLE_ERR_SYSTEM:
		return MX_STATUS_NO_RESOURCES;
	case THOLE_ERR_FAULT:
		return MX_STATUS_REJECTED;
	default:
		return MX_STATUS_ABORTED;
	}
}

/* ---- From birth to death ------------------------------------------------------------------------------------ */

static inline union mx_request *request_new(struct mx_endpoint *endpoint, enum mxi_kind kind, uint64_t match_info, void *context,
					    struct mxi_peer *peer, uint32_t length)
{
	union mx_request *request = pool_get(&endpoint->requests);

	if (__builtin_expect(!request, 0))
		return NULL;
	request->status.code = MX_STATUS_PENDING;
	request->status.match_info = match_info;
	request->status.msg_length = request->status.xfer_length = length;
	request->status.context = context;
	request->peer = peer;
	request->query = NULL;
	request->handle = THOLE_ANY;
	request->kind = (uint8_t)kind;
	request->state = MXI_PENDING;
	request->busy = false;
	return request;
}

union mx_request *mxi_request_new(struct mx_endpoint *endpoint, enum mxi_kind kind, uint64_t match_info, void *context)
{
	return request_new(endpoint, kind, match_info, context, NULL, 0);
}

static void request_free(struct mx_endpoint *endpoint, union mx_request *request)
{
	pool_put(&endpoint->requests, request);
}

static void request_enqueue(struct mx_endpoint *endpoint, union mx_request *request)
{
	list_push_back(&endpoint->done, &request->done);
	if (__builtin_expect(endpoint->done_by_context != NULL, 0))
		list_push_back(mxi_done_of(endpoint, request->status.match_info), &request->same);
}

static void request_dequeue(struct mx_endpoint *endpoint, union mx_request *request)
{
	list_unlink(&request->done);
	if (__builtin_expect(endpoint->done_by_context != NULL, 0))
		list_unlink(&request->same);
}

void mxi_request_finish(struct mx_endpoint *endpoint, union mx_request *request, mx_status_code_t code)
{
	if (__builtin_expect(request->limit.place != 0, 0))
		heap_remove(&endpoint->timed, &request->limit);
	if (request->state == MXI_LEFT) {
		if (!request->busy)
			request_free(endpoint, request);
		return;
	}
	request->status.code = code;
	request->state = MXI_DONE;
	request_enqueue(endpoint, request);
	mxi_happened(endpoint);
}

void mxi_request_leave(struct mx_endpoint *endpoint, union mx_request *request)
{
	if (request->state == MXI_DONE)
		request_dequeue(endpoint, request);
	else if (request->limit.place != 0)
		heap_remove(&endpoint->timed, &request->limit);
	request->state = MXI_LEFT;
	if (!request->busy)
		request_free(endpoint, request);
}

/* Thole's word for a peer that is gone does not say how; what it knows of the peer does. */
static __attribute__((noinline, cold)) mx_status_code_t gone_code(struct mx_endpoint *endpoint, const struct mxi_peer *peer)
{
	struct thole_peer_info info;
	bool silent = peer && thole_peer_info(endpoint->thole, peer->handle, &info) == 0 && strcmp(info.reason, "silent") == 0;

	return silent ? MX_STATUS_ENDPOINT_UNREACHABLE : MX_STATUS_ENDPOINT_CLOSED;
}

void mxi_request_take(struct mx_endpoint *endpoint, union mx_request *request, mx_status_t *status_p)
{
	mx_status_code_t code = load_relaxed(&request->status.code);
	struct mxi_peer *peer = request->peer;

	if (request->kind == MXI_RECEIVE && request->handle != THOLE_ANY)
		peer = mxi_peer_by_handle(endpoint, request->handle);
	else if (request->kind == MXI_CONNECT && peer && peer->session == 0)
		peer->session = mxi_peer_session(endpoint, peer->handle);
	if (__builtin_expect(code == MX_STATUS_ENDPOINT_CLOSED, 0))
		code = gone_code(endpoint, peer);
	/* Field by field: a wider load would have to wait until the stores that it covers are out of the store buffer. */
	status_p->code = code;
	status_p->source = mxi_peer_address(peer);
	status_p->match_info = load_relaxed(&request->status.match_info);
	status_p->msg_length = load_relaxed(&request->status.msg_length);
	status_p->xfer_length = load_relaxed(&request->status.xfer_length);
	status_p->context = load_relaxed(&request->status.context);
	mxi_request_leave(endpoint, request);
}

void mxi_request_completed(void *arg, const struct thole_completion *completion)
{
	struct mx_endpoint *endpoint = arg;
	union mx_request *request = completion->context;

	request->busy = false;
	if (__builtin_expect(request->state != MXI_PENDING, 0)) { /* it is over for the program already */
		if (request->state == MXI_LEFT)
			request_free(endpoint, request);
		return;
	}
	if (request->kind == MXI_RECEIVE) {
		request->status.match_info = completion->tag;
		request->status.msg_length = (uint32_t)completion->message_length;
		request->status.xfer_length = (uint32_t)completion->length;
		request->handle = completion->peer;
	} else if (completion->status == THOLE_ERR_TRUNCATED) { /* a send whose receiver says how much it took, and no more */
		request->status.xfer_length = (uint32_t)completion->length;
	} else if (request->kind == MXI_CONNECT) {
		mxi_connect_completed(endpoint, request, completion->status);
		return;
	}
	mxi_request_finish(endpoint, request, mxi_status_of(completion->status));
}

/* ---- Deadlines ------------------------------------------------------------------------------------------------ */

mx_return_t mxi_request_limit(struct mx_endpoint *endpoint, union mx_request *request, uint32_t timeout_ms)
{
	if (request->state != MXI_PENDING)
		return MX_SUCCESS;
	if (timeout_ms == 0) {
		heap_remove(&endpoint->timed, &request->limit);
		return MX_SUCCESS;
	}
	if (heap_reserve(&endpoint->timed, endpoint->timed.count + 1) != 0)
		return MX_NO_RESOURCES;
	heap_set(&endpoint->timed, &request->limit, clock_now_ns() + (uint64_t)timeout_ms * MS);
	return MX_SUCCESS;
}

/* What Thole still has of it. True: nothing; what the operation does from now on concerns nobody. */
static bool request_withdraw(struct mx_endpoint *endpoint, union mx_request *request)
{
	uint8_t state = request->state;

	if (request->query)
		return mxi_connect_cancel(endpoint, request);
	if (!request->busy)
		return true;
	request->state = MXI_DONE; /* its completion finds nobody who waits */
	thole_cancel_context(endpoint->thole, request);
	request->state = state;
	return !request->busy;
}

static void request_end(struct mx_endpoint *endpoint, union mx_request *request, mx_status_code_t code)
{
	if (!request_withdraw(endpoint, request) && request->query)
		mxi_connect_answers(endpoint); /* it has its answer since a moment ago */
	else
		mxi_request_finish(endpoint, request, code);
}

void mxi_request_expire(struct mx_endpoint *endpoint, uint64_t now_ns)
{
	struct heap_node *first;

	while ((first = heap_first(&endpoint->timed)) && first->key <= now_ns)
		request_end(endpoint, container_of(first, union mx_request, limit), MX_STATUS_TIMEOUT);
}

void mxi_request_end_of(struct mx_endpoint *endpoint, const struct mxi_peer *peer)
{
	for (uint32_t i = 0; i < endpoint->requests.capacity; i++) {
		union mx_request *request = pool_at(&endpoint->requests, i);

		if (pool_is_live(&endpoint->requests, request) && request->peer == peer && request->state == MXI_PENDING)
			request_end(endpoint, request, MX_STATUS_ENDPOINT_UNREACHABLE);
	}
}

mx_return_t mx_set_request_timeout(mx_endpoint_t endpoint, mx_request_t request, uint32_t milli_seconds)
{
	mx_return_t code = MX_SUCCESS;

	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "mx_set_request_timeout without an endpoint");
	lock_take(&endpoint->lock);
	if (request)
		code = mxi_request_limit(endpoint, request, milli_seconds);
	else
		endpoint->timeout_ms = milli_seconds;
	lock_leave(&endpoint->lock);
	return code ? mxi_error(endpoint, code, "mx_set_request_timeout: no memory for another deadline") : MX_SUCCESS;
}

/* ---- Segments -------------------------------------------------------------------------------------------------- */

/* Whether there may be such a list, and how long all of it is. */
static inline mx_return_t segments_check(struct mx_endpoint *endpoint, const mx_segment_t *list, uint32_t count, uint64_t *length_p)
{
	uint64_t length = 0;

	if (__builtin_expect(count > 0 && !list, 0))
		return mxi_error(endpoint, MX_BAD_SEG_LIST, "a list of %u segments at NULL", count);
	if (__builtin_expect(count == 1, 1)) {
		*length_p = list->segment_length;
		return MX_SUCCESS;
	}
	if (count > MX_MAX_SEGMENTS)
		return mxi_error(endpoint, MX_BAD_SEG_CNT, "%u segments: there may be %d", count, MX_MAX_SEGMENTS);
	for (uint32_t i = 0; i < count; i++)
		length += list[i].segment_length;
	if (length > UINT32_MAX)
		return mxi_error(endpoint, MX_BAD_SEG_MEM, "%llu bytes in a message: a length has 32 bits",
				 (unsigned long long)length);
	*length_p = length;
	return MX_SUCCESS;
}

/* As Thole has them; padding behind MX's lengths holds anything. */
static void segments_copy(const mx_segment_t *list, uint32_t count, struct iovec *segments)
{
	for (uint32_t i = 0; i < count; i++)
		segments[i] = (struct iovec){list[i].segment_ptr, list[i].segment_length};
}

/* ---- Sending ---------------------------------------------------------------------------------------------------- */

static __attribute__((noinline)) int send_vector(struct mx_endpoint *endpoint, union mx_request *request, const mx_segment_t *list,
						 uint32_t count, unsigned flags)
{
	struct iovec segments[MX_MAX_SEGMENTS];

	segments_copy(list, count, segments);
	return thole_sendv(endpoint->thole, request->peer->handle, segments, count, request->status.match_info, 0, flags, request,
			   NULL);
}

static inline mx_return_t send_start(struct mx_endpoint *endpoint, const mx_segment_t *list, uint32_t count, mx_endpoint_addr_t to,
				     uint64_t match_info, void *context, mx_request_t *request_p, unsigned flags)
{
	union mx_request *request;
	struct mxi_peer *peer;
	uint64_t length = 0;
	mx_return_t code;
	int error;

	if (__builtin_expect(!endpoint, 0))
		return mxi_error(NULL, MX_BAD_ENDPOINT, "a send without an endpoint");
	code = segments_check(endpoint, list, count, &length);
	if (__builtin_expect(code != MX_SUCCESS, 0))
		return code;
	if (length <= BUFFERED_MAX && !(flags & THOLE_SYNC))
		flags |= THOLE_INJECT;
	lock_take(&endpoint->lock);
	peer = mxi_peer_of(endpoint, to);
	request = request_new(endpoint, MXI_SEND, match_info, context, peer, (uint32_t)length);
	if (__builtin_expect(!request, 0)) {
		lock_leave(&endpoint->lock);
		return mxi_error(endpoint, MX_NO_RESOURCES, "no memory for another request");
	}
	request->buffered = flags & THOLE_INJECT;
	if (request_p)
		*request_p = request;
	else
		request->state = MXI_LEFT;
	if (__builtin_expect(peer != NULL, 1)) {
		request->busy = true;
		if (__builtin_expect(count == 1, 1))
			error = thole_send(endpoint->thole, peer->handle, list->segment_ptr, length, match_info, 0, flags, request,
					   NULL);
		else
			error = send_vector(endpoint, request, list, count, flags);
		if (__builtin_expect(error != 0, 0)) {
			request->busy = false;
			mxi_request_finish(endpoint, request, mxi_status_of(error));
		} else if (__builtin_expect(endpoint->timeout_ms != 0, 0) && request_p) {
			mxi_request_limit(endpoint, request, endpoint->timeout_ms);
		}
	} else {
		mxi_request_finish(endpoint, request, MX_STATUS_BAD_SESSION);
	}
	lock_leave(&endpoint->lock);
	return MX_SUCCESS;
}

mx_return_t mx_isend(mx_endpoint_t endpoint, mx_segment_t *segments_list, uint32_t segments_count, mx_endpoint_addr_t dest_endpoint,
		     uint64_t match_info, void *context, mx_request_t *request)
{
	return send_start(endpoint, segments_list, segments_count, dest_endpoint, match_info, context, request, 0);
}

mx_return_t mx_issend(mx_endpoint_t endpoint, mx_segment_t *segments_list, uint32_t segments_count,
		      mx_endpoint_addr_t dest_endpoint, uint64_t match_info, void *context, mx_request_t *request)
{
	return send_start(endpoint, segments_list, segments_count, dest_endpoint, match_info, context, request, THOLE_SYNC);
}

/* ---- Receiving --------------------------------------------------------------------------------------------------- */

static __attribute__((noinline)) int receive_vector(struct mx_endpoint *endpoint, union mx_request *request,
						    const mx_segment_t *list, uint32_t count, uint64_t match_mask)
{
	struct iovec segments[MX_MAX_SEGMENTS];

	segments_copy(list, count, segments);
	return thole_recvv(endpoint->thole, THOLE_ANY, segments, count, request->status.match_info, match_mask, 0, request, NULL);
}

mx_return_t mx_irecv(mx_endpoint_t endpoint, mx_segment_t *segments_list, uint32_t segments_count, uint64_t match_info,
		     uint64_t match_mask, void *context, mx_request_t *request_p)
{
	union mx_request *request;
	uint64_t length = 0;
	mx_return_t code;
	int error = THOLE_ERR_MEMORY;

	code = mxi_match_check(endpoint, "mx_irecv", match_info, match_mask);
	if (__builtin_expect(code == MX_SUCCESS, 1))
		code = segments_check(endpoint, segments_list, segments_count, &length);
	if (__builtin_expect(code != MX_SUCCESS, 0))
		return code;
	if (__builtin_expect((endpoint->context_mask & ~match_mask) != 0, 0))
		return mxi_error(endpoint, MX_BAD_MATCHING_FOR_CONTEXT_ID_MASK,
				 "mx_irecv: the match mask %llx leaves out bits of the context id %llx",
				 (unsigned long long)match_mask, (unsigned long long)endpoint->context_mask);
	lock_take(&endpoint->lock);
	request = request_new(endpoint, MXI_RECEIVE, match_info, context, NULL, 0);
	if (__builtin_expect(request != NULL, 1)) {
		request->busy = true;
		if (!request_p)
			request->state = MXI_LEFT;
		if (__builtin_expect(segments_count == 1, 1))
			error = thole_recv(endpoint->thole, THOLE_ANY, segments_list->segment_ptr, length, match_info, match_mask, 0,
					   request, NULL);
		else
			error = receive_vector(endpoint, request, segments_list, segments_count, match_mask);
		if (__builtin_expect(error != 0, 0))
			request_free(endpoint, request);
	}
	lock_leave(&endpoint->lock);
	if (__builtin_expect(error != 0, 0))
		return mxi_error(endpoint, MX_NO_RESOURCES, "mx_irecv: %s", thole_detail());
	if (request_p)
		*request_p = request;
	return MX_SUCCESS;
}

/* ---- Cancel, forget, buffered, context ---------------------------------------------------------------------------- */

mx_return_t mx_cancel(mx_endpoint_t endpoint, mx_request_t *request, uint32_t *result)
{
	mx_return_t code = mxi_request_check(endpoint, "mx_cancel", request);

	if (code)
		return code;
	*result = 0;
	lock_take(&endpoint->lock);
	mxi_progress(endpoint);
	if ((*request)->kind == MXI_SEND) {
		code = MX_CANCEL_NOT_SUPPORTED;
	} else if ((*request)->state == MXI_PENDING && request_withdraw(endpoint, *request)) {
		mxi_request_leave(endpoint, *request);
		*request = NULL;
		*result = 1;
	}
	lock_leave(&endpoint->lock);
	return code ? mxi_error(endpoint, code, "mx_cancel of a send: only receives and connects can be canceled") : MX_SUCCESS;
}

mx_return_t mx_forget(mx_endpoint_t endpoint, mx_request_t *request)
{
	mx_return_t code = mxi_request_check(endpoint, "mx_forget", request);

	if (code)
		return code;
	lock_take(&endpoint->lock);
	mxi_request_leave(endpoint, *request);
	lock_leave(&endpoint->lock);
	*request = NULL;
	return MX_SUCCESS;
}

/* A send is buffered when its memory is the program's again: a short one at once, a longer one when it is complete. */
mx_return_t mx_ibuffered(mx_endpoint_t endpoint, mx_request_t *request, uint32_t *result)
{
	mx_return_t code = mxi_request_check(endpoint, "mx_ibuffered", request);

	if (code)
		return code;
	*result = 0;
	lock_take(&endpoint->lock);
	mxi_progress(endpoint);
	if ((*request)->kind == MXI_SEND)
		*result = (*request)->buffered || (*request)->state == MXI_DONE;
	else
		code = MX_BAD_REQUEST;
	lock_leave(&endpoint->lock);
	return code ? mxi_error(endpoint, code, "mx_ibuffered: only sends are buffered") : MX_SUCCESS;
}

mx_return_t mx_context(mx_request_t *request, void **context)
{
	if (!request || !*request)
		return mxi_error(NULL, MX_BAD_REQUEST, "mx_context without a request");
	*context = (*request)->status.context;
	return MX_SUCCESS;
}

/* MX has declared these and never had them. */

mx_return_t mx_buffered(mx_endpoint_t endpoint, mx_request_t *request, uint32_t timeout, uint32_t *result)
{
	(void)request, (void)timeout, (void)result;
	return mxi_error(endpoint, MX_FAILURE, "mx_buffered does not exist in MX either: use mx_ibuffered or mx_wait");
}

mx_return_t mx_iput(mx_endpoint_t endpoint, void *local_addr, uint32_t length, mx_endpoint_addr_t dest_endpoint,
		    uint64_t remote_addr, void *context, mx_request_t *request)
{
	(void)local_addr, (void)length, (void)dest_endpoint, (void)remote_addr, (void)context, (void)request;
	return mxi_error(endpoint, MX_FAILURE, "mx_iput does not exist in MX either: send a message");
}

mx_return_t mx_iget(mx_endpoint_t endpoint, void *local_addr, uint32_t length, mx_endpoint_addr_t dest_endpoint,
		    uint64_t remote_addr, void *context, mx_request_t *request)
{
	(void)local_addr, (void)length, (void)dest_endpoint, (void)remote_addr, (void)context, (void)request;
	return mxi_error(endpoint, MX_FAILURE, "mx_iget does not exist in MX either: send a message");
}
