/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port: which ports of adapters for remote DMA this host has, what each can do, and which of them an endpoint takes.
 * Nothing is kept. Where Thole was built without libibverbs' header there are none.
 */
#ifndef THOLE_TRANSPORT_VERBS_PORT_H
#define THOLE_TRANSPORT_VERBS_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/verbs/nic.h"

/* What a port is called on the wire, and so who can reach it: only ports of the same kind reach each other. */
enum port_kind {
	PORT_NONE,         /* no address: not usable */
	PORT_INFINIBAND,
	PORT_ROCE1,        /* RDMA over Ethernet frames of its own */
	PORT_ROCE2,        /* and over UDP */
	PORT_IWARP,        /* over TCP, which the adapter speaks */
};

struct port {
	char device[64];       /* the adapter's name */
	uint8_t number;        /* of its port, from 1 on */
	uint8_t kind;          /* enum port_kind */
	bool active;           /* it has a carrier and is up */
	bool wanted;           /* it has the GID that was asked for, and it is this */
	bool software;         /* soft-RoCE, siw: an adapter that processors play */
	bool orphaned;         /* iWARP, and rdma_cm is not here: not usable */
	bool global;           /* of InfiniBand: its packets need a global header (guests that share a port) */
	bool limited;          /* of InfiniBand: in no partition it reaches more than full members */
	bool paging;           /* it has page faults, which are among limits.can if they are to be trusted */
	uint8_t reads;         /* of one queue that its peer may have under way */
	uint8_t mtu_code;      /* as verbs count MTUs */
	uint16_t lid;
	uint16_t partition;    /* of InfiniBand: where the key of its queues stands in the port's table */
	uint8_t gid[16];       /* of iWARP, which has none, the IP address of its network interface */
	uint32_t gid_index;
	uint32_t interface;    /* that GID's network interface, its index; 0: none */
	uint32_t mtu, mtu_max; /* bytes of a packet: now, and what the adapter could */
	struct nic_limits limits; /* as far as they are known without a queue */
};

/* All there are, to be freed. Of a port with several GIDs its best one is told, or the one that is wanted (NULL: none).
 * Errors: UNSUPPORTED (no libibverbs here; says so), MEMORY. */
int port_list(const uint8_t wanted[16], struct port **list_p, unsigned *count_p);
/* The one of this adapter ("": any, but one that processors play only if `software`); of several that are active, the
 * one with this GID, then the fastest. Errors: as port_list, NOT_FOUND. */
int port_choose(const char *device, const uint8_t wanted[16], bool software, struct port *port_p);
/* Have its page faults used, if it has any, whether they are to be trusted or not; or have them left. */
static inline void port_page(struct port *port, bool use)
{
	port->limits.can &= ~(uint32_t)NIC_CAN_PAGE_FAULT;
	port->limits.can |= use && port->paging ? NIC_CAN_PAGE_FAULT : 0;
}
struct ibverbs;
struct ibv_context;
/* Its LID, its GID, where that or its partition stands or what its packets need may have changed; returns whether any
 * of these has. The GID is the one that it was opened by (`asked`) where that is there, else the one that it had;
 * without any it keeps that. */
bool port_renew(const struct ibverbs *verbs, struct ibv_context *context, const uint8_t asked[16], struct port *port);
/* Open it as a struct nic. Errors: UNSUPPORTED, ACCESS, MEMORY, SYSTEM. */
int port_open(const struct port *port, struct nic **nic_p);

/* The same, where there is libibverbs' header (nic_verbs.c). */
int nic_verbs_open(const struct port *port, struct nic **nic_p);

#endif
