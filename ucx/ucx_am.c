/* SPDX-License-Identifier: BSD-3-Clause */
#include "ucx_am.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ucx_error.h"
#include "ucx_log.h"
#include "ucx_send.h"

enum {
	SHORT_MAX = 16 << 10,         /* bytes of header and data that are one message */
	WAITING_MAX = 64,             /* that have come and wait for a handler; Thole keeps those that follow */
	FLAG_COPY_HEADER = 1 << 3,    /* UCP_AM_SEND_FLAG_COPY_HEADER, which later headers of UCX 1.x have */
	ALIGNMENT = 64,               /* of what is handed to handlers, at least */
	STACK_MAX = 1 << 10,          /* bytes that a send puts together on the caller's stack, which may be small */
};

/* In the tag of such a message: the handler's number, the header's length, and what kind it is. */
enum {
	WORD_AHEAD = 1 << 16, /* the data's length, 8 bytes, and the header; the data is the next one from this peer */
	WORD_DATA = 1 << 17,
	WORD_HEADER_SHIFT = 32,
};

enum ucx_am_state {
	AM_AHEAD,  /* its data is still to be received */
	AM_COMING, /* that has begun */
	AM_HERE,
	AM_LOST,
};

/* One that comes: the receive, and memory for it. */
struct ucx_am {
	struct ucx_request request; /* Thole's context */
	struct list_node node;      /* among those that arrive, or that the program has */
	enum ucx_am_state state;
	bool released;              /* by the program, before its handler has returned */
	uint32_t peer;
	uint64_t word;
	size_t header_length, length;
	const unsigned char *header;
	unsigned char *data;
	size_t room;
	unsigned char *memory;      /* behind this, aligned as the worker wants its data, which is in front */
};

struct ucx_am_handler {
	enum ucx_am_kind { AM_NONE, AM_PLAIN, AM_HEADED } kind;
	union {
		ucp_am_callback_t plain;
		ucp_am_recv_callback_t headed;
	} call;
	void *arg;
	bool keeps_empty; /* what it is handed is said to be its own to keep, also where there is no data */
};

bool ucx_am_init(struct ucp_worker *worker, size_t alignment)
{
	if (alignment & (alignment - 1))
		return false;
	worker->am.alignment = alignment > ALIGNMENT ? alignment : ALIGNMENT;
	list_init(&worker->am.arriving);
	list_init(&worker->am.kept);
	return true;
}

static struct ucx_am *ucx_am_make(struct ucp_worker *worker, size_t room)
{
	size_t alignment = worker->am.alignment;
	size_t front = (sizeof(struct ucx_am) + alignment - 1) & ~(alignment - 1);
	void *memory = memalign(alignment, front + room);

	if (!memory)
		return NULL;
	*(struct ucx_am *)memory = (struct ucx_am){.request = {.flags = UCX_AM, .worker = worker},
						   .room = room,
						   .memory = (unsigned char *)memory + front};
	return memory;
}

/* What all of them have room for is used again. */
static void ucx_am_free(struct ucx_am *message)
{
	struct ucx_am_queue *queue = &message->request.worker->am;

	if (message->room != SHORT_MAX || queue->spare) {
		free(message);
		return;
	}
	message->released = false;
	queue->spare = message;
}

static void ucx_am_free_all(struct list_node *list)
{
	struct list_node *node;

	while ((node = list_first(list))) {
		list_remove(node);
		free(container_of(node, struct ucx_am, node));
	}
}

void ucx_am_drop_all(struct ucp_worker *worker)
{
	ucx_am_free_all(&worker->am.arriving);
	ucx_am_free_all(&worker->am.kept);
	free(worker->am.posted);
	free(worker->am.spare);
	free(worker->am.together);
	free(worker->am.handlers);
}

/* ---- What comes ------------------------------------------------------------------------------------ */

