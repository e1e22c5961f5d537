/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * op: operations of simulated processes, and what must become of them. What a process does next is traffic.c's.
 */
#include "op.h"

#include <stdlib.h>
#include <string.h>

#include "base/counters.h"

enum { UNTOUCHED_MAX = 4096 }; /* bytes behind a message that are looked at */

/* ---- Bytes ---------------------------------------------------------------------------------------------- */

static uint64_t pattern_word(uint64_t number, uint64_t at)
{
	uint64_t word = (number * UINT64_C(0x9e3779b97f4a7c15) + at) * UINT64_C(0xbf58476d1ce4e5b9);

	return word ^ word >> 29;
}

uint8_t pattern_byte_at(uint64_t number, uint64_t at)
{
	uint64_t word = pattern_word(number, at / 8 * 8);
	uint8_t bytes[sizeof(word)];

	memcpy(bytes, &word, sizeof(word));
	return bytes[at % 8];
}

/* This and the next take a fifth of the time of most histories: they go by words, and copy none by a call. */
void pattern_write(uint8_t *to, uint64_t number, uint64_t length)
{
	uint64_t whole = length / 8 * 8, word;

	for (uint64_t at = 0; at < whole; at += 8) {
		word = pattern_word(number, at);
		memcpy(to + at, &word, sizeof(word));
	}
	word = pattern_word(number, whole);
	if (length > whole)
		memcpy(to + whole, &word, length - whole);
}

uint64_t pattern_compare(const uint8_t *bytes, uint64_t number, uint64_t from, uint64_t length)
{
	uint64_t whole = length / 8 * 8, word, there;

	for (uint64_t at = 0; at < whole; at += 8) {
		memcpy(&there, bytes + at, sizeof(there));
		if (there != pattern_word(number, from + at))
			return at;
	}
	word = pattern_word(number, from + whole);
	return length == whole || memcmp(bytes + whole, &word, length - whole) == 0 ? length : whole;
}

/* ---- Truth ---------------------------------------------------------------------------------------------- */

static bool lost_for_memory(const struct process *process, const struct process *other)
{
	if (!process->low_memory)
		return false;
	if (!process->endpoint)
		return true; /* who knows what it saw */
	for (uint32_t i = 0; i < process->endpoint->peer_count; i++) {
		const struct peer *peer = process->endpoint->peers[i];

		if (memcmp(&peer->base.address, &other->address, sizeof(peer->base.address)) == 0 && peer->base.gone &&
		    peer->base.gone_status == THOLE_ERR_MEMORY)
			return true;
	}
	return false;
}

bool traffic_parted(const struct process *process, const struct process *other)
{
	const struct thole_endpoint *endpoint = process->endpoint ? process->endpoint : other->endpoint;
	uint64_t patience_ns = endpoint ? endpoint->base.options.peer_timeout : 0;

	return process->hostile || other->hostile || process->network->clogged ||
	       network_longest_cut(process->network, process->host->index, other->host->index) >= patience_ns / 2 ||
	       lost_for_memory(process, other) || lost_for_memory(other, process);
}

bool traffic_excused(const struct process *process, const struct process *other)
{
	return other->state != PROCESS_ALIVE || process->state != PROCESS_ALIVE || traffic_parted(process, other);
}

/* ---- Operations ----------------------------------------------------------------------------------------- */

void op_fail(const struct op *op, const char *what)
{
	static const char *const kinds[] = {"send", "receive", "put", "get", "atomic", "connect"};

	world_fail(op->traffic->world, "%s %llu of process %u (peer %d, %llu bytes, tag %llx, flags %x, status %d): %s",
		   kinds[op->kind], (unsigned long long)op->number, op->by->index, op->peer ? (int)op->peer->index : -1,
		   (unsigned long long)op->length, (unsigned long long)op->tag, op->flags, op->status, what);
}

struct op *op_new(struct process *by, enum op_kind kind, struct process *peer, uint64_t capacity)
{
	struct player *player = player_of(by);
	struct traffic *traffic = player->traffic;
	struct op *op = sim_alloc(sizeof(*op));

