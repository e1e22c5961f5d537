/* SPDX-License-Identifier: BSD-3-Clause */
#include "nic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/endian.h"
#include "base/error.h"

enum queue_state { QUEUE_NEW, QUEUE_CONNECTING, QUEUE_CONNECTED, QUEUE_BROKEN, QUEUE_STOPPED };

/* A work that was posted and has not been reported. */
struct sim_work {
	struct list_node node;   /* of its queue's works, in order of posting */
	struct nic_work work;
	struct nic_segment segments[4];
	uint8_t *copy;           /* of what was inline; NULL: it was not */
	uint32_t length;
	uint32_t moved;          /* bytes that have arrived */
	uint64_t first_ns;       /* when the first byte arrives at its target, if nothing is in the way, */
	uint64_t next_ns;        /* and what is to happen next to it */
	uint64_t since_ns;       /* of the first try that found no queue; 0: none yet */
	bool done;               /* it has arrived; what is left is its completion */
	bool turned;             /* a read that has reached the target */
};

struct sim_queue {
	struct fabric *fabric;
	struct sim_nic *nic;     /* NULL: its process has crashed */
	uint32_t number;         /* the owner's */
	uint32_t serial;         /* the fabric's */
	uint32_t peer;           /* the other's serial, of QUEUE_CONNECTED */
	uint8_t state;           /* enum queue_state */
	bool mute;               /* connected, and the other has to speak first (NIC_LATE) */
	uint64_t since_ns;       /* when it began to connect */
	struct list_node works;
	uint32_t work_count;
	struct event event;      /* of the first work that is not done */
	uint64_t last_ns;        /* when its last completion is to be seen */
};

struct sim_completion {
	struct list_node node;
	struct nic_completion completion;
	uint64_t when_ns;
	struct sim_queue *stopped; /* NIC_STOPPED of this one */
};

struct sim_receive {
	struct list_node node;
	struct nic_segment segment;
	uint64_t id;
};

struct sim_memory {
	uint64_t address, length;
	unsigned access;
	uint32_t generation;
	bool there;
	bool stale;              /* its mapping has changed since */
	uint64_t known;          /* paged: of its bytes so many, from the first on, the adapter has found */
};

struct sim_watch {
	struct list_node node;
	uint64_t address, length;
	uint32_t word;
};

enum {
	KEY_BITS = 16,
	TIE_TIMEOUTS = 10, /* a queue that is to be connected waits so many times longer than one that is */
};

static uint64_t nic_time(const struct sim_nic *nic)
{
	return nic->cpu_ns > nic->fabric->world->now_ns ? nic->cpu_ns : nic->fabric->world->now_ns;
}

static void nic_spend(struct sim_nic *nic, uint64_t ns)
{
	nic->cpu_ns = nic_time(nic) + ns;
}

/* ---- Memory --------------------------------------------------------------------------------------- */

static const struct sim_memory *memory_of(const struct sim_nic *nic, uint32_t key)
{
	uint32_t index = key & ((1u << KEY_BITS) - 1);
	const struct sim_memory *memory = index < nic->memory_count ? &nic->memories[index] : NULL;

	return memory && memory->there && (memory->generation & 0xffff) == key >> KEY_BITS ? memory : NULL;
}

static bool memory_holds(const struct sim_nic *nic, uint32_t key, uint64_t address, uint64_t length, unsigned access)
{
	const struct sim_memory *memory = memory_of(nic, key);

	if (memory && memory->stale)
		world_fail(nic->fabric->world, "memory is used by a registration of what it was before");
	return memory && (memory->access & access) == access && address >= memory->address &&
	       length <= memory->length && address - memory->address <= memory->length - length;
}

static int nic_register(struct nic *base, void *address, size_t length, unsigned access,
			struct nic_memory *memory_p)
{
	struct sim_nic *nic = sim_nic_of(base);
	struct fabric *fabric = nic->fabric;
	uint64_t cost = nic_model_register_ns(fabric->model, access & NIC_ACCESS_PAGED ? 0 : length);
	uint32_t index = 0;

