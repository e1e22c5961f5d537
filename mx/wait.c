/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait: progress, the unexpected handler, and all calls that look for something that is done or has come.
 *
 * A waiting thread looks, spins, then sleeps. One of those who sleep leads: it attends to two descriptors, Thole's, and wake_fd,
 * which says what Thole's does not: an answer of the directory, mx_wakeup, and what another thread's progress has found. The others
 * follow: they sleep until `events` changes. A leader that leaves wakes one of them to lead.
 */
#include "internal.h"

#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "library.h"

enum {
	MS = 1000000,         /* ns */
	SPIN_NS = 50000,      /* before sleeping; about what waking up costs */
	SLICE_MS = 100,       /* longest sleep: what no descriptor shows is found after it */
	HANDLER_SLICE_MS = 1, /* the same while another thread's handler keeps everybody from progress */
};

/* ---- Progress ---------------------------------------------------------------------------------------------------- */

static void followers_wake(struct mx_endpoint *endpoint, int count)
{
	if (endpoint->followers > 0)
		syscall(SYS_futex, &endpoint->events, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

void mxi_wake(struct mx_endpoint *endpoint)
{
	static const uint64_t one = 1;

	if (endpoint->leader_sleeps && !endpoint->leader_woken)
		(void)!write(endpoint->wake_fd, &one, sizeof(one));
	endpoint->leader_woken = true;
	followers_wake(endpoint, INT_MAX);
}

/* The program's word on a message that nobody expects. It may call anything here but what closes the endpoint. */
static mx_unexp_handler_action_t handler_run(struct mx_endpoint *endpoint, const struct thole_completion *message,
					     const void *data)
{
	mx_unexp_handler_t handler = endpoint->handler;
	mx_matching_callback_t callback = endpoint->callback;
	void *context = endpoint->handler_context;
	mx_endpoint_addr_t source = mxi_peer_address(mxi_peer_by_handle(endpoint, message->peer));
	mx_unexp_handler_action_t action = MX_RECV_CONTINUE;

	if (message->message_length == 0)
		data = ""; /* none of it is missing */
	endpoint->handler_thread = pthread_self();
	endpoint->in_handler = true;
	lock_leave(&endpoint->lock);
	if (handler)
		action = handler(context, source, message->tag, (uint32_t)message->message_length, (void *)(uintptr_t)data);
	else if (callback)
		callback(context, message->tag, (int)message->message_length);
	lock_take(&endpoint->lock);
	endpoint->in_handler = false;
	return action;
}

bool mxi_is_handler(const struct mx_endpoint *endpoint)
{
	return endpoint->in_handler && pthread_equal(endpoint->handler_thread, pthread_self());
}

/* Whether there were any. */
static bool handler_progress(struct mx_endpoint *endpoint)
{
	struct thole_completion completion;
	struct thole_message *message;
	const void *data;
	bool any = false;

	while (!endpoint->disabled && thole_screen_next(endpoint->thole, &completion, &data, &message) == 1) {
		if (handler_run(endpoint, &completion, data) == MX_RECV_FINISHED)
			thole_message_drop(endpoint->thole, message);
		else
			thole_message_keep(endpoint->thole, message);
		any = true;
	}
	return any;
}

void mxi_progress(struct mx_endpoint *endpoint)
{
	int n;

	endpoint->looks++;
	if (__builtin_expect(endpoint->in_handler || endpoint->disabled, 0))
		return;
	n = thole_progress(endpoint->thole);
	if (__builtin_expect(endpoint->screening, 0))
		handler_progress(endpoint);
	if (__builtin_expect(load_relaxed(&endpoint->entry.answers) != endpoint->answers, 0))
		mxi_connect_answers(endpoint);
	if (__builtin_expect(heap_first(&endpoint->timed) != NULL, 0))
		mxi_request_expire(endpoint, clock_now_ns());
	if (n > 0)
		mxi_happened(endpoint); /* perhaps what another thread probes for */
}

mx_return_t mx_progress(mx_endpoint_t endpoint)
{
	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "mx_progress without an endpoint");
	lock_take(&endpoint->lock);
	mxi_progress(endpoint);
	lock_leave(&endpoint->lock);
	return MX_SUCCESS;
}

mx_return_t mx_disable_progression(mx_endpoint_t endpoint)
{
	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "mx_disable_progression without an endpoint");
	lock_take(&endpoint->lock);
	while (endpoint->in_handler && !mxi_is_handler(endpoint)) {
		lock_leave(&endpoint->lock);
		sched_yield();
		lock_take(&endpoint->lock);
	}
	endpoint->disabled = true;
	lock_leave(&endpoint->lock);
	return MX_SUCCESS;
}

