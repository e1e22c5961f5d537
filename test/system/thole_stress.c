/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thole_stress: everything at once, from one seed, with every byte checked.
 *
 *   thole_stress [--ranks N] [--threads N] [--in-process] [--seconds S] [--seed X] [--rounds N] [--options LIST]
 *                [--hosts N]
 *
 * A round opens endpoints with random options. Each rank sends a plan of messages to each other rank (and itself): the
 * plan follows from (seed, round, source, destination, number), so that the receiver knows what must be in the message
 * whose number its immediate data carries. Receives are of all kinds; whatever they got is checked for its bytes, for
 * bytes around it, and at the end of the round for MPI's matching order: of two messages from one source, a receive
 * that accepts both and got the later one was posted after the one that got the earlier. Puts, gets and atomics run
 * beside. With --hosts ranks are told that they are on so many hosts, and talk over the network between these. At the
 * end nothing may be lost, and nothing left: counters, descriptors, messages.
 */
#include <getopt.h>

#include "ranks.h"

enum {
	TAGS = 4,              /* tags 0 to 3, and the queue of plain messages as 4 */
	CLASSES = TAGS + 1,
	MESSAGES_MAX = 600,    /* of one source to one destination in a round */
	SENDS_MAX = 24,        /* under way of one worker */
	RECEIVES_MAX = 24,
	SEGMENTS = 400,
	GUARD = 64,
	LARGE = 3 << 20,
	SLOT = 1 << 18,        /* bytes of a rank's region that belong to one source */
	CELLS = 32,            /* shared counters in each region */
	KEY_SLOTS = 11, KEY_CELLS, KEY_READ_ONLY, KEY_NONE,
	MULTI_BYTES = 200000,
	OPTION_STRINGS = 24,
};

static struct {
	int ranks, threads, hosts;
	bool in_process;
	double seconds;
	uint64_t seed;
	int rounds;
	const char *options;
} config = {.ranks = 3, .threads = 0, .seconds = 3, .seed = 0, .rounds = 0};

/* What all ranks know of a round. */
struct board {
	uint32_t go_on;
	uint32_t counts[RANKS_MAX][RANKS_MAX];               /* messages planned */
	uint32_t cancelled[RANKS_MAX][RANKS_MAX];            /* of those */
	uint8_t is_cancelled[RANKS_MAX][RANKS_MAX][MESSAGES_MAX];
	uint64_t added[RANKS_MAX][CELLS];                    /* to each rank's cells, by all */
	uint32_t notices[RANKS_MAX];                         /* puts with immediate data that were completed */
};

static struct board *board;

/* ---- Plans --------------------------------------------------------------------------------------- */

struct plan {
	uint64_t id;
	uint64_t length;
	uint32_t segments;
	uint8_t class; /* tag, or TAGS for plain */
	unsigned flags;
};

static uint64_t mix(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t state = a * UINT64_C(0x9e3779b97f4a7c15) ^ b;

	state = random_next(&state) ^ c;
	return random_next(&state);
}

static uint64_t random_length(uint64_t *random)
{
	static const uint64_t borders[] = {0, 8, 40, 64, 1024, 4096, 8192, 16384, 65536, 131072, 524288};
	uint32_t kind = random_below(random, 100);

	if (kind < 30)
		return random_below(random, 65);
	if (kind < 55)
		return random_below(random, 5000);
	if (kind < 80) {
		uint64_t border = borders[random_below(random, sizeof(borders) / sizeof(borders[0]))];
		uint64_t near = border + random_below(random, 5);

		return near < 2 ? 0 : near - 2;
	}
	return kind < 96 ? random_below(random, 200000) : random_below(random, LARGE);
}

static struct plan plan_of(uint64_t round, int from, int to, uint32_t number)
{
	uint64_t random = mix(config.seed ^ round << 32, (uint64_t)from << 32 | (uint64_t)to, number);
	struct plan plan = {.id = random_next(&random)};

	plan.length = random_length(&random);
	plan.class = (uint8_t)random_below(&random, CLASSES);
	plan.segments = 1;
	if (random_below(&random, 3) == 0)
		plan.segments += random_below(&random, random_below(&random, 4) ? 6 : SEGMENTS);
	plan.flags = THOLE_IMM | (plan.class == TAGS ? THOLE_PLAIN : 0u);
	if (random_below(&random, 5) == 0)
		plan.flags |= THOLE_SYNC;
	if (random_below(&random, 5) == 0)
		plan.flags |= THOLE_INJECT;
	if (random_below(&random, 5) == 0)
		plan.flags |= THOLE_ARRIVED;
	return plan;
}

/* ---- Buffers: segments with guards between ---------------------------------------------------------- */

struct buffer {
	uint8_t *memory;
	size_t size;          /* with guards */
	struct iovec *segments;
	uint32_t count;
	uint64_t length;
	struct thole_layout layout; /* the same bytes, */
	uint64_t at;                /* of which so many were packed or unpacked */
};

/* Copy the next bytes out of the segments, or into them. */
static void buffer_move(struct buffer *buffer, uint64_t offset, uint8_t *other, size_t length, bool out)
{
	CHECK_EQUAL(offset, buffer->at);
	CHECK(length > 0 && length <= buffer->length - offset);
	buffer->at += length;
	for (uint32_t i = 0; length > 0; offset -= buffer->segments[i++].iov_len) {
		size_t size = buffer->segments[i].iov_len, piece;

		if (offset >= size)
			continue;
		piece = size - offset < length ? size - offset : length;
		memcpy(out ? other : (uint8_t *)buffer->segments[i].iov_base + offset,
		       out ? (uint8_t *)buffer->segments[i].iov_base + offset : other, piece);
		offset += piece;
		other += piece;
		length -= piece;
	}
}

static void buffer_pack(void *buffer, uint64_t offset, void *to, size_t length)
{
	buffer_move(buffer, offset, to, length, true);
}

static void buffer_unpack(void *buffer, uint64_t offset, const void *from, size_t length)
{
	buffer_move(buffer, offset, (uint8_t *)(uintptr_t)from, length, false);
}

