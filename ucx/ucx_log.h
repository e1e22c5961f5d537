/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_log.h - UCX's log (UCX_LOG_LEVEL, UCX_LOG_FILE): that of libucs, which programs of UCX load beside this library.
 *
 * Nothing of UCX's is linked: where a program has not loaded it, nothing is written.
 */
#ifndef UCX_LOG_H
#define UCX_LOG_H

/* Before anything else. */
void ucx_log_find(void);

/* A line for who asks for such, as by UCX_LOG_LEVEL=info; and one that is written unless the level is lower. */
void ucx_log_info(const char *line);
void ucx_log_warn(const char *line);

#endif /* UCX_LOG_H */
