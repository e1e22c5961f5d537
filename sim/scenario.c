/* SPDX-License-Identifier: BSD-3-Clause */
#include "scenario.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/counters.h"
#include "many_peers.h"
#include "transport/datagram/mac.h"

/* Options as in a program's start, but that nothing outside of it matters. */
static void setup_defaults(struct simulation *simulation)
{
	simulation->setup = (struct process_setup){.application = &traffic_application, .codec = &codec_native};
	simulation->setup.moves = simulation->moves;
	if (simulation->codec)
		simulation->setup.codec = simulation->codec;
	if (options_defaults(&simulation->setup.options, NULL) != 0)
		world_fail(&simulation->world, "the defaults are not valid");
	simulation->setup.options.integrity = simulation->integrity;
	if (simulation->integrity > OPTION_INTEGRITY_OFF)
		simulation->setup.options.job_key = UINT64_C(0x7468656b6579);
}

static bool numbered(const struct simulation *simulation)
{
	return !simulation->setup.codec->indexed;
}

static void setup_network(struct simulation *simulation, uint32_t hosts)
{
	setup_defaults(simulation);
	network_init(&simulation->network, &simulation->world, hosts);
	simulation->network.numbered = numbered(simulation);
	conditions_good(&simulation->network.conditions);
	if (simulation->nic) {
		carrier_init(&simulation->carrier, &simulation->network, simulation->nic);
		simulation->carrier.any = simulation->any_nic;
		simulation->carrier.beside = simulation->beside;
	}
	traffic_init(&simulation->traffic, &simulation->network);
}

/* What mxoe can: frames of one length that are not checked, and messages. */
static void limit_to_codec(struct simulation *simulation)
{
	struct conditions *conditions = &simulation->network.conditions;
	struct traffic_plan *plan = &simulation->traffic.plan;

	if (!numbered(simulation))
		return;
	conditions->corrupt = 0;
	conditions->frame_max = conditions->route_max = 9000;
	if (conditions->receive_room < 512 << 10)
		conditions->receive_room = 512 << 10;
	plan->remote = plan->plain = plan->imm = 0;
}

static void start_all(struct simulation *simulation)
{
	limit_to_codec(simulation);
	for (uint32_t i = 0; i < simulation->network.host_count; i++)
		traffic_start(&simulation->traffic, &simulation->network.hosts[i], &simulation->setup);
}

/* How long everything may take after the faults. */
static uint64_t settle_limit(const struct simulation *simulation)
{
	return 3 * simulation->setup.options.peer_timeout + 20 * (uint64_t)SECOND;
}

/* ---- Random traffic under faults ------------------------------------------------------------------------ */

static void run_random(struct simulation *simulation)
{
	static const uint64_t eager[] = {0, 100, 4096, 32768, 65536};
	struct world *world = &simulation->world;
	struct options *options = &simulation->setup.options;
	struct dice *dice = &world->faults;
	uint64_t duration_ns;

	setup_network(simulation, (uint32_t)dice_between(dice, 2, dice_below(dice, 4) ? 4 : 8));
	conditions_random(&simulation->network.conditions, dice);
	if (dice_below(dice, 2) == 0) {
		options->checksum = 1;
		simulation->network.conditions.corrupt =
			dice_below(dice, 2) ? 0 : (uint32_t)dice_scale(dice, 100, 50000);
	}
	options->net_eager_max = eager[dice_below(dice, 5)];
	options->eager_max = 65536;
	options->peer_timeout = dice_between(dice, 4, 10) * SECOND;
	options->job_key = dice_below(dice, 2) && simulation->integrity <= OPTION_INTEGRITY_OFF ? 0 : dice_next(dice);
	if (options->integrity == OPTION_INTEGRITY_AUTO && mac_libcrypto())
		/* any of them; no draw, so that seeds stay what they are */
		options->integrity = options->job_key >> 8 & 3;
	options->unexpected_max = dice_below(dice, 2) ? 65536 : 64 << 20;
	options->sends_max = dice_below(dice, 4) ? 65536 : 8;
	simulation->setup.raw = dice_below(dice, 2) || simulation->links > 2;
	simulation->setup.lane = simulation->links > 2;
	simulation->setup.mixed = world->seed & 1;
	/* of who has not heard of it yet nothing but a proof shows that a bit was altered */
	simulation->setup.one_sided = world->seed & 2 && (options->job_key || !simulation->network.conditions.corrupt);
	simulation->network.lane = (uint8_t)(world->seed >> 1);
	simulation->setup.polls = dice_below(dice, 4) == 0;
	traffic_plan_random(&simulation->traffic.plan, &world->traffic);
	duration_ns = dice_between(dice, 5, 100) * simulation->traffic.plan.gap_ns;
	if (simulation->nic)
		carrier_random(&simulation->carrier, dice);
	faults_random(&simulation->faults, &simulation->traffic, &simulation->setup, duration_ns);
	start_all(simulation);
	world_run(world, world->now_ns + duration_ns);
	faults_stop(&simulation->faults);
	if (!world->failed)
		traffic_settle(&simulation->traffic, settle_limit(simulation));
}

/* ---- Tools of the scenarios below ------------------------------------------------------------------------- */

static struct process *process_at(struct simulation *simulation, uint32_t host)
{
	return simulation->network.hosts[host].process;
}

static void quiet_plan(struct simulation *simulation)
{
	simulation->traffic.plan = (struct traffic_plan){.gap_ns = 0};
}

/* Run until an operation has ended; false: it has not within the limit. */
static bool run_op(struct simulation *simulation, const struct op *op, uint64_t limit_ns)
{
	struct world *world = &simulation->world;
	uint64_t end_ns = world->now_ns + limit_ns;

	while (!world->failed && !op->ended && world->now_ns < end_ns)
		world_run(world, world->now_ns + 10 * MICROSECOND);
	return op->ended;
}

