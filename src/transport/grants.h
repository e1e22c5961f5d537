/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * grants: what an endpoint knows of a peer's regions, so that it puts and gets without that process.
 *
 * Owns them, by their keys and in the order of their last use, not how they come to be known: a transport asks its peer
 * for a region that it has no grant of, and goes by records meanwhile. A grant without access says that this was asked,
 * or that the answer was no.
 */
#ifndef THOLE_TRANSPORT_GRANTS_H
#define THOLE_TRANSPORT_GRANTS_H

#include "base/hash_table.h"
#include "base/list.h"
#include "base/pool.h"
#include "transport/transport.h"

enum {
	GRANTS_MAX = 1024,         /* of one peer; one more takes the place of that which was not used for longest */
	GRANTS_MAPPED_MAX = 32,    /* of one peer, with a mapping: the kernel has 65530 of these for a process */
	GRANTS_IDLE = 1024,        /* uses of others after which a mapping may give its place up */
	GRANTS_ALL_MAX = 1 << 20,  /* of all peers */
};

/* A region where this process has mapped it, too. */
struct grant_mapping {
	void *mapping;   /* NULL: it has not */
	uint64_t mapped; /* bytes, in whole pages */
	char *memory;    /* the region's first byte */
	bool write;
};

struct grant {
	struct list_node node;
	struct hash_node found; /* by its key */
	uint64_t address, length;
	uint64_t by;     /* what the transport needs beside, */
	uint64_t number; /* and that, too */
	unsigned access; /* enum thole_access */
	bool told;       /* the peer has answered */
	uint64_t used;   /* the last of its peer's uses that was of it */
	uint32_t uses;   /* how often it was of use, */
	struct grant_mapping here; /* and what its transport has mapped for that */
};

struct grants {
	struct list_node list; /* longest unused first */
	struct hash_table by_key;
	uint32_t mapped;
	uint64_t uses;         /* of all of them */
};

static inline void grants_init(struct grants *grants)
{
	*grants = (struct grants){.mapped = 0};
	list_init(&grants->list);
}

/* NULL: there is none. */
struct grant *grants_find(struct grants *grants, uint64_t key);
/* One without access yet; NULL without memory. The pool is for grants of all peers. */
struct grant *grants_add(struct grants *grants, struct pool *pool, uint64_t key);
void grants_drop(struct grants *grants, struct pool *pool, struct grant *grant);
void grants_clear(struct grants *grants, struct pool *pool);
/* Whether it is for this access. If so it counts as used. */
bool grants_use(struct grants *grants, struct grant *grant, const struct transport_access *access);
/* Whether one more may be mapped here, perhaps in place of one long unused. Who has mapped it says so. */
bool grants_may_map(struct grants *grants);

static inline void grants_mapped(struct grants *grants)
{
	grants->mapped++;
}

#endif
