/* SPDX-License-Identifier: BSD-3-Clause */
#include "carrier.h"

#include <stdlib.h>
#include <string.h>

#include "mover.h"

enum {
	TURNS_MAX = 16,         /* advances of one step */
	STEP_LEAST_NS = 100,    /* so that time goes on */
	DEAF_NS = 100 * MICROSECOND,
};

/* The simulator's kernel: what is random to an engine. */
static void process_random(void *arg, void *bytes, size_t length)
{
	struct process *process = arg;
	uint8_t *at = bytes;

	for (; length > 0; length--)
		*at++ = (uint8_t)(dice_next(&process->world->kernel) >> 24);
}

static void process_complete(void *arg, const struct thole_completion *completion)
{
	struct process *process = arg;

	process->application->complete(process, completion);
}

uint32_t process_of_peer(const struct process *process, uint32_t peer)
{
	struct peer *known = endpoint_peer(process->endpoint, peer);

	if (known && process->network->numbered)
		return known->base.parts.network[4];
	return known ? (uint32_t)known->base.parts.endpoint : UINT32_MAX;
}

void process_advance(struct process *process)
{
	for (int turn = 0; turn < TURNS_MAX; turn++) {
		if (endpoint_advance(process->endpoint, process->world->now_ns) == 0)
			return;
		if (process->nic && process->nic->cpu_ns > process->world->now_ns)
			return; /* it is some time on: others go first */
	}
}

/* When it has to run again; at once where its application has not seen all that was found. */
static void process_schedule(struct process *process, bool found)
{
	struct world *world = process->world;
	uint64_t next_ns = found ? world->now_ns : endpoint_deadline(process->endpoint), blocked_ns = 0;

	if (process->act_ns < next_ns)
		next_ns = process->act_ns;
	for (uint32_t i = 0; i < process->wire_count; i++) {
		struct wire *wire = &process->wires[i];

		if (wire_due(wire) < next_ns)
			next_ns = wire_due(wire) > world->now_ns ? wire_due(wire) : world->now_ns;
		if (wire->blocked_until_ns > blocked_ns)
			blocked_ns = wire->blocked_until_ns;
	}
	if (process->nic && sim_nic_due(process->nic) < next_ns)
		next_ns = sim_nic_due(process->nic);
	if (process->nic && process->ready_ns < process->nic->cpu_ns) {
		process->ready_ns = process->nic->cpu_ns;
		next_ns = process->ready_ns < next_ns ? process->ready_ns : next_ns;
	}
	if (process->wire_count && engine_busy(process_engine(process)) && blocked_ns < next_ns)
		next_ns = blocked_ns > world->now_ns ? blocked_ns : world->now_ns;
	if (next_ns == UINT64_MAX) {
		world_cancel(world, &process->wake);
		return;
	}
	if (next_ns < process->ready_ns)
		next_ns = process->ready_ns;
	if (next_ns < process->computing_ns)
		next_ns = process->computing_ns;
	world_set(world, &process->wake, next_ns);
}

static void process_step(struct world *world, struct event *event)
{
	struct process *process = container_of(event, struct process, wake);
	uint64_t frames = 0;
	uint32_t calls;

	if (world->now_ns < process->computing_ns) {
		world_set(world, event, process->computing_ns);
		return;
	}
	process->steps++;
	process_advance(process);
	calls = endpoint_of(process->endpoint)->calls;
	if (process->application)
		process->application->step(process);
	if (!process->endpoint)
		return;
	process_advance(process);
	for (uint32_t i = 0; i < process->wire_count; i++) {
		frames += process->wires[i].received;
		process->wires[i].received = 0;
	}
	process->ready_ns = world->now_ns + process->step_ns + frames * process->frame_ns;
	process_schedule(process, endpoint_of(process->endpoint)->calls != calls);
}

void process_wake(struct process *process, uint64_t when_ns)
{
	if (when_ns < process->ready_ns)
		when_ns = process->ready_ns;
	if (when_ns < process->computing_ns)
		when_ns = process->computing_ns;
	if (!event_is_set(&process->wake) || process->wake.node.key >> WORLD_TIE_BITS > when_ns)
		world_set(process->world, &process->wake, when_ns);
}