/* The first, or only, message of one is here: so many bytes. */
static void ucx_am_begin(struct ucx_am *message, size_t length)
{
	struct ucx_am_queue *queue = &message->request.worker->am;
	size_t front = message->word & WORD_AHEAD ? sizeof(uint64_t) : 0;
	uint64_t data_length;

	queue->waiting++;
	list_push_back(&queue->arriving, &message->node);
	message->header_length = message->word >> WORD_HEADER_SHIFT;
	if (message->word & WORD_DATA || message->header_length > UCX_AM_HEADER_MAX ||
	    front + message->header_length > length) {
		message->state = AM_LOST; /* nothing that ucx_am_send sends */
		return;
	}
	message->data = message->memory;
	message->length = length - front - message->header_length;
	message->header = message->memory + (front ? front : message->length);
	message->state = AM_HERE;
	if (front) {
		memcpy(&data_length, message->memory, sizeof data_length);
		message->length = data_length;
		message->state = AM_AHEAD;
		queue->ahead = message;
	}
}

void ucx_am_arrived(struct ucx_request *request, const struct thole_completion *completion)
{
	struct ucx_am *message = container_of(request, struct ucx_am, request);
	struct ucx_am_queue *queue = &request->worker->am;

	message->word = completion->tag;
	message->peer = completion->peer;
	if (message == queue->posted) {
		queue->posted = NULL;
	} else if (completion->status || (message->word & WORD_DATA && completion->length == message->length)) {
		message->state = completion->status ? AM_LOST : AM_HERE;
		return;
	} else { /* its sender had no memory for the data: this is another one */
		list_remove(&message->node);
		queue->waiting--;
	}
	if (completion->status)
		message->word = WORD_DATA; /* too long, or the endpoint goes */
	ucx_am_begin(message, completion->length);
}

/* Room for the data of one whose length has come, and for its header behind that. */
static struct ucx_am *ucx_am_room(const struct ucx_am *ahead)
{
	/* Another message has to find room, too. */
	size_t room = ahead->length > SHORT_MAX ? ahead->length : SHORT_MAX + 1;
	struct ucx_am *message = NULL;

	if (ahead->length <= THOLE_LENGTH_MAX)
		message = ucx_am_make(ahead->request.worker, room + ahead->header_length);
	if (!message)
		return NULL;
	message->room = room;
	message->data = message->memory;
	message->header = memcpy(message->memory + room, ahead->header, ahead->header_length);
	return message;
}

/* There is no memory now for what has been told ahead. Thole keeps it meanwhile, but it holds up all others, so there
 * is an end to trying again. */
static bool ucx_am_gives_up(struct ucp_worker *worker)
{
	uint64_t now_ns = clock_now_ns(), bound_ns = 0;

	if (!worker->am.wanting_ns)
		worker->am.wanting_ns = now_ns;
	thole_option_number(worker->thole, "peer_timeout", &bound_ns);
	return now_ns - worker->am.wanting_ns >= bound_ns;
}

/* What receives what has been told ahead; or, without room for any of it, what drops that. NULL: try again. */
static struct ucx_am *ucx_am_receiver(struct ucp_worker *worker)
{
	const struct ucx_am *ahead = worker->am.ahead;
	struct ucx_am *message = ucx_am_room(ahead);

	if (message || (ahead->length <= THOLE_LENGTH_MAX && !ucx_am_gives_up(worker)))
		return message;
	message = ucx_am_make(worker, 0);
	if (message)
		ucx_log_warn("no memory for an active message: it is dropped");
	return message;
}

/* Receive what has been told ahead. False: try again. */
static bool ucx_am_receive(struct ucp_worker *worker)
{
	struct ucx_am_queue *queue = &worker->am;
	struct ucx_am *ahead = queue->ahead, *message = ucx_am_receiver(worker);
	int error;

	if (!message)
		return false;
	message->state = AM_COMING;
	message->length = ahead->length;
	message->header_length = ahead->header_length;
	list_push_back(&queue->arriving, &message->node);
	queue->ahead = NULL;
	error = thole_recv(worker->thole, ahead->peer, message->memory, message->room, 0, 0, THOLE_PLAIN,
			   &message->request, NULL);
	if (error == THOLE_ERR_MEMORY && !ucx_am_gives_up(worker)) {
		list_remove(&message->node);
		free(message);
		queue->ahead = ahead;
		return false;
	}
	if (error)
		message->state = AM_LOST;
	if (message->room > 0)
		queue->wanting_ns = 0; /* else the next one is not waited for so long again */
	list_remove(&ahead->node);
	ucx_am_free(ahead);
	return true;
}

