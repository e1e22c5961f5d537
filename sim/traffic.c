/* SPDX-License-Identifier: BSD-3-Clause */
#include "traffic.h"

#include <stdlib.h>
#include <string.h>

#include "base/counters.h"

enum {
	SEGMENTS_MAX = 9,
	CLOSE_LIMIT_NS = 2000000000, /* a process that closes waits so long for its peers */
	PORT_FIRST = 1024, PORTS = 30000, /* pairs of them */
	UNTOUCHED = 0xa5,
	UNTOUCHED_MAX = 4096,       /* bytes behind a message that are looked at */
};

#define TAG_MASK ((UINT64_C(1) << TRAFFIC_TAG_BITS) - 1)

/* ---- Bytes ---------------------------------------------------------------------------------------------- */

static uint64_t pattern_word(uint64_t number, uint64_t at)
{
	uint64_t word = (number * UINT64_C(0x9e3779b97f4a7c15) + at) * UINT64_C(0xbf58476d1ce4e5b9);

	return word ^ word >> 29;
}

/* This and the next take a fifth of the time of most histories: they go by words, and copy none by a call. */
static void pattern_write(uint8_t *to, uint64_t number, uint64_t length)
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

/* The first word that is not of this message, or `length`. `from` is a multiple of 8. */
static uint64_t pattern_compare(const uint8_t *bytes, uint64_t number, uint64_t from, uint64_t length)
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

/* Whether `process` may truly say that it has lost the other. */
static bool traffic_excused(const struct process *process, const struct process *other)
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

static struct op *op_new(struct process *by, enum op_kind kind, struct process *peer, uint64_t capacity)
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

static void op_end(struct op *op, int status)
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

/* Of two messages from one source, a receive that accepts both and got the later one was posted after the one that got
 * the earlier. */
static void check_order(const struct op *message)
{
	const struct op *receive = message->match;

	for (const struct op *other = message->earlier; other; other = other->earlier)
		if (other->match && receive_accepts(receive, other) && other->match->order > receive->order)
			op_fail(other, "a later message overtook it");
	for (const struct op *other = message->later; other; other = other->later)
		if (other->match && receive_accepts(other->match, message) && other->match->order < receive->order)
			op_fail(message, "a later message had overtaken it");
}

/* The message that a completion is about. */
static struct op *message_of(struct op *receive, uint64_t tag)
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

static void check_imm(const struct op *op, unsigned flags, uint64_t imm, unsigned got_flags, uint64_t got)
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

static void traffic_completion(struct process *process, const struct thole_completion *completion)
{
	if (completion->operation >= THOLE_OP_REMOTE_PUT)
		notice_arrived(process, completion);
	else
		op_complete(completion->context, completion);
}

/* ---- Starting ------------------------------------------------------------------------------------------- */

static uint32_t handle_of(struct process *process, const struct process *other)
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

/* Cut a buffer into segments at random. */
static size_t cut_segments(struct op *op, struct iovec segments[SEGMENTS_MAX], bool cut)
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

static void op_started(struct op *op, int error)
{
	if (!error)
		return;
	op->request = NULL;
	op_refused(op, error);
}

static struct thole_request **handle_wanted(struct op *op, bool handle)
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

