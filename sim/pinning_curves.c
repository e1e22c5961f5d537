/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thole-sim-pinning [--costs COSTS]: what the paper on decoupled pinning measured, in virtual time, as JSON: a large
 * message between two hosts by request and pull, with its regions (memory/region.h) pinned before it, kept pinned,
 * pinned while it is under way, or found in a cache; on the processors of its table 1, and on one that others keep
 * busy; on its line, and on one ten times faster. With COSTS (costs.h) on this machine's processor alone. Times are
 * nanoseconds, as [bytes, time, frames that found no pinned page]; and for 1 MiB by how many times slower a processor
 * pins, as [times, time, frames].
 * (Goglin: Decoupling Memory Pinning from the Application, sections 3 and 4.)
 *
 * Each host pins with its processor, a chunk after the other. The receiver keeps the books of engine and driver
 * (block.h, answer.h); the sender's card sends what was asked for as fast as the line takes it. A frame whose page is
 * not pinned, on either side, is lost. The last line shows what pinning a few pages before anything is sent is good
 * for, the paper's advice.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "costs.h"
#include "memory/region.h"
#include "transport/datagram/answer.h"
#include "transport/datagram/block.h"
#include "world.h"

enum {
	PAGE_SHIFT = 12,
	FRAME = 4096,              /* of MXoE: bytes of data, a page's */
	CHUNK = 32,                /* pages that are pinned at once */
	LINE = 1120,               /* bytes in a microsecond: what its figures reach with pins that are kept */
	FAST_LINE = 10 * LINE,
	TRIP_NS = 15000,           /* `usually 10-20 us with Open-MX` */
	LOOKUP_NS = 100,           /* of the cache */
	UNPIN_PERCENT = 27,        /* of what pinning and unpinning a page costs: 100 of 370 instructions here */
	LEAST = 65536,
	MOST = 16 << 20,
	BUSY = 60,                 /* times slower is a processor whose interrupts leave it little */
	BUSIEST = 1024,
	LOADED = 1 << 20,          /* bytes of a message there */
	FIRST_PAGES = 32,          /* pinned before the request, where a few are */
};

enum way { BEFORE, KEPT, OVERLAPPED, CACHED, WAYS };

static const char *const way_names[WAYS] = {"before", "kept", "overlapped", "cached"};

struct processor {
	const char *name;
	uint64_t base_ns;            /* a region */
	uint64_t pin_ps, unpin_ps;   /* each page of it */
};

#define TABLE(name, base_ns, page_ns) \
	{name, base_ns, (page_ns) * 10 * (100 - UNPIN_PERCENT), (page_ns) * 10 * UNPIN_PERCENT}

/* Table 1 of the paper: a region, and a page, pinned and unpinned. */
static const struct processor processors[] = {
	TABLE("Opteron 265", 4200, 720), TABLE("Opteron 8347", 2200, 330), TABLE("Xeon E5435", 2300, 250),
	TABLE("Xeon E5460", 1300, 150),
};

/* Whose pins, over what. */
struct setting {
	const struct processor *processor;
	uint64_t load;               /* times slower */
	uint64_t line;               /* bytes in a microsecond */
};

struct host {
	struct event pinned;       /* a chunk is */
	struct region region;
	struct region_segment segment;
	struct region_run run;
	uint64_t page_ps;
};

struct message;

/* A PULL, from its sending to its last frame. */
struct pull {
	struct list_node node;     /* message->pulls, in order of arrival */
	struct answer answer;
	uint64_t come_ns;
};

struct message {
	struct world world;
	struct host hosts[2];      /* the sender, the receiver */
	struct event begin, line, timer;
	uint64_t line_rate;
	struct blocks blocks;
	struct block_peer peer;
	struct block_fetch fetch;
	struct list_node pulls;
	struct arrival {
		struct event event;
		struct message *message;
		uint64_t offset;
		uint32_t length;
	} *arrivals;               /* a ring: frames on the way */
	uint64_t sent;
	uint64_t misses;           /* frames for pages that were not pinned */
	bool over;
};

