/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx_flush.h"

#include "ucx_request.h"

void ucx_flush_sending(struct ucx_request *request, struct ucp_ep *endpoint)
{
	struct ucp_worker *worker = endpoint->worker;

	request->endpoint = endpoint;
	request->order = worker->flush_count;
	list_push_back(&endpoint->sends, &request->node);
	if (request->flags & UCX_UNASKED) {
		endpoint->unasked++;
		worker->unasked++;
	}
}

void ucx_flush_sent(struct ucx_request *request)
{
	struct ucp_worker *worker = request->worker;
	struct ucx_request **place = &worker->flushes;

	list_remove(&request->node);
	if (__builtin_expect(request->flags & (UCX_AHEAD | UCX_FOLLOWS), 0) && request->pair)
		request->pair = request->pair->pair = NULL;
	if (!(request->flags & UCX_UNASKED))
		return;
	request->endpoint->unasked--;
	worker->unasked--;
	while (*place) {
		struct ucx_request *flush = *place;
		bool counts = request->order < flush->order &&
			      (!flush->endpoint || flush->endpoint == request->endpoint);

		/* Who asked to hear of failures hears that what was to be flushed is lost. */
		if (counts && flush->endpoint && flush->endpoint->handler.cb && request->status != UCS_OK)
			flush->status = request->status;
		if (!counts || --flush->left) {
			place = &flush->next;
			continue;
		}
		*place = flush->next;
		ucx_request_end(flush);
	}
}

ucs_status_ptr_t ucx_flush_begin(struct ucp_worker *worker, struct ucp_ep *endpoint, const ucp_request_param_t *param,
				 uint32_t flags)
{
	uint64_t left = endpoint ? endpoint->unasked : worker->unasked;
	struct ucx_request *flush;

	if (endpoint && endpoint->failed != UCS_OK)
		return UCS_STATUS_PTR(endpoint->failed);
	if (!left)
		return NULL;
	flush = param->op_attr_mask & UCP_OP_ATTR_FIELD_REQUEST ? ucx_request_of(param->request)
								 : ucx_request_get(worker);
	if (!flush)
		return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
	*flush = (struct ucx_request){
		.flags = flags | (param->op_attr_mask & UCP_OP_ATTR_FIELD_REQUEST ? 0 : (uint32_t)UCX_OURS),
		.worker = worker,
		.endpoint = endpoint,
		.order = ++worker->flush_count,
		.left = left,
		.next = worker->flushes,
	};
	if (param->op_attr_mask & UCP_OP_ATTR_FIELD_CALLBACK) {
		flush->flags |= UCX_CALLBACK;
		flush->callback.send = param->cb.send;
	}
	if (param->op_attr_mask & UCP_OP_ATTR_FIELD_USER_DATA)
		flush->user_data = param->user_data;
	worker->flushes = flush;
	return ucx_request_shown(flush);
}

/* The parameters of a call that takes but a callback. */
static ucp_request_param_t ucx_flush_param(ucp_send_callback_t callback)
{
	ucp_request_param_t param = {.op_attr_mask = callback ? UCP_OP_ATTR_FIELD_CALLBACK : 0};

	param.cb.send = (ucp_send_nbx_callback_t)(uintptr_t)callback; /* told apart by UCX_PLAIN */
	return param;
}

static ucs_status_ptr_t ucx_flush_locked(struct ucp_worker *worker, struct ucp_ep *endpoint,
					 const ucp_request_param_t *param, uint32_t flags)
{
	ucs_status_ptr_t result;

	charge_enter(&worker->charge);
	result = ucx_flush_begin(worker, endpoint, param, flags);
	charge_leave(&worker->charge);
	return result;
}

ucs_status_ptr_t ucp_ep_flush_nbx(ucp_ep_h ep, const ucp_request_param_t *param)
{
	return ucx_flush_locked(ep->worker, ep, param, 0);
}

ucs_status_ptr_t ucp_ep_flush_nb(ucp_ep_h ep, unsigned flags, ucp_send_callback_t cb)
{
	ucp_request_param_t param = ucx_flush_param(cb);

	(void)flags;
	return ucx_flush_locked(ep->worker, ep, &param, UCX_PLAIN);
}

ucs_status_ptr_t ucp_worker_flush_nbx(ucp_worker_h worker, const ucp_request_param_t *param)
{
	return ucx_flush_locked(worker, NULL, param, 0);
}

ucs_status_ptr_t ucp_worker_flush_nb(ucp_worker_h worker, unsigned flags, ucp_send_callback_t cb)
{
	ucp_request_param_t param = ucx_flush_param(cb);

	(void)flags;
	return ucx_flush_locked(worker, NULL, &param, UCX_PLAIN);
}

ucs_status_t ucx_flush_wait(struct ucp_worker *worker, ucs_status_ptr_t pointer)
{
	ucs_status_t status;

	if (!UCS_PTR_IS_PTR(pointer))
		return UCS_PTR_STATUS(pointer);
	while ((status = ucp_request_check_status(pointer)) == UCS_INPROGRESS)
		ucp_worker_progress(worker);
	ucp_request_free(pointer);
	return status;
}

ucs_status_t ucp_worker_flush(ucp_worker_h worker)
{
	return ucx_flush_wait(worker, ucp_worker_flush_nb(worker, 0, NULL));
}

ucs_status_t ucp_ep_flush(ucp_ep_h ep)
{
	return ucx_flush_wait(ep->worker, ucp_ep_flush_nb(ep, 0, NULL));
}

/* Messages arrive in order, and there is nothing else. */
ucs_status_t ucp_worker_fence(ucp_worker_h worker)
{
	(void)worker;
	return UCS_OK;
}
