/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx_endpoint.h"

#include <stdio.h>
#include <stdlib.h>

#include "ucx_error.h"
#include "ucx_flush.h"

/* ---- Opening ----------------------------------------------------------------------------------------- */

ucs_status_t ucp_ep_create(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *endpoint_p)
{
	struct thole_address address = {{0}};
	struct ucp_ep *endpoint;
	int error;

	if (!(params->field_mask & UCP_EP_PARAM_FIELD_REMOTE_ADDRESS) ||
	    (params->field_mask & UCP_EP_PARAM_FIELD_FLAGS && params->flags & UCP_EP_PARAMS_FLAGS_CLIENT_SERVER))
		return UCS_ERR_UNSUPPORTED;
	/* Its length is not given to us; another library's may be shorter than ours. */
	snprintf(address.text, sizeof address.text, "%s", (const char *)params->address);
	endpoint = calloc(1, sizeof *endpoint);
	if (!endpoint)
		return UCS_ERR_NO_MEMORY;
	charge_enter(&worker->charge);
	endpoint->worker = worker;
	endpoint->thole = worker->thole;
	error = thole_peer(worker->thole, &address, &endpoint->peer);
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
	list_remove(&endpoint->node);
	free(endpoint);
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
	if (wait)
		result = ucx_flush_begin(worker, endpoint, param, 0);
	endpoint->closed = true;
	if (!endpoint->sends)
		ucx_endpoint_free(endpoint);
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
