/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * poll: what looks once, after one step of progress if there is nothing yet, and does not wait - test, peek, poll, and
 * probes.
 */
#include "endpoint/sleep.h"
#include "message/message.h"

/* ---- Requests --------------------------------------------------------------------------------------- */

/* A loop that looks is here, or another thread is, which leaves it word (endpoint_left). */
static void poll_enter(struct thole_endpoint *endpoint)
{
	endpoint_lock(endpoint);
	endpoint->loop_awaits = false;
}

static int poll_request(struct thole_endpoint *endpoint, struct thole_request *request,
			struct thole_completion *completion_p)
{
	if (request->state != REQUEST_DONE)
		endpoint_progress(endpoint);
	if (request->state != REQUEST_DONE)
		return 0;
	request_collect(request, completion_p);
	return 1;
}

int thole_test(struct thole_endpoint *endpoint, struct thole_request *handle,
	       struct thole_completion *completion_p)
{
	int done;

	poll_enter(endpoint);
	done = poll_request(endpoint, handle, completion_p);
	endpoint_leave(endpoint);
	return done;
}

int thole_peek(struct thole_endpoint *endpoint, struct thole_request **request_p)
{
	int found = 0;

	poll_enter(endpoint);
	if (list_empty(&endpoint->done))
		endpoint_progress(endpoint);
	if (!list_empty(&endpoint->done)) {
		*request_p = container_of(list_first(&endpoint->done), struct thole_request,
								  node);
		found = 1;
	}
	endpoint_leave(endpoint);
	return found;
}

int thole_poll(struct thole_endpoint *endpoint, struct thole_completion *completions, size_t count)
{
	size_t n = 0;
	int handled;

	poll_enter(endpoint);
	handled = endpoint_progress(endpoint);
	while (n < count && !list_empty(&endpoint->queue))
		request_collect(container_of(list_first(&endpoint->queue), struct thole_request, node),
				&completions[n++]);
	endpoint_leave(endpoint);
	return count ? (int)n : handled;
}

/* ---- Messages --------------------------------------------------------------------------------------- */

static struct thole_message *poll_message(struct thole_endpoint *endpoint, uint32_t source, uint64_t tag, uint64_t mask,
				       unsigned flags)
{
	struct thole_message *unexpected = receive_find(endpoint, source, tag, mask, flags);

	if (unexpected || (flags & THOLE_LOOK) || endpoint_progress(endpoint) == 0)
		return unexpected;
	return receive_find(endpoint, source, tag, mask, flags);
}

int thole_probe(struct thole_endpoint *endpoint, uint32_t source, uint64_t tag, uint64_t mask, unsigned flags,
		struct thole_completion *completion_p)
{
	struct thole_message *unexpected;

	endpoint_lock(endpoint);
	unexpected = poll_message(endpoint, source, tag, mask, flags);
	if (unexpected) {
		unexpected_describe(unexpected, completion_p);
		if (flags & THOLE_DISCARD) {
			receive_take(endpoint, unexpected);
			unexpected_drop(unexpected);
		}
	}
	endpoint_leave(endpoint);
	return unexpected != NULL;
}

int thole_message_probe(struct thole_endpoint *endpoint, uint32_t source, uint64_t tag, uint64_t mask,
			unsigned flags, struct thole_completion *completion_p, struct thole_message **message_p)
{
	struct thole_message *unexpected;

	endpoint_lock(endpoint);
	unexpected = poll_message(endpoint, source, tag, mask, flags);
	if (unexpected) {
		unexpected_describe(unexpected, completion_p);
		receive_take(endpoint, unexpected);
		*message_p = unexpected;
	}
	endpoint_leave(endpoint);
	return unexpected != NULL;
}