/* Nothing may fail in a world where nobody is gone. */
static void settle_without_errors(struct simulation *simulation)
{
	struct traffic *traffic = &simulation->traffic;
	uint64_t failed;

	if (simulation->world.failed)
		return;
	for (uint64_t i = failed = 0; i < traffic->op_count; i++)
		failed += traffic->ops[i]->ended && traffic->ops[i]->status &&
			  traffic->ops[i]->status != THOLE_ERR_TRUNCATED && !traffic->ops[i]->expected &&
			  !traffic->ops[i]->dropped;
	if (failed)
		world_fail(&simulation->world, "%llu operations have failed, and nobody is gone",
			   (unsigned long long)failed);
	else
		traffic_settle(traffic, settle_limit(simulation));
}

/* ---- Loss of one frame in five ---------------------------------------------------------------------------- */

static void run_loss(struct simulation *simulation)
{
	struct conditions *conditions = &simulation->network.conditions;
	struct dice *dice = &simulation->world.traffic;

	setup_network(simulation, 4);
	conditions->loss = 200000;
	conditions->duplicate = conditions->reorder = 50000;
	conditions->reorder_ns = 200 * MICROSECOND;
	simulation->setup.raw = simulation->world.seed & 1;
	traffic_plan_random(&simulation->traffic.plan, dice);
	simulation->traffic.plan.cancel = 0;
	start_all(simulation);
	world_run(&simulation->world, simulation->world.now_ns + 40 * simulation->traffic.plan.gap_ns);
	if (numbered(simulation))
		conditions->loss = 0; /* its time-outs are so long that much would take minutes */
	settle_without_errors(simulation);
}

/* ---- What a loss of one in a hundred costs ------------------------------------------------------------------ */

enum { STREAM_BYTES = 32 << 20, STREAM_WINDOW = 16 };

/* What is between the two. */
struct way {
	uint32_t loss;
	uint64_t latency_ns, gather_ns; /* as in struct conditions */
};

/* A stream of messages from one process to another, some under way at a time. Returns how long it takes. */
static uint64_t stream(struct simulation *simulation, const struct way *way, uint64_t bytes, uint64_t length)
{
	struct world *world = &simulation->world;
	struct op *receives[STREAM_WINDOW];
	struct op *first;
	uint64_t start_ns;

	setup_network(simulation, 2);
	simulation->network.conditions.loss = way->loss;
	simulation->network.conditions.latency_ns = way->latency_ns;
	simulation->network.conditions.gather_ns = way->gather_ns;
	quiet_plan(simulation);
	start_all(simulation);
	/* Once they are connected, which may take some tries. */
	first = traffic_receive(process_at(simulation, 1), NULL, 8, 0, 0, 0);
	traffic_send(process_at(simulation, 0), process_at(simulation, 1), 8, 0, 0);
	if (!run_op(simulation, first, 60 * (uint64_t)SECOND))
		world_fail(world, "they do not get connected");
	start_ns = world->now_ns;
	for (uint64_t i = 0; i < bytes / length && !world->failed; i++) {
		if (i >= STREAM_WINDOW && !run_op(simulation, receives[i % STREAM_WINDOW], 60 * (uint64_t)SECOND))
			world_fail(world, "the stream stands still");
		receives[i % STREAM_WINDOW] = traffic_receive(process_at(simulation, 1), NULL, length, 0, 0, 0);
		traffic_send(process_at(simulation, 0), process_at(simulation, 1), length, 0, 0);
	}
	settle_without_errors(simulation);
	for (uint64_t i = 1; i < simulation->traffic.op_count; i++)
		if (simulation->traffic.ops[i]->ended_ns > world->now_ns)
			world_fail(world, "an operation ends in the future");
	return simulation->traffic.ops[simulation->traffic.op_count - 2]->ended_ns - start_ns;
}

/* What a stream leaves. */
static void stream_end(struct simulation *simulation)
{
	traffic_fini(&simulation->traffic);
	if (simulation->nic)
		carrier_fini(&simulation->carrier);
	network_fini(&simulation->network);
}

static void run_stream_by(struct simulation *simulation, uint64_t gather_ns)
{
	static const uint64_t lengths[] = {4 << 10, 16 << 10, 64 << 10, 1 << 20, 4 << 20};
	struct way good = {.latency_ns = 5 * MICROSECOND, .gather_ns = gather_ns}, bad = good;
	size_t at = 0;

	bad.loss = 10000;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]) && !simulation->world.failed; i++) {
		uint64_t good_ns = stream(simulation, &good, STREAM_BYTES, lengths[i]), bad_ns;

		stream_end(simulation);
		if (simulation->world.failed)
			return setup_network(simulation, 1);
		bad_ns = stream(simulation, &bad, STREAM_BYTES, lengths[i]);
		at += (size_t)snprintf(simulation->note + at, sizeof(simulation->note) - at,
				       "%llu KiB: %.0f MB/s, %.0f with loss; ", (unsigned long long)lengths[i] >> 10,
				       STREAM_BYTES * 1e3 / (double)good_ns, STREAM_BYTES * 1e3 / (double)bad_ns);
		if (bad_ns > 2 * good_ns)
			world_fail(&simulation->world,
				   "%s one frame in a hundred is lost, and more than half of the bandwidth",
				   simulation->note);
		if (i + 1 < sizeof(lengths) / sizeof(lengths[0]) && !simulation->world.failed)
			stream_end(simulation);
	}
}

static void run_stream(struct simulation *simulation)
{
	run_stream_by(simulation, 0);
}

/* The same where frames come in packets: whoever speaks only after the first, or looks only at the last, stands
 * still at a gap. */
