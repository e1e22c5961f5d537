/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx_endpoint.h"

#include <stdio.h>
#include <stdlib.h>

#include "front/caretaker.h"
#include "ucx_error.h"
#include "ucx_flush.h"
#include "ucx_request.h"

/* ---- Peers that go ---------------------------------------------------------------------------------- */

/* The callback of what calls for a failure: not with the lock. */
static void ucx_endpoint_tell(void *shown, ucs_status_t status, void *user_data)
{
	struct ucp_ep *endpoint = user_data;
	struct charge *charge = &endpoint->worker->charge;
	bool closed;

	(void)shown;
	charge_enter(charge);
	closed = endpoint->closed;
	charge_leave(charge);
	if (!closed)
		endpoint->handler.cb(endpoint->handler.arg, endpoint, status);
	charge_enter(charge);
	endpoint->telling = false;
	ucx_endpoint_leave(endpoint);
	charge_leave(charge);
}

/* This is called, without the lock, by the program's next progress. With the lock. */
static void ucx_endpoint_call(struct ucp_ep *endpoint, ucp_send_nbx_callback_t callback, ucs_status_t status)
{
	endpoint->telling = true;
	endpoint->watch = (struct ucx_request){
		.flags = UCX_CALLBACK,
		.status = status,
		.worker = endpoint->worker,
		.callback.send = callback,
		.user_data = endpoint,
	};
	ucx_request_end_first(&endpoint->watch);
}

/* The program is to be called. With the lock. */
static void ucx_endpoint_fail(struct ucp_ep *endpoint, ucs_status_t status)
{
	endpoint->failed = status;
	ucx_endpoint_call(endpoint, ucx_endpoint_tell, status);
}

/* Of what a call says: other statuses may be the call's own. */
static bool ucx_endpoint_is_of_peer(ucs_status_t status)
{
	return status == UCS_ERR_ENDPOINT_TIMEOUT || status == UCS_ERR_CONNECTION_RESET ||
	       status == UCS_ERR_REJECTED || status == UCS_ERR_INVALID_ADDR;
}

/* With the lock. Returns 0, also where the peer is found to be gone, or a THOLE_ERR_*. */
static int ucx_endpoint_post(struct ucp_ep *endpoint)
{
	int error;

	endpoint->watch = (struct ucx_request){
		.flags = UCX_WATCH,
		.worker = endpoint->worker,
		.endpoint = endpoint,
	};
	endpoint->watching = true; /* until it ends, which may be inside the call */
	error = thole_recv(endpoint->thole, endpoint->peer, NULL, 0, 0, 0, THOLE_PLAIN, &endpoint->watch, NULL);
	if (!error)
		return 0;
	endpoint->watching = false;
	if (!ucx_endpoint_is_of_peer(ucx_error_status(error)))
		return error;
	ucx_endpoint_fail(endpoint, ucx_error_status(error));
	return 0;
}

/* The callback of a watch that a message has ended: not with the lock. */
static void ucx_endpoint_watch_on(void *shown, ucs_status_t status, void *user_data)
{
	struct ucp_ep *endpoint = user_data;
	struct charge *charge = &endpoint->worker->charge;

	(void)shown;
	(void)status;
	charge_enter(charge);
	endpoint->telling = false;
	if (!endpoint->closed && ucx_endpoint_post(endpoint) != 0)
		ucx_endpoint_call(endpoint, ucx_endpoint_watch_on, UCS_OK); /* again, there is no memory now */
	ucx_endpoint_leave(endpoint);
	charge_leave(charge);
}

void ucx_endpoint_watched(struct ucx_request *watch)
{
	struct ucp_ep *endpoint = watch->endpoint;

	endpoint->watching = false;
	switch (watch->status) {
	case UCS_ERR_CANCELED:
		break;
	case UCS_OK:
	case UCS_ERR_MESSAGE_TRUNCATED: /* a program's for another interface */
		ucx_endpoint_call(endpoint, ucx_endpoint_watch_on, UCS_OK);
		break;
	default: /* whatever it was, the peer is lost by it */
		ucx_endpoint_fail(endpoint, watch->status);
	}
}

