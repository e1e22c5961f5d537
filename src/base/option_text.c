/* SPDX-License-Identifier: BSD-3-Clause */
/* option_text: see option_text.h. */
#include "base/option_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
	const char *name;
	uint64_t size;
};

/* From the largest, for printing; the rest of the spellings are for reading. */
/* clang-format off */
static const struct unit size_units[] = {
	{"g", UINT64_C(1) << 30}, {"m", 1 << 20}, {"k", 1 << 10}, {"", 1},
	{"gib", UINT64_C(1) << 30}, {"mib", 1 << 20}, {"kib", 1 << 10}, {"b", 1},
	{"t", UINT64_C(1) << 40}, {NULL, 0},
};
static const struct unit time_units[] = {
	{"s", 1000000000}, {"ms", 1000000}, {"us", 1000}, {"ns", 1}, {"", 1}, {NULL, 0},
};
/* clang-format on */

static const struct unit *units_of(enum option_kind kind)
{
	return kind == OPTION_NS ? time_units : size_units;
}

/* The name of choice number index, and its length; NULL if there are fewer. */
static const char *choice_at(const char *choices, uint64_t index, size_t *length_p)
{
	for (; index > 0; index--) {
		choices = strchr(choices, ',');
		if (!choices)
			return NULL;
		choices++;
	}
	*length_p = strcspn(choices, ",");
	return choices;
}

static bool choice_parse(const char *choices, const char *text, uint64_t *value_p)
{
	size_t length;
	const char *choice;

	for (uint64_t i = 0; (choice = choice_at(choices, i, &length)) != NULL; i++) {
		if (strlen(text) == length && strncasecmp(choice, text, length) == 0) {
			*value_p = i;
			return true;
		}
	}
	return false;
}

static bool bool_parse(const char *text, uint64_t *value_p)
{
	static const char names[] = "off,on,no,yes,0,1,false,true";
	uint64_t index;

	if (!choice_parse(names, text, &index))
		return false;
	*value_p = index & 1; /* the names alternate */
	return true;
}

/* Hexadecimal digits, behind 0x. */
static bool hexadecimal_parse(const char *text, uint64_t *value_p)
{
	size_t length = strlen(text);

	if (length == 0 || length > 16 || strspn(text, "0123456789abcdefABCDEF") != length)
		return false;
	*value_p = strtoull(text, NULL, 16);
	return true;
}

static bool option_text_number(const struct unit *units, const char *text, uint64_t *value_p)
{
	const struct unit *unit = units;
	uint64_t number = 0;

	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		return hexadecimal_parse(text + 2, value_p);
	if (*text < '0' || *text > '9')
		return false;
	for (; *text >= '0' && *text <= '9'; text++)
		if (__builtin_mul_overflow(number, UINT64_C(10), &number) ||
		    __builtin_add_overflow(number, (uint64_t)(*text - '0'), &number))
			return false;
	while (*text == ' ')
		text++;
	while (unit->name && strcasecmp(unit->name, text) != 0)
		unit++;
	return unit->name && !__builtin_mul_overflow(number, unit->size, value_p);
}

bool option_text_parse(const struct option_row *row, const char *text, uint64_t *value_p)
{
	switch (row->kind) {
	case OPTION_BOOL:
		return bool_parse(text, value_p);
	case OPTION_CHOICE:
		return choice_parse(row->choices, text, value_p);
	case OPTION_KEY:
		if (strcasecmp(text, OPTION_KEY_FILE) == 0 || strcasecmp(text, "none") == 0) {
			*value_p = 0;
			return true;
		}
		break;
	case OPTION_TEXT: /* whoever sets it takes it as it is */
		return strlen(text) < OPTION_TEXT_MAX;
	case OPTION_BYTES:
	case OPTION_NS:
	case OPTION_COUNT_OF:
		break;
	}
	return option_text_number(units_of(row->kind), text, value_p) && *value_p >= row->min &&
	       *value_p <= row->max;
}

void option_text_print(const struct option_row *row, uint64_t value, char text[OPTION_NUMBER_MAX])
{
	const struct unit *unit = units_of(row->kind);
	const char *choice;
	size_t length;

	switch (row->kind) {
	case OPTION_BOOL:
		snprintf(text, OPTION_NUMBER_MAX, "%s", value ? "on" : "off");
		return;
	case OPTION_CHOICE:
		choice = choice_at(row->choices, value, &length);
		snprintf(text, OPTION_NUMBER_MAX, "%.*s", choice ? (int)length : 0,
			 choice ? choice : "");
		return;
	case OPTION_KEY:
		snprintf(text, OPTION_NUMBER_MAX, "%s", value ? "hidden" : "0");
		return;
	case OPTION_COUNT_OF:
		snprintf(text, OPTION_NUMBER_MAX, "%llu", (unsigned long long)value);
		return;
	case OPTION_TEXT:
	case OPTION_BYTES:
	case OPTION_NS:
		break;
	}
	if (value == 0) {
		snprintf(text, OPTION_NUMBER_MAX, "0");
		return;
	}
	while (value % unit->size != 0)
		unit++;
	snprintf(text, OPTION_NUMBER_MAX, "%llu%s", (unsigned long long)(value / unit->size),
		 unit->name);
}

void option_text_allowed(const struct option_row *row, char *text, size_t size)
{
	char min[OPTION_NUMBER_MAX], max[OPTION_NUMBER_MAX];

	if (row->kind == OPTION_BOOL) {
		snprintf(text, size, "on or off");
		return;
	}
	if (row->kind == OPTION_CHOICE) {
		snprintf(text, size, "one of %s", row->choices);
		return;
	}
	if (row->kind == OPTION_TEXT) {
		snprintf(text, size, "a text of at most %d bytes", OPTION_TEXT_MAX - 1);
		return;
	}
	if (row->kind == OPTION_KEY) {
		snprintf(text, size, "a number of 64 bits, decimal or behind 0x hexadecimal, or file or none");
		return;
	}
	option_text_print(row, row->min, min);
	option_text_print(row, row->max, max);
	snprintf(text, size, "%s from %s to %s",
		 row->kind == OPTION_NS      ? "a time (number with ns, us, ms or s)"
		 : row->kind == OPTION_BYTES ? "a size (number, or number with k, m or g)"
					     : "a number",
		 min, max);
}