static void run_packets(struct simulation *simulation)
{
	run_stream_by(simulation, 60 * MICROSECOND);
}

/* ---- Where one frame in five is lost, each way -------------------------------------------------------------- */

enum { HEAVY_BYTES = 8 << 20, HEAVY_LIMIT_NS = SECOND };

/* 8 MB at a round trip of 20 us: as one window, as windows of one block and some, and as records. */
static void run_heavy(struct simulation *simulation)
{
	static const struct way way = {.loss = 200000, .latency_ns = 9 * MICROSECOND};
	static const uint64_t lengths[] = {HEAVY_BYTES, 100 << 10, 64 << 10};
	size_t at = 0;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]) && !simulation->world.failed; i++) {
		uint64_t taken_ns;

		if (i > 0)
			stream_end(simulation);
		taken_ns = stream(simulation, &way, HEAVY_BYTES, lengths[i]);
		at += (size_t)snprintf(simulation->note + at, sizeof(simulation->note) - at, "by %llu KiB: %.1f ms; ",
				       (unsigned long long)lengths[i] >> 10, (double)taken_ns / MILLISECOND);
		if (taken_ns > HEAVY_LIMIT_NS)
			world_fail(&simulation->world, "%s that is too long", simulation->note);
	}
}

/* ---- 64 to one -------------------------------------------------------------------------------------------- */

enum { INCAST_LARGE = 4, INCAST_SMALL = 16 };

static void run_incast(struct simulation *simulation)
{
	uint32_t senders = simulation->size ? simulation->size : 64;
	struct conditions *conditions = &simulation->network.conditions;
	struct world *world = &simulation->world;
	struct traffic *traffic = &simulation->traffic;
	uint64_t bytes = 0, start_ns, ideal_ns, taken_ns = 0;
	struct process *target;

	setup_network(simulation, senders + 1);
	conditions->receive_room = conditions->port_room = 512 << 10;
	quiet_plan(simulation);
	start_all(simulation);
	target = process_at(simulation, 0);
	target->frame_ns = MICROSECOND / 2;
	start_ns = world->now_ns;
	for (uint32_t i = 1; i <= senders; i++) {
		for (uint32_t k = 0; k < INCAST_LARGE + INCAST_SMALL && !world->failed; k++) {
			uint64_t length = k % 5 == 0 ? 256 << 10 : 2048;

			traffic_receive(target, NULL, length, k % 5 == 0, 0xff, 0);
			traffic_send(process_at(simulation, i), target, length, k % 5 == 0, 0);
			bytes += length;
		}
	}
	settle_without_errors(simulation);
	for (uint64_t i = 1; i < traffic->op_count; i++)
		if (traffic->ops[i]->ended_ns > taken_ns)
			taken_ns = traffic->ops[i]->ended_ns;
	ideal_ns = bytes * MILLISECOND / conditions->rate;
	snprintf(simulation->note, sizeof(simulation->note),
		 "%u to one, %llu MiB in %.1f ms, the line needs %.1f; %llu of %llu "
		 "frames found no room;",
		 senders, (unsigned long long)bytes >> 20, (double)(taken_ns - start_ns) / MILLISECOND,
		 (double)ideal_ns / MILLISECOND, (unsigned long long)simulation->network.overrun,
		 (unsigned long long)simulation->network.carried);
	/* Whoever is last may wait for some timeouts: of 40 seeds half took at most 1.4 times as long, and all 2.3. */
	if (taken_ns - start_ns > 5 * ideal_ns / 2)
		world_fail(world, "%s more than 2.5 times as long as the line needs", simulation->note);
}

/* ---- Partition and heal ----------------------------------------------------------------------------------- */

/* Some are cut off from the others for so long. A cut may last for a million times the gap between two operations, and
 * where it leaves all on one side nothing holds them back: then less densely. */
static void partition_once(struct simulation *simulation, uint64_t cut_ns)
{
	enum { STARTS = 500 };
	struct traffic_plan *plan = &simulation->traffic.plan;
	uint64_t gap_ns = plan->gap_ns;

	if (plan->gap_ns < cut_ns / STARTS)
		plan->gap_ns = cut_ns / STARTS;
	world_run(&simulation->world, simulation->world.now_ns + cut_ns);
	plan->gap_ns = gap_ns;
	network_heal(&simulation->network);
}

/* Short of the patience of anybody: nobody may notice but by the time it takes. */
static void run_partition(struct simulation *simulation)
{
	struct world *world = &simulation->world;
	struct dice *dice = &world->faults;

	setup_network(simulation, 6);
	simulation->network.conditions.loss = 10000;
	traffic_plan_random(&simulation->traffic.plan, &world->traffic);
	simulation->traffic.plan.cancel = 0;
	start_all(simulation);
	for (int i = 0; i < 4; i++) {
		world_run(world, world->now_ns + 20 * simulation->traffic.plan.gap_ns);
		network_cut(&simulation->network, dice_next(dice) & 63, dice_below(dice, 2));
		partition_once(simulation, dice_below(dice, simulation->setup.options.peer_timeout / 4));
	}
	simulation->network.conditions.loss = 0;
	settle_without_errors(simulation);
}

