/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request: allocation, ids and ending of operations. An id is the pool index with a generation above it, so that an
 * id which a peer kept too long, or made up, finds nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "message/state.h"

int request_set_segments(struct thole_request *request, const struct iovec *segments, size_t count)
{
	uint64_t length = 0;

	for (size_t i = 0; i < count; i++)
		if (__builtin_add_overflow(length, segments[i].iov_len, &length))
			return error_set(THOLE_ERR_ARGUMENT, "a vector's %zu segments are longer than the address "
					 "space: segment %zu has %zu bytes", count, i, segments[i].iov_len);
	request->vector = (struct vector){&request->segment, 1, length};
	if (count <= 1) {
		request->segment = count ? segments[0] : (struct iovec){NULL, 0};
		return 0;
	}
	request->owned_segments = malloc(count * sizeof(*segments));
	if (!request->owned_segments)
		return error_set(THOLE_ERR_MEMORY, "no memory for a vector of %zu segments", count);
	memcpy(request->owned_segments, segments, count * sizeof(*segments));
	request->vector.segments = request->owned_segments;
	request->vector.count = count;
	return 0;
}

int request_set_layout(struct thole_request *request, const struct thole_layout *layout)
{
	if (layout->length == 0) /* for which neither function is called: a vector of one empty segment */
		return request_set_segments(request, NULL, 0);
	if (layout->length > THOLE_LENGTH_MAX)
		return error_set(THOLE_ERR_ARGUMENT, "a layout has at most %llu bytes, not %llu",
				 (unsigned long long)THOLE_LENGTH_MAX, (unsigned long long)layout->length);
	request->vector = vector_of_layout(layout, layout->length);
	return 0;
}

int request_own_data(struct thole_request *request)
{
	uint64_t length = request->vector.length;

	request->owned_data = spare_get(&request->endpoint->spares, length);
	if (!request->owned_data)
		return error_set(THOLE_ERR_MEMORY, "no memory to copy a message of %llu bytes",
				 (unsigned long long)length);
	vector_read(&request->vector, 0, request->owned_data, length);
	request->segment = (struct iovec){request->owned_data, length};
	request->vector = (struct vector){&request->segment, 1, length};
	return 0;
}

uint64_t request_id(const struct thole_request *request)
{
	return (uint64_t)request->generation << 32 | pool_index_of(&request->endpoint->requests, request);
}

struct thole_request *request_find(struct peer *peer, uint64_t id)
{
	struct thole_request *request = pool_at(&peer->endpoint->requests, (uint32_t)id);

	if (!request || request->state == REQUEST_FREE || request->generation != (uint32_t)(id >> 32) ||
	    request->peer != peer)
		return NULL;
	return request;
}

void request_free_owned(struct thole_request *request)
{
	free(request->owned_segments);
	spare_put(&request->endpoint->spares, request->owned_data);
	request->owned_segments = NULL;
	request->owned_data = NULL;
}

void request_describe(const struct thole_request *request, struct thole_completion *completion_p)
{
	bool receive = request->operation == THOLE_OP_RECEIVE;
	uint64_t length = request->vector.length, whole = receive ? request->message_length : length;

	if ((receive || request->status == THOLE_ERR_TRUNCATED) && request->message_length < length)
		length = request->message_length;
	if (request->status && request->status != THOLE_ERR_TRUNCATED)
		length = 0;
	*completion_p = (struct thole_completion){
		.context = request->context,
		.tag = request->tag,
		.imm = request->imm,
		.length = length,
		.message_length = whole,
		.buffer = request->vector.count ? request->vector.segments[0].iov_base : NULL,
		.peer = request->peer ? request->peer->base.index : THOLE_ANY,
		.flags = request->flags,
		.operation = request->operation,
		.status = request->status,
	};
}

/* The last part of a MULTI receive says that its buffer is free again. */
static void request_end_part(struct thole_request *part)
{
	struct thole_request *parent = part->parent;

	list_unlink(&part->part_node);
	if (--parent->parts == 0 && parent->retired) {
		part->flags |= THOLE_MULTI_END;
		request_free(parent);
	}
}

/* Into the list that it is fetched from. A loop that sleeps is woken: no descriptor shows what another thread's call
 * completes at once. */
static void request_is_ready(struct thole_request *request, enum request_state state, struct list_node *list)
{
	struct thole_endpoint *endpoint = request->endpoint;

	request->state = state;
	list_push_back(list, &request->node);
	if (endpoint->loop_awaits)
		transport_rouse(&endpoint->base, 0);
}

/* Deliver its completion, and free it. */
static void request_report(struct thole_request *request)
{
	struct thole_endpoint *endpoint = request->endpoint;
	struct thole_completion completion;

	if (request->handle) {
		request_is_ready(request, REQUEST_DONE, &endpoint->done);
		return;
	}
	if ((request->flags & THOLE_QUIET) && !request->status && !(request->flags & THOLE_MULTI_END)) {
		request_free(request);
		return;
	}
	if (!endpoint->complete) {
		request_is_ready(request, REQUEST_QUEUED, &endpoint->queue);
		return;
	}
	request_describe(request, &completion);
	request_free(request);
	endpoint->complete(endpoint->complete_arg, &completion);
}

/* Parts of MULTI receives are reported in the order in which their messages came from a peer: MPICH's active messages
 * depend on it. Nobody waits for another peer. */
static void request_complete_part(struct thole_request *part)
{
	struct list_node *parts = &part->peer->parts, *first;

	part->state = REQUEST_BEHIND;
	while ((first = list_first(parts))) {
		part = container_of(first, struct thole_request, part_node);
		if (part->state != REQUEST_BEHIND)
			return;
		request_end_part(part);
		request_report(part);
	}
}

void request_complete(struct thole_request *request, int status)
{
	if (status)
		request->status = status;
	if (request->parent)
		request_complete_part(request);
	else
		request_report(request);
}

void request_give_up(struct thole_request *receive, int status)
{
	struct thole_endpoint *endpoint = receive->endpoint;

	if (receive->state == REQUEST_POSTED) {
		match_withdraw(&endpoint->match[receive->queue], &receive->match);
		if (receive->flags & THOLE_MULTI)
			endpoint->multi_posted--;
	}
	if (receive->flags & THOLE_MULTI) {
		receive->retired = true;
		receive->state = REQUEST_PARENT;
		if (receive->parts > 0)
			return; /* what writes them may not be out yet: the last one says THOLE_MULTI_END */
		receive->flags |= THOLE_MULTI_END;
	}
	request_complete(receive, status);
}

void endpoint_complete(struct thole_endpoint *endpoint, const struct thole_completion *completion)
{
	struct thole_request *request;

	if (endpoint->complete) {
		endpoint->complete(endpoint->complete_arg, completion);
		return;
	}
	request = request_new(endpoint, (enum thole_operation)completion->operation, completion->context,
			      completion->flags);
	if (!request)
		return; /* whoever calls this has seen to it that there is one */
	request->tag = completion->tag;
	request->imm = completion->imm;
	request->segment = (struct iovec){completion->buffer, completion->length};
	request->vector.length = completion->length;
	request->message_length = completion->message_length;
	request->peer = endpoint_peer(endpoint, completion->peer);
	request->status = completion->status;
	request_is_ready(request, REQUEST_QUEUED, &endpoint->queue);
}
