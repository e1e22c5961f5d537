/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * remote: regions, and put, get and atomics on them, from both sides. A transport makes puts and gets whose target
 * needs to know nothing of them; all others the target's own process, which needs no right to reach into it.
 *
 * Export of arbitrary user memory after the SCI paper, section 3: a region is declared, nothing is pinned.
 */
#include <stdlib.h>
#include <string.h>

#include "base/atomics.h"
#include "message/internal.h"
#include "message/message.h"

/* ---- Regions -------------------------------------------------------------------------------------- */

static struct thole_region *region_find(const struct thole_endpoint *endpoint, uint64_t key)
{
	struct hash_node *node = hash_table_find(&endpoint->regions, key);

	return node ? container_of(node, struct thole_region, by_key) : NULL;
}

/* Memory that can be one region of the driver is declared; where that fails the region works as without it. */
static void region_declare(struct thole_region *region)
{
	struct iovec segment = {region->base, region->length};

	if (region->length && region->length <= UINTPTR_MAX - (uintptr_t)region->base)
		(void)memory_declare(region->endpoint, &segment, 1, region->access, &region->memory);
}

int thole_expose(struct thole_endpoint *endpoint, void *base, size_t length, unsigned access, uint64_t key,
		 void *context, struct thole_region **region_p)
{
	const unsigned known = THOLE_ACCESS_PUT | THOLE_ACCESS_GET | THOLE_ACCESS_ATOMIC | THOLE_NOTIFY |
			       THOLE_ACCESS_ATTACH;
	struct thole_region *region;
	int error = 0;

	if (access & ~known)
		return error_set(THOLE_ERR_ARGUMENT, "access %#x of a region has bits that are no enum thole_access",
				 access);
	region = calloc(1, sizeof(*region));
	if (!region)
		return error_set(THOLE_ERR_MEMORY, "no memory for another region");
	*region = (struct thole_region){.endpoint = endpoint, .base = base, .length = length, .access = access,
					.context = context};
	endpoint_lock(endpoint);
	if (region_find(endpoint, key))
		error = error_set(THOLE_ERR_KEY, "the key %#llx names another region already: choose a free one",
				  (unsigned long long)key);
	else if (!hash_table_reserve(&endpoint->regions))
		error = error_set(THOLE_ERR_MEMORY, "no memory for another region");
	if (!error) {
		hash_table_add(&endpoint->regions, &region->by_key, key);
		region_declare(region);
	}
	endpoint_unlock(endpoint);
	if (error)
		free(region);
	else
		*region_p = region;
	return error;
}

void thole_unexpose(struct thole_endpoint *endpoint, struct thole_region *region)
{
	endpoint_lock(endpoint);
	hash_table_remove(&endpoint->regions, &region->by_key);
	for (int i = transport_next(&endpoint->base, -1); i < TRANSPORTS; i = transport_next(&endpoint->base, i))
		if (transports[i]->region_end)
			transports[i]->region_end(&endpoint->base, region->by_key.key);
	if (region->memory)
		memory_forget(endpoint, region->memory);
	endpoint_unlock(endpoint);
	free(region);
}

/* The memory that a peer's access means, or why it may not. */
static int region_access(struct peer *peer, uint64_t key, uint64_t offset, uint64_t length, unsigned access,
			 struct thole_region **region_p, char **memory_p)
{
	struct thole_region *region = region_find(peer->endpoint, key);
	int status = 0;

	if (!region)
		status = THOLE_ERR_KEY;
	else if ((region->access & access) != access)
		status = THOLE_ERR_ACCESS;
	else if (offset > region->length || length > region->length - offset)
		status = THOLE_ERR_RANGE;
	if (status) {
		endpoint_count(peer->endpoint, COUNTER_REMOTE_ERRORS);
		return status;
	}
	*region_p = region;
	*memory_p = (char *)((uintptr_t)region->base + offset); /* base may be NULL: the whole address space */
	return 0;
}

