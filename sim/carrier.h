/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * carrier: what processes over simulated adapters have of the rest of the world: hellos get from one to the other (or
 * are lost, doubled and late), who is gone is said to be, and a monitor says when memory has changed. Where processes
 * have links beside their adapters, the connections by these do all of it but the last.
 */
#ifndef THOLE_SIM_CARRIER_H
#define THOLE_SIM_CARRIER_H

#include "process.h"

struct carrier {
	struct network *network;
	struct fabric fabric;
	struct card_setup setup;       /* of each process's card */
	bool any;                      /* random histories draw their adapters' model */
	bool monitor;                  /* there is one */
	bool beside;                   /* processes have links, too */
	struct card_carrier calls;
	uint32_t loss, duplicate;      /* of a million hellos */
	uint64_t latency_ns, jitter_ns;
	struct list_node in_flight;
};

void carrier_init(struct carrier *carrier, struct network *network, const struct nic_model *model);
void carrier_fini(struct carrier *carrier);
/* Any faults, any size of a card; and any model, where none is wanted. */
void carrier_random(struct carrier *carrier, struct dice *dice);
/* Whether a process is to have an adapter: beside links not each has. */
bool carrier_serves(const struct carrier *carrier, uint32_t process);
/* Give a process its adapter. */
int carrier_attach(struct carrier *carrier, struct process *process);
/* A process has ended: all others are told in time. */
void carrier_ended(struct carrier *carrier, struct process *process);

#endif
