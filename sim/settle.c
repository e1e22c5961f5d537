/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * settle: how traffic ends. Everything that was started is to finish, receives that nothing comes for are canceled, and
 * what endpoints, engines and adapters then still have is told as a failure.
 */
#include "traffic.h"

#include "base/counters.h"
#include "exposed.h"
#include "mover.h"
#include "transport/datagram/connection.h"

enum {
	SETTLE_STEP_NS = 5 * MILLISECOND,
};

/* Whether what a process has sent and was told is complete is delivered: it could see to that, or need not, since it
 * has heard that it is there, which with mxoe nobody says. */
static bool message_is_out(const struct op *op)
{
	return op->by->state == PROCESS_ALIVE || (op->by->state == PROCESS_CLOSED && op->by->drained) ||
	       ((op->flags & THOLE_ARRIVED) && !op->by->network->numbered);
}

/* A message that was sent, and must have arrived. */
static bool message_is_owed(const struct op *op)
{
	return op->kind == OP_SEND && op->ended && op->status == 0 && !op->received &&
	       op->peer->state == PROCESS_ALIVE && message_is_out(op) && !traffic_parted(op->by, op->peer);
}

static bool op_is_open(const struct op *op)
{
	if (!op->by || op->ended)
		return false;
	/* A receive waits for ever, but not for somebody who is gone. */
	return op->kind != OP_RECEIVE || (op->peer && op->peer->state != PROCESS_ALIVE);
}

static struct op *traffic_unfinished(struct traffic *traffic)
{
	for (uint64_t i = 1; i < traffic->op_count; i++)
		if (op_is_open(traffic->ops[i]) || message_is_owed(traffic->ops[i]))
			return traffic->ops[i];
	return NULL;
}

static struct op *traffic_open_receive(struct traffic *traffic)
{
	uint64_t i = 1;

	while (traffic->ops[i]->ended || traffic->ops[i]->kind != OP_RECEIVE)
		i++;
	return traffic->ops[i];
}

/* Receives that nothing has come for are canceled. True: none is left at work. */
static bool traffic_cancel_all(struct traffic *traffic)
{
	bool all = true;

	for (uint64_t i = 1; i < traffic->op_count && !traffic->world->failed; i++) {
		struct op *op = traffic->ops[i];

		if (op->ended || op->kind != OP_RECEIVE || op->expected)
			continue;
		op->expected = THOLE_ERR_CANCELED;
		if (op->request ? thole_cancel(op->by->endpoint, op->request)
				: thole_cancel_context(op->by->endpoint, op))
			continue;
		op->expected = 0;
		all = false;
	}
	for (uint32_t i = 0; i < traffic->process_count && !traffic->world->failed; i++)
		if (traffic->processes[i]->state == PROCESS_ALIVE)
			player_test(player_of(traffic->processes[i]));
	return all;
}

struct rest {
	const char *what;
	uint64_t count;
};

static void check_none(struct process *process, const struct rest *rest, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (rest[i].count)
			world_fail(process->world, "process %u at rest has %llu %s", process->index,
				   (unsigned long long)rest[i].count, rest[i].what);
}

static uint64_t windows_moved(const struct process *process)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < process->wire_count; i++)
		if (process->wires[i].mover)
			n += sim_mover_windows(process->wires[i].mover);
	return n;
}

static void check_rest_engine(struct process *process)
{
	const struct engine *engine = process_engine(process);
	const struct rest rest[] = {
		{"fetches", engine->fetches.live},
		{"serves", engine->serves.live},
		{"windows handed over", engine->offer_pool.live},
		{"windows that its mover has", windows_moved(process)},
		{"small frames", engine->small_frames.live},
		{"large frames", engine->large_frames.live},
		{"trains", engine->trains[0].live + engine->trains[1].live + engine->trains[2].live},
		{"bytes asked for", engine->blocks.outstanding},
		{"held frames", engine->held},
		{"timers", engine->timers.count},
		{"connections with something to transmit",
		 !list_empty(&engine->dirty) || !list_empty(&engine->patient)},
		{"blocks", !list_empty(&engine->blocks.list)},
	};

	check_none(process, rest, sizeof(rest) / sizeof(*rest));
}