enum { ARRIVALS = 1024 };

/* ---- Pins ------------------------------------------------------------------------------------------- */

static void host_pin(struct world *world, struct host *host)
{
	if (region_next(&host->region, CHUNK, &host->run))
		world_set(world, &host->pinned, world->now_ns + host->run.pages * host->page_ps / 1000);
}

static void host_pinned(struct world *world, struct event *event)
{
	struct host *host = container_of(event, struct host, pinned);

	region_add(&host->region, &host->run, host->run.pages);
	host_pin(world, host);
}

static void host_pin_all(struct host *host)
{
	while (region_next(&host->region, UINT32_MAX, &host->run))
		region_add(&host->region, &host->run, host->run.pages);
}

static uint64_t host_pin_ns(const struct processor *processor, uint64_t length)
{
	return processor->base_ns + (length >> PAGE_SHIFT) * processor->pin_ps / 1000;
}

static uint64_t host_unpin_ns(const struct processor *processor, uint64_t length)
{
	return (length >> PAGE_SHIFT) * processor->unpin_ps / 1000;
}

static void host_declare(struct host *host, const struct setting *setting, uint64_t length)
{
	host->segment = (struct region_segment){.address = UINT64_C(1) << 32, .length = length};
	region_init(&host->region, &host->segment, 1, PAGE_SHIFT);
	host->pinned.run = host_pinned;
	host->page_ps = setting->processor->pin_ps * setting->load;
}

/* ---- The pull --------------------------------------------------------------------------------------- */

static struct block *transfer_block(struct block_peer *peer)
{
	(void)peer;
	return sim_alloc(sizeof(struct block));
}

static void transfer_block_back(struct block_peer *peer, struct block *block)
{
	(void)peer;
	free(block);
}

static void transfer_pull(struct block_fetch *fetch, const struct block_pull *asked)
{
	struct message *message = container_of(fetch, struct message, fetch);
	struct pull *pull = sim_alloc(sizeof(*pull));
	struct packet_pull packet = {.offset = asked->offset, .length = asked->length, .wanted = asked->wanted,
				     .frame = FRAME, .total = fetch->length};

	answer_begin(&pull->answer, &packet);
	pull->come_ns = message->world.now_ns + TRIP_NS / 2;
	list_push_back(&message->pulls, &pull->node);
	if (!event_is_set(&message->line))
		world_set(&message->world, &message->line, pull->come_ns);
}

static const struct block_calls transfer_calls = {
	.get = transfer_block, .put = transfer_block_back, .pull = transfer_pull};

static void transfer_time_out(struct message *message)
{
	if (message->over || message->peer.timeout_ns == 0)
		world_cancel(&message->world, &message->timer);
	else
		world_set(&message->world, &message->timer, message->peer.timeout_ns);
}

static void transfer_late(struct world *world, struct event *event)
{
	struct message *message = container_of(event, struct message, timer);

	block_expire(&message->peer, world->now_ns);
	block_ask(&message->blocks, world->now_ns);
	transfer_time_out(message);
}

static void transfer_arrived(struct world *world, struct event *event)
{
	struct arrival *arrival = container_of(event, struct arrival, event);
	struct message *message = arrival->message;
	enum block_verdict verdict;
	struct block *block;
	uint32_t index;

	block = block_find(&message->fetch, arrival->offset, arrival->length, &index, &verdict);
	if (message->over || !block)
		return;
	if (!region_ready(&message->hosts[1].region, arrival->offset, arrival->length)) {
		message->misses++;
		return;
	}
	if (block_received(block, index, 1, NULL, world->now_ns)) {
		message->over = true;
		block_fetch_end(&message->fetch);
	} else {
		block_ask(&message->blocks, world->now_ns);
	}
	transfer_time_out(message);
}

