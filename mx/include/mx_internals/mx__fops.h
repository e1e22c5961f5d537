/* SPDX-License-Identifier: BSD-3-Clause */
/* mx__fops.h - MX's way to its driver, of which some programs use this much. */
#ifndef MX__FOPS_H
#define MX__FOPS_H

#include <stddef.h>

#include "mx_io.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* A handle of a board, for mx__get_mapper_state. There is nothing to close behind it.
 * Errors: BOARD_UNKNOWN, NOT_INITIALIZED. */
extern mx_return_t mx_open_board(int board_number, mx_endpt_handle_t *handle);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif /* MX__FOPS_H */