void process_compute(struct process *process, uint64_t ns)
{
	world_tell(process->world, "%u computes for %llu us", process->index, (unsigned long long)ns / MICROSECOND);
	process->computing_ns = process->world->now_ns + ns;
	process_wake(process, process->computing_ns);
}

struct process *process_new(struct network *network, struct host *host, uint32_t index, uint16_t port,
			    const struct process_setup *setup)
{
	struct world *world = network->world;
	struct process *process = sim_alloc(sizeof(*process));
	struct thole_endpoint_attr attr = {.complete = setup->polls ? NULL : process_complete, .complete_arg = process};
	struct address_parts parts = {.host = random_mix(host->index + 1)};
	struct options options = setup->options;
	struct link *links[WIRES];
	bool adapter = network->carrier && carrier_serves(network->carrier, index);

	process->world = world;
	process->network = network;
	process->host = host;
	process->index = index;
	process->application = setup->application;
	process->id = dice_next(&world->kernel) << 32 | index;
	process->act_ns = UINT64_MAX;
	process->step_ns = STEP_LEAST_NS;
	process->frame_ns = STEP_LEAST_NS;
	process->wake.run = process_step;
	process->wire_count = network->carrier && !network->carrier->beside       ? 0
			      : !setup->raw || network->numbered                    ? 1
			      : setup->lane && !(setup->mixed && host->index & 1) ? 3
										  : 2;
	parts.endpoint = process->id;
	network_address(host, port, parts.network);
	if (adapter && process->wire_count)
		parts.network[1] |= ADDRESS_CARD;
	if (network->numbered) { /* no number comes again, so that each is known by it */
		uint8_t mac[6];

		network_mac(host, mac);
		address_mxoe(mac, (uint8_t)index, &parts);
	}
	options.checksum &= !(setup->one_sided && index & 1);
	if (endpoint_create(&attr, &options, &parts, dice_next(&world->kernel), &process->endpoint) != 0)
		world_fail(world, "process %u has no endpoint: %s", index, thole_detail());
	for (uint32_t i = 0; i < process->wire_count; i++) {
		wire_open(&process->wires[i], network, process, i, port);
		links[i] = &process->wires[i].link;
		if (i == WIRE_UDP && setup->moves && !network->numbered && (world->seed ^ index) % 3)
			process->wires[i].mover = sim_mover_open(&process->wires[i], world->seed ^ process->id);
	}
	if ((process->wire_count && datagram_attach(&process->endpoint->base, setup->codec, links, process->wire_count,
						    process_random, process) != 0) ||
	    (adapter && carrier_attach(network->carrier, process) != 0))
		world_fail(world, "process %u has no network: %s", index, thole_detail());
	thole_endpoint_address(process->endpoint, &process->address);
	host->process = process;
	world_tell(world, "%u starts on host %u", index, host->index);
	return process;
}

static void process_end(struct process *process, enum process_state state)
{
	world_tell(process->world, "%u %s", process->index, state == PROCESS_CLOSED ? "closes" : "crashes");
	world_mix_word(process->world, (uint64_t)state << 32 | process->index);
	world_cancel(process->world, &process->wake);
	process->state = (uint8_t)state;
	process->ended_ns = process->world->now_ns;
}

void process_close(struct process *process)
{
	struct thole_endpoint *endpoint = process->endpoint;

	process_end(process, PROCESS_CLOSED);
	thole_endpoint_close(endpoint);
	process->endpoint = NULL;
	process->host->process = NULL;
	if (process->network->carrier)
		carrier_ended(process->network->carrier, process);
}

void process_crash(struct process *process)
{
	struct thole_endpoint *endpoint = process->endpoint;

	process_end(process, PROCESS_CRASHED);
	process->endpoint = NULL;
	process->host->process = NULL;
	endpoint_vanish(endpoint);
	if (process->network->carrier)
		carrier_ended(process->network->carrier, process);
}

void process_free(struct process *process)
{
	if (process->endpoint)
		process_crash(process);
	free(process);
}
