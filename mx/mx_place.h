/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_place - where notices go to and come from: names of sockets.
 *
 * Inside a host an endpoint is "thole/mx/0060dd47abcd/3", a name without a file, which lives in the
 * network namespace as boards do. Whoever binds it has the endpoint, and the kernel ends that with
 * the process. What other users send there is noise. Between hosts it is a port of the board's
 * address.
 */
#ifndef MX_PLACE_H
#define MX_PLACE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "mx_board.h"
#include "mx_setting.h"

/* Where a notice goes to, or came from. */
struct mxi_place {
	union {
		struct sockaddr any;
		struct sockaddr_in ipv4;
		struct sockaddr_in6 ipv6;
		struct sockaddr_un local; /* a name without a file, behind a NUL */
	};
	socklen_t size; /* bytes of whichever it is */
};

void mxi_place_endpoint(struct mxi_place *place, uint64_t nic_id, uint32_t endpoint_id);

/* The board's one raw endpoint. */
void mxi_place_raw(struct mxi_place *place, uint64_t nic_id);

/* Whom the whole host has but once: the process that speaks for it. */
void mxi_place_speaker(struct mxi_place *place);

/* An IP address as text, and a port; false for any other text. A link-local address is one of the
 * board's network. */
bool mxi_place_ip(struct mxi_place *place, const char *address, uint16_t port, const struct mxi_board *board);

void mxi_place_group(struct mxi_place *place, const struct mxi_settings *settings);

/* The address as text; "" where it is no IP address. */
void mxi_place_text(const struct mxi_place *place, char address[MXI_ADDRESS_MAX]);

#endif /* MX_PLACE_H */