/* For longer: what is under way ends in an error in time, and whoever has said so stays with it. */
static void run_split(struct simulation *simulation)
{
	struct world *world = &simulation->world;
	struct traffic *traffic = &simulation->traffic;
	uint64_t patience_ns, cut_ns;

	setup_network(simulation, 4);
	patience_ns = simulation->setup.options.peer_timeout;
	traffic_plan_random(&traffic->plan, &world->traffic);
	traffic->plan.cancel = 0;
	start_all(simulation);
	world_run(world, world->now_ns + 30 * traffic->plan.gap_ns);
	cut_ns = world->now_ns;
	network_cut(&simulation->network, 3, false);
	world_run(world, world->now_ns + MILLISECOND);
	traffic_rest(traffic);
	world_run(world, cut_ns + patience_ns + patience_ns / 2);
	for (uint64_t i = 1; i < traffic->op_count && !world->failed; i++) {
		const struct op *op = traffic->ops[i];

		if (!op->ended && op->kind != OP_RECEIVE && op->kind != OP_SEND &&
		    (op->by->host->index < 2) != (op->peer->host->index < 2))
			world_fail(world, "operation %llu to the other side has not ended in time",
				   (unsigned long long)i);
	}
	network_heal(&simulation->network);
	if (!world->failed)
		traffic_settle(traffic, settle_limit(simulation));
}

/* ---- A host that restarts in the middle of a rendezvous ---------------------------------------------------- */

/* What has arrived as its sender was told is owed (settle.c), though that dies at once. */
static void arrive_and_die(struct simulation *simulation, struct process *from, struct process *to)
{
	struct op *send;

	simulation->network.conditions.loss = 100000;
	traffic_receive(to, NULL, 1 << 20, 9, 0xff, 0);
	send = traffic_send(from, to, 20000, 9, THOLE_ARRIVED);
	if (!run_op(simulation, send, 8 * (uint64_t)SECOND))
		world_fail(&simulation->world, "what is to arrive does not");
	traffic_crash(from);
}

static void run_restart(struct simulation *simulation)
{
	struct world *world = &simulation->world;
	struct dice *dice = &world->faults;
	struct process *a, *b, *victim;
	struct op *send, *receive, *again;
	bool sender_dies = dice_below(dice, 2), host_too = dice_below(dice, 2), listening = dice_below(dice, 2);

	setup_network(simulation, 2);
	simulation->network.conditions.refused = dice_below(dice, 2);
	quiet_plan(simulation);
	simulation->setup.port = 5000; /* the one that starts again has the same */
	simulation->setup.raw = dice_below(dice, 2);
	simulation->setup.options.peer_timeout = 4 * (uint64_t)SECOND;
	start_all(simulation);
	a = process_at(simulation, 0);
	b = process_at(simulation, 1);
	receive = traffic_receive(b, listening ? NULL : a, 4 << 20, 7, 0xff, 0);
	send = traffic_send(a, b, 4 << 20, 7, 0);
	/* The whole takes 3.4 ms. */
	world_run(world, world->now_ns + dice_below(dice, 4 * MILLISECOND));
	victim = sender_dies ? a : b;
	victim->host->down = host_too;
	traffic_crash(victim);
	world_run(world, world->now_ns + dice_below(dice, 2 * (uint64_t)SECOND));
	victim->host->down = false;
	traffic_start(&simulation->traffic, victim->host, &simulation->setup);
	if (world->failed)
		return;
	/* Who is left hears of it in time, though the one that is there now has the same port; */
	if (!sender_dies && !run_op(simulation, send, 8 * (uint64_t)SECOND))
		world_fail(world, "the sender does not hear that its receiver is gone");
	if (sender_dies && receive->match == NULL && !receive->ended &&
	    a->ended_ns > receive->started_ns + MILLISECOND && !run_op(simulation, receive, 8 * (uint64_t)SECOND))
		world_fail(world, "the receiver does not hear that its sender is gone");
	/* and the new one can be talked to. */
	a = process_at(simulation, 0);
	b = process_at(simulation, 1);
	traffic_receive(b, NULL, 1 << 20, 9, 0xff, 0);
	again = traffic_send(a, b, 1 << 20, 9, 0);
	/* A driver that went away without a word is waited for. */
	if (!world->failed &&
	    (!run_op(simulation, again, (simulation->moves ? 4 : 1) * (uint64_t)SECOND) || again->status))
		world_fail(world, "nobody reaches the process that has started again");
	if (!world->failed)
		arrive_and_die(simulation, a, b);
	if (!world->failed)
		traffic_settle(&simulation->traffic, settle_limit(simulation));
}

/* ---- A receiver that never posts, or one that screens messages and never looks ------------------------------ */

enum { FLOOD_MESSAGES = 600, FLOOD_LENGTH = 8000, FLOOD_BOUND = 1 << 20 };

static void run_flood(struct simulation *simulation)
{
	struct world *world = &simulation->world;
	struct process *target;
	bool screens = world->seed & 1, posted = false;
	uint64_t most = 0, held;
	uint32_t senders = 4;
	/* What may still come when the bound is reached: what was under way, a window of frames for each sender, and
	 * one message. */
	uint64_t late = senders * (uint64_t)(256 * 1472 + 65536);

	setup_network(simulation, 1 + senders);
	quiet_plan(simulation);
	simulation->setup.options.unexpected_max = FLOOD_BOUND;
	start_all(simulation);
	target = process_at(simulation, 0);
	thole_screen(target->endpoint, screens);
	for (uint32_t i = 0; i < FLOOD_MESSAGES && !world->failed; i++) {
		for (uint32_t k = 1; k <= senders; k++)
			traffic_send(process_at(simulation, k), target, FLOOD_LENGTH, i & 7, 0);
		world_run(world, world->now_ns + 30 * MICROSECOND);
		/* it matches all that arrives, and nothing may overtake */
		if (!posted && target->endpoint->screened > 0) {
			traffic_receive(target, NULL, FLOOD_LENGTH, 0, 0, 0);
			posted = true;
		}
		held = target->endpoint->base.counters[COUNTER_UNEXPECTED_BYTES];
		most = held > most ? held : most;
	}
	world_run(world, world->now_ns + SECOND);
	held = target->endpoint->base.counters[COUNTER_UNEXPECTED_BYTES];
	most = held > most ? held : most;
	snprintf(simulation->note, sizeof(simulation->note), "%u MiB sent, at most %llu KiB held, bound %u KiB;",
		 senders * FLOOD_MESSAGES * FLOOD_LENGTH >> 20, (unsigned long long)most >> 10, FLOOD_BOUND >> 10);
	if (most > FLOOD_BOUND + late)
		world_fail(world, "%llu bytes are held for messages that nobody wants", (unsigned long long)most);
	if (posted != screens)
		world_fail(world, "messages are screened, or are not, against what was said");
	thole_screen(target->endpoint, 0);
	settle_without_errors(simulation);
}

