/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages with tags: sends, receives, probes. Owns nothing: a call takes a request, and Thole the message.
 *
 * A receive is for any peer: which one a message is from is a matter of the tag's bits, as UCX has it.
 */
#include "ucx_error.h"
#include "ucx_send.h"

/* ---- Sends ----------------------------------------------------------------------------------------- */

/* One that needs a request, or may need one. */
static __attribute__((noinline)) ucs_status_ptr_t
ucx_tag_send_request(struct ucp_ep *endpoint, const void *buffer, size_t count, ucp_tag_t tag,
		     const ucp_request_param_t *param, uint32_t flags, unsigned thole_flags)
{
	struct ucx_request *request;
	ucs_status_t status = ucx_call_begin(endpoint->worker, param, &request);

	if (__builtin_expect(status != UCS_OK, 0))
		return UCS_STATUS_PTR(status);
	return ucx_send_begun(endpoint, request, buffer, count, tag, param, flags, thole_flags);
}

static inline __attribute__((always_inline)) ucs_status_ptr_t
ucx_tag_send(struct ucp_ep *endpoint, const void *buffer, size_t count, ucp_tag_t tag,
	     const ucp_request_param_t *param, uint32_t flags, unsigned thole_flags)
{
	struct ucp_worker *worker = endpoint->worker;
	ucp_datatype_t datatype = ucx_call_datatype(param);
	int error;

	if (__builtin_expect(ucx_datatype_is_contiguous(datatype), 1) && !(thole_flags & THOLE_SYNC) &&
	    !(param->op_attr_mask & (UCP_OP_ATTR_FLAG_NO_IMM_CMPL | UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL))) {
		charge_enter(&worker->charge);
		error = thole_send(endpoint->thole, endpoint->peer, buffer, ucx_datatype_length(datatype, count), tag,
				   0, thole_flags | THOLE_AT_ONCE | THOLE_OR_NOT, NULL, NULL);
		charge_leave(&worker->charge);
		if (__builtin_expect(error == 1, 1))
			return NULL;
	}
	return ucx_tag_send_request(endpoint, buffer, count, tag, param, flags, thole_flags);
}

ucs_status_ptr_t ucp_tag_send_nbx(ucp_ep_h ep, const void *buffer, size_t count, ucp_tag_t tag,
				  const ucp_request_param_t *param)
{
	return ucx_tag_send(ep, buffer, count, tag, param, 0, 0);
}

ucs_status_ptr_t ucp_tag_send_sync_nbx(ucp_ep_h ep, const void *buffer, size_t count, ucp_tag_t tag,
				       const ucp_request_param_t *param)
{
	return ucx_tag_send(ep, buffer, count, tag, param, 0, THOLE_SYNC);
}

static ucs_status_ptr_t ucx_tag_send_plain(struct ucp_ep *endpoint, const void *buffer, size_t count, ucp_tag_t tag,
					   ucp_datatype_t datatype, ucp_send_callback_t callback, unsigned thole_flags)
{
	ucp_request_param_t param = ucx_call_param(datatype, callback ? UCP_OP_ATTR_FIELD_CALLBACK : 0);

	param.cb.send = (ucp_send_nbx_callback_t)(uintptr_t)callback; /* told apart by UCX_PLAIN */
	return ucx_tag_send(endpoint, buffer, count, tag, &param, UCX_PLAIN, thole_flags);
}

ucs_status_ptr_t ucp_tag_send_nb(ucp_ep_h ep, const void *buffer, size_t count, ucp_datatype_t datatype, ucp_tag_t tag,
				 ucp_send_callback_t cb)
{
	return ucx_tag_send_plain(ep, buffer, count, tag, datatype, cb, 0);
}

ucs_status_ptr_t ucp_tag_send_sync_nb(ucp_ep_h ep, const void *buffer, size_t count, ucp_datatype_t datatype,
				      ucp_tag_t tag, ucp_send_callback_t cb)
{
	return ucx_tag_send_plain(ep, buffer, count, tag, datatype, cb, THOLE_SYNC);
}

ucs_status_t ucp_tag_send_nbr(ucp_ep_h ep, const void *buffer, size_t count, ucp_datatype_t datatype, ucp_tag_t tag,
			      void *request)
{
	ucp_request_param_t param = ucx_call_param(datatype, UCP_OP_ATTR_FIELD_REQUEST);
	ucs_status_ptr_t result;

	param.request = request;
	result = ucx_tag_send(ep, buffer, count, tag, &param, 0, 0);
	return UCS_PTR_IS_PTR(result) ? UCS_INPROGRESS : UCS_PTR_STATUS(result);
}

/* ---- Receives -------------------------------------------------------------------------------------- */

/* What is to be received: the next message with these bits in its tag, or one that a probe took out. Handed on as a
 * value, so that it stays in registers. */
