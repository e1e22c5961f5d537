/* SPDX-License-Identifier: BSD-3-Clause */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS_MAX = 400000000 };

void *sim_grow(void *old, size_t size)
{
	void *memory = realloc(old, size ? size : 1);

	if (!memory) {
		fprintf(stderr, "the simulator has no memory for %zu bytes more\n", size);
		exit(2);
	}
	return memory;
}

void *sim_alloc(size_t size)
{
	void *memory = calloc(1, size ? size : 1);

	return memory ? memory : sim_grow(NULL, SIZE_MAX);
}

void world_init(struct world *world, uint64_t seed, bool trace)
{
	*world = (struct world){
		.seed = seed,
		.now_ns = SECOND, /* 0 means "never" to many */
		.hash = random_mix(seed),
		.events_max = EVENTS_MAX,
		.network = dice_new(seed, 1),
		.traffic = dice_new(seed, 2),
		.faults = dice_new(seed, 3),
		.kernel = dice_new(seed, 4),
		.trace = trace,
	};
}

void world_fini(struct world *world)
{
	heap_fini(&world->heap);
}

void world_set(struct world *world, struct event *event, uint64_t when_ns)
{
	if (when_ns < world->now_ns)
		when_ns = world->now_ns;
	if (!event_is_set(event) && heap_reserve(&world->heap, world->heap.count + 1) != 0) {
		fprintf(stderr, "the simulator has no memory for another event\n");
		exit(2);
	}
	heap_set(&world->heap, &event->node,
		 when_ns << WORLD_TIE_BITS | (world->ties++ & ((1 << WORLD_TIE_BITS) - 1)));
}

void world_cancel(struct world *world, struct event *event)
{
	heap_remove(&world->heap, &event->node);
}

void world_run(struct world *world, uint64_t until_ns)
{
	struct heap_node *node;

	while (!world->failed && (node = heap_first(&world->heap)) && node->key >> WORLD_TIE_BITS <= until_ns) {
		struct event *event = container_of(node, struct event, node);

		if (world->events++ >= world->events_max)
			world_fail(world, "no end in sight after %llu events", (unsigned long long)world->events);
		world->now_ns = node->key >> WORLD_TIE_BITS;
		heap_remove(&world->heap, node);
		event->run(world, event);
	}
	if (!world->failed && world->now_ns < until_ns && until_ns != UINT64_MAX)
		world->now_ns = until_ns;
}

void world_fail(struct world *world, const char *format, ...)
{
	va_list args;

	if (world->failed)
		return;
	world->failed = true;
	va_start(args, format);
	vsnprintf(world->failure, sizeof(world->failure), format, args);
	va_end(args);
	world_tell(world, "FAILED: %s", world->failure);
}

void world_tell(struct world *world, const char *format, ...)
{
	va_list args;

	if (!world->trace)
		return;
	printf("%12.3f us  ", (double)(world->now_ns - SECOND) / 1000);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

void world_mix(struct world *world, const void *bytes, size_t length)
{
	const uint8_t *at = bytes;
	uint64_t hash = world->hash, word;

	for (; length >= sizeof(word); length -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 32;
	}
	word = length;
	for (; length > 0; length--)
		word = word << 8 | *at++;
	world->hash = hash;
	world_mix_word(world, word);
}