	op->traffic = traffic;
	op->by = by;
	op->peer = peer;
	op->kind = (uint8_t)kind;
	op->length = op->capacity = capacity;
	op->buffer = sim_grow(NULL, capacity);
	op->number = traffic->op_count;
	op->started_ns = traffic->world->now_ns;
	if ((op->number & (op->number - 1)) == 0)
		traffic->ops = sim_grow(traffic->ops, 2 * (op->number + 1) * sizeof(struct op *));
	traffic->ops[traffic->op_count++] = op;
	list_push_back(&player->open, &op->node);
	player->sends += kind != OP_RECEIVE;
	player->receives += kind == OP_RECEIVE;
	return op;
}

static void op_forget_buffer(struct op *op)
{
	if (op->by->nic && op->by->endpoint)
		sim_nic_unmap(op->by->nic, op->buffer, op->capacity);
	free(op->buffer);
	op->buffer = NULL;
}

void op_end(struct op *op, int status)
{
	struct player *player = player_of(op->by);

	op->ended = true;
	op->status = status;
	op->ended_ns = op->traffic->world->now_ns;
	op->traffic->ended++;
	op->traffic->failed += status != 0;
	list_remove(&op->node);
	player->sends -= op->kind != OP_RECEIVE;
	player->receives -= op->kind == OP_RECEIVE;
	if (op->kind == OP_PUT)
		player->putting[op->peer->index] = false;
	world_mix_word(op->traffic->world, op->number << 16 | (uint16_t)-status);
	world_tell(op->traffic->world, "%u: operation %llu ends, status %d", op->by->index,
		   (unsigned long long)op->number, status);
	op_forget_buffer(op);
}

/* Whether an error is one that may be. */
static bool op_may_fail(const struct op *op, int status)
{
	const struct process *other = op->peer ? op->peer : op->match ? op->match->by : NULL;

	if (op->expected && status == op->expected)
		return true;
	if (status == THOLE_ERR_PEER)
		return other && traffic_excused(op->by, other);
	if (status == THOLE_ERR_CLOSED)
		return other && other->state == PROCESS_CLOSED;
	if (status == THOLE_ERR_MEMORY)
		return op->by->low_memory || (other && other->low_memory);
	return false;
}

/* ---- Matching order ------------------------------------------------------------------------------------- */

static bool receive_accepts(const struct op *receive, const struct op *message)
{
	if (receive->only)
		return receive->only == message;
	return (receive->flags & THOLE_PLAIN) == (message->flags & THOLE_PLAIN) &&
	       (!receive->peer || receive->peer == message->by) &&
	       ((receive->flags & THOLE_PLAIN) || ((receive->tag ^ message->tag) & receive->mask) == 0);
}

void check_order(const struct op *message)
{
	const struct op *receive = message->match;

	for (const struct op *other = message->earlier; other; other = other->earlier)
		if (other->match && receive_accepts(receive, other) && other->match->order > receive->order)
			op_fail(other, "a later message overtook it");
	for (const struct op *other = message->later; other; other = other->later)
		if (other->match && receive_accepts(other->match, message) && other->match->order < receive->order)
			op_fail(message, "a later message had overtaken it");
}

struct op *message_of(struct op *receive, uint64_t tag)
{
	struct traffic *traffic = receive->traffic;
	uint64_t number = tag >> TRAFFIC_TAG_BITS;

	if (number >= traffic->op_count || traffic->ops[number]->kind != OP_SEND) {
		op_fail(receive, "it got a message that nobody sent");
		return NULL;
	}
	return traffic->ops[number];
}

static bool traffic_receive_match(struct op *receive, const struct thole_completion *completion)
{
	struct op *message = message_of(receive, completion->tag);

	if (!message)
		return false;
	if (message->match || message->dropped)
		op_fail(message, "it arrived twice");
	if (message->peer != receive->by)
		op_fail(message, "somebody else got it");
	if (message->ended && message->status == THOLE_ERR_CANCELED)
		op_fail(message, "it arrived, and was canceled");
	if (completion->peer != THOLE_ANY && process_of_peer(receive->by, completion->peer) != message->by->index)
		op_fail(message, "it came from another source");
	if (!receive_accepts(receive, message))
		op_fail(receive, "it got a message that it does not accept");
	receive->match = message;
	message->match = receive;
	check_order(message);
	return true;
}

void check_imm(const struct op *op, unsigned flags, uint64_t imm, unsigned got_flags, uint64_t got)
{
	if ((flags & THOLE_IMM) != (got_flags & THOLE_IMM) || ((flags & THOLE_IMM) && imm != got))
		op_fail(op, "its immediate data is not what was sent");
}

