/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nack: how native endpoints say that what a frame named does not exist, and which of that is believed.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_NACK_H
#define THOLE_TRANSPORT_DATAGRAM_NACK_H

#include "transport/datagram/engine.h"

enum { NACK_NS = 1000000 }; /* at most one NACK each so often, whoever asks for it */

/* From nobody in particular: one without a tag. */
void nack_arrived(struct engine *engine, struct link *link, const struct path *from, const struct packet *packet);
/* Say that what a frame named does not exist here. */
void nack_send(struct engine *engine, struct link *link, const struct path *to, enum nack_reason reason, uint64_t refused);
/* Say that the window of a PULL is not there. */
void nack_peer(struct connection *connection, uint64_t transfer);

#endif
