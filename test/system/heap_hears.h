/* SPDX-License-Identifier: BSD-3-Clause */
/* What the last call has told those who hear of a program's memory (heap_hears.c). */
#ifndef HEAP_HEARS_H
#define HEAP_HEARS_H

#include <stddef.h>

struct heard {
	const char *call; /* NULL: none */
	void *address;
	size_t length;
	int how; /* flags, rights or advice */
};

extern struct heard heard;

#endif /* HEAP_HEARS_H */
