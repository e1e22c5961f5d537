/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * thole-sim-sci [--costs COSTS]: what the paper on SCI measured, over its adapters in virtual time, as JSON: connecting
 * (table I), transfers by kind of segment (figures 3 and 4), by alignment (5), with what has to be set up (7); then
 * what a cache of connections, contiguous pages and longer lists make of it. Times are nanoseconds, as [bytes, time].
 *
 * With COSTS (costs.h) the same by another machine: pages are pinned, a message is one that wakes who gets it, and in
 * the adapter's place the kernel moves bytes into another process, by a list of pieces for control blocks.
 */
#include <stdio.h>
#include <stdlib.h>

#include "costs.h"
#include "memory/cache.h"
#include "sci.h"
#include "world.h"

enum {
	LEAST = 4096,
	TABLE_MOST = 262144,
	MOST = 16 << 20,
	HUGE_RUN = 512,          /* pages of a huge one */
	LONG_LIST = 512,         /* addresses of a message that is not a mailbox's */
	USES = 10,               /* of a buffer that is used again */
	SEED = 1,
};

struct wish {
	bool local_user, remote_user;
	uint32_t local_offset, remote_offset;
	bool prepare, connect; /* within what is timed */
	unsigned uses;         /* of the same buffers, by a cache; the time is of one; 0: one, without */
};

struct transfer {
	struct sci sci;
	struct sci_segment local, remote_segment;
	struct sci_remote remote;
	uint32_t monitor; /* nothing changes here */
};

static int dma_enter(void *arg, struct cache_entry *entry)
{
	struct transfer *transfer = arg;

	sci_prepare(&transfer->sci, 0, &transfer->local);
	sci_connect(&transfer->sci, 1, &transfer->remote_segment, &transfer->remote);
	entry->word = &transfer->monitor;
	entry->generation = transfer->monitor;
	return 0;
}

static void dma_leave(void *arg, struct cache_entry *entry)
{
	struct transfer *transfer = arg;

	(void)entry;
	sci_disconnect(&transfer->sci, 1, &transfer->remote);
	sci_release(&transfer->sci, 0, &transfer->local);
}

static const struct cache_registrar dma_registrar = {.enter = dma_enter, .leave = dma_leave};

static void dma_move(struct transfer *transfer, uint64_t length)
{
	if (sci_dma(&transfer->sci, 1, &transfer->local, 0, &transfer->remote, 0, length) == 0)
		abort();
}

static void dma_cached(struct transfer *transfer, uint64_t length, unsigned uses)
{
	void *memory = sim_alloc(cache_size(1));
	struct cache cache;

	cache_init(&cache, memory, 1, 1, UINT64_MAX);
	cache_serve(&cache, &dma_registrar, transfer);
	for (unsigned i = 0; i < uses; i++) {
		struct cache_entry *entry;

		if (cache_take(&cache, transfer->local.first, length, 0, &entry) != 0)
			abort();
		dma_move(transfer, length);
		cache_give(&cache, entry);
	}
	cache_fini(&cache);
	free(memory);
}

/* Nanoseconds of one transfer of host 0 into host 1. */
static uint64_t dma_time(const struct sci_model *model, const struct wish *wish, uint64_t length)
{
	struct transfer transfer;
	uint64_t began_ns, all_ns;
	unsigned uses = wish->uses ? wish->uses : 1;

	sci_init(&transfer.sci, model, SEED);
	transfer.monitor = 0;
	if (!sci_segment_new(&transfer.sci, 0, wish->local_user, wish->local_offset, length, &transfer.local) ||
	    !sci_segment_new(&transfer.sci, 1, wish->remote_user, wish->remote_offset, length,
			     &transfer.remote_segment))
		abort();
	sci_prepare(&transfer.sci, 1, &transfer.remote_segment);
	if (wish->uses) {
		began_ns = transfer.sci.now_ns;
		dma_cached(&transfer, length, wish->uses);
		all_ns = transfer.sci.now_ns - began_ns;
	} else {
		if (!wish->prepare)
			sci_prepare(&transfer.sci, 0, &transfer.local);
		if (!wish->connect)
			sci_connect(&transfer.sci, 1, &transfer.remote_segment, &transfer.remote);
		began_ns = transfer.sci.now_ns;
		sci_prepare(&transfer.sci, 0, &transfer.local);
		if (wish->connect)
			sci_connect(&transfer.sci, 1, &transfer.remote_segment, &transfer.remote);
		dma_move(&transfer, length);
		all_ns = transfer.sci.now_ns - began_ns;
		sci_disconnect(&transfer.sci, 1, &transfer.remote);
		sci_release(&transfer.sci, 0, &transfer.local);
	}
	sci_release(&transfer.sci, 1, &transfer.remote_segment);
	sci_segment_free(&transfer.sci, 0, &transfer.local);
	sci_segment_free(&transfer.sci, 1, &transfer.remote_segment);
	sci_fini(&transfer.sci);
	return all_ns / uses;
}

