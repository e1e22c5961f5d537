/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_io.h - handles and the state of the network's mapper, for mx_raw.h and mx_internals/. Programs
 * that only want to know which network they are on read mapper_mac: mx__get_mapper_state.
 */
#ifndef MX_IO_H
#define MX_IO_H

#include "myriexpress.h"

typedef int mx_endpt_handle_t; /* of a raw endpoint: a descriptor that can be polled, not read */
#define MX__INVALID_HANDLE -1

typedef struct {
	uint32_t board_number;
	uint8_t mapper_mac[6];       /* who maps the network: the same for all hosts of one
					network */
	uint16_t iport;
	uint32_t map_version;
	uint32_t num_hosts;
	uint32_t network_configured;
	uint32_t routes_valid;
	uint32_t level;
	uint32_t flags;
} mx_mapper_state_t;

#endif /* MX_IO_H */
