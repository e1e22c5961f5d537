/* SPDX-License-Identifier: BSD-3-Clause */
#include "crowd.h"

#include <stdlib.h>

enum { PACE_NS = 20 * MICROSECOND }; /* between two windows: about what the line takes for the handshakes, both ways */
enum { SLOTS = sizeof(((struct member *)0)->slots) / sizeof(struct slot) };

static struct member *member_of(const struct process *process)
{
	return process->state_of_application;
}

static void member_complete(struct process *process, const struct thole_completion *completion)
{
	struct member *member = member_of(process);
	struct slot *slot = completion->context;
	uint32_t from;

	if (completion->status && completion->status != THOLE_ERR_CANCELED)
		world_fail(process->world, "process %u: %s", process->index, thole_strerror(completion->status));
	if (completion->operation != THOLE_OP_RECEIVE || completion->status)
		return;
	from = slot->message[0];
	if (from >= member->crowd->count || slot->message[1] != process->index ||
	    completion->length != sizeof(slot->message) || process_of_peer(process, completion->peer) != from ||
	    (member->seen[from / 8] >> from % 8 & 1))
		world_fail(process->world, "process %u got a message of %u to %u again, or altered", process->index, from,
			   slot->message[1]);
	else
		member->seen[from / 8] |= (uint8_t)(1 << from % 8);
	slot->posted = false;
	member->got++;
	member->crowd->received++;
}

static void member_post(struct process *process)
{
	struct member *member = member_of(process);

	for (struct slot *slot = member->slots; slot < member->slots + SLOTS; slot++) {
		if (slot->posted)
			continue;
		slot->posted = true;
		if (thole_recv(process->endpoint, THOLE_ANY, slot->message, sizeof(slot->message), 0, 0, 0, slot, NULL) != 0)
			world_fail(process->world, "process %u cannot receive: %s", process->index, thole_detail());
	}
}

static void member_say(struct process *process)
{
	struct member *member = member_of(process);
	struct crowd *crowd = member->crowd;
	uint32_t to = member->next % crowd->count, message[2] = {process->index, to}, peer;

	if (thole_peer(process->endpoint, &crowd->processes[to]->address, &peer) != 0 ||
	    thole_send(process->endpoint, peer, message, sizeof(message), 1, 0, THOLE_INJECT | THOLE_QUIET, NULL, NULL) != 0)
		world_fail(process->world, "process %u cannot send: %s", process->index, thole_detail());
	member->next++;
	crowd->sent++;
}

static void member_step(struct process *process)
{
	struct member *member = member_of(process);

	member_post(process);
	for (uint32_t i = 0; i < member->crowd->window && member->next < member->end; i++)
		member_say(process);
	process->act_ns = member->next < member->end ? process->world->now_ns + PACE_NS : UINT64_MAX;
}

static const struct application crowd_application = {member_step, member_complete};

struct process *crowd_start(struct crowd *crowd, uint32_t index, const struct process_setup *setup)
{
	struct process_setup own = *setup;
	struct member *member = sim_alloc(sizeof(*member));
	struct process *process;

	own.application = &crowd_application;
	process = process_new(crowd->network, &crowd->network->hosts[index], index, 1024, &own);
	member->crowd = crowd;
	member->seen = sim_alloc(crowd->count / 8 + 1);
	process->state_of_application = member;
	crowd->processes[index] = process;
	member_post(process);
	return process;
}

void crowd_send(struct process *process, uint32_t first, uint32_t count)
{
	struct member *member = member_of(process);

	member->next = first;
	member->end = first + count;
	process_wake(process, process->world->now_ns);
}

void crowd_end(struct crowd *crowd, uint32_t index)
{
	struct process *process = crowd->processes[index];

	if (!process)
		return;
	process->host->down = true;
	free(member_of(process)->seen);
	free(member_of(process));
	process_free(process);
	crowd->processes[index] = NULL;
}

/* Nothing more is awaited. */
void crowd_rest(struct crowd *crowd)
{
	for (uint32_t i = 0; i < crowd->count; i++) {
		struct process *process = crowd->processes[i];
		struct member *member = process ? member_of(process) : NULL;

		for (struct slot *slot = process ? member->slots : NULL; slot && slot < member->slots + SLOTS; slot++)
			if (slot->posted && !thole_cancel_context(process->endpoint, slot))
				world_fail(process->world, "process %u receives something though all is at rest", i);
	}
}

void crowd_init(struct crowd *crowd, struct network *network, uint32_t count)
{
	*crowd = (struct crowd){
		.network = network,
		.processes = sim_alloc(count * sizeof(struct process *)),
		.count = count,
		.window = 4,
	};
}

void crowd_fini(struct crowd *crowd)
{
	for (uint32_t i = 0; i < crowd->count; i++)
		crowd_end(crowd, i);
	free(crowd->processes);
}
