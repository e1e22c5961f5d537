/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx_request.h"

#include <sched.h>
#include <stdio.h>

/* ---- Memory ---------------------------------------------------------------------------------------- */

/* The program prepares its part of a request once, when this is made. */
bool ucx_request_grow(struct ucp_worker *worker)
{
	const struct ucp_context *context = worker->context;
	uint32_t before = worker->requests.capacity;

	if (pool_grow(&worker->requests))
		return false;
	for (uint32_t i = before; context->request_init && i < worker->requests.capacity; i++)
		context->request_init(ucx_request_shown(pool_at(&worker->requests, i)));
	return true;
}

void ucx_request_drop_all(struct ucp_worker *worker)
{
	const struct ucp_context *context = worker->context;

	struct list_node *node;

	while ((node = list_first(&worker->bounces))) {
		list_remove(node);
		ucx_datatype_end(container_of(node, struct ucx_bounce, node), 0, UCS_ERR_CANCELED);
	}
	for (uint32_t i = 0; context->request_cleanup && i < worker->requests.capacity; i++)
		context->request_cleanup(ucx_request_shown(pool_at(&worker->requests, i)));
	pool_fini(&worker->requests);
}

/* ---- What has ended -------------------------------------------------------------------------------- */

static inline void ucx_request_call(struct ucx_request *request, void *shown)
{
	uint32_t kind = load_relaxed(&request->flags) & (UCX_RECEIVE | UCX_PLAIN);

	if (__builtin_expect(kind == UCX_RECEIVE, 1))
		request->callback.receive(shown, request->status, &request->info, request->user_data);
	else if (kind == (UCX_RECEIVE | UCX_PLAIN))
		request->callback.receive_plain(shown, request->status, &request->info);
	else if (kind == UCX_PLAIN)
		request->callback.send_plain(shown, request->status);
	else if (request->flags & UCX_AM)
		request->callback.data(shown, request->status, request->info.length, request->user_data);
	else
		request->callback.send(shown, request->status, request->user_data);
}

static _Thread_local unsigned inside; /* callbacks that this thread is in, of workers that threads share */

static inline void ucx_request_show(struct ucx_request *request, uint32_t flags)
{
	store_release(&request->flags, flags | UCX_ENDED); /* partner: ucx_request_has_ended */
}

static inline void ucx_request_call_inside(struct ucx_request *request, void *shown)
{
	bool shared = request->worker->charge.safe;

	if (__builtin_expect(shared, 0))
		inside++;
	ucx_request_call(request, shown);
	if (__builtin_expect(shared, 0))
		inside--;
}

/* A callback that runs, among its worker's. */
struct ucx_request_calling {
	const struct ucx_request *request;
	struct list_node node;
};

/* One in the program's hands, its memory or what ucp_request_alloc gave, which may have another use as soon as it is
 * shown. False: meanwhile it was given back. */
static __attribute__((noinline)) bool ucx_request_tell_copy(struct ucx_request *request)
{
	struct ucx_request_calling calling = {.request = request};
	struct ucp_worker *worker = request->worker;
	const bool shared = worker->charge.safe;
	struct ucx_request copy;

	if (shared)
		charge_enter(&worker->charge);
	copy = *request;
	if (!(copy.flags & UCX_FREED)) {
		ucx_request_show(request, copy.flags);
		if (shared)
			list_push_back(&worker->calling, &calling.node);
	}
	if (shared)
		charge_leave(&worker->charge);
	if (copy.flags & UCX_FREED)
		return false;
	ucx_request_call_inside(&copy, ucx_request_shown(request));
	if (shared) {
		charge_enter(&worker->charge);
		list_remove(&calling.node);
		charge_leave(&worker->charge);
	}
	return true;
}

/* One of the pool, with the lock: it stays until ucx_request_told. */
static inline void ucx_request_telling(struct ucx_request *request)
{
	ucx_request_show(request, request->flags | UCX_TELLING);
}

/* Nobody is called for it, or has been. With the lock. */
static inline void ucx_request_told(struct ucx_request *request)
{
	if (request->flags & UCX_FREED)
		ucx_request_put(request);
	else
		ucx_request_show(request, request->flags & ~(uint32_t)UCX_TELLING);
}

