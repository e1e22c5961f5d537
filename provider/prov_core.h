/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_core.h - the core of libfabric that has loaded this library: its version, its log, its
 * parameters.
 *
 * Owns the one fi_provider and the optional functions of the core. Nothing of libfabric is linked:
 * MPIs are loaded in ways that hide its symbols from us, and a core may lack any of these. What is
 * not found is done without.
 */
#ifndef PROV_CORE_H
#define PROV_CORE_H

#include <stdint.h>

#include "prov_compat.h"

extern struct fi_provider prov_core_provider; /* prov_door.c fills in what it opens */

/* Once, before anything else. */
void prov_core_find(void);

/* FI_VERSION(1, 0) where the core does not say. */
uint32_t prov_core_version(void);

/* Offer users a parameter, as FI_THOLE_<NAME>. What one has given, which is the core's, or NULL. */
char *prov_core_param(const char *name, const char *help, const char *fallback);

/* As by printf; errno stays as it is. */
void prov_core_log(enum fi_log_level level, enum fi_log_subsys subsystem, const char *function, int line,
		   const char *format, ...) __attribute__((format(printf, 5, 6)));

#define PROV_WARN(subsystem, ...) prov_core_log(FI_LOG_WARN, subsystem, __func__, __LINE__, __VA_ARGS__)
#define PROV_INFO(subsystem, ...) prov_core_log(FI_LOG_INFO, subsystem, __func__, __LINE__, __VA_ARGS__)

#endif /* PROV_CORE_H */
