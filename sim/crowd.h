/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crowd: an application for worlds of thousands of processes, which remembers little: each process sends one short
 * message to each of those that it is told to, and receives from anybody. A message says who sent it to whom; it must
 * come once.
 */
#ifndef THOLE_SIM_CROWD_H
#define THOLE_SIM_CROWD_H

#include "process.h"

struct crowd {
	struct network *network;
	struct process **processes;
	uint32_t count;
	uint32_t window;         /* messages that a process sends before it looks at what arrives */
	uint64_t sent, received, failed;
};

/* What a process knows. */
struct member {
	struct crowd *crowd;
	uint32_t next, end;         /* whom it sends to: indices, modulo crowd->count */
	uint32_t got;
	uint8_t *seen;              /* bit i: i's message is here */
	struct slot {
		uint32_t message[2]; /* from, to */
		bool posted;
	} slots[8];                 /* receives */
};

void crowd_init(struct crowd *crowd, struct network *network, uint32_t count);
void crowd_fini(struct crowd *crowd);
/* A process on the host of this number. */
struct process *crowd_start(struct crowd *crowd, uint32_t index, const struct process_setup *setup);
/* Have it send to these. */
void crowd_send(struct process *process, uint32_t first, uint32_t count);
/* Take back all receives: whatever is awaited has come. */
void crowd_rest(struct crowd *crowd);
/* It is gone, with its host, and forgotten. */
void crowd_end(struct crowd *crowd, uint32_t index);

#endif