mx_return_t mx_reenable_progression(mx_endpoint_t endpoint)
{
	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "mx_reenable_progression without an endpoint");
	lock_take(&endpoint->lock);
	endpoint->disabled = false;
	mxi_progress(endpoint);
	lock_leave(&endpoint->lock);
	return MX_SUCCESS;
}

static mx_return_t handler_set(struct mx_endpoint *endpoint, mx_unexp_handler_t handler, mx_matching_callback_t callback,
			       void *context)
{
	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "an unexpected handler without an endpoint");
	lock_take(&endpoint->lock);
	endpoint->handler = handler;
	endpoint->callback = callback;
	endpoint->handler_context = context;
	endpoint->screening = handler || callback;
	thole_screen(endpoint->thole, endpoint->screening);
	lock_leave(&endpoint->lock);
	return MX_SUCCESS;
}

mx_return_t mx_register_unexp_handler(mx_endpoint_t endpoint, mx_unexp_handler_t handler, void *context)
{
	return handler_set(endpoint, handler, NULL, context);
}

mx_return_t mx_register_unexp_callback(mx_endpoint_t endpoint, mx_matching_callback_t callback, void *context)
{
	return handler_set(endpoint, NULL, callback, context);
}

/* ---- Waiting ------------------------------------------------------------------------------------------------------ */

/* As the one that attends to the descriptors. */
static void leader_sleep(struct mx_endpoint *endpoint, int longest_ms)
{
	struct pollfd fds[] = {{.fd = endpoint->wake_fd, .events = POLLIN},
			       {.fd = thole_fd(endpoint->thole), .events = POLLIN}};
	bool paused = endpoint->in_handler || endpoint->disabled;
	uint64_t count;

	if (!paused && ((endpoint->screening && handler_progress(endpoint)) || thole_arm(endpoint->thole) != 0))
		return;
	endpoint->leader_sleeps = true;
	endpoint->leader_woken = false;
	lock_leave(&endpoint->lock);
	poll(fds, paused ? 1 : 2, longest_ms);
	lock_take(&endpoint->lock);
	endpoint->leader_sleeps = false;
	(void)!read(endpoint->wake_fd, &count, sizeof(count));
}

/* Until something has happened since the caller looked, with the lock held from then on. */
static void follower_sleep(struct mx_endpoint *endpoint, int longest_ms)
{
	struct timespec longest = {.tv_sec = longest_ms / 1000, .tv_nsec = longest_ms % 1000 * (long)MS};
	uint32_t events = endpoint->events;

	endpoint->followers++;
	lock_leave(&endpoint->lock);
	syscall(SYS_futex, &endpoint->events, FUTEX_WAIT_PRIVATE, events, &longest, NULL, 0);
	lock_take(&endpoint->lock);
	endpoint->followers--;
}

/* Sleep until something has happened, but not beyond the deadline. */
static void endpoint_sleep(struct mx_endpoint *endpoint, uint64_t now_ns, uint64_t deadline_ns)
{
	const struct heap_node *first = heap_first(&endpoint->timed);
	int longest_ms = endpoint->in_handler || endpoint->disabled ? HANDLER_SLICE_MS : SLICE_MS;

	if (first && first->key < deadline_ns)
		deadline_ns = first->key;
	if (deadline_ns <= now_ns)
		return;
	if (deadline_ns - now_ns < (uint64_t)longest_ms * MS)
		longest_ms = (int)((deadline_ns - now_ns + MS - 1) / MS);
	if (endpoint->leader_sleeps)
		follower_sleep(endpoint, longest_ms);
	else
		leader_sleep(endpoint, longest_ms);
}

/* If nobody leads, one of those who follow is to. */
static bool wait_end(struct mx_endpoint *endpoint, bool done)
{
	if (!endpoint->leader_sleeps) {
		endpoint->events++;
		followers_wake(endpoint, 1);
	}
	return done;
}

bool mxi_wait(struct mx_endpoint *endpoint, mxi_done_fn *done, void *arg, uint32_t timeout_ms)
{
	uint64_t start_ns = 0, deadline_ns = UINT64_MAX;
	uint32_t wakeups = endpoint->wakeups;

	for (;;) {
		uint32_t events;
		uint64_t now_ns;

		mxi_progress(endpoint);
		events = endpoint->events;
		if (done(endpoint, arg))
			return wait_end(endpoint, true);
		lock_leave(&endpoint->lock); /* let other threads in */
		now_ns = clock_now_ns();
		lock_take(&endpoint->lock);
		if (start_ns == 0) {
			start_ns = now_ns;
			if (timeout_ms != MX_INFINITE)
				deadline_ns = now_ns + (uint64_t)timeout_ms * MS;
		}
		if (now_ns >= deadline_ns || endpoint->wakeups != wakeups)
			return wait_end(endpoint, done(endpoint, arg));
		if (now_ns - start_ns >= SPIN_NS && endpoint->events == events)
			endpoint_sleep(endpoint, now_ns, deadline_ns);
	}
}

