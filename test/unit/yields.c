/* SPDX-License-Identifier: BSD-3-Clause */
/* A library's call of sched_yield, under the name that the build gives it. */
#include <sched.h>

__attribute__((visibility("default"))) int YIELDS(void);

int YIELDS(void)
{
	return sched_yield();
}
