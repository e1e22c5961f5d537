/* SPDX-License-Identifier: BSD-3-Clause */
/* mx_connect - mx_connect, mx_iconnect and mx_disconnect. */
#include "mx_connecting.h"
#include "mx_ending.h"
#include "mx_error.h"
#include "mx_handler.h"
#include "mx_progress.h"
#include "mx_wait.h"

/* A synchronous connect has no request that could say how it ended. */
static mx_return_t mxi_connect_code_of(mx_status_code_t status)
{
	switch (status) {
	case MX_STATUS_SUCCESS:
		return MX_SUCCESS;
	case MX_STATUS_BAD_KEY:
		return MX_BAD_CONNECTION_KEY;
	case MX_STATUS_BAD_ENDPOINT:
		return MX_BAD_ENDPOINT_ID;
	case MX_STATUS_ENDPOINT_CLOSED:
		return MX_CONNECTION_FAILED;
	case MX_STATUS_ENDPOINT_UNKNOWN:
		return MX_NIC_NOT_FOUND;
	case MX_STATUS_NO_RESOURCES:
		return MX_NO_RESOURCES;
	default:
		return MX_TIMEOUT;
	}
}

static bool mxi_connect_is_done(struct mx_endpoint *endpoint, void *arg)
{
	(void)endpoint;
	return ((union mx_request *)arg)->state == MXI_DONE;
}

mx_return_t mx_connect(mx_endpoint_t endpoint, uint64_t nic_id, uint32_t endpoint_id, uint32_t key, uint32_t timeout,
		       mx_endpoint_addr_t *addr)
{
	mx_status_t status = {.code = MX_STATUS_TIMEOUT};
	union mx_request *request;
	mx_return_t code;
	bool inside;

	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "mx_connect without an endpoint");
	lock_take(&endpoint->lock);
	inside = mxi_handler_inside(endpoint);
	request = inside ? NULL : mxi_request_new(endpoint, MXI_CONNECT_CALL, 0, NULL, NULL, 0);
	if (request) {
		mxi_connecting_start(endpoint, request, nic_id, endpoint_id, key, timeout);
		if (!mxi_wait(endpoint, mxi_connect_is_done, request, timeout) && request->query &&
		    !mxi_connecting_cancel(request))
			mxi_connecting_answers(endpoint); /* just now */
		if (request->state != MXI_DONE || !mxi_request_take(endpoint, request, &status))
			mxi_request_leave(endpoint, request);
	}
	lock_leave(&endpoint->lock);
	code = request ? mxi_connect_code_of(status.code) : inside ? MX_CLOSE_IN_HANDLER : MX_NO_RESOURCES;
	if (code)
		return mxi_error(mxi_endpoint_handler(endpoint), code, "mx_connect to endpoint %u of %012llx",
				 endpoint_id, (unsigned long long)nic_id);
	*addr = status.source;
	return MX_SUCCESS;
}

mx_return_t mx_iconnect(mx_endpoint_t endpoint, uint64_t nic_id, uint32_t endpoint_id, uint32_t key,
			uint64_t match_info, void *context, mx_request_t *request_p)
{
	union mx_request *request;

	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "mx_iconnect without an endpoint");
	lock_take(&endpoint->lock);
	request = mxi_request_new_limited(endpoint, MXI_CONNECT, match_info, context, NULL, 0, request_p);
	if (request) {
		if (request_p)
			*request_p = request;
		mxi_connecting_start(endpoint, request, nic_id, endpoint_id, key, endpoint->timeout_ms);
		if (!request_p)
			mxi_request_leave(endpoint, request);
	}
	lock_leave(&endpoint->lock);
	return request ? MX_SUCCESS
		       : mxi_error(mxi_endpoint_handler(endpoint), MX_NO_RESOURCES,
				   "mx_iconnect: no memory for another request");
}

/* Messages of it that nobody has received are dropped, what is under way to it ends. Thole keeps
 * its connection, and a peer that is connected to again, or speaks again, is a new one. */
mx_return_t mx_disconnect(mx_endpoint_t endpoint, mx_endpoint_addr_t addr)
{
	struct thole_completion message;
	struct mxi_peer *peer;

	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "mx_disconnect without an endpoint");
	lock_take(&endpoint->lock);
	mxi_progress_run(endpoint);
	peer = mxi_peer_of(&endpoint->peers, addr);
	if (peer) {
		mxi_ending_of_peer(endpoint, peer);
		while (thole_probe(endpoint->thole, peer->handle, 0, 0, THOLE_DISCARD | THOLE_LOOK, &message) == 1)
			;
		peer->disconnected = peer != endpoint->self;
	}
	lock_leave(&endpoint->lock);
	return peer ? MX_SUCCESS
		    : mxi_error(mxi_endpoint_handler(endpoint), MX_BAD_ENDPOINT,
				"mx_disconnect of a peer that is not connected");
}
