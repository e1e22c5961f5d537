/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thole-sim-nic [--costs COSTS] [MODEL...]: messages between two endpoints over simulated adapters, each way, as JSON:
 * the machine, and for each length what a message takes, in nanoseconds from its being sent to its completion at the
 * receiver.
 *
 *   raw        both sides had the memory registered: a rendezvous and a read
 *   register   both register for this message, and take it back
 *   copy       one copy into registered memory, one write, one copy out
 *   super      the superpipeline, each message from memory of its own
 *   uncapped   the same with bays so long that no chunk is capped, as in the paper; with its chunks
 *   first      chosen without being told, each message from memory of its own, after 20 messages
 *   reuse      the same from the same memory each time, with a monitor
 *   blind      the same without one
 *
 * thole-sim-nic [--costs COSTS] --caps [MODEL...]: the superpipeline with each of several caps of its chunks, and with
 * the one that is learnt, after 20 messages: with what the adapter says of itself; where it says nothing; where that is
 * four times too slow, and too fast. Fails where a learnt one takes more than 5% longer than the best.
 *
 * With COSTS (costs.h) a model's adapters and network join machines whose registrations and copies take that; the
 * learnt caps are only told then.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "carrier.h"
#include "costs.h"
#include "scenario.h"

enum {
	LEAST = 4096,
	MOST = 64 << 20,
	STRIDE = 8192,     /* from one message's memory to the next one's, where each has its own */
	FEW = 6,           /* messages until the copies' rates are known */
	LEARNT = 24,       /* and until the way is */
	LAST = 4,          /* of them are counted */
	CHUNKS = 4096,
};

struct way {
	const char *name;
	enum choose_way way;
	bool monitor, reuse, whole, uncapped;
	unsigned messages;
	uint32_t cap;      /* 0: learnt */
};

static const struct way ways[] = {
	{.name = "raw", .way = CHOOSE_READ, .monitor = true, .reuse = true, .messages = FEW},
	{.name = "register", .way = CHOOSE_READ, .messages = FEW},
	{.name = "copy", .way = CHOOSE_PIPELINE, .whole = true, .messages = FEW},
	{.name = "super", .way = CHOOSE_PIPELINE, .messages = LEARNT},
	{.name = "uncapped", .way = CHOOSE_PIPELINE, .uncapped = true, .messages = FEW},
	{.name = "first", .monitor = true, .messages = LEARNT},
	{.name = "reuse", .monitor = true, .reuse = true, .messages = LEARNT},
	{.name = "blind", .reuse = true, .messages = LEARNT},
};

/* Two processes, one of which sends. */
struct bench {
	struct world world;
	struct network network;
	struct carrier carrier;
	struct process *process[2];
	uint64_t end_ns;           /* of the message that arrived last */
	uint64_t failed;
};

static struct bench bench;

static void bench_step(struct process *process)
{
	process->act_ns = UINT64_MAX;
}

static void bench_complete(struct process *process, const struct thole_completion *completion)
{
	bench.failed += completion->status != 0;
	if (process == bench.process[1])
		bench.end_ns = process->nic->nic.calls->now_ns(&process->nic->nic);
}

static const struct application bench_application = {.step = bench_step, .complete = bench_complete};

static void bench_begin(const struct nic_model *model, const struct way *way, uint64_t bytes)
{
	struct process_setup setup = {.application = &bench_application, .codec = &codec_native};
	struct card_setup *card = &bench.carrier.setup;

	memset(&bench, 0, sizeof(bench));
	world_init(&bench.world, 1, false);
	network_init(&bench.network, &bench.world, 2);
	carrier_init(&bench.carrier, &bench.network, model);
	bench.carrier.monitor = way->monitor;
	card->way = way->way;
	card->cap = way->cap;
	if (way->whole || way->uncapped) {
		card->bay = (uint32_t)(bytes + bytes / 256 + 2 * PLAN_BLOCK) / PLAN_BLOCK * PLAN_BLOCK;
		card->bays = 4;
	}
	if (way->uncapped)
		card->cap = plan_fits(model->limits.can & NIC_ORDERED, card->bay);
	if (way->whole)
		card->first = card->cap = (uint32_t)(bytes + PLAN_UNIT - 1) / PLAN_UNIT * PLAN_UNIT;
	if (card->first > PLAN_LENGTH_MAX)
		card->first = card->cap = PLAN_LENGTH_MAX;
	if (options_defaults(&setup.options, NULL) != 0)
		world_fail(&bench.world, "the defaults are not valid");
	for (uint32_t i = 0; i < 2; i++)
		bench.process[i] = process_new(&bench.network, &bench.network.hosts[i], i, 0, &setup);
}

