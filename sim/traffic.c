/* SPDX-License-Identifier: BSD-3-Clause */
#include "traffic.h"

#include <stdlib.h>
#include <string.h>

#include "base/counters.h"
#include "exposed.h"
#include "op.h"

enum {
	CLOSE_LIMIT_NS = 2000000000, /* a process that closes waits so long for its peers */
	PORT_FIRST = 1024, PORTS = 30000, /* pairs of them */
};

#define TAG_MASK ((UINT64_C(1) << TRAFFIC_TAG_BITS) - 1)

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
			 (dice_chance(dice, plan->arrived) ? (unsigned)THOLE_ARRIVED : 0) |
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
	struct op **slot = &player_of(other)->slot[process->index];
	struct dice *dice = &process->world->traffic;
	uint64_t length = length_random(player->traffic);
	bool wrong = dice_below(dice, 50) == 0;
	struct iovec segments[SEGMENTS_MAX];
	struct op *op;
	size_t count;

	if (player->putting[other->index])
		return;
	exposed_check_slot(other, process->index);
	op = op_new(process, OP_PUT, other, length < TRAFFIC_SLOT ? length : TRAFFIC_SLOT);
	op->flags = dice_chance(dice, player->traffic->plan.imm) && !wrong ? THOLE_IMM : 0;
	op->expected = wrong ? THOLE_ERR_KEY : 0;
	op->imm = op->number;
	pattern_write(op->buffer, op->number, op->length);
	player->putting[other->index] = true;
	if (!wrong) {
		op->earlier = *slot;
		*slot = op;
	}
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
		.arrived = (uint32_t)dice_below(dice, 300000),
		.inject = (uint32_t)dice_below(dice, 300000),
		.imm = (uint32_t)dice_below(dice, 500000),
		.handle = (uint32_t)dice_below(dice, 1000000),
		.vector = (uint32_t)dice_below(dice, 500000),
		.shorter = (uint32_t)dice_below(dice, 200000),
		.screen = dice_below(dice, 3) ? 0 : (uint32_t)dice_below(dice, 500000),
	};
}
