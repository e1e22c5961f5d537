/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_handler.h"

#include "mx_error.h"

static mx_unexp_handler_action_t mxi_handler_ask(struct mx_endpoint *endpoint, const struct thole_completion *message,
						 const void *data, const struct mxi_peer *peer)
{
	mx_unexp_handler_t handler = endpoint->handler;
	mx_matching_callback_t callback = endpoint->callback;
	void *context = endpoint->handler_context;
	mx_endpoint_addr_t source = mxi_peer_address(peer);
	mx_unexp_handler_action_t action = MX_RECV_CONTINUE;

	if (message->message_length == 0)
		data = ""; /* none of it is missing */
	endpoint->handler_thread = pthread_self();
	endpoint->in_handler = true;
	lock_leave(&endpoint->lock);
	if (handler)
		action = handler(context, source, message->tag, (uint32_t)message->message_length,
				 (void *)(uintptr_t)data);
	else if (callback)
		callback(context, message->tag, (int)message->message_length);
	lock_take(&endpoint->lock);
	endpoint->in_handler = false;
	return action;
}

bool mxi_handler_inside(const struct mx_endpoint *endpoint)
{
	return endpoint->in_handler && pthread_equal(endpoint->handler_thread, pthread_self());
}

/* Whom the next message is from, with the message in `screened`. NULL: there is none, or no memory for that: then it
 * stays there. */
static struct mxi_peer *mxi_handler_next(struct mx_endpoint *endpoint)
{
	struct mxi_screened *next = &endpoint->screened;

	if (endpoint->disabled)
		return NULL;
	if (!next->message && thole_screen_next(endpoint->thole, &next->about, &next->data, &next->message) != 1)
		return NULL;
	return mxi_peer_by_handle(&endpoint->peers, next->about.peer);
}

bool mxi_handler_run(struct mx_endpoint *endpoint)
{
	struct mxi_peer *peer;
	bool any = false;

	while ((peer = mxi_handler_next(endpoint))) {
		struct mxi_screened next = endpoint->screened;

		endpoint->screened.message = NULL;
		if (mxi_handler_ask(endpoint, &next.about, next.data, peer) == MX_RECV_FINISHED)
			thole_message_drop(endpoint->thole, next.message);
		else
			thole_message_keep(endpoint->thole, next.message);
		any = true;
	}
	return any;
}

static mx_return_t mxi_handler_set(struct mx_endpoint *endpoint, mx_unexp_handler_t handler,
				   mx_matching_callback_t callback, void *context)
{
	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "an unexpected handler without an endpoint");
	lock_take(&endpoint->lock);
	endpoint->handler = handler;
	endpoint->callback = callback;
	endpoint->handler_context = context;
	endpoint->screening = handler || callback;
	thole_screen(endpoint->thole, endpoint->screening);
	if (!endpoint->screening && endpoint->screened.message) {
		thole_message_keep(endpoint->thole, endpoint->screened.message);
		endpoint->screened.message = NULL;
	}
	lock_leave(&endpoint->lock);
	return MX_SUCCESS;
}

mx_return_t mx_register_unexp_handler(mx_endpoint_t endpoint, mx_unexp_handler_t handler, void *context)
{
	return mxi_handler_set(endpoint, handler, NULL, context);
}

mx_return_t mx_register_unexp_callback(mx_endpoint_t endpoint, mx_matching_callback_t callback, void *context)
{
	return mxi_handler_set(endpoint, NULL, callback, context);
}
