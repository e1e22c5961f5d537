/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Thole's errors in UCX's words.
 */
#ifndef UCX_ERROR_H
#define UCX_ERROR_H

#include <ucs/type/status.h>

/* Of a THOLE_ERR_*, or of 0. */
ucs_status_t ucx_error_status(int error);

/* A warning in the log: what there is not, since the thread's last call of Thole's has failed. */
void ucx_error_tell(const char *what, int error);

#endif /* UCX_ERROR_H */