static void bench_end(void)
{
	for (int i = 0; i < 2; i++)
		process_free(bench.process[i]);
	carrier_fini(&bench.carrier);
	network_fini(&bench.network);
	world_fini(&bench.world);
}

/* One message, from the call until it is there. */
static uint64_t bench_message(uint8_t *from, uint8_t *to, uint64_t bytes)
{
	struct thole_endpoint *sender = bench.process[0]->endpoint, *receiver = bench.process[1]->endpoint;
	uint64_t start_ns = bench.world.now_ns;
	uint32_t peer;

	bench.carrier.fabric.chunk_count = 0;
	bench.end_ns = 0;
	if (thole_peer(sender, &bench.process[1]->address, &peer) != 0 ||
	    thole_recv(receiver, THOLE_ANY, to, bytes, 1, UINT64_MAX, 0, NULL, NULL) != 0 ||
	    thole_send(sender, peer, from, bytes, 1, 0, 0, NULL, NULL) != 0)
		world_fail(&bench.world, "%s", thole_detail());
	process_wake(bench.process[0], start_ns);
	process_wake(bench.process[1], start_ns);
	world_run(&bench.world, UINT64_MAX);
	if (bench.end_ns == 0 || bench.failed)
		world_fail(&bench.world, "a message of %llu bytes has not arrived", (unsigned long long)bytes);
	for (int i = 0; i < 2; i++) /* the next one begins when both have nothing to do */
		if (bench.world.now_ns < bench.process[i]->nic->cpu_ns)
			bench.world.now_ns = bench.process[i]->nic->cpu_ns;
	return bench.end_ns - start_ns;
}

static void print_chunks(void)
{
	const struct fabric *fabric = &bench.carrier.fabric;

	printf(", \"chunks\": [");
	for (uint32_t i = 0; i < fabric->chunk_count && i < fabric->chunk_room; i++)
		printf("%s%u", i ? ", " : "", fabric->chunks[i]);
	printf("]");
}

static uint32_t longest_chunk(void)
{
	const struct fabric *fabric = &bench.carrier.fabric;
	uint32_t longest = 0;

	for (uint32_t i = 0; i < fabric->chunk_count && i < fabric->chunk_room; i++)
		if (fabric->chunks[i] > longest)
			longest = fabric->chunks[i];
	return longest;
}

/* Prints the mean of the last ones, and returns it; 0: that failed. */
static uint64_t bench_way(const struct nic_model *model, const struct way *way, uint64_t bytes)
{
	uint64_t span = bytes + (uint64_t)way->messages * STRIDE, sum = 0;
	uint8_t *memory[2] = {sim_alloc(span), sim_alloc(span)};
	uint32_t chunks[CHUNKS];
	bool failed;

	bench_begin(model, way, bytes);
	bench.carrier.fabric.chunks = chunks;
	bench.carrier.fabric.chunk_room = CHUNKS;
	for (unsigned i = 0; i < way->messages && !bench.world.failed; i++) {
		uint64_t offset = way->reuse ? 0 : (uint64_t)i * STRIDE;
		uint64_t ns = bench_message(memory[0] + offset, memory[1] + offset, bytes);

		sum += i + LAST >= way->messages ? ns : 0;
	}
	failed = bench.world.failed;
	if (failed)
		fprintf(stderr, "%s, %llu bytes: %s\n", way->name, (unsigned long long)bytes, bench.world.failure);
	printf(", \"%s\": %llu", way->name, (unsigned long long)(sum / LAST));
	if (way->uncapped)
		print_chunks();
	if (way->way == CHOOSE_PIPELINE && !way->whole && !way->uncapped && !way->cap)
		printf(", \"%s_chunk\": %u", way->name, longest_chunk());
	bench_end();
	free(memory[0]);
	free(memory[1]);
	return failed ? 0 : sum / LAST;
}

static void print_model(const struct nic_model *model)
{
	printf("\"name\": \"%s\", \"about\": \"%s\", \"latency_ns\": %llu, \"rate\": %u, \"gap_ns\": %llu, "
	       "\"overhead_ns\": %llu, \"poll_ns\": %llu, \"register_ns\": %llu, \"register_page_ns\": %llu, "
	       "\"copy\": [",
	       model->name, model->about, (unsigned long long)model->latency_ns, model->rate,
	       (unsigned long long)model->gap_ns, (unsigned long long)model->overhead_ns,
	       (unsigned long long)model->poll_ns, (unsigned long long)model->register_ns,
	       (unsigned long long)model->register_page_ns);
	for (int i = 0; i < NIC_LEVELS && model->copy[i].rate; i++)
		printf("%s[%llu, %u]", i ? ", " : "",
		       (unsigned long long)(model->copy[i].bytes == UINT64_MAX ? 0 : model->copy[i].bytes),
		       model->copy[i].rate);
	printf("]");
}