static bool ucx_am_post(struct ucp_worker *worker)
{
	struct ucx_am_queue *queue = &worker->am;
	struct ucx_am *message = queue->spare ? queue->spare : ucx_am_make(worker, SHORT_MAX);

	if (!message)
		return false;
	queue->spare = NULL;
	queue->posted = message; /* until it ends, which may be inside the call */
	if (thole_recv(worker->thole, THOLE_ANY, message->memory, message->room, 0, 0, THOLE_PLAIN, &message->request,
		       NULL) == 0)
		return true;
	queue->posted = NULL;
	ucx_am_free(message);
	return false;
}

/* The oldest, if its handler can be called. */
static struct ucx_am *ucx_am_next(const struct ucx_am_queue *queue)
{
	struct list_node *node = queue->telling ? NULL : list_first(&queue->arriving);
	struct ucx_am *message = node ? container_of(node, struct ucx_am, node) : NULL;

	return message && message->state >= AM_HERE ? message : NULL;
}

bool ucx_am_turn(struct ucp_worker *worker)
{
	struct ucx_am_queue *queue = &worker->am;

	while (!queue->posted && queue->waiting < WAITING_MAX)
		if ((queue->ahead && !ucx_am_receive(worker)) || (!queue->ahead && !ucx_am_post(worker)))
			break;
	return ucx_am_next(queue);
}

/* ---- Handlers -------------------------------------------------------------------------------------- */

/* Whether the program keeps the data. */
static bool ucx_am_tell(struct ucx_am *message, const struct ucx_am_handler *handler)
{
	const bool data = message->length > 0 || handler->keeps_empty;
	const ucp_am_recv_param_t param = {.recv_attr = data ? UCP_AM_RECV_ATTR_FLAG_DATA : 0};

	if (message->state == AM_LOST)
		return false;
	switch (handler->kind) {
	case AM_PLAIN:
		return handler->call.plain(handler->arg, message->data, message->length, NULL,
					   UCP_CB_PARAM_FLAG_DATA) == UCS_INPROGRESS;
	case AM_HEADED:
		return handler->call.headed(handler->arg, message->header_length ? message->header : NULL,
					    message->header_length, message->data, message->length,
					    &param) == UCS_INPROGRESS;
	default:
		ucx_log_warn("an active message has no handler: it is dropped");
		return false;
	}
}

void ucx_am_tell_all(struct ucp_worker *worker)
{
	struct ucx_am_queue *queue = &worker->am;
	struct ucx_am *message;

	charge_enter(&worker->charge);
	while ((message = ucx_am_next(queue))) {
		struct ucx_am_handler handler = {.kind = AM_NONE};
		const unsigned id = message->word & UINT16_MAX;
		bool keeps;

		if (id < queue->handler_count)
			handler = queue->handlers[id];
		list_remove(&message->node);
		list_push_back(&queue->kept, &message->node);
		queue->waiting--;
		queue->telling = message;
		charge_leave(&worker->charge);
		keeps = ucx_am_tell(message, &handler);
		charge_enter(&worker->charge);
		queue->telling = NULL;
		if (!keeps || message->released) {
			list_remove(&message->node);
			ucx_am_free(message);
		}
		ucx_am_turn(worker);
	}
	charge_leave(&worker->charge);
}

