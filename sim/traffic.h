/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traffic: an application that starts operations of all kinds at random, and the checkers of what comes of them.
 *
 * Every operation is remembered, on all processes, so that what is reported can be compared with what was asked for:
 *   - a message arrives once, unaltered, at a receive that accepts it, and in matching order;
 *   - an operation that fails does so for a reason that is true;
 *   - memory changes where a put says so and nowhere else, atomics are applied once each, in order (exposed.c);
 *   - in the end everything has ended, and nothing is left over in any endpoint.
 *
 * A message's tag has its number above TRAFFIC_TAG_BITS, which receives do not look at, and its bytes follow from it.
 */
#ifndef THOLE_SIM_TRAFFIC_H
#define THOLE_SIM_TRAFFIC_H

#include "process.h"

enum {
	TRAFFIC_TAG_BITS = 8,
	TRAFFIC_PROCESSES_MAX = 32,  /* incarnations in a world with puts */
	TRAFFIC_SLOT = 1 << 17,      /* bytes of a region that one process may put to */
	TRAFFIC_READ = 1 << 18,      /* bytes to be read by gets */
	TRAFFIC_CELLS = TRAFFIC_PROCESSES_MAX + 1, /* of atomics: one for all, and one for each process */
	TRAFFIC_KEY_PUT = 1, TRAFFIC_KEY_GET, TRAFFIC_KEY_ATOMIC, TRAFFIC_KEY_NONE,
};

enum op_kind { OP_SEND, OP_RECEIVE, OP_PUT, OP_GET, OP_ATOMIC, OP_CONNECT };

/* One operation that a process has started. */
struct op {
	struct list_node node;            /* of by->open, until it has ended */
	struct traffic *traffic;
	struct process *by, *peer;        /* peer: the destination; of a receive its source, NULL: any */
	struct op *earlier, *later;       /* messages from the same process to the same, in the same queue; or puts */
	struct op *match;                 /* of a message its receive, and the other way round */
	const struct op *only;            /* of a receive: the one message that it is for; NULL: it says by its tag */
	struct thole_request *request;
	uint8_t *buffer;                  /* `capacity` bytes, exactly */
	uint64_t number, tag, mask, imm;
	uint32_t handle;                  /* of a connect: the peer's, as it was then */
	uint64_t length;                  /* of the message, or of the access */
	uint64_t offset;                  /* of a get; of an atomic its cell */
	uint64_t capacity;
	uint64_t order;                   /* of a receive: among those of its process */
	uint64_t result;                  /* of an atomic */
	uint64_t started_ns, ended_ns;
	unsigned flags;
	uint8_t kind;                     /* enum op_kind */
	bool ended;
	bool dropped;                     /* a message: a probe threw it away */
	bool received;                    /* a message: it is in its receive's buffer */
	bool handle_free;                 /* its handle is used up */
	int status;
	int expected;                     /* an error that it is to end with */
};

/* What a seed makes of it: chances are of a million. */
struct traffic_plan {
	uint64_t gap_ns;           /* between two actions of a process, at most */
	uint64_t length_max;
	uint32_t large;            /* chance of a length between 4 KiB and that */
	uint32_t tags;
	uint32_t receives_max;     /* posted at once, of a process */
	uint32_t sends_max;        /* under way at once, of a process */
	uint32_t receive, remote, probe, cancel, connect; /* chances of these actions; else a send */
	uint32_t any, wild, plain, sync, arrived, inject, imm, handle, vector, shorter;
	uint32_t screen;           /* chance of turning screening on or off before an action */
};

struct traffic {
	struct world *world;
	struct network *network;
	struct traffic_plan plan;
	struct process **processes;       /* all there ever were */
	uint32_t process_count;
	struct op **ops;
	uint64_t op_count;
	uint64_t ended, failed;           /* operations; of those: with an error */
	uint64_t bytes;                   /* received and compared */
	bool settling;                    /* nothing new is started */
};

/* The application's state of one process. */
struct player {
	struct traffic *traffic;
	struct process *process;
	struct list_node open;            /* operations that have not ended */
	uint32_t sends, receives;         /* of those */
	uint64_t orders;
	struct op *last[2][TRAFFIC_PROCESSES_MAX]; /* newest message to each process, by queue */
	bool putting[TRAFFIC_PROCESSES_MAX];       /* a put to it is under way */
	struct op *slot[TRAFFIC_PROCESSES_MAX];    /* each process's newest put to here that may change its slot */
	bool screening;
	struct thole_message *handed;     /* a message that it was given to screen, and keeps it waiting; NULL: none */
	struct thole_completion handed_found;
	uint64_t handed_order;            /* as of a receive that was posted for it then */
	uint64_t notices;                 /* puts with immediate data that arrived */
	uint8_t *put, *get;
	uint64_t cells[TRAFFIC_CELLS];
	struct thole_region *regions[3];
	bool closing;                     /* it starts nothing more, and closes when all is delivered, */
	uint64_t closing_ns;              /* or some time after this; 0: it has not begun to wait */
	uint32_t peers_gone;
};

extern const struct application traffic_application;

void traffic_plan_random(struct traffic_plan *plan, struct dice *dice);
void traffic_init(struct traffic *traffic, struct network *network);
void traffic_fini(struct traffic *traffic);
struct process *traffic_start(struct traffic *traffic, struct host *host, const struct process_setup *setup);
/* Its operations end with it. */
void traffic_crash(struct process *process);

/* No process acts of its own accord from now on; those that start do. */
void traffic_rest(struct traffic *traffic);
/* Start nothing more, and let everything finish; then see that all has. */
void traffic_settle(struct traffic *traffic, uint64_t limit_ns);

/* Single operations, for scenarios. flags: THOLE_*. They are started now, and checked as all. */
struct op *traffic_send(struct process *process, struct process *to, uint64_t length, uint32_t tag, unsigned flags);
struct op *traffic_receive(struct process *process, struct process *from, uint64_t capacity, uint32_t tag,
			   uint64_t mask, unsigned flags);

/* For settle.c. Whether what is between two processes may have parted them, though both were there. */
bool traffic_parted(const struct process *process, const struct process *other);
/* A failure that was found with this operation. */
void op_fail(const struct op *op, const char *what);
/* Look whether operations of a process with a handle have ended. */
void player_test(struct player *player);

static inline struct player *player_of(const struct process *process)
{
	return process->state_of_application;
}

#endif
