/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links: how to open the real links. They differ from here on only by their calls (link.h).
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_LINKS_H
#define THOLE_TRANSPORT_DATAGRAM_LINKS_H

#include "transport/datagram/engine.h"
#include "transport/datagram/interface.h"

struct driver;

/* What raw links carry. All numbers are big-endian. */
enum link_raw_head {
	LINK_RAW_ETHERTYPE = 0x88b5,       /* of native frames by default: for local experiments (IEEE 802) */
	LINK_RAW_ETHERTYPE_MXOE = 0x86df,
	/* Native frames have this between the Ethernet header and the frame: 0 u32 the endpoint that is meant, 4 u32
	 * the sender's, 8 u16 length of the frame without Ethernet's padding, 10 u16 zero. */
	LINK_RAW_HEAD = 12,
};

/* Over UDP, with the address of the interface: IPv4 if it has one. `endpoint`: whose life peers ask after there.
 * link->own has its address and the port of the records' socket, link->bulk_port the other's. `counters`: the
 * endpoint's, by enum counter. Errors: ADDRESS, MEMORY, SYSTEM. */
int link_udp_open(struct engine *engine, const struct interface *interface, uint64_t endpoint, uint64_t *counters,
		  struct link **link_p);

/* Where the driver is there, it moves this link's bulk. */
void link_udp_move(struct link *link, struct transport_owner *owner);

/* A packet socket of this type, unbound: nothing comes yet. native: UDP would do, too. Errors: ACCESS (with what to do
 * about it), SYSTEM. */
int link_raw_socket(int type, bool native, int *fd_p);

/* Raw Ethernet on the interface. Native frames: `endpoint` is a number that tells this endpoint from others at the
 * interface; paths are 6 bytes MAC, then this number of the peer (4 bytes, big-endian), so that `from` can be answered
 * to. LINK_RAW_ETHERTYPE_MXOE: frames have no such number, paths are the MAC alone, and broadcast is received too.
 * Errors: ACCESS (with what to do about it), ADDRESS (an interface without Ethernet), MEMORY, SYSTEM. */
int link_raw_open(struct engine *engine, const struct interface *interface, uint16_t ethertype, uint32_t endpoint,
		  uint64_t *counters, struct link **link_p);

/* The same frames by the driver, which needs no privilege; paths are the same too. MXoE: `endpoint` is its number, and
 * frames to other endpoints do not come. The driver is the endpoint's, and has one such link at most. Errors: ADDRESS
 * (an interface without Ethernet, or an EtherType that the driver does not carry), BUSY, MEMORY, SYSTEM. */
int link_ether_open(struct engine *engine, struct driver *driver, const struct interface *interface, uint16_t ethertype,
		    uint32_t endpoint, uint64_t *counters, struct link **link_p);

/* It moves the bulk of MXoE, too. */
void link_ether_move(struct link *link, struct transport_owner *owner);

#endif
