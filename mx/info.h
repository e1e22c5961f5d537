/* SPDX-License-Identifier: BSD-3-Clause */
/* info - what mx_get_info tells, and others of mx/ want to know too. */
#ifndef MX_INFO_H
#define MX_INFO_H

#include "board.h"
#include "myriexpress.h"

enum { MXI_PIO_SEND_MAX = 40 }; /* bytes that a record between processes of a host carries itself */

/* How fast a board is, in the words that MX has for it: from 10 Gb/s on MX_SPEED_10G, else, or where the interface does not
 * say, MX_SPEED_OPEN_MX. */
mx_line_speed_t mxi_line_speed(const struct mxi_board *board);

#endif /* MX_INFO_H */
