/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faults: what goes wrong in a world, when, and for how long. Owns the events of faults that are still to come or to
 * end. Invariant: after faults_stop the network is whole, memory is there, and nothing more happens.
 */
#ifndef THOLE_SIM_FAULTS_H
#define THOLE_SIM_FAULTS_H

#include "traffic.h"

struct faults {
	struct event next;
	struct traffic *traffic;
	const struct process_setup *setup;  /* of processes that start again */
	uint64_t gap_ns;                    /* between two, at most */
	uint64_t patience_ns;               /* peer_timeout */
	uint32_t cut, long_cut, crash, compute, low_memory, close, away, mute, port, adapter; /* chances in a million */
	struct list_node ends;              /* of those that last: struct lasting */
	uint32_t crashes_max;
};

/* What a network is like, from a seed. */
void conditions_random(struct conditions *conditions, struct dice *dice);

/* Some, within about this time. */
void faults_random(struct faults *faults, struct traffic *traffic, const struct process_setup *setup, uint64_t ns);
void faults_stop(struct faults *faults);
/* All that goes wrong with adapters, but what they were opened with. */
void faults_stop_adapters(struct nic_faults *faults);

#endif