mx_return_t mx_wakeup(mx_endpoint_t endpoint)
{
	if (!endpoint)
		return mxi_error(NULL, MX_BAD_ENDPOINT, "mx_wakeup without an endpoint");
	lock_take(&endpoint->lock);
	endpoint->wakeups++;
	mxi_happened(endpoint);
	lock_leave(&endpoint->lock);
	return MX_SUCCESS;
}

/* ---- What to look for ------------------------------------------------------------------------------------------------ */

struct look {
	uint64_t match_info, match_mask;
	union mx_request *request;
	mx_status_t *status_p;
};

mx_return_t mxi_match_check(struct mx_endpoint *endpoint, const char *call, uint64_t match_info, uint64_t match_mask)
{
	if (__builtin_expect(!endpoint, 0))
		return mxi_error(NULL, MX_BAD_ENDPOINT, "%s without an endpoint", call);
	if (__builtin_expect((match_info & ~match_mask) != 0, 0))
		return mxi_error(endpoint, MX_BAD_MATCH_MASK, "%s: the match info %llx has bits that its mask %llx has not", call,
				 (unsigned long long)match_info, (unsigned long long)match_mask);
	return MX_SUCCESS;
}

mx_return_t mxi_request_check(struct mx_endpoint *endpoint, const char *call, const mx_request_t *request)
{
	if (__builtin_expect(!endpoint, 0))
		return mxi_error(NULL, MX_BAD_ENDPOINT, "%s without an endpoint", call);
	if (__builtin_expect(!request || !*request, 0))
		return mxi_error(endpoint, MX_BAD_REQUEST, "%s without a request", call);
	return MX_SUCCESS;
}

/* A request that is done; it is taken. */
static bool look_request(struct mx_endpoint *endpoint, void *arg)
{
	const struct look *look = arg;

	if (look->request->state != MXI_DONE)
		return false;
	mxi_request_take(endpoint, look->request, look->status_p);
	return true;
}

/* The oldest done request that matches. */
static union mx_request *done_find(const struct mx_endpoint *endpoint, uint64_t match_info, uint64_t match_mask)
{
	bool one = endpoint->done_by_context && (endpoint->context_mask & ~match_mask) == 0;
	const struct list_node *head = one ? mxi_done_of(endpoint, match_info) : &endpoint->done;

	for (struct list_node *node = list_first(head); node; node = list_next(head, node)) {
		union mx_request *request = one ? container_of(node, union mx_request, same)
						: container_of(node, union mx_request, done);

		if ((request->status.match_info & match_mask) == match_info)
			return request;
	}
	return NULL;
}

static bool look_any(struct mx_endpoint *endpoint, void *arg)
{
	const struct look *look = arg;
	union mx_request *request = done_find(endpoint, look->match_info, look->match_mask);

	if (request)
		mxi_request_take(endpoint, request, look->status_p);
	return request != NULL;
}

/* The oldest done request, left where it is. */
static bool look_peek(struct mx_endpoint *endpoint, void *arg)
{
	struct look *look = arg;
	struct list_node *node = list_first(&endpoint->done);

	if (node)
		look->request = container_of(node, union mx_request, done);
	return node != NULL;
}

/* The oldest message that nobody expects and that matches. */
static bool look_probe(struct mx_endpoint *endpoint, void *arg)
{
	const struct look *look = arg;
	struct thole_completion message;

	if (thole_probe(endpoint->thole, THOLE_ANY, look->match_info, look->match_mask, 0, &message) != 1)
		return false;
	*look->status_p = (mx_status_t){
		.code = MX_STATUS_SUCCESS,
		.source = mxi_peer_address(mxi_peer_by_handle(endpoint, message.peer)),
		.match_info = message.tag,
		.msg_length = (uint32_t)message.message_length,
		.xfer_length = (uint32_t)message.message_length,
	};
	return true;
}

/* Look once; if there is nothing, progress and look again. */
static inline bool look_once(struct mx_endpoint *endpoint, mxi_done_fn *look_for,
			     struct look *look)
{
	bool found;

	lock_take(&endpoint->lock);
	found = look_for(endpoint, look);
	if (!found) {
		mxi_progress(endpoint);
		found = look_for(endpoint, look);
	}
	lock_leave(&endpoint->lock);
	return found;
}