static void buffer_make(struct buffer *buffer, uint64_t length, uint32_t count, uint64_t *random)
{
	uint64_t left = length;
	void *shared = NULL;
	uint8_t *at;

	buffer->count = count;
	buffer->length = length;
	buffer->size = length + (count + 1) * GUARD;
	buffer->layout = (struct thole_layout){buffer_pack, buffer_unpack, buffer, length};
	buffer->at = 0;
	if (random_next(random) % 2)
		CHECK_EQUAL(thole_alloc(buffer->size, &shared), 0);
	buffer->memory = shared ? shared : malloc(buffer->size);
	buffer->segments = calloc(count, sizeof(struct iovec));
	CHECK(buffer->memory && buffer->segments);
	memset(buffer->memory, 0xa5, buffer->size);
	at = buffer->memory + GUARD;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t piece = i + 1 == count ? left : random_next(random) % (2 * (left / (count - i)) + 1);

		if (piece > left)
			piece = left;
		buffer->segments[i] = (struct iovec){at, piece};
		at += piece + GUARD;
		left -= piece;
	}
}

static void buffer_free(struct buffer *buffer)
{
	memset(buffer->memory, 0x5a, buffer->length < 4096 ? buffer->size : 4096); /* late readers would send this */
	thole_free(buffer->memory);
	free(buffer->segments);
	buffer->memory = NULL;
}

static void buffer_fill(const struct buffer *buffer, uint64_t id)
{
	uint64_t offset = 0;

	for (uint32_t i = 0; i < buffer->count; offset += buffer->segments[i++].iov_len)
		ranks_fill(id, offset, buffer->segments[i].iov_base, buffer->segments[i].iov_len);
}

/* The first `length` bytes are those of message id, the rest and the guards are as they were. */
static void buffer_check(const struct buffer *buffer, uint64_t id, uint64_t length)
{
	const uint8_t *at = buffer->memory;
	uint64_t offset = 0;

	for (uint32_t i = 0; i <= buffer->count; i++) {
		const uint8_t *end = i < buffer->count ? buffer->segments[i].iov_base : buffer->memory + buffer->size;
		uint64_t here = i < buffer->count ? buffer->segments[i].iov_len : 0;
		uint64_t filled = offset >= length ? 0 : here < length - offset ? here : length - offset;

		for (; at < end; at++)
			CHECK_EQUAL(*at, 0xa5);
		if (i == buffer->count)
			break;
		CHECK_EQUAL(ranks_compare(id, offset, at, filled), filled);
		for (uint64_t k = filled; k < here; k++)
			CHECK_EQUAL(at[k], 0xa5);
		at += here;
		offset += here;
	}
}

/* ---- A rank --------------------------------------------------------------------------------------- */

enum op_kind { OP_SEND, OP_RECEIVE, OP_MULTI, OP_NEVER, OP_PUT, OP_GET, OP_ATOMIC, OP_WRONG };

struct op {
	enum op_kind kind;
	struct worker *worker;       /* that has its handle, and counts it */
	struct thole_request *request;
	struct op *next;
	struct buffer buffer;
	uint64_t posted;             /* receives: when */
	uint32_t accepts;            /* classes it takes, a bit each */
	int peer;                    /* rank, or -1 for any */
	uint32_t number;             /* sends */
	bool cancelling;
	uint64_t offset, id;         /* put, get */
	uint64_t operand, result;    /* atomic */
	int expected;                /* wrong: the status */
};

struct got {
	uint64_t posted;   /* 0: not yet */
	uint32_t accepts;
};

struct worker {
	struct rank *rank;
	pthread_t thread;
	int number;
	uint64_t random;
	struct op *sends, *receives, *others;
	uint32_t sending, receiving;
	bool remote_busy;       /* one put or get at a time */
	uint64_t slot_id;       /* what the worker's part of its slot at remote_target holds; */
	uint64_t slot_at, slot_length;
	int remote_target;
	uint32_t idle;
};

struct rank {
	int self;
	uint64_t round;
	struct thole_endpoint *endpoint;
	uint32_t peers[RANKS_MAX];
	pthread_mutex_t lock;      /* protects all below and the ops' lists' counts */
	pthread_mutex_t send_lock; /* numbers leave in order */
	pthread_mutex_t post_lock; /* receives are posted in order */
	pthread_mutex_t poll_lock; /* completions without handle are handled in order */
	uint32_t next_number[RANKS_MAX];
	uint64_t posts;
	struct got got[RANKS_MAX][MESSAGES_MAX];
	uint32_t received[RANKS_MAX];
	uint32_t notices;
	uint32_t multis;           /* buffers out */
	struct op *multi;
	struct op *loose;          /* receives without a handle; by poll_lock */
	uint32_t errors;           /* provoked at peers */
	uint8_t *slots;
	uint64_t *cells;
	uint32_t workers_done;
};

static bool threaded(void)
{
	return config.threads > 1;
}

/* ---- Completions ---------------------------------------------------------------------------------- */

static uint32_t rank_of_peer(const struct rank *rank, uint32_t peer)
{
	for (uint32_t i = 0; i < (uint32_t)config.ranks; i++)
		if (rank->peers[i] == peer)
			return i;
	CHECK(false && "a completion names no peer of ours");
	return 0;
}

/* A message was delivered: is it one that was sent, as it was sent, and for the first time? */
static struct plan message_account(struct rank *rank, const struct thole_completion *completion, uint64_t posted,
				   uint32_t accepts)
{
	uint32_t from = rank_of_peer(rank, completion->peer), number = (uint32_t)completion->imm;
	struct plan plan;

	CHECK(completion->flags & THOLE_IMM);
	CHECK(number < board->counts[from][rank->self]);
	plan = plan_of(rank->round, (int)from, rank->self, number);
	CHECK_EQUAL(completion->message_length, plan.length);
	if (plan.class < TAGS)
		CHECK_EQUAL(completion->tag, plan.class);
	CHECK(accepts >> plan.class & 1);
	pthread_mutex_lock(&rank->lock);
	CHECK_EQUAL(rank->got[from][number].posted, 0);
	rank->got[from][number] = (struct got){posted, accepts};
	rank->received[from]++;
	pthread_mutex_unlock(&rank->lock);
	return plan;
}

