/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_request.h"

#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "mx_error.h"

enum { MS = 1000000 }; /* ns */

/* Thole's word for a peer that is gone does not say how; what it knows of the peer does. */
static __attribute__((noinline, cold)) mx_status_code_t mxi_request_gone_code(struct mx_endpoint *endpoint,
									      const struct mxi_peer *peer)
{
	struct thole_peer_info info;
	bool silent = peer && thole_peer_info(endpoint->thole, peer->handle, &info) == 0 &&
		      strcmp(info.reason, "silent") == 0;

	return silent ? MX_STATUS_ENDPOINT_UNREACHABLE : MX_STATUS_ENDPOINT_CLOSED;
}

/* False: it is a receive's, and there is no memory for it now. */
static inline bool mxi_request_peer(struct mx_endpoint *endpoint, const union mx_request *request,
				    struct mxi_peer **peer_p)
{
	bool received = request->kind == MXI_RECEIVE && request->handle != THOLE_ANY;

	*peer_p = received ? mxi_peer_by_handle(&endpoint->peers, request->handle) : request->peer;
	return __builtin_expect(!received || *peer_p, 1);
}

bool mxi_request_shows(struct mx_endpoint *endpoint, const union mx_request *request)
{
	struct mxi_peer *peer;

	return mxi_request_peer(endpoint, request, &peer);
}

bool mxi_request_take(struct mx_endpoint *endpoint, union mx_request *request, mx_status_t *status_p)
{
	mx_status_code_t code = load_relaxed(&request->status.code);
	struct mxi_peer *peer;

	if (!mxi_request_peer(endpoint, request, &peer))
		return false;
	if (request->kind >= MXI_CONNECT && peer && peer->session == 0)
		peer->session = mxi_peer_session(&endpoint->peers, peer->handle);
	if (__builtin_expect(code == MX_STATUS_ENDPOINT_CLOSED, 0))
		code = mxi_request_gone_code(endpoint, peer);
	/* Field by field: a wider load would have to wait until the stores that it covers are out
	 * of the store buffer. */
	status_p->code = code;
	status_p->source = mxi_peer_address(peer);
	status_p->match_info = load_relaxed(&request->status.match_info);
	status_p->msg_length = load_relaxed(&request->status.msg_length);
	status_p->xfer_length = load_relaxed(&request->status.xfer_length);
	status_p->context = load_relaxed(&request->status.context);
	mxi_request_leave(endpoint, request);
	return true;
}

mx_return_t mxi_request_limit(struct mx_endpoint *endpoint, union mx_request *request, uint32_t timeout_ms)
{
	if (request->state != MXI_PENDING)
		return MX_SUCCESS;
	if (timeout_ms == 0) {
		heap_remove(&endpoint->timed, &request->limit);
		return MX_SUCCESS;
	}
	if (heap_reserve(&endpoint->timed, endpoint->timed.count + 1) != 0)
		return MX_NO_RESOURCES;
	heap_set(&endpoint->timed, &request->limit, clock_now_ns() + (uint64_t)timeout_ms * MS);
	return MX_SUCCESS;
}

mx_status_code_t mxi_request_failure(int error)
{
	switch (error) {
	case THOLE_OK:
		return MX_STATUS_SUCCESS;
	case THOLE_ERR_TRUNCATED:
		return MX_STATUS_TRUNCATED;
	case THOLE_ERR_CANCELED:
		return MX_STATUS_CANCELLED;
	case THOLE_ERR_TIMEOUT:
		return MX_STATUS_TIMEOUT;
	case THOLE_ERR_PEER:
	case THOLE_ERR_CLOSED:
		return MX_STATUS_ENDPOINT_CLOSED;
	case THOLE_ERR_ADDRESS:
		return MX_STATUS_ENDPOINT_UNREACHABLE;
	case THOLE_ERR_ACCESS:
		return MX_STATUS_BAD_KEY;
	case THOLE_ERR_NOT_FOUND:
		return MX_STATUS_BAD_SESSION;
	case THOLE_ERR_MEMORY:
	case THOLE_ERR_AGAIN:
	case THOLE_ERR_SYSTEM:
		return MX_STATUS_NO_RESOURCES;
	case THOLE_ERR_FAULT:
		return MX_STATUS_REJECTED;
	default:
		return MX_STATUS_ABORTED;
	}
}

mx_return_t mxi_request_refuse(const struct mx_endpoint *endpoint, const char *call)
{
	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "%s without an endpoint", call);
	return mxi_error(endpoint->error_handler, MX_BAD_REQUEST, "%s without a request", call);
}

mx_return_t mxi_request_refuse_match(const struct mx_endpoint *endpoint, const char *call, uint64_t match_info,
				     uint64_t match_mask)
{
	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "%s without an endpoint", call);
	return mxi_error(endpoint->error_handler, MX_BAD_MATCH_MASK,
			 "%s: the match info %llx has bits that its mask %llx has not", call,
			 (unsigned long long)match_info, (unsigned long long)match_mask);
}
