/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_directory - how an endpoint of MX, a NIC id and a number, is found and becomes the address of
 * an endpoint of Thole.
 *
 * One per process. Owns the names by which this process's endpoints are found (a Unix socket inside
 * the host, a UDP port for other hosts), the questions under way, and one thread, there as long as
 * an endpoint is published, that sleeps in the kernel until a datagram or a timer wakes it. What
 * the datagrams look like is in mx_notice.h.
 *
 * Any thread may call anything. No call waits for a peer. A forked child has an empty directory,
 * and its parent's entries are not its own.
 */
#ifndef MX_DIRECTORY_H
#define MX_DIRECTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "mx_entry.h"
#include "mx_query.h"
#include "myriexpress.h"
#include "thole.h"

/* Take a number on a board for this process until it is withdrawn or the process ends, however it
 * ends. Sets all of *entry: what its endpoint sets comes after. Others that ask wait until it is
 * published. MX_BAD_ENDPOINT_ID: over MXI_ENDPOINT_ID_MAX; MX_BUSY: taken on this host;
 * MX_NO_RESOURCES. Each with a sentence (error_set). */
mx_return_t mxi_directory_claim(struct mxi_entry *entry, const struct mxi_board *board, uint32_t endpoint_id);

/* From now on it answers. MX_NO_RESOURCES. */
mx_return_t mxi_directory_publish(struct mxi_entry *entry);

/* End the claim, whether it was published or not. Queries from it are done or canceled by now.
 * Waits for a call of counters that is under way: the caller holds no lock that counters takes.
 * Does nothing for an entry that is not claimed. */
void mxi_directory_withdraw(struct mxi_entry *entry);

/* The first half of it: no directory's thread looks at the entry any more, but the place is still
 * its own. */
void mxi_directory_retire(struct mxi_entry *entry);

/* Start; it may be done on return. Sets all but what the caller sets. */
void mxi_directory_ask(struct mxi_query *query);

/* End it: from now on it is not touched. False: it was done before. */
bool mxi_directory_cancel(struct mxi_query *query);

/* Who it is that has this address of Thole: known if he has asked for this entry, and before he has
 * the answer. */
bool mxi_directory_who(struct mxi_entry *entry, const struct thole_address *address, struct mxi_identity *identity_p);

#endif /* MX_DIRECTORY_H */
