/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic: adapters for remote DMA in virtual time: struct nic (transport/verbs/nic.h) with a cost model as data.
 *
 * A fabric joins the adapters of a world. Owns queues, what is under way between them, and what is registered; not the
 * memory that it moves. Bytes move when they arrive: so who changes what is being sent, or looks too early at what is
 * being written, finds that out. The processor of each adapter's process has a clock of its own (cpu_ns), which runs
 * ahead of the world's by what posting, copying and registering take.
 *
 * A message waits for its turn at the sender's line, takes `gap` there and its bytes' time, then the latency of the
 * way, and its turn at the receiver's line.
 */
#ifndef THOLE_SIM_NIC_H
#define THOLE_SIM_NIC_H

#include "transport/verbs/nic.h"
#include "world.h"

enum { NIC_LEVELS = 4 };

struct nic_model {
	const char *name;
	const char *about;         /* where its numbers are from */
	struct nic_limits limits;
	uint64_t register_ns;      /* a registration, */
	uint64_t register_page_ns; /* and each page of it */
	uint64_t deregister_ns, deregister_page_ns;
	uint64_t fault_ns;         /* of a work with pages that the adapter does not know yet (NIC_ACCESS_PAGED) */
	/* Of a copy of something that is so long: up to `bytes`, at `rate` bytes in a microsecond. */
	struct nic_level {
		uint64_t bytes;
		uint32_t rate;
	} copy[NIC_LEVELS];
	uint64_t overhead_ns;      /* of the processor, to post a work */
	uint64_t poll_ns;          /* of the processor, for each completion */
	uint64_t gap_ns;           /* of the adapter, between works */
	uint64_t pci_ns;           /* until the adapter has the first bytes of a work that is not inline */
	uint64_t latency_ns;
	uint32_t rate;             /* bytes in a microsecond */
	uint32_t piece;            /* bytes that are written at once: a packet */
	uint64_t retry_ns;         /* between two tries of what found no receive or no queue, */
	uint64_t timeout_ns;       /* and until a queue that does not answer is given up */
};

/* What goes wrong: chances are of a million works or registrations. */
struct nic_faults {
	uint32_t error;            /* the queue breaks, before or after the work was done */
	uint32_t late;             /* its completion comes late, by at most late_ns */
	uint64_t late_ns;
	uint32_t refuse;           /* no registration */
	bool reorder;              /* writes arrive from the back; no adapter has NIC_ORDERED then */
};

struct sim_nic;

struct fabric {
	struct world *world;
	const struct nic_model *model;
	struct nic_faults faults;
	struct dice dice;
	struct sim_queue **queues; /* all there ever were, by their number; NULL: freed */
	uint32_t queue_count, queue_room;
	uint64_t works, bytes, broken; /* carried; queues that broke */
	uint32_t *chunks;          /* lengths of writes with immediate data, which it says, are noted here */
	uint32_t chunk_count, chunk_room;
};

struct sim_nic {
	struct nic nic;
	struct fabric *fabric;
	uint64_t cpu_ns;           /* until then its process is busy */
	uint64_t send_free_ns, receive_free_ns; /* its lines */
	uint64_t copied_ns, registering_ns; /* of the processor's time, so far */
	uint64_t silent;            /* works that ended and were not reported */
	uint64_t faults;            /* works that waited for pages */
	uint64_t registered;       /* bytes, now */
	uint32_t registrations;    /* so far */
	uint32_t queues;
	bool down, gone;
	uint8_t events;            /* bit i: enum nic_event i is to be told */
	struct sim_memory *memories;
	uint32_t memory_count, memory_room;
	struct list_node watches;     /* of memory, by the monitor */
	struct list_node completions; /* in order of their times */
	struct list_node receives;
	uint32_t receive_count;
	/* There is something to see at this time. */
	void (*wake)(void *arg, uint64_t when_ns);
	void *arg;
};

/* By its name; NULL: there is none. The table ends with a name that is NULL. */
const struct nic_model *nic_model_find(const char *name);
extern const struct nic_model nic_models[];
/* What a copy of some bytes of something so long takes. */
uint64_t nic_model_copy_ns(const struct nic_model *model, uint64_t bytes, uint64_t whole);
uint64_t nic_model_register_ns(const struct nic_model *model, uint64_t bytes);
uint64_t nic_model_wire_ns(const struct nic_model *model, uint64_t bytes);

void fabric_init(struct fabric *fabric, struct world *world, const struct nic_model *model);
/* All its adapters are closed, or their processes have crashed. */
void fabric_fini(struct fabric *fabric);
struct sim_nic *sim_nic_open(struct fabric *fabric, void (*wake)(void *arg, uint64_t when_ns), void *arg);
/* Its process is gone: everything of it ends, and its queues answer nobody any more. */
void sim_nic_crash(struct sim_nic *nic);
void sim_nic_port(struct sim_nic *nic, bool up);
/* It was taken out, for good; or it could not report something. */
void sim_nic_gone(struct sim_nic *nic);
void sim_nic_lost(struct sim_nic *nic);
/* The monitor: a word that changes with the mapping of this memory. */
const uint32_t *sim_nic_watch(struct sim_nic *nic, uint64_t address, uint64_t length, uint64_t *id_p);
void sim_nic_unwatch(struct sim_nic *nic, uint64_t id);
/* The mapping of this memory changes: whoever uses what was registered of it before uses what is not there. */
void sim_nic_unmap(struct sim_nic *nic, const void *address, uint64_t length);
/* When there is something to poll; UINT64_MAX: nothing has happened. */
uint64_t sim_nic_due(const struct sim_nic *nic);

static inline struct sim_nic *sim_nic_of(struct nic *nic)
{
	return (struct sim_nic *)(void *)nic;
}

#endif
