/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx_endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ucx_error.h"
#include "ucx_flush.h"
#include "ucx_request.h"

enum { LOOK_CALLS = 256 }; /* that find nothing, from one look at a peer to the next */

/* ---- Peers that go ---------------------------------------------------------------------------------- */

/* The callback of the request `failure`: not with the lock. */
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

/* With the lock. False: there is no memory. */
static bool ucx_endpoint_watch(struct ucp_ep *endpoint, const ucp_ep_params_t *params)
{
	struct ucp_worker *worker = endpoint->worker;

	if (!(params->field_mask & UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE) ||
	    params->err_mode != UCP_ERR_HANDLING_MODE_PEER ||
	    !(params->field_mask & UCP_EP_PARAM_FIELD_ERR_HANDLER) || !params->err_handler.cb)
		return true;
	endpoint->failure = ucx_request_get(worker);
	if (!endpoint->failure)
		return false;
	endpoint->handler = params->err_handler;
	if (params->field_mask & UCP_EP_PARAM_FIELD_USER_DATA)
		endpoint->handler.arg = params->user_data;
	*endpoint->failure = (struct ucx_request){
		.flags = UCX_OURS | UCX_FREED | UCX_CALLBACK,
		.worker = worker,
		.callback.send = ucx_endpoint_tell,
		.user_data = endpoint,
	};
	worker->watched++;
	return true;
}

/* Its program is not to be called. With the lock. */
static void ucx_endpoint_unwatch(struct ucp_ep *endpoint)
{
	if (!endpoint->failure)
		return;
	ucx_request_put(endpoint->failure);
	endpoint->failure = NULL;
	endpoint->worker->watched--;
}

static bool ucx_endpoint_is_of_peer(ucs_status_t status)
{
	return status == UCS_ERR_ENDPOINT_TIMEOUT || status == UCS_ERR_CONNECTION_RESET ||
	       status == UCS_ERR_REJECTED || status == UCS_ERR_INVALID_ADDR;
}

void ucx_endpoint_failed(struct ucp_ep *endpoint, ucs_status_t status)
{
	struct ucx_request *request = endpoint->failure;

	if (!request || !ucx_endpoint_is_of_peer(status))
		return;
	endpoint->failure = NULL;
	endpoint->worker->watched--;
	endpoint->telling = true;
	request->status = status;
	ucx_request_end(request);
}

void ucx_endpoint_look(struct ucp_worker *worker)
{
	struct list_node *node = list_first(&worker->endpoints);
	struct ucp_ep *endpoint = container_of(node, struct ucp_ep, node);
	struct thole_peer_info info;

	if (++worker->looks % LOOK_CALLS)
		return;
	list_remove(node); /* each has its turn */
	list_push_back(&worker->endpoints, node);
	if (endpoint->failure && thole_peer_info(endpoint->thole, endpoint->peer, &info) == 0 &&
	    strcmp(info.state, "gone") == 0)
		ucx_endpoint_failed(endpoint, strcmp(info.reason, "closed") == 0    ? UCS_ERR_CONNECTION_RESET
					      : strcmp(info.reason, "refused") == 0 ? UCS_ERR_REJECTED
										    : UCS_ERR_ENDPOINT_TIMEOUT);
}

/* ---- Opening ----------------------------------------------------------------------------------------- */

ucs_status_t ucp_ep_create(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *endpoint_p)
{
	struct thole_address address = {{0}};
	struct ucp_ep *endpoint;
	int error;

	if (!(params->field_mask & UCP_EP_PARAM_FIELD_REMOTE_ADDRESS) ||
	    (params->field_mask & UCP_EP_PARAM_FIELD_FLAGS && params->flags & UCP_EP_PARAMS_FLAGS_CLIENT_SERVER))
		return UCS_ERR_UNSUPPORTED;
	/* Its length is not given to us; another library's may be shorter than ours, and have no end that is a 0. */
	snprintf(address.text, sizeof address.text, "%.*s", THOLE_ADDRESS_MAX - 1, (const char *)params->address);
	endpoint = calloc(1, sizeof *endpoint);
	if (!endpoint)
		return UCS_ERR_NO_MEMORY;
	charge_enter(&worker->charge);
	endpoint->worker = worker;
	endpoint->thole = worker->thole;
	error = thole_peer(worker->thole, &address, &endpoint->peer);
	if (!error && !ucx_endpoint_watch(endpoint, params))
		error = THOLE_ERR_MEMORY;
	if (!error)
		list_push_back(&worker->endpoints, &endpoint->node);
	charge_leave(&worker->charge);
	if (error) {
		free(endpoint);
		ucx_error_tell("no peer", error);
		return ucx_error_status(error);
	}
	*endpoint_p = endpoint;
	return UCS_OK;
}

void ucx_endpoint_free(struct ucp_ep *endpoint)
{
	ucx_endpoint_unwatch(endpoint);
	list_remove(&endpoint->node);
	free(endpoint);
}

void ucx_endpoint_leave(struct ucp_ep *endpoint)
{
	if (endpoint->closed && !endpoint->sends && !endpoint->telling)
		ucx_endpoint_free(endpoint);
}

ucs_status_t ucp_ep_query(ucp_ep_h ep, ucp_ep_attr_t *attr)
{
	if (attr->field_mask & ~(uint64_t)UCP_EP_ATTR_FIELD_NAME)
		return UCS_ERR_UNSUPPORTED;
	if (attr->field_mask & UCP_EP_ATTR_FIELD_NAME)
		snprintf(attr->name, sizeof attr->name, "thole-%u", ep->peer);
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

static ucs_status_ptr_t ucx_endpoint_close(struct ucp_ep *endpoint, const ucp_request_param_t *param, bool wait)
{
	struct ucp_worker *worker = endpoint->worker;
	ucs_status_ptr_t result = NULL;

	charge_enter(&worker->charge);
	ucx_endpoint_unwatch(endpoint);
	if (wait)
		result = ucx_flush_begin(worker, endpoint, param, 0);
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