	if (nic->gone)
		return error_set(THOLE_ERR_SYSTEM, "the simulated adapter is gone");
	if (dice_chance(&fabric->dice, fabric->faults.refuse))
		return error_set(THOLE_ERR_MEMORY, "the simulated adapter does not register memory now");
	if (length > base->limits.registered_max - nic->registered)
		return error_set(THOLE_ERR_MEMORY, "the simulated adapter's table is full");
	while (index < nic->memory_count && nic->memories[index].there)
		index++;
	if (index == nic->memory_count) {
		if (nic->memory_count == nic->memory_room) {
			nic->memory_room = nic->memory_room ? 2 * nic->memory_room : 16;
			nic->memories = sim_grow(nic->memories, nic->memory_room * sizeof(*nic->memories));
		}
		nic->memories[nic->memory_count++] = (struct sim_memory){0};
	}
	nic->memories[index] = (struct sim_memory){.address = (uintptr_t)address, .length = length, .access = access,
						   .generation = nic->memories[index].generation + 1, .there = true};
	nic->registered += length;
	nic->registrations++;
	nic->registering_ns += cost;
	nic_spend(nic, cost);
	*memory_p = (struct nic_memory){.handle = nic, .address = (uintptr_t)address, .length = length};
	memory_p->local_key = memory_p->peer_key =
		index | (nic->memories[index].generation & 0xffff) << KEY_BITS;
	return 0;
}

static void nic_deregister(struct nic *base, struct nic_memory *memory)
{
	struct sim_nic *nic = sim_nic_of(base);
	const struct nic_model *model = nic->fabric->model;
	uint64_t cost = model->deregister_ns + (memory->length + 4095) / 4096 * model->deregister_page_ns;

	if (!memory_of(nic, memory->local_key))
		world_fail(nic->fabric->world, "memory is deregistered that is not registered");
	nic->memories[memory->local_key & ((1u << KEY_BITS) - 1)].there = false;
	nic->registered -= memory->length;
	nic->registering_ns += cost;
	nic_spend(nic, cost);
	memory->handle = NULL;
}

static bool overlap(uint64_t address, uint64_t length, uint64_t other, uint64_t other_length)
{
	return address < other + other_length && other < address + length;
}

const uint32_t *sim_nic_watch(struct sim_nic *nic, uint64_t address, uint64_t length, uint64_t *id_p)
{
	struct sim_watch *watch = sim_alloc(sizeof(*watch));

	watch->address = address;
	watch->length = length;
	list_push_back(&nic->watches, &watch->node);
	*id_p = (uintptr_t)watch;
	return &watch->word;
}

void sim_nic_unwatch(struct sim_nic *nic, uint64_t id)
{
	struct sim_watch *watch = (struct sim_watch *)(uintptr_t)id;

	(void)nic;
	list_unlink(&watch->node);
	free(watch);
}

void sim_nic_unmap(struct sim_nic *nic, const void *address, uint64_t length)
{
	for (uint32_t i = 0; i < nic->memory_count; i++) {
		struct sim_memory *memory = &nic->memories[i];

		if (!overlap((uintptr_t)address, length, memory->address, memory->length))
			continue;
		if (memory->access & NIC_ACCESS_PAGED)
			memory->known = 0;
		else
			memory->stale = true;
	}
	for (struct list_node *node = list_first(&nic->watches); node; node = list_next(&nic->watches, node)) {
		struct sim_watch *watch = container_of(node, struct sim_watch, node);

		watch->word += overlap((uintptr_t)address, length, watch->address, watch->length);
	}
}

/* ---- Completions ---------------------------------------------------------------------------------- */

static struct sim_completion *nic_complete(struct sim_queue *queue, const struct nic_completion *completion,
					   uint64_t when_ns)
{
	struct sim_nic *nic = queue->nic;
	struct fabric *fabric = queue->fabric;
	struct sim_completion *entry = sim_alloc(sizeof(*entry));
	struct list_node *behind = &nic->completions;

	if (dice_chance(&fabric->dice, fabric->faults.late))
		when_ns += dice_below(&fabric->dice, fabric->faults.late_ns + 1);
	if (when_ns < queue->last_ns)
		when_ns = queue->last_ns;
	queue->last_ns = when_ns;
	entry->completion = *completion;
	entry->completion.queue = queue->number;
	entry->when_ns = when_ns;
	for (struct list_node *node = list_first(&nic->completions); node; node = list_next(&nic->completions, node))
		if (container_of(node, struct sim_completion, node)->when_ns > when_ns) {
			behind = node;
			break;
		}
	list_push_back(behind, &entry->node); /* before it */
	nic->wake(nic->arg, when_ns);
	return entry;
}

/* Who has its name for the peer's, and is reached. */
static struct sim_queue *queue_peer(const struct sim_queue *queue, enum queue_state state)
{
	struct sim_queue *peer = queue->peer < queue->fabric->queue_count ? queue->fabric->queues[queue->peer] : NULL;

	if (!peer || !peer->nic || peer->state != state || peer->peer != queue->serial || peer->nic->down ||
	    queue->nic->down)
		return NULL;
	return peer;
}

