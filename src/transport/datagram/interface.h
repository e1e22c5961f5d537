/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * interface: the network interfaces of this host (of this network namespace), which of them to use, and the route to an
 * address. It reads the system as it is now, and keeps and changes nothing.
 *
 * An address is 16 bytes of IPv6, or IPv4 mapped into it, as in struct path.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_INTERFACE_H
#define THOLE_TRANSPORT_DATAGRAM_INTERFACE_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "transport/datagram/link.h"

enum { INTERFACE_ADDRESS = 16, INTERFACE_MAC = 6 };

struct interface {
	char name[IF_NAMESIZE];
	uint32_t index;
	uint32_t mtu;                     /* bytes of an IP packet, or of an Ethernet frame's payload */
	uint8_t mac[INTERFACE_MAC];       /* of an Ethernet interface */
	bool ethernet;                    /* it has a MAC, and carries Ethernet frames */
	bool loopback;
	bool inside;                      /* packets that come by it were made by a core of this machine, as a rule */
	bool up;                          /* somebody has switched it on */
	bool running;                     /* and it has a carrier */
	bool has_ipv4, has_ipv6;          /* IPv4 is the one to use, and not there where IPv6 alone reaches others */
	uint8_t ipv4[INTERFACE_ADDRESS];  /* the first one that is not of the link alone, mapped; else the first one */
	/* the first of those that do best: one that is ours, global, there to stay */
	uint8_t ipv6[INTERFACE_ADDRESS];
	uint8_t ipv6_merit;               /* how well it does; 0: there is none */
};

/* All interfaces, in the kernel's order, in memory that the caller frees. Errors: MEMORY, SYSTEM. */
int interface_list(struct interface **list_p, unsigned *count_p);

/* The interface to use: the one of this name, or the one of this address, which it has by that alone then; for NULL or
 * "" that of the default route, by the address that packets get there (the loopback, where it is the host's address),
 * else the first Ethernet interface that runs and has an address, else any that does, else the loopback. Errors:
 * NOT_FOUND, SYSTEM, MEMORY. */
int interface_choose(const char *name, struct interface *interface);

/* Whether frames can be sent over it by UDP. */
bool interface_can_udp(const struct interface *interface);
/* Whether it carries raw Ethernet frames, permitted or not. */
bool interface_can_raw(const struct interface *interface);
/* Whether this process may send raw frames: it has CAP_NET_RAW where this network namespace belongs. */
bool interface_raw_permitted(void);

/* The route to an address: the source address that packets to it get, and how long they may be (the path MTU as far as
 * it is known). Either result may be NULL. own: that of packets from this address, which may take another way; NULL:
 * of any. `interface`: the index of the one that a link-local address means. Errors: ADDRESS, SYSTEM. */
int interface_route(const uint8_t address[INTERFACE_ADDRESS], const uint8_t *own, uint32_t interface, uint8_t *source,
		    uint32_t *mtu_p);
/* Have a socket's packets come from an address of ours; it gets a port once it is connected, by which other sockets
 * may go elsewhere. Returns false where it is no address of this host. */
bool interface_bind(int fd, const uint8_t own[INTERFACE_ADDRESS], uint32_t interface);

union socket_address {
	struct sockaddr any;
	struct sockaddr_in ipv4;
	struct sockaddr_in6 ipv6;
};

/* An address and port (as a struct path of UDP has them) as the kernel wants them, and back. Returns the length. */
socklen_t interface_sockaddr(const struct path *path, uint32_t interface, union socket_address *address);
void interface_path(const union socket_address *address, struct path *path);
bool interface_is_ipv4(const uint8_t address[INTERFACE_ADDRESS]);

#endif
