/* SPDX-License-Identifier: BSD-3-Clause */
/* hostile.h - one run of the hostile peer; see hostile.c. Aborts where the victim does not live up to its promise. */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <stddef.h>
#include <stdint.h>

/* The bytes are the program of the run: the same bytes, the same run. */
void hostile_run(const uint8_t *data, size_t size);

#endif /* HOSTILE_H */
