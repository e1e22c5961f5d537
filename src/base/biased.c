/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/biased.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lock.h"

void biased_wait(struct biased *biased)
{
	do {
		store_release(&biased->inside, 0);             /* partner: biased_visit */
		for (unsigned times = 0; load_acquire(&biased->wanted); times++) /* partner: biased_part */
			lock_pause(times);
		store_relaxed(&biased->inside, 1);
		fence_full(); /* here it may be, and so a visitor that comes now needs no luck */
	} while (load_acquire(&biased->wanted));
}

bool biased_prepare(void)
{
	return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

bool biased_visit(struct biased *biased)
{
	store_relaxed(&biased->wanted, 1);
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0 &&
	    !load_acquire(&biased->inside)) /* partner: biased_leave */
		return true;
	store_release(&biased->wanted, 0);
	return false;
}

void biased_part(struct biased *biased)
{
	store_release(&biased->wanted, 0); /* partners: biased_enter, biased_wait */
}
