/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * library - whether MX is initialised, and where its errors go.
 *
 * Every public function of MX that fails ends with "return mxi_error(...)".
 */
#ifndef MX_LIBRARY_H
#define MX_LIBRARY_H

#include <stdbool.h>

#include "myriexpress.h"

enum { MXI_SENTENCE_MAX = 768 }; /* bytes of what a handler is told, its NUL included: one of Thole's sentences and some words */

/* Between mx_init and mx_finalize. */
bool mxi_initialized(void);

/* Tell the endpoint's handler, or the process's where it has none or endpoint is NULL, what was done, as by printf, and which
 * error it ended with. Returns what the handler returns: with the handler that is set at first never. A handler is the
 * program's: the caller holds no lock. MX_SUCCESS is not told. */
mx_return_t mxi_error(struct mx_endpoint *endpoint, mx_return_t code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif /* MX_LIBRARY_H */