static ucs_status_t ucx_am_set(struct ucp_worker *worker, unsigned id, struct ucx_am_handler handler)
{
	struct ucx_am_queue *queue = &worker->am;
	ucs_status_t status = UCS_OK;

	if (!worker->context->am)
		return UCS_ERR_UNSUPPORTED;
	if (id > UINT16_MAX)
		return UCS_ERR_INVALID_PARAM;
	charge_enter(&worker->charge);
	if (id >= queue->handler_count) {
		struct ucx_am_handler *handlers = realloc(queue->handlers, (id + 1) * sizeof *handlers);

		if (handlers) {
			for (unsigned i = queue->handler_count; i < id; i++)
				handlers[i].kind = AM_NONE;
			queue->handlers = handlers;
			queue->handler_count = id + 1;
		} else {
			status = UCS_ERR_NO_MEMORY;
		}
	}
	if (status == UCS_OK) {
		queue->handlers[id] = handler;
		ucx_am_turn(worker); /* what has come is handled by progress */
	}
	charge_leave(&worker->charge);
	return status;
}

/* Flags: all handlers are called once, with all of a message, in memory that stays. */
ucs_status_t ucp_worker_set_am_handler(ucp_worker_h worker, uint16_t id, ucp_am_callback_t cb, void *arg,
				       uint32_t flags)
{
	(void)flags;
	return ucx_am_set(worker, id,
			  (struct ucx_am_handler){.kind = cb ? AM_PLAIN : AM_NONE, .call.plain = cb, .arg = arg});
}

ucs_status_t ucp_worker_set_am_recv_handler(ucp_worker_h worker, const ucp_am_handler_param_t *param)
{
	const uint64_t needed = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB;
	struct ucx_am_handler handler = {.kind = AM_NONE};

	if ((param->field_mask & needed) != needed)
		return UCS_ERR_INVALID_PARAM;
	if (param->cb) {
		handler.kind = AM_HEADED;
		handler.call.headed = param->cb;
		handler.arg = param->field_mask & UCP_AM_HANDLER_PARAM_FIELD_ARG ? param->arg : NULL;
		handler.keeps_empty = param->field_mask & UCP_AM_HANDLER_PARAM_FIELD_FLAGS &&
				      param->flags & UCP_AM_FLAG_PERSISTENT_DATA;
	}
	return ucx_am_set(worker, param->id, handler);
}

/* ---- Data that the program has --------------------------------------------------------------------- */

/* With the lock; NULL: it is none of those. */
static struct ucx_am *ucx_am_of(struct ucp_worker *worker, const void *data)
{
	struct list_node *kept = &worker->am.kept;

	for (struct list_node *node = list_first(kept); node; node = list_next(kept, node)) {
		struct ucx_am *message = container_of(node, struct ucx_am, node);

		if (message->data == data && !message->released)
			return message;
	}
	return NULL;
}

/* With the lock. While its handler is called it stays. */
static void ucx_am_release(struct ucx_am *message)
{
	message->released = true;
	if (message->request.worker->am.telling == message)
		return;
	list_remove(&message->node);
	ucx_am_free(message);
}

void ucp_am_data_release(ucp_worker_h worker, void *data)
{
	struct ucx_am *message;

	charge_enter(&worker->charge);
	message = ucx_am_of(worker, data);
	if (message)
		ucx_am_release(message);
	charge_leave(&worker->charge);
}

static ucs_status_t ucx_am_copy(const struct ucx_am *message, void *buffer, size_t count, ucp_datatype_t datatype)
{
	const struct iovec *segments;
	struct ucx_bounce *bounce;
	struct iovec single;
	ucs_status_t status = ucx_datatype_room(datatype, buffer, &count, false, &single, &segments, &bounce);
	size_t done = 0;

	if (status != UCS_OK)
		return status;
	for (size_t i = 0; i < count && done < message->length; i++) {
		size_t left = message->length - done, part = segments[i].iov_len < left ? segments[i].iov_len : left;

		if (part > 0)
			memcpy(segments[i].iov_base, message->data + done, part);
		done += part;
	}
	return ucx_datatype_end(bounce, done, done < message->length ? UCS_ERR_MESSAGE_TRUNCATED : UCS_OK);
}