struct ucx_tag_wanted {
	ucp_tag_t tag, mask;
	struct thole_message *message; /* NULL: the next */
};

static __attribute__((noinline)) int ucx_tag_recv_segments(struct ucp_worker *worker, struct ucx_request *request,
							   void *buffer, size_t count, ucp_datatype_t datatype,
							   struct ucx_tag_wanted wanted)
{
	const struct iovec *segments;
	struct iovec single;
	bool parts = worker->parts && !wanted.message;
	ucs_status_t status = ucx_datatype_room(datatype, buffer, &count, parts, &single, &segments, &request->bounce);
	int error;

	if (status != UCS_OK)
		return status == UCS_ERR_NO_MEMORY ? THOLE_ERR_MEMORY : THOLE_ERR_UNSUPPORTED;
	if (wanted.message)
		error = thole_message_recv(worker->thole, wanted.message, segments, count, 0, request, NULL);
	else if (ucx_datatype_has_layout(request->bounce))
		error = thole_recv_layout(worker->thole, THOLE_ANY, &request->bounce->parts->layout, wanted.tag,
					  wanted.mask, 0, request, NULL);
	else
		error = thole_recvv(worker->thole, THOLE_ANY, segments, count, wanted.tag, wanted.mask, 0, request,
				    NULL);
	if (error) {
		ucx_datatype_end(request->bounce, 0, UCS_ERR_CANCELED);
		request->bounce = NULL;
	} else if (request->bounce) {
		list_push_back(&worker->bounces, &request->bounce->node);
	}
	return error;
}

/* A receive whose message was there already: what its call reports. With the lock, which is left. */
static __attribute__((noinline)) ucs_status_ptr_t
ucx_tag_recv_at_once(struct ucx_request *request, const ucp_request_param_t *param, uint32_t flags)
{
	struct ucp_worker *worker = request->worker;
	ucs_status_t status;

	if (param->op_attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL || request->bounce) {
		/* The program's functions are called without the lock. */
		bool quiet = !(param->op_attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL);

		request->flags = ucx_call_flags(param, flags) & (quiet ? ~(uint32_t)UCX_CALLBACK : UINT32_MAX);
		charge_leave(&worker->charge);
		ucx_request_tell(request);
		if (!quiet)
			return ucx_request_shown(request);
		charge_enter(&worker->charge);
	} else {
		request->flags = ucx_call_flags(param, flags) | UCX_ENDED;
	}
	status = request->status;
	if (param->op_attr_mask & UCP_OP_ATTR_FIELD_RECV_INFO)
		*param->recv_info.tag_info = request->info;
	ucx_call_return(request, param, status);
	charge_leave(&worker->charge);
	return UCS_STATUS_PTR(status);
}

/* A receive whose call has begun. */
static inline __attribute__((always_inline)) ucs_status_ptr_t
ucx_tag_recv_begun(struct ucx_request *request, void *buffer, size_t count, struct ucx_tag_wanted wanted,
		   const ucp_request_param_t *param, uint32_t flags)
{
	ucp_datatype_t datatype = ucx_call_datatype(param);
	struct ucp_worker *worker = request->worker;
	int error;

	request->callback.receive = param->cb.recv;
	request->user_data = param->op_attr_mask & UCP_OP_ATTR_FIELD_USER_DATA ? param->user_data : NULL;
	if (__builtin_expect(ucx_datatype_is_contiguous(datatype) && !wanted.message, 1))
		error = thole_recv(worker->thole, THOLE_ANY, buffer, ucx_datatype_length(datatype, count), wanted.tag,
				   wanted.mask, 0, request, NULL);
	else
		error = ucx_tag_recv_segments(worker, request, buffer, count, datatype, wanted);
	if (__builtin_expect(error, 0)) {
		ucx_call_return(request, param, ucx_error_status(error));
		charge_leave(&worker->charge);
		return UCS_STATUS_PTR(ucx_error_status(error));
	}
	flags |= UCX_RECEIVE;
	if (request->flags & UCX_ENDED)
		return ucx_tag_recv_at_once(request, param, flags);
	request->flags = ucx_call_flags(param, flags);
	charge_leave(&worker->charge);
	return ucx_request_shown(request);
}

static inline __attribute__((always_inline)) ucs_status_ptr_t
ucx_tag_recv(struct ucp_worker *worker, void *buffer, size_t count, struct ucx_tag_wanted wanted,
	     const ucp_request_param_t *param, uint32_t flags)
{
	struct ucx_request *request;
	ucs_status_t status = ucx_call_begin(worker, param, &request);

	if (__builtin_expect(status != UCS_OK, 0))
		return UCS_STATUS_PTR(status);
	return ucx_tag_recv_begun(request, buffer, count, wanted, param, flags);
}

