/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_entry - an open endpoint of MX as others find it: an entry of the directory, which owns it
 * from its claim to its withdrawal.
 */
#ifndef MX_ENTRY_H
#define MX_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/wake.h"
#include "mx_clients.h"
#include "mx_board.h"
#include "mx_notice.h"
#include "thole.h"

enum {
	MXI_ENDPOINT_ID_MAX = 255, /* as in the frames of MXoE */
};

/* An open endpoint of MX as others find it. */
struct mxi_entry {
	/* Set by its endpoint before it is published, and constant from then on; nic_id and
	 * endpoint_id by the claim. */
	uint64_t nic_id;
	uint32_t endpoint_id, key, session;
	struct thole_address address; /* of its Thole endpoint */
	struct wake *wake;            /* raised when a query of this entry is done; NULL: nobody waits */
	/* Fill the first count values of thole_counters; NULL: unknown. Called by the directory's
	 * thread without a lock. */
	void (*counters)(struct mxi_entry *entry, uint64_t *values, size_t count);

	/* How many queries of this entry are done so far: incremented (release) before wake is
	 * raised. */
	uint32_t answers;

	/* The directory's own. */
	struct list_node node;             /* of all claimed entries */
	struct mxi_board board;            /* where it is */
	struct mxi_clients clients;        /* who was told its address */
	int unix_fd, udp_fd;               /* -1: none */
	bool claimed, published, counting; /* it is ours; answers; its counters are asked for */
};

/* How many counters an endpoint has, of those that a notice has room for. */
static inline unsigned mxi_entry_counters_count(void)
{
	struct thole_counter_info info;
	unsigned count = 0;

	while (count < MXI_NOTICE_COUNTERS_MAX && thole_counter_info(count, &info) == 0)
		count++;
	return count;
}

#endif /* MX_ENTRY_H */