/* The line is free: the next frame that was asked for. */
static void transfer_line(struct world *world, struct event *event)
{
	struct message *message = container_of(event, struct message, line);
	struct list_node *node = list_first(&message->pulls);
	struct pull *pull = container_of(node, struct pull, node);
	struct answer_frame frame;
	struct arrival *arrival;
	uint32_t at;

	if (!node || message->over)
		return;
	if (pull->come_ns > world->now_ns) {
		world_set(world, event, pull->come_ns);
		return;
	}
	at = pull->answer.done;
	if (!answer_next(&pull->answer, &at, pull->answer.length, &frame)) {
		list_remove(node);
		free(pull);
		world_set(world, event, world->now_ns);
		return;
	}
	pull->answer.done = at;
	world_set(world, event, world->now_ns + frame.length * 1000 / message->line_rate);
	if (!region_ready(&message->hosts[0].region, frame.offset, frame.length)) {
		message->misses++;
		return;
	}
	arrival = &message->arrivals[message->sent++ % ARRIVALS];
	*arrival = (struct arrival){.event = {.run = transfer_arrived}, .message = message, .offset = frame.offset,
				    .length = frame.length};
	world_set(world, &arrival->event, world->now_ns + frame.length * 1000 / message->line_rate + TRIP_NS / 2);
}

/* The request has come. */
static void transfer_begin(struct world *world, struct event *event)
{
	struct message *message = container_of(event, struct message, begin);

	block_fetch_begin(&message->fetch, &message->peer);
	block_ask(&message->blocks, world->now_ns);
	transfer_time_out(message);
}

static void transfer_init(struct message *message, const struct setting *setting, uint64_t length)
{
	static const struct block_rules rules = {.frames_max = BLOCK_FRAMES_MAX, .blocks_max = UINT32_MAX,
						 .pull_blocks = 4, .selective = true};

	*message = (struct message){.line_rate = setting->line, .begin = {.run = transfer_begin},
				    .line = {.run = transfer_line}, .timer = {.run = transfer_late}};
	world_init(&message->world, 1, false);
	message->arrivals = sim_alloc(ARRIVALS * sizeof(*message->arrivals));
	list_init(&message->pulls);
	block_init(&message->blocks, &rules, &transfer_calls);
	message->blocks.outstanding_max = WINDOW_AUTO;
	block_peer_init(&message->peer, &message->blocks, 1);
	message->fetch.length = length;
	message->fetch.frame = FRAME;
	for (int i = 0; i < 2; i++)
		host_declare(&message->hosts[i], setting, length);
}

static void transfer_fini(struct message *message)
{
	struct list_node *node;

	while ((node = list_first(&message->pulls))) {
		list_remove(node);
		free(container_of(node, struct pull, node));
	}
	free(message->arrivals);
	world_fini(&message->world);
}

/* Pins of the first pages are there, of the others they come one chunk after the other. */
static void transfer_overlap(struct message *message, struct host *host, uint64_t from_ns, uint64_t pages)
{
	if (pages && region_next(&host->region, pages, &host->run))
		region_add(&host->region, &host->run, host->run.pages);
	if (region_next(&host->region, CHUNK, &host->run))
		world_set(&message->world, &host->pinned, from_ns + host->run.pages * host->page_ps / 1000);
}