static uint64_t list_length(const struct list_node *list)
{
	uint64_t n = 0;

	for (const struct list_node *node = list->next; node != list; node = node->next)
		n++;
	return n;
}

static void check_rest_card(struct process *process)
{
	const struct card *card = card_of(&process->endpoint->base);
	const struct rest rest[] = {
		{"fetches", card->fetches.live},
		{"serves", card->serves.live},
		{"windows lent", card->lends.live},
		{"windows offered", card->offers.live},
		{"bays of landing in use", card->setup.bays - card->landing_free},
		{"bays of staging in use", card->setup.bays - list_length(&card->free_bays)},
		{"slots in use", card->setup.slots - list_length(&card->large.free)},
		{"small slots in use", card->setup.small - list_length(&card->small.free)},
		{"receives taken", process->nic->gone
				    ? 0
				    : card->setup.receives - card->empty_count - process->nic->receive_count},
		{"fetches that wait for bays", !list_empty(&card->hungry)},
		{"queues more than there are", card->queue_count != process->nic->queues},
	};

	check_none(process, rest, sizeof(rest) / sizeof(*rest));
}

static void check_rest(struct process *process)
{
	struct thole_endpoint *endpoint = process->endpoint;
	const struct rest rest[] = {
		{"requests", endpoint->requests.live},
		{"unexpected messages", endpoint->unexpected.live},
		{"screened messages", endpoint->screened},
		{"bytes of unexpected messages", endpoint->base.counters[COUNTER_UNEXPECTED_BYTES]},
		{"peers with a backlog", !list_empty(&endpoint->backlogged) || !list_empty(&endpoint->stalled)},
		{"bad records", process->slandered ? 0 : endpoint->base.counters[COUNTER_BAD_RECORDS]},
	};

	check_none(process, rest, sizeof(rest) / sizeof(*rest));
	if (process->nic)
		check_rest_card(process);
	if (process->wire_count)
		check_rest_engine(process);
	/* With mxoe it says now and then that it is there. */
	if (process->network->numbered ? heap_first(&process_engine(process)->timers) != NULL
				       : endpoint_deadline(endpoint) != UINT64_MAX)
		world_fail(process->world, "process %u at rest has a deadline", process->index);
}

void traffic_settle(struct traffic *traffic, uint64_t limit_ns)
{
	struct world *world = traffic->world;
	uint64_t end_ns = world->now_ns + limit_ns;
	uint32_t awake = 0;
	struct op *op;

	world_tell(world, "faults are over, and nothing new is started");
	traffic->settling = true;
	for (uint32_t i = 0; i < traffic->process_count; i++)
		if (traffic->processes[i]->state == PROCESS_ALIVE)
			process_wake(traffic->processes[i], world->now_ns);
	while (!world->failed && ((op = traffic_unfinished(traffic)) || !traffic_cancel_all(traffic))) {
		if (world->now_ns >= end_ns) {
			op_fail(op ? op : traffic_open_receive(traffic),
				op && op->ended ? "it never arrived" : "it never ends");
			return;
		}
		world_run(world, world->now_ns + SETTLE_STEP_NS);
	}
	world_run(world, world->now_ns + limit_ns); /* the last acknowledgements */
	if (world->failed)
		return;
	for (uint32_t i = 0; i < traffic->process_count && !world->failed; i++) {
		struct process *process = traffic->processes[i];

		if (process->state != PROCESS_ALIVE)
			continue;
		check_rest(process);
		awake += traffic->network->numbered; /* for its next word that it is there */
		exposed_check(process);
	}
	if (!world->failed && world->heap.count > awake)
		world_fail(world, "something still goes on though all is at rest");
}