static void check_bytes(struct op *receive, uint64_t length)
{
	const struct op *message = receive->match;
	uint64_t rest = receive->capacity - length < UNTOUCHED_MAX ? receive->capacity - length : UNTOUCHED_MAX;
	uint64_t same = pattern_compare(receive->buffer, message->number, 0, length);

	if (same < length)
		world_fail(receive->traffic->world, "message %llu of %llu bytes is altered at byte %llu",
			   (unsigned long long)message->number, (unsigned long long)message->length,
			   (unsigned long long)same);
	for (uint64_t i = 0; i < rest; i++)
		if (receive->buffer[length + i] != UNTOUCHED)
			op_fail(receive, "the bytes behind the message were changed");
	receive->traffic->bytes += length;
}

/* A receive is canceled: no message that it accepts can have gone to one that was posted later. */
static void check_canceled(const struct op *receive)
{
	const struct traffic *traffic = receive->traffic;

	for (uint64_t i = receive->number + 1; i < traffic->op_count; i++) {
		const struct op *op = traffic->ops[i];

		if (op->kind == OP_RECEIVE && op->by == receive->by && op->match && op->order > receive->order &&
		    receive_accepts(receive, op->match))
			op_fail(op->match, "it went to a receive, and an older one that accepts it got nothing");
	}
}

static void receive_ended(struct op *receive, const struct thole_completion *completion)
{
	struct op *message;
	uint64_t length;

	if (receive->expected && completion->status != receive->expected)
		op_fail(receive, "it was canceled, and did not end so");
	if (completion->status == THOLE_ERR_CANCELED)
		check_canceled(receive);
	if (completion->status && completion->status != THOLE_ERR_TRUNCATED) {
		if (completion->tag && !traffic_receive_match(receive, completion))
			return;
		if (!op_may_fail(receive, completion->status))
			op_fail(receive, thole_strerror(completion->status));
		return;
	}
	if (!traffic_receive_match(receive, completion))
		return;
	message = receive->match;
	length = message->length < receive->capacity ? message->length : receive->capacity;
	message->received = true;
	check_imm(message, message->flags, message->imm, completion->flags, completion->imm);
	if (completion->message_length != message->length || completion->length != length)
		op_fail(message, "its length is wrong");
	if ((completion->status == THOLE_ERR_TRUNCATED) != (message->length > receive->capacity))
		op_fail(message, "it is truncated, or not, wrongly");
	check_bytes(receive, length);
}

/* ---- The other ends ------------------------------------------------------------------------------------- */

/* A receive that may have got it: its end is perhaps not looked at yet. */
static bool message_is_awaited(const struct op *message)
{
	struct player *player = player_of(message->peer);
	struct list_node *node = list_first(&player->open);

	for (; node; node = list_next(&player->open, node)) {
		const struct op *op = container_of(node, struct op, node);

		if (op->kind == OP_RECEIVE && receive_accepts(op, message))
			return true;
	}
	return false;
}

/* With mxoe a sender is told how much of its message was fetched, and why less was is not said. */
static bool send_was_cut(const struct op *op, const struct thole_completion *completion)
{
	if (completion->status != THOLE_ERR_TRUNCATED || !op->by->network->numbered || completion->length >= op->length)
		return false;
	if (completion->length == 0 && (op_may_fail(op, THOLE_ERR_PEER) || op_may_fail(op, THOLE_ERR_MEMORY)))
		return true;
	return op->match ? op->match->capacity == completion->length : message_is_awaited(op);
}

static void send_ended(struct op *op, int status)
{
	if (!status && op->by->network->numbered && (op->flags & THOLE_SYNC) && op->match &&
	    op->match->capacity < op->length)
		op_fail(op, "it succeeded, and only part of it was fetched");
	if ((op->flags & THOLE_SYNC) && !status && !op->match && !op->dropped && op->peer->endpoint &&
	    !message_is_awaited(op))
		op_fail(op, "a synchronous send is complete, and nobody has received it");
}

static void put_ended(struct op *op, int status)
{
	struct player *target;
	uint32_t index = op->by->index;

	if (status || op->expected || op->peer->state != PROCESS_ALIVE)
		return;
	target = player_of(op->peer);
	if (pattern_compare(target->put + (size_t)index * TRAFFIC_SLOT, op->number, 0, op->length) < op->length)
		op_fail(op, "it is complete, and its data is not there");
}

