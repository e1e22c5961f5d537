/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tables: prints the tables of options and counters, and what lies where in shared memory, for generate.py, one row a
 * line, fields separated by tabs. The library itself is asked, so that the reference cannot say anything else
 * than what the code does.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "base/options.h"
#include "thole.h"
#include "transport/record.h"
#include "transport/shm/shm.h"

#define MEMBER(type, member) {#type, #member, offsetof(struct type, member)}

/* generate.py says if one is missing. */
static const struct member {
	const char *type, *name;
	size_t offset;
} members[] = {
	MEMBER(record, stamp),
	MEMBER(record, credit),
	MEMBER(record, kind),
	MEMBER(record, flags),
	MEMBER(record, length),
	MEMBER(record, tag),
	MEMBER(record, imm),
	MEMBER(record, payload),
	MEMBER(record, place),
	MEMBER(record, bytes),
	MEMBER(record, arg),
	MEMBER(segment, magic),
	MEMBER(segment, version),
	MEMBER(segment, fenced),
	MEMBER(segment, accessing),
	MEMBER(segment, asked),
	MEMBER(segment, producer_closed),
	MEMBER(segment, withdrawals),
	MEMBER(segment, withdrawn),
	MEMBER(segment, first),
	MEMBER(segment, consumed),
	MEMBER(segment, handled),
	MEMBER(segment, wake),
	MEMBER(segment, rendezvous_classes),
	MEMBER(segment, learnt_classes),
	MEMBER(segment, accepted),
	MEMBER(segment, core),
	MEMBER(segment, cookie_address),
	MEMBER(segment, cookie),
	MEMBER(segment, consumer_closed),
	MEMBER(segment, slots),
	MEMBER(segment, offers),
	MEMBER(segment, small),
	{"segment", "large", SEGMENT_BASE},
};

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
	for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++)
		printf("member\t%s\t%s\t%zu\n", members[i].type, members[i].name, members[i].offset);
	printf("version\t%s\n", thole_version());
	return ferror(stdout) != 0;
}
