/* SPDX-License-Identifier: BSD-3-Clause */
/* mx_poll - all calls that look for something that is done or has come: test, wait, peek and
 * probe. */
#include "mx_error.h"
#include "mx_handler.h"
#include "mx_peer.h"
#include "mx_progress.h"
#include "mx_request.h"
#include "mx_wait.h"

/* What is looked for. */
struct poll {
	uint64_t match_info, match_mask; /* of what is looked for by them */
	union mx_request *request;       /* that is to be done; or that was found done */
	mx_status_t *status_p;           /* where the result goes */
};

/* A request that is done; it is taken. One that cannot be just now is not done yet. */
static bool mxi_poll_for_request(struct mx_endpoint *endpoint, void *arg)
{
	const struct poll *poll = arg;

	return poll->request->state == MXI_DONE && mxi_request_take(endpoint, poll->request, poll->status_p);
}

/* The oldest done request that matches. */
static union mx_request *mxi_poll_done_find(const struct mx_endpoint *endpoint, uint64_t match_info,
					    uint64_t match_mask)
{
	bool one = endpoint->done_by_context && (endpoint->context_mask & ~match_mask) == 0;
	const struct list_node *head = one ? mxi_request_done_of(endpoint, match_info) : &endpoint->done;

	for (struct list_node *node = list_first(head); node; node = list_next(head, node)) {
		union mx_request *request =
			one ? container_of(node, union mx_request, same) : container_of(node, union mx_request, done);

		if ((request->status.match_info & match_mask) == match_info)
			return request;
	}
	return NULL;
}

static bool mxi_poll_for_any(struct mx_endpoint *endpoint, void *arg)
{
	const struct poll *poll = arg;
	union mx_request *request = mxi_poll_done_find(endpoint, poll->match_info, poll->match_mask);

	return request && mxi_request_take(endpoint, request, poll->status_p);
}

/* The oldest done request, left where it is. */
static bool mxi_poll_for_peek(struct mx_endpoint *endpoint, void *arg)
{
	struct poll *poll = arg;
	struct list_node *node = list_first(&endpoint->done);

	if (!node)
		return false;
	poll->request = container_of(node, union mx_request, done);
	return mxi_request_shows(endpoint, poll->request); /* else a test would say that it is not done */
}

/* The oldest message that nobody expects and that matches. Progress is made by mxi_progress_run alone: it tells others
 * who wait, and is switched off at times. */
static bool mxi_poll_for_probe(struct mx_endpoint *endpoint, void *arg)
{
	const struct poll *poll = arg;
	struct thole_completion message;
	struct mxi_peer *peer;

	if (thole_probe(endpoint->thole, THOLE_ANY, poll->match_info, poll->match_mask, THOLE_LOOK, &message) != 1)
		return false;
	peer = mxi_peer_by_handle(&endpoint->peers, message.peer);
	if (!peer) /* no memory: another look may find it */
		return false;
	*poll->status_p = (mx_status_t){
		.code = MX_STATUS_SUCCESS,
		.source = mxi_peer_address(peer),
		.match_info = message.tag,
		.msg_length = (uint32_t)message.message_length,
		.xfer_length = (uint32_t)message.message_length,
	};
	return true;
}

/* Look once; if there is nothing, progress and look again. */
static inline bool mxi_poll_once(struct mx_endpoint *endpoint, mxi_wait_fn *poll_for, struct poll *poll)
{
	bool found;

	lock_take(&endpoint->lock);
	found = poll_for(endpoint, poll);
	if (!found) {
		mxi_progress_run(endpoint);
		found = poll_for(endpoint, poll);
	}
	lock_leave(&endpoint->lock);
	return found;
}

/* The same until there is something. */
static mx_return_t mxi_poll_wait(struct mx_endpoint *endpoint, const char *call, mxi_wait_fn *poll_for,
				 struct poll *poll, uint32_t timeout_ms, uint32_t *result)
{
	bool inside;

	lock_take(&endpoint->lock);
	inside = mxi_handler_inside(endpoint);
	*result = poll_for(endpoint, poll) || (!inside && mxi_wait(endpoint, poll_for, poll, timeout_ms));
	lock_leave(&endpoint->lock);
	return inside && !*result ? mxi_error(mxi_endpoint_handler(endpoint), MX_CLOSE_IN_HANDLER,
					      "%s in the endpoint's own unexpected handler", call)
				  : MX_SUCCESS;
}

