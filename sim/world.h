/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * world: virtual time. Owns the events that are to come, the hash over all that has happened, and the verdict.
 *
 * Everything that happens is an event; the earliest is run, and of those at the same time the one that was asked for
 * first. So a seed has one history, and the hash names it. Invariant: time never goes back.
 */
#ifndef THOLE_SIM_WORLD_H
#define THOLE_SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "dice.h"

enum {
	MICROSECOND = 1000,
	MILLISECOND = 1000000,
	SECOND = 1000000000,
};

enum {
	/* of an event's key: which one of those at the same nanosecond; the time is above */
	WORLD_TIE_BITS = 20,
	WORLD_FAILURE_MAX = 512,     /* bytes of the sentence that says what went wrong */
};

struct world;

struct event {
	struct heap_node node;
	void (*run)(struct world *world, struct event *event);
};

struct world {
	uint64_t seed;
	uint64_t now_ns;
	uint64_t hash;           /* over all that has happened */
	uint64_t events;         /* that were run */
	uint64_t events_max;     /* more than this is a livelock */
	uint64_t ties;
	struct heap heap;
	struct dice network, traffic, faults, kernel;
	bool trace;              /* tell it all */
	bool failed;
	char failure[WORLD_FAILURE_MAX];
};

void world_init(struct world *world, uint64_t seed, bool trace);
void world_fini(struct world *world);
/* Have an event run at this time; one that is waiting already is moved. */
void world_set(struct world *world, struct event *event, uint64_t when_ns);
void world_cancel(struct world *world, struct event *event);
/* Run events until this time, or until there are none, or one has failed. */
void world_run(struct world *world, uint64_t until_ns);

/* Something is wrong: the first time is the one that counts. */
void world_fail(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A line of the trace, where it is wanted. */
void world_tell(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Enter something into the hash. */
void world_mix(struct world *world, const void *bytes, size_t length);

static inline void world_mix_word(struct world *world, uint64_t word)
{
	world->hash = random_mix(world->hash ^ word) + UINT64_C(0x9e3779b97f4a7c15);
}

static inline bool event_is_set(const struct event *event)
{
	return event->node.place != 0;
}

/* Memory that the simulator itself needs; it ends without. */
void *sim_alloc(size_t size);
void *sim_grow(void *old, size_t size);

#endif
