/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_post - the sockets that notices travel by: Unix datagrams inside a host, UDP and one multicast
 * group between hosts.
 *
 * Owns how they are opened. Nothing here waits. All sockets end with exec.
 */
#ifndef MX_POST_H
#define MX_POST_H

#include <stdint.h>

#include "mx_board.h"
#include "mx_notice.h"
#include "mx_place.h"
#include "mx_setting.h"

/* ---- Sockets: -1 and errno where they cannot be had ------------------------------------------ */

int mxi_post_local(const struct mxi_place *place);

/* A name that others find taken, and to which nobody can send. */
int mxi_post_claim(const struct mxi_place *place);

/* On the board's IP address; port 0: any. What it sends to the group leaves by the board. */
int mxi_post_udp(const struct mxi_board *board, uint16_t port);

/* Hears what is sent to the group on the boards' networks, beside all others that listen on this
 * host. */
int mxi_post_group(const struct mxi_settings *settings);
void mxi_post_join(int fd, const struct mxi_settings *settings, const struct mxi_board *board);

/* ---- Notices --------------------------------------------------------------------------------- */

/* 0, or errno. */
int mxi_post_send(int fd, const struct mxi_place *to, const struct mxi_notice *notice);

/* From the group's socket, as coming from a board's IPv4 address. */
int mxi_post_send_as(int fd, const struct mxi_board *board, const struct mxi_place *to,
		     const struct mxi_notice *notice);

enum mxi_post_got {
	MXI_POST_NOTHING, /* there is none */
	MXI_POST_NOISE,   /* it was not understood */
	MXI_POST_NOTICE,
};
enum mxi_post_got mxi_post_receive(int fd, struct mxi_notice *notice, struct mxi_place *from);

/* A notice that came back, since nobody listens where it went to. Other troubles of the way are
 * NOISE. */
enum mxi_post_got mxi_post_refused(int fd, struct mxi_notice *notice);

#endif /* MX_POST_H */
