/* SPDX-License-Identifier: BSD-3-Clause */
#include "costs.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	size_t at;
} costs_names[] = {
	{"pin", offsetof(struct costs, pin)},
	{"pin_page", offsetof(struct costs, pin_page)},
	{"unpin", offsetof(struct costs, unpin)},
	{"unpin_page", offsetof(struct costs, unpin_page)},
	{"call", offsetof(struct costs, call)},
	{"wake", offsetof(struct costs, wake)},
	{"move", offsetof(struct costs, move)},
	{"block", offsetof(struct costs, block)},
	{"scattered", offsetof(struct costs, scattered)},
	{"unaligned", offsetof(struct costs, unaligned)},
};

static bool costs_number(const char **words, uint64_t *value_p)
{
	char *end;

	if (**words < '0' || **words > '9')
		return false;
	errno = 0;
	*value_p = strtoull(*words, &end, 10);
	*words = end;
	return errno == 0;
}

/* BYTES:RATE, once for each level, the last with 0 bytes: all that is longer. */
static bool costs_copy(const char **words, struct costs *costs)
{
	uint64_t bytes, rate;
	unsigned level = 0;

	while (level < NIC_LEVELS && costs->copy[level].rate)
		level++;
	if (level == NIC_LEVELS || !costs_number(words, &bytes) || *(*words)++ != ':' || !costs_number(words, &rate) ||
	    rate == 0 || rate > UINT32_MAX)
		return false;
	costs->copy[level] = (struct nic_level){.bytes = bytes ? bytes : UINT64_MAX, .rate = (uint32_t)rate};
	return true;
}

static bool costs_word(const char **words, struct costs *costs)
{
	size_t length = strcspn(*words, "=");
	const char *name = *words;

	if (name[length] != '=')
		return false;
	*words += length + 1;
	if (length == 4 && memcmp(name, "copy", 4) == 0)
		return costs_copy(words, costs);
	for (size_t i = 0; i < sizeof(costs_names) / sizeof(*costs_names); i++) {
		uint64_t value;

		if (strlen(costs_names[i].name) != length || memcmp(costs_names[i].name, name, length) != 0)
			continue;
		if (!costs_number(words, &value))
			return false;
		memcpy((char *)costs + costs_names[i].at, &value, sizeof(value));
		return true;
	}
	return false;
}

bool costs_parse(const char *words, struct costs *costs)
{
	*costs = (struct costs){0};
	for (;; words++) {
		if (!costs_word(&words, costs))
			return false;
		if (*words != ',')
			return *words == 0;
	}
}

struct costs costs_argument(int *argc_p, char ***argv_p, bool *there_p)
{
	struct costs costs = {0};

	*there_p = *argc_p > 2 && strcmp((*argv_p)[1], "--costs") == 0;
	if (!*there_p)
		return costs;
	if (!costs_parse((*argv_p)[2], &costs)) {
		fprintf(stderr, "--costs %s: a name that is not known, or no number\n", (*argv_p)[2]);
		exit(2);
	}
	*argc_p -= 2;
	*argv_p += 2;
	return costs;
}
