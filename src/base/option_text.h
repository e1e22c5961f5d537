/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * option_text: how the value of an option is written: numbers with units, choices, keys; and what is allowed, in words.
 * Pure. Where values come from is the matter of options.c.
 */
#ifndef THOLE_BASE_OPTION_TEXT_H
#define THOLE_BASE_OPTION_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPTION_KEY_FILE "file" /* as the value of a key */

enum option_kind {
	OPTION_BYTES,
	OPTION_NS,
	OPTION_COUNT_OF,
	OPTION_BOOL,
	OPTION_CHOICE,
	OPTION_TEXT, /* some bytes, perhaps none */
	OPTION_KEY   /* a number that is a secret, which nothing prints; "file": that of the user's file; "none": 0 */
};

enum {
	OPTION_NUMBER_MAX = 64, /* bytes of a number or choice as text, its NUL included */
	OPTION_TEXT_MAX = 256   /* bytes of a value as text, its NUL included; paths are among them */
};

/* A row of the table of options (options.h). */
struct option_row {
	const char *name;
	enum option_kind kind;
	const char *fallback;
	uint64_t min, max;
	bool running;
	const char *choices;
	const char *help;
	size_t offset; /* of the value in struct options */
};

/* False if the text is no value of the option. */
bool option_text_parse(const struct option_row *row, const char *text, uint64_t *value_p);

/* Of all kinds but OPTION_TEXT, as option_text_parse reads it; but a key is hidden. */
void option_text_print(const struct option_row *row, uint64_t value, char text[OPTION_NUMBER_MAX]);

/* What option_text_parse accepts, as the end of the sentence "must be ...". */
void option_text_allowed(const struct option_row *row, char *text, size_t size);

#endif
