/* SPDX-License-Identifier: BSD-3-Clause */
#include "carrier.h"

#include <stdlib.h>
#include <string.h>

#include "base/endian.h"

/* A hello under way; or, without one, the news that its sender has ended. */
struct news {
	struct list_node node;
	struct event event;
	struct carrier *carrier;
	struct thole_address from;
	uint64_t to;             /* endpoint */
	uint32_t host;
	uint8_t bytes[HELLO_MAX];
	uint32_t length;
	bool ended;
};

static void news_free(struct news *news)
{
	list_remove(&news->node);
	free(news);
}

/* Who is meant, if that still runs. */
static struct process *news_target(const struct news *news)
{
	struct process *process = news->carrier->network->hosts[news->host].process;

	return process && process->endpoint && process->id == news->to ? process : NULL;
}

static struct transport_peer *peer_from(struct process *process, const struct thole_address *address)
{
	struct transport_owner *owner = &process->endpoint->base;
	struct transport_peer *peer;

	return owner->up->peer(owner, address, &peer) == 0 ? peer : NULL;
}

static void lose(struct process *process, const struct thole_address *address)
{
	struct transport_peer *peer = peer_from(process, address);

	if (peer && !peer->gone)
		process->endpoint->base.up->lost(peer, THOLE_ERR_PEER);
	process_wake(process, process->world->now_ns);
}

static void news_arrive(struct world *world, struct event *event)
{
	struct news *news = container_of(event, struct news, event);
	struct process *process = news_target(news);
	struct transport_peer *peer;

	if (process && process->computing_ns > world->now_ns) {
		world_set(world, event, process->computing_ns);
		return;
	}
	if (process && news->ended) {
		lose(process, &news->from);
	} else if (process) {
		peer = peer_from(process, &news->from);
		if (peer)
			pair_heard(peer, news->bytes, news->length);
		process_wake(process, world->now_ns);
	}
	news_free(news);
}

static struct news *news_new(struct carrier *carrier, struct process *from, uint64_t after_ns)
{
	struct news *news = sim_alloc(sizeof(*news));

	news->carrier = carrier;
	news->from = from->address;
	news->event.run = news_arrive;
	list_push_back(&carrier->in_flight, &news->node);
	world_set(from->world, &news->event, from->world->now_ns + after_ns);
	return news;
}

static void carrier_say(void *arg, struct transport_peer *peer, const uint8_t *bytes, uint32_t length)
{
	struct process *process = arg;
	struct carrier *carrier = process->network->carrier;
	struct dice *dice = &carrier->fabric.dice;
	int copies = dice_chance(dice, carrier->loss) ? 0 : 1 + dice_chance(dice, carrier->duplicate);

	for (; copies > 0; copies--) {
		struct news *news = news_new(carrier, process, carrier->latency_ns +
								       dice_below(dice, carrier->jitter_ns + 1));

		news->to = peer->parts.endpoint;
		news->host = load_be16(peer->parts.network + 6) - 1u; /* its IPv4 address ends with its number */
		memcpy(news->bytes, bytes, length);
		news->length = length;
	}
}

static const uint32_t *carrier_watch(void *arg, uint64_t address, uint64_t length, uint64_t *id_p)
{
	struct process *process = arg;

	return sim_nic_watch(process->nic, address, length, id_p);
}

static void carrier_unwatch(void *arg, uint64_t id)
{
	struct process *process = arg;

	sim_nic_unwatch(process->nic, id);
}

bool carrier_serves(const struct carrier *carrier, uint32_t process)
{
	return !carrier->beside || random_mix(carrier->network->world->seed ^ process) % 6 > 0;
}

static void carrier_wake(void *arg, uint64_t when_ns)
{
	struct process *process = arg;

	if (process->state == PROCESS_ALIVE)
		process_wake(process, when_ns);
}