static void op_unlink(struct op **list, struct op *op)
{
	while (*list != op)
		list = &(*list)->next;
	*list = op->next;
}

static void complete_send(struct op *op, const struct thole_completion *completion)
{
	struct rank *rank = op->worker->rank;

	CHECK_EQUAL(completion->operation, THOLE_OP_SEND);
	CHECK_EQUAL(completion->peer, rank->peers[op->peer]);
	if (completion->status == THOLE_ERR_CANCELED) {
		CHECK(op->cancelling);
		board->is_cancelled[rank->self][op->peer][op->number] = 1;
		__atomic_add_fetch(&board->cancelled[rank->self][op->peer], 1, __ATOMIC_ACQ_REL);
	} else {
		CHECK_EQUAL(completion->status, 0);
	}
	pthread_mutex_lock(&rank->lock);
	op->worker->sending--;
	pthread_mutex_unlock(&rank->lock);
}

static void complete_receive(struct op *op, const struct thole_completion *completion)
{
	struct rank *rank = op->worker->rank;

	CHECK_EQUAL(completion->operation, THOLE_OP_RECEIVE);
	if (completion->status == THOLE_ERR_CANCELED) {
		CHECK(op->cancelling);
		buffer_check(&op->buffer, 0, 0);
	} else {
		struct plan plan = message_account(rank, completion, op->posted, op->accepts);
		uint64_t fits = plan.length < op->buffer.length ? plan.length : op->buffer.length;

		CHECK(op->kind != OP_NEVER);
		CHECK(op->peer < 0 || rank->peers[op->peer] == completion->peer);
		CHECK_EQUAL(completion->status, plan.length > op->buffer.length ? THOLE_ERR_TRUNCATED : 0);
		CHECK_EQUAL(completion->length, fits);
		buffer_check(&op->buffer, plan.id, fits);
	}
	if (!op->request)
		op_unlink(&rank->loose, op);
	pthread_mutex_lock(&rank->lock);
	op->worker->receiving--;
	pthread_mutex_unlock(&rank->lock);
}

/* One part of a buffer for many messages; true with the last. Parts are posted in the order of their places. */
static bool complete_multi(struct op *op, const struct thole_completion *completion)
{
	struct rank *rank = op->worker->rank;
	uint64_t at = (uint64_t)((uint8_t *)completion->buffer - op->buffer.memory) - GUARD;

	if (completion->status == THOLE_ERR_CANCELED) {
		CHECK(op->cancelling);
	} else {
		struct plan plan = message_account(rank, completion, op->posted + at, op->accepts);

		CHECK(completion->flags & THOLE_MULTI);
		CHECK(at + completion->length <= op->buffer.length);
		CHECK_EQUAL(completion->status, completion->length < plan.length ? THOLE_ERR_TRUNCATED : 0);
		CHECK_EQUAL(ranks_compare(plan.id, 0, completion->buffer, completion->length), completion->length);
	}
	if (!(completion->flags & THOLE_MULTI_END))
		return false;
	pthread_mutex_lock(&rank->lock);
	rank->multis--;
	if (rank->multi == op)
		rank->multi = NULL;
	pthread_mutex_unlock(&rank->lock);
	return true;
}

static void complete_remote(struct op *op, const struct thole_completion *completion)
{
	struct worker *worker = op->worker;

	CHECK_EQUAL(completion->status, op->expected);
	if (op->kind == OP_GET && completion->status == 0)
		buffer_check(&op->buffer, op->id, op->buffer.length);
	if (op->kind == OP_PUT && (completion->flags & THOLE_IMM))
		__atomic_add_fetch(&board->notices[op->peer], 1, __ATOMIC_ACQ_REL);
	if (op->kind == OP_ATOMIC && completion->operation == THOLE_OP_ATOMIC_FETCH)
		CHECK(op->result <= __atomic_load_n(&board->added[op->peer][op->offset / 8], __ATOMIC_ACQUIRE));
	pthread_mutex_lock(&worker->rank->lock);
	worker->remote_busy = false;
	pthread_mutex_unlock(&worker->rank->lock);
}

static void handle(struct rank *rank, const struct thole_completion *completion)
{
	struct op *op = completion->context;

	if (completion->operation == THOLE_OP_REMOTE_PUT) {
		CHECK_EQUAL(completion->imm, 77);
		__atomic_add_fetch(&rank->notices, 1, __ATOMIC_ACQ_REL);
		return;
	}
	switch (op->kind) {
	case OP_SEND:
		complete_send(op, completion);
		break;
	case OP_RECEIVE:
	case OP_NEVER:
		complete_receive(op, completion);
		break;
	case OP_MULTI:
		if (!complete_multi(op, completion))
			return;
		break;
	default:
		complete_remote(op, completion);
	}
	buffer_free(&op->buffer);
	free(op);
}

static void poll_all(struct rank *rank)
{
	struct thole_completion completions[8];
	int n;

	if (pthread_mutex_trylock(&rank->poll_lock) != 0)
		return;
	n = thole_poll(rank->endpoint, completions, 8);
	for (int i = 0; i < n; i++)
		handle(rank, &completions[i]);
	pthread_mutex_unlock(&rank->poll_lock);
}

