/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_query - questions for endpoints. Each attempt decides anew where to ask, by what is known
 * then: the name inside this host, the address of the board's host, all hosts at once. Attempts
 * repeat, ever slower, until there is an answer or the deadline; what is lost on the way, or finds
 * a full socket, is so made up for.
 *
 * Knows no lock and no thread: the directory has the list of those under way, and calls.
 */
#ifndef MX_QUERY_H
#define MX_QUERY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "mx_entry.h"
#include "mx_notice.h"
#include "mx_world.h"
#include "myriexpress.h"
#include "thole.h"

/* A question for another endpoint, or the same. */
struct mxi_query {
	/* Set by the caller. */
	struct mxi_entry *from; /* is published */
	uint64_t nic_id;
	uint32_t endpoint_id, key; /* with nic_id: whom it is for, and what it shall hear */
	uint64_t deadline_ns;      /* by CLOCK_MONOTONIC; UINT64_MAX: never */

	/* Results. Nonzero done was stored with release: load_acquire it before the others. */
	int done;
	/* SUCCESS, BAD_ENDPOINT (no such number exists), ENDPOINT_CLOSED, BAD_KEY, ENDPOINT_UNREACHABLE (its host is
	 * known and does not answer), ENDPOINT_UNKNOWN (nobody knows its host) */
	mx_status_code_t status;
	uint32_t session;
	struct thole_address address; /* of its Thole endpoint, where status is SUCCESS */

	/* Of this file and the directory. */
	struct list_node node; /* of all queries under way, or alone */
	uint64_t token;        /* what its answer repeats */
	uint64_t next_ns;      /* when to ask again */
	uint64_t pause_ns;     /* until the time after that */
	uint32_t attempts;     /* how often it was asked */
	bool found;            /* the host is known */
};

/* All but what the caller has set. */
void mxi_query_init(struct mxi_query *query);

/* Begin; it may be done on return. Returns when it is due again; UINT64_MAX: it is done, and no
 * longer ours. */
uint64_t mxi_query_start(struct list_node *queries, struct mxi_query *query, const struct mxi_world *world);

/* Ask again, give up: what is due. Returns when the rest is due; UINT64_MAX: never. */
uint64_t mxi_query_run(struct list_node *queries, const struct mxi_world *world);

/* An ANSWER has come, or a CONNECT has come back. */
void mxi_query_answered(struct list_node *queries, const struct mxi_notice *notice);
void mxi_query_refused(struct list_node *queries, const struct mxi_notice *notice);

/* Where a board is has become known. */
void mxi_query_found(struct list_node *queries, const struct mxi_world *world, uint64_t nic_id);

#endif /* MX_QUERY_H */
