/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_ending.h"

#include "mx_connecting.h"

void mxi_ending_completed(void *arg, const struct thole_completion *completion)
{
	struct mx_endpoint *endpoint = arg;
	union mx_request *request = completion->context;

	request->busy = false;
	if (__builtin_expect(request->state != MXI_PENDING, 0)) { /* it is over for the program already */
		if (request->state == MXI_LEFT)
			mxi_request_free(endpoint, request);
		return;
	}
	if (request->kind == MXI_RECEIVE) {
		request->status.match_info = completion->tag;
		request->status.msg_length = (uint32_t)completion->message_length;
		request->status.xfer_length = (uint32_t)completion->length;
		request->handle = completion->peer;
	} else if (completion->status == THOLE_ERR_TRUNCATED) {
		/* a send whose receiver says how much it took, and no more */
		request->status.xfer_length = (uint32_t)completion->length;
	} else if (request->kind >= MXI_CONNECT) {
		mxi_connecting_completed(endpoint, request, completion->status);
		return;
	}
	mxi_request_finish(endpoint, request, mxi_request_status(completion->status));
}

bool mxi_ending_withdraw(struct mx_endpoint *endpoint, union mx_request *request)
{
	uint8_t state = request->state;

	if (request->query)
		return mxi_connecting_cancel(request);
	if (!request->busy)
		return true;
	request->state = MXI_DONE; /* its completion finds nobody who waits */
	thole_cancel_context(endpoint->thole, request);
	request->state = state;
	return !request->busy;
}

static void mxi_ending_end(struct mx_endpoint *endpoint, union mx_request *request, mx_status_code_t code)
{
	if (!mxi_ending_withdraw(endpoint, request) && request->query)
		mxi_connecting_answers(endpoint); /* it has its answer since a moment ago */
	else
		mxi_request_finish(endpoint, request, code);
}

void mxi_ending_expire(struct mx_endpoint *endpoint, uint64_t now_ns)
{
	struct heap_node *first;

	while ((first = heap_first(&endpoint->timed)) && first->key <= now_ns)
		mxi_ending_end(endpoint, container_of(first, union mx_request, limit), MX_STATUS_TIMEOUT);
}

void mxi_ending_of_peer(struct mx_endpoint *endpoint, const struct mxi_peer *peer)
{
	for (uint32_t i = 0; i < endpoint->requests.capacity; i++) {
		union mx_request *request = pool_at(&endpoint->requests, i);

		if (pool_is_live(&endpoint->requests, request) && request->peer == peer &&
		    request->state == MXI_PENDING)
			mxi_ending_end(endpoint, request, MX_STATUS_ENDPOINT_UNREACHABLE);
	}
}