/* ---- A link of two dies ------------------------------------------------------------------------------------- */

enum { LINK_OPS = 8 };

/* Long and short messages both ways; all of them at once. */
static void link_begin(struct simulation *simulation, struct op *ops[LINK_OPS])
{
	struct process *a = process_at(simulation, 0), *b = process_at(simulation, 1);

	for (unsigned i = 0; i < LINK_OPS; i += 4) {
		uint64_t length = i ? 30000 : 4 << 20;

		ops[i] = traffic_receive(a, b, length, 1 + i, 0xff, 0);
		ops[i + 1] = traffic_receive(b, a, length, 2 + i, 0xff, 0);
		ops[i + 2] = traffic_send(b, a, length, 1 + i, 0);
		ops[i + 3] = traffic_send(a, b, length, 2 + i, 0);
	}
}

/* All of them end in time: with success, if they are to. */
static void link_end(struct simulation *simulation, struct op *const ops[LINK_OPS], bool well, const char *when)
{
	for (unsigned i = 0; i < LINK_OPS && !simulation->world.failed; i++)
		if (!run_op(simulation, ops[i], 12 * (uint64_t)SECOND))
			world_fail(&simulation->world, "%s: a transfer hangs", when);
		else if (well && ops[i]->status)
			world_fail(&simulation->world, "%s: a transfer fails, though one link of two is well", when);
}

static bool link_is(struct process *process, const char *bulk)
{
	struct thole_peer_info info;

	return thole_peer_info(process->endpoint, 0, &info) == 0 && strcmp(info.bulk, bulk) == 0;
}

/* Both ways or one, in the middle; it comes back, and is used again; and then neither link carries anything one way,
 * or anything long, while all else arrives. */
static void run_dying(struct simulation *simulation)
{
	struct world *world = &simulation->world;
	struct network *network = &simulation->network;
	uint64_t sides = 1 + world->seed % 3;
	unsigned wire = world->seed / 3 % 2 ? WIRE_RAW : WIRE_UDP;
	struct op *ops[LINK_OPS];

	setup_network(simulation, 2);
	quiet_plan(simulation);
	simulation->setup.raw = true;
	simulation->setup.options.peer_timeout = 4 * (uint64_t)SECOND;
	start_all(simulation);
	if (numbered(simulation))
		return; /* it has one link */
	link_begin(simulation, ops);
	link_end(simulation, ops, true, "before");
	world_run(world, world->now_ns + SECOND);
	link_begin(simulation, ops);
	world_run(world, world->now_ns + dice_below(&world->faults, 3 * MILLISECOND));
	network->mute[wire] = sides;
	link_end(simulation, ops, true, "without a link");
	world_run(world, world->now_ns + 10 * (uint64_t)SECOND);
	link_begin(simulation, ops);
	link_end(simulation, ops, true, "long without a link");
	network->mute[wire] = 0;
	for (unsigned i = 0; i < 2; i++) { /* the first has it looked for */
		world_run(world, world->now_ns + 10 * (uint64_t)SECOND);
		link_begin(simulation, ops);
		link_end(simulation, ops, true, "with both again");
	}
	if (!world->failed &&
	    (!link_is(process_at(simulation, 0), "udp") || !link_is(process_at(simulation, 1), "udp")))
		world_fail(world, "bulk does not go by the link that is there again");
	link_begin(simulation, ops);
	world_run(world, world->now_ns + dice_below(&world->faults, 3 * MILLISECOND));
	if (world->seed & 1) {
		network_cut(network, 1 + (world->seed / 2 & 1), true);
	} else {
		network->conditions.frame_max = 200;
		network->conditions.told = false;
		network->clogged = true;
	}
	link_end(simulation, ops, false, world->seed & 1 ? "one way only" : "short frames only");
	network_heal(network);
	network->conditions.frame_max = network->conditions.route_max;
	if (!world->failed)
		traffic_settle(&simulation->traffic, settle_limit(simulation));
}

/* ---- Each of three links dies --------------------------------------------------------------------------------- */

static void check_links(struct simulation *simulation, const char *records, const char *bulk, const char *when)
{
	for (uint32_t i = 0; i < 2 && !simulation->world.failed; i++) {
		struct thole_peer_info info;

		if (thole_peer_info(process_at(simulation, i)->endpoint, 0, &info) != 0)
			world_fail(&simulation->world, "%s: there is no peer", when);
		else if (strcmp(info.records, records) != 0 || strcmp(info.bulk, bulk) != 0)
			world_fail(&simulation->world, "%s: %u sends records by %s and bulk by %s, not by %s and %s",
				   when, i, info.records, info.bulk, records, bulk);
	}
}

/* Transfers, until what has died was noticed, and what is well again was tried. */
static void link_rounds(struct simulation *simulation, unsigned rounds, const char *when)
{
	struct op *ops[LINK_OPS];

	for (unsigned i = 0; i < rounds && !simulation->world.failed; i++) {
		world_run(&simulation->world, simulation->world.now_ns + SECOND);
		link_begin(simulation, ops);
		link_end(simulation, ops, true, when);
	}
}