/* Test the worker's handles in one of the ways there are. */
static void collect(struct worker *worker, struct op **list)
{
	struct rank *rank = worker->rank;
	struct thole_completion completion;
	struct op *op = *list;
	uint32_t way = random_below(&worker->random, 8);

	if (!op)
		return;
	if (way == 0) {
		struct thole_request *requests[SENDS_MAX + RECEIVES_MAX] = {NULL};
		struct op *ops[SENDS_MAX + RECEIVES_MAX];
		size_t count = 0, index;

		for (; op && count < SENDS_MAX + RECEIVES_MAX; op = op->next, count++) {
			requests[count] = op->request;
			ops[count] = op;
		}
		if (thole_wait_any(rank->endpoint, requests, count, (int64_t)random_below(&worker->random, 60000),
				   &index, &completion) != 0)
			return;
		CHECK(requests[index] == NULL);
		op = ops[index];
	} else if (way == 1) {
		int error = thole_wait(rank->endpoint, op->request, (int64_t)random_below(&worker->random, 60000),
				       &completion);

		CHECK(error == 0 || error == THOLE_ERR_TIMEOUT);
		if (error)
			return;
	} else if (way == 2 && !threaded()) {
		struct thole_request *request;

		if (!thole_peek(rank->endpoint, &request))
			return;
		CHECK_EQUAL(thole_test(rank->endpoint, request, &completion), 1);
		op = completion.context;
		CHECK(op->request == request);
		list = op->kind == OP_SEND			     ? &worker->sends
		       : op->kind == OP_RECEIVE || op->kind == OP_NEVER ? &worker->receives
								     : &worker->others;
	} else {
		for (; op; op = op->next)
			if (thole_test(rank->endpoint, op->request, &completion))
				break;
		if (!op)
			return;
	}
	CHECK(completion.context == op);
	op_unlink(list, op);
	worker->idle = 0;
	handle(rank, &completion);
}

/* ---- Starting operations --------------------------------------------------------------------------- */

static struct op *op_new(struct worker *worker, enum op_kind kind)
{
	struct op *op = calloc(1, sizeof(*op));

	CHECK(op);
	op->kind = kind;
	op->worker = worker;
	return op;
}

/* A third of all operations has no handle. */
static struct thole_request **op_handle(struct worker *worker, struct op *op)
{
	return random_below(&worker->random, 3) ? &op->request : NULL;
}

static void op_keep(struct op **list, struct op *op, struct thole_request **handle_p)
{
	if (!handle_p) /* it may be complete and gone */
		return;
	op->next = *list;
	*list = op;
}

static void start_send(struct worker *worker)
{
	struct rank *rank = worker->rank;
	int to = (int)random_below(&worker->random, (uint64_t)config.ranks), error;
	struct thole_request **handle_p;
	struct plan plan;
	struct op *op;
	bool laid_out;

	pthread_mutex_lock(&rank->send_lock);
	if (rank->next_number[to] == board->counts[rank->self][to]) {
		pthread_mutex_unlock(&rank->send_lock);
		return;
	}
	op = op_new(worker, OP_SEND);
	op->peer = to;
	op->number = rank->next_number[to]++;
	plan = plan_of(rank->round, rank->self, to, op->number);
	buffer_make(&op->buffer, plan.length, plan.segments, &worker->random);
	buffer_fill(&op->buffer, plan.id);
	handle_p = op_handle(worker, op);
	pthread_mutex_lock(&rank->lock);
	worker->sending++;
	pthread_mutex_unlock(&rank->lock);
	laid_out = plan.segments > 1 && random_below(&worker->random, 2);
	while ((error = laid_out ? thole_send_layout(rank->endpoint, rank->peers[to], &op->buffer.layout, plan.class,
						     op->number, plan.flags, op, handle_p)
			: plan.segments == 1
				? thole_send(rank->endpoint, rank->peers[to], op->buffer.segments->iov_base,
					     plan.length, plan.class, op->number, plan.flags, op, handle_p)
				: thole_sendv(rank->endpoint, rank->peers[to], op->buffer.segments, plan.segments,
					      plan.class, op->number, plan.flags, op, handle_p)) == THOLE_ERR_AGAIN)
		thole_progress(rank->endpoint);
	CHECK_EQUAL(error, 0);
	if (handle_p && (plan.flags & THOLE_INJECT)) /* ours again */
		for (uint32_t i = 0; i < op->buffer.count; i++)
			memset(op->buffer.segments[i].iov_base, 0xdd, op->buffer.segments[i].iov_len);
	if (handle_p && random_below(&worker->random, 20) == 0) {
		op->cancelling = true;
		thole_cancel(rank->endpoint, op->request);
	}
	op_keep(&worker->sends, op, handle_p);
	pthread_mutex_unlock(&rank->send_lock);
}

struct wanted {
	int from;
	uint32_t peer;
	uint64_t tag, mask;
	unsigned flags;
	uint32_t accepts;
};

static struct wanted want(struct worker *worker)
{
	struct wanted wanted = {.from = (int)random_below(&worker->random, (uint64_t)config.ranks)};
	uint32_t kind = random_below(&worker->random, 10);

	if (random_below(&worker->random, 3) == 0 || worker->idle > 200)
		wanted.from = -1;
	wanted.peer = wanted.from < 0 ? THOLE_ANY : worker->rank->peers[wanted.from];
	wanted.tag = random_below(&worker->random, TAGS);
	if (kind < 2) {
		wanted.flags = THOLE_PLAIN;
		wanted.accepts = 1 << TAGS;
	} else if (kind < 5) {
		wanted.accepts = (1 << TAGS) - 1; /* any tag */
	} else if (kind == 5) {
		wanted.mask = ~UINT64_C(1); /* a pair of tags */
		wanted.accepts = 3u << (wanted.tag & ~UINT64_C(1));
	} else {
		wanted.mask = ~UINT64_C(0);
		wanted.accepts = 1u << wanted.tag;
	}
	return wanted;
}

static uint64_t post_number(struct rank *rank)
{
	return ++rank->posts << 24; /* below are the places in a buffer for many */
}