int carrier_attach(struct carrier *carrier, struct process *process)
{
	uint32_t refuse = carrier->fabric.faults.refuse;
	int error;

	carrier->calls = carrier->beside ? verbs_carrier : (struct card_carrier){.say = carrier_say};
	if (carrier->monitor) {
		carrier->calls.watch = carrier_watch;
		carrier->calls.unwatch = carrier_unwatch;
	}
	process->nic = sim_nic_open(&carrier->fabric, carrier_wake, process);
	carrier->fabric.faults.refuse = 0;
	error = verbs_attach(&process->endpoint->base, &process->nic->nic, &carrier->setup,
			     &carrier->calls, process);
	carrier->fabric.faults.refuse = refuse;
	return error;
}

void carrier_ended(struct carrier *carrier, struct process *process)
{
	struct network *network = carrier->network;

	if (carrier->beside)
		return; /* its connections end */
	for (uint32_t i = 0; i < network->host_count; i++) {
		struct process *other = network->hosts[i].process;
		struct news *news;

		if (!other || other == process || !other->endpoint)
			continue;
		news = news_new(carrier, process, MILLISECOND + dice_below(&carrier->fabric.dice, 10 * MILLISECOND));
		news->to = other->id;
		news->host = i;
		news->ended = true;
	}
}

void carrier_init(struct carrier *carrier, struct network *network, const struct nic_model *model)
{
	*carrier = (struct carrier){.network = network, .monitor = true, .latency_ns = 30 * MICROSECOND};
	fabric_init(&carrier->fabric, network->world, model);
	card_setup_default(&carrier->setup);
	list_init(&carrier->in_flight);
	network->carrier = carrier;
}

void carrier_fini(struct carrier *carrier)
{
	struct list_node *node;

	while ((node = list_first(&carrier->in_flight))) {
		struct news *news = container_of(node, struct news, node);

		world_cancel(carrier->network->world, &news->event);
		news_free(news);
	}
	fabric_fini(&carrier->fabric);
}

void carrier_random(struct carrier *carrier, struct dice *dice)
{
	struct nic_faults *faults = &carrier->fabric.faults;
	struct card_setup *setup = &carrier->setup;
	uint32_t models = 0, drawn;

	while (nic_models[models].name)
		models++;
	drawn = (uint32_t)dice_below(dice, models);
	if (carrier->any)
		carrier->fabric.model = &nic_models[drawn];
	carrier->monitor = dice_below(dice, 2);
	carrier->loss = dice_below(dice, 2) ? 0 : (uint32_t)dice_scale(dice, 1000, 300000);
	carrier->duplicate = dice_below(dice, 2) ? 0 : (uint32_t)dice_scale(dice, 1000, 300000);
	carrier->jitter_ns = dice_scale(dice, 1, MILLISECOND);
	faults->error = dice_below(dice, 2) ? 0 : (uint32_t)dice_scale(dice, 100, 100000);
	faults->late = dice_below(dice, 2) ? 0 : (uint32_t)dice_scale(dice, 1000, 300000);
	faults->late_ns = dice_scale(dice, MICROSECOND, MILLISECOND);
	faults->refuse = dice_below(dice, 2) ? 0 : (uint32_t)dice_scale(dice, 10000, 500000);
	faults->reorder = dice_below(dice, 3) == 0;
	setup->slots = (uint32_t)dice_scale(dice, 4, 128);
	setup->receives = (uint32_t)dice_scale(dice, 8, 256);
	setup->slot = 512u << dice_below(dice, 5);
	setup->bay = 8192u << dice_below(dice, 4);
	setup->bays = (uint32_t)dice_scale(dice, 4, 16);
	setup->queues = (uint32_t)dice_scale(dice, 1, 32);
	setup->registrations = (uint32_t)dice_scale(dice, 1, 64);
	if (setup->queues > setup->receives / 2)
		setup->queues = setup->receives / 2;
	setup->way = (enum choose_way)dice_below(dice, CHOOSE_WAYS);
	setup->small = dice_below(dice, 4) ? (uint32_t)dice_scale(dice, 4, 256) : 0;
}
