/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vectors: whether vector instructions may be used here, for code that is compiled into the driver too. Programs always
 * may; the kernel, which has a file of this name of its own, lends their registers.
 */
#ifndef THOLE_BASE_VECTORS_H
#define THOLE_BASE_VECTORS_H

#include <stdbool.h>

/* Between the two they may be used. False: not now, and vectors_end is not called. */
#define vectors_begin() true
#define vectors_end()   ((void)0)

/* Whether the processor has those of this name. */
#define vectors_have(name) __builtin_cpu_supports(name)

#endif