bool remote_region(struct transport_peer *peer, uint64_t key, struct iovec *memory_p, unsigned *access_p)
{
	const struct thole_region *region = region_find(peer_of(peer)->endpoint, key);

	if (!region)
		return false;
	*memory_p = (struct iovec){region->base, region->length};
	*access_p = region->access & THOLE_NOTIFY ? 0 : region->access & (THOLE_ACCESS_PUT | THOLE_ACCESS_GET);
	return true;
}

/* ---- The target's side ---------------------------------------------------------------------------- */

static void remote_answer(struct peer *peer, uint64_t id, int status)
{
	struct record record = {.kind = RECORD_REPLY, .tag = id, .imm = (uint64_t)(int64_t)status};

	message_control(peer, &record);
}

/* The context of the region that a peer has come to; NULL where that has ended since, whose user may have freed it. */
static void *remote_context(const struct thole_request *request)
{
	const struct thole_region *region = region_find(request->endpoint, request->tag);

	return region && region->context == request->context ? request->context : NULL;
}

/* Say here what a peer has done: the request for it becomes the notice, so there is always one. */
static void remote_notify(struct thole_request *request, enum thole_operation operation)
{
	request->operation = (uint8_t)operation;
	request->context = remote_context(request);
	request_complete(request, 0);
}

/* A peer's put has arrived: say so here and there. */
static void remote_put_done(struct thole_request *request, int status)
{
	struct peer *peer = request->peer;
	uint64_t id = request->remote_id;

	if (!status && (request->notify || (request->flags & THOLE_IMM)))
		remote_notify(request, THOLE_OP_REMOTE_PUT);
	else
		request_free(request);
	remote_answer(peer, id, status);
}

void remote_answered(struct thole_request *request, int status)
{
	if (!status && request->notify)
		remote_notify(request, THOLE_OP_REMOTE_GET);
	else
		request_free(request);
}

/* A request for a peer's access that has to wait for more of its data. */
static struct thole_request *remote_request(struct peer *peer, enum thole_operation operation,
				      const struct record *record, uint64_t id, void *memory, uint64_t length,
				      const struct thole_region *region)
{
	struct thole_request *request = request_new(peer->endpoint, operation, region ? region->context : NULL, 0);

	if (!request)
		return NULL;
	request->peer = peer;
	request->segment = (struct iovec){memory, length};
	request->vector.length = length;
	request->message_length = length;
	request->tag = record->tag;
	if (operation == THOLE_OP_REMOTE_PUT && record->flags & RECORD_IMM) {
		request->imm = record->imm;
		request->flags = THOLE_IMM;
	}
	request->notify = region && (region->access & THOLE_NOTIFY);
	request->remote_id = id;
	request->record = *record;
	return request;
}

/* Refuse, and let the data that follows go by. */
static void remote_refuse(struct peer *peer, uint64_t id, int status, uint64_t left)
{
	remote_answer(peer, id, status);
	peer->stream = (struct stream){.left = left};
}

/* Whether a record that carries data itself says sensible things of it. */
static bool remote_data_ok(const struct record *record, uint32_t length)
{
	return record->length == RECORD_EXTERNAL && record->arg[0] >= length &&
	       record->arg[0] <= EAGER_TOTAL_MAX &&
	       (record->arg[0] > length) == ((record->flags & RECORD_MORE) != 0);
}

void remote_put(struct peer *peer, const struct record *record, const void *payload, uint32_t length)
{
	struct window window = {0};
	struct thole_region *region;
	struct thole_request *request;
	char *memory;
	int status;

	if (record->flags & RECORD_WINDOW)
		window_load(&window, record);
	if (record->flags & RECORD_WINDOW
		    ? record->length != RECORD_EXTERNAL || length != 0 || window.count == 0 ||
			      window.count > THOLE_SEGMENTS_MAX || window.length > THOLE_LENGTH_MAX
		    : !remote_data_ok(record, length)) {
		message_bad(peer);
		return;
	}
	if (!(record->flags & RECORD_WINDOW))
		window = (struct window){.length = record->arg[0], .id = record->arg[2]};
	status = region_access(peer, record->tag, record->arg[3], window.length, THOLE_ACCESS_PUT, &region, &memory);
	request = status ? NULL
			 : remote_request(peer, THOLE_OP_REMOTE_PUT, record, window.id, memory, window.length, region);
	if (!request) {
		remote_refuse(peer, window.id, status ? status : THOLE_ERR_MEMORY,
			      record->flags & RECORD_MORE ? window.length - length : 0);
		return;
	}
	if (record->flags & RECORD_WINDOW)
		message_fetch(request, &window);
	else
		message_stream(peer, request, payload, length, window.length);
}