/* The same until there is something. */
static mx_return_t look_wait(struct mx_endpoint *endpoint, const char *call,
			     mxi_done_fn *look_for, struct look *look, uint32_t timeout_ms,
			     uint32_t *result)
{
	bool inside;

	lock_take(&endpoint->lock);
	inside = mxi_is_handler(endpoint);
	*result = look_for(endpoint, look) || (!inside && mxi_wait(endpoint, look_for, look, timeout_ms));
	lock_leave(&endpoint->lock);
	return inside && !*result ? mxi_error(endpoint, MX_CLOSE_IN_HANDLER, "%s in the endpoint's own unexpected handler", call)
				  : MX_SUCCESS;
}

/* ---- The interface --------------------------------------------------------------------------------------------------- */

mx_return_t mx_test(mx_endpoint_t endpoint, mx_request_t *request, mx_status_t *status, uint32_t *result)
{
	mx_return_t code = mxi_request_check(endpoint, "mx_test", request);
	struct look look = {.status_p = status};

	if (code)
		return code;
	look.request = *request;
	*result = look_once(endpoint, look_request, &look);
	if (*result)
		*request = NULL;
	return MX_SUCCESS;
}

mx_return_t mx_wait(mx_endpoint_t endpoint, mx_request_t *request, uint32_t timeout, mx_status_t *status, uint32_t *result)
{
	mx_return_t code = mxi_request_check(endpoint, "mx_wait", request);
	struct look look = {.status_p = status};

	if (code)
		return code;
	look.request = *request;
	code = look_wait(endpoint, "mx_wait", look_request, &look, timeout, result);
	if (*result)
		*request = NULL;
	return code;
}

/* What goes by match information: look once, or until there is something. */
static mx_return_t match_test(mx_endpoint_t endpoint, const char *call, mxi_done_fn *look_for, uint64_t match_info, uint64_t match_mask,
			      mx_status_t *status, uint32_t *result)
{
	mx_return_t code = mxi_match_check(endpoint, call, match_info, match_mask);
	struct look look = {.match_info = match_info, .match_mask = match_mask, .status_p = status};

	*result = code ? 0 : look_once(endpoint, look_for, &look);
	return code;
}

static mx_return_t match_wait(mx_endpoint_t endpoint, const char *call, mxi_done_fn *look_for, uint32_t timeout, uint64_t match_info,
			      uint64_t match_mask, mx_status_t *status, uint32_t *result)
{
	mx_return_t code = mxi_match_check(endpoint, call, match_info, match_mask);
	struct look look = {.match_info = match_info, .match_mask = match_mask, .status_p = status};

	*result = 0;
	return code ? code : look_wait(endpoint, call, look_for, &look, timeout, result);
}

mx_return_t mx_test_any(mx_endpoint_t endpoint, uint64_t match_info, uint64_t match_mask, mx_status_t *status, uint32_t *result)
{
	return match_test(endpoint, "mx_test_any", look_any, match_info, match_mask, status, result);
}

mx_return_t mx_wait_any(mx_endpoint_t endpoint, uint32_t timeout, uint64_t match_info, uint64_t match_mask, mx_status_t *status,
			uint32_t *result)
{
	return match_wait(endpoint, "mx_wait_any", look_any, timeout, match_info, match_mask, status, result);
}

mx_return_t mx_iprobe(mx_endpoint_t endpoint, uint64_t match_info, uint64_t match_mask, mx_status_t *status, uint32_t *result)
{
	return match_test(endpoint, "mx_iprobe", look_probe, match_info, match_mask, status, result);
}

mx_return_t mx_probe(mx_endpoint_t endpoint, uint32_t timeout, uint64_t match_info, uint64_t match_mask, mx_status_t *status,
		     uint32_t *result)
{
	return match_wait(endpoint, "mx_probe", look_probe, timeout, match_info, match_mask, status, result);
}

mx_return_t mx_ipeek(mx_endpoint_t endpoint, mx_request_t *request, uint32_t *result)
{
	mx_return_t code = mxi_match_check(endpoint, "mx_ipeek", 0, 0);
	struct look look = {0};

	*result = code ? 0 : look_once(endpoint, look_peek, &look);
	if (*result)
		*request = look.request;
	return code;
}

mx_return_t mx_peek(mx_endpoint_t endpoint, uint32_t timeout, mx_request_t *request, uint32_t *result)
{
	mx_return_t code = mxi_match_check(endpoint, "mx_peek", 0, 0);
	struct look look = {0};

	*result = 0;
	if (!code)
		code = look_wait(endpoint, "mx_peek", look_peek, &look, timeout, result);
	if (*result)
		*request = look.request;
	return code;
}
