/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * process: one incarnation of a program on a host: a whole endpoint, its links, and when it runs.
 *
 * A process runs in steps: when frames have arrived, a timer of its endpoint has run out, or its application wants to.
 * A step takes time, in which arriving frames wait. It may compute for long and look at nothing, and it may die at any
 * time.
 */
#ifndef THOLE_SIM_PROCESS_H
#define THOLE_SIM_PROCESS_H

#include "endpoint/endpoint.h"
#include "network.h"
#include "nic.h"
#include "transport/datagram/datagram.h"
#include "transport/verbs/verbs.h"

struct process;

/* What it runs. */
struct application {
	/* A step; process->act_ns says when the next one should be at the latest. */
	void (*step)(struct process *process);
	void (*complete)(struct process *process, const struct thole_completion *completion);
};

enum process_state { PROCESS_ALIVE, PROCESS_CLOSED, PROCESS_CRASHED };

struct process {
	struct event wake;
	struct world *world;
	struct network *network;
	struct host *host;
	const struct application *application;
	void *state_of_application;
	struct thole_endpoint *endpoint;  /* NULL: closed or crashed */
	struct thole_address address;
	uint64_t id;                      /* its endpoint's: the low half is index */
	uint32_t index;                   /* of all that there ever were */
	struct sim_nic *nic;              /* NULL: it has links alone */
	uint32_t wire_count;
	struct wire wires[WIRES];
	uint8_t state;                    /* enum process_state */
	bool hostile;                     /* it says what it likes: nothing that it is told or tells need be true */
	bool slandered;                   /* a hostile one talks to it */
	bool drained;                     /* it closed when all it had sent had reached its peers */
	bool low_memory;                  /* it has at some time been short of memory */
	uint64_t ended_ns;                /* when it closed or crashed */
	uint64_t act_ns;                  /* when its application wants to run */
	uint64_t ready_ns;                /* until then the last step takes */
	uint64_t computing_ns;            /* until then it looks at nothing */
	uint64_t step_ns;                 /* what a step takes, beside the frames */
	uint64_t frame_ns;                /* and each frame that arrived */
	uint32_t peers_gone;              /* as the counter said at the last look */
	uint32_t steps;
};

struct process_setup {
	const struct application *application;
	struct options options;
	const struct codec *codec;
	uint16_t port;                    /* 0: another one each time */
	bool raw;                         /* it has a raw link, too, */
	bool moves;                       /* the kernel of some hosts moves bulk by itself (mover.h) */
	bool one_sided;                   /* only processes of even numbers have the option checksum */
	bool lane, mixed;                 /* and a third one; but, mixed, not where the host's number is odd */
	bool polls;                       /* completions are taken by thole_poll */
};

struct process *process_new(struct network *network, struct host *host, uint32_t index, uint16_t port,
			    const struct process_setup *setup);
void process_free(struct process *process);
/* Have it run soon: something has arrived. */
void process_wake(struct process *process, uint64_t when_ns);
/* From its application: see to it that the endpoint does what was started. */
void process_advance(struct process *process);
void process_compute(struct process *process, uint64_t ns);
/* It tells its peers, and is gone; or it just is gone. */
void process_close(struct process *process);
void process_crash(struct process *process);

/* Of a process with links. */
static inline struct engine *process_engine(const struct process *process)
{
	return process->wire_count ? &datagram_of(&process->endpoint->base)->engine : NULL;
}

/* Which process a handle of `process` names. */
uint32_t process_of_peer(const struct process *process, uint32_t peer);

#endif