static __attribute__((noinline)) ucs_status_ptr_t ucx_tag_recv_later(ucp_worker_h worker, void *buffer, size_t count,
								     ucp_tag_t tag, ucp_tag_t tag_mask,
								     const ucp_request_param_t *param)
{
	return ucx_tag_recv(worker, buffer, count, (struct ucx_tag_wanted){tag, tag_mask, NULL}, param, 0);
}

ucs_status_ptr_t ucp_tag_recv_nbx(ucp_worker_h worker, void *buffer, size_t count, ucp_tag_t tag, ucp_tag_t tag_mask,
				  const ucp_request_param_t *param)
{
	struct ucx_request *request = ucx_call_begin_at_once(worker, param);

	if (__builtin_expect(!request, 0))
		return ucx_tag_recv_later(worker, buffer, count, tag, tag_mask, param);
	return ucx_tag_recv_begun(request, buffer, count, (struct ucx_tag_wanted){tag, tag_mask, NULL}, param, 0);
}

ucs_status_ptr_t ucp_tag_msg_recv_nbx(ucp_worker_h worker, void *buffer, size_t count, ucp_tag_message_h message,
				      const ucp_request_param_t *param)
{
	struct ucx_tag_wanted wanted = {.message = (struct thole_message *)(void *)message};

	return ucx_tag_recv(worker, buffer, count, wanted, param, 0);
}

/* These always call back, and always have a request. */
static __attribute__((noinline)) ucs_status_ptr_t
ucx_tag_recv_plain(struct ucp_worker *worker, void *buffer, size_t count, struct ucx_tag_wanted wanted,
		   ucp_datatype_t datatype, ucp_tag_recv_callback_t callback)
{
	ucp_request_param_t param = ucx_call_param(datatype, UCP_OP_ATTR_FLAG_NO_IMM_CMPL |
							     (callback ? UCP_OP_ATTR_FIELD_CALLBACK : 0));

	param.cb.recv = (ucp_tag_recv_nbx_callback_t)(uintptr_t)callback; /* told apart by UCX_PLAIN */
	return ucx_tag_recv(worker, buffer, count, wanted, &param, UCX_PLAIN);
}

ucs_status_ptr_t ucp_tag_recv_nb(ucp_worker_h worker, void *buffer, size_t count, ucp_datatype_t datatype,
				 ucp_tag_t tag, ucp_tag_t tag_mask, ucp_tag_recv_callback_t cb)
{
	struct ucx_tag_wanted wanted = {tag, tag_mask, NULL};

	return ucx_tag_recv_plain(worker, buffer, count, wanted, datatype, cb);
}

ucs_status_ptr_t ucp_tag_msg_recv_nb(ucp_worker_h worker, void *buffer, size_t count, ucp_datatype_t datatype,
				     ucp_tag_message_h message, ucp_tag_recv_callback_t cb)
{
	struct ucx_tag_wanted wanted = {.message = (struct thole_message *)(void *)message};

	return ucx_tag_recv_plain(worker, buffer, count, wanted, datatype, cb);
}

ucs_status_t ucp_tag_recv_nbr(ucp_worker_h worker, void *buffer, size_t count, ucp_datatype_t datatype, ucp_tag_t tag,
			      ucp_tag_t tag_mask, void *request)
{
	ucp_request_param_t param = ucx_call_param(datatype, UCP_OP_ATTR_FIELD_REQUEST);
	struct ucx_tag_wanted wanted = {tag, tag_mask, NULL};
	ucs_status_ptr_t result;

	param.request = request;
	result = ucx_tag_recv(worker, buffer, count, wanted, &param, 0);
	/* One that has begun and ended says so, with its status, when it is tested. */
	return UCS_PTR_IS_PTR(result) || !(ucx_request_of(request)->flags & UCX_STARTING) ? UCS_OK
											   : UCS_PTR_STATUS(result);
}

/* ---- Probes ---------------------------------------------------------------------------------------- */

ucp_tag_message_h ucp_tag_probe_nb(ucp_worker_h worker, ucp_tag_t tag, ucp_tag_t tag_mask, int remove,
				   ucp_tag_recv_info_t *info)
{
	struct thole_completion found;
	struct thole_message *message = NULL;
	int count;

	charge_enter(&worker->charge);
	if (remove)
		count = thole_message_probe(worker->thole, THOLE_ANY, tag, tag_mask, 0, &found, &message);
	else
		count = thole_probe(worker->thole, THOLE_ANY, tag, tag_mask, 0, &found);
	charge_leave(&worker->charge);
	if (count != 1)
		return NULL;
	info->sender_tag = found.tag;
	info->length = found.message_length;
	/* Of a message that stays, only that it is there is said. */
	return (ucp_tag_message_h)(message ? (void *)message : (void *)worker);
}