/* One, then another one too, in the middle of transfers, both ways or one; they come back, and are used again by
 * rank. */
static void run_links(struct simulation *simulation)
{
	static const char *const best[WIRE_LANES][2] = {
		{"lane", "lane"}, {"raw", "lane"}, {"lane", "udp"}, {"raw", "udp"}};
	struct world *world = &simulation->world;
	struct network *network = &simulation->network;
	unsigned lot = (unsigned)world->seed, first = lot / 3 % WIRES, second = (first + 1 + lot / 9 % 2) % WIRES,
		 ranks = lot / 18 % WIRE_LANES;
	uint64_t sides = 1 + lot % 3;
	struct op *ops[LINK_OPS];

	setup_network(simulation, 2);
	quiet_plan(simulation);
	simulation->setup.raw = simulation->setup.lane = true;
	simulation->setup.options.peer_timeout = 4 * (uint64_t)SECOND;
	network->lane = (uint8_t)ranks;
	start_all(simulation);
	link_rounds(simulation, 1, "before");
	check_links(simulation, best[ranks][0], best[ranks][1], "before");
	for (unsigned i = 0; i < 2; i++) {
		link_begin(simulation, ops);
		world_run(world, world->now_ns + dice_below(&world->faults, 3 * MILLISECOND));
		network->mute[i ? second : first] = sides;
		link_end(simulation, ops, true, i ? "without two links" : "without a link");
		link_rounds(simulation, 8, i ? "long without two links" : "long without a link");
	}
	network->mute[first] = 0;
	link_rounds(simulation, 8, "with one again");
	network->mute[second] = 0;
	link_rounds(simulation, 8, "with all again");
	check_links(simulation, best[ranks][0], best[ranks][1], "with all again");
	if (!world->failed)
		traffic_settle(&simulation->traffic, settle_limit(simulation));
}

/* ---- Exhausted pools ---------------------------------------------------------------------------------------- */

/* The engine's frames are few from the beginning to the end: all goes on, more slowly. */
static void run_low_memory(struct simulation *simulation)
{
	struct world *world = &simulation->world;

	setup_network(simulation, 4);
	simulation->network.conditions.loss = 20000;
	traffic_plan_random(&simulation->traffic.plan, &world->traffic);
	simulation->traffic.plan.cancel = 0;
	start_all(simulation);
	for (uint32_t i = 0; i < 4; i++) {
		struct engine *engine = process_engine(process_at(simulation, i));

		engine->small_frames.bound = 64; /* a chunk; and the frames of one longest record and a few more */
		engine->large_frames.bound = ENGINE_PIECE_MAX / (1472 - PACKET_HEAD_MAX) + 8;
		engine->trains[0].bound = engine->trains[1].bound = engine->trains[2].bound = 1;
		engine->serves.bound = engine->block_pool.bound = 16;
	}
	world_run(world, world->now_ns + 50 * simulation->traffic.plan.gap_ns);
	simulation->network.conditions.loss = 0;
	settle_without_errors(simulation);
}

/* ---- One slow or dead peer delays no other -------------------------------------------------------------------- */

/* Rounds of short and long messages, to and fro, between one process and each of the others that are well. */
static uint64_t serve_rounds(struct simulation *simulation, uint32_t well)
{
	struct world *world = &simulation->world;
	struct process *hub = process_at(simulation, 0);
	uint64_t start_ns = world->now_ns;

	for (uint32_t round = 0; round < 20 && !world->failed; round++) {
		struct op *ops[16][4];

		for (uint32_t i = 1; i <= well; i++) {
			struct process *other = process_at(simulation, i);
			uint64_t length = round % 2 ? 300000 : 500;

			ops[i][0] = traffic_receive(hub, other, length, 1, 0xff, 0);
			ops[i][1] = traffic_receive(other, hub, length, 2, 0xff, 0);
			ops[i][2] = traffic_send(other, hub, length, 1, 0);
			ops[i][3] = traffic_send(hub, other, length, 2, 0);
		}
		for (uint32_t i = 1; i <= well; i++)
			for (int k = 0; k < 4; k++)
				if (!run_op(simulation, ops[i][k], SECOND) || ops[i][k]->status)
					world_fail(world, "process %u does not get on", i);
	}
	return world->now_ns - start_ns;
}

static uint64_t run_apart_with(struct simulation *simulation, bool bad)
{
	struct world *world = &simulation->world;
	struct process *hub, *slow, *dead;
	uint64_t taken_ns;

	setup_network(simulation, 8);
	quiet_plan(simulation);
	start_all(simulation);
	hub = process_at(simulation, 0);
	slow = process_at(simulation, 6);
	dead = process_at(simulation, 7);
	serve_rounds(simulation, 7);
	if (bad) {
		/* Both have sent many RTS, and are to be sent much. */
		for (int i = 0; i < 8; i++) {
			for (struct process *other = slow; other; other = other == slow ? dead : NULL) {
				traffic_receive(hub, other, 4 << 20, 3, 0xff, 0);
				traffic_receive(other, hub, 4 << 20, 4, 0xff, 0);
				traffic_send(other, hub, 4 << 20, 3, 0);
				traffic_send(hub, other, 4 << 20, 4, 0);
				traffic_send(hub, other, 30000, 5, 0);
			}
		}
		process_compute(slow, 5 * (uint64_t)SECOND);
		dead->host->down = true;
		traffic_crash(dead);
	}
	taken_ns = serve_rounds(simulation, 5);
	if (!world->failed)
		traffic_settle(&simulation->traffic, settle_limit(simulation));
	return taken_ns;
}

