/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/counters.h"

#include "base/error.h"
#include "thole.h"

#define COUNTER_ROW(id, name, help) {name, help},
static const struct thole_counter_info counter_rows[] = {COUNTER_TABLE(COUNTER_ROW)};
#undef COUNTER_ROW

_Static_assert(sizeof(counter_rows) / sizeof(counter_rows[0]) == COUNTER_COUNT, "one row a counter");

int thole_counter_info(unsigned index, struct thole_counter_info *info_p)
{
	if (index >= COUNTER_COUNT)
		return error_set(THOLE_ERR_NOT_FOUND, "counter number %u: there are %d", index, COUNTER_COUNT);
	*info_p = counter_rows[index];
	return 0;
}