/* Its program is not to be called. With the lock. */
static void ucx_endpoint_unwatch(struct ucp_ep *endpoint)
{
	if (endpoint->watching)
		thole_cancel_context(endpoint->thole, &endpoint->watch); /* which comes to ucx_endpoint_watched */
}

void ucx_endpoint_refused(struct ucp_ep *endpoint, ucs_status_t status)
{
	if (!endpoint->watching || !ucx_endpoint_is_of_peer(status))
		return;
	ucx_endpoint_unwatch(endpoint);
	if (!endpoint->watching)
		ucx_endpoint_fail(endpoint, status);
}

/* Whether a peer is there at all is found out by connecting, as UCX does; but for MXoE's, to whom that would tell a key
 * of its own. With the lock. */
static void ucx_endpoint_connect(struct ucp_ep *endpoint, const struct thole_address *address)
{
	struct ucx_request *request;
	uint8_t mac[6], number;
	int error;

	if (thole_mxoe_parts(address, mac, &number) == 0)
		return;
	request = ucx_request_get(endpoint->worker);
	if (!request)
		return; /* the first send connects */
	*request = (struct ucx_request){.flags = UCX_OURS | UCX_FREED, .worker = endpoint->worker};
	error = thole_connect(endpoint->thole, endpoint->peer, 0, request, NULL);
	if (!error)
		return;
	ucx_request_put(request);
	ucx_endpoint_refused(endpoint, ucx_error_status(error));
}

/* With the lock. Returns 0 or a THOLE_ERR_*. */
static int ucx_endpoint_watch(struct ucp_ep *endpoint, const ucp_ep_params_t *params,
			      const struct thole_address *address)
{
	int error;

	if (!(params->field_mask & UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE) ||
	    params->err_mode != UCP_ERR_HANDLING_MODE_PEER ||
	    !(params->field_mask & UCP_EP_PARAM_FIELD_ERR_HANDLER) || !params->err_handler.cb)
		return 0;
	if (endpoint->worker->context->am)
		return THOLE_ERR_UNSUPPORTED; /* its receive would meet active messages */
	endpoint->handler = params->err_handler;
	if (params->field_mask & UCP_EP_PARAM_FIELD_USER_DATA)
		endpoint->handler.arg = params->user_data;
	error = ucx_endpoint_post(endpoint);
	if (endpoint->watching)
		ucx_endpoint_connect(endpoint, address);
	return error;
}

/* ---- Opening ----------------------------------------------------------------------------------------- */

/* To a worker whose address the program has, rather than to a listener, or back to who has called one. */
static bool ucx_endpoint_is_by_address(const ucp_ep_params_t *params)
{
	bool calls = params->field_mask & UCP_EP_PARAM_FIELD_FLAGS && params->flags & UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;

	return !calls && params->field_mask & UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
}

ucs_status_t ucp_ep_create(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *endpoint_p)
{
	struct thole_address address = {{0}};
	struct ucp_ep *endpoint;
	int error;

	if (!ucx_endpoint_is_by_address(params))
		return params->field_mask & (UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_CONN_REQUEST)
			       ? UCS_ERR_UNSUPPORTED
			       : UCS_ERR_INVALID_PARAM;
	/* Its length is not given to us; another library's may be shorter than ours, and have no end that is a 0. */
	snprintf(address.text, sizeof address.text, "%.*s", THOLE_ADDRESS_MAX - 1, (const char *)params->address);
	endpoint = calloc(1, sizeof *endpoint);
	if (!endpoint)
		return UCS_ERR_NO_MEMORY;
	charge_enter(&worker->charge);
	list_init(&endpoint->sends);
	endpoint->worker = worker;
	endpoint->thole = worker->thole;
	ucx_state_name(endpoint->name, params->field_mask & UCP_EP_PARAM_FIELD_NAME ? params->name : NULL, endpoint);
	error = thole_peer(worker->thole, &address, &endpoint->peer);
	if (!error)
		error = ucx_endpoint_watch(endpoint, params, &address);
	if (!error)
		list_push_back(&worker->endpoints, &endpoint->node);
	charge_leave(&worker->charge);
	if (error) {
		free(endpoint);
		ucx_error_tell("no peer", error);
		return ucx_error_status(error);
	}
	caretaker_again(); /* where there was no thread when the worker was opened, as beside many that start */
	*endpoint_p = endpoint;
	return UCS_OK;
}