/* Whether the lock has to be taken: of one thread, nobody else looks at a request that is in no list. */
static inline bool ucx_request_is_shared(const struct ucx_request *request)
{
	return request->worker->charge.safe || request->flags & UCX_FREED;
}

static inline __attribute__((always_inline)) void ucx_request_locked(struct ucx_request *request,
								     void (*change)(struct ucx_request *request))
{
	struct charge *charge = &request->worker->charge;

	if (!ucx_request_is_shared(request)) {
		change(request);
		return;
	}
	charge_enter(charge);
	change(request);
	charge_leave(charge);
}

/* One of the pool with a callback, in the only thread that uses its worker, which most are: without the lock, unless it
 * is given back meanwhile. False: it is not such a one. */
static inline bool ucx_request_tell_own(struct ucx_request *request)
{
	uint32_t flags = load_relaxed(&request->flags);

	if (__builtin_expect((flags & (UCX_CALLBACK | UCX_OURS | UCX_FREED)) != (UCX_CALLBACK | UCX_OURS) ||
				     request->bounce || request->worker->charge.safe,
			     0))
		return false;
	ucx_request_show(request, flags | UCX_TELLING);
	ucx_request_call(request, ucx_request_shown(request));
	ucx_request_locked(request, ucx_request_told);
	return true;
}

static void ucx_request_unpack(struct ucx_request *request)
{
	struct ucp_worker *worker = request->worker;

	charge_enter(&worker->charge);
	list_remove(&request->bounce->node);
	charge_leave(&worker->charge);
	request->status = ucx_datatype_end(request->bounce, request->info.length, request->status);
	request->bounce = NULL;
}

static __attribute__((noinline)) void ucx_request_tell_any(struct ucx_request *request)
{
	uint32_t flags;

	if (request->bounce)
		ucx_request_unpack(request);
	flags = load_relaxed(&request->flags); /* it may be given back meanwhile */
	if (flags & UCX_CALLBACK && !(flags & (UCX_OURS | UCX_FREED)) && ucx_request_tell_copy(request))
		return;
	if (flags & UCX_CALLBACK) {
		ucx_request_locked(request, ucx_request_telling);
		if (load_relaxed(&request->flags) & UCX_CALLBACK) /* still; from now on it stays */
			ucx_request_call_inside(request, ucx_request_shown(request));
	}
	ucx_request_locked(request, ucx_request_told);
}

void ucx_request_tell_all(struct ucx_request *first)
{
	while (first) {
		struct ucx_request *request = first;

		first = request->next;
		if (!ucx_request_tell_own(request))
			ucx_request_tell_any(request);
	}
}

void ucx_request_tell(struct ucx_request *request)
{
	request->next = NULL;
	ucx_request_tell_all(request);
}

/* ---- The program's calls --------------------------------------------------------------------------- */

void *ucp_request_alloc(ucp_worker_h worker)
{
	struct ucx_request *request;

	charge_enter(&worker->charge);
	request = ucx_request_get(worker);
	if (request) {
		request->worker = worker;
		request->flags = UCX_OURS | UCX_ENDED;
		request->status = UCS_OK;
	}
	charge_leave(&worker->charge);
	return request ? ucx_request_shown(request) : NULL;
}

/* Whether a callback of it runs. With the lock. */
static bool ucx_request_is_calling(const struct ucx_request *request)
{
	const struct list_node *calling = &request->worker->calling;

	if (request->flags & UCX_TELLING)
		return true;
	for (struct list_node *node = list_first(calling); node; node = list_next(calling, node))
		if (container_of(node, struct ucx_request_calling, node)->request == request)
			return true;
	return false;
}

/* Of one under way, `unless` are flags that no longer hold. While another thread calls back for it, that is waited for,
 * as with UCX: what the callback uses may go next. A thread in a callback does not wait: the other may be waiting. */
