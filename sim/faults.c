/* SPDX-License-Identifier: BSD-3-Clause */
#include "faults.h"

#include "carrier.h"

#include <stdlib.h>

/* A fault that lasts, or an answer to one. */
struct lasting {
	struct event event;
	struct list_node node;
	struct faults *faults;
	struct process *process;
	struct host *host;
	void (*end)(struct lasting *lasting);
};

static void lasting_end(struct world *world, struct event *event)
{
	struct lasting *lasting = container_of(event, struct lasting, event);

	world_cancel(world, event);
	list_remove(&lasting->node);
	lasting->end(lasting);
	free(lasting);
}

static struct lasting *lasting_begin(struct faults *faults, uint64_t ns, void (*end)(struct lasting *lasting))
{
	struct world *world = faults->traffic->world;
	struct lasting *lasting = sim_alloc(sizeof(*lasting));

	lasting->event.run = lasting_end;
	lasting->faults = faults;
	lasting->end = end;
	list_push_back(&faults->ends, &lasting->node);
	world_set(world, &lasting->event, world->now_ns + ns);
	return lasting;
}

static struct process *faults_victim(struct faults *faults)
{
	struct network *network = faults->traffic->network;

	return network->hosts[dice_below(&network->world->faults, network->host_count)].process;
}

/* ---- Each kind ------------------------------------------------------------------------------------------ */

static void cut_end(struct lasting *lasting)
{
	network_heal(lasting->faults->traffic->network);
}

static void fault_cut_for(struct faults *faults, uint64_t ns)
{
	struct network *network = faults->traffic->network;
	struct dice *dice = &network->world->faults;
	uint64_t all = network->host_count < 64 ? (UINT64_C(1) << network->host_count) - 1 : UINT64_MAX;

	if (network->cutting)
		return;
	network_cut(network, dice_next(dice) & all, dice_below(dice, 3) == 0);
	lasting_begin(faults, ns, cut_end);
}

static void fault_cut(struct faults *faults)
{
	fault_cut_for(faults, dice_scale(&faults->traffic->world->faults, 100 * MICROSECOND, faults->patience_ns / 4));
}

static void fault_long_cut(struct faults *faults)
{
	fault_cut_for(faults, 2 * faults->patience_ns);
}

static void restart(struct lasting *lasting)
{
	lasting->host->down = false;
	traffic_start(lasting->faults->traffic, lasting->host, lasting->faults->setup);
}

static void fault_crash(struct faults *faults)
{
	struct process *process = faults_victim(faults);
	struct dice *dice = &faults->traffic->world->faults;

	if (!process || faults->crashes_max == 0)
		return;
	faults->crashes_max--;
	process->host->down = dice_below(dice, 2);
	process->host->ghost = dice_below(dice, 4) ? NULL : process;
	traffic_crash(process);
	lasting_begin(faults, dice_scale(dice, 10 * MICROSECOND, 2 * faults->patience_ns), restart)->host =
		process->host;
}

static void fault_compute(struct faults *faults)
{
	struct process *process = faults_victim(faults);
	struct dice *dice = &faults->traffic->world->faults;

	if (process)
		process_compute(process, dice_scale(dice, 10 * MICROSECOND,
						    dice_below(dice, 8) ? 50 * MILLISECOND
						    : faults->setup->codec->indexed
							    ? 2 * faults->patience_ns
							    : faults->patience_ns / 4)); /* nobody answers for it */
}

/* Pools grow no more: of the engine's frames, which nobody may notice, or of requests, too. */
static void faults_exhaust(struct process *process, bool requests, bool on)
{
	static struct engine none; /* their pools are nobody's */
	static struct card no_card;
	struct engine *engine = process->wire_count ? process_engine(process) : &none;
	struct card *card = process->nic ? card_of(&process->endpoint->base) : &no_card;
	struct pool *pools[] = {&engine->small_frames, &engine->large_frames, &engine->trains[0],
				&engine->trains[1], &engine->trains[2], &engine->serves,
				&card->lends, &card->offers, &process->endpoint->requests,
				&process->endpoint->unexpected};
	size_t count = sizeof(pools) / sizeof(*pools) - (requests ? 0 : 2);

	world_tell(process->world, "%u has %s memory", process->index, on ? "no more" : "enough");
	process->low_memory |= requests && on;
	for (size_t i = 0; i < count; i++)
		pools[i]->bound = on && pools[i]->capacity ? pools[i]->capacity : 1 << 24;
	process_wake(process, process->world->now_ns);
}