void ucx_endpoint_free(struct ucp_ep *endpoint)
{
	list_remove(&endpoint->node);
	free(endpoint);
}

void ucx_endpoint_leave(struct ucp_ep *endpoint)
{
	if (endpoint->closed && list_empty(&endpoint->sends) && !endpoint->telling && !endpoint->watching &&
	    !endpoint->owes)
		ucx_endpoint_free(endpoint);
}

ucs_status_t ucp_ep_query(ucp_ep_h ep, ucp_ep_attr_t *attr)
{
	if (attr->field_mask & ~(uint64_t)UCP_EP_ATTR_FIELD_NAME)
		return UCS_ERR_UNSUPPORTED;
	if (attr->field_mask & UCP_EP_ATTR_FIELD_NAME)
		ucx_state_name(attr->name, ep->name, ep);
	return UCS_OK;
}

void ucp_ep_print_info(ucp_ep_h ep, FILE *stream)
{
	struct thole_peer_info info = {0};

	charge_enter(&ep->worker->charge);
	if (thole_peer_info(ep->thole, ep->peer, &info) == 0)
		fprintf(stream, "# Thole %s, peer %u by %s, %s\n", thole_version(), ep->peer, info.transport,
			info.state);
	charge_leave(&ep->worker->charge);
}

/* ---- Closing endpoints ----------------------------------------------------------------------------- */

/* Take back what has not left. Its end is told from progress: who closes may be in a callback. With the lock. */
static void ucx_endpoint_cancel(struct ucp_ep *endpoint)
{
	for (struct list_node *node = list_first(&endpoint->sends), *next; node; node = next) {
		struct ucx_request *request = container_of(node, struct ucx_request, node);

		next = list_next(&endpoint->sends, node);
		if (!(request->flags & UCX_AHEAD)) /* which its data takes along */
			ucx_request_cancel(request);
	}
}

/* What is under way in a forked child is its parent's. */
static ucs_status_ptr_t ucx_endpoint_close(struct ucp_ep *endpoint, const ucp_request_param_t *param, bool wait)
{
	struct ucp_worker *worker = endpoint->worker;
	bool inherited = worker->charge.inherited;
	ucs_status_ptr_t result = NULL;

	charge_enter(&worker->charge);
	if (!inherited)
		ucx_endpoint_unwatch(endpoint);
	if (!inherited && wait)
		result = ucx_flush_begin(worker, endpoint, param, 0);
	else if (!inherited)
		ucx_endpoint_cancel(endpoint);
	endpoint->closed = true;
	ucx_endpoint_leave(endpoint);
	charge_leave(&worker->charge);
	return result;
}

ucs_status_ptr_t ucp_ep_close_nbx(ucp_ep_h ep, const ucp_request_param_t *param)
{
	bool force = param->op_attr_mask & UCP_OP_ATTR_FIELD_FLAGS && param->flags & UCP_EP_CLOSE_FLAG_FORCE;

	return ucx_endpoint_close(ep, param, !force);
}

ucs_status_ptr_t ucp_ep_close_nb(ucp_ep_h ep, unsigned mode)
{
	ucp_request_param_t param = {.op_attr_mask = 0};

	return ucx_endpoint_close(ep, &param, mode != UCP_EP_CLOSE_MODE_FORCE);
}

ucs_status_ptr_t ucp_disconnect_nb(ucp_ep_h ep)
{
	return ucp_ep_close_nb(ep, UCP_EP_CLOSE_MODE_FLUSH);
}

void ucp_ep_destroy(ucp_ep_h ep)
{
	struct ucp_worker *worker = ep->worker;

	ucx_flush_wait(worker, ucp_disconnect_nb(ep));
}