static void start_receive(struct worker *worker)
{
	struct rank *rank = worker->rank;
	struct wanted wanted = want(worker);
	struct op *op = op_new(worker, random_below(&worker->random, 20) ? OP_RECEIVE : OP_NEVER);
	uint64_t length = random_below(&worker->random, 4) ? random_length(&worker->random) : LARGE;
	uint32_t count = random_below(&worker->random, 3) ? 1 : 1 + random_below(&worker->random, SEGMENTS);
	struct thole_request **handle_p = op_handle(worker, op);
	bool laid_out = count > 1 && random_below(&worker->random, 2);

	buffer_make(&op->buffer, length, count, &worker->random);
	op->peer = wanted.from;
	op->accepts = wanted.accepts;
	if (op->kind == OP_NEVER) {
		wanted.tag = 1000;
		wanted.mask = ~UINT64_C(0);
		wanted.flags = 0;
		handle_p = &op->request;
	}
	pthread_mutex_lock(&rank->lock);
	worker->receiving++;
	pthread_mutex_unlock(&rank->lock);
	if (!handle_p) { /* completions of such are handled under poll_lock */
		pthread_mutex_lock(&rank->poll_lock);
		op->next = rank->loose;
		rank->loose = op;
	}
	pthread_mutex_lock(&rank->post_lock);
	op->posted = post_number(rank);
	CHECK_EQUAL(laid_out ? thole_recv_layout(rank->endpoint, wanted.peer, &op->buffer.layout, wanted.tag,
						 wanted.mask, wanted.flags, op, handle_p)
		    : count == 1 ? thole_recv(rank->endpoint, wanted.peer, op->buffer.segments->iov_base, length,
					      wanted.tag, wanted.mask, wanted.flags, op, handle_p)
				 : thole_recvv(rank->endpoint, wanted.peer, op->buffer.segments, count, wanted.tag,
					     wanted.mask, wanted.flags, op, handle_p),
		    0);
	pthread_mutex_unlock(&rank->post_lock);
	if (!handle_p)
		pthread_mutex_unlock(&rank->poll_lock);
	op_keep(&worker->receives, op, handle_p);
	if (handle_p && (op->kind == OP_NEVER || random_below(&worker->random, 10) == 0)) {
		op->cancelling = true;
		CHECK(thole_cancel(rank->endpoint, op->request) || op->kind != OP_NEVER);
	}
}

static void start_multi(struct worker *worker)
{
	struct rank *rank = worker->rank;
	struct wanted wanted = want(worker);
	struct op *op;

	pthread_mutex_lock(&rank->lock);
	if (rank->multis > 0) {
		pthread_mutex_unlock(&rank->lock);
		return;
	}
	rank->multis++;
	op = op_new(worker, OP_MULTI);
	rank->multi = op;
	pthread_mutex_unlock(&rank->lock);
	buffer_make(&op->buffer, MULTI_BYTES, 1, &worker->random);
	op->accepts = wanted.accepts;
	pthread_mutex_lock(&rank->post_lock);
	op->posted = post_number(rank);
	CHECK_EQUAL(thole_recv(rank->endpoint, wanted.peer, op->buffer.segments->iov_base, MULTI_BYTES, wanted.tag,
			       wanted.mask, wanted.flags | THOLE_MULTI, op, NULL),
		    0);
	pthread_mutex_unlock(&rank->post_lock);
}

/* Receives that have no handle. */
static void cancel_loose(struct rank *rank)
{
	struct op *op;

	/* Its completions are handled under this lock, so it is there while we cancel. */
	pthread_mutex_lock(&rank->poll_lock);
	pthread_mutex_lock(&rank->lock);
	op = rank->multi;
	if (op)
		op->cancelling = true;
	pthread_mutex_unlock(&rank->lock);
	for (struct op *loose = rank->loose; loose; loose = loose->next) {
		loose->cancelling = true;
		thole_cancel_context(rank->endpoint, loose);
	}
	if (op)
		thole_cancel_context(rank->endpoint, op);
	pthread_mutex_unlock(&rank->poll_lock);
}

static void start_probe(struct worker *worker)
{
	struct rank *rank = worker->rank;
	struct wanted wanted = want(worker);
	struct thole_completion found;
	struct thole_message *message;
	struct op *op;
	uint64_t posted;
	int way = (int)random_below(&worker->random, 8);

	pthread_mutex_lock(&rank->post_lock);
	posted = post_number(rank);
	if (way == 0 && !thole_probe(rank->endpoint, wanted.peer, wanted.tag, wanted.mask, wanted.flags | THOLE_DISCARD,
				     &found))
		way = -1;
	else if (way == 1 && !thole_probe(rank->endpoint, wanted.peer, wanted.tag, wanted.mask, wanted.flags, &found))
		way = -1;
	else if (way > 1 && !thole_message_probe(rank->endpoint, wanted.peer, wanted.tag, wanted.mask, wanted.flags,
						 &found, &message))
		way = -1;
	pthread_mutex_unlock(&rank->post_lock);
	if (way < 0 || way == 1)
		return;
	worker->idle = 0;
	if (way == 0) {
		message_account(rank, &found, posted, wanted.accepts);
		return;
	}
	if (way == 2) {
		message_account(rank, &found, posted, wanted.accepts);
		CHECK_EQUAL(thole_message_drop(rank->endpoint, message), 0);
		return;
	}
	op = op_new(worker, OP_RECEIVE);
	op->posted = posted;
	op->peer = wanted.from;
	op->accepts = wanted.accepts;
	buffer_make(&op->buffer, way == 3 ? found.message_length / 2 : found.message_length,
		    1 + random_below(&worker->random, 5), &worker->random);
	pthread_mutex_lock(&rank->lock);
	worker->receiving++;
	pthread_mutex_unlock(&rank->lock);
	CHECK_EQUAL(thole_message_recv(rank->endpoint, message, op->buffer.segments, op->buffer.count, 0, op,
				       &op->request),
		    0);
	op_keep(&worker->receives, op, &op->request);
}

/* An operation on a peer's region: where the bound sends_max is reached, progress and try again. */
#define START(rank, call)                                                                          \
	do {                                                                                       \
		int start_error;                                                                   \
												   \
		while ((start_error = (call)) == THOLE_ERR_AGAIN)                                  \
			thole_progress((rank)->endpoint);                                          \
		CHECK_EQUAL(start_error, 0);                                                       \
	} while (0)

/* One operation on a peer's region at a time: whoever polls for this rank ends the one before. */
static bool remote_claim(struct worker *worker)
{
	bool idle;

	pthread_mutex_lock(&worker->rank->lock);
	idle = !worker->remote_busy;
	worker->remote_busy = true;
	pthread_mutex_unlock(&worker->rank->lock);
	return idle;
}

