/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_ending - how operations end: by Thole's completion, by their deadline, with their peer,
 * because the program gives them up. Under the endpoint's lock.
 */
#ifndef MX_ENDING_H
#define MX_ENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "mx_request.h"
#include "thole.h"

/* Of the endpoint's Thole endpoint; arg: the struct mx_endpoint. */
thole_complete_fn mxi_ending_completed;
/* What Thole still has of a request. True: nothing; what the operation does from now on concerns
 * nobody. */
bool mxi_ending_withdraw(struct mx_endpoint *endpoint, union mx_request *request);
/* Time out whose time has come. */
void mxi_ending_expire(struct mx_endpoint *endpoint, uint64_t now_ns);
/* The end of all sends and connects to a peer that is being disconnected. */
void mxi_ending_of_peer(struct mx_endpoint *endpoint, const struct mxi_peer *peer);

#endif /* MX_ENDING_H */
