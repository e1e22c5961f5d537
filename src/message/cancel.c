/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cancel: the end of requests whose user wants them no more, by handle or by context. What a peer may know of already
 * goes on.
 */
#include "message/internal.h"
#include "message/message.h"

static int request_cancel(struct thole_request *request)
{
	if (request->state == REQUEST_POSTED) {
		request_give_up(request, THOLE_ERR_CANCELED);
		return 1;
	}
	if (request->state == REQUEST_BACKLOG && !request->head_sent &&
		   request->operation == THOLE_OP_SEND) {
		peer_backlog_remove(request);
	} else if (request->state == REQUEST_CONNECTING) {
		list_remove(&request->node);
	} else {
		return 0;
	}
	request_complete(request, THOLE_ERR_CANCELED);
	return 1;
}

int thole_cancel(struct thole_endpoint *endpoint, struct thole_request *handle)
{
	int canceled;

	endpoint_lock(endpoint);
	canceled = request_cancel(handle);
	endpoint_unlock(endpoint);
	return canceled;
}

static struct thole_request *backlog_by_context(struct list_node *peers, const void *context)
{
	for (struct list_node *p = list_first(peers); p; p = list_next(peers, p)) {
		struct peer *peer = container_of(p, struct peer, backlogged_node);

		for (struct list_node *r = list_first(&peer->backlog); r; r = list_next(&peer->backlog, r)) {
			struct thole_request *request = container_of(r, struct thole_request, node);

			if (request->context == context && !request->handle && request->operation)
				return request;
		}
	}
	return NULL;
}

/* There may be fewer requests than peers that there ever were. */
static struct thole_request *connecting_by_context(struct thole_endpoint *endpoint, const void *context)
{
	for (uint32_t i = 0; i < endpoint->requests.capacity; i++) {
		struct thole_request *request = pool_at(&endpoint->requests, i);

		if (pool_is_live(&endpoint->requests, request) && request->state == REQUEST_CONNECTING &&
		    request->context == context && !request->handle)
			return request;
	}
	return NULL;
}

static struct thole_request *request_by_context(struct thole_endpoint *endpoint, const void *context)
{
	for (int queue = 0; queue < MATCH_QUEUES; queue++) {
		struct match_receive *receive = NULL;

		while ((receive = match_receive_next(&endpoint->match[queue], receive))) {
			struct thole_request *request = container_of(receive, struct thole_request, match);

			if (request->context == context && !request->handle)
				return request;
		}
	}
	for (size_t i = 0; i < 2; i++) {
		struct thole_request *request =
			backlog_by_context(i ? &endpoint->stalled : &endpoint->backlogged, context);

		if (request)
			return request;
	}
	return connecting_by_context(endpoint, context);
}

int thole_cancel_context(struct thole_endpoint *endpoint, const void *context)
{
	struct thole_request *request;
	int canceled;

	endpoint_lock(endpoint);
	request = request_by_context(endpoint, context);
	canceled = request ? request_cancel(request) : 0;
	endpoint_unlock(endpoint);
	return canceled;
}