static struct sim_queue *queue_target(const struct sim_queue *queue)
{
	return queue_peer(queue, QUEUE_CONNECTED);
}

static void work_report(struct sim_queue *queue, struct sim_work *work, int status, uint64_t when_ns)
{
	struct nic_completion completion = {.operation = work->work.operation, .status = status, .id = work->work.id};

	if (status || !(work->work.flags & NIC_POST_SILENT))
		nic_complete(queue, &completion, when_ns);
	else
		queue->nic->silent++;
	list_unlink(&work->node);
	queue->work_count--;
	free(work->copy);
	free(work);
}

/* All that was posted and is not done, with a reason for the first. Where queues are connections, the other end sees
 * that this one ends. */
static void queue_break(struct sim_queue *queue, int status)
{
	struct nic_completion broken = {.operation = NIC_BROKEN, .status = THOLE_ERR_PEER};
	struct sim_queue *other = queue->nic->nic.limits.can & NIC_LATE ? queue_target(queue) : NULL;
	struct list_node *node;

	if (queue->state == QUEUE_BROKEN || queue->state == QUEUE_STOPPED)
		return;
	queue->state = QUEUE_BROKEN;
	if (other) {
		queue_break(other, THOLE_ERR_PEER);
		nic_complete(other, &broken, queue->fabric->world->now_ns + queue->fabric->model->latency_ns);
	}
	queue->fabric->broken++;
	world_cancel(queue->fabric->world, &queue->event);
	while ((node = list_first(&queue->works))) {
		work_report(queue, container_of(node, struct sim_work, node), status,
			    queue->fabric->world->now_ns + queue->fabric->model->latency_ns);
		status = THOLE_ERR_CANCELED;
	}
}

static unsigned nic_poll(struct nic *base, struct nic_completion *completions, unsigned max)
{
	struct sim_nic *nic = sim_nic_of(base);
	struct list_node *node;
	unsigned n = 0;

	while (n < max && (node = list_first(&nic->completions))) {
		struct sim_completion *entry = container_of(node, struct sim_completion, node);

		if (entry->when_ns > nic_time(nic))
			break;
		nic_spend(nic, nic->fabric->model->poll_ns);
		completions[n++] = entry->completion;
		if (entry->stopped)
			entry->stopped->state = QUEUE_STOPPED;
		list_unlink(node);
		free(entry);
	}
	return n;
}

uint64_t sim_nic_due(const struct sim_nic *nic)
{
	struct list_node *node = list_first(&nic->completions);

	if (nic->events)
		return nic->fabric->world->now_ns;
	return node ? container_of(node, struct sim_completion, node)->when_ns : UINT64_MAX;
}

/* ---- What is under way ---------------------------------------------------------------------------- */

static struct sim_work *queue_first(const struct sim_queue *queue)
{
	for (struct list_node *node = list_first(&queue->works); node; node = list_next(&queue->works, node))
		if (!container_of(node, struct sim_work, node)->done)
			return container_of(node, struct sim_work, node);
	return NULL;
}

static void queue_schedule(struct sim_queue *queue)
{
	struct sim_work *work = queue_first(queue);

	if (work)
		world_set(queue->fabric->world, &queue->event, work->next_ns);
}

/* Bytes at an offset of a work's own memory. */
static void work_bytes(const struct sim_work *work, uint32_t offset, uint8_t *memory, uint32_t length, bool into)
{
	if (work->copy) {
		memcpy(memory, work->copy + offset, length);
		return;
	}
	for (uint32_t i = 0; i < work->work.count && length > 0; i++) {
		uint32_t part = work->segments[i].length;
		uint8_t *own = (uint8_t *)(uintptr_t)work->segments[i].address;

		if (offset >= part) {
			offset -= part;
			continue;
		}
		part = part - offset < length ? part - offset : length;
		if (into)
			memcpy(own + offset, memory, part);
		else
			memcpy(memory, own + offset, part);
		memory += part;
		length -= part;
		offset = 0;
	}
}

static bool work_is_allowed(const struct sim_queue *queue, const struct sim_work *work)
{
	unsigned access = work->work.operation == NIC_READ || work->work.operation >= NIC_FETCH_ADD ? NIC_ACCESS_WRITE
												      : 0;

	for (uint32_t i = 0; i < work->work.count && !work->copy; i++)
		if (work->segments[i].length > 0 &&
		    !memory_holds(queue->nic, work->segments[i].key, (uintptr_t)work->segments[i].address,
				  work->segments[i].length, access))
			return false;
	return true;
}