/* Put something into this worker's part of its slot at a peer, and get it back later. */
static void start_remote(struct worker *worker)
{
	struct rank *rank = worker->rank;
	uint64_t part = SLOT / (uint64_t)(config.threads > 0 ? config.threads : 1);
	uint64_t base = (uint64_t)rank->self * SLOT + part * (uint64_t)worker->number;
	struct thole_request **handle_p;
	struct op *op;

	if (!remote_claim(worker))
		return;
	op = op_new(worker, worker->slot_length ? OP_GET : OP_PUT);
	handle_p = op_handle(worker, op);
	if (op->kind == OP_PUT) {
		unsigned flags = (random_below(&worker->random, 2) ? THOLE_IMM : 0u) |
				 (random_below(&worker->random, 3) ? 0u : THOLE_INJECT);

		worker->remote_target = (int)random_below(&worker->random, (uint64_t)config.ranks);
		worker->slot_length = 1 + random_length(&worker->random) % part;
		worker->slot_at = base + random_below(&worker->random, part - worker->slot_length + 1);
		worker->slot_id = random_next(&worker->random);
		op->peer = worker->remote_target;
		buffer_make(&op->buffer, worker->slot_length, 1 + random_below(&worker->random, 8), &worker->random);
		buffer_fill(&op->buffer, worker->slot_id);
		START(rank, thole_put(rank->endpoint, rank->peers[op->peer], op->buffer.segments, op->buffer.count,
				      KEY_SLOTS, worker->slot_at, 77, flags, op, handle_p));
	} else {
		op->peer = worker->remote_target;
		op->id = worker->slot_id;
		buffer_make(&op->buffer, worker->slot_length, 1 + random_below(&worker->random, 8), &worker->random);
		worker->slot_length = 0;
		START(rank, thole_get(rank->endpoint, rank->peers[op->peer], op->buffer.segments, op->buffer.count,
				      KEY_SLOTS, worker->slot_at, 0, op, handle_p));
	}
	op_keep(&worker->others, op, handle_p);
}

static void start_atomic(struct worker *worker)
{
	struct rank *rank = worker->rank;
	struct thole_request **handle_p;
	struct op *op;

	if (!remote_claim(worker))
		return;
	op = op_new(worker, OP_ATOMIC);
	op->peer = (int)random_below(&worker->random, (uint64_t)config.ranks);
	op->offset = 8 * random_below(&worker->random, CELLS);
	op->operand = random_below(&worker->random, 1000);
	handle_p = op_handle(worker, op);
	buffer_make(&op->buffer, 0, 1, &worker->random);
	__atomic_add_fetch(&board->added[op->peer][op->offset / 8], op->operand, __ATOMIC_ACQ_REL);
	START(rank, thole_atomic(rank->endpoint, rank->peers[op->peer],
				 &(struct thole_atomic){.op = THOLE_SUM, .type = THOLE_UINT64, .count = 1,
							.operand = &op->operand, .key = KEY_CELLS, .offset = op->offset,
							.result = random_below(&worker->random, 2) ? &op->result
												   : NULL},
				 0, op, handle_p));
	op_keep(&worker->others, op, handle_p);
}

/* Accesses that must be refused, and change nothing. */
static void start_wrong(struct worker *worker)
{
	struct rank *rank = worker->rank;
	uint64_t size = (uint64_t)config.ranks * SLOT, key = KEY_SLOTS, offset = size - 1;
	struct op *op;
	int kind = (int)random_below(&worker->random, 3);

	if (!remote_claim(worker))
		return;
	op = op_new(worker, OP_WRONG);
	op->peer = (int)random_below(&worker->random, (uint64_t)config.ranks);
	op->expected = kind == 0 ? THOLE_ERR_RANGE : kind == 1 ? THOLE_ERR_KEY : THOLE_ERR_ACCESS;
	if (kind == 1)
		key = KEY_NONE;
	if (kind == 2)
		key = KEY_READ_ONLY, offset = 0;
	buffer_make(&op->buffer, 2 + random_length(&worker->random), 1 + random_below(&worker->random, 3),
		    &worker->random);
	__atomic_add_fetch(&rank->errors, 1, __ATOMIC_ACQ_REL);
	START(rank, kind < 2 && random_below(&worker->random, 2)
			    ? thole_get(rank->endpoint, rank->peers[op->peer], op->buffer.segments, op->buffer.count,
					key, offset, 0, op, &op->request)
			    : thole_put(rank->endpoint, rank->peers[op->peer], op->buffer.segments, op->buffer.count,
					key, offset, 0, 0, op, &op->request));
	op_keep(&worker->others, op, &op->request);
}

/* ---- A round -------------------------------------------------------------------------------------- */

static bool all_sent(struct rank *rank)
{
	bool sent = true;

	pthread_mutex_lock(&rank->send_lock);
	for (int to = 0; to < config.ranks; to++)
		sent = sent && rank->next_number[to] == board->counts[rank->self][to];
	pthread_mutex_unlock(&rank->send_lock);
	return sent;
}

static bool all_received(struct rank *rank)
{
	bool received = true;

	pthread_mutex_lock(&rank->lock);
	for (int from = 0; from < config.ranks; from++)
		received = received && rank->received[from] + __atomic_load_n(&board->cancelled[from][rank->self],
									      __ATOMIC_ACQUIRE) ==
					       board->counts[from][rank->self];
	pthread_mutex_unlock(&rank->lock);
	return received;
}

static void cancel_receives(struct worker *worker)
{
	for (struct op *op = worker->receives; op; op = op->next) {
		op->cancelling = true;
		thole_cancel(worker->rank->endpoint, op->request);
	}
}

static void worker_step(struct worker *worker, bool receive)
{
	struct rank *rank = worker->rank;
	uint32_t choice = random_below(&worker->random, 100), sending, receiving;

	pthread_mutex_lock(&rank->lock);
	sending = worker->sending;
	receiving = worker->receiving;
	pthread_mutex_unlock(&rank->lock);
	if (choice < 30 && sending < SENDS_MAX)
		start_send(worker);
	else if (choice < 55 && receive && receiving < RECEIVES_MAX)
		start_receive(worker);
	else if (choice < 57 && receive)
		start_multi(worker);
	else if (choice < 62 && receive)
		start_probe(worker);
	else if (choice < 70)
		start_remote(worker);
	else if (choice < 74)
		start_atomic(worker);
	else if (choice < 75)
		start_wrong(worker);
	else if (choice < 76)
		thole_sleep(rank->endpoint, (int64_t)random_below(&worker->random, 60000));
	else if (choice < 77)
		thole_progress(rank->endpoint);
	poll_all(rank);
	collect(worker, &worker->sends);
	collect(worker, &worker->receives);
	collect(worker, &worker->others);
	if (++worker->idle % 300 == 0) { /* what is posted may want what will not come */
		cancel_receives(worker);
		cancel_loose(rank);
	}
}