/* What has ended, so, gets a request all the same, and its callback is called. */
static ucs_status_ptr_t ucx_am_recv_request(struct ucp_worker *worker, size_t length, ucs_status_t ended,
					    const ucp_request_param_t *param)
{
	struct ucx_request *request;
	ucs_status_t status = ucx_call_begin(worker, param, &request);

	if (status != UCS_OK)
		return UCS_STATUS_PTR(status);
	request->status = ended;
	request->info.length = length;
	request->callback.data = param->cb.recv_am;
	request->user_data = param->op_attr_mask & UCP_OP_ATTR_FIELD_USER_DATA ? param->user_data : NULL;
	request->flags = ucx_call_flags(param, UCX_AM);
	charge_leave(&worker->charge);
	ucx_request_tell(request);
	return ucx_request_shown(request);
}

/* All of it is here: it ends at once. The message is ours again even if the call fails, as with UCX: who keeps to ucp.h
 * does not release it then. */
ucs_status_ptr_t ucp_am_recv_data_nbx(ucp_worker_h worker, void *data_desc, void *buffer, size_t count,
				      const ucp_request_param_t *param)
{
	struct ucx_am *message;
	ucs_status_t status;
	size_t length;

	charge_enter(&worker->charge);
	message = ucx_am_of(worker, data_desc);
	charge_leave(&worker->charge);
	if (!message)
		return UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM);
	status = ucx_am_copy(message, buffer, count, ucx_call_datatype(param));
	length = message->length;
	if (param->op_attr_mask & UCP_OP_ATTR_FIELD_RECV_INFO)
		*param->recv_info.length = length;
	ucp_am_data_release(worker, data_desc);
	if (param->op_attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL)
		return ucx_am_recv_request(worker, length, status, param);
	return UCS_STATUS_PTR(status);
}

/* ---- Sends ----------------------------------------------------------------------------------------- */

/* With the lock, and for as long: room for so many bytes, of SHORT_MAX at most, that a call puts together: `small`, of
 * STACK_MAX, or the worker's. NULL: there is no memory. */
static unsigned char *ucx_am_together(struct ucp_worker *worker, unsigned char *small, size_t length)
{
	if (length <= STACK_MAX)
		return small;
	if (!worker->am.together)
		worker->am.together = malloc(SHORT_MAX);
	return worker->am.together;
}

/* Length and header of one whose data follows. With the lock. */
static int ucx_am_send_ahead(struct ucp_ep *endpoint, uint64_t word, const void *header, size_t header_length,
			     uint64_t length, struct ucx_request **ahead_p)
{
	unsigned char small[STACK_MAX], *end;
	unsigned char *memory = ucx_am_together(endpoint->worker, small, sizeof length + header_length);

	if (!memory)
		return THOLE_ERR_MEMORY;
	end = mempcpy(memory, &length, sizeof length);
	if (header_length > 0)
		end = mempcpy(end, header, header_length);
	return ucx_send_ahead(endpoint, memory, (size_t)(end - memory), word | WORD_AHEAD, ahead_p);
}

/* What has begun fails in its call: the lock is let go. */
static ucs_status_ptr_t ucx_am_send_fails(struct ucp_ep *endpoint, struct ucx_request *request,
					  const ucp_request_param_t *param, ucs_status_t status)
{
	ucx_call_return(request, param, status);
	charge_leave(&endpoint->worker->charge);
	return UCS_STATUS_PTR(status);
}

/* One that is a single message: so many bytes in these pieces, and the header behind them. */
static ucs_status_ptr_t ucx_am_send_short(struct ucp_ep *endpoint, uint64_t word, const void *header,
					  const struct iovec *pieces, size_t count, size_t length,
					  const ucp_request_param_t *param, uint32_t flags)
{
	const size_t header_length = word >> WORD_HEADER_SHIFT;
	unsigned char small[STACK_MAX], *memory, *end;
	ucp_request_param_t gathered = *param;
	struct ucx_request *request;
	ucs_status_t status = ucx_call_begin(endpoint->worker, param, &request);

	if (status != UCS_OK)
		return UCS_STATUS_PTR(status);
	end = memory = ucx_am_together(endpoint->worker, small, length + header_length);
	if (!memory)
		return ucx_am_send_fails(endpoint, request, param, UCS_ERR_NO_MEMORY);
	for (size_t i = 0; i < count; i++)
		if (pieces[i].iov_len > 0)
			end = mempcpy(end, pieces[i].iov_base, pieces[i].iov_len);
	if (header_length > 0)
		memcpy(end, header, header_length);
	gathered.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
	gathered.datatype = ucp_dt_make_contig(1);
	return ucx_send_begun(endpoint, request, memory, length + header_length, word, &gathered, flags,
			      THOLE_PLAIN | THOLE_INJECT);
}