static bool work_may(const struct sim_queue *target, const struct sim_work *work)
{
	static const unsigned access[] = {
		[NIC_WRITE] = NIC_ACCESS_PEER_WRITE, [NIC_READ] = NIC_ACCESS_PEER_READ,
		[NIC_FETCH_ADD] = NIC_ACCESS_PEER_ATOMIC, [NIC_COMPARE_SWAP] = NIC_ACCESS_PEER_ATOMIC};

	return work->work.operation == NIC_SEND || work->length == 0 ||
	       memory_holds(target->nic, work->work.remote_key, work->work.remote_address, work->length,
			    access[work->work.operation]);
}

/* Whether the adapter has to find pages of it first: all up to these, at once. */
static bool memory_faults(struct sim_nic *nic, uint32_t key, uint64_t address, uint64_t length)
{
	struct sim_memory *memory = (struct sim_memory *)(uintptr_t)memory_of(nic, key);

	if (!memory || !(memory->access & NIC_ACCESS_PAGED) || address + length <= memory->address + memory->known)
		return false;
	memory->known = address + length - memory->address;
	nic->faults++;
	return true;
}

static bool work_faults(struct sim_queue *queue, struct sim_queue *target, const struct sim_work *work)
{
	bool faults = false;

	for (uint32_t i = 0; i < work->work.count && !work->copy; i++)
		faults |= memory_faults(queue->nic, work->segments[i].key, (uintptr_t)work->segments[i].address,
					work->segments[i].length);
	if (work->work.operation != NIC_SEND && work->length > 0)
		faults |= memory_faults(target->nic, work->work.remote_key, work->work.remote_address, work->length);
	return faults;
}

static void work_atomic(const struct sim_work *work)
{
	uint64_t *there = (uint64_t *)(uintptr_t)work->work.remote_address, before = *there;

	if (work->work.operation == NIC_FETCH_ADD)
		*there += work->work.operand;
	else if (before == work->work.compare)
		*there = work->work.operand;
	work_bytes(work, 0, (uint8_t *)&before, sizeof(before), true);
}

/* Takes one receive of the target; false: there is none now. */
static bool work_receive(struct sim_queue *target, struct sim_work *work, uint64_t now_ns)
{
	struct list_node *node = list_first(&target->nic->receives);
	bool send = work->work.operation == NIC_SEND;
	bool imm = work->work.flags & NIC_POST_IMM;
	struct nic_completion completion = {.operation = !send ? NIC_RECEIVE_IMM : imm ? NIC_RECEIVE_WORD : NIC_RECEIVE,
					    .imm = work->work.imm, .length = work->length};
	struct sim_receive *receive;

	if (!node)
		return false;
	receive = container_of(node, struct sim_receive, node);
	completion.id = receive->id;
	if (send && work->length > receive->segment.length)
		world_fail(target->fabric->world, "a message is longer than its receive");
	else if (send)
		work_bytes(work, 0, (uint8_t *)(uintptr_t)receive->segment.address, work->length, false);
	nic_complete(target, &completion, now_ns);
	target->mute = false;
	list_unlink(node);
	target->nic->receive_count--;
	free(receive);
	return true;
}

/* The next bytes of a write arrive. */
static void work_move(struct sim_queue *target, struct sim_work *work)
{
	const struct fabric *fabric = target->fabric;
	uint32_t piece = work->length - work->moved;
	uint32_t at = work->moved;

	if (piece > fabric->model->piece)
		piece = fabric->model->piece;
	if (fabric->faults.reorder)
		at = work->length - work->moved - piece;
	work_bytes(work, at, (uint8_t *)(uintptr_t)(work->work.remote_address + at), piece, false);
	work->moved += piece;
}

/* When a read's answer has passed the target's line. */
static void work_turn(struct sim_queue *queue, struct sim_queue *target, struct sim_work *work, uint64_t now_ns)
{
	const struct nic_model *model = queue->fabric->model;
	uint64_t start_ns = now_ns > target->nic->send_free_ns ? now_ns : target->nic->send_free_ns;

	target->nic->send_free_ns = start_ns + model->gap_ns + nic_model_wire_ns(model, work->length);
	work->turned = true;
	work->next_ns = target->nic->send_free_ns + model->latency_ns;
	if (work->next_ns < queue->nic->receive_free_ns + nic_model_wire_ns(model, work->length))
		work->next_ns = queue->nic->receive_free_ns + nic_model_wire_ns(model, work->length);
	queue->nic->receive_free_ns = work->next_ns;
}