/* An answer with so many bytes of data, which are yet to be written to its segment; NULL: no memory. Once there is one
 * nothing is lacking. */
static struct thole_request *remote_answer_new(struct peer *peer, const struct record *record, uint64_t length)
{
	struct thole_request *answer =
		remote_request(peer, (enum thole_operation)0, record, record->arg[2], NULL, length, NULL);

	if (!answer)
		return NULL;
	if (length > sizeof(answer->found))
		answer->owned_data = spare_get(&peer->endpoint->spares, length);
	answer->segment.iov_base = length > sizeof(answer->found) ? answer->owned_data : answer->found;
	if (!answer->segment.iov_base) {
		request_free(answer);
		return NULL;
	}
	answer->record = (struct record){.kind = RECORD_REPLY, .length = RECORD_EXTERNAL, .tag = record->arg[2]};
	answer->payload = answer->record.arg[0] = length;
	return answer;
}

/* A peer wants to map memory of a region. */
static void remote_lend(struct peer *peer, const struct record *record)
{
	bool write = record->imm == ATTACH_WRITE;
	unsigned access = THOLE_ACCESS_ATTACH | THOLE_ACCESS_GET | (write ? THOLE_ACCESS_PUT : 0);
	struct thole_request *answer = NULL;
	struct attach_ticket ticket;
	struct thole_region *region;
	char *memory;
	int status;

	status = region_access(peer, record->tag, record->arg[3], record->arg[0], access, &region, &memory);
	if (!status)
		status = attach_is_near(peer) ? attach_lend(region, record->arg[3], write, &ticket)
					      : THOLE_ERR_UNSUPPORTED;
	if (!status)
		answer = remote_answer_new(peer, record, sizeof(ticket));
	if (!answer) {
		remote_answer(peer, record->arg[2], status ? status : THOLE_ERR_MEMORY);
		return;
	}
	memcpy(answer->segment.iov_base, &ticket, sizeof(ticket));
	message_submit(answer); /* cannot fail: nothing is to be copied */
}

void remote_get(struct peer *peer, const struct record *record, const void *payload, uint32_t length)
{
	uint64_t bytes = record->arg[0], id = record->arg[2];
	struct thole_region *region;
	struct thole_request *request;
	struct window window;
	char *memory;
	int status;

	(void)payload;
	if (record->length != RECORD_EXTERNAL || length != 0 || bytes > THOLE_LENGTH_MAX) {
		message_bad(peer);
		return;
	}
	message_reach_back(peer);
	if (peer->base.gone)
		return;
	if (record->imm) {
		remote_lend(peer, record);
		return;
	}
	status = region_access(peer, record->tag, record->arg[3], bytes, THOLE_ACCESS_GET, &region, &memory);
	request = status ? NULL
			 : remote_request(peer, (enum thole_operation)0, record, id, memory, bytes, region);
	if (!request) {
		remote_answer(peer, id, status ? status : THOLE_ERR_MEMORY);
		return;
	}
	request->record = (struct record){.kind = RECORD_REPLY, .length = RECORD_EXTERNAL, .tag = id};
	if (message_is_eager(peer, bytes)) {
		request->payload = request->record.arg[0] = bytes;
	} else {
		message_window(request, &window);
		window_store(&window, &request->record);
		request->record.flags = RECORD_WINDOW;
	}
	message_submit(request); /* cannot fail: nothing is to be copied */
}

/* How an ATOMIC record packs the operation into imm. */
enum { ATOMIC_TYPE_SHIFT = 8, ATOMIC_FETCH_SHIFT = 16, ATOMIC_COUNT_SHIFT = 32 };

static bool atomic_compares(enum thole_atomic_op op)
{
	return op >= THOLE_CSWAP && op <= THOLE_MSWAP;
}

