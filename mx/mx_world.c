/* SPDX-License-Identifier: BSD-3-Clause */
#include "mx_world.h"

#include <stddef.h>

mx_return_t mxi_world_look(struct mxi_world *world, bool all)
{
	if (all && mxi_setting_load(&world->settings) != 0)
		return MX_NO_RESOURCES;
	return mxi_board_list(world->boards, MXI_BOARDS_MAX, &world->count);
}

const struct mxi_board *mxi_world_board(const struct mxi_world *world, uint64_t nic_id)
{
	for (unsigned i = 0; i < world->count && i < MXI_BOARDS_MAX; i++)
		if (world->boards[i].nic_id == nic_id)
			return &world->boards[i];
	return NULL;
}