static void get_ended(struct op *op, int status)
{
	if (!status && pattern_compare(op->buffer, op->peer->index, op->offset, op->length) < op->length)
		op_fail(op, "it has read something else");
	else if (!status)
		op->traffic->bytes += op->length;
}

static void atomic_ended(struct op *op, int status)
{
	if (!status)
		memcpy(&op->result, op->buffer, 8);
}

/* Whoever is connected has heard of the other: neither is new to the one that asked. */
static void connect_ended(struct op *op, int status)
{
	struct thole_peer_info info;

	if (!status && op->by->endpoint && thole_peer_info(op->by->endpoint, op->handle, &info) == 0 &&
	    strcmp(info.state, "connected") != 0 && strcmp(info.state, "gone") != 0)
		op_fail(op, "it says that it is connected, and is not");
}

static void op_complete(struct op *op, const struct thole_completion *completion)
{
	static const int32_t operations[] = {THOLE_OP_SEND, THOLE_OP_RECEIVE, THOLE_OP_PUT, THOLE_OP_GET,
					     THOLE_OP_ATOMIC_FETCH, THOLE_OP_CONNECT};
	int status = completion->status;

	if (op->ended) {
		op_fail(op, "it ends twice");
		return;
	}
	if (completion->operation != operations[op->kind])
		op_fail(op, "it ends as something else");
	if (op->kind == OP_RECEIVE)
		receive_ended(op, completion);
	else if (status && !op_may_fail(op, status) && !(op->kind == OP_SEND && send_was_cut(op, completion)))
		op_fail(op, thole_strerror(status));
	else if (!status && op->expected)
		op_fail(op, "it succeeded, and must not");
	else if (op->kind == OP_SEND)
		send_ended(op, status);
	else if (op->kind == OP_PUT)
		put_ended(op, status);
	else if (op->kind == OP_GET)
		get_ended(op, status);
	else if (op->kind == OP_ATOMIC)
		atomic_ended(op, status);
	else
		connect_ended(op, status);
	op_end(op, status);
}

/* A peer's put with immediate data has arrived here. */
static void notice_arrived(struct process *process, const struct thole_completion *completion)
{
	struct player *player = player_of(process);
	struct traffic *traffic = player->traffic;
	uint64_t number = completion->imm;
	struct op *put = number < traffic->op_count ? traffic->ops[number] : NULL;

	if (completion->operation != THOLE_OP_REMOTE_PUT || !put || put->kind != OP_PUT || put->peer != process ||
	    put->received || !(completion->flags & THOLE_IMM) || completion->length != put->length) {
		world_fail(traffic->world, "process %u is told of a put that nobody made", process->index);
		return;
	}
	put->received = true;
	if (pattern_compare(player->put + (size_t)put->by->index * TRAFFIC_SLOT, number, 0, put->length) < put->length)
		op_fail(put, "its RTS is here, and its data is not");
}

void traffic_completion(struct process *process, const struct thole_completion *completion)
{
	if (completion->operation >= THOLE_OP_REMOTE_PUT)
		notice_arrived(process, completion);
	else
		op_complete(completion->context, completion);
}

/* ---- Starting ------------------------------------------------------------------------------------------- */

uint32_t handle_of(struct process *process, const struct process *other)
{
	uint32_t handle = THOLE_ANY;

	/* Who was given up stays so, though with mxoe its place may be taken again. */
	for (uint32_t i = 0; other && i < process->endpoint->peer_count; i++)
		if (memcmp(&process->endpoint->peers[i]->base.address, &other->address, sizeof(other->address)) == 0)
			return i;
	if (other && thole_peer(process->endpoint, &other->address, &handle) != 0)
		world_fail(process->world, "process %u cannot name %u: %s", process->index, other->index,
			   thole_detail());
	return handle;
}

size_t cut_segments(struct op *op, struct iovec segments[SEGMENTS_MAX], bool cut)
{
	struct dice *dice = &op->traffic->world->traffic;
	uint64_t at = 0;
	size_t count = 0;

	for (size_t left = cut ? dice_below(dice, SEGMENTS_MAX) : 0; left > 0; left--) {
		uint64_t part = dice_below(dice, (op->capacity - at) / left + 1);

		segments[count++] = (struct iovec){op->buffer + at, part};
		at += part;
	}
	segments[count++] = (struct iovec){op->buffer + at, op->capacity - at};
	return count;
}

