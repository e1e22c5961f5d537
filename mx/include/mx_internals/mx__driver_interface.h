/* SPDX-License-Identifier: BSD-3-Clause */
/* mx__driver_interface.h - questions to MX's driver, of which some programs ask these. */
#ifndef MX__DRIVER_INTERFACE_H
#define MX__DRIVER_INTERFACE_H

#include "mx__fops.h"
#include "mx_io.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* The mapper's state of a board that mx_open_board has opened. Programs take two hosts for being on
 * one network if their mapper_mac agree, so it is the same everywhere: zeros. Errors:
 * BOARD_UNKNOWN, BAD_INFO_VAL (NULL), NOT_INITIALIZED. */
extern mx_return_t mx__get_mapper_state(mx_endpt_handle_t handle, mx_mapper_state_t *state);

/* Forget what is known about memory that the program gives back to the system. Thole registers
 * none: returns 0. */
extern int mx__regcache_clean(void *ptr, size_t length);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif /* MX__DRIVER_INTERFACE_H */