static void *worker_run(void *arg)
{
	struct worker *worker = arg;
	struct rank *rank = worker->rank;
	bool busy = true;

	ranks_self = rank->self;
	while (!all_sent(rank) || !all_received(rank))
		worker_step(worker, true);
	/* The plans are through. Let the rest end, and take back what waits for nothing. */
	cancel_receives(worker);
	while (busy) {
		poll_all(rank);
		collect(worker, &worker->sends);
		collect(worker, &worker->receives);
		collect(worker, &worker->others);
		pthread_mutex_lock(&rank->lock);
		busy = worker->sending || worker->remote_busy || worker->receiving;
		pthread_mutex_unlock(&rank->lock);
		if (busy && ++worker->idle % 1000 == 0)
			cancel_loose(rank);
	}
	return NULL;
}

/* See the file's head. Receives are compared by the number under which they were posted. */
static void order_check(const struct rank *rank, int from)
{
	uint64_t latest[CLASSES] = {0};

	for (uint32_t number = 0; number < board->counts[from][rank->self]; number++) {
		const struct got *got = &rank->got[from][number];
		struct plan plan = plan_of(rank->round, from, rank->self, number);

		if (board->is_cancelled[from][rank->self][number]) {
			CHECK_EQUAL(got->posted, 0);
			continue;
		}
		CHECK(got->posted > 0);
		for (int class = 0; class < CLASSES; class++)
			if (got->accepts >> class & 1)
				CHECK(latest[class] <= got->posted); /* equal: empty messages in one buffer for many */
		if (latest[plan.class] < got->posted)
			latest[plan.class] = got->posted;
	}
}

static const char *pick(uint64_t *random, const char *const *values, uint32_t count)
{
	return values[random_below(random, count)];
}