static void run_apart(struct simulation *simulation)
{
	uint64_t bad_ns, good_ns = run_apart_with(simulation, false);

	if (simulation->world.failed)
		return;
	traffic_fini(&simulation->traffic);
	if (simulation->nic)
		carrier_fini(&simulation->carrier);
	network_fini(&simulation->network);
	bad_ns = run_apart_with(simulation, true);
	snprintf(simulation->note, sizeof(simulation->note), "%.2f ms beside a slow and a dead peer, %.2f without;",
		 (double)bad_ns / MILLISECOND, (double)good_ns / MILLISECOND);
	if (bad_ns > 2 * good_ns)
		world_fail(&simulation->world, "%s they hold up the others", simulation->note);
}

/* ---- Starved peers while ways change ------------------------------------------------------------------------ */

/* A process that others leave no processor looks at nothing for up to seconds, in the midst of going over to an
 * adapter's queue and back: ports go down, queues break, frames are lost. It is shorter than anybody's patience, so
 * nothing may fail, and nothing may wait for ever. */
static void run_starved(struct simulation *simulation)
{
	struct world *world = &simulation->world;
	struct traffic_plan *plan = &simulation->traffic.plan;
	struct dice *dice = &world->faults;
	uint64_t gap_ns, most_ns;

	setup_network(simulation, (uint32_t)dice_between(dice, 2, 4));
	simulation->network.conditions.loss = dice_below(dice, 2) ? 0 : (uint32_t)dice_scale(dice, 1000, 200000);
	traffic_plan_random(plan, &world->traffic);
	plan->cancel = 0;
	gap_ns = plan->gap_ns;
	most_ns = simulation->setup.options.peer_timeout / 3;
	if (simulation->nic) {
		carrier_random(&simulation->carrier, dice);
		simulation->carrier.loss = simulation->carrier.duplicate = 0;
	}
	start_all(simulation);
	for (int i = 0; i < 20 && !world->failed; i++) {
		uint32_t host = (uint32_t)dice_below(dice, simulation->network.host_count);
		struct process *process = process_at(simulation, host);
		uint64_t ns = dice_scale(dice, 100 * MICROSECOND, most_ns);

		world_run(world, world->now_ns + dice_below(dice, 20 * gap_ns));
		if (process->nic && dice_below(dice, 3) == 0)
			sim_nic_port(process->nic, false);
		process_compute(process, ns);
		plan->gap_ns = gap_ns > ns / 100 ? gap_ns : ns / 100;
		world_run(world, world->now_ns + dice_below(dice, ns));
		if (process->nic)
			sim_nic_port(process->nic, true);
		world_run(world, process->computing_ns);
		plan->gap_ns = gap_ns;
	}
	simulation->network.conditions.loss = 0;
	if (simulation->nic)
		faults_stop_adapters(&simulation->carrier.fabric.faults);
	settle_without_errors(simulation);
}

/* ---- Who has looked late misses what is lost as soon as others ------------------------------------------------- */

enum {
	AWAY_TIMES = 5,
	AWAY_SHORT = 8,          /* bytes of a message in one frame, */
	AWAY_LONG = 300 << 10,   /* and of one that is fetched, which takes 250 us */
	/* until what was lost is there: time-outs of a trip of some 20 us, and of one of some 60 us */
	AWAY_SHORT_NS = 2 * MILLISECOND,
	AWAY_LONG_NS = 8 * MILLISECOND,
};

/* A message from the first process to the second. Who waits for an answer then may compute; or the network may carry
 * nothing from cut_ns on, until all is lost that comes. Returns how long it takes from then on. */
static uint64_t away_message(struct simulation *simulation, uint64_t length, bool computes, uint64_t cut_ns)
{
	struct world *world = &simulation->world;
	struct process *from = process_at(simulation, 0), *to = process_at(simulation, 1);
	struct op *receive = traffic_receive(to, from, length, 1, 0xff, 0);
	struct op *send = traffic_send(from, to, length, 1, 0);
	uint64_t start_ns = world->now_ns;

	if (computes) {
		world_run(world, start_ns + (length == AWAY_LONG ? 12u : 2u) * MICROSECOND);
		process_compute(length == AWAY_LONG ? to : from, 300 * MILLISECOND);
	}
	if (cut_ns) {
		world_run(world, start_ns + cut_ns);
		network_cut(&simulation->network, 1, true);
		world_run(world, start_ns + 300 * MICROSECOND);
		network_heal(&simulation->network);
		if (receive->ended)
			world_fail(world, "nothing was lost");
	}
	start_ns = world->now_ns;
	if (!run_op(simulation, receive, SECOND) || !run_op(simulation, send, SECOND))
		world_fail(world, "a message does not get through");
	start_ns = receive->ended_ns > start_ns ? receive->ended_ns - start_ns : 0;
	world_run(world, world->now_ns + MILLISECOND);
	return start_ns;
}

/* Short messages, whose sender computes, and long ones, whose receiver does, each while what it waits for arrives: it
 * is not to take that for how long the way is. */
static void run_away(struct simulation *simulation)
{
	struct world *world = &simulation->world;
	uint64_t short_ns, long_ns;

	setup_network(simulation, 2);
	quiet_plan(simulation);
	start_all(simulation);
	for (int i = 0; i < 8 * AWAY_TIMES && !world->failed; i++) {
		bool computes = i >= 7 * AWAY_TIMES;

		away_message(simulation, AWAY_SHORT, computes, 0);
		away_message(simulation, AWAY_LONG, computes, 0);
	}
	short_ns = away_message(simulation, AWAY_SHORT, false, MICROSECOND);
	long_ns = away_message(simulation, AWAY_LONG, false, 100 * MICROSECOND);
	snprintf(simulation->note, sizeof(simulation->note), "%.2f ms after the loss of a short message, %.2f of a "
		 "long one's end;", (double)short_ns / MILLISECOND, (double)long_ns / MILLISECOND);
	if (short_ns > AWAY_SHORT_NS || long_ns > AWAY_LONG_NS)
		world_fail(world, "%s that is too long", simulation->note);
	settle_without_errors(simulation);
}

