/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What went wrong, in words.
 *
 * Owns each thread's sentence about its last failure (thole_detail) and the short phrases of
 * thole_strerror. The sentence says which thing had which value, what is allowed, and the remedy.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include "thole.h"

enum { ERROR_DETAIL_MAX = 512 }; /* bytes of a sentence, its NUL included; longer ones are cut */

/* Set this thread's sentence, as by printf, and return code, so that a failing function ends with
 * "return error_set(...)". errno is kept, and %m prints it. */
int error_set(int code, const char *format, ...) __attribute__((cold, format(printf, 2, 3)));

/* Put a text before this thread's sentence, for a caller that knows more of the circumstances
 * ("/etc/file, line 3: "). Returns code. */
int error_prefix(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Keep this thread's sentence while something is tried whose failure is forgiven: the program's call has not failed. */
void error_save(char kept[ERROR_DETAIL_MAX]);
void error_restore(const char kept[ERROR_DETAIL_MAX]);

#endif /* BASE_ERROR_H */
