/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_library - whether MX is initialised. Initialising makes nothing that finalising would have to
 * undo: endpoints bring what they need.
 */
#ifndef MX_LIBRARY_H
#define MX_LIBRARY_H

#include <stdbool.h>

/* Between mx_init and mx_finalize. */
bool mxi_library_initialized(void);

#endif /* MX_LIBRARY_H */