static __attribute__((noinline)) void ucx_request_release_any(struct ucx_request *request, uint32_t unless)
{
	struct ucp_worker *worker = request->worker;

	charge_enter(&worker->charge);
	while (worker->charge.safe && !inside && ucx_request_is_calling(request)) {
		charge_leave(&worker->charge);
		sched_yield();
		charge_enter(&worker->charge);
	}
	if (!(request->flags & UCX_ENDED))
		store_relaxed(&request->flags, (request->flags & ~unless) | UCX_FREED);
	else if (request->flags & UCX_TELLING)
		store_relaxed(&request->flags, request->flags | UCX_FREED);
	else if (request->flags & UCX_OURS || pool_has(&worker->requests, request)) /* of ucp_request_alloc, and used */
		ucx_request_put(request);
	charge_leave(&worker->charge);
}

/* Of one of the pool whose end is told, and of a worker that one thread uses, as most are: the same without a call. */
static inline void ucx_request_release(struct ucx_request *request, uint32_t unless)
{
	const uint32_t told = UCX_ENDED | UCX_OURS;
	struct charge *charge = &request->worker->charge;

	if (__builtin_expect((load_acquire(&request->flags) & (told | UCX_TELLING)) != told || !charge_try(charge),
			     0)) {
		ucx_request_release_any(request, unless);
		return;
	}
	ucx_request_put(request);
	charge_leave(charge);
}

/* Who has given a request back is not called for it any more. */
void ucp_request_free(void *shown)
{
	ucx_request_release(ucx_request_of(shown), UCX_CALLBACK);
}

void ucp_request_release(void *shown)
{
	ucx_request_release(ucx_request_of(shown), 0);
}

void ucx_request_cancel(struct ucx_request *request)
{
	struct thole_endpoint *thole = request->worker->thole;

	/* Of a long active message both parts are taken back, or none: its receiver would wait for the data. */
	if (request->flags & UCX_FOLLOWS && (!request->pair || !thole_cancel_context(thole, request->pair)))
		return;
	thole_cancel_context(thole, request);
}

void ucp_request_cancel(ucp_worker_h worker, void *shown)
{
	struct ucx_request *ended;

	charge_enter(&worker->charge);
	ucx_request_cancel(ucx_request_of(shown));
	ended = ucx_request_ended(worker);
	charge_leave(&worker->charge);
	ucx_request_tell_all(ended);
}

ucs_status_t ucp_request_check_status(void *shown)
{
	struct ucx_request *request = ucx_request_of(shown);

	return ucx_request_has_ended(request) ? request->status : UCS_INPROGRESS;
}

int ucp_request_is_completed(void *shown)
{
	return ucx_request_has_ended(ucx_request_of(shown));
}

ucs_status_t ucp_tag_recv_request_test(void *shown, ucp_tag_recv_info_t *info)
{
	struct ucx_request *request = ucx_request_of(shown);

	if (!ucx_request_has_ended(request))
		return UCS_INPROGRESS;
	if (request->flags & UCX_RECEIVE)
		*info = request->info;
	return request->status;
}

ucs_status_t ucp_request_test(void *shown, ucp_tag_recv_info_t *info)
{
	return ucp_tag_recv_request_test(shown, info);
}

ucs_status_t ucp_request_query(void *shown, ucp_request_attr_t *attr)
{
	const uint64_t text = UCP_REQUEST_ATTR_FIELD_INFO_STRING | UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE;
	const struct ucx_request *request = ucx_request_of(shown);

	if (attr->field_mask & ~(text | UCP_REQUEST_ATTR_FIELD_STATUS | UCP_REQUEST_ATTR_FIELD_MEM_TYPE))
		return UCS_ERR_UNSUPPORTED;
	if ((attr->field_mask & text) == text)
		snprintf(attr->debug_string, attr->debug_string_size, "%s",
			 request->flags & UCX_RECEIVE ? "tag receive"
			 : request->flags & UCX_SEND  ? "tag send"
						      : "request");
	else if (attr->field_mask & UCP_REQUEST_ATTR_FIELD_INFO_STRING)
		return UCS_ERR_INVALID_PARAM; /* of unknown size */
	if (attr->field_mask & UCP_REQUEST_ATTR_FIELD_STATUS)
		attr->status = ucp_request_check_status(shown);
	if (attr->field_mask & UCP_REQUEST_ATTR_FIELD_MEM_TYPE)
		attr->mem_type = UCS_MEMORY_TYPE_HOST;
	return UCS_OK;
}
