/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * yield.c - calls of sched_yield that MPICH makes and nobody needs, see yield.h.
 */
#include "yield.h"

#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include "import.h"
#include "job.h"

enum {
	YIELD_LOOK = 64,    /* calls of which one is made, to see whether others run then */
	YIELD_STAYS = 256,  /* calls that are made after others ran */
	YIELD_AGAIN = 16,   /* of these one in so many looks whether others still do */
};

struct yielder {
	uint32_t calls;
	uint32_t made;     /* so many are still made */
	uint64_t switches; /* as last looked at */
};

static __thread struct yielder yielder;
static __thread char looker_here;

static uintptr_t looker; /* the thread that looked first, by an address of its own; 0: none has */
static bool several;     /* threads have looked */
static bool shared;      /* ranks share cores */

bool yield_spared;
bool yield_found;

void yield_looks(void)
{
	uintptr_t first = __atomic_load_n(&looker, __ATOMIC_RELAXED);

	if (__builtin_expect(first == (uintptr_t)&looker_here, 1))
		return;
	if (first || !__atomic_compare_exchange_n(&looker, &first, (uintptr_t)&looker_here, false, __ATOMIC_RELAXED,
						  __ATOMIC_RELAXED))
		__atomic_store_n(&several, true, __ATOMIC_RELAXED);
}

/* How often others got this thread's core. A switch that sched_yield caused counts as involuntary. */
static uint64_t yield_switches(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_THREAD, &usage) == 0 ? (uint64_t)usage.ru_nivcsw + (uint64_t)usage.ru_nvcsw : 0;
}

/* Whether others ran since this was asked last. */
static bool yield_others_ran(struct yielder *self)
{
	uint64_t before = self->switches;

	self->switches = yield_switches();
	return self->switches != before;
}

/* Whether this thread, the only one that looks, has found something since it was asked last. */
static bool yield_has_found(void)
{
	bool found = __atomic_load_n(&yield_found, __ATOMIC_RELAXED);

	if (found)
		__atomic_store_n(&yield_found, false, __ATOMIC_RELAXED);
	return found;
}

int yield_sparing(void)
{
	struct yielder *self = &yielder;
	int result;

	yield_looks();
	if (__atomic_load_n(&several, __ATOMIC_RELAXED))
		return sched_yield();
	if (yield_has_found())
		return 0;
	if (__atomic_load_n(&shared, __ATOMIC_RELAXED))
		return sched_yield();
	self->calls++;
	if (self->made > 0) {
		result = sched_yield();
		self->made--;
		if (self->calls % YIELD_AGAIN == 0 && yield_others_ran(self))
			self->made = YIELD_STAYS;
		return result;
	}
	if (self->calls % YIELD_LOOK)
		return 0;
	yield_others_ran(self); /* switches that were no yield's do not count */
	result = sched_yield();
	if (yield_others_ran(self))
		self->made = YIELD_STAYS;
	return result;
}

void yield_spare(bool cores_shared)
{
	__atomic_store_n(&shared, cores_shared, __ATOMIC_RELAXED);
	if (import_set("sched_yield", (void (*)(void))yield_sparing) != 0) /* where one was refused others may not be */
		yield_spared = true;
}

void yield_spare_if_told(struct thole_endpoint *endpoint)
{
	char text[8];

	if (!thole_option_get(endpoint, "mpi_yield", text, sizeof text) && !strcmp(text, "spare"))
		yield_spare(job_oversubscribed(endpoint));
}