/* Whether the work is done; else next_ns says when it goes on. */
static bool work_step(struct sim_queue *queue, struct sim_queue *target, struct sim_work *work, uint64_t now_ns)
{
	const struct nic_model *model = queue->fabric->model;
	bool back = work->work.operation == NIC_READ || work->work.operation >= NIC_FETCH_ADD;
	uint32_t end;

	if (back && !work->turned) {
		work_turn(queue, target, work, now_ns);
		return false;
	}
	if (work->work.operation == NIC_READ)
		work_bytes(work, 0, (uint8_t *)(uintptr_t)work->work.remote_address, work->length, true);
	else if (back)
		work_atomic(work);
	else if (work->work.operation == NIC_WRITE) {
		/* Who looks for flags is to see them as they come. */
		while (work->moved < work->length) {
			work_move(target, work);
			if (!(queue->nic->nic.limits.can & NIC_ORDERED) && !queue->fabric->faults.reorder)
				continue;
			target->nic->wake(target->nic->arg, now_ns);
			end = work->length - work->moved < model->piece ? work->length : work->moved + model->piece;
			work->next_ns = work->first_ns + nic_model_wire_ns(model, end);
			if (work->next_ns > now_ns && work->moved < work->length)
				return false;
		}
	}
	if ((work->work.operation == NIC_SEND || work->work.flags & NIC_POST_IMM) &&
	    !work_receive(target, work, now_ns)) {
		if (!(queue->nic->nic.limits.can & NIC_CAN_WAIT))
			world_fail(queue->fabric->world, "a send finds no receive, which none waits for");
		work->next_ns = now_ns + model->retry_ns;
		return false;
	}
	return true;
}

/* Whether who is asked may answer yet. */
static bool queue_tie_waits(const struct sim_queue *queue, uint64_t now_ns)
{
	const struct sim_queue *peer = queue->fabric->queues[queue->peer];

	return now_ns - queue->since_ns < TIE_TIMEOUTS * queue->fabric->model->timeout_ns && peer && peer->nic &&
	       (peer->state == QUEUE_NEW || queue->nic->down || peer->nic->down);
}

/* Ask the other end, which may not be there yet, or not any more. */
static void queue_tie(struct sim_queue *queue, uint64_t now_ns)
{
	const struct nic_model *model = queue->fabric->model;
	struct nic_completion told = {.operation = NIC_CONNECTED};
	struct sim_queue *peer = queue_peer(queue, QUEUE_CONNECTING);

	if (peer) {
		queue->state = peer->state = QUEUE_CONNECTED;
		peer->mute = true;
	} else if (queue_tie_waits(queue, now_ns)) {
		world_set(queue->fabric->world, &queue->event, now_ns + model->retry_ns);
		return;
	} else {
		queue->state = QUEUE_BROKEN;
		told = (struct nic_completion){.operation = NIC_BROKEN, .status = THOLE_ERR_PEER};
	}
	nic_complete(queue, &told, now_ns + model->latency_ns);
}

static void queue_run(struct world *world, struct event *event)
{
	struct sim_queue *queue = container_of(event, struct sim_queue, event);
	struct sim_queue *target = queue_target(queue);
	struct sim_work *work = queue_first(queue);
	struct fabric *fabric = queue->fabric;
	uint64_t now_ns = world->now_ns;

	if (queue->state == QUEUE_CONNECTING)
		queue_tie(queue, now_ns);
	if (!work)
		return;
	if (!target) {
		if (!work->since_ns)
			work->since_ns = now_ns;
		work->next_ns = now_ns + fabric->model->retry_ns;
		if (now_ns - work->since_ns >= fabric->model->timeout_ns)
			queue_break(queue, THOLE_ERR_PEER);
		else
			queue_schedule(queue);
		return;
	}
	if (dice_chance(&fabric->dice, fabric->faults.error)) {
		if (dice_below(&fabric->dice, 2)) /* it was done, and nobody here knows */
			work_step(queue, target, work, now_ns);
		queue_break(queue, THOLE_ERR_PEER);
		return;
	}
	if (!work_is_allowed(queue, work)) {
		world_fail(world, "a work's memory is not registered (any more)");
		return;
	}
	if (!work_may(target, work)) {
		queue_break(queue, queue->nic->nic.limits.can & NIC_LATE ? THOLE_ERR_CANCELED : THOLE_ERR_ACCESS);
		return;
	}
	if (work->moved == 0 && !work->turned && work_faults(queue, target, work)) {
		work->next_ns = now_ns + fabric->model->fault_ns;
	} else if (work_step(queue, target, work, now_ns)) {
		bool back = work->turned;

		fabric->works++;
		fabric->bytes += work->length;
		work->done = true;
		work_report(queue, work, 0, back ? now_ns : now_ns + fabric->model->latency_ns);
		work = queue_first(queue);
		if (work && work->next_ns < now_ns)
			work->next_ns = now_ns;
	}
	queue_schedule(queue);
}