/* Say here and there how an atomic has ended; NULL: nobody here is told, or an answer has no data. */
static void remote_atomic_ended(struct peer *peer, uint64_t id, struct thole_request *notice,
				struct thole_request *answer, int status)
{
	if (notice && status)
		request_free(notice);
	else if (notice)
		remote_notify(notice, notice->operation);
	if (answer && !status) {
		message_submit(answer); /* cannot fail: nothing is to be copied */
		return;
	}
	if (answer)
		request_free(answer);
	remote_answer(peer, id, status);
}

static void atomic_execute(struct peer *peer, const struct record *record, const char *operands, uint64_t bytes)
{
	enum thole_atomic_op op = record->imm & 0xff;
	enum thole_type type = record->imm >> ATOMIC_TYPE_SHIFT & 0xff;
	bool fetch = record->imm >> ATOMIC_FETCH_SHIFT & 1;
	uint64_t count = record->imm >> ATOMIC_COUNT_SHIFT;
	size_t size = thole_atomic_size(op, type);
	uint64_t length = count * size;
	struct thole_request *answer = NULL, *notice = NULL;
	struct thole_region *region;
	bool notify;
	char *memory;
	int status;

	if (size == 0 || count == 0 || count > THOLE_ATOMIC_BYTES_MAX / size ||
	    bytes != (op == THOLE_READ ? 0 : atomic_compares(op) ? 2 * length : length)) {
		message_bad(peer);
		remote_answer(peer, record->arg[2], THOLE_ERR_UNSUPPORTED);
		return;
	}
	message_reach_back(peer);
	if (peer->base.gone)
		return;
	status = region_access(peer, record->tag, record->arg[3], length,
			       THOLE_ACCESS_ATOMIC | (op == THOLE_READ ? 0 : THOLE_ACCESS_PUT) |
				       (fetch ? THOLE_ACCESS_GET : 0),
			       &region, &memory);
	notify = !status && (region->access & THOLE_NOTIFY);
	/* With all that it takes to tell, or not at all: who hears that there was no memory does it again. */
	if (!status && fetch)
		answer = remote_answer_new(peer, record, length);
	if (notify)
		notice = remote_request(peer, fetch ? THOLE_OP_REMOTE_ATOMIC_FETCH : THOLE_OP_REMOTE_ATOMIC, record, 0,
					memory, length, region);
	if (!status && ((fetch && !answer) || (notify && !notice)))
		status = THOLE_ERR_MEMORY;
	if (!status)
		status = atomics_apply(op, type, memory, op == THOLE_READ ? NULL : operands,
				       atomic_compares(op) ? operands + length : NULL,
				       fetch ? answer->segment.iov_base : NULL, count);
	remote_atomic_ended(peer, record->arg[2], notice, answer, status);
}

void remote_atomic(struct peer *peer, const struct record *record, const void *payload, uint32_t length)
{
	struct thole_request *request;

	if (!remote_data_ok(record, length) || record->arg[0] > 2 * THOLE_ATOMIC_BYTES_MAX) {
		message_bad(peer);
		return;
	}
	if (!(record->flags & RECORD_MORE)) {
		atomic_execute(peer, record, payload, length);
		return;
	}
	request = remote_request(peer, THOLE_OP_REMOTE_ATOMIC, record, record->arg[2], NULL, record->arg[0], NULL);
	if (request)
		request->owned_data = request->segment.iov_base =
			spare_get(&peer->endpoint->spares, record->arg[0]);
	if (!request || !request->owned_data) {
		if (request)
			request_free(request);
		remote_refuse(peer, record->arg[2], THOLE_ERR_MEMORY, record->arg[0] - length);
		return;
	}
	message_stream(peer, request, payload, length, record->arg[0]);
}

void remote_done(struct thole_request *request, int status)
{
	switch (request->operation) {
	case THOLE_OP_REMOTE_PUT:
		remote_put_done(request, status);
		break;
	case THOLE_OP_REMOTE_ATOMIC:
		if (!status)
			atomic_execute(request->peer, &request->record, request->owned_data, request->vector.length);
		request_free(request);
		break;
	case THOLE_OP_ATTACH:
		request_complete(request, attach_done(request, status));
		break;
	default:
		request_complete(request, status);
	}
}