/* One whose data, of so many bytes, is a message by itself. */
static ucs_status_ptr_t ucx_am_send_long(struct ucp_ep *endpoint, uint64_t word, const void *header, size_t length,
					 const void *buffer, size_t count, const ucp_request_param_t *param,
					 uint32_t flags)
{
	struct ucx_request *request;
	ucs_status_t status = ucx_call_begin(endpoint->worker, param, &request);
	int error;

	if (status != UCS_OK)
		return UCS_STATUS_PTR(status);
	error = ucx_am_send_ahead(endpoint, word, header, word >> WORD_HEADER_SHIFT, length, &request->pair);
	if (error)
		return ucx_am_send_fails(endpoint, request, param, ucx_error_status(error));
	request->flags |= UCX_FOLLOWS;
	if (request->pair)
		request->pair->pair = request;
	return ucx_send_begun(endpoint, request, buffer, count, word | WORD_DATA, param, flags, THOLE_PLAIN);
}

static ucs_status_ptr_t ucx_am_send(struct ucp_ep *endpoint, unsigned id, const void *header, size_t header_length,
				    const void *buffer, size_t count, const ucp_request_param_t *param, uint32_t flags)
{
	const uint32_t known = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_RNDV | FLAG_COPY_HEADER;
	uint32_t wishes = param->op_attr_mask & UCP_OP_ATTR_FIELD_FLAGS ? param->flags : 0;
	uint64_t word = id | (uint64_t)header_length << WORD_HEADER_SHIFT;
	ucs_status_ptr_t result = NULL;
	const struct iovec *pieces;
	struct ucx_bounce *bounce;
	struct iovec single;
	size_t piece_count = count, length;
	ucs_status_t status;

	if (!endpoint->worker->context->am || wishes & ~known)
		return UCS_STATUS_PTR(UCS_ERR_UNSUPPORTED);
	if (id > UINT16_MAX || header_length > UCX_AM_HEADER_MAX)
		return UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM);
	status = ucx_datatype_pack(ucx_call_datatype(param), buffer, &piece_count, false, &single, &pieces, &bounce);
	if (status != UCS_OK)
		return UCS_STATUS_PTR(status);
	length = ucx_datatype_total(pieces, piece_count);
	if (length + header_length <= SHORT_MAX)
		result = ucx_am_send_short(endpoint, word, header, pieces, piece_count, length, param, flags);
	ucx_datatype_end(bounce, 0, UCS_OK);
	if (length + header_length > SHORT_MAX)
		result = ucx_am_send_long(endpoint, word, header, length, buffer, count, param, flags);
	return result;
}

ucs_status_ptr_t ucp_am_send_nb(ucp_ep_h ep, uint16_t id, const void *buffer, size_t count, ucp_datatype_t datatype,
				ucp_send_callback_t cb, unsigned flags)
{
	ucp_request_param_t param = ucx_call_param(datatype, UCP_OP_ATTR_FIELD_FLAGS |
							     (cb ? UCP_OP_ATTR_FIELD_CALLBACK : 0));

	param.flags = flags;
	param.cb.send = (ucp_send_nbx_callback_t)(uintptr_t)cb; /* told apart by UCX_PLAIN */
	return ucx_am_send(ep, id, NULL, 0, buffer, count, &param, UCX_PLAIN);
}

ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h ep, unsigned id, const void *header, size_t header_length, const void *buffer,
				 size_t count, const ucp_request_param_t *param)
{
	return ucx_am_send(ep, id, header, header_length, buffer, count, param, 0);
}
