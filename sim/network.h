/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * network: hosts, and what carries frames between them. Owns frames under way and in receive buffers, and remembers
 * when which hosts were cut off from each other.
 *
 * A frame waits for its turn at the sender's interface (whose queue is bounded), takes the latency of the way, waits
 * again for the receiver's line (the switch's queue is bounded), and enters a receive buffer, which is bounded too. On
 * the way it may be lost, doubled, delayed and damaged.
 */
#ifndef THOLE_SIM_NETWORK_H
#define THOLE_SIM_NETWORK_H

#include "transport/datagram/engine.h"
#include "world.h"

struct carrier;
struct process;
struct sim_mover;

/* Order of a process's links. A lane has the addresses of UDP; where a host has none, what comes by it goes to UDP's
 * sockets. */
enum { WIRE_UDP, WIRE_RAW, WIRE_LANE, WIRES };

enum { WIRE_LANES = 4 };

struct conditions {
	/* Of a million frames; refuse: of a million bursts. */
	uint32_t loss, duplicate, reorder, corrupt, refuse;
	uint32_t raw_loss;       /* the same as loss of raw links alone: a million is a network without them */
	uint64_t latency_ns;
	uint64_t jitter_ns;      /* more latency, at most */
	uint64_t reorder_ns;     /* and of a frame that others overtake */
	/* a card keeps what arrives for so long, and hands frames of one sender over as one packet */
	uint64_t gather_ns;
	uint64_t rate;           /* bytes in a millisecond, of every line */
	uint32_t send_room;      /* bytes in the queues: of a sender, */
	uint32_t port_room;      /* of a port of the switch, */
	uint32_t receive_room;   /* of a receive buffer */
	uint32_t frame_max;      /* longest frame that passes */
	uint32_t route_max;      /* longest that hosts believe to pass */
	bool told;               /* who sends a longer one is told so */
	bool refused;            /* a host says where nobody is */
};

struct host {
	uint32_t index;
	bool down;
	uint64_t send_free_ns, receive_free_ns; /* when its lines have carried what waits for them */
	/* bit i: what leaves by links of kind i is lost, though others' frames come in */
	uint8_t mute;
	struct process *process;                /* that runs here now; NULL: none */
	/* one that is dead, and somebody else holds its sockets open; NULL: none */
	const struct process *ghost;
};

/* Hosts on one side of a cut hear nothing of the others, nor, unless it is one-way, these of them. */
struct cut {
	uint64_t from_ns, to_ns;
	uint64_t side;           /* bit i: host i */
	bool one_way;
};

struct network {
	struct world *world;
	struct carrier *carrier; /* processes have adapters for remote DMA, alone or beside links; NULL: links */
	struct conditions conditions;
	struct host *hosts;
	uint32_t host_count;
	struct cut *cuts;
	uint32_t cut_count;
	bool cutting;            /* the last cut is there now */
	bool clogged;            /* it carries less than hosts were told: any two may give each other up */
	uint8_t lane;            /* which ranks lanes have: of WIRE_LANES */
	uint64_t mute[WIRES];    /* bit i: what host i sends by links of this kind is lost */
	bool numbered;           /* mxoe: each process has one link, and its path is no more than its host's MAC */
	struct list_node in_flight; /* frames and notices that are under way */
	uint64_t carried, lost, overrun; /* frames, of those: by faults, for want of room */
};

/* A link of a process: what an engine sees of the network. */
struct wire {
	struct link link;
	struct link_calls calls;
	struct network *network;
	struct process *process;
	struct list_node queue[CHANNELS];
	uint32_t queued[CHANNELS];    /* bytes */
	uint64_t hidden_until_ns;     /* what is queued is not to be seen yet */
	uint64_t blocked_until_ns;    /* it refused a frame; then there is room again */
	struct sim_mover *mover;      /* NULL: none */
	struct scatter *scatter;      /* kept from one bulk receive to the next */
	uint32_t received;            /* frames, since the process last looked at this */
	struct question {
		struct path path;
		uint64_t answer_ns;
	} questions[8];               /* hosts that were asked whether a process lives */
};

/* A network without faults, as between machines of a rack. */
void conditions_good(struct conditions *conditions);
void network_init(struct network *network, struct world *world, uint32_t hosts);
void network_fini(struct network *network);
/* Open a process's links; its host has no other process. */
void wire_open(struct wire *wire, struct network *network, struct process *process, unsigned kind, uint16_t port);
/* Whether there is something to receive now; when there will be, UINT64_MAX: nothing is queued. */
bool wire_pending(const struct wire *wire);
uint64_t wire_due(const struct wire *wire);
/* A process runs, and does not look at this link for some time. */
void wire_hide(struct wire *wire, uint64_t ns);
/* Have any bytes arrive at a process now, as if from this path. */
void network_inject(struct network *network, struct process *to, unsigned wire, unsigned channel,
		    const struct path *source, const uint8_t *bytes, size_t length);
/* The address part of a process on a host. */
void network_address(const struct host *host, uint16_t port, uint8_t bytes[PACKET_NETWORK]);
/* The MAC of a host. */
void network_mac(const struct host *host, uint8_t mac[6]);

void network_cut(struct network *network, uint64_t side, bool one_way);
void network_heal(struct network *network);
/* The longest time that two hosts have not heard all of each other, until now. */
uint64_t network_longest_cut(const struct network *network, uint32_t a, uint32_t b);

#endif
