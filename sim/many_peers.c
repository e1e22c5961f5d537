/* SPDX-License-Identifier: BSD-3-Clause */
#include "many_peers.h"

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
	if (from >= member->many_peers->count || slot->message[1] != process->index ||
	    completion->length != sizeof(slot->message) || process_of_peer(process, completion->peer) != from ||
	    (member->seen[from / 8] >> from % 8 & 1))
		world_fail(process->world, "process %u got a message of %u to %u again, or altered", process->index,
			   from, slot->message[1]);
	else
		member->seen[from / 8] |= (uint8_t)(1 << from % 8);
	slot->posted = false;
	member->got++;
	member->many_peers->received++;
}

static void member_post(struct process *process)
{
	struct member *member = member_of(process);

	for (struct slot *slot = member->slots; slot < member->slots + SLOTS; slot++) {
		if (slot->posted)
			continue;
		slot->posted = true;
		if (thole_recv(process->endpoint, THOLE_ANY, slot->message, sizeof(slot->message), 0, 0, 0, slot,
			       NULL) != 0)
			world_fail(process->world, "process %u cannot receive: %s", process->index, thole_detail());
	}
}

static void member_say(struct process *process)
{
	struct member *member = member_of(process);
	struct many_peers *many_peers = member->many_peers;
	uint32_t to = member->next % many_peers->count, message[2] = {process->index, to}, peer;

	if (thole_peer(process->endpoint, &many_peers->processes[to]->address, &peer) != 0 ||
	    thole_send(process->endpoint, peer, message, sizeof(message), 1, 0, THOLE_INJECT | THOLE_QUIET, NULL,
		       NULL) != 0)
		world_fail(process->world, "process %u cannot send: %s", process->index, thole_detail());
	member->next++;
	many_peers->sent++;
}

static void member_step(struct process *process)
{
	struct member *member = member_of(process);

	member_post(process);
	for (uint32_t i = 0; i < member->many_peers->window && member->next < member->end; i++)
		member_say(process);
	process->act_ns = member->next < member->end ? process->world->now_ns + PACE_NS : UINT64_MAX;
}

static const struct application many_peers_application = {member_step, member_complete};

struct process *many_peers_start(struct many_peers *many_peers, uint32_t index, const struct process_setup *setup)
{
	struct process_setup own = *setup;
	struct member *member = sim_alloc(sizeof(*member));
	struct process *process;

	own.application = &many_peers_application;
	process = process_new(many_peers->network, &many_peers->network->hosts[index], index, 1024, &own);
	member->many_peers = many_peers;
	member->seen = sim_alloc(many_peers->count / 8 + 1);
	process->state_of_application = member;
	many_peers->processes[index] = process;
	member_post(process);
	return process;
}

void many_peers_send(struct process *process, uint32_t first, uint32_t count)
{
	struct member *member = member_of(process);

	member->next = first;
	member->end = first + count;
	process_wake(process, process->world->now_ns);
}

void many_peers_end(struct many_peers *many_peers, uint32_t index)
{
	struct process *process = many_peers->processes[index];

	if (!process)
		return;
	process->host->down = true;
	free(member_of(process)->seen);
	free(member_of(process));
	process_free(process);
	many_peers->processes[index] = NULL;
}

/* Nothing more is awaited. */
void many_peers_rest(struct many_peers *many_peers)
{
	for (uint32_t i = 0; i < many_peers->count; i++) {
		struct process *process = many_peers->processes[i];
		struct member *member = process ? member_of(process) : NULL;

		for (struct slot *slot = process ? member->slots : NULL; slot && slot < member->slots + SLOTS; slot++)
			if (slot->posted && !thole_cancel_context(process->endpoint, slot))
				world_fail(process->world, "process %u receives something though all is at rest", i);
	}
}

void many_peers_init(struct many_peers *many_peers, struct network *network, uint32_t count)
{
	*many_peers = (struct many_peers){
		.network = network,
		.processes = sim_alloc(count * sizeof(struct process *)),
		.count = count,
		.window = 4,
	};
}

void many_peers_fini(struct many_peers *many_peers)
{
	for (uint32_t i = 0; i < many_peers->count; i++)
		many_peers_end(many_peers, i);
	free(many_peers->processes);
}
