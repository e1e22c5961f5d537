/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_world - what the directory goes by: settings and this host's boards, as they were when it
 * looked last.
 */
#ifndef MX_WORLD_H
#define MX_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "mx_board.h"
#include "mx_setting.h"

struct mxi_world {
	struct mxi_settings settings;            /* as when the first of the entries was claimed */
	struct mxi_board boards[MXI_BOARDS_MAX]; /* as when the last of them was */
	unsigned count;                          /* of boards */
};

/* Look at the boards, and where all is true at the settings. MX_NO_RESOURCES, with a sentence: the boards are those of
 * before. */
mx_return_t mxi_world_look(struct mxi_world *world, bool all);

/* The board of this host with a NIC id; NULL: it is none of this host's. */
const struct mxi_board *mxi_world_board(const struct mxi_world *world, uint64_t nic_id);

#endif /* MX_WORLD_H */
