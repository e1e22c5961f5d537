/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * post - the sockets that notices travel by: Unix datagrams inside a host, UDP and one multicast group between hosts.
 *
 * Owns how they are opened and how places are named. Nothing here waits. All sockets end with exec.
 *
 * Inside a host an endpoint is "thole/mx/0060dd47abcd/3", a name without a file, which lives in the network namespace as boards
 * do. Whoever binds it has the endpoint, and the kernel ends that with the process. What other users send there is noise. Between hosts it is a port of the board's
 * address.
 */
#ifndef MX_POST_H
#define MX_POST_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "board.h"
#include "notice.h"
#include "setting.h"

/* Where a notice goes to, or came from. */
struct mxi_place {
	union {
		struct sockaddr any;
		struct sockaddr_in ipv4;
		struct sockaddr_in6 ipv6;
		struct sockaddr_un local;
	};
	socklen_t size;
};

/* ---- Places ---- */

void mxi_place_endpoint(struct mxi_place *place, uint64_t nic_id, uint32_t endpoint_id);

/* The board's one raw endpoint. */
void mxi_place_raw(struct mxi_place *place, uint64_t nic_id);

/* Whom the whole host has but once: the process that speaks for it. */
void mxi_place_speaker(struct mxi_place *place);

/* An IP address as text, and a port; false for any other text. A link-local address is one of the board's network. */
bool mxi_place_ip(struct mxi_place *place, const char *address, uint16_t port, const struct mxi_board *board);

void mxi_place_group(struct mxi_place *place, const struct mxi_settings *settings);

/* The address as text; "" where it is no IP address. */
void mxi_place_text(const struct mxi_place *place, char address[MXI_ADDRESS_MAX]);

/* ---- Sockets: -1 and errno where they cannot be had ---- */

int mxi_post_local(const struct mxi_place *place);

/* On the board's IP address; port 0: any. What it sends to the group leaves by the board. */
int mxi_post_udp(const struct mxi_board *board, uint16_t port);

/* Hears what is sent to the group on the boards' networks, beside all others that listen on this host. */
int mxi_post_group(const struct mxi_settings *settings);
void mxi_post_join(int fd, const struct mxi_settings *settings, const struct mxi_board *board);

/* ---- Notices ---- */

/* 0, or errno. */
int mxi_post_send(int fd, const struct mxi_place *to, const struct mxi_notice *notice);

/* From the group's socket, as coming from a board's IPv4 address. */
int mxi_post_send_as(int fd, const struct mxi_board *board, const struct mxi_place *to, const struct mxi_notice *notice);

enum mxi_post_got {
	MXI_POST_NOTHING, /* there is none */
	MXI_POST_NOISE,   /* it was not understood */
	MXI_POST_NOTICE,
};
enum mxi_post_got mxi_post_receive(int fd, struct mxi_notice *notice, struct mxi_place *from);

/* A notice that came back, since nobody listens where it went to. Other troubles of the way are NOISE. */
enum mxi_post_got mxi_post_refused(int fd, struct mxi_notice *notice);

#endif /* MX_POST_H */
