/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * liveness: whether a silent process lives. First the process is asked, by datagrams, which a thread of it answers
 * while its program computes (responder.h). Where no answer comes its host is asked, by a TCP connection to the port of
 * its records. The kernel there accepts that for a process that is stopped, and refuses it where nobody has the port;
 * a host that is no more leaves it unanswered.
 *
 * Owns the sockets of the questions that are being asked. Nothing is ever sent over a connection. Invariant: a
 * question has at most two sockets for as long as it is asked, however often, so that who says nothing for long is not
 * flooded.
 */
#ifndef THOLE_TRANSPORT_DATAGRAM_LIVENESS_H
#define THOLE_TRANSPORT_DATAGRAM_LIVENESS_H

#include "transport/datagram/interface.h"

enum liveness_limits {
	QUESTIONS_MAX = 256,            /* asked at a time: each is one descriptor or two */
	QUESTION_NS_MIN = 1000000000,   /* where there are more, one makes room after so long */
	QUESTION_AGAIN_NS = 100000000,  /* between two datagrams of a question */
	QUESTION_DIAL_NS = 1000000000,  /* between two connections of a question */
	QUESTION_FRESH_MS = 2500,       /* a connection says something about now if its host was heard of since */
};

struct question {
	struct path to;
	uint64_t endpoint, key, number;
	uint64_t since_ns, asked_ns;    /* the question; its last datagram */
	uint64_t dialled_ns, held_ns;   /* its last connection; when the host last showed that it has the port */
	int datagram, stream;           /* -1: none */
	bool made;                      /* the connection is */
};

struct liveness {
	uint32_t interface;             /* its index, for link-local addresses */
	const uint8_t *own;             /* the address that we ask from, as frames come from it */
	unsigned count, next;
	struct question questions[QUESTIONS_MAX];
};

/* link->liveness and link->liveness_end. */
enum link_liveness liveness_ask(struct liveness *liveness, const struct path *to, uint64_t key, uint64_t endpoint,
				uint64_t now_ns);
void liveness_forget(struct liveness *liveness, const struct path *to);
void liveness_close(struct liveness *liveness);

#endif