/* ---- Many peers ----------------------------------------------------------------------------------------------- */

static uint64_t memory_used(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* Every one to every other. */
static void run_all_to_all(struct simulation *simulation)
{
	uint32_t count = simulation->size ? simulation->size : 1000;
	struct world *world = &simulation->world;
	struct many_peers many_peers;
	uint64_t before, after, start_ns;

	setup_network(simulation, count);
	many_peers_init(&many_peers, &simulation->network, count);
	for (uint32_t i = 0; i < count; i++)
		many_peers_start(&many_peers, i, &simulation->setup);
	before = memory_used();
	start_ns = world->now_ns;
	for (uint32_t i = 0; i < count; i++)
		many_peers_send(many_peers.processes[i], i + 1, count - 1);
	while (!world->failed && many_peers.received < (uint64_t)count * (count - 1) &&
	       world->now_ns < start_ns + 60 * (uint64_t)SECOND)
		world_run(world, world->now_ns + MILLISECOND);
	after = memory_used();
	snprintf(simulation->note, sizeof(simulation->note),
		 "%u processes, %llu messages in %.1f ms, %llu MiB, %llu bytes for each "
		 "connection's end;",
		 count, (unsigned long long)many_peers.received, (double)(world->now_ns - start_ns) / MILLISECOND,
		 (unsigned long long)(after - before) >> 20,
		 (unsigned long long)((after - before) / ((uint64_t)count * (count - 1))));
	if (many_peers.received < (uint64_t)count * (count - 1))
		world_fail(world, "%s not all have arrived", simulation->note);
	many_peers_rest(&many_peers);
	world_run(world, world->now_ns + 60 * (uint64_t)SECOND);
	if (!world->failed && world->heap.count > 0)
		world_fail(world, "something still goes on though all is at rest");
	many_peers_fini(&many_peers);
}

enum { IDLE_WAVE = 100, IDLE_BYTES_MAX = 1024 };

/* One process knows ten thousand others, which have said one word and are at rest. To spare memory they are there a
 * hundred at a time; that they are gone then is nothing that anybody at rest could see. */
static void run_idle(struct simulation *simulation)
{
	uint32_t count = simulation->size ? simulation->size : 10000;
	struct world *world = &simulation->world;
	struct process *hub;
	struct many_peers many_peers;
	uint64_t before, bytes;

	setup_network(simulation, count + 1);
	many_peers_init(&many_peers, &simulation->network, count + 1);
	hub = many_peers_start(&many_peers, 0, &simulation->setup);
	before = memory_used();
	for (uint32_t first = 1; first <= count && !world->failed; first += IDLE_WAVE) {
		uint32_t end = first + IDLE_WAVE <= count + 1 ? first + IDLE_WAVE : count + 1;

		for (uint32_t i = first; i < end; i++)
			many_peers_send(many_peers_start(&many_peers, i, &simulation->setup), 0, 1);
		world_run(world, world->now_ns + 100 * MILLISECOND);
		many_peers_send(hub, first, end - first);
		world_run(world, world->now_ns + SECOND);
		for (uint32_t i = first; i < end; i++)
			many_peers_end(&many_peers, i);
	}
	bytes = (memory_used() - before) / count;
	snprintf(simulation->note, sizeof(simulation->note), "%u peers at rest, %llu bytes for each;", count,
		 (unsigned long long)bytes);
	if (many_peers.received != 2 * (uint64_t)count)
		world_fail(world, "%llu of %llu messages have arrived", (unsigned long long)many_peers.received,
			   2 * (unsigned long long)count);
	if (!simulation->instrumented && bytes >= IDLE_BYTES_MAX)
		world_fail(world, "%s too many", simulation->note);
	many_peers_rest(&many_peers);
	world_run(world, world->now_ns + 60 * (uint64_t)SECOND);
	if (endpoint_deadline(hub->endpoint) != UINT64_MAX || process_engine(hub)->timers.count > 0 ||
	    world->heap.count > 0)
		world_fail(world, "something still goes on though all is at rest");
	many_peers_fini(&many_peers);
}

const struct scenario scenarios[] = {
	{"random", run_random, "operations of all kinds under faults of all kinds", false},
	{"loss", run_loss, "one frame in five is lost, and none of the operations fails", false},
	{"stream", run_stream, "what a loss of one frame in a hundred costs", false},
	{"packets", run_packets, "the same where frames come in packets of many", false},
	{"heavy", run_heavy, "8 MB where one frame in five is lost, each way", false},
	{"incast", run_incast, "many send to one at once", false},
	{"partition", run_partition, "cuts that heal before anybody loses patience", false},
	{"split", run_split, "a cut that lasts", false},
	{"restart", run_restart, "a host that restarts in the middle of a rendezvous", false},
	{"dying", run_dying, "one link of two dies in the middle of transfers, and comes back", true},
	{"links", run_links, "two links of three die one after the other, and come back", true},
	{"flood", run_flood, "a receiver that never posts", false},
	{"low-memory", run_low_memory, "pools that are exhausted", true},
	{"apart", run_apart, "one slow and one dead peer beside others", false},
	{"starved", run_starved, "processes that get no processor for seconds, as ways change", false},
	{"away", run_away, "what is lost after processes have looked at nothing for a while", true},
	{"all-to-all", run_all_to_all, "a thousand processes, each to each", false},
	{"idle", run_idle, "ten thousand peers at rest", true},
	{.name = NULL},
};
