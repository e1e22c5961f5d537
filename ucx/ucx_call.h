/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_call.h - what calls with a ucp_request_param_t have in common: their datatype, the lock and a request at the
 * beginning, and where the request goes if nobody is to ask for it.
 */
#ifndef UCX_CALL_H
#define UCX_CALL_H

#include "ucx_request.h"

/* The parameters of calls that take a datatype and a callback, which comes without user_data. */
static inline ucp_request_param_t ucx_call_param(ucp_datatype_t datatype, uint32_t mask)
{
	return (ucp_request_param_t){.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | mask, .datatype = datatype};
}

static inline ucp_datatype_t ucx_call_datatype(const ucp_request_param_t *param)
{
	return param->op_attr_mask & UCP_OP_ATTR_FIELD_DATATYPE ? param->datatype : ucp_dt_make_contig(1);
}

static inline void ucx_call_request_begin(struct ucp_worker *worker, struct ucx_request *request)
{
	request->flags = UCX_STARTING;
	request->bounce = NULL;
	request->worker = worker;
}

/* A call begins: take the lock, and a request. Where it fails, the lock is not held. */
static inline ucs_status_t ucx_call_begin(struct ucp_worker *worker, const ucp_request_param_t *param,
					  struct ucx_request **request_p)
{
	struct ucx_request *request;

	if (__builtin_expect(param->op_attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL, 0))
		return UCS_ERR_UNSUPPORTED;
	charge_enter(&worker->charge);
	request = param->op_attr_mask & UCP_OP_ATTR_FIELD_REQUEST ? ucx_request_of(param->request)
								   : ucx_request_get(worker);
	if (__builtin_expect(!request, 0)) {
		charge_leave(&worker->charge);
		return UCS_ERR_NO_MEMORY;
	}
	ucx_call_request_begin(worker, request);
	*request_p = request;
	return UCS_OK;
}

/* The same where it takes no call and nothing is wrong: NULL, and the lock not held, where it is not so. Then
 * ucx_call_begin follows. */
static inline struct ucx_request *ucx_call_begin_at_once(struct ucp_worker *worker, const ucp_request_param_t *param)
{
	struct ucx_request *request;

	if (__builtin_expect(param->op_attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL, 0) || !charge_try(&worker->charge))
		return NULL;
	if (param->op_attr_mask & UCP_OP_ATTR_FIELD_REQUEST) {
		request = ucx_request_of(param->request);
	} else if (__builtin_expect(worker->requests.free != NULL, 1)) {
		request = pool_get_free(&worker->requests);
	} else {
		charge_leave(&worker->charge);
		return NULL;
	}
	ucx_call_request_begin(worker, request);
	return request;
}

/* Its flags once the operation goes on by itself. */
static inline uint32_t ucx_call_flags(const ucp_request_param_t *param, uint32_t flags)
{
	return flags | (param->op_attr_mask & UCP_OP_ATTR_FIELD_REQUEST ? 0 : (uint32_t)UCX_OURS) |
	       (param->op_attr_mask & UCP_OP_ATTR_FIELD_CALLBACK ? (uint32_t)UCX_CALLBACK : 0);
}

/* A call has failed, or there is nothing to ask its request for: that goes where it came from. One of the program's has
 * ended, so that it may be asked, and given back. With the lock. */
static inline void ucx_call_return(struct ucx_request *request, const ucp_request_param_t *param, ucs_status_t status)
{
	if (!(param->op_attr_mask & UCP_OP_ATTR_FIELD_REQUEST)) {
		ucx_request_put(request);
		return;
	}
	request->status = status;
	store_release(&request->flags, request->flags | UCX_ENDED); /* partner: ucx_request_has_ended */
}

#endif /* UCX_CALL_H */
