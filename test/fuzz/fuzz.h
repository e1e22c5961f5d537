/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz: what a target of the fuzzers gives: one run, which aborts where a promise is broken. Targets are hostile.c (a
 * whole endpoint beside a hostile peer), codec.c (frames) and engine.c (frames into live endpoints). seeded.c and
 * fuzzer.c run any of them.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* The bytes are the program of the run: the same bytes, the same run. */
void fuzz_run(const uint8_t *data, size_t size);

#endif /* FUZZ_H */