/* ---- The interface --------------------------------------------------------------------------- */

mx_return_t mx_test(mx_endpoint_t endpoint, mx_request_t *request, mx_status_t *status, uint32_t *result)
{
	mx_return_t code = mxi_request_check(endpoint, "mx_test", request);
	struct poll poll = {.status_p = status};

	if (code)
		return code;
	poll.request = *request;
	*result = mxi_poll_once(endpoint, mxi_poll_for_request, &poll);
	if (*result)
		*request = NULL;
	return MX_SUCCESS;
}

mx_return_t mx_wait(mx_endpoint_t endpoint, mx_request_t *request, uint32_t timeout, mx_status_t *status,
		    uint32_t *result)
{
	mx_return_t code = mxi_request_check(endpoint, "mx_wait", request);
	struct poll poll = {.status_p = status};

	if (code)
		return code;
	poll.request = *request;
	code = mxi_poll_wait(endpoint, "mx_wait", mxi_poll_for_request, &poll, timeout, result);
	if (*result)
		*request = NULL;
	return code;
}

/* What goes by match information: look once, or until there is something. */
static mx_return_t mxi_poll_match_test(mx_endpoint_t endpoint, const char *call, mxi_wait_fn *poll_for,
				       uint64_t match_info, uint64_t match_mask, mx_status_t *status, uint32_t *result)
{
	mx_return_t code = mxi_request_check_match(endpoint, call, match_info, match_mask);
	struct poll poll = {.match_info = match_info, .match_mask = match_mask, .status_p = status};

	*result = code ? 0 : mxi_poll_once(endpoint, poll_for, &poll);
	return code;
}

static mx_return_t mxi_poll_match_wait(mx_endpoint_t endpoint, const char *call, mxi_wait_fn *poll_for,
				       uint32_t timeout, uint64_t match_info, uint64_t match_mask, mx_status_t *status,
				       uint32_t *result)
{
	mx_return_t code = mxi_request_check_match(endpoint, call, match_info, match_mask);
	struct poll poll = {.match_info = match_info, .match_mask = match_mask, .status_p = status};

	*result = 0;
	return code ? code : mxi_poll_wait(endpoint, call, poll_for, &poll, timeout, result);
}

mx_return_t mx_test_any(mx_endpoint_t endpoint, uint64_t match_info, uint64_t match_mask, mx_status_t *status,
			uint32_t *result)
{
	return mxi_poll_match_test(endpoint, "mx_test_any", mxi_poll_for_any, match_info, match_mask, status, result);
}

mx_return_t mx_wait_any(mx_endpoint_t endpoint, uint32_t timeout, uint64_t match_info, uint64_t match_mask,
			mx_status_t *status, uint32_t *result)
{
	return mxi_poll_match_wait(endpoint, "mx_wait_any", mxi_poll_for_any, timeout, match_info, match_mask, status,
				   result);
}

mx_return_t mx_iprobe(mx_endpoint_t endpoint, uint64_t match_info, uint64_t match_mask, mx_status_t *status,
		      uint32_t *result)
{
	return mxi_poll_match_test(endpoint, "mx_iprobe", mxi_poll_for_probe, match_info, match_mask, status, result);
}

mx_return_t mx_probe(mx_endpoint_t endpoint, uint32_t timeout, uint64_t match_info, uint64_t match_mask,
		     mx_status_t *status, uint32_t *result)
{
	return mxi_poll_match_wait(endpoint, "mx_probe", mxi_poll_for_probe, timeout, match_info, match_mask, status,
				   result);
}

mx_return_t mx_ipeek(mx_endpoint_t endpoint, mx_request_t *request, uint32_t *result)
{
	mx_return_t code = mxi_request_check_match(endpoint, "mx_ipeek", 0, 0);
	struct poll poll = {0};

	*result = code ? 0 : mxi_poll_once(endpoint, mxi_poll_for_peek, &poll);
	if (*result)
		*request = poll.request;
	return code;
}

mx_return_t mx_peek(mx_endpoint_t endpoint, uint32_t timeout, mx_request_t *request, uint32_t *result)
{
	mx_return_t code = mxi_request_check_match(endpoint, "mx_peek", 0, 0);
	struct poll poll = {0};

	*result = 0;
	if (!code)
		code = mxi_poll_wait(endpoint, "mx_peek", mxi_poll_for_peek, &poll, timeout, result);
	if (*result)
		*request = poll.request;
	return code;
}
