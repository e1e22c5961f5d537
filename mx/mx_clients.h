/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mx_clients - who has asked for an endpoint: from addresses of Thole to the names of MX behind
 * them.
 *
 * A table for one entry of the directory, found by hashing, that grows up to a bound; beyond it the
 * one that was added first makes room. Knows no lock.
 */
#ifndef MX_CLIENTS_H
#define MX_CLIENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "thole.h"

enum { MXI_CLIENTS_MAX = 16384 }; /* 64 hosts with all of their endpoints; 1.5 MiB */

/* An endpoint as MX names it, and which opening of it. */
struct mxi_identity {
	uint64_t nic_id; /* of its board; 0: not known */
	uint32_t endpoint_id, session;
};

struct mxi_client; /* a row; in mx_clients.c */

struct mxi_clients {
	struct mxi_client *rows; /* its own; NULL: none yet */
	uint32_t *heads;         /* as many as there is room for: the first row of each hash, or client_none */
	uint32_t count, room;    /* rows in use, and how many there is memory for */
	uint64_t key[2];         /* of the hash: who may ask cannot choose addresses that all have the same */
	uint32_t oldest;         /* the next to make room once count is MXI_CLIENTS_MAX */
};

void mxi_clients_open(struct mxi_clients *clients);
void mxi_clients_close(struct mxi_clients *clients);

/* Remember, in place of what was known of that address. THOLE_ERR_MEMORY. */
int mxi_clients_add(struct mxi_clients *clients, const struct thole_address *address,
		    const struct mxi_identity *identity);

bool mxi_clients_find(const struct mxi_clients *clients, const struct thole_address *address,
		      struct mxi_identity *identity_p);

#endif /* MX_CLIENTS_H */
