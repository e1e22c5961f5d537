/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * liveness: whether a process lives that says nothing. Its endpoint listens on a TCP port, and the kernel of its host answers
 * there while the process computes: a connection that is made and stays says that it lives, a refused or broken one that it
 * does not. Nothing is ever sent over such a connection.
 *
 * Owns the listening socket and the connections of the questions that are being asked. Invariant: a question holds one
 * connection for as long as it is asked, however often, so that who computes for long is not flooded by them.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_LIVENESS_H
#define THOLE_TRANSPORT_DATAGRAM_LIVENESS_H

#include "transport/datagram/interface.h"

enum liveness_limits {
	QUESTIONS_MAX = 256,           /* asked at a time: each is a descriptor */
	QUESTION_NS_MIN = 1000000000,  /* where there are more, one makes room after so long */
	QUESTION_FRESH_MS = 2500,      /* a connection says something about now if its host was heard of since */
	LIVENESS_BACKLOG = 4096,       /* connections that wait for us to look: one for each that asks */
	LIVENESS_ACCEPT_BURST = 64,    /* of them taken at a time */
};

struct question {
	struct path to;
	uint64_t since_ns;
	int fd;
	bool answered; /* the connection is made */
};

struct liveness {
	int listener;
	uint32_t interface; /* its index, for link-local addresses */
	unsigned count, next;
	struct question questions[QUESTIONS_MAX];
};

/* Listen on this address and port. Returns 0, or THOLE_ERR_BUSY if the port is taken; errors: SYSTEM. */
int liveness_open(struct liveness *liveness, uint32_t interface, const struct path *own);
void liveness_close(struct liveness *liveness);
/* Let go who has asked after us. */
void liveness_accept(struct liveness *liveness);
/* link->fate and link->fate_end. */
enum link_fate liveness_ask(struct liveness *liveness, const struct path *to, uint64_t now_ns);
void liveness_forget(struct liveness *liveness, const struct path *to);

#endif
