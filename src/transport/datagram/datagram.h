/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * datagram: the transport between hosts, as endpoints see it (datagram_transport). It owns the engine and all that is
 * impure about it: which links are opened (datagram_links.c), the clock, randomness, sleeping. What is said over the
 * links is the engine's.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_DATAGRAM_H
#define THOLE_TRANSPORT_DATAGRAM_DATAGRAM_H

#include "base/forked.h"
#include "transport/datagram/engine.h"
#include "transport/datagram/interface.h"
#include "transport/transport.h"

struct datagram {
	struct engine engine;
	struct transport_owner *owner;
	struct watcher watcher;     /* of all links' descriptors */
	uint32_t polls;             /* at the network */
	uint32_t fruitless;         /* at links that are not cheap, since one found something */
	uint32_t quiet;             /* polls since anything came or went, as far as they are counted */
	uint64_t watch_ns;          /* when to find whom receives wait for */

	/* datagram_links.c */
	struct interface interface; /* that the links use */
	int number_fd;              /* mxoe: holds this endpoint's number; else -1 */
	struct forked forked;       /* of it */
	unsigned later;             /* bits: rows of the table of links that are opened when a peer is known */
};

static inline struct datagram *datagram_of(const struct transport_owner *owner)
{
	return owner->state[TRANSPORT_DATAGRAM];
}

/* ---- datagram_links.c ------------------------------------------------------------------------------- */

/* Those that the options ask for. The endpoint's address is in its owner's parts then. Also where this fails some may
 * be open. Errors: ACCESS, ADDRESS, ARGUMENT, BUSY, MEMORY, SYSTEM, UNSUPPORTED. */
int datagram_links_open(struct datagram *datagram);
/* Those that wait for a first peer, once there is one; what cannot be opened is counted. */
void datagram_links_later(struct datagram *datagram);
void datagram_links_close(struct datagram *datagram);

/* ---- datagram.c ------------------------------------------------------------------------------------- */

/*
 * The simulator's way to give an endpoint of endpoint_create its network: no socket is opened. The links are open and
 * stay their owner's until their `close` is called, at the end; each link's engine, index and counters are set here.
 * random draws sessions and the like. Errors: MEMORY.
 */
int datagram_attach(struct transport_owner *owner, const struct codec *codec, struct link *const *links, unsigned count,
		    void (*random)(void *arg, void *bytes, size_t length), void *random_arg);

#endif