/* ---- Queues --------------------------------------------------------------------------------------- */

static int nic_queue_new(struct nic *base, uint32_t number, struct nic_queue **queue_p, struct nic_name *name_p)
{
	struct sim_nic *nic = sim_nic_of(base);
	struct fabric *fabric = nic->fabric;
	struct sim_queue *queue;

	if (nic->queues == base->limits.queues)
		return THOLE_ERR_AGAIN;
	if (nic->gone)
		return THOLE_ERR_SYSTEM;
	queue = sim_alloc(sizeof(*queue));
	*queue = (struct sim_queue){.fabric = fabric, .nic = nic, .number = number, .serial = fabric->queue_count,
				    .peer = UINT32_MAX, .event.run = queue_run};
	list_init(&queue->works);
	if (fabric->queue_count == fabric->queue_room) {
		fabric->queue_room = fabric->queue_room ? 2 * fabric->queue_room : 16;
		fabric->queues = sim_grow(fabric->queues, fabric->queue_room * sizeof(struct sim_queue *));
	}
	fabric->queues[fabric->queue_count++] = queue;
	nic->queues++;
	name_p->length = 4;
	store_be32(name_p->bytes, queue->serial);
	*queue_p = (struct nic_queue *)(void *)queue;
	return 0;
}

static int nic_queue_connect(struct nic_queue *base, const struct nic_name *peer)
{
	struct sim_queue *queue = (struct sim_queue *)(void *)base;

	if (queue->nic->gone)
		return THOLE_ERR_SYSTEM;
	if (peer->length != 4)
		return error_set(THOLE_ERR_ADDRESS, "this is no name of a simulated queue");
	queue->peer = load_be32(peer->bytes);
	queue->state = QUEUE_CONNECTED;
	if (!(queue->nic->nic.limits.can & NIC_LATE))
		return 0;
	queue->state = QUEUE_CONNECTING;
	queue->since_ns = queue->fabric->world->now_ns;
	if (queue->serial < queue->peer) /* the other is asked */
		world_set(queue->fabric->world, &queue->event, queue->since_ns + 2 * queue->fabric->model->latency_ns);
	return 0;
}

static void nic_queue_stop(struct nic_queue *base)
{
	struct sim_queue *queue = (struct sim_queue *)(void *)base;
	struct nic_completion completion = {.operation = NIC_STOPPED};
	uint64_t broken = queue->fabric->broken;

	queue->state = queue->state < QUEUE_CONNECTED ? QUEUE_CONNECTED : queue->state;
	queue_break(queue, THOLE_ERR_CANCELED);
	queue->fabric->broken = broken;
	nic_complete(queue, &completion, queue->fabric->world->now_ns)->stopped = queue;
}

static void sim_queue_free(struct sim_queue *queue)
{
	struct list_node *node;

	while ((node = list_first(&queue->works))) {
		struct sim_work *work = container_of(node, struct sim_work, node);

		list_unlink(node);
		free(work->copy);
		free(work);
	}
	world_cancel(queue->fabric->world, &queue->event);
	queue->fabric->queues[queue->serial] = NULL;
	free(queue);
}

static void nic_queue_free(struct nic_queue *base)
{
	struct sim_queue *queue = (struct sim_queue *)(void *)base;

	if (queue->state != QUEUE_STOPPED)
		world_fail(queue->fabric->world, "a queue is freed that has not stopped");
	queue->nic->queues--;
	sim_queue_free(queue);
}

/* When it gets its turn on both lines. */
static void work_time(struct sim_queue *queue, struct sim_work *work)
{
	const struct nic_model *model = queue->fabric->model;
	const struct sim_queue *target = queue_target(queue);
	struct sim_nic *nic = queue->nic;
	bool back = work->work.operation == NIC_READ || work->work.operation >= NIC_FETCH_ADD;
	uint64_t wire_ns = back ? 0 : nic_model_wire_ns(model, work->length), start_ns = nic_time(nic), end_ns;

	if (!work->copy)
		start_ns += model->pci_ns;
	if (start_ns < nic->send_free_ns)
		start_ns = nic->send_free_ns;
	nic->send_free_ns = start_ns + model->gap_ns + wire_ns;
	end_ns = nic->send_free_ns + model->latency_ns;
	if (target && !back) {
		if (end_ns < target->nic->receive_free_ns + wire_ns)
			end_ns = target->nic->receive_free_ns + wire_ns;
		target->nic->receive_free_ns = end_ns;
	}
	work->first_ns = end_ns - wire_ns;
	work->next_ns = end_ns;
	if (work->work.operation == NIC_WRITE && work->length > model->piece &&
	    (nic->nic.limits.can & NIC_ORDERED || queue->fabric->faults.reorder))
		work->next_ns = work->first_ns + nic_model_wire_ns(model, model->piece);
}

