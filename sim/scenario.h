/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scenario: worlds that are worth looking at. Each is a function that sets up a network and processes, and lets them
 * run; what is wrong ends up in world->failure.
 */
#ifndef THOLE_SIM_SCENARIO_H
#define THOLE_SIM_SCENARIO_H

#include "carrier.h"
#include "faults.h"
#include "traffic.h"

/* All of one run. */
struct simulation {
	struct world world;
	struct network network;
	struct traffic traffic;
	struct faults faults;
	struct process_setup setup;
	const struct codec *codec; /* NULL: native */
	const struct nic_model *nic; /* processes have adapters like this; NULL: links */
	bool any_nic;             /* or, in random histories, like any other */
	bool beside;              /* and links, too */
	struct carrier carrier;   /* of those */
	uint64_t integrity;       /* enum option_integrity */
	bool moves;               /* kernels move bulk by themselves on some hosts */
	uint32_t links;           /* 3: processes of random histories have a third one; 0: not */
	uint32_t size;            /* of those scenarios that have one; 0: theirs */
	bool instrumented;        /* by a sanitizer, which needs memory of its own */
	char note[256];           /* what it has to say of itself */
};

struct scenario {
	const char *name;
	void (*run)(struct simulation *simulation);
	const char *help;
	bool engine; /* it looks into the engine of frames, which processes with adapters alone have none of */
};

extern const struct scenario scenarios[];

#endif
