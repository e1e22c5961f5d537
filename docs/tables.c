/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tables: prints the tables of options and counters for generate.py, one row a line, fields
 * separated by tabs. The library itself is asked, so that the reference cannot say anything else
 * than what the code does.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/options.h"
#include "thole.h"

/* "yes" if an open endpoint accepts a new value. */
static const char *running(const struct thole_option_info *info)
{
	static struct options options;

	return options_set(&options, info->name, info->fallback, true) == THOLE_ERR_BUSY ? "no"
	                                                                                 : "yes";
}

int main(void)
{
	struct thole_option_info option;
	struct thole_counter_info counter;

	for (unsigned i = 0; thole_option_info(i, &option) == 0; i++)
		printf("option\t%s\t%s\t%s\t%s\t%" PRIu64 "\t%" PRIu64 "\t%s\t%s\n", option.name,
		       option.kind, option.fallback, option.choices, option.min, option.max,
		       running(&option), option.help);
	for (unsigned i = 0; thole_counter_info(i, &counter) == 0; i++)
		printf("counter\t%s\t%s\n", counter.name, counter.help);
	printf("version\t%s\n", thole_version());
	return ferror(stdout) != 0;
}