static int nic_post(struct nic_queue *base, const struct nic_work *posted)
{
	struct sim_queue *queue = (struct sim_queue *)(void *)base;
	struct sim_nic *nic = queue->nic;
	bool first = !queue_first(queue);
	struct sim_work *work;

	if (queue->state != QUEUE_CONNECTED)
		return THOLE_ERR_PEER;
	if (queue->mute)
		world_fail(queue->fabric->world, "who is not to speak first posts");
	if (queue->work_count == nic->nic.limits.works)
		return THOLE_ERR_AGAIN;
	if (posted->flags & NIC_POST_IMM && !(nic->nic.limits.can & NIC_CAN_IMM))
		world_fail(queue->fabric->world, "immediate data is posted to an adapter that has none");
	if (posted->count > nic->nic.limits.segments)
		return error_set(THOLE_ERR_ARGUMENT, "a work of %u segments", posted->count);
	nic_spend(nic, queue->fabric->model->overhead_ns);
	work = sim_alloc(sizeof(*work));
	work->work = *posted;
	if (posted->count > 0)
		memcpy(work->segments, posted->segments, posted->count * sizeof(*posted->segments));
	for (uint32_t i = 0; i < posted->count; i++)
		work->length += posted->segments[i].length;
	if (work->length > nic->nic.limits.length_max)
		world_fail(queue->fabric->world, "a work of %u bytes is posted", work->length);
	if (posted->flags & NIC_POST_INLINE) {
		uint8_t *copy = sim_alloc(work->length + 1);

		if (work->length > nic->nic.limits.inline_max)
			world_fail(queue->fabric->world, "%u bytes are posted inline", work->length);
		work_bytes(work, 0, copy, work->length, false);
		work->copy = copy;
	}
	if (posted->operation == NIC_WRITE && posted->flags & NIC_POST_IMM &&
	    queue->fabric->chunk_count < queue->fabric->chunk_room)
		queue->fabric->chunks[queue->fabric->chunk_count++] = posted->imm;
	list_push_back(&queue->works, &work->node);
	queue->work_count++;
	if (!work_is_allowed(queue, work))
		world_fail(queue->fabric->world, "a work is posted whose memory is not registered");
	work_time(queue, work);
	if (first)
		queue_schedule(queue);
	return 0;
}

static void buffer_post(struct sim_nic *nic, const struct nic_segment *segment, uint64_t id)
{
	struct sim_receive *receive;

	if (segment->length > 0 &&
	    !memory_holds(nic, segment->key, (uintptr_t)segment->address, segment->length, NIC_ACCESS_WRITE))
		world_fail(nic->fabric->world, "a receive is posted whose memory is not registered");
	receive = sim_alloc(sizeof(*receive));
	receive->segment = *segment;
	receive->id = id;
	list_push_back(&nic->receives, &receive->node);
	nic->receive_count++;
}

static unsigned nic_post_receives(struct nic *base, const struct nic_segment *segments, const uint64_t *ids,
				  unsigned count)
{
	struct sim_nic *nic = sim_nic_of(base);
	unsigned room = base->limits.receives - nic->receive_count;

	if (nic->gone)
		return 0;
	if (count > room)
		count = room;
	for (unsigned i = 0; i < count; i++)
		buffer_post(nic, &segments[i], ids[i]);
	return count;
}

/* ---- Adapters ------------------------------------------------------------------------------------- */

static uint64_t nic_arm(struct nic *base)
{
	return sim_nic_due(sim_nic_of(base)) <= nic_time(sim_nic_of(base)) ? 0 : UINT64_MAX;
}

static enum nic_event nic_event(struct nic *base)
{
	struct sim_nic *nic = sim_nic_of(base);

	for (enum nic_event event = NIC_EVENT_DOWN; event <= NIC_EVENT_LOST; event++)
		if (nic->events >> event & 1) {
			nic->events &= (uint8_t)~(1u << event);
			return event;
		}
	return NIC_EVENT_NONE;
}

