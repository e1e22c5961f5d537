/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iwarp: how queue pairs of an iWARP adapter are connected, by rdma_cm: the kernel makes a TCP connection for each, and
 * hands it to the adapter. Owns the events of one adapter's connections and its listener, and of each queue a tie. It
 * neither makes nor ends queue pairs (qp.c), and knows them by their numbers.
 *
 * A tie's name has the address and port of its adapter's listener, and a token: 128 random bits that are told to the
 * peer alone. Of two ties the one with the lower token asks, so attempts do not cross. The request has both tokens. A
 * request whose token is none of ours, or has come already, is refused at once. One that comes before we were told of
 * who asks waits, for iwarp_tie_connect: one a tie.
 *
 * Who asks is told when the tie is up, and has to send first: by RFC 5044 the other end may not before.
 */
#ifndef THOLE_TRANSPORT_VERBS_IWARP_H
#define THOLE_TRANSPORT_VERBS_IWARP_H

#include "transport/verbs/nic.h"

struct iwarp;
struct iwarp_tie;

struct iwarp_setup {
	const char *device;    /* the adapter's name: rdma_cm has to find the same one by the address */
	uint8_t address[16];   /* IPv6, or IPv4 in that */
	uint8_t reads;         /* that one of our queues may have under way, */
	uint8_t peer_reads;    /* and that its peer may */
};

enum iwarp_news {
	IWARP_NOTHING,
	IWARP_CONNECTED, /* the tie is up, and may send */
	IWARP_BROKEN,    /* it will not be, or is no more */
	IWARP_GONE,      /* the device is */
};

/* Whether there is what that takes; says why not by error_set. */
bool iwarp_is_here(void);
/* Errors: UNSUPPORTED, MEMORY, SYSTEM. */
int iwarp_open(const struct iwarp_setup *setup, struct iwarp **iwarp_p);
/* All ties are freed. NULL: nothing. */
void iwarp_close(struct iwarp *iwarp);
/* The adapter has another address. Without a listener, where this fails, there are no new ties. Errors: SYSTEM. */
int iwarp_move(struct iwarp *iwarp, const uint8_t address[16]);
/* A descriptor that is readable when there is news. */
int iwarp_fd(const struct iwarp *iwarp);
/* Whether news is to be asked for soon, by whoever does not sleep. */
bool iwarp_is_due(const struct iwarp *iwarp);
/* The next thing that has happened, to whose tie. */
enum iwarp_news iwarp_next(struct iwarp *iwarp, void **owner_p);

/* Errors: MEMORY, SYSTEM (there is no listener). */
int iwarp_tie_new(struct iwarp *iwarp, uint32_t pair_number, void *owner, struct iwarp_tie **tie_p,
		   struct nic_name *name_p);
/* Begin to connect. With a software adapter this waits for the peer's host to answer. Errors: ADDRESS, SYSTEM. */
int iwarp_tie_connect(struct iwarp_tie *tie, const struct nic_name *peer);
/* Its pair is in the error state: there is no more news of it. */
void iwarp_tie_stop(struct iwarp_tie *tie);
/* Whether nothing of it is under way in the kernel, which else would have its pair's end wait. */
bool iwarp_tie_is_over(const struct iwarp_tie *tie);
/* Before its pair is destroyed. NULL: nothing. */
void iwarp_tie_free(struct iwarp_tie *tie);

#endif
