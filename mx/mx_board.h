/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_board - what MX calls a board, or a NIC: an Ethernet interface of this network namespace that
 * is up.
 *
 * Owns how interfaces become numbers, NIC ids and names; keeps nothing, since interfaces come and
 * go. Number 0 is the interface that Thole chooses, the others follow in the kernel's order; its
 * name can be given by the option board_name. Interfaces that share a MAC (a bridge and its port, a
 * VLAN and what it is on) are one board. There is always a board 0: where no interface is up it is
 * the loopback.
 */
#ifndef MX_BOARD_H
#define MX_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include "myriexpress.h"

enum {
	MXI_BOARDS_MAX = 64,    /* more interfaces than hosts have slots; further ones are no boards */
	MXI_INTERFACE_MAX = 16, /* bytes of an interface's name, its NUL included */
	MXI_ADDRESS_MAX = 46,   /* of an IP address as text, its NUL included */
};

struct mxi_board {
	uint64_t nic_id;                   /* the MAC, its first byte highest, as 0x0060dd47abcd */
	uint32_t number;                   /* as programs count them, from 0 */
	uint32_t mtu;                      /* bytes of a frame behind its Ethernet header */
	char interface[MXI_INTERFACE_MAX]; /* its name, as "eth0" */
	char address[MXI_ADDRESS_MAX];     /* IP; "": none, and other hosts cannot ask for its endpoints */
	char name[MX_MAX_HOSTNAME_LEN];    /* "host:0" */
	/* reaches this host only; its id is of this boot and namespace, and no MAC */
	bool loopback;
};

/* Fill the first boards, in order of their numbers; there are *count_p, at least 1. MX_NO_RESOURCES: the interfaces
 * could not be listed. Errors have a sentence (error_set). */
mx_return_t mxi_board_list(struct mxi_board *boards, unsigned room, unsigned *count_p);

/* The board with a number, or with a NIC id. MX_BOARD_UNKNOWN where there is none; MX_NO_RESOURCES as above. */
mx_return_t mxi_board_get(uint32_t number, struct mxi_board *board_p);
mx_return_t mxi_board_find(uint64_t nic_id, struct mxi_board *board_p);

/* A number that the kernel has about a board's interface, as in "device/numa_node"; `unknown` where
 * it has none. */
long mxi_board_attribute(const struct mxi_board *board, const char *name, long unknown);

/* How fast a board is, in the words that MX has for it: from 10 Gb/s on MX_SPEED_10G, else, or
 * where the interface does not say, MX_SPEED_OPEN_MX. */
mx_line_speed_t mxi_board_speed(const struct mxi_board *board);

#endif /* MX_BOARD_H */
