/* SPDX-License-Identifier: BSD-3-Clause */
#include "counted.h"

#include <stdio.h>

enum {
	COUNTERS_MAX = 128, /* more than there are */
	LINE_BYTES = 128    /* a name and a number */
};

void counted_tell(struct thole_endpoint *endpoint, void (*say)(const char *line))
{
	uint64_t values[COUNTERS_MAX];
	struct thole_counter_info info;
	char line[LINE_BYTES];
	int count = thole_counters(endpoint, values, COUNTERS_MAX);

	for (int i = 0; i < count && i < COUNTERS_MAX; i++) {
		if (!values[i] || thole_counter_info((unsigned)i, &info))
			continue;
		snprintf(line, sizeof line, "counter %s %llu", info.name, (unsigned long long)values[i]);
		say(line);
	}
}