/* From MPI_Send to where the receiver's MPI_Recv returns. first: pages that are pinned before anything is sent. */
static uint64_t transfer_time(const struct setting *setting, enum way way, uint64_t first, uint64_t length,
			      uint64_t *misses_p)
{
	const struct processor *processor = setting->processor;
	struct message message;
	uint64_t load = setting->load, began_ns, before_ns = 0, over_ns;
	uint64_t first_ns = first * (processor->pin_ps + processor->unpin_ps) / 1000 * load;

	transfer_init(&message, setting, length);
	began_ns = message.world.now_ns;
	if (way == BEFORE)
		before_ns = host_pin_ns(processor, length) * load;
	else if (way == OVERLAPPED)
		before_ns = first ? processor->base_ns * load + first_ns : 0;
	else if (way == CACHED)
		before_ns = LOOKUP_NS;
	/* The sender's part, the request, the receiver's part. */
	world_set(&message.world, &message.begin, began_ns + before_ns + TRIP_NS / 2 + before_ns);
	for (int i = 0; i < 2; i++) {
		uint64_t from_ns = began_ns + (i ? TRIP_NS / 2 : 0) + (1 + (uint64_t)i) * before_ns;

		if (way == OVERLAPPED)
			transfer_overlap(&message, &message.hosts[i],
					from_ns + (first ? 0 : processor->base_ns * load), first);
		else
			host_pin_all(&message.hosts[i]);
	}
	while (!message.over)
		world_run(&message.world, heap_first(&message.world.heap)->key >> WORLD_TIE_BITS);
	over_ns = message.world.now_ns;
	*misses_p = message.misses;
	transfer_fini(&message);
	/* The receiver unpins before it goes on; the sender while it waits for what comes next. */
	if (way == BEFORE || way == OVERLAPPED)
		over_ns += host_unpin_ns(processor, length) * load;
	return over_ns - began_ns;
}

/* ---- Curves ----------------------------------------------------------------------------------------- */

static void pinning_say_point(uint64_t along, const struct setting *setting, enum way way, uint64_t first,
			      uint64_t length, const char *end)
{
	uint64_t misses, ns = transfer_time(setting, way, first, length, &misses);

	printf("[%llu, %llu, %llu]%s", (unsigned long long)along, (unsigned long long)ns, (unsigned long long)misses,
	       end);
}

static void pinning_say_curve(const char *name, const struct setting *setting, enum way way, uint64_t first,
			      const char *end)
{
	printf("  \"%s\": [", name);
	for (uint64_t length = LEAST; length <= MOST; length *= 2)
		pinning_say_point(length, setting, way, first, length, length < MOST ? ", " : "");
	printf("]%s\n", end);
}

static void pinning_say(const char *name, struct setting setting, const char *end)
{
	printf(" \"%s\": {\n", name);
	for (enum way way = 0; way < WAYS; way++)
		pinning_say_curve(way_names[way], &setting, way, 0, ",");
	pinning_say_curve("overlapped, a few pages first", &setting, OVERLAPPED, FIRST_PAGES, "");
	printf(" }%s\n", end);
}

static void pinning_say_loads(const char *name, struct setting setting, const char *end)
{
	printf(" \"%s\": [", name);
	for (setting.load = 1; setting.load <= BUSIEST; setting.load *= 2)
		pinning_say_point(setting.load, &setting, OVERLAPPED, 0, LOADED, setting.load < BUSIEST ? ", " : "");
	printf("]%s\n", end);
}

/* A processor by itself and busy, on both lines. */
static void pinning_say_processor(const struct processor *processor)
{
	pinning_say(processor->name, (struct setting){processor, 1, LINE}, ",");
	pinning_say("busy", (struct setting){processor, BUSY, LINE}, ",");
	pinning_say("fast line", (struct setting){processor, 1, FAST_LINE}, ",");
	pinning_say("busy, fast line", (struct setting){processor, BUSY, FAST_LINE}, ",");
	pinning_say_loads("loads", (struct setting){processor, 1, LINE}, ",");
	pinning_say_loads("loads, fast line", (struct setting){processor, 1, FAST_LINE}, "");
}

int main(int argc, char **argv)
{
	size_t count = sizeof(processors) / sizeof(processors[0]);
	bool told;
	struct costs costs = costs_argument(&argc, &argv, &told);
	struct processor own = {"this machine", costs.pin + costs.unpin, costs.pin_page, costs.unpin_page};

	printf("{\n");
	for (size_t i = 0; i + 1 < count && !told; i++)
		pinning_say(processors[i].name, (struct setting){&processors[i], 1, LINE}, ",");
	pinning_say_processor(told ? &own : &processors[count - 1]);
	printf("}\n");
	return 0;
}
