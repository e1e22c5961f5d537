/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Thole's errors in UCX's words.
 */
#ifndef UCX_ERROR_H
#define UCX_ERROR_H

#include <ucs/type/status.h>

/* Of a THOLE_ERR_*, or of 0. */
ucs_status_t ucx_error_status(int error);

#endif /* UCX_ERROR_H */
