/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic: what the verbs transport needs of an adapter for remote DMA, as a table of calls, with what it can do and its
 * limits as data. One file makes a real one (nic_verbs.c), the simulator has its own.
 *
 * Threads: none. All calls of an adapter are made under the lock of the endpoint that opened it; none of them waits,
 * none calls back.
 *
 * Memory. The adapter reads and writes memory between register_memory and deregister only, and of that only what a
 * work or a peer names. What a work reads is left alone, and what it writes is not looked at, until its completion was
 * polled, or its queue has stopped; with NIC_POST_INLINE it may be reused at once. The segments of a work need to be
 * there during post only.
 *
 * Queues. Each is reliable and in order to one queue of a peer: sends are received in the order of posting, once.
 * Nothing is said of when the bytes of a write or read are in memory before its completion is there, unless the
 * adapter has NIC_ORDERED. All queues take their receives from the one shared receive queue, and report to the one
 * completion queue that poll reads.
 *
 *     new --queue_connect--> connected --queue_stop--> stopping --NIC_STOPPED polled--> stopped --queue_free
 *      |                         | an error                ^
 *      +--queue_stop-------------+--(broken)---------------+
 *
 * Of an adapter with NIC_LATE it takes its time until a queue is connected, and one of the two ends, which the adapters
 * choose, has to speak first. It is that one whose queue reports NIC_CONNECTED, and may be posted to from then on; the
 * other one's may from when on something has come by it.
 *
 * A queue that breaks reports one work with a status, and all later ones with THOLE_ERR_CANCELED; or NIC_BROKEN, where
 * no work of its own says so, to who asks for events, too. It stays until its owner stops it. By an adapter with
 * NIC_LATE a work that the peer's adapter refuses may have ended well before, or be reported with THOLE_ERR_CANCELED as
 * those behind it. queue_stop ends all works of a queue: those that have not ended are reported with
 * THOLE_ERR_CANCELED. NIC_STOPPED is the last completion of a queue; after it nothing of the peer touches memory
 * through it. queue_free is for queues that have reported it.
 *
 * Errors are THOLE_ERR_*, with a sentence (error_set) where it says so.
 */
#ifndef THOLE_TRANSPORT_VERBS_NIC_H
#define THOLE_TRANSPORT_VERBS_NIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nic;
struct nic_queue;

/* What it can do beyond send and write. */
enum nic_can {
	NIC_CAN_IMM = 1 << 0,       /* immediate data: of sends, and of writes, which take a receive at the peer so */
	NIC_CAN_READ = 1 << 1,
	NIC_CAN_ATOMIC = 1 << 2,    /* fetch-add and compare-and-swap of 8 bytes, atomic to other adapters' ones */
	NIC_CAN_PAGE_FAULT = 1 << 4, /* (ODP) memory registered with NIC_ACCESS_PAGED follows the mapping */
	NIC_CAN_WAIT = 1 << 5,      /* what finds no receive at the peer waits for one; else that breaks both queues */
	/* The bytes of one write arrive in order of their addresses: who sees the last 8, aligned, sees all. */
	NIC_ORDERED = 1 << 6,
	NIC_LATE = 1 << 7,          /* queues are connected later than queue_connect says: see above */
};

struct nic_limits {
	uint32_t can;          /* enum nic_can */
	uint32_t queues;       /* that there may be */
	uint32_t works;        /* posted to a queue and not ended */
	uint32_t reads;        /* of them reads and atomics that go on at a time; more wait, in order */
	uint32_t receives;     /* in the shared receive queue */
	uint32_t segments;     /* of a work */
	uint32_t inline_max;   /* bytes of a work with NIC_POST_INLINE */
	uint32_t mtu;          /* bytes of a packet */
	uint64_t length_max;   /* bytes of a work */
	uint64_t registered_max; /* bytes that may be registered; UINT64_MAX: not known */
	/* What to begin with where nothing was measured: a way from one memory to the other, and bytes in a
	 * microsecond of the wire. 0: not known. */
	uint64_t latency_ns;
	uint32_t rate;
};

/* What names a queue to a peer's adapter, for its queue_connect: bytes that only adapters of a kind understand. */
enum { NIC_NAME_MAX = 64 };

struct nic_name {
	uint8_t length;
	uint8_t bytes[NIC_NAME_MAX];
};

enum nic_access {
	NIC_ACCESS_LOCAL = 0,         /* works of this adapter may read it, */
	/* and write it: receives, reads. By iWARP so may a peer that is read from, who hears the key. */
	NIC_ACCESS_WRITE = 1 << 0,
	NIC_ACCESS_PEER_READ = 1 << 1,
	NIC_ACCESS_PEER_WRITE = 1 << 2, /* needs NIC_ACCESS_WRITE */
	NIC_ACCESS_PEER_ATOMIC = 1 << 3, /* needs NIC_ACCESS_WRITE */
	NIC_ACCESS_PAGED = 1 << 4,    /* needs NIC_CAN_PAGE_FAULT */
};

struct nic_memory {
	void *handle;          /* the adapter's; NULL: nothing is registered */
	uint64_t address, length;
	uint32_t local_key;    /* for segments */
	uint32_t peer_key;     /* for peers' works */
};

struct nic_segment {
	const void *address;   /* what receives and reads write is not really const */
	uint32_t length;
	uint32_t key;          /* local_key; with NIC_POST_INLINE any */
};

