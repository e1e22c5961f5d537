/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * prov_error.h - Thole's errors in libfabric's words. One table, and one exception to it; nothing
 * else translates.
 */
#ifndef PROV_ERROR_H
#define PROV_ERROR_H

#include <stddef.h>
#include <stdint.h>

#include "prov_compat.h"

/* Positive FI_E* of a THOLE_ERR_*; 0 of none. */
int prov_error_of(int status);

/* What a queue says of an operation that has failed, at an endpoint with these capabilities. */
int prov_error_entry(uint64_t caps, int status);

/* What a queue's strerror says of a THOLE_ERR_*: a phrase, and a copy of it in `buffer` if there is one. */
const char *prov_error_text(int status, char *buffer, size_t length);

/* Negative FI_E* of a Thole call's failure. What the kernel has refused goes to the log by its name: FI_EIO says
 * nothing of it. */
int prov_error_failed(int status) __attribute__((cold));

/* 0 or negative FI_E* of a Thole call's return. */
static inline int prov_error_result(int status)
{
	return __builtin_expect(status >= 0, 1) ? 0 : prov_error_failed(status);
}

#endif /* PROV_ERROR_H */