static void sci_say_curve(const char *name, const struct sci_model *model, struct wish wish, const char *end)
{
	printf("  \"%s\": [", name);
	for (uint64_t length = LEAST; length <= MOST; length *= 2)
		printf("[%llu, %llu]%s", (unsigned long long)length,
		       (unsigned long long)dma_time(model, &wish, length), length < MOST ? ", " : "");
	printf("]%s\n", end);
}

/* What connecting takes: table I, and the longest one that the text has. */
static void sci_say_table(const struct sci_model *model)
{
	printf(" \"table\": [");
	for (uint64_t length = LEAST; length <= MOST; length = length == TABLE_MOST ? MOST : length * 2) {
		struct sci sci;
		struct sci_segment segment;
		struct sci_remote remote;

		sci_init(&sci, model, SEED);
		if (!sci_segment_new(&sci, 1, true, 0, length, &segment))
			abort();
		sci_prepare(&sci, 1, &segment);
		sci.now_ns = 0;
		sci_connect(&sci, 1, &segment, &remote);
		printf("[%llu, %llu, %llu]%s", (unsigned long long)length, (unsigned long long)sci.now_ns,
		       (unsigned long long)sci.messages, length < MOST ? ", " : "");
		sci_disconnect(&sci, 1, &remote);
		sci_release(&sci, 1, &segment);
		sci_segment_free(&sci, 1, &segment);
		sci_fini(&sci);
	}
	printf("],\n");
}

/* What the paper's adapter is, by another machine's costs. */
static struct sci_model sci_here(const struct costs *costs)
{
	struct sci_model here = sci_paper;

	here.rate = (uint32_t)costs->move;
	here.block_ns = costs->block;
	here.scattered_ns = costs->scattered;
	here.unaligned_ns = costs->unaligned;
	here.prepare_ns = costs->pin;
	here.prepare_page_ns = costs->pin_page / 1000;
	here.connect_ns = costs->call;
	here.message_ns = costs->wake;
	here.address_ns = 0; /* eight bytes of a copy */
	return here;
}

int main(int argc, char **argv)
{
	bool told;
	struct costs costs = costs_argument(&argc, &argv, &told);
	struct sci_model model = told ? sci_here(&costs) : sci_paper, runs = model, lists = model;
	struct wish users = {.local_user = true, .remote_user = true}, all = users;

	runs.run = HUGE_RUN;
	runs.list_runs = true;
	lists.list_addresses = LONG_LIST;
	all.prepare = all.connect = true;
	printf("{\n");
	sci_say_table(&model);
	printf(" \"segments\": {\n");
	sci_say_curve("regular to regular", &model, (struct wish){0}, ",");
	sci_say_curve("regular to user", &model, (struct wish){.remote_user = true}, ",");
	sci_say_curve("user to regular", &model, (struct wish){.local_user = true}, ",");
	sci_say_curve("user to user", &model, users, "");
	printf(" },\n \"alignments\": {\n");
	sci_say_curve("0 to 0", &model, users, ",");
	sci_say_curve("2048 to 0", &model,
		  (struct wish){.local_user = true, .remote_user = true, .local_offset = 2048}, ",");
	sci_say_curve("8 to 0", &model,
		      (struct wish){.local_user = true, .remote_user = true, .local_offset = 8}, ",");
	sci_say_curve("0 to 8", &model,
		  (struct wish){.local_user = true, .remote_user = true, .remote_offset = 8}, ",");
	sci_say_curve("8 to regular", &model, (struct wish){.local_user = true, .local_offset = 8}, "");
	printf(" },\n \"setting up\": {\n");
	sci_say_curve("transfer", &model, users, ",");
	sci_say_curve("register, transfer", &model,
		  (struct wish){.local_user = true, .remote_user = true, .prepare = true}, ",");
	sci_say_curve("register, connect, transfer", &model, all, ",");
	all.uses = USES;
	sci_say_curve("cached, used ten times", &model, all, ",");
	all.uses = 0;
	sci_say_curve("lists of 512 addresses", &lists, all, ",");
	sci_say_curve("huge pages, lists of runs", &runs, all, "");
	printf(" }\n}\n");
	return 0;
}
