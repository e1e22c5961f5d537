/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * qp: queue pairs as libibverbs has them, reliable and connected: how one is made, named to the peer's adapter, and
 * taken from state to state. Owns what they are set to, and the layout of their names. Nothing is kept here: who has a
 * pair, what is posted to it, and when it may be destroyed is its owner's (nic_verbs.c). Pairs of iWARP adapters are
 * named and connected by ties (iwarp.c).
 */
#ifndef THOLE_TRANSPORT_VERBS_QP_H
#define THOLE_TRANSPORT_VERBS_QP_H

#include "transport/verbs/context.h"

/* Whether there are any, and what only a pair can tell: the limits' inline_max, and NIC_ORDERED. False: there are none,
 * and errno says why. */
bool qp_probe(struct context *context);
/* `owner` is told with its events. It takes nothing yet, but can be connected. NULL: none, and errno says why. */
struct ibv_qp *qp_new(const struct context *context, void *owner);
/* NULL: nothing. False: the adapter may go on to reach memory through it. */
bool qp_destroy(const struct context *context, struct ibv_qp *qp);
/* sequence: of its first packet. */
void qp_name(const struct context *context, const struct ibv_qp *qp, uint32_t sequence, struct nic_name *name_p);
/* It takes what the peer sends, and can be posted to. This takes as long as the kernel takes to find the peer's
 * Ethernet address: nothing, where it has just been spoken to, as it has by who told us its name. Errors: ADDRESS,
 * SYSTEM. */
int qp_connect(const struct context *context, struct ibv_qp *qp, uint32_t sequence, const struct nic_name *peer);
/* To the error state: what was posted is flushed. If that fails the device is gone, or the pair. */
void qp_stop(const struct context *context, struct ibv_qp *qp);

#endif