static void low_memory_end(struct lasting *lasting)
{
	if (lasting->process->endpoint)
		faults_exhaust(lasting->process, true, false);
}

static void fault_low_memory(struct faults *faults)
{
	struct process *process = faults_victim(faults);
	struct dice *dice = &faults->traffic->world->faults;

	if (!process)
		return;
	faults_exhaust(process, dice_below(dice, 4) == 0, true);
	lasting_begin(faults, dice_scale(dice, 100 * MICROSECOND, 20 * MILLISECOND), low_memory_end)->process = process;
}

static void fault_close(struct faults *faults)
{
	struct process *process = faults_victim(faults);

	if (!process || faults->crashes_max == 0)
		return;
	faults->crashes_max--;
	player_of(process)->closing = true;
}

/* It runs, and does not look at a link. */
static void fault_away(struct faults *faults)
{
	struct process *process = faults_victim(faults);
	struct dice *dice = &faults->traffic->world->faults;

	if (!process)
		return;
	world_tell(process->world, "%u stays away from a link", process->index);
	wire_hide(&process->wires[dice_below(dice, process->wire_count)],
		  dice_scale(dice, 10 * MICROSECOND, 50 * MILLISECOND));
}

static void mute_end(struct lasting *lasting)
{
	lasting->host->mute = 0;
}

/* One of its links takes frames, and they do not arrive; what others send by it does. */
static void fault_mute(struct faults *faults)
{
	struct process *process = faults_victim(faults);
	struct dice *dice = &faults->traffic->world->faults;

	if (!process)
		return;
	process->host->mute = (uint8_t)(1u << dice_below(dice, process->wire_count));
	world_tell(process->world, "a link of host %u carries nothing out", process->host->index);
	lasting_begin(faults, dice_scale(dice, 100 * MICROSECOND, faults->patience_ns / 4), mute_end)->host =
		process->host;
}

static void port_up(struct lasting *lasting)
{
	if (lasting->process->endpoint)
		sim_nic_port(lasting->process->nic, true);
}

/* An adapter's port is down for some time: queues find out, or the process is told, or both. */
static void fault_port(struct faults *faults)
{
	struct process *process = faults_victim(faults);
	struct dice *dice = &faults->traffic->world->faults;

	if (!process || !process->nic)
		return;
	world_tell(process->world, "the port of %u is down", process->index);
	sim_nic_port(process->nic, false);
	lasting_begin(faults, dice_scale(dice, 10 * MICROSECOND, 2 * (uint64_t)SECOND), port_up)->process = process;
}

/* An adapter is taken out; or only says that something is wrong with it. */
static void fault_adapter(struct faults *faults)
{
	struct process *process = faults_victim(faults);
	bool gone = dice_below(&faults->traffic->world->faults, 2);

	if (!process || !process->nic)
		return;
	world_tell(process->world, "the adapter of %u %s", process->index, gone ? "is gone" : "has lost something");
	if (gone)
		sim_nic_gone(process->nic);
	else
		sim_nic_lost(process->nic);
}

static void faults_next(struct world *world, struct event *event)
{
	struct faults *faults = container_of(event, struct faults, next);
	uint64_t lot = dice_below(&world->faults, 1000000);
	const struct {
		uint32_t chance;
		void (*run)(struct faults *faults);
	} kinds[] = {{faults->cut, fault_cut},
		     {faults->long_cut, fault_long_cut},
		     {faults->crash, fault_crash},
		     {faults->compute, fault_compute},
		     {faults->low_memory, fault_low_memory},
		     {faults->close, fault_close},
		     {faults->away, fault_away},
		     {faults->mute, fault_mute},
		     {faults->port, fault_port},
		     {faults->adapter, fault_adapter}};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (lot < kinds[i].chance) {
			kinds[i].run(faults);
			break;
		}
		lot -= kinds[i].chance;
	}
	world_set(world, event, world->now_ns + dice_below(&world->faults, faults->gap_ns) + 1);
}