/* It could not be started. */
static void op_refused(struct op *op, int error)
{
	if (error != THOLE_ERR_AGAIN && !op_may_fail(op, error))
		op_fail(op, thole_strerror(error));
	op->dropped = true;
	op_end(op, error);
}

void op_started(struct op *op, int error)
{
	if (!error)
		return;
	op->request = NULL;
	op_refused(op, error);
}

struct thole_request **handle_wanted(struct op *op, bool handle)
{
	return handle ? &op->request : NULL;
}

/* Put it behind those before it, so that matching order can be checked. */
static void message_link(struct op *op)
{
	struct op **last =
		&player_of(op->by)->last[!!(op->flags & THOLE_PLAIN)][op->peer->index % TRAFFIC_PROCESSES_MAX];

	while (*last && (*last)->peer != op->peer)
		*last = NULL; /* more processes than places: order is checked between fewer */
	op->earlier = *last;
	if (*last)
		(*last)->later = op;
	*last = op;
}

struct op *traffic_message_start(struct process *process, struct process *to, uint64_t length, uint32_t tag,
					unsigned flags, bool handle, bool vector)
{
	struct op *op = op_new(process, OP_SEND, to, length);
	struct iovec segments[SEGMENTS_MAX];
	size_t count;
	int error;

	op->flags = flags;
	op->tag = op->number << TRAFFIC_TAG_BITS | tag;
	op->imm = flags & THOLE_IMM ? pattern_word(op->number, 1) : 0;
	pattern_write(op->buffer, op->number, length);
	message_link(op);
	count = cut_segments(op, segments, vector);
	world_tell(process->world, "%u: send %llu to %u, %llu bytes, tag %u, flags %x", process->index,
		   (unsigned long long)op->number, to->index, (unsigned long long)length, tag, flags);
	if (count == 1)
		error = thole_send(process->endpoint, handle_of(process, to), op->buffer, length, op->tag, op->imm,
				   flags, op, handle_wanted(op, handle));
	else
		error = thole_sendv(process->endpoint, handle_of(process, to), segments, count, op->tag, op->imm, flags,
				    op, handle_wanted(op, handle));
	if (error)
		op_started(op, error);
	else if ((flags & THOLE_INJECT) && op->buffer)
		memset(op->buffer, 0, length); /* it is ours again */
	return op;
}

struct op *traffic_send(struct process *process, struct process *to, uint64_t length, uint32_t tag, unsigned flags)
{
	struct op *op;

	process_advance(process); /* so that it knows the time */
	op = traffic_message_start(process, to, length, tag, flags, false, false);
	process_wake(process, process->world->now_ns);
	return op;
}

struct op *receive_start(struct process *process, struct process *from, uint64_t capacity, uint32_t tag,
				uint64_t mask, unsigned flags, bool handle, bool vector)
{
	struct op *op = op_new(process, OP_RECEIVE, from, capacity);
	struct iovec segments[SEGMENTS_MAX];
	size_t count;
	int error;

	op->flags = flags;
	op->tag = tag;
	op->mask = mask;
	op->order = player_of(process)->orders++;
	memset(op->buffer, UNTOUCHED, capacity);
	count = cut_segments(op, segments, vector);
	world_tell(process->world, "%u: receive %llu from %d, %llu bytes, tag %u, mask %llx", process->index,
		   (unsigned long long)op->number, from ? (int)from->index : -1, (unsigned long long)capacity, tag,
		   (unsigned long long)mask);
	if (count == 1)
		error = thole_recv(process->endpoint, handle_of(process, from), op->buffer, capacity, tag, mask, flags,
				   op, handle_wanted(op, handle));
	else
		error = thole_recvv(process->endpoint, handle_of(process, from), segments, count, tag, mask, flags, op,
				    handle_wanted(op, handle));
	op_started(op, error);
	return op;
}

struct op *traffic_receive(struct process *process, struct process *from, uint64_t capacity, uint32_t tag,
			   uint64_t mask, unsigned flags)
{
	struct op *op;

	process_advance(process);
	op = receive_start(process, from, capacity, tag, mask, flags, false, false);
	process_wake(process, process->world->now_ns);
	return op;
}
