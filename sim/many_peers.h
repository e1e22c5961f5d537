/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * many_peers: an application for worlds of thousands of processes, which remembers little: each process sends one short
 * message to each of those that it is told to, and receives from anybody. A message says who sent it to whom; it must
 * come once.
 */
#ifndef THOLE_SIM_MANY_PEERS_H
#define THOLE_SIM_MANY_PEERS_H

#include "process.h"

struct many_peers {
	struct network *network;
	struct process **processes;
	uint32_t count;
	uint32_t window;         /* messages that a process sends before it polls */
	uint64_t sent, received, failed;
};

/* What a process knows. */
struct member {
	struct many_peers *many_peers;
	uint32_t next, end;         /* whom it sends to: indices, modulo many_peers->count */
	uint32_t got;
	uint8_t *seen;              /* bit i: i's message is here */
	struct slot {
		uint32_t message[2]; /* from, to */
		bool posted;
	} slots[8];                 /* receives */
};

void many_peers_init(struct many_peers *many_peers, struct network *network, uint32_t count);
void many_peers_fini(struct many_peers *many_peers);
/* A process on the host of this number. */
struct process *many_peers_start(struct many_peers *many_peers, uint32_t index, const struct process_setup *setup);
/* Have it send to these. */
void many_peers_send(struct process *process, uint32_t first, uint32_t count);
/* Take back all receives: whatever is awaited has come. */
void many_peers_rest(struct many_peers *many_peers);
/* It is gone, with its host, and forgotten. */
void many_peers_end(struct many_peers *many_peers, uint32_t index);

#endif
