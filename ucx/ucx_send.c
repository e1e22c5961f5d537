/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx_send.h"

#include "ucx_endpoint.h"
#include "ucx_error.h"
#include "ucx_flush.h"

static __attribute__((noinline)) int ucx_send_segments(struct ucp_ep *endpoint, struct ucx_request *request,
						       const void *buffer, size_t count, uint64_t tag,
						       ucp_datatype_t datatype, unsigned thole_flags,
						       size_t *length_p)
{
	const struct iovec *segments;
	struct iovec single;
	ucs_status_t status = ucx_datatype_pack(datatype, buffer, &count, endpoint->worker->parts, &single, &segments,
						&request->bounce);
	int error = status == UCS_OK ? 0 : status == UCS_ERR_NO_MEMORY ? THOLE_ERR_MEMORY : THOLE_ERR_UNSUPPORTED;

	if (!error && ucx_datatype_has_layout(request->bounce))
		error = thole_send_layout(endpoint->thole, endpoint->peer, &request->bounce->parts->layout, tag, 0,
					  thole_flags, request, NULL);
	else if (!error)
		error = thole_sendv(endpoint->thole, endpoint->peer, segments, count, tag, 0, thole_flags, request,
				    NULL);
	if (error || request->flags & UCX_ENDED) {
		ucx_datatype_end(request->bounce, 0, UCS_OK);
		request->bounce = NULL;
		return error;
	}
	if (request->bounce)
		list_push_back(&endpoint->worker->bounces, &request->bounce->node);
	*length_p = ucx_datatype_has_layout(request->bounce) ? request->bounce->parts->layout.length
							    : ucx_datatype_total(segments, count);
	return 0;
}

int ucx_send_ahead(struct ucp_ep *endpoint, const void *buffer, size_t length, uint64_t tag,
		   struct ucx_request **request_p)
{
	struct ucx_request *request = ucx_request_get(endpoint->worker);
	int error;

	*request_p = NULL;
	if (!request)
		return THOLE_ERR_MEMORY;
	*request = (struct ucx_request){.flags = UCX_STARTING, .worker = endpoint->worker};
	error = thole_send(endpoint->thole, endpoint->peer, buffer, length, tag, 0, THOLE_PLAIN | THOLE_INJECT,
			   request, NULL);
	if (error || request->flags & UCX_ENDED) {
		ucx_request_put(request);
		return error;
	}
	request->flags = UCX_OURS | UCX_FREED | UCX_SEND | UCX_AHEAD;
	ucx_flush_sending(request, endpoint);
	*request_p = request;
	return 0;
}

/* An empty message goes instead of data that does not, for which the peer waits. There may be no memory for that
 * either: then it is owed. With the lock. */
static void ucx_send_instead(struct ucp_ep *endpoint, uint64_t tag)
{
	struct ucp_worker *worker = endpoint->worker;
	struct ucx_request *ahead;
	int error = ucx_send_ahead(endpoint, NULL, 0, tag, &ahead);
	bool owes = error == THOLE_ERR_MEMORY || error == THOLE_ERR_AGAIN || error == THOLE_ERR_SYSTEM;

	worker->owing += (uint32_t)owes - endpoint->owes;
	endpoint->owes = owes;
	endpoint->owed = tag;
}

void ucx_send_owed(struct ucp_worker *worker)
{
	struct list_node *node = list_first(&worker->endpoints);
	struct ucp_ep *endpoint;

	while (node && !container_of(node, struct ucp_ep, node)->owes)
		node = list_next(&worker->endpoints, node);
	if (!node)
		return;
	endpoint = container_of(node, struct ucp_ep, node);
	list_remove(node);
	list_push_back(&worker->endpoints, node); /* the next one's turn is the next time */
	ucx_send_instead(endpoint, endpoint->owed);
	ucx_endpoint_leave(endpoint);
}

/* Data of an active message has ended in its call. Where it does not go, what went ahead is taken back, or something is
 * sent in its place. */
static __attribute__((noinline)) void ucx_send_followed(struct ucp_ep *endpoint, struct ucx_request *request,
							uint64_t tag, bool failed)
{
	struct ucx_request *ahead = request->pair;

	if (ahead)
		request->pair = ahead->pair = NULL;
	if (failed && (!ahead || !thole_cancel_context(endpoint->thole, ahead)))
		ucx_send_instead(endpoint, tag);
}

ucs_status_ptr_t ucx_send_begun(struct ucp_ep *endpoint, struct ucx_request *request, const void *buffer, size_t count,
				uint64_t tag, const ucp_request_param_t *param, uint32_t flags, unsigned thole_flags)
{
	struct ucp_worker *worker = endpoint->worker;
	ucp_datatype_t datatype = ucx_call_datatype(param);
	size_t length = ucx_datatype_length(datatype, count);
	ucs_status_ptr_t result;
	ucs_status_t status;
	int error;

	if (__builtin_expect(ucx_datatype_is_contiguous(datatype), 1))
		error = thole_send(endpoint->thole, endpoint->peer, buffer, length, tag, 0,
				   thole_flags | THOLE_AT_ONCE, request, NULL);
	else
		error = ucx_send_segments(endpoint, request, buffer, count, tag, datatype, thole_flags, &length);
	if (error == 1) { /* complete, and nothing said so */
		request->status = UCS_OK;
		request->flags |= UCX_ENDED;
		error = 0;
	}
	if (__builtin_expect(request->flags & UCX_FOLLOWS, 0) && (error || request->flags & UCX_ENDED))
		ucx_send_followed(endpoint, request, tag, error);
	if (__builtin_expect(error || (request->flags & UCX_ENDED &&
				       !(param->op_attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL)), 1)) {
		status = error ? ucx_error_status(error) : request->status;
		result = UCS_STATUS_PTR(status);
		ucx_call_return(request, param, status);
		if (__builtin_expect(error, 0))
			ucx_endpoint_refused(endpoint, status);
		charge_leave(&worker->charge);
		return result;
	}
	request->callback.send = param->cb.send;
	request->user_data = param->op_attr_mask & UCP_OP_ATTR_FIELD_USER_DATA ? param->user_data : NULL;
	if (request->flags & UCX_ENDED) {
		request->flags = ucx_call_flags(param, flags);
		charge_leave(&worker->charge);
		ucx_request_tell(request);
		return ucx_request_shown(request);
	}
	if (!(thole_flags & THOLE_SYNC) && length <= worker->unasked_max)
		flags |= UCX_UNASKED;
	request->flags = ucx_call_flags(param, flags | UCX_SEND | (request->flags & UCX_FOLLOWS));
	ucx_flush_sending(request, endpoint);
	charge_leave(&worker->charge);
	return ucx_request_shown(request);
}