#define PICK(random, ...)                                                                          \
	pick(random, (const char *const[]){__VA_ARGS__},                                           \
	     sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

/* Random options, except where the command line says otherwise. Returns how many. */
static int round_options(uint64_t round, int self, char text[OPTION_STRINGS][64], const char **strings)
{
	uint64_t common = mix(config.seed, round, 1), own = mix(config.seed, round, 100 + (uint64_t)self);
	int n = 0;
	char *given = NULL, *save = NULL;

	snprintf(text[n++], 64, "bulk=%s", PICK(&common, "auto", "ring", "one-copy", "cooperative", "direct"));
	snprintf(text[n++], 64, "bulk_ring=%s", PICK(&common, "64k", "128k", "512k", "4m"));
	snprintf(text[n++], 64, "eager_max=%s", PICK(&own, "0", "40", "1000", "8k", "64k", "64k", "1m"));
	snprintf(text[n++], 64, "unexpected_max=%s", PICK(&own, "64k", "256k", "64m"));
	snprintf(text[n++], 64, "bulk_piece=%s", PICK(&own, "1k", "16k", "256k"));
	snprintf(text[n++], 64, "cooperative_block=%s", PICK(&own, "4k", "64k", "512k"));
	snprintf(text[n++], 64, "progress_thread=%s", PICK(&own, "off", "off", "off", "on"));
	snprintf(text[n++], 64, "spin=%s", PICK(&own, "0", "1us", "50us"));
	snprintf(text[n++], 64, "yield=%s", PICK(&own, "auto", "auto", "always"));
	snprintf(text[n++], 64, "look_again=%s", PICK(&own, "0", "100"));
	snprintf(text[n++], 64, "sends_max=%s", PICK(&own, "4", "65536"));
	if (config.hosts > 0) {
		snprintf(text[n++], 64, "host=host%d", self % config.hosts);
		snprintf(text[n++], 64, "checksum=%s", PICK(&common, "off", "on"));
		snprintf(text[n++], 64, "net_eager_max=%s", PICK(&own, "0", "1000", "32k", "64k", "1m"));
		snprintf(text[n++], 64, "net_window=%s", PICK(&own, "0", "0", "64k"));
		snprintf(text[n++], 64, "mtu=%s", PICK(&own, "0", "0", "700", "4000"));
	}
	if (config.options) {
		given = strdup(config.options);
		for (char *word = strtok_r(given, ";", &save); word && n < OPTION_STRINGS - 1;
		     word = strtok_r(NULL, ";", &save))
			snprintf(text[n++], 64, "%s", word); /* later ones win */
		free(given);
	}
	for (int i = 0; i < n; i++)
		strings[i] = text[i];
	strings[n] = NULL;
	return n;
}

static void round_plan(uint64_t round)
{
	uint64_t random = mix(config.seed, round, 2);

	memset(board, 0, sizeof(*board));
	for (int from = 0; from < config.ranks; from++)
		for (int to = 0; to < config.ranks; to++)
			board->counts[from][to] =
				random_below(&random, from == to ? 40 : MESSAGES_MAX / (uint64_t)config.ranks);
}

static void round_run(uint64_t round, int self)
{
	char text[OPTION_STRINGS][64];
	const char *strings[OPTION_STRINGS];
	struct thole_endpoint_attr attr = {.options = strings,
					   .threads = threaded() ? THOLE_THREAD_SAFE : THOLE_THREAD_SINGLE};
	int workers = config.threads > 0 ? config.threads : 1;
	struct worker *worker = calloc((size_t)workers, sizeof(*worker));
	struct rank *rank = calloc(1, sizeof(*rank));
	size_t size = (size_t)config.ranks * SLOT;
	struct thole_region *regions[3];
	uint64_t leftover = 0;

	CHECK(rank && worker);
	round_options(round, self, text, strings);
	rank->self = self;
	rank->round = round;
	pthread_mutex_init(&rank->lock, NULL);
	pthread_mutex_init(&rank->send_lock, NULL);
	pthread_mutex_init(&rank->post_lock, NULL);
	pthread_mutex_init(&rank->poll_lock, NULL);
	CHECK_EQUAL(thole_endpoint_open(&attr, &rank->endpoint), 0);
	rank->slots = calloc(1, size);
	rank->cells = calloc(CELLS, sizeof(uint64_t));
	CHECK(rank->slots && rank->cells);
	CHECK_EQUAL(thole_expose(rank->endpoint, rank->slots, size, THOLE_ACCESS_PUT | THOLE_ACCESS_GET, KEY_SLOTS,
				 NULL, &regions[0]),
		    0);
	CHECK_EQUAL(thole_expose(rank->endpoint, rank->cells, CELLS * 8,
				 THOLE_ACCESS_PUT | THOLE_ACCESS_GET | THOLE_ACCESS_ATOMIC, KEY_CELLS, NULL,
				 &regions[1]),
		    0);
	CHECK_EQUAL(
		thole_expose(rank->endpoint, &leftover, LARGE * 2, THOLE_ACCESS_GET, KEY_READ_ONLY, NULL, &regions[2]),
		0);
	ranks_meet(rank->endpoint, rank->peers);
	for (int i = 0; i < workers; i++) {
		worker[i].rank = rank;
		worker[i].number = i;
		worker[i].random = mix(config.seed, round, 1000 + (uint64_t)self * 64 + (uint64_t)i);
		if (workers > 1)
			CHECK_EQUAL(pthread_create(&worker[i].thread, NULL, worker_run, &worker[i]), 0);
	}
	if (workers == 1)
		worker_run(&worker[0]);
	for (int i = 0; workers > 1 && i < workers; i++)
		pthread_join(worker[i].thread, NULL);
	cancel_loose(rank);
	ranks_barrier(rank->endpoint); /* all is sent, received and answered, so notices are on their way at most */
	while (rank->multis > 0 || rank->notices < __atomic_load_n(&board->notices[self], __ATOMIC_ACQUIRE))
		poll_all(rank);
	for (int from = 0; from < config.ranks; from++)
		order_check(rank, from);
	for (int i = 0; i < CELLS; i++)
		CHECK_EQUAL(rank->cells[i], board->added[self][i]);
	CHECK_EQUAL(rank->notices, board->notices[self]);
	CHECK_EQUAL(ranks_counter(rank->endpoint, "unexpected_bytes"), 0);
	CHECK_EQUAL(ranks_counter(rank->endpoint, "bad_records"), 0);
	CHECK_EQUAL(ranks_counter(rank->endpoint, "peers_gone"), 0);
	ranks_barrier(rank->endpoint);
	__atomic_add_fetch(&ranks_shared->words[0], rank->errors, __ATOMIC_ACQ_REL);
	__atomic_add_fetch(&ranks_shared->words[1], ranks_counter(rank->endpoint, "remote_errors"), __ATOMIC_ACQ_REL);
	ranks_barrier(rank->endpoint);
	CHECK_EQUAL(ranks_shared->words[0], ranks_shared->words[1]);
	thole_endpoint_close(rank->endpoint);
	free(rank->slots);
	free(rank->cells);
	free(worker);
	free(rank);
	ranks_barrier(NULL);
}

static void stress(int self)
{
	uint64_t start_ns = ranks_now_ns();
	void *block;
	int before = 0;

	CHECK_EQUAL(thole_alloc(1 << 20, &block), 0); /* an arena that is there stays, with its descriptor */
	thole_free(block);
	ranks_barrier(NULL);
	for (uint64_t round = 0;; round++) {
		if (self == 0) {
			round_plan(round);
			board->go_on = config.rounds ? round < (uint64_t)config.rounds
						     : (double)(ranks_now_ns() - start_ns) < config.seconds * 1e9;
			if (!board->go_on)
				printf("%llu rounds\n", (unsigned long long)round);
		}
		ranks_barrier(NULL);
		if (!board->go_on)
			break;
		round_run(round, self);
		if (round == 0) /* what libraries open once stays: librdmacm has each iWARP adapter for good */
			before = ranks_descriptors();
		if (!config.in_process || self == 0)
			CHECK_EQUAL(ranks_descriptors(), before);
		ranks_barrier(NULL);
	}
}

int main(int argc, char **argv)
{
	static const struct option words[] = {
		{"ranks", required_argument, NULL, 'n'},   {"threads", required_argument, NULL, 't'},
		{"in-process", no_argument, NULL, 'p'},    {"seconds", required_argument, NULL, 's'},
		{"seed", required_argument, NULL, 'x'},    {"rounds", required_argument, NULL, 'r'},
		{"options", required_argument, NULL, 'o'}, {"hosts", required_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	unsigned limit_s;
	int option, failures = 0;

	config.seed = ranks_now_ns();
	while ((option = getopt_long(argc, argv, "", words, NULL)) != -1) {
		switch (option) {
		case 'n': config.ranks = (int)ranks_number("--ranks", optarg, 1); break;
		case 't': config.threads = (int)ranks_number("--threads", optarg, 1); break;
		case 'p': config.in_process = true; break;
		case 's': config.seconds = (double)ranks_number("--seconds", optarg, 1); break;
		case 'x': config.seed = ranks_number("--seed", optarg, 0); break;
		case 'r': config.rounds = (int)ranks_number("--rounds", optarg, 1); break;
		case 'o': config.options = optarg; break;
		case 'h': config.hosts = (int)ranks_number("--hosts", optarg, 1); break;
		default: return 2;
		}
	}
	if (config.ranks < 1 || config.ranks > RANKS_MAX || config.threads > 16)
		return 2;
	printf("thole_stress --seed %llu --ranks %d --threads %d --hosts %d%s\n", (unsigned long long)config.seed,
	       config.ranks, config.threads, config.hosts, config.in_process ? " --in-process" : "");
	fflush(stdout);
	board = ranks_memory(sizeof(*board));
	limit_s = (unsigned)config.seconds + 120;
	if (config.in_process)
		ranks_run_threads(config.ranks, limit_s, stress);
	else
		failures = ranks_run(config.ranks, limit_s, stress);
	CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
	return failures != 0;
}
