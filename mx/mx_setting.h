/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_setting - the options that say how other hosts are found, as this process's endpoints would
 * have them.
 */
#ifndef MX_SETTING_H
#define MX_SETTING_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

struct mxi_settings {
	char hosts[256];      /* the path of the file of hosts; "": none */
	uint16_t port;        /* of the group; endpoint number n has this port + 1 + n */
	bool mxoe;            /* frames between hosts are MXoE's */
	bool network;         /* other hosts are asked over UDP */
	struct in_addr group; /* where all are asked at once; 0: nowhere */
};

/* Errors: THOLE_ERR_ARGUMENT, also where a file of options cannot be read now. All is set in any case: what is wrong
 * counts as switched off. */
int mxi_setting_load(struct mxi_settings *settings);

#endif /* MX_SETTING_H */