/* ---- The origin's side ---------------------------------------------------------------------------- */

void remote_reply(struct peer *peer, const struct record *record, const void *payload, uint32_t length)
{
	struct thole_request *request = request_find(peer, record->tag);
	int status = (int)(int64_t)record->imm;
	uint64_t total = record->flags & RECORD_MORE ? record->arg[0] : length;
	bool expects_data = request && (request->operation == THOLE_OP_GET || request->operation == THOLE_OP_ATTACH ||
					request->operation == THOLE_OP_ATOMIC_FETCH);
	struct window window;

	if (status && (message_answer_early(request, RECORD_PUT, status) ||
		       message_answer_early(request, RECORD_ATOMIC, status)))
		return;
	if (!request || request->state != REQUEST_WAITING ||
	    (request->record.kind != RECORD_PUT && request->record.kind != RECORD_GET &&
	     request->record.kind != RECORD_ATOMIC)) {
		message_bad(peer);
		return;
	}
	list_remove(&request->node);
	if (request->record.flags & RECORD_WINDOW)
		message_window_end(request);
	if (status) {
		request_complete(request, message_status(status));
		return;
	}
	if (record->flags & RECORD_WINDOW) {
		window_load(&window, record);
		if (expects_data && window.length == request->vector.length && window.count == 1) {
			message_fetch(request, &window);
			return;
		}
	} else if (!expects_data && length == 0) {
		request_complete(request, 0);
		return;
	} else if (expects_data && total == request->vector.length && total >= length) {
		message_stream(peer, request, payload, length, total);
		return;
	}
	message_bad(peer);
	request_complete(request, THOLE_ERR_PROTOCOL);
}

void remote_accessed(struct thole_request *request, int status)
{
	if (status == THOLE_ERR_AGAIN && request->peer->base.gone) {
		status = request->peer->base.gone_status; /* by now: nothing is handed over any more, nor ended */
	} else if (status == THOLE_ERR_AGAIN) {
		status = message_submit(request);
		if (!status)
			return;
	}
	request_complete(request, status);
}

int remote_own(struct thole_request *request)
{
	if (!request->access.inject || request->owned_data || request->vector.length == 0)
		return 0;
	return request_own_data(request);
}

/* Start a put or get: by the transport alone where it can, and nothing is to be overtaken. The request's record is how
 * else. */
static int remote_start(struct thole_request *request, uint64_t key, uint64_t offset, struct thole_request **request_p)
{
	const struct transport *transport = request->peer->base.transport;
	uint64_t length = request->vector.length;
	int error;

	if (!transport->access || request->flags & THOLE_IMM || request->peer->backlog_count)
		return message_start(request, request_p);
	request->access = (struct transport_access){.peer = &request->peer->base, .vector = &request->vector,
						    .key = key, .offset = offset,
						    .put = request->operation == THOLE_OP_PUT,
						    .inject = request->flags & THOLE_INJECT};
	request->state = REQUEST_ACCESSING;
	request->handle = request_p != NULL;
	if (!transport->access(&request->access)) {
		if (!request->peer->base.gone)
			return message_start(request, request_p);
		error = peer_gone(request->peer); /* it is, since there was no memory to ask it for what that takes */
		request_free(request);
		return error;
	}
	if (request_p)
		*request_p = request;
	endpoint_carry(request->endpoint, request->peer, length);
	return 0;
}

int thole_put(struct thole_endpoint *endpoint, uint32_t peer, const struct iovec *segments, size_t count,
	      uint64_t key, uint64_t offset, uint64_t imm, unsigned flags, void *context,
	      struct thole_request **request_p)
{
	struct thole_request *request;
	struct window window;
	int error;