enum nic_operation {
	NIC_SEND,              /* takes a receive of the peer's */
	NIC_WRITE,             /* at the peer's remote_address; with NIC_POST_IMM it takes a receive, and fills none */
	NIC_READ,              /* from there */
	NIC_FETCH_ADD,         /* of 8 bytes there, aligned; what was there goes to the one segment */
	NIC_COMPARE_SWAP,
	NIC_RECEIVE,           /* of completions only, as those that follow */
	NIC_RECEIVE_IMM,       /* a write with immediate data has arrived, all of it */
	NIC_RECEIVE_WORD,      /* a send with immediate data */
	NIC_CONNECTED,         /* of NIC_LATE: say something */
	NIC_BROKEN,            /* it has a status */
	NIC_STOPPED,
};

enum nic_post {
	NIC_POST_INLINE = 1 << 0, /* the bytes are copied by post */
	NIC_POST_IMM = 1 << 1,
	NIC_POST_SILENT = 1 << 2, /* no completion if it ends well: a later one of its queue says so for it too */
};

struct nic_work {
	uint8_t operation;     /* enum nic_operation, up to NIC_COMPARE_SWAP */
	uint8_t flags;         /* enum nic_post */
	uint32_t imm;
	uint32_t count;        /* of segments; 0: no bytes */
	uint32_t remote_key;
	const struct nic_segment *segments;
	uint64_t remote_address;
	uint64_t operand;      /* to be added, or swapped in */
	uint64_t compare;
	uint64_t id;           /* the owner's, for the completion */
};

struct nic_completion {
	uint8_t operation;     /* enum nic_operation */
	int32_t status;        /* 0; PEER: the peer or the way to it does not answer; ACCESS: the peer's adapter refused
				* it; CANCELED: not done because of an earlier one, or of queue_stop; SYSTEM: else */
	uint32_t queue;        /* the owner's number of the queue */
	uint32_t length;       /* of a receive */
	uint32_t imm;
	uint64_t id;           /* of the work; of receives that of the buffer (also NIC_RECEIVE_IMM, which leaves it as
				* it was) */
};

enum { NIC_RECEIVES_MAX = 16 };

enum nic_event {
	NIC_EVENT_NONE,
	NIC_EVENT_DOWN,        /* the port is down: works may take until their time-out to fail */
	NIC_EVENT_UP,
	NIC_EVENT_GONE,        /* the device is: close what there is of it; all calls fail but those that end things */
	NIC_EVENT_LOST,        /* something could not be reported: all queues are to be stopped */
};

struct nic_calls {
	const char *name;
	/* All queues are freed, all memory is deregistered. */
	void (*close)(struct nic *nic);

	/* May take long. Errors: MEMORY (with a sentence: a limit of locked memory, a full table), ARGUMENT (there is
	 * no such memory), SYSTEM. */
	int (*register_memory)(struct nic *nic, void *base, size_t length, unsigned access,
			       struct nic_memory *memory_p);
	/* No work of this adapter uses it, and what works of peers name it fail from now on. */
	void (*deregister)(struct nic *nic, struct nic_memory *memory);

	/* number: the owner's, in completions; it comes again only after queue_free. Errors: AGAIN (there are
	 * limits->queues), MEMORY, SYSTEM. */
	int (*queue_new)(struct nic *nic, uint32_t number, struct nic_queue **queue_p, struct nic_name *name_p);
	/* From now on it can be posted to, but with NIC_LATE; the peer's may not be connected yet, for at most some
	 * 100 ms. Errors: ADDRESS (it is no name of an adapter that this one reaches), SYSTEM. */
	int (*queue_connect)(struct nic_queue *queue, const struct nic_name *peer);
	void (*queue_stop)(struct nic_queue *queue);
	void (*queue_free)(struct nic_queue *queue);

	/* Errors: AGAIN (limits->works), PEER (it is broken), SYSTEM. */
	int (*post)(struct nic_queue *queue, const struct nic_work *work);
	/* Buffers for one receive each, of any queue; at most NIC_RECEIVES_MAX at a time. Returns how many it has
	 * taken, the first ones: fewer where it has limits->receives, or refuses them for now. */
	unsigned (*post_receives)(struct nic *nic, const struct nic_segment *segments, const uint64_t *ids,
				  unsigned count);
	/* At most max completions, in order for each queue. Returns how many. */
	unsigned (*poll)(struct nic *nic, struct nic_completion *completions, unsigned max);

	/* Before sleeping: nic->fd becomes readable at the next completion or event, but not after NIC_EVENT_GONE.
	 * Returns the longest sleep in ns that is allowed, 0 if there is one already. */
	uint64_t (*arm)(struct nic *nic);
	/* What has happened to the port or the device, one after the other. */
	enum nic_event (*event)(struct nic *nic);

	/* Nanoseconds since whenever: what ways are timed by. */
	uint64_t (*now_ns)(struct nic *nic);
	/* The simulator's: this process has copied bytes of a message or of something else of `whole` bytes. NULL:
	 * nobody wants to know. */
	void (*copied)(struct nic *nic, uint64_t bytes, uint64_t whole);
};

struct nic {
	const struct nic_calls *calls;
	struct nic_limits limits;
	char device[64];       /* its name, for `thole info` */
	int fd;                /* -1: none */
};

#endif
