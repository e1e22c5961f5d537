/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mover_driver: the driver in the kernel as a link's mover. See mover_driver.c.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_MOVER_DRIVER_H
#define THOLE_TRANSPORT_DATAGRAM_MOVER_DRIVER_H

#include "memory/driver.h"
#include "transport/datagram/engine.h"
#include "transport/datagram/mover.h"

/* Fill in how a peer is reached by this link, and what its frames are. */
typedef void mover_driver_name(const struct link *link, const struct mover_peer *peer,
			       struct thole_driver_connection *wanted);

/* Give the link a mover. Errors (SYSTEM, MEMORY; without a sentence): it goes without. */
int mover_driver_open(struct link *link, struct transport_owner *owner, mover_driver_name *name);
/* When the driver forgets all of its connections, or has; of a link that has none, too. */
void mover_driver_close(struct link *link);

#endif