static struct op *traffic_message_start(struct process *process, struct process *to, uint64_t length, uint32_t tag,
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

static struct op *receive_start(struct process *process, struct process *from, uint64_t capacity, uint32_t tag,
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

/* ---- Actions -------------------------------------------------------------------------------------------- */

static uint64_t length_random(struct traffic *traffic)
{
	struct dice *dice = &traffic->world->traffic;
	const struct traffic_plan *plan = &traffic->plan;

	if (dice_chance(dice, plan->large) && plan->length_max > 4096)
		return dice_scale(dice, 4096, plan->length_max);
	return dice_scale(dice, 0, plan->length_max < 4096 ? plan->length_max : 4096);
}

static struct process *other_random(struct process *process)
{
	struct traffic *traffic = player_of(process)->traffic;
	struct process *found = NULL;
	uint32_t seen = 0;

	for (uint32_t i = 0; i < traffic->process_count; i++) {
		struct process *other = traffic->processes[i];

		if (other != process && other->state == PROCESS_ALIVE && !player_of(other)->closing &&
		    dice_below(&traffic->world->traffic, ++seen) == 0)
			found = other;
	}
	return found;
}

static void act_send(struct process *process, struct process *other)
{
	struct traffic *traffic = player_of(process)->traffic;
	const struct traffic_plan *plan = &traffic->plan;
	struct dice *dice = &traffic->world->traffic;
	unsigned flags = (dice_chance(dice, plan->plain) ? (unsigned)THOLE_PLAIN : 0) |
			 (dice_chance(dice, plan->sync) ? (unsigned)THOLE_SYNC : 0) |
			 (dice_chance(dice, plan->inject) ? (unsigned)THOLE_INJECT : 0) |
			 (dice_chance(dice, plan->imm) ? (unsigned)THOLE_IMM : 0);
	uint64_t length = length_random(traffic);
	uint32_t tag = (uint32_t)dice_below(dice, plan->tags);
	bool handle = dice_chance(dice, plan->handle), vector = dice_chance(dice, plan->vector);

	if (player_of(process)->sends < plan->sends_max)
		traffic_message_start(process, other, length, tag, flags, handle, vector);
}

static void act_receive(struct process *process, struct process *other)
{
	struct traffic *traffic = player_of(process)->traffic;
	const struct traffic_plan *plan = &traffic->plan;
	struct dice *dice = &traffic->world->traffic;
	uint64_t capacity = dice_chance(dice, plan->shorter) ? length_random(traffic) : plan->length_max;
	uint64_t mask = dice_chance(dice, plan->wild) ? dice_below(dice, TAG_MASK + 1) : TAG_MASK;
	uint32_t tag = (uint32_t)dice_below(dice, plan->tags);
	bool any = dice_chance(dice, plan->any);
	unsigned flags = dice_chance(dice, plan->plain) ? (unsigned)THOLE_PLAIN : 0;
	bool handle = dice_chance(dice, plan->handle), vector = dice_chance(dice, plan->vector);

	if (player_of(process)->receives < plan->receives_max)
		receive_start(process, any ? NULL : other, capacity, tag, mask, flags, handle, vector);
}

/* Receive or drop a message that was taken out of matching, by an operation that stands for its receive. */
static void take_found(struct op *op, const struct thole_completion *found, struct thole_message *handle, bool drop)
{
	struct process *process = op->by;
	struct op *message = message_of(op, found->tag);
	struct iovec segments[SEGMENTS_MAX];
	size_t count;
	int error;

	if (!message)
		return;
	if (found->message_length != message->length)
		op_fail(message, "a probe told another length");
	check_imm(message, message->flags, message->imm, found->flags, found->imm);
	memset(op->buffer, UNTOUCHED, op->capacity);
	world_tell(process->world, "%u: takes message %llu, %s", process->index, (unsigned long long)message->number,
		   drop ? "and drops it" : "as operation");
	if (!drop) {
		count = cut_segments(op, segments, false);
		error = thole_message_recv(process->endpoint, handle, segments, count, op->flags, op, NULL);
		op_started(op, error);
		if (error) { /* no memory: it is still ours, and nobody wants it any more */
			message->received = message->dropped = true;
			thole_message_drop(process->endpoint, handle);
		}
		return;
	}
	if (message->match || message->dropped)
		op_fail(message, "a probe found it, and it was received");
	message->match = op;
	op->match = message;
	message->received = message->dropped = true;
	check_order(message);
	thole_message_drop(process->endpoint, handle);
	op_end(op, 0);
}

/* A matched probe counts as a receive that is posted now. */
static void take_message(struct process *process, struct process *from, uint32_t tag, uint64_t mask, unsigned flags,
			 bool drop)
{
	struct thole_completion found;
	struct thole_message *handle;
	struct op *op;

	if (!thole_message_probe(process->endpoint, handle_of(process, from), tag, mask, flags, &found, &handle))
		return;
	op = op_new(process, OP_RECEIVE, from, found.message_length);
	op->flags = flags;
	op->tag = tag;
	op->mask = mask;
	op->order = player_of(process)->orders++;
	take_found(op, &found, handle, drop);
}

static void act_probe(struct process *process, struct process *other)
{
	struct traffic *traffic = player_of(process)->traffic;
	const struct traffic_plan *plan = &traffic->plan;
	struct dice *dice = &traffic->world->traffic;
	uint64_t mask = dice_chance(dice, plan->wild) ? 0 : TAG_MASK;
	uint32_t tag = (uint32_t)dice_below(dice, plan->tags);
	unsigned flags = dice_chance(dice, plan->plain) ? (unsigned)THOLE_PLAIN : 0;
	struct thole_completion found;

	if (dice_chance(dice, plan->any))
		other = NULL;
	if (dice_below(dice, 2))
		take_message(process, other, tag, mask, flags, dice_below(dice, 8) == 0);
	else
		thole_probe(process->endpoint, handle_of(process, other), tag, mask, flags, &found);
}

/* ---- Screening ------------------------------------------------------------------------------------------- */

/* A message is taken without regard to those before it, which were looked at and kept. */
static void traffic_screen_take(struct player *player, bool drop)
{
	const struct thole_completion *found = &player->handed_found;
	struct op *op = op_new(player->process, OP_RECEIVE, NULL, found->message_length);

	op->flags = found->flags & (unsigned)THOLE_PLAIN;
	op->order = player->handed_order;
	op->only = message_of(op, found->tag);
	if (op->only)
		op->peer = op->only->by;
	take_found(op, found, player->handed, drop);
}

/* What becomes of the message that is handed out. */
static void screen_decide(struct player *player)
{
	struct dice *dice = &player->traffic->world->traffic;
	uint64_t lot = dice_below(dice, 4);

	if (lot < 2) {
		world_tell(player->traffic->world, "%u: keeps message %llu", player->process->index,
			   (unsigned long long)player->handed_found.tag >> TRAFFIC_TAG_BITS);
		thole_message_keep(player->process->endpoint, player->handed);
	} else {
		traffic_screen_take(player, lot == 2);
	}
	player->handed = NULL;
}

/* The data that is shown is the message's. */
static void check_shown(struct player *player, const void *data)
{
	const struct thole_completion *found = &player->handed_found;

	if (data &&
	    pattern_compare(data, found->tag >> TRAFFIC_TAG_BITS, 0, found->message_length) < found->message_length)
		world_fail(player->traffic->world, "message %llu is shown altered",
			   (unsigned long long)found->tag >> TRAFFIC_TAG_BITS);
}

/* Look at what waits; one is perhaps in hand until the next action, with operations started meanwhile. */
static void player_screen(struct player *player)
{
	struct process *process = player->process;
	struct dice *dice = &player->traffic->world->traffic;
	const void *data;

	if (player->handed)
		return;
	while (thole_screen_next(process->endpoint, &player->handed_found, &data, &player->handed)) {
		player->handed_order = player->orders++;
		check_shown(player, data);
		if (!player->traffic->settling && !player->closing && dice_below(dice, 4) == 0)
			return;
		screen_decide(player);
	}
	player->handed = NULL;
}

static void screen_turn(struct player *player, bool on)
{
	world_tell(player->traffic->world, "%u: screens messages %s", player->process->index,
		   on ? "from now on" : "no more");
	player->screening = on;
	thole_screen(player->process->endpoint, on);
}

/* Before an action. */
static void act_screen(struct player *player)
{
	struct dice *dice = &player->traffic->world->traffic;

	if (player->handed && dice_below(dice, 2))
		screen_decide(player);
	if (dice_chance(dice, player->traffic->plan.screen))
		screen_turn(player, !player->screening);
}

static void act_cancel(struct process *process, struct process *other)
{
	struct player *player = player_of(process);
	uint32_t skip = (uint32_t)dice_below(&process->world->traffic, player->sends + player->receives + 1);
	struct list_node *node = list_first(&player->open);
	struct op *op;
	int before;

	(void)other;
	while (node && skip-- > 0)
		node = list_next(&player->open, node);
	if (!node)
		return;
	op = container_of(node, struct op, node);
	before = op->expected;
	op->expected = THOLE_ERR_CANCELED;
	if (op->request ? thole_cancel(process->endpoint, op->request) : thole_cancel_context(process->endpoint, op))
		world_tell(process->world, "%u: operation %llu is canceled", process->index,
			   (unsigned long long)op->number);
	else
		op->expected = before;
}

/* ---- Put, get, atomics ----------------------------------------------------------------------------------- */

static void act_put(struct process *process, struct process *other)
{
	struct player *player = player_of(process);
	struct dice *dice = &process->world->traffic;
	uint64_t length = length_random(player->traffic);
	bool wrong = dice_below(dice, 50) == 0;
	struct iovec segments[SEGMENTS_MAX];
	struct op *op;
	size_t count;

	if (player->putting[other->index])
		return;
	op = op_new(process, OP_PUT, other, length < TRAFFIC_SLOT ? length : TRAFFIC_SLOT);
	op->flags = dice_chance(dice, player->traffic->plan.imm) && !wrong ? THOLE_IMM : 0;
	op->expected = wrong ? THOLE_ERR_KEY : 0;
	op->imm = op->number;
	pattern_write(op->buffer, op->number, op->length);
	player->putting[other->index] = true;
	world_tell(process->world, "%u: put %llu to %u, %llu bytes", process->index, (unsigned long long)op->number,
		   other->index, (unsigned long long)op->length);
	count = cut_segments(op, segments, dice_below(dice, 2));
	op_started(op, thole_put(process->endpoint, handle_of(process, other), segments, count,
				 wrong ? TRAFFIC_KEY_NONE : TRAFFIC_KEY_PUT, (uint64_t)process->index * TRAFFIC_SLOT,
				 op->imm, op->flags, op, handle_wanted(op, dice_below(dice, 2))));
}

static void act_get(struct process *process, struct process *other)
{
	struct player *player = player_of(process);
	struct dice *dice = &process->world->traffic;
	uint64_t length = length_random(player->traffic);
	bool beyond = dice_below(dice, 50) == 0;
	struct iovec segments[SEGMENTS_MAX];
	struct op *op = op_new(process, OP_GET, other, length < TRAFFIC_READ ? length : TRAFFIC_READ);
	size_t count = cut_segments(op, segments, dice_below(dice, 2));

	op->offset = dice_below(dice, (TRAFFIC_READ - op->length) / 8 + 1) * 8;
	op->expected = beyond ? THOLE_ERR_RANGE : 0;
	world_tell(process->world, "%u: get %llu from %u, %llu bytes", process->index, (unsigned long long)op->number,
		   other->index, (unsigned long long)op->length);
	op_started(op, thole_get(process->endpoint, handle_of(process, other), segments, count, TRAFFIC_KEY_GET,
				 beyond ? TRAFFIC_READ + 1 : op->offset, 0, op,
				 handle_wanted(op, dice_below(dice, 2))));
}

/* Add one, and get what was there before. */
static void act_atomic(struct process *process, struct process *other)
{
	static const uint64_t one = 1;
	struct dice *dice = &process->world->traffic;
	struct op *op = op_new(process, OP_ATOMIC, other, 8);
	struct thole_atomic atomic = {.op = THOLE_SUM, .type = THOLE_UINT64, .count = 1, .operand = &one,
				      .result = op->buffer, .key = TRAFFIC_KEY_ATOMIC};

	op->offset = dice_below(dice, 2) ? 0 : 1 + process->index;
	atomic.offset = 8 * op->offset;
	world_tell(process->world, "%u: atomic %llu to %u", process->index, (unsigned long long)op->number,
		   other->index);
	op_started(op, thole_atomic(process->endpoint, handle_of(process, other), &atomic, 0, op,
				    handle_wanted(op, dice_below(dice, 2))));
}

static void act_connect(struct process *process, struct process *other)
{
	struct dice *dice = &process->world->traffic;
	struct op *op;

	if (player_of(process)->sends >= player_of(process)->traffic->plan.sends_max)
		return;
	op = op_new(process, OP_CONNECT, other, 0);
	op->handle = handle_of(process, other);
	world_tell(process->world, "%u: connect %llu to %u", process->index, (unsigned long long)op->number,
		   other->index);
	op_started(op, thole_connect(process->endpoint, op->handle, process->endpoint->base.options.job_key, op,
				     handle_wanted(op, dice_below(dice, 2))));
}

static void act_remote(struct process *process, struct process *other)
{
	static void (*const acts[])(struct process *, struct process *) = {act_put, act_get, act_atomic};

	if (player_of(process)->sends < player_of(process)->traffic->plan.sends_max &&
	    other->index < TRAFFIC_PROCESSES_MAX && process->index < TRAFFIC_PROCESSES_MAX)
		acts[dice_below(&process->world->traffic, 3)](process, other);
}

static void act(struct process *process)
{
	struct traffic *traffic = player_of(process)->traffic;
	const struct traffic_plan *plan = &traffic->plan;
	struct process *other = other_random(process);
	uint64_t lot = dice_below(&traffic->world->traffic, 1000000);
	const struct {
		uint32_t chance;
		void (*run)(struct process *, struct process *);
	} acts[] = {{plan->receive, act_receive}, {plan->remote, act_remote}, {plan->probe, act_probe},
		    {plan->cancel, act_cancel}, {plan->connect, act_connect}, {1000000, act_send}};

	if (!other)
		return;
	for (size_t i = 0;; i++) {
		if (lot < acts[i].chance) {
			acts[i].run(process, other);
			return;
		}
		lot -= acts[i].chance;
	}
}

/* ---- Steps ---------------------------------------------------------------------------------------------- */

/* Handles that are done. */
void player_test(struct player *player)
{
	struct process *process = player->process;
	struct thole_completion completion;
	struct thole_request *request;

	while (process->endpoint && thole_peek(process->endpoint, &request)) {
		if (!thole_test(process->endpoint, request, &completion)) {
			world_fail(process->world, "process %u: a request is complete, and is not", process->index);
			return;
		}
		traffic_completion(process, &completion);
	}
	if (process->endpoint->complete)
		return;
	while (thole_poll(process->endpoint, &completion, 1) == 1)
		traffic_completion(process, &completion);
}

/* Every loss of a peer must have a reason. */
static void player_check_peers(struct player *player)
{
	struct process *process = player->process;
	struct traffic *traffic = player->traffic;

	if (player->peers_gone == process->endpoint->base.counters[COUNTER_PEERS_GONE])
		return;
	player->peers_gone = (uint32_t)process->endpoint->base.counters[COUNTER_PEERS_GONE];
	for (uint32_t i = 0; i < process->endpoint->peer_count; i++) {
		uint32_t index = process_of_peer(process, i);

		/* A hostile one may have others' numbers in its address. */
		if (process->endpoint->peers[i]->base.gone && index < traffic->process_count &&
		    memcmp(&process->endpoint->peers[i]->base.address, &traffic->processes[index]->address,
			   sizeof(struct thole_address)) == 0 &&
		    !traffic_excused(process, traffic->processes[index]))
			world_fail(traffic->world, "process %u has lost %u (status %d), which is there", process->index,
				   index, process->endpoint->peers[i]->base.gone_status);
	}
}

/* Take all that is here, whoever it is for. */
static void player_drain(struct player *player)
{
	static const unsigned queues[] = {0, THOLE_PLAIN};
	struct process *process = player->process;

	for (size_t i = 0; i < 2; i++) {
		for (uint64_t before = player->orders + 1; before != player->orders && !process->world->failed;) {
			before = player->orders;
			take_message(process, NULL, 0, 0, queues[i], false);
		}
	}
}

void traffic_rest(struct traffic *traffic)
{
	for (uint32_t i = 0; i < traffic->process_count; i++)
		traffic->processes[i]->act_ns = UINT64_MAX;
}

/* Its operations end with it. */
static void player_end(struct player *player)
{
	struct list_node *node;

	while ((node = list_first(&player->open)))
		op_end(container_of(node, struct op, node), THOLE_ERR_PEER);
}

void traffic_crash(struct process *process)
{
	process_crash(process);
	player_end(player_of(process));
}

static void traffic_close(struct process *process)
{
	process_close(process);
	player_end(player_of(process));
}

static void traffic_step(struct process *process)
{
	struct player *player = player_of(process);
	struct traffic *traffic = player->traffic;
	struct world *world = traffic->world;

	player_test(player);
	player_check_peers(player);
	if (player->screening)
		player_screen(player);
	if (traffic->settling) {
		if (player->handed)
			screen_decide(player);
		if (player->screening)
			screen_turn(player, false);
		player_drain(player);
		process->act_ns = UINT64_MAX;
	} else if (player->closing) {
		process->act_ns = world->now_ns + MILLISECOND;
		if (player->closing_ns == 0)
			player->closing_ns = world->now_ns;
		process->drained = endpoint_drained(process->endpoint);
		if (process->drained || world->now_ns - player->closing_ns > CLOSE_LIMIT_NS)
			traffic_close(process);
		else
			endpoint_hasten(process->endpoint);
		return;
	} else if (world->now_ns >= process->act_ns) {
		if (traffic->plan.screen)
			act_screen(player);
		act(process);
		process->act_ns = world->now_ns + dice_below(&world->traffic, traffic->plan.gap_ns) + 1;
	}
	player_test(player);
}

const struct application traffic_application = {traffic_step, traffic_completion};

/* ---- Processes ------------------------------------------------------------------------------------------ */

static void player_expose(struct player *player)
{
	struct thole_endpoint *endpoint = player->process->endpoint;
	uint32_t index = player->process->index;
	int error;

	if (index >= TRAFFIC_PROCESSES_MAX)
		return;
	player->put = sim_alloc((size_t)TRAFFIC_PROCESSES_MAX * TRAFFIC_SLOT);
	player->get = sim_alloc(TRAFFIC_READ);
	pattern_write(player->get, index, TRAFFIC_READ);
	error = thole_expose(endpoint, player->put, (size_t)TRAFFIC_PROCESSES_MAX * TRAFFIC_SLOT, THOLE_ACCESS_PUT,
			     TRAFFIC_KEY_PUT, NULL, &player->regions[0]);
	if (!error)
		error = thole_expose(endpoint, player->get, TRAFFIC_READ, THOLE_ACCESS_GET, TRAFFIC_KEY_GET, NULL,
				     &player->regions[1]);
	if (!error)
		error = thole_expose(endpoint, player->cells, sizeof(player->cells),
				     THOLE_ACCESS_PUT | THOLE_ACCESS_GET | THOLE_ACCESS_ATOMIC, TRAFFIC_KEY_ATOMIC,
				     NULL, &player->regions[2]);
	if (error)
		world_fail(player->traffic->world, "process %u cannot expose memory", index);
}

struct process *traffic_start(struct traffic *traffic, struct host *host, const struct process_setup *setup)
{
	uint32_t index = traffic->process_count++;
	struct player *player = sim_alloc(sizeof(*player));
	struct process *process;

	process = process_new(traffic->network, host, index,
			      setup->port ? setup->port : (uint16_t)(PORT_FIRST + 2 * (index % PORTS)), setup);
	if ((index & (index - 1)) == 0)
		traffic->processes =
			sim_grow(traffic->processes, 2 * ((size_t)index + 1) * sizeof(*traffic->processes));
	traffic->processes[index] = process;
	process->state_of_application = player;
	player->traffic = traffic;
	player->process = process;
	list_init(&player->open);
	if (traffic->plan.remote)
		player_expose(player);
	if (traffic->plan.gap_ns) {
		process->act_ns =
			traffic->world->now_ns + dice_below(&traffic->world->traffic, traffic->plan.gap_ns) + 1;
		process_wake(process, process->act_ns);
	}
	return process;
}

void traffic_init(struct traffic *traffic, struct network *network)
{
	*traffic = (struct traffic){.world = network->world, .network = network};
	/* Number 0 names no operation: a tag of 0 is none. */
	traffic->ops = sim_grow(NULL, 2 * sizeof(struct op *));
	traffic->ops[0] = sim_alloc(sizeof(struct op));
	traffic->ops[0]->kind = OP_RECEIVE;
	traffic->op_count = 1;
}

void traffic_fini(struct traffic *traffic)
{
	for (uint32_t i = 0; i < traffic->process_count; i++) {
		struct player *player = player_of(traffic->processes[i]);

		process_free(traffic->processes[i]);
		free(player->put);
		free(player->get);
		free(player);
	}
	for (uint64_t i = 0; i < traffic->op_count; i++) {
		free(traffic->ops[i]->buffer);
		free(traffic->ops[i]);
	}
	free(traffic->processes);
	free(traffic->ops);
}

/* ---- Plans ---------------------------------------------------------------------------------------------- */

void traffic_plan_random(struct traffic_plan *plan, struct dice *dice)
{
	static const uint64_t lengths[] = {64, 2000, 40000, 200000, 1000000};

	*plan = (struct traffic_plan){
		.gap_ns = dice_scale(dice, 2 * MICROSECOND, 2000 * MICROSECOND),
		.length_max = lengths[dice_below(dice, 5)],
		.large = (uint32_t)dice_below(dice, 500000),
		.tags = (uint32_t)dice_between(dice, 1, 8),
		.receives_max = (uint32_t)dice_between(dice, 1, 32),
		.sends_max = (uint32_t)dice_between(dice, 1, 64),
		.receive = (uint32_t)dice_between(dice, 200000, 500000),
		.remote = dice_below(dice, 2) ? (uint32_t)dice_below(dice, 300000) : 0,
		.probe = (uint32_t)dice_below(dice, 100000),
		.cancel = (uint32_t)dice_below(dice, 50000),
		.connect = dice_below(dice, 2) ? (uint32_t)dice_below(dice, 100000) : 0,
		.any = (uint32_t)dice_below(dice, 1000000),
		.wild = (uint32_t)dice_below(dice, 500000),
		.plain = dice_below(dice, 2) ? (uint32_t)dice_below(dice, 500000) : 0,
		.sync = (uint32_t)dice_below(dice, 300000),
		.inject = (uint32_t)dice_below(dice, 300000),
		.imm = (uint32_t)dice_below(dice, 500000),
		.handle = (uint32_t)dice_below(dice, 1000000),
		.vector = (uint32_t)dice_below(dice, 500000),
		.shorter = (uint32_t)dice_below(dice, 200000),
		.screen = dice_below(dice, 3) ? 0 : (uint32_t)dice_below(dice, 500000),
	};
}