	endpoint_lock(endpoint);
	error = message_request(endpoint, peer, THOLE_OP_PUT, segments, count, flags, context, &request);
	if (error)
		goto out;
	endpoint_count(endpoint, COUNTER_PUTS);
	request->record = (struct record){.kind = RECORD_PUT, .length = RECORD_EXTERNAL, .tag = key, .imm = imm,
					  .flags = flags & THOLE_IMM ? RECORD_IMM : 0};
	if (message_is_eager(request->peer, request->vector.length)) {
		request->payload = request->record.arg[0] = request->vector.length;
		request->record.arg[2] = request_id(request);
	} else {
		error = flags & THOLE_INJECT ? request_own_data(request) : 0;
		if (error) {
			request_free(request);
			goto out;
		}
		message_window(request, &window);
		window_store(&window, &request->record);
		request->record.flags |= RECORD_WINDOW;
	}
	request->record.arg[3] = offset;
	error = remote_start(request, key, offset, request_p);
out:
	endpoint_unlock(endpoint);
	return error;
}

int thole_get(struct thole_endpoint *endpoint, uint32_t peer, const struct iovec *segments, size_t count,
	      uint64_t key, uint64_t offset, unsigned flags, void *context, struct thole_request **request_p)
{
	struct thole_request *request;
	int error;

	endpoint_lock(endpoint);
	error = message_request(endpoint, peer, THOLE_OP_GET, segments, count, flags, context, &request);
	if (!error) {
		endpoint_count(endpoint, COUNTER_GETS);
		request->record = (struct record){.kind = RECORD_GET, .length = RECORD_EXTERNAL, .tag = key};
		request->record.arg[0] = request->vector.length;
		request->record.arg[2] = request_id(request);
		request->record.arg[3] = offset;
		error = remote_start(request, key, offset, request_p);
	}
	endpoint_unlock(endpoint);
	return error;
}

static int atomic_check(const struct thole_atomic *atomic, size_t *length_p)
{
	size_t size = thole_atomic_size(atomic->op, atomic->type);

	if (size == 0)
		return error_set(THOLE_ERR_UNSUPPORTED, "there is no atomic operation %d for type %d",
				 (int)atomic->op, (int)atomic->type);
	if (atomic->count == 0 || atomic->count > THOLE_ATOMIC_BYTES_MAX / size)
		return error_set(THOLE_ERR_ARGUMENT, "an atomic operation has 1 to %zu elements of this type, not %zu",
				 THOLE_ATOMIC_BYTES_MAX / size, atomic->count);
	if ((atomic->op != THOLE_READ && !atomic->operand) || (atomic_compares(atomic->op) && !atomic->compare))
		return error_set(THOLE_ERR_ARGUMENT, "an operand or compare buffer is missing");
	*length_p = atomic->count * size;
	return 0;
}

int thole_atomic(struct thole_endpoint *endpoint, uint32_t peer, const struct thole_atomic *atomic, unsigned flags,
		 void *context, struct thole_request **request_p)
{
	bool compares = atomic_compares(atomic->op);
	struct iovec operands[2];
	struct thole_request *request;
	size_t length = 0, count;
	int error = atomic_check(atomic, &length);

	if (error)
		return error;
	operands[0] = (struct iovec){(void *)(uintptr_t)atomic->operand, length};
	operands[1] = (struct iovec){(void *)(uintptr_t)atomic->compare, length};
	count = atomic->op == THOLE_READ ? 0 : compares ? 2 : 1;
	endpoint_lock(endpoint);
	error = message_request(endpoint, peer, atomic->result ? THOLE_OP_ATOMIC_FETCH : THOLE_OP_ATOMIC, operands,
				count, flags | THOLE_INJECT, context, &request);
	if (error)
		goto out;
	endpoint_count(endpoint, COUNTER_ATOMICS);
	request->result = (struct iovec){atomic->result, atomic->result ? length : 0};
	request->payload = request->vector.length;
	request->record = (struct record){
		.kind = RECORD_ATOMIC,
		.length = RECORD_EXTERNAL,
		.tag = atomic->key,
		.imm = (uint64_t)atomic->op | (uint64_t)atomic->type << ATOMIC_TYPE_SHIFT |
		       (uint64_t)(atomic->result != NULL) << ATOMIC_FETCH_SHIFT |
		       (uint64_t)atomic->count << ATOMIC_COUNT_SHIFT,
	};
	request->record.arg[0] = request->payload;
	request->record.arg[2] = request_id(request);
	request->record.arg[3] = atomic->offset;
	error = message_start(request, request_p);
out:
	endpoint_unlock(endpoint);
	return error;
}