static uint64_t nic_now_ns(struct nic *base)
{
	return nic_time(sim_nic_of(base));
}

static void nic_copied(struct nic *base, uint64_t bytes, uint64_t whole)
{
	struct sim_nic *nic = sim_nic_of(base);
	uint64_t cost = nic_model_copy_ns(nic->fabric->model, bytes, whole);

	nic->copied_ns += cost;
	nic_spend(nic, cost);
}

void sim_nic_crash(struct sim_nic *nic)
{
	struct fabric *fabric = nic->fabric;
	struct list_node *node;

	for (uint32_t i = 0; i < fabric->queue_count; i++)
		if (fabric->queues[i] && fabric->queues[i]->nic == nic)
			sim_queue_free(fabric->queues[i]);
	while ((node = list_first(&nic->completions))) {
		list_unlink(node);
		free(container_of(node, struct sim_completion, node));
	}
	while ((node = list_first(&nic->watches)))
		sim_nic_unwatch(nic, (uintptr_t)container_of(node, struct sim_watch, node));
	while ((node = list_first(&nic->receives))) {
		list_unlink(node);
		free(container_of(node, struct sim_receive, node));
	}
	free(nic->memories);
	free(nic);
}

static void nic_close(struct nic *base)
{
	struct sim_nic *nic = sim_nic_of(base);

	if (nic->registered > 0)
		world_fail(nic->fabric->world, "an adapter is closed with %llu bytes registered",
			   (unsigned long long)nic->registered);
	if (!list_empty(&nic->watches))
		world_fail(nic->fabric->world, "an adapter is closed while memory is watched for it");
	sim_nic_crash(nic);
}

void sim_nic_port(struct sim_nic *nic, bool up)
{
	if (nic->gone)
		return;
	nic->down = !up;
	nic->events |= (uint8_t)(1u << (up ? NIC_EVENT_UP : NIC_EVENT_DOWN));
	nic->events &= (uint8_t)~(1u << (up ? NIC_EVENT_DOWN : NIC_EVENT_UP));
	nic->wake(nic->arg, nic->fabric->world->now_ns);
}

static void nic_tell(struct sim_nic *nic, enum nic_event event)
{
	nic->events |= (uint8_t)(1u << event);
	nic->wake(nic->arg, nic->fabric->world->now_ns);
}

void sim_nic_gone(struct sim_nic *nic)
{
	struct fabric *fabric = nic->fabric;

	nic->down = nic->gone = true;
	for (uint32_t i = 0; i < fabric->queue_count; i++)
		if (fabric->queues[i] && fabric->queues[i]->nic == nic && fabric->queues[i]->state == QUEUE_CONNECTED)
			queue_break(fabric->queues[i], THOLE_ERR_CANCELED);
	nic_tell(nic, NIC_EVENT_GONE);
}

void sim_nic_lost(struct sim_nic *nic)
{
	nic_tell(nic, NIC_EVENT_LOST);
}

struct sim_nic *sim_nic_open(struct fabric *fabric, void (*wake)(void *arg, uint64_t when_ns), void *arg)
{
	static const struct nic_calls calls = {
		.name = "simulated",
		.close = nic_close,
		.register_memory = nic_register,
		.deregister = nic_deregister,
		.queue_new = nic_queue_new,
		.queue_connect = nic_queue_connect,
		.queue_stop = nic_queue_stop,
		.queue_free = nic_queue_free,
		.post = nic_post,
		.post_receives = nic_post_receives,
		.poll = nic_poll,
		.arm = nic_arm,
		.event = nic_event,
		.now_ns = nic_now_ns,
		.copied = nic_copied,
	};
	struct sim_nic *nic = sim_alloc(sizeof(*nic));

	nic->nic.calls = &calls;
	nic->nic.limits = fabric->model->limits;
	if (fabric->faults.reorder)
		nic->nic.limits.can &= ~(uint32_t)NIC_ORDERED;
	snprintf(nic->nic.device, sizeof(nic->nic.device), "%s", fabric->model->name);
	nic->nic.fd = -1;
	nic->fabric = fabric;
	nic->wake = wake;
	nic->arg = arg;
	list_init(&nic->watches);
	list_init(&nic->completions);
	list_init(&nic->receives);
	return nic;
}

void fabric_init(struct fabric *fabric, struct world *world, const struct nic_model *model)
{
	*fabric = (struct fabric){.world = world, .model = model, .dice = dice_new(world->seed, 5)};
}

void fabric_fini(struct fabric *fabric)
{
	free(fabric->queues);
	fabric->queues = NULL;
}