static bool curves(const struct nic_model *model)
{
	bool fine = true;

	printf("{");
	print_model(model);
	printf(", \"block\": %d, \"messages\": [", PLAN_BLOCK);
	for (uint64_t bytes = LEAST; bytes <= MOST; bytes *= 2) {
		printf("%s\n  {\"bytes\": %llu", bytes > LEAST ? "," : "", (unsigned long long)bytes);
		for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
			fine &= bench_way(model, &ways[i], bytes) > 0;
		printf("}");
	}
	printf("]}");
	return fine;
}

/* ---- Caps ----------------------------------------------------------------------------------------- */

static const struct way fixed[] = {
	{.name = "4096", .way = CHOOSE_PIPELINE, .messages = FEW, .cap = 4096},
	{.name = "8192", .way = CHOOSE_PIPELINE, .messages = FEW, .cap = 8192},
	{.name = "16384", .way = CHOOSE_PIPELINE, .messages = FEW, .cap = 16384},
	{.name = "32768", .way = CHOOSE_PIPELINE, .messages = FEW, .cap = 32768},
	{.name = "65536", .way = CHOOSE_PIPELINE, .messages = FEW, .cap = 65536},
};

/* What the adapter says: the truth in these parts; 0: nothing. */
static const struct {
	struct way way;
	unsigned number, parts;
} learnt[] = {
	{{.name = "hinted", .way = CHOOSE_PIPELINE, .messages = LEARNT}, 1, 1},
	{{.name = "unhinted", .way = CHOOSE_PIPELINE, .messages = LEARNT}, 0, 1},
	{{.name = "slow_hint", .way = CHOOSE_PIPELINE, .messages = LEARNT}, 1, 4},
	{{.name = "fast_hint", .way = CHOOSE_PIPELINE, .messages = LEARNT}, 4, 1},
};

static bool caps_of_length(const struct nic_model *model, uint64_t bytes)
{
	uint64_t best = UINT64_MAX, ns;
	bool fine = true;

	for (size_t i = 0; i < sizeof(fixed) / sizeof(*fixed); i++) {
		ns = bench_way(model, &fixed[i], bytes);
		fine &= ns > 0;
		best = ns < best ? ns : best;
	}
	for (size_t i = 0; i < sizeof(learnt) / sizeof(*learnt); i++) {
		struct nic_model said = *model;

		said.limits.rate = said.limits.rate * learnt[i].number / learnt[i].parts;
		said.limits.latency_ns = learnt[i].number
						 ? said.limits.latency_ns * learnt[i].parts / learnt[i].number : 0;
		ns = bench_way(&said, &learnt[i].way, bytes);
		if (ns > 0 && ns * 100 <= best * 105)
			continue;
		fine = false;
		fprintf(stderr, "%s, %llu bytes, %s: %llu ns; the best fixed cap takes %llu ns\n", model->name,
			(unsigned long long)bytes, learnt[i].way.name, (unsigned long long)ns,
			(unsigned long long)best);
	}
	return fine;
}

static bool caps(const struct nic_model *model)
{
	bool fine = true;

	printf("{\"name\": \"%s\", \"messages\": [", model->name);
	for (uint64_t bytes = 2 * LEAST; bytes <= MOST; bytes *= 2) {
		printf("%s\n  {\"bytes\": %llu", bytes > 2 * LEAST ? "," : "", (unsigned long long)bytes);
		fine &= caps_of_length(model, bytes);
		printf("}");
	}
	printf("]}");
	return fine;
}

/* The same adapter and network, another machine. */
static struct nic_model model_here(const struct nic_model *model, const struct costs *costs)
{
	struct nic_model here = *model;

	here.register_ns = costs->pin;
	here.register_page_ns = (costs->pin_page + 500) / 1000;
	here.deregister_ns = costs->unpin;
	here.deregister_page_ns = (costs->unpin_page + 500) / 1000;
	memcpy(here.copy, costs->copy, sizeof(here.copy));
	return here;
}

int main(int argc, char **argv)
{
	bool fine = true, some = false, told, compare;
	struct costs costs = costs_argument(&argc, &argv, &told);

	compare = argc > 1 && strcmp(argv[1], "--caps") == 0;
	if (compare) {
		argc--;
		argv++;
	}
	printf("[");
	for (const struct nic_model *model = nic_models; model->name; model++) {
		struct nic_model here = told ? model_here(model, &costs) : *model;
		bool wanted = argc == 1;

		for (int i = 1; i < argc; i++)
			wanted |= strcmp(argv[i], model->name) == 0;
		if (!wanted)
			continue;
		printf("%s", some ? ",\n" : "");
		some = true;
		fine &= compare ? caps(&here) || told : curves(&here);
	}
	printf("]\n");
	return fine && some ? 0 : 1;
}