void faults_random(struct faults *faults, struct traffic *traffic, const struct process_setup *setup, uint64_t ns)
{
	struct world *world = traffic->world;
	struct dice *dice = &world->faults;

	*faults = (struct faults){
		.next.run = faults_next,
		.traffic = traffic,
		.setup = setup,
		.gap_ns = ns / dice_between(dice, 1, 20) + MICROSECOND,
		.patience_ns = setup->options.peer_timeout,
		.cut = dice_below(dice, 2) ? 200000 : 0,
		.long_cut = dice_below(dice, 8) ? 0 : 100000,
		.crash = dice_below(dice, 3) ? 0 : 50000,
		.compute = dice_below(dice, 2) ? 200000 : 0,
		.low_memory = dice_below(dice, 2) ? 200000 : 0,
		.close = dice_below(dice, 4) ? 0 : 50000,
		.away = dice_below(dice, 2) ? 150000 : 0,
		.mute = dice_below(dice, 3) ? 0 : 50000,
		.crashes_max = 4,
	};
	if (traffic->network->carrier && traffic->network->carrier->beside) {
		faults->port = dice_below(dice, 3) ? 300000 : 0;
		faults->adapter = dice_below(dice, 3) ? 0 : 50000;
	} else if (traffic->network->carrier) /* no links */
		faults->cut = faults->long_cut = faults->away = faults->mute = 0;
	list_init(&faults->ends);
	world_set(world, &faults->next, world->now_ns + dice_below(dice, faults->gap_ns) + 1);
}

void faults_stop_adapters(struct nic_faults *faults)
{
	*faults = (struct nic_faults){.reorder = faults->reorder};
}

void faults_stop(struct faults *faults)
{
	struct world *world = faults->traffic->world;
	struct network *network = faults->traffic->network;
	struct conditions *conditions = &network->conditions;

	world_cancel(world, &faults->next);
	while (!list_empty(&faults->ends))
		lasting_end(world, &container_of(list_first(&faults->ends), struct lasting, node)->event);
	network_heal(network);
	for (uint32_t i = 0; i < network->host_count; i++) {
		struct process *process = network->hosts[i].process;

		if (process && process->computing_ns > world->now_ns) {
			process->computing_ns = 0;
			process_wake(process, world->now_ns);
		}
	}
	conditions->loss = conditions->duplicate = conditions->reorder = conditions->corrupt = conditions->refuse = 0;
	conditions->raw_loss = 0;
	if (network->carrier) {
		network->carrier->loss = network->carrier->duplicate = 0;
		faults_stop_adapters(&network->carrier->fabric.faults);
	}
	for (uint32_t i = 0; i < network->host_count; i++)
		network->hosts[i].mute = 0;
}

/* ---- Networks ------------------------------------------------------------------------------------------- */

/* Often none, at times up to `most`. */
static uint32_t chance_random(struct dice *dice, uint32_t most)
{
	return dice_below(dice, 2) ? (uint32_t)dice_scale(dice, 100, most) : 0;
}

void conditions_random(struct conditions *conditions, struct dice *dice)
{
	static const uint32_t lengths[] = {548, 1232, 1400, 1472, 4000, 8972, 9216};

	*conditions = (struct conditions){
		.loss = chance_random(dice, 200000),
		.duplicate = chance_random(dice, 100000),
		.reorder = chance_random(dice, 300000),
		.refuse = chance_random(dice, 200000),
		.latency_ns = dice_scale(dice, MICROSECOND, 500 * MICROSECOND),
		.jitter_ns = dice_below(dice, 2) ? 0 : dice_scale(dice, MICROSECOND, 200 * MICROSECOND),
		.reorder_ns = dice_scale(dice, MICROSECOND, 2 * MILLISECOND),
		.rate = dice_scale(dice, 12500, 12500000),
		.send_room = (uint32_t)dice_scale(dice, 20000, 1 << 20),
		.port_room = (uint32_t)dice_scale(dice, 30000, 1 << 20),
		.receive_room = (uint32_t)dice_scale(dice, 40000, 4 << 20),
		.route_max = lengths[dice_below(dice, 7)],
		.told = dice_below(dice, 2),
		.refused = dice_below(dice, 4) != 0,
	};
	conditions->frame_max = dice_below(dice, 3) ? conditions->route_max : lengths[dice_below(dice, 7)];
	if (conditions->frame_max > conditions->route_max)
		conditions->frame_max = conditions->route_max;
	if (dice_below(dice, 2))
		conditions->gather_ns = dice_scale(dice, MICROSECOND, 200 * MICROSECOND);
	if (dice_below(dice, 4) == 0)
		conditions->raw_loss = dice_below(dice, 2) ? 1000000 : 300000;
}
