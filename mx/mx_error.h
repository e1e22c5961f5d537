/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_error - where MX's errors go, and words for codes.
 *
 * Owns the process's error handler. Every public function of MX that fails ends with "return
 * mxi_error(...)". MX promises that an error ends the process, with a line on stderr, unless the
 * program has set another handler. mxi_error_fatal keeps this promise; nothing else of Thole prints
 * or ends a process.
 */
#ifndef MX_ERROR_H
#define MX_ERROR_H

#include "myriexpress.h"

enum {
	MXI_SENTENCE_MAX = 768
}; /* bytes of what a handler is told, its NUL included: one of Thole's sentences and some words */

/* Tell the handler, which is the endpoint's, or where that is NULL the process's, what was done, as
 * by printf, and which error it ended with. Returns what the handler returns: with the handler that
 * is set at first never. A handler is the program's: the caller holds no lock. MX_SUCCESS is not
 * told. */
mx_return_t mxi_error(mx_error_handler_t handler, mx_return_t code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif /* MX_ERROR_H */
