/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * advice: what would be faster and how, as users are told of it: sentences, a line each. Those that find no room are
 * cut.
 */
#ifndef THOLE_ENDPOINT_ADVICE_H
#define THOLE_ENDPOINT_ADVICE_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct advice {
	char text[1024];
};

__attribute__((format(printf, 2, 3))) static inline void advise(struct advice *advice, const char *format, ...)
{
	size_t length = strlen(advice->text);
	va_list arguments;

	if (length > 0 && length + 1 < sizeof(advice->text))
		advice->text[length++] = '\n';
	va_start(arguments, format);
	vsnprintf(advice->text + length, sizeof(advice->text) - length, format, arguments);
	va_end(arguments);
}

#endif
