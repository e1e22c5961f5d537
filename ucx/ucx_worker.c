/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_worker.c - workers: one endpoint of Thole's each, opened, asked and closed; progress.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/caretaker.h"
#include "front/counted.h"
#include "front/yield.h"
#include "ucx_am.h"
#include "ucx_endpoint.h"
#include "ucx_error.h"
#include "ucx_flush.h"
#include "ucx_log.h"
#include "ucx_request.h"
#include "ucx_send.h"

enum {
	REQUESTS_AT_ONCE = 64,  /* that memory is asked for */
	REQUESTS_MAX = 1 << 28, /* UCX gives no bound. With those that have ended: Thole has 1 << 24 under way */
	REQUEST_TEXT_MAX = 64,  /* bytes that ucp_request_query may write */
};

static void ucx_worker_sent(struct ucx_request *request)
{
	ucx_flush_sent(request);
	ucx_endpoint_leave(request->endpoint);
}

/* Thole's completion function; with the lock. */
static void ucx_worker_complete(void *arg, const struct thole_completion *completion)
{
	struct ucx_request *request = completion->context;

	(void)arg;
	request->info.sender_tag = completion->tag;
	request->info.length = completion->message_length; /* whole, where the end of it found no room */
	request->status = __builtin_expect(completion->status, 0) ? ucx_error_status(completion->status) : UCS_OK;
	if (request->flags & UCX_STARTING) {
		request->flags |= UCX_ENDED;
		return;
	}
	if (__builtin_expect(request->flags & (UCX_WATCH | UCX_AM), 0)) {
		if (request->flags & UCX_AM)
			ucx_am_arrived(request, completion);
		else
			ucx_endpoint_watched(request);
		return;
	}
	if (request->flags & UCX_SEND)
		ucx_worker_sent(request);
	ucx_request_end(request);
}

static int ucx_worker_open(struct ucp_worker *worker)
{
	/* There is no word of UCX's for "later": what memory holds is under way. And no thread but those that have the
	 * lock may make progress. */
	static const char *const options[] = {"sends_max=16777216", "progress_thread=off", NULL};
	struct thole_endpoint_attr attr = {
		.threads = THOLE_THREAD_SINGLE, /* the charge's lock does it */
		.options = options,
		.complete = ucx_worker_complete,
		.complete_arg = worker,
	};
	char text[8];
	int error = thole_endpoint_open(&attr, &worker->thole);

	if (error) {
		ucx_error_tell("no endpoint", error);
		return error;
	}
	thole_option_number(worker->thole, "eager_max", &worker->unasked_max);
	worker->parts = !thole_option_get(worker->thole, "mpi_datatypes", text, sizeof text) && !strcmp(text, "parts");
	yield_spare_if_told(worker->thole);
	return 0;
}

ucs_status_t ucp_worker_create(ucp_context_h context, const ucp_worker_params_t *params, ucp_worker_h *worker_p)
{
	size_t alignment = params->field_mask & UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT ? params->am_alignment : 0;
	struct ucp_worker *worker = calloc(1, sizeof *worker);
	int error = THOLE_ERR_MEMORY;

	if (worker)
		error = ucx_am_init(worker, alignment) ? 0 : THOLE_ERR_ARGUMENT;
	if (!error)
		error = pool_init(&worker->requests, sizeof(struct ucx_request) + context->request_size,
				  REQUESTS_AT_ONCE, REQUESTS_MAX);
	if (!error)
		error = ucx_worker_open(worker);
	if (error) {
		free(worker);
		return ucx_error_status(error);
	}
	worker->context = context;
	worker->ended_end = &worker->ended;
	list_init(&worker->endpoints);
	list_init(&worker->bounces);
	list_init(&worker->calling);
	worker->thread_mode = params->field_mask & UCP_WORKER_PARAM_FIELD_THREAD_MODE ? params->thread_mode
										       : UCS_THREAD_MODE_SINGLE;
	ucx_state_name(worker->name, params->field_mask & UCP_WORKER_PARAM_FIELD_NAME ? params->name : NULL, worker);
	worker->charge.safe = worker->thread_mode != UCS_THREAD_MODE_SINGLE;
	worker->charge.endpoints = &worker->thole;
	worker->charge.endpoint_count = 1;
	if (!caretaker_add(&worker->charge, true))
		ucx_log_info("there is no thread yet that sees to what was sent while the program computes");
	*worker_p = worker;
	return UCS_OK;
}

void ucp_worker_destroy(ucp_worker_h worker)
{
	struct list_node *node;

	caretaker_remove(&worker->charge);
	/* While there is still an endpoint: those who are called may call us. A forked child's are its parent's. */
	if (!worker->charge.inherited)
		ucx_request_tell_all(ucx_request_ended(worker));
	counted_tell(worker->thole, ucx_log_info);
	thole_endpoint_close(worker->thole);
	while ((node = list_first(&worker->endpoints)))
		ucx_endpoint_free(container_of(node, struct ucp_ep, node));
	ucx_am_drop_all(worker);
	ucx_request_drop_all(worker);
	free(worker);
}

ucs_status_t ucp_worker_get_address(ucp_worker_h worker, ucp_address_t **address_p, size_t *length_p)
{
	struct thole_address *address = malloc(sizeof *address);

	if (!address)
		return UCS_ERR_NO_MEMORY;
	thole_endpoint_address(worker->thole, address);
	*address_p = (ucp_address_t *)(void *)address;
	*length_p = sizeof *address;
	return UCS_OK;
}

void ucp_worker_release_address(ucp_worker_h worker, ucp_address_t *address)
{
	(void)worker;
	free(address);
}

ucs_status_t ucp_worker_query(ucp_worker_h worker, ucp_worker_attr_t *attr)
{
	if (attr->field_mask & UCP_WORKER_ATTR_FIELD_THREAD_MODE)
		attr->thread_mode = worker->thread_mode;
	if (attr->field_mask & UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER)
		attr->max_am_header = worker->context->am ? UCX_AM_HEADER_MAX : 0;
	if (attr->field_mask & UCP_WORKER_ATTR_FIELD_NAME)
		ucx_state_name(attr->name, worker->name, worker);
	if (attr->field_mask & UCP_WORKER_ATTR_FIELD_MAX_INFO_STRING)
		attr->max_debug_string = REQUEST_TEXT_MAX;
	if (attr->field_mask & UCP_WORKER_ATTR_FIELD_ADDRESS)
		return ucp_worker_get_address(worker, &attr->address, &attr->address_length);
	return UCS_OK;
}

void ucp_worker_print_info(ucp_worker_h worker, FILE *stream)
{
	struct thole_address address;

	thole_endpoint_address(worker->thole, &address);
	fprintf(stream, "# Thole %s, %s\n", thole_version(), address.text);
}

unsigned ucp_worker_progress(ucp_worker_h worker)
{
	struct ucx_request *ended;
	bool called;
	int handled;

	yield_look();
	if (!charge_poll(&worker->charge))
		return 0;
	handled = charge_progress(&worker->charge, worker->thole);
	ended = ucx_request_ended(worker);
	called = worker->am.handler_count > 0 && ucx_am_turn(worker);
	if (__builtin_expect(worker->owing > 0, 0))
		ucx_send_owed(worker);
	charge_leave(&worker->charge);
	if (ended)
		ucx_request_tell_all(ended);
	if (called)
		ucx_am_tell_all(worker);
	if (handled > 0 || ended || called)
		yield_finds();
	return (unsigned)handled + (ended || called);
}
